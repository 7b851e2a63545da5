/* The HIP runtime, as hip_runtime_api.h declares it. */

MT_C int hipGetDevice(int *device);
MT_C int hipModuleLoadData(void **module, const void *image);
MT_C int hipModuleGetFunction(void **function, void *module, const char *name);
MT_C int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void *stream, void **params, void **extra);
MT_C const char *hipGetErrorName(int status);

static int mt_driver(int status, const char *doing) {
  return mt_fail(status, "%s failed: %s (HIP error %d)", doing, hipGetErrorName(status), status);
}

/* The kernel on each device that it was launched on. */
static void *mt_loaded[MT_CONTEXTS];

static int mt_function(void **function) {
  void *module = 0;
  int device = 0, status;
  mt_lock();
  status = hipGetDevice(&device);
  if (status) mt_driver(status, "asking for the device");
  else if (device < 0 || device >= MT_CONTEXTS) status = mt_fail(MT_UNAVAILABLE, "device %d", device);
  else if (!mt_loaded[device]) {
    status = hipModuleLoadData(&module, mt_hsaco);
    if (status) mt_driver(status, "loading the code of " MT_ENTRY ", compiled for " MT_ARCH ",");
    else if ((status = hipModuleGetFunction(&mt_loaded[device], module, MT_ENTRY)) != 0)
      mt_driver(status, "finding the entry " MT_ENTRY);
  }
  if (!status) *function = mt_loaded[device];
  mt_unlock();
  return status;
}
