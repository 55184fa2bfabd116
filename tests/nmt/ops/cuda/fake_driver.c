/* A libcuda.so.1 for the check of cuDNN's plans on hosts without a driver: all that cuDNN and NVRTC look up in it. What
   loads a kernel says that it did, so that plans can be finished; whatever would run something says that it cannot. */
#define REFUSES(name)                        \
  int name(void) {                           \
    return 34; /* CUDA_ERROR_STUB_LIBRARY */ \
  }
#define SUCCEEDS(name) \
  int name(void) {     \
    return 0;          \
  }
#define MAKES(name)       \
  int name(void** made) { \
    static int something; \
    *made = &something;   \
    return 0;             \
  }

SUCCEEDS(cuInit)
SUCCEEDS(cuLibraryUnload)
MAKES(cuLibraryLoadData)
MAKES(cuLibraryGetKernel)
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetCount)
REFUSES(cuDriverGetVersion)
REFUSES(cuGetExportTable)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuKernelGetAttribute)
REFUSES(cuKernelSetAttribute)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkDestroy)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
