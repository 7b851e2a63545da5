/* A stand-in for the HIP runtime (libamdhip64.so), for tests only: it runs nothing.
 *
 * It has two devices and keeps what arrives at hipModuleLaunchKernel, for a test to look at. hip-python and ctypes load
 * it as they would the real one. Prototypes, error numbers and the places in hipDeviceProp_t: hip_runtime_api.h (HIP 6,
 * "R0600" properties).
 */
#include <stdint.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500, OUT_OF_MEMORY = 2 };

typedef struct {
  uint64_t function, stream;
  uint32_t grid[3], block[3], shared, size;
  int32_t device, pad;
  unsigned char kernarg[512];
} Launch;

int standin_devices = 2, standin_fail_launch = 0, standin_fail_init = 0, standin_loads = 0, standin_launches = 0;
char standin_arch[64] = "gfx942:sramecc+:xnack-";
Launch standin_launch[64];
static __thread int device = 0;

int hipInit(unsigned flags) { return standin_fail_init; }
int hipGetDeviceCount(int *count) { *count = standin_devices; return SUCCESS; }
int hipGetDevice(int *index) { *index = device; return SUCCESS; }
int hipSetDevice(int index) {
  if (index < 0 || index >= standin_devices) return INVALID_VALUE;
  device = index;
  return SUCCESS;
}
int hipRuntimeGetVersion(int *version) { *version = 70051830; return SUCCESS; }
int hipGetDevicePropertiesR0600(char *properties, int index) {
  int units = 304;
  memset(properties, 0, 1472);
  strcpy(properties, "Stand-in GPU");
  memcpy(properties + 388, &units, 4);
  strcpy(properties + 1160, standin_arch);
  return SUCCESS;
}
/* Memory of device n has n in bits 40 and up of its address. */
int hipPointerGetAttributes(int *attributes, const void *pointer) {
  memset(attributes, 0, 32);
  attributes[0] = 2;
  attributes[1] = (int)((uint64_t)pointer >> 40);
  return attributes[1] < standin_devices ? SUCCESS : INVALID_VALUE;
}
/* A module's handle is 1000 · (device + 1) + its number; a function's is the same with 500000 added. */
int hipModuleLoadData(uint64_t *module, const char *image) {
  if (memcmp(image, "\177ELF", 4)) return INVALID_IMAGE;
  *module = 1000 * (device + 1) + ++standin_loads;
  return SUCCESS;
}
int hipModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
  if (!strcmp(name, "nowhere")) return NOT_FOUND;
  *function = module + 500000;
  return SUCCESS;
}
int hipFuncGetAttribute(int *value, int which, uint64_t function) {
  *value = which == 4 ? 96 : which == 1 ? 8192 : 0; /* registers, LDS */
  return SUCCESS;
}
int hipModuleLaunchKernel(uint64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, uint64_t stream, void **params, void **extra) {
  Launch *to = &standin_launch[standin_launches++ % 64];
  if (params || !extra || (uint64_t)extra[0] != 1 || (uint64_t)extra[2] != 2 || (uint64_t)extra[4] != 3)
    return INVALID_VALUE;
  if (function / 1000 % 100 != (uint64_t)device + 1) return INVALID_HANDLE; /* a module of another device */
  *to = (Launch){function, stream, {gx, gy, gz}, {bx, by, bz}, shared, (uint32_t)*(size_t *)extra[3], device};
  if (to->size > sizeof to->kernarg) return INVALID_VALUE;
  memcpy(to->kernarg, extra[1], to->size);
  return standin_fail_launch;
}
const char *hipGetErrorName(int error) {
  return error == INVALID_IMAGE ? "hipErrorInvalidImage" : error == NOT_FOUND ? "hipErrorNotFound"
       : error == INVALID_HANDLE ? "hipErrorInvalidHandle" : error == OUT_OF_MEMORY ? "hipErrorOutOfMemory"
       : error ? "hipErrorInvalidValue" : "hipSuccess";
}
const char *hipGetErrorString(int error) { return error ? "the stand-in says no" : "no error"; }
