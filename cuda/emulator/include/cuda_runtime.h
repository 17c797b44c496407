// CUDA's runtime API for programs that run on a CPU (cpu/emulator/cuda-runtime.cpp). Calls complete before they return, so streams and
// events need no waiting.
#pragma once

#include "../kernel.h"

#include <new>
#include <tuple>

// NVIDIA's helper_cuda.h tests for CUDA's headers by these macros.
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define CUDART_CB
#define CUDARTAPI

// CUDA's errors: name, code, text. As on a GPU, codes 700 to 719 (except 701) are sticky: they stay until the program ends.
#define GPT2_ERRORS(ROW) \
  ROW(Success, 0, "no error") ROW(ErrorInvalidValue, 1, "invalid argument") \
  ROW(ErrorMemoryAllocation, 2, "out of memory") ROW(ErrorInvalidConfiguration, 9, "invalid configuration argument") \
  ROW(ErrorInvalidPitchValue, 12, "invalid pitch argument") ROW(ErrorInvalidSymbol, 13, "invalid device symbol") \
  ROW(ErrorInvalidDevicePointer, 17, "invalid device pointer") \
  ROW(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
  ROW(ErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
  ROW(ErrorInvalidDeviceFunction, 98, "invalid device function") \
  ROW(ErrorNoDevice, 100, "no CUDA-capable device is detected") ROW(ErrorInvalidDevice, 101, "invalid device ordinal") \
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

// The properties of the emulated GPU. It has few multiprocessors and a small L2 cache, because programs size grids and buffers by them:
// benchmarks clear a buffer as large as the L2 cache before each of a thousand launches.
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
  int memoryClockRate = 1000000, memoryBusWidth = 512, l2CacheSize = 128 << 10, persistingL2CacheMaxSize = 0;
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

// Device attributes: name, CUDA's number, the property with the value.
#define GPT2_ATTRIBUTES(ROW) \
  ROW(MaxThreadsPerBlock, 1, maxThreadsPerBlock) ROW(MaxBlockDimX, 2, maxThreadsDim[0]) \
  ROW(MaxBlockDimY, 3, maxThreadsDim[1]) ROW(MaxBlockDimZ, 4, maxThreadsDim[2]) ROW(MaxGridDimX, 5, maxGridSize[0]) \
  ROW(MaxGridDimY, 6, maxGridSize[1]) ROW(MaxGridDimZ, 7, maxGridSize[2]) \
  ROW(MaxSharedMemoryPerBlock, 8, sharedMemPerBlock) ROW(TotalConstantMemory, 9, totalConstMem) \
  ROW(WarpSize, 10, warpSize) ROW(MaxRegistersPerBlock, 12, regsPerBlock) ROW(ClockRate, 13, clockRate) \
  ROW(GpuOverlap, 15, deviceOverlap) ROW(MultiProcessorCount, 16, multiProcessorCount) ROW(Integrated, 18, integrated) \
  ROW(CanMapHostMemory, 19, canMapHostMemory) ROW(ComputeMode, 20, computeMode) \
  ROW(ConcurrentKernels, 31, concurrentKernels) ROW(MemoryClockRate, 36, memoryClockRate) \
  ROW(GlobalMemoryBusWidth, 37, memoryBusWidth) ROW(L2CacheSize, 38, l2CacheSize) \
  ROW(MaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor) ROW(UnifiedAddressing, 41, unifiedAddressing) \
  ROW(ComputeCapabilityMajor, 75, major) ROW(ComputeCapabilityMinor, 76, minor) \
  ROW(MaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor) \
  ROW(MaxRegistersPerMultiprocessor, 82, regsPerMultiprocessor) ROW(ManagedMemory, 83, managedMemory) \
  ROW(HostNativeAtomicSupported, 86, hostNativeAtomicSupported) ROW(PageableMemoryAccess, 88, pageableMemoryAccess) \
  ROW(ConcurrentManagedAccess, 89, concurrentManagedAccess) ROW(CooperativeLaunch, 95, cooperativeLaunch) \
  ROW(MaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin) \
  ROW(MaxBlocksPerMultiprocessor, 106, maxBlocksPerMultiProcessor) ROW(MemoryPoolsSupported, 115, memoryPoolsSupported)

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

enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1, cudaSharedmemCarveoutMaxShared = 100 };
enum cudaDeviceP2PAttr {
  cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported,
  cudaDevP2PAttrCudaArrayAccessSupported
};
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeProhibited = 2 };
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize };
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
  cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy
};
enum cudaMemLocationType { cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
// Flags, most of which change nothing here.
enum : unsigned {
  cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
  cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaMemAttachGlobal = 1,
  cudaMemAttachHost = 2, cudaMemAttachSingle = 4, cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0,
  cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1,
  cudaDeviceScheduleYield = 2, cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8
};
enum : int { cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2 };

struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout;
};

// ---------------------------------------------------------------- functions of the library

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaDeviceReset();
// Returns the sticky error (see GPT2_ERRORS), or cudaSuccess.
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaFree(void *memory, cudaStream_t = nullptr);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t = nullptr);
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind, cudaStream_t = nullptr);
cudaError_t cudaMemcpyPeer(void *to, int there, const void *from, int here, size_t bytes, cudaStream_t = nullptr);
cudaError_t cudaMemset(void *to, int value, size_t bytes, cudaStream_t = nullptr);
cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t = nullptr);
cudaError_t cudaStreamCreate(cudaStream_t *stream, unsigned flags = 0, int priority = 0);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned flags = 0);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr, unsigned flags = 0);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

#define cudaMemcpyAsync cudaMemcpy
#define cudaMemcpy2DAsync cudaMemcpy2D
#define cudaMemsetAsync cudaMemset
#define cudaMemset2DAsync cudaMemset2D
#define cudaFreeAsync cudaFree
#define cudaStreamCreateWithFlags cudaStreamCreate
#define cudaStreamCreateWithPriority cudaStreamCreate
#define cudaEventCreateWithFlags cudaEventCreate
#define cudaEventRecordWithFlags cudaEventRecord
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaMemcpyPeerAsync cudaMemcpyPeer

namespace gpt2_emulator {

// Records the error of a call for cudaGetLastError. Returns the error, or an earlier sticky error.
cudaError_t result(cudaError_t error);
// Returns the address of a device variable. After this call, copies may use the address.
void *address_of(const volatile void *symbol);
cudaError_t allocate(void **memory, size_t bytes, Kind kind, int element_bytes, const char *text);
cudaError_t set_attribute(cudaFuncAttribute attribute, int value);
cudaFuncAttributes attributes();
// The number of blocks, with `shared` bytes of shared memory each, that fit on a multiprocessor of the emulated GPU.
int resident_blocks(int threads, size_t shared);

}  // namespace gpt2_emulator

// Calls that do nothing, and return an earlier sticky error, or cudaSuccess.
#define GPT2_NOTHING(name) \
  template <class... Any>  \
  cudaError_t name(const Any &...) { return cudaDeviceSynchronize(); }
GPT2_NOTHING(cudaMemPrefetchAsync) GPT2_NOTHING(cudaMemAdvise) GPT2_NOTHING(cudaStreamAttachMemAsync)
GPT2_NOTHING(cudaStreamWaitEvent) GPT2_NOTHING(cudaStreamQuery) GPT2_NOTHING(cudaEventQuery) GPT2_NOTHING(cudaProfilerStart)
GPT2_NOTHING(cudaProfilerStop) GPT2_NOTHING(cudaDeviceSetLimit) GPT2_NOTHING(cudaDeviceSetCacheConfig)
GPT2_NOTHING(cudaDeviceSetSharedMemConfig) GPT2_NOTHING(cudaFuncSetCacheConfig) GPT2_NOTHING(cudaFuncSetSharedMemConfig)
GPT2_NOTHING(cudaSetDeviceFlags) GPT2_NOTHING(cudaMemPoolSetAttribute) GPT2_NOTHING(cudaMemPoolTrimTo)
GPT2_NOTHING(cudaStreamSynchronize) GPT2_NOTHING(cudaEventSynchronize) GPT2_NOTHING(cudaThreadExit)

// Calls about another GPU, which the emulated one lacks.
#define GPT2_NO_PEER(name) \
  template <class... Any>  \
  cudaError_t name(const Any &...) { return gpt2_emulator::result(cudaErrorInvalidDevice); }
GPT2_NO_PEER(cudaDeviceEnablePeerAccess) GPT2_NO_PEER(cudaDeviceDisablePeerAccess) GPT2_NO_PEER(cudaDeviceGetP2PAttribute)
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { return *can = 0, cudaSetDevice(device | peer); }

// Calls that return a value: name, parameters, the expression that stores the value.
#define GPT2_VALUE(name, parameters, ...) \
  inline cudaError_t name parameters { return __VA_ARGS__, cudaSuccess; }
GPT2_VALUE(cudaGetDevice, (int *device), *device = 0)
GPT2_VALUE(cudaGetDeviceCount, (int *count), *count = 1)
GPT2_VALUE(cudaDriverGetVersion, (int *version), *version = CUDART_VERSION)
GPT2_VALUE(cudaRuntimeGetVersion, (int *version), *version = CUDART_VERSION)
GPT2_VALUE(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *pool, int), *pool = nullptr)
GPT2_VALUE(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), *least = 0, *greatest = -5)
GPT2_VALUE(cudaLaunchHostFunc, (cudaStream_t, void (*call)(void *), void *data), call(data))
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);
GPT2_VALUE(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t call, void *data, unsigned), call(stream, cudaSuccess, data))
template <class T>
GPT2_VALUE(cudaHostGetDevicePointer, (T **there, void *here, unsigned), *there = static_cast<T *>(here))

// Reports name an allocation by the text of the first argument; src/ops/kernels/refusals.ts takes "gpt2_" off the names in errors.
#define GPT2_ALLOCATE(name, kind)                                                                                       \
  template <class T, class... Any>                                                                                      \
  GPT2_INLINE cudaError_t gpt2_##name(const char *text, T **memory, size_t bytes, const Any &...) {                     \
    const int element = std::is_void_v<T> ? 0 : gpt2_emulator::element_bytes<T *>;                                      \
    return gpt2_emulator::allocate(reinterpret_cast<void **>(memory), bytes, gpt2_emulator::Kind::kind, element, text); \
  }
GPT2_ALLOCATE(cudaMalloc, device) GPT2_ALLOCATE(cudaMallocManaged, managed) GPT2_ALLOCATE(cudaMallocHost, pinned)
template <class T>
GPT2_INLINE cudaError_t gpt2_cudaMallocPitch(const char *text, T **memory, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return gpt2_cudaMalloc(text, memory, *pitch * height);
}
#define cudaMalloc(memory, ...) gpt2_cudaMalloc(#memory, memory, __VA_ARGS__)
#define cudaMallocAsync cudaMalloc
#define cudaMallocManaged(memory, ...) gpt2_cudaMallocManaged(#memory, memory, __VA_ARGS__)
#define cudaMallocHost(memory, ...) gpt2_cudaMallocHost(#memory, memory, __VA_ARGS__)
#define cudaHostAlloc cudaMallocHost
#define cudaMallocPitch(memory, ...) gpt2_cudaMallocPitch(#memory, memory, __VA_ARGS__)

// ---------------------------------------------------------------- variables, by reference; kernels, by function

template <class T>
GPT2_INLINE cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = nullptr) {
  return cudaMemcpy(static_cast<char *>(gpt2_emulator::address_of(&symbol)) + offset, from, bytes, kind);
}
template <class T>
GPT2_INLINE cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t = nullptr) {
  return cudaMemcpy(to, static_cast<char *>(gpt2_emulator::address_of(&symbol)) + offset, bytes, kind);
}
#define cudaMemcpyToSymbolAsync cudaMemcpyToSymbol
#define cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbol
template <class T>
GPT2_VALUE(cudaGetSymbolAddress, (void **address, const T &symbol), *address = gpt2_emulator::address_of(&symbol))
template <class T>
GPT2_VALUE(cudaGetSymbolSize, (size_t *bytes, const T &symbol), *bytes = sizeof symbol)

template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute attribute, int value) {
  return gpt2_emulator::set_attribute(attribute, value);
}
template <class F>
GPT2_VALUE(cudaFuncGetAttributes, (cudaFuncAttributes *out, F), *out = gpt2_emulator::attributes())
template <class F, class... Flags>
GPT2_VALUE(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, F, int threads, size_t shared, Flags...),
           *blocks = gpt2_emulator::resident_blocks(threads, shared))
#define cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxActiveBlocksPerMultiprocessor
template <class F, class Bytes>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, F, Bytes shared, int limit = 0) {
  int most = 0;
  for (int threads = limit > 0 ? limit : 1024; threads >= 32; threads -= 32) {
    const int blocks = gpt2_emulator::resident_blocks(threads, shared(threads));
    if (blocks * threads <= most) continue;
    most = blocks * threads;
    *block = threads;
    *grid = blocks * cudaDeviceProp().multiProcessorCount;
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
  Launch launch;
  cudaStream_t stream;
  bool returns_error = false;
  Shape(dim3 blocks, dim3 threads, size_t shared = 0, cudaStream_t stream = nullptr) : stream(stream) {
    launch.blocks = {blocks.x, blocks.y, blocks.z};
    launch.threads = {threads.x, threads.y, threads.z};
    launch.dynamic_shared = shared;
  }
};

// Checks the shape, and runs the launch. The next cudaGetLastError returns the same error.
cudaError_t start(const Shape &shape, const void *caller);

template <class Body, class... A>
struct Call {
  Body body;
  std::tuple<A...> arguments;
};

// Returns the kernel to call: for a pointer from host code, which points to the twin without checks, the twin with checks.
template <class F>
GPT2_INLINE decltype(auto) called(F &&kernel) {
  using Pointer = std::decay_t<F>;
  if constexpr (is_plain || !std::is_pointer_v<Pointer>) return std::forward<F>(kernel);
  else return reinterpret_cast<Pointer>(twin_of(reinterpret_cast<Function>(+kernel), true));
}

// The emulator finds the twin of this function, compiled without checks, by its name (src/ops/kernels/twins.ts).
template <class Made>
GPT2_UNCHECKED void gpt2_body(const void *data) {
  auto &made = *static_cast<Made *>(const_cast<void *>(data));
  GPT2_EACH_THREAD(std::apply(made.body, made.arguments));
}

// Launches `body`, a lambda that passes its arguments to a kernel. The arguments are evaluated once, and copied for each thread.
template <class Body, class... A>
GPT2_UNCHECKED cudaError_t launch(const char *kernel, const Body &body, Shape shape, A &&...arguments) {
  using Made = Call<Body, std::decay_t<A>...>;
  // Padding between members is 0, so that equal calls have equal bytes and count as repetitions.
  alignas(Made) char place[sizeof(Made)] = {};
  const Made *call = new (place) Made{body, {std::forward<A>(arguments)...}};
  Launch &options = shape.launch;
  options.kernel = kernel;
  options.data = options.arguments = place;
  options.argument_bytes = sizeof place;
  options.here = &here;
  options.body = &gpt2_body<Made>;
  const cudaError_t error = start(shape, GPT2_CALLER);
  call->~Made();
  return error;
}

template <class... P, size_t... I>
cudaError_t launch_packed(const char *name, void (*kernel)(P...), const Shape &shape, void **arguments, std::index_sequence<I...>) {
  const auto body = [=](auto &...values) __attribute__((GPT2_NO_CHECKS)) { called(kernel)(values...); };
  return launch(name, body, shape, *static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}

// Launches a kernel by a pointer. `text`: the kernel argument in the source, from which rewrite.ts has removed a cast to void *.
template <bool IS_COOPERATIVE, class... P>
cudaError_t launch_function(const char *text, void (*kernel)(P...), dim3 grid, dim3 block, void **arguments, size_t shared = 0,
                            cudaStream_t stream = nullptr) {
  Shape shape(grid, block, shared, stream);
  shape.launch.is_cooperative = IS_COOPERATIVE;
  shape.returns_error = true;
  const char *name = strrchr(text, ')');
  return launch_packed(name ? name + 1 : text, kernel, shape, arguments, std::index_sequence_for<P...>());
}

}  // namespace gpt2_emulator

#define cudaLaunchKernel(kernel, ...) gpt2_emulator::launch_function<false>(#kernel, kernel, __VA_ARGS__)
#define cudaLaunchCooperativeKernel(kernel, ...) gpt2_emulator::launch_function<true>(#kernel, kernel, __VA_ARGS__)
