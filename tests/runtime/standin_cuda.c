/* A stand-in for libcuda, for tests of C programs only: it runs nothing. It keeps what arrives at the calls of a launch,
 * for a test to look at. Prototypes and error numbers: the CUDA driver API reference. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { uint32_t grid[3], block[3], shared; uint64_t stream, attributes; uint32_t count; } Config;
typedef struct {
  uint32_t grid[3], block[3], shared, count;
  uint64_t stream, function, context;
  unsigned char attributes[4][72], params[32][128];
  uint32_t aligned; /* whether all parameters of 128 bytes lie on multiples of 64 */
} Launch;
typedef struct {
  int32_t dtype, rank, interleave, swizzle, promotion, fill;
  uint64_t address, dims[5], strides[5];
  uint32_t box[5], steps[5];
} Map;

int standin_version = 12080, standin_major = 9, standin_minor = 0, standin_fail_load = 0, standin_fail_launch = 0;
int standin_fail_map = 0, standin_loads = 0, standin_launches = 0, standin_maps = 0, standin_count = 0, standin_slow = 0;
int standin_sizes[32], standin_shared = 0, standin_large = 0, standin_options[8], standin_option_count = 0;
uint64_t standin_context = 1000, standin_persisting = 0, standin_host = 0;
unsigned char standin_image[1 << 16];
char standin_entry[256];
Launch standin_launch[16];
Map standin_map[16];

static int context(void **out) { *out = (void *)standin_context; return 0; }
static int device(int *out) { *out = (int)(standin_context % 1000); return 0; }
static int attribute(int *value, int which, int of) {
  *value = which == 75 ? standin_major : which == 76 ? standin_minor : which == 109 ? 1 << 20 : which == 108 ? 1 << 24 : -1;
  return of < 0;
}
static int load(void **module, const void *image, unsigned count, int *options, void **values) {
  unsigned i;
  if (standin_slow) usleep(1000 * (unsigned)standin_slow);
  standin_loads++;
  standin_option_count = (int)count;
  for (i = 0; i < count && i < 8; i++) standin_options[i] = options[i];
  for (i = 0; i < count; i++)
    if (options[i] == 5 && standin_fail_load) strcpy((char *)values[i], "ptxas says no");
  memcpy(standin_image, image, 64);
  *module = (void *)(uint64_t)(7000 + standin_loads);
  return standin_fail_load;
}
static int get(void **function, void *module, const char *name) {
  strcpy(standin_entry, name);
  *function = (char *)module + 500;
  return 0;
}
static int set(void *function, int which, int value) {
  if (which == 8) standin_shared = value;
  if (which == 14) standin_large = value;
  return function == 0;
}
static int launch(const Config *config, void *function, void **params, void **extra) {
  Launch *to = &standin_launch[standin_launches++ % 16];
  int i;
  memset(to, 0, sizeof *to);
  memcpy(to->grid, config->grid, 12);
  memcpy(to->block, config->block, 12);
  to->shared = config->shared, to->stream = config->stream, to->count = config->count;
  to->function = (uint64_t)function, to->context = standin_context, to->aligned = 1;
  if (config->count) memcpy(to->attributes, (void *)config->attributes, 72 * config->count);
  for (i = 0; i < standin_count; i++) {
    memcpy(to->params[i], params[i], (size_t)standin_sizes[i]);
    if (standin_sizes[i] == 128 && (uint64_t)params[i] % 64) to->aligned = 0;
  }
  return extra ? 1 : standin_fail_launch;
}
static int name(int status, const char **text) {
  *text = status == 1 ? "CUDA_ERROR_INVALID_VALUE" : status == 218 ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
static int encode(void *map, int dtype, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  Map *to = &standin_map[standin_maps++ % 16];
  uint32_t i;
  memset(to, 0, sizeof *to);
  to->dtype = dtype, to->rank = (int)rank, to->address = (uint64_t)address;
  to->interleave = interleave, to->swizzle = swizzle, to->promotion = promotion, to->fill = fill;
  for (i = 0; i < rank; i++) to->dims[i] = dims[i], to->box[i] = box[i], to->steps[i] = steps[i];
  for (i = 0; i + 1 < rank; i++) to->strides[i] = strides[i];
  memset(map, standin_maps, 128);
  return (uint64_t)map % 64 ? 1 : standin_fail_map;
}
static int host(void **memory, size_t size, unsigned flags) {
  *memory = aligned_alloc(4096, size);
  memset(*memory, 'x', size);
  standin_host = (uint64_t)*memory;
  return flags != 3;
}
static int get_limit(size_t *value, int which) { *value = standin_persisting; return which != 6; }
static int set_limit(int which, size_t value) { standin_persisting = value; return which != 6; }

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
  static const struct { const char *name; void *function; int since; } known[] = {
      {"cuCtxGetCurrent", (void *)context, 4000},         {"cuCtxGetDevice", (void *)device, 2000},
      {"cuDeviceGetAttribute", (void *)attribute, 2000},  {"cuModuleLoadDataEx", (void *)load, 2010},
      {"cuModuleGetFunction", (void *)get, 2000},         {"cuFuncSetAttribute", (void *)set, 9000},
      {"cuLaunchKernelEx", (void *)launch, 11060},        {"cuGetErrorName", (void *)name, 6000},
      {"cuTensorMapEncodeTiled", (void *)encode, 12000},  {"cuMemHostAlloc", (void *)host, 2020},
      {"cuCtxGetLimit", (void *)get_limit, 3010},         {"cuCtxSetLimit", (void *)set_limit, 3010}};
  size_t i;
  *function = 0;
  *status = 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
  for (i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, symbol) && known[i].since <= standin_version && known[i].since <= version) {
      *function = known[i].function;
      *status = 0;
    }
  return flags ? 1 : *function ? 0 : 500;
}
