// CUDA's runtime API for programs that run on a CPU (cpu/emulator/cuda-runtime.cpp). Everything happens in the order of
// the calls, so streams and events need no waiting.
#pragma once

#include "kernel.h"

#include <tuple>

// NVIDIA's helper_cuda.h asks by these names whether the headers are there.
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define CUDART_CB
#define CUDARTAPI

// name, code, text; the codes from 700 to 719 stay until the program ends, as on a GPU
#define GPT2_ERRORS(ROW) \
  ROW(Success, 0, "no error") ROW(ErrorInvalidValue, 1, "invalid argument") \
  ROW(ErrorMemoryAllocation, 2, "out of memory") ROW(ErrorInitializationError, 3, "initialization error") \
  ROW(ErrorCudartUnloading, 4, "driver shutting down") \
  ROW(ErrorInvalidConfiguration, 9, "invalid configuration argument") \
  ROW(ErrorInvalidPitchValue, 12, "invalid pitch argument") ROW(ErrorInvalidSymbol, 13, "invalid device symbol") \
  ROW(ErrorInvalidDevicePointer, 17, "invalid device pointer") \
  ROW(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
  ROW(ErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
  ROW(ErrorInvalidDeviceFunction, 98, "invalid device function") \
  ROW(ErrorNoDevice, 100, "no CUDA-capable device is detected") ROW(ErrorInvalidDevice, 101, "invalid device ordinal") \
  ROW(ErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device") \
  ROW(ErrorInvalidResourceHandle, 400, "invalid resource handle") ROW(ErrorNotReady, 600, "device not ready") \
  ROW(ErrorIllegalAddress, 700, "an illegal memory access was encountered") \
  ROW(ErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
  ROW(ErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
  ROW(ErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled") \
  ROW(ErrorPeerAccessNotEnabled, 705, "peer access has not been enabled") \
  ROW(ErrorAssert, 710, "device-side assert triggered") \
  ROW(ErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
  ROW(ErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
  ROW(ErrorIllegalInstruction, 715, "an illegal instruction was encountered") \
  ROW(ErrorMisalignedAddress, 716, "misaligned address") ROW(ErrorLaunchFailure, 719, "unspecified launch failure") \
  ROW(ErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
  ROW(ErrorNotPermitted, 800, "operation not permitted") ROW(ErrorNotSupported, 801, "operation not supported") \
  ROW(ErrorUnknown, 999, "unknown error")

// The properties of the model GPU. Few multiprocessors keep those grids small that a program sizes by them.
struct cudaDeviceProp {
  char name[256] = "GPU emulated on a CPU";
  size_t totalGlobalMem = size_t{16} << 30, sharedMemPerBlock = 48 << 10;
  int regsPerBlock = 65536, warpSize = 32;
  size_t memPitch = 0x7fffffff;
  int maxThreadsPerBlock = 1024, maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {0x7fffffff, 65535, 65535};
  int clockRate = 1000000;
  size_t totalConstMem = 64 << 10;
  int major = 9, minor = 0;
  size_t textureAlignment = 512, texturePitchAlignment = 32;
  int deviceOverlap = 1, multiProcessorCount = 8, kernelExecTimeoutEnabled = 0, integrated = 0;
  int canMapHostMemory = 1, computeMode = 0, maxTexture1D = 131072, maxTexture2D[2] = {131072, 65536};
  int maxTexture3D[3] = {16384, 16384, 16384}, maxTexture1DLayered[2] = {32768, 2048};
  int maxTexture2DLayered[3] = {32768, 32768, 2048}, concurrentKernels = 1, ECCEnabled = 0, pciBusID = 0;
  int pciDeviceID = 0, pciDomainID = 0, tccDriver = 0, asyncEngineCount = 2, unifiedAddressing = 1;
  int memoryClockRate = 1000000, memoryBusWidth = 512, l2CacheSize = 4 << 20, persistingL2CacheMaxSize = 0;
  int maxThreadsPerMultiProcessor = 2048, streamPrioritiesSupported = 1, globalL1CacheSupported = 1;
  int localL1CacheSupported = 1;
  size_t sharedMemPerMultiprocessor = 228 << 10;
  int regsPerMultiprocessor = 65536, managedMemory = 1, isMultiGpuBoard = 0, multiGpuBoardGroupID = 0;
  int hostNativeAtomicSupported = 0, singleToDoublePrecisionPerfRatio = 2, pageableMemoryAccess = 0;
  int concurrentManagedAccess = 1, computePreemptionSupported = 1, canUseHostPointerForRegisteredMem = 1;
  int cooperativeLaunch = 1, cooperativeMultiDeviceLaunch = 0;
  size_t sharedMemPerBlockOptin = 227 << 10;
  int maxBlocksPerMultiProcessor = 32;
  size_t reservedSharedMemPerBlock = 1 << 10;
  int memoryPoolsSupported = 1;
};

// name, CUDA's number, property
#define GPT2_ATTRIBUTES(ROW) \
  ROW(MaxThreadsPerBlock, 1, maxThreadsPerBlock) ROW(MaxBlockDimX, 2, maxThreadsDim[0]) \
  ROW(MaxBlockDimY, 3, maxThreadsDim[1]) ROW(MaxBlockDimZ, 4, maxThreadsDim[2]) ROW(MaxGridDimX, 5, maxGridSize[0]) \
  ROW(MaxGridDimY, 6, maxGridSize[1]) ROW(MaxGridDimZ, 7, maxGridSize[2]) \
  ROW(MaxSharedMemoryPerBlock, 8, sharedMemPerBlock) ROW(TotalConstantMemory, 9, totalConstMem) \
  ROW(WarpSize, 10, warpSize) ROW(MaxPitch, 11, memPitch) ROW(MaxRegistersPerBlock, 12, regsPerBlock) \
  ROW(ClockRate, 13, clockRate) ROW(TextureAlignment, 14, textureAlignment) ROW(GpuOverlap, 15, deviceOverlap) \
  ROW(MultiProcessorCount, 16, multiProcessorCount) ROW(KernelExecTimeout, 17, kernelExecTimeoutEnabled) \
  ROW(Integrated, 18, integrated) ROW(CanMapHostMemory, 19, canMapHostMemory) ROW(ComputeMode, 20, computeMode) \
  ROW(ConcurrentKernels, 31, concurrentKernels) ROW(EccEnabled, 32, ECCEnabled) \
  ROW(MemoryClockRate, 36, memoryClockRate) ROW(GlobalMemoryBusWidth, 37, memoryBusWidth) \
  ROW(L2CacheSize, 38, l2CacheSize) ROW(MaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor) \
  ROW(AsyncEngineCount, 40, asyncEngineCount) ROW(UnifiedAddressing, 41, unifiedAddressing) \
  ROW(ComputeCapabilityMajor, 75, major) ROW(ComputeCapabilityMinor, 76, minor) \
  ROW(StreamPrioritiesSupported, 78, streamPrioritiesSupported) \
  ROW(MaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor) \
  ROW(MaxRegistersPerMultiprocessor, 82, regsPerMultiprocessor) ROW(ManagedMemory, 83, managedMemory) \
  ROW(HostNativeAtomicSupported, 86, hostNativeAtomicSupported) ROW(PageableMemoryAccess, 88, pageableMemoryAccess) \
  ROW(ConcurrentManagedAccess, 89, concurrentManagedAccess) \
  ROW(ComputePreemptionSupported, 90, computePreemptionSupported) ROW(CooperativeLaunch, 95, cooperativeLaunch) \
  ROW(MaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin) \
  ROW(MaxBlocksPerMultiprocessor, 106, maxBlocksPerMultiProcessor) \
  ROW(MemoryPoolsSupported, 115, memoryPoolsSupported)

#define GPT2_ROW(name, code, text) cuda##name = code,
enum cudaError { GPT2_ERRORS(GPT2_ROW) cudaErrorLaunchTimeOut = 702 };
#undef GPT2_ROW
#define GPT2_ROW(name, number, property) cudaDevAttr##name = number,
enum cudaDeviceAttr { GPT2_ATTRIBUTES(GPT2_ROW) };
#undef GPT2_ROW

typedef cudaError cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUmemPool_st *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);

enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum cudaFuncCache {
  cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1 = 0, cudaSharedmemCarveoutMaxShared = 100
};
enum cudaComputeMode {
  cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess
};
enum cudaLimit {
  cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimeSyncDepth,
  cudaLimitDevRuntimePendingLaunchCount, cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize
};
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
  cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy
};
enum cudaMemLocationType { cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost };
enum cudaMemPoolAttr {
  cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh
};
enum cudaDeviceP2PAttr {
  cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported
};
enum : unsigned {
  cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
  cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaMemAttachGlobal = 1,
  cudaMemAttachHost = 2, cudaMemAttachSingle = 4, cudaStreamDefault = 0, cudaStreamNonBlocking = 1,
  cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4,
  cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2,
  cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8, cudaOccupancyDefault = 0
};
enum : int { cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2 };
#define cudaStreamLegacy cudaStream_t(1)
#define cudaStreamPerThread cudaStream_t(2)

struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout;
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};

// ---------------------------------------------------------------- functions of the library

#define GPT2_API extern "C" cudaError_t
extern "C" const char *cudaGetErrorName(cudaError_t error);
extern "C" const char *cudaGetErrorString(cudaError_t error);
GPT2_API cudaGetLastError();
GPT2_API cudaPeekAtLastError();
GPT2_API cudaDeviceSynchronize();
GPT2_API cudaDeviceReset();
GPT2_API cudaSetDevice(int device);
GPT2_API cudaGetDevice(int *device);
GPT2_API cudaGetDeviceCount(int *count);
GPT2_API cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
GPT2_API cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
GPT2_API cudaMemGetInfo(size_t *free, size_t *total);
GPT2_API cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory);

GPT2_API cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height);
GPT2_API cudaFree(void *memory);
GPT2_API cudaFreeHost(void *memory);
GPT2_API cudaHostRegister(void *memory, size_t bytes, unsigned flags);
GPT2_API cudaHostUnregister(void *memory);
GPT2_API cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
GPT2_API cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind);
GPT2_API cudaMemset(void *to, int value, size_t bytes);
GPT2_API cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height);

GPT2_API cudaStreamCreate(cudaStream_t *stream);
GPT2_API cudaStreamDestroy(cudaStream_t stream);
GPT2_API cudaStreamSynchronize(cudaStream_t stream);
GPT2_API cudaEventCreate(cudaEvent_t *event);
GPT2_API cudaEventDestroy(cudaEvent_t event);
GPT2_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
GPT2_API cudaEventSynchronize(cudaEvent_t event);
GPT2_API cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

namespace gpt2_emulator {

// The result of a call, which cudaGetLastError gives again.
cudaError_t result(cudaError_t error);
cudaError_t allocate(void **memory, size_t bytes, Kind kind, int element_bytes, const char *text);
cudaError_t set_attribute(cudaFuncAttribute attribute, int value);
void attributes_of(cudaFuncAttributes *attributes);
// The blocks that a multiprocessor of the model GPU holds.
int resident_blocks(int threads, size_t shared);

}  // namespace gpt2_emulator

// ---------------------------------------------------------------- other names of these

// Calls that change nothing here.
#define GPT2_NOTHING(name)                 \
  template <class... Any>                  \
  cudaError_t name(const Any &...) {       \
    return cudaSuccess;                    \
  }
GPT2_NOTHING(cudaMemPrefetchAsync)
GPT2_NOTHING(cudaMemAdvise)
GPT2_NOTHING(cudaStreamAttachMemAsync)
GPT2_NOTHING(cudaStreamWaitEvent)
GPT2_NOTHING(cudaStreamQuery)
GPT2_NOTHING(cudaEventQuery)
GPT2_NOTHING(cudaProfilerStart)
GPT2_NOTHING(cudaProfilerStop)
GPT2_NOTHING(cudaDeviceSetLimit)
GPT2_NOTHING(cudaDeviceSetCacheConfig)
GPT2_NOTHING(cudaDeviceSetSharedMemConfig)
GPT2_NOTHING(cudaFuncSetCacheConfig)
GPT2_NOTHING(cudaFuncSetSharedMemConfig)
GPT2_NOTHING(cudaSetDeviceFlags)
GPT2_NOTHING(cudaDeviceEnablePeerAccess)
GPT2_NOTHING(cudaDeviceDisablePeerAccess)
GPT2_NOTHING(cudaMemPoolSetAttribute)
GPT2_NOTHING(cudaMemPoolTrimTo)
GPT2_NOTHING(cudaDeviceSetMemPool)
GPT2_NOTHING(cudaStreamSetAttribute)
GPT2_NOTHING(cudaCtxResetPersistingL2Cache)

// Calls that answer with one value: name, type, value, other parameters.
#define GPT2_VALUE(name, T, value, ...)                \
  inline cudaError_t name(T *out, ##__VA_ARGS__) {     \
    *out = value;                                      \
    return cudaSuccess;                                \
  }
GPT2_VALUE(cudaDriverGetVersion, int, CUDART_VERSION)
GPT2_VALUE(cudaRuntimeGetVersion, int, CUDART_VERSION)
GPT2_VALUE(cudaDeviceCanAccessPeer, int, 0, int, int)
GPT2_VALUE(cudaDeviceGetP2PAttribute, int, 0, cudaDeviceP2PAttr, int, int)
GPT2_VALUE(cudaDeviceGetLimit, size_t, size_t{8} << 20, cudaLimit)
GPT2_VALUE(cudaChooseDevice, int, 0, const cudaDeviceProp *)
GPT2_VALUE(cudaDeviceGetDefaultMemPool, cudaMemPool_t, nullptr, int)
GPT2_VALUE(cudaDeviceGetMemPool, cudaMemPool_t, nullptr, int)

#define GPT2_WITH_STREAM(name, plain, parameters, ...) \
  GPT2_INLINE cudaError_t name parameters { return plain(__VA_ARGS__); }
GPT2_WITH_STREAM(cudaMemcpyAsync, cudaMemcpy,
                 (void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t = nullptr), to, from, bytes, kind)
GPT2_WITH_STREAM(cudaMemcpy2DAsync, cudaMemcpy2D,
                 (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind, cudaStream_t = nullptr),
                 to, to_pitch, from, from_pitch, width, height, kind)
GPT2_WITH_STREAM(cudaMemcpyPeer, cudaMemcpy, (void *to, int, const void *from, int, size_t bytes), to, from, bytes,
                 cudaMemcpyDeviceToDevice)
GPT2_WITH_STREAM(cudaMemcpyPeerAsync, cudaMemcpy, (void *to, int, const void *from, int, size_t bytes, cudaStream_t = nullptr),
                 to, from, bytes, cudaMemcpyDeviceToDevice)
GPT2_WITH_STREAM(cudaMemsetAsync, cudaMemset, (void *to, int value, size_t bytes, cudaStream_t = nullptr), to, value, bytes)
GPT2_WITH_STREAM(cudaMemset2DAsync, cudaMemset2D,
                 (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t = nullptr), to, pitch, value,
                 width, height)
GPT2_WITH_STREAM(cudaFreeAsync, cudaFree, (void *memory, cudaStream_t), memory)
GPT2_WITH_STREAM(cudaThreadSynchronize, cudaDeviceSynchronize, ())
GPT2_WITH_STREAM(cudaThreadExit, cudaDeviceReset, ())
GPT2_WITH_STREAM(cudaStreamCreateWithFlags, cudaStreamCreate, (cudaStream_t *stream, unsigned), stream)
GPT2_WITH_STREAM(cudaStreamCreateWithPriority, cudaStreamCreate, (cudaStream_t *stream, unsigned, int), stream)
GPT2_WITH_STREAM(cudaEventCreate, cudaEventCreate, (cudaEvent_t *event, unsigned), event)
GPT2_WITH_STREAM(cudaEventCreateWithFlags, cudaEventCreate, (cudaEvent_t *event, unsigned), event)
GPT2_WITH_STREAM(cudaEventRecordWithFlags, cudaEventRecord, (cudaEvent_t event, cudaStream_t = nullptr, unsigned = 0), event)

// Reports name an allocation by the first argument's text.
#define GPT2_ALLOCATES(name, kind, ...)                                                                        \
  template <class T>                                                                                           \
  GPT2_INLINE cudaError_t gpt2_##name(const char *text, T **memory, size_t bytes, ##__VA_ARGS__) {             \
    const int element = std::is_void_v<T> ? 0 : gpt2_emulator::element_bytes<T *>();                           \
    return gpt2_emulator::allocate(reinterpret_cast<void **>(memory), bytes, gpt2_emulator::Kind::kind, element, text); \
  }
GPT2_ALLOCATES(cudaMalloc, device)
GPT2_ALLOCATES(cudaMallocAsync, device, cudaStream_t)
GPT2_ALLOCATES(cudaMallocFromPoolAsync, device, cudaMemPool_t, cudaStream_t)
GPT2_ALLOCATES(cudaMallocManaged, managed, unsigned = cudaMemAttachGlobal)
GPT2_ALLOCATES(cudaMallocHost, pinned, unsigned = 0)
GPT2_ALLOCATES(cudaHostAlloc, pinned, unsigned)
#define cudaMalloc(memory, ...) gpt2_cudaMalloc(#memory, memory, __VA_ARGS__)
#define cudaMallocAsync(memory, ...) gpt2_cudaMallocAsync(#memory, memory, __VA_ARGS__)
#define cudaMallocFromPoolAsync(memory, ...) gpt2_cudaMallocFromPoolAsync(#memory, memory, __VA_ARGS__)
#define cudaMallocManaged(memory, ...) gpt2_cudaMallocManaged(#memory, memory, __VA_ARGS__)
#define cudaMallocHost(memory, ...) gpt2_cudaMallocHost(#memory, memory, __VA_ARGS__)
#define cudaHostAlloc(memory, ...) gpt2_cudaHostAlloc(#memory, memory, __VA_ARGS__)
template <class T>
GPT2_INLINE cudaError_t cudaMallocPitch(T **memory, size_t *pitch, size_t width, size_t height) {
  return cudaMallocPitch(reinterpret_cast<void **>(memory), pitch, width, height);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T **there, void *here, unsigned) {
  *there = static_cast<T *>(here);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int *priority) { return *priority = 0, cudaSuccess; }
inline cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned *flags) { return *flags = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int) {
  snprintf(id, length, "0000:00:00.0");
  return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *data) { return function(data), cudaSuccess; }
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned) {
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}

// ---------------------------------------------------------------- variables, by reference; kernels, by function

#define GPT2_SYMBOL(name, parameters, to, from)                                                               \
  template <class T>                                                                                          \
  GPT2_INLINE cudaError_t name parameters {                                                                   \
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaMemcpy(nullptr, nullptr, 1, kind);       \
    char *const variable = const_cast<char *>(reinterpret_cast<const volatile char *>(&symbol)) + offset;     \
    return cudaMemcpy(to, from, bytes, kind);                                                                 \
  }
#define GPT2_TO (const T &symbol, const void *from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice)
#define GPT2_FROM (void *to, const T &symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
GPT2_SYMBOL(cudaMemcpyToSymbol, GPT2_TO, variable, from)
GPT2_SYMBOL(cudaMemcpyFromSymbol, GPT2_FROM, to, variable)
template <class T>
GPT2_INLINE cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
                                                cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
GPT2_INLINE cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                                  cudaStream_t = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void **address, const T &symbol) {
  *address = const_cast<T *>(&symbol);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t *bytes, const T &) {
  return *bytes = sizeof(T), cudaSuccess;
}

template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute attribute, int value) {
  return gpt2_emulator::set_attribute(attribute, value);
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, F) {
  gpt2_emulator::attributes_of(attributes);
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F, int threads, size_t shared) {
  *blocks = gpt2_emulator::resident_blocks(threads, shared);
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, F kernel, int threads, size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
template <class F, class Bytes>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, F, Bytes shared, int limit = 0) {
  int most = 0;
  for (int threads = limit > 0 ? limit : 1024; threads >= 32; threads -= 32) {
    const int blocks = gpt2_emulator::resident_blocks(threads, shared(threads));
    if (blocks * threads <= most) continue;
    most = blocks * threads;
    *block = threads;
    *grid = blocks * 8;
  }
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, F kernel, size_t shared = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, [=](int) { return shared; }, limit);
}

// ---------------------------------------------------------------- launches

namespace gpt2_emulator {

struct Shape {
  dim3 blocks, threads;
  size_t shared;
  bool is_cooperative = false;
  Shape(dim3 blocks, dim3 threads, size_t shared = 0, cudaStream_t = nullptr) : blocks(blocks), threads(threads), shared(shared) {}
};

// Checks the shape, and runs the launch. Its error is also that of the next cudaGetLastError.
cudaError_t start(const Launch &launch, const void *caller);
// The name of a registered kernel; "kernel" for others.
const char *name_of(const void *function);

template <class Body, class... A>
struct Call {
  Body body;
  std::tuple<A...> arguments;
  // The bytes between the members are 0, so that equal calls have equal bytes.
  GPT2_UNCHECKED static void *operator new(size_t, void *place) { return __builtin_memset(place, 0, sizeof(Call)); }
};

// Launches `body`, a lambda that passes its arguments to a kernel. They are evaluated once, and copied for each thread.
template <class Body, class... A>
GPT2_UNCHECKED cudaError_t launch(const char *kernel, const Body &body, const Shape &shape, A &&...arguments) {
  using Made = Call<Body, std::decay_t<A>...>;
  alignas(Made) char place[sizeof(Made)];
  const Made *call = new (place) Made{body, {std::forward<A>(arguments)...}};
  Launch options;
  options.kernel = kernel;
  options.blocks = {shape.blocks.x, shape.blocks.y, shape.blocks.z};
  options.threads = {shape.threads.x, shape.threads.y, shape.threads.z};
  options.dynamic_shared = shape.shared;
  options.is_cooperative = shape.is_cooperative;
  options.data = options.arguments = place;
  options.argument_bytes = sizeof place;
  options.here = &here;
  options.body = [](const void *data) __attribute__((GPT2_NO_CHECKS)) {
    auto &made = *static_cast<Made *>(const_cast<void *>(data));
    std::apply(made.body, made.arguments);
  };
  const cudaError_t error = start(options, GPT2_CALLER);
  call->~Made();
  return error;
}

template <class... P, size_t... I>
GPT2_UNCHECKED cudaError_t launch_packed(void (*kernel)(P...), const Shape &shape, void **arguments, std::index_sequence<I...>) {
  const auto body = [=](auto &...values) __attribute__((GPT2_NO_CHECKS)) { kernel(values...); };
  return launch(name_of(reinterpret_cast<const void *>(kernel)), body, shape, *static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}

// A kernel that can be launched by its address alone. Files with such launches register theirs.
struct Registered {
  const char *name;
  const void *function;
  cudaError_t (*launch)(const void *function, const Shape &shape, void **arguments);
};
template <class... P>
Registered registered(const char *name, void (*kernel)(P...)) {
  return {name, reinterpret_cast<const void *>(kernel), [](const void *function, const Shape &shape, void **arguments) {
            const auto typed = reinterpret_cast<void (*)(P...)>(const_cast<void *>(function));
            return launch_packed(typed, shape, arguments, std::index_sequence_for<P...>());
          }};
}
bool enlist(const Registered *kernels, int count);
cudaError_t launch_registered(const void *function, const Shape &shape, void **arguments);

}  // namespace gpt2_emulator

#define GPT2_LAUNCHES(name, cooperative)                                                                                    \
  template <class... P>                                                                                                     \
  cudaError_t name(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments, size_t shared = 0, cudaStream_t = nullptr) { \
    gpt2_emulator::Shape shape(grid, block, shared);                                                                        \
    shape.is_cooperative = cooperative;                                                                                     \
    return gpt2_emulator::launch_packed(kernel, shape, arguments, std::index_sequence_for<P...>());                         \
  }                                                                                                                         \
  inline cudaError_t name(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0, cudaStream_t = nullptr) { \
    gpt2_emulator::Shape shape(grid, block, shared);                                                                        \
    shape.is_cooperative = cooperative;                                                                                     \
    return gpt2_emulator::launch_registered(kernel, shape, arguments);                                                      \
  }
GPT2_LAUNCHES(cudaLaunchKernel, false)
GPT2_LAUNCHES(cudaLaunchCooperativeKernel, true)
