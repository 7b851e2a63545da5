/* The CUDA driver: types and numbers as in cuda.h, by other names, so that no toolkit is needed. Of the library only
 * cuGetProcAddress_v2 (CUDA 12.0) is linked; it gives the rest. */

typedef struct { unsigned id, pad; union { unsigned char bytes[64]; unsigned cluster[3]; int flag; struct {
  const void *base; size_t size; float ratio; int hit, miss; } window; } value; } mt_attribute;
typedef struct { unsigned grid[3], block[3], shared; void *stream; mt_attribute *attributes; unsigned count; } mt_config;
enum { MT_FUNCTION_SHARED = 8, MT_FUNCTION_LARGE_CLUSTER = 14 };                    /* CUfunction_attribute */
enum { MT_DEVICE_MAJOR = 75, MT_DEVICE_MINOR = 76, MT_DEVICE_PERSISTING = 108, MT_DEVICE_WINDOW = 109 };
enum { MT_JIT_REGISTERS = 0, MT_JIT_ERRORS = 5, MT_JIT_ERRORS_SIZE = 6, MT_JIT_LEVEL = 7, MT_JIT_LINES = 13 };
enum { MT_LIMIT_PERSISTING = 6, MT_LAUNCH_WINDOW = 1, MT_LAUNCH_CLUSTER = 4, MT_LAUNCH_EARLY = 6, MT_LAUNCH_COOPERATIVE = 2 };

MT_C int MT_API cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

static struct {
  int (MT_API *cuCtxGetCurrent)(void **context);
  int (MT_API *cuCtxGetDevice)(int *device);
  int (MT_API *cuDeviceGetAttribute)(int *value, int which, int device);
  int (MT_API *cuModuleLoadDataEx)(void **module, const void *image, unsigned count, int *options, void **values);
  int (MT_API *cuModuleGetFunction)(void **function, void *module, const char *name);
  int (MT_API *cuFuncSetAttribute)(void *function, int which, int value);
  int (MT_API *cuLaunchKernelEx)(const mt_config *config, void *function, void **params, void **extra);
  int (MT_API *cuGetErrorName)(int status, const char **text);
  int (MT_API *cuTensorMapEncodeTiled)(void *map, int dtype, unsigned rank, void *address, const uint64_t *dims,
                                       const uint64_t *strides, const unsigned *box, const unsigned *steps,
                                       int interleave, int swizzle, int promotion, int fill);
  int (MT_API *cuMemHostAlloc)(void **memory, size_t size, unsigned flags);
  int (MT_API *cuCtxGetLimit)(size_t *value, int which);
  int (MT_API *cuCtxSetLimit)(int which, size_t value);
} mt_cuda;

/* A driver call's status as one of this file's, with its words. */
static int mt_driver(int status, const char *doing) {
  const char *name = 0;
  if (mt_cuda.cuGetErrorName) mt_cuda.cuGetErrorName(status, &name);
  return mt_fail(status, "%s failed: %s (CUDA error %d)", doing, name ? name : "unknown", status);
}

static int mt_find(const char *name, int version, void **function) {
  int found = 0, status = cuGetProcAddress_v2(name, function, version, 0, &found);
  if (status || !*function) return mt_fail(status ? status : MT_UNAVAILABLE, "this CUDA driver has no %s", name);
  return 0;
}

static int mt_driver_ready(void) {
  static int ready;
  int status = 0;
  if (ready) return 0;
#define MT_FIND(name, version) \
  if (!status) status = mt_find(#name, version, (void **)&mt_cuda.name)
  MT_FIND(cuGetErrorName, 6000);
  MT_FIND(cuCtxGetCurrent, 4000);
  MT_FIND(cuCtxGetDevice, 2000);
  MT_FIND(cuDeviceGetAttribute, 2000);
  MT_FIND(cuModuleLoadDataEx, 2010);
  MT_FIND(cuModuleGetFunction, 2000);
  MT_FIND(cuFuncSetAttribute, 9000);
  MT_FIND(cuLaunchKernelEx, 11060);
#if MT_MAPS
  MT_FIND(cuTensorMapEncodeTiled, 12000);
  MT_FIND(cuMemHostAlloc, 2020);
#endif
#if MT_WINDOW
  MT_FIND(cuCtxGetLimit, 3010);
  MT_FIND(cuCtxSetLimit, 3010);
#endif
#undef MT_FIND
  ready = !status;
  return status;
}

/* The kernel in each context that it was launched in. */
static struct { void *context, *function; int device; } mt_loaded[MT_CONTEXTS];
static int mt_count;

static int mt_load_into(void *context, void **function, int *device) {
  void *module = 0, *values[4];
  char errors[1024];
  int options[4], major = 0, minor = 0, status, cubin;
  unsigned count = 0;
  const void *image = 0;
  errors[0] = 0;
  if (mt_count == MT_CONTEXTS) return mt_fail(MT_UNAVAILABLE, "more than %d contexts", MT_CONTEXTS);
  status = mt_cuda.cuCtxGetDevice(device);
  if (!status) status = mt_cuda.cuDeviceGetAttribute(&major, MT_DEVICE_MAJOR, *device);
  if (!status) status = mt_cuda.cuDeviceGetAttribute(&minor, MT_DEVICE_MINOR, *device);
  if (status) return mt_driver(status, "asking for the device");
  cubin = MT_RUNS_ON(major, minor);
#if MT_CUBIN
  if (cubin) image = mt_cubin;
#endif
#if MT_PTX
  if (!image && (cubin || !MT_ONLY)) image = mt_ptx;
#endif
  if (!image) return mt_fail(MT_ARGUMENT, "compiled for " MT_ARCH ", and device %d is sm_%d%d", *device, major, minor);
  options[count] = MT_JIT_ERRORS, values[count++] = errors;
  options[count] = MT_JIT_ERRORS_SIZE, values[count++] = (void *)sizeof errors;
  if (MT_REGISTERS) options[count] = MT_JIT_REGISTERS, values[count++] = (void *)(uintptr_t)MT_REGISTERS;
  options[count] = MT_JIT_LEVEL, values[count++] = (void *)(uintptr_t)MT_LEVEL;
  status = mt_cuda.cuModuleLoadDataEx(&module, image, count, options, values);
  if (status) {
    mt_driver(status, "loading the code of " MT_ENTRY);
    if (errors[0]) snprintf(mt_text + strlen(mt_text), sizeof mt_text - strlen(mt_text), "\n%s", errors);
    return status;
  }
  status = mt_cuda.cuModuleGetFunction(function, module, MT_ENTRY);
  if (status) return mt_driver(status, "finding the entry " MT_ENTRY);
  if (MT_SHARED > 48 * 1024) {
    status = mt_cuda.cuFuncSetAttribute(*function, MT_FUNCTION_SHARED, MT_SHARED);
    if (status) return mt_driver(status, "asking for shared memory for " MT_ENTRY);
  }
  if (MT_CLUSTER > 8) {
    status = mt_cuda.cuFuncSetAttribute(*function, MT_FUNCTION_LARGE_CLUSTER, 1);
    if (status) return mt_driver(status, "asking for large clusters for " MT_ENTRY);
  }
#if MT_WINDOW
  {
    size_t kept = 0;
    int most = 0;
    status = mt_cuda.cuCtxGetLimit(&kept, MT_LIMIT_PERSISTING);
    if (!status && !kept) {
      status = mt_cuda.cuDeviceGetAttribute(&most, MT_DEVICE_PERSISTING, *device);
      if (!status) status = mt_cuda.cuCtxSetLimit(MT_LIMIT_PERSISTING, (size_t)most);
    }
    if (status) return mt_driver(status, "setting a part of L2 aside");
  }
#endif
  mt_loaded[mt_count].context = context;
  mt_loaded[mt_count].device = *device;
  mt_loaded[mt_count++].function = *function;
  return 0;
}

/* The kernel in the current context, loaded once. */
static int mt_function(void **function, int *device) {
  void *context = 0;
  int i, status;
  mt_lock();
  status = mt_driver_ready();
  if (!status) {
    status = mt_cuda.cuCtxGetCurrent(&context);
    if (status) mt_driver(status, "asking for the context");
    else if (!context) status = mt_fail(MT_ARGUMENT, "no CUDA context is current: cudaSetDevice or cuCtxSetCurrent makes one");
  }
  if (!status) {
    for (i = 0; i < mt_count && mt_loaded[i].context != context; i++) {}
    if (i < mt_count) *function = mt_loaded[i].function, *device = mt_loaded[i].device;
    else status = mt_load_into(context, function, device);
  }
  mt_unlock();
  return status;
}

#if MT_MAPS
typedef struct { unsigned char room[128 + 64]; } mt_map;

static void *mt_aligned(mt_map *map) { return (void *)(((uintptr_t)map->room + 63) & ~(uintptr_t)63); }

/* The map of a tensor; everything outermost first, strides in bytes. A tensor without elements gets the map of one that
 * is zero, in memory of our own. `zero` is that memory, made once. */
static int mt_encode(mt_map *map, const char *name, int dtype, int rank, const void *address, const int64_t *dims,
                     const int64_t *strides, const unsigned *box, int swizzle, int promotion, int fill, void **zero) {
  static const int64_t ones[5] = {1, 1, 1, 1, 1}, chunks[4] = {16, 16, 16, 16};
  uint64_t inner_dims[5], inner_strides[5] = {0};
  unsigned inner_box[5], steps[5] = {1, 1, 1, 1, 1};
  int i, status, empty = 0;
  for (i = 0; i < rank; i++) empty |= dims[i] == 0;
  if (empty) {
    mt_lock();
    if (!*zero) {
      status = mt_cuda.cuMemHostAlloc(zero, 4096, 1 | 2); /* portable, mapped */
      if (!status) memset(*zero, 0, 4096);
    } else status = 0;
    mt_unlock();
    if (status) return mt_driver(status, "memory for the tensor map of a tensor without elements");
    address = *zero, dims = ones, strides = chunks;
  }
  if ((uintptr_t)address % 16)
    return mt_fail(MT_ARGUMENT, "%s cannot be copied by TMA: its address %p is no multiple of 16", name, address);
  for (i = 0; i < rank; i++)
    if (dims[i] < 1 || dims[i] > (int64_t)1 << 32)
      return mt_fail(MT_ARGUMENT, "%s cannot be copied by TMA: dimension %d is %lld; TMA takes 1 to 2**32", name, i,
                     (long long)dims[i]);
  for (i = 0; i < rank - 1; i++) {
    if (strides[i] % 16)
      return mt_fail(MT_ARGUMENT, "%s cannot be copied by TMA: dimension %d has a stride of %lld bytes, which is no "
                     "multiple of 16", name, i, (long long)strides[i]);
    if (strides[i] < 0 || strides[i] >= (int64_t)1 << 40)
      return mt_fail(MT_ARGUMENT, "%s cannot be copied by TMA: dimension %d has a stride of %lld bytes; TMA takes less "
                     "than 2**40", name, i, (long long)strides[i]);
  }
  for (i = 0; i < rank; i++) inner_dims[i] = (uint64_t)dims[rank - 1 - i], inner_box[i] = box[rank - 1 - i];
  for (i = 0; i < rank - 1; i++) inner_strides[i] = (uint64_t)strides[rank - 2 - i];
  status = mt_cuda.cuTensorMapEncodeTiled(mt_aligned(map), dtype, (unsigned)rank, (void *)(uintptr_t)address, inner_dims,
                                          inner_strides, inner_box, steps, 0, swizzle, promotion, fill);
  if (status) mt_driver(status, "encoding a tensor map");
  return status;
}
#endif
