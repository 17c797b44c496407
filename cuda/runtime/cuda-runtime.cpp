// The runtime functions of gpt2.h on CUDA: context, memory, copies, events, graphs. Kernels are in the files beside gpt2.h.
#include <cstring>
#include <new>

#include "checks.h"
#include "cuda-context.h"

using gpt2::Check;
using gpt2::cuda;
using gpt2::CudaContext;
using gpt2::fail;

#define TRY(call) GPT2_TRY(*context, __func__, call)

namespace gpt2 {

// A kernel that every build of the library holds (common/probe.cu).
const void *probe_kernel();

CudaContext::~CudaContext() {
  if (!stream) return;
  cudaSetDevice(device);
  cudaStreamDestroy(stream);
}

int report(gpt2_context &context, cudaError_t error, const char *function, const char *file, int line) {
  if (error == cudaSuccess) return GPT2_OK;
  cudaGetLastError();  // An error that is not sticky must not be found again by the next call.
  const char *base = std::strrchr(file, '/');
  const std::string text = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error) + " (" +
                           (base ? base + 1 : file) + ":" + std::to_string(line) + ")";
  return fail(&context, error == cudaErrorMemoryAllocation ? GPT2_OUT_OF_MEMORY : GPT2_DEVICE_ERROR, function, text);
}

}  // namespace gpt2

namespace {

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

// Why the driver lists no device, in words that say what to do.
int no_device(CudaContext *context, const char *function, cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  if (driver == 0) return fail(context, GPT2_UNSUPPORTED, function, "no NVIDIA driver is installed here");
  if (error == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    return fail(context, GPT2_UNSUPPORTED, function,
                "the NVIDIA driver is too old: it knows CUDA " + version_text(driver) + ", this library needs " +
                    std::to_string(runtime / 1000) + ".0; update the driver");
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return fail(context, GPT2_UNSUPPORTED, function, "no CUDA device is here, or none is visible (CUDA_VISIBLE_DEVICES)");
  }
  return gpt2::report(*context, error, function, __FILE__, __LINE__);
}

int open_context(CudaContext *context, const char *function, int32_t device, int32_t dtype, bool accumulates) {
  if (dtype != GPT2_FP32 && dtype != GPT2_TF32 && dtype != GPT2_BF16) {
    return fail(context, GPT2_INVALID_ARGUMENT, function, "expected a GPT2_DTYPE, got " + std::to_string(dtype));
  }
  int count = 0;
  const cudaError_t listed = cudaGetDeviceCount(&count);
  if (listed != cudaSuccess || count == 0) return no_device(context, function, listed);
  if (device < 0 || device >= count) {
    return fail(context, GPT2_INVALID_ARGUMENT, function,
                "expected a device from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(device));
  }
  cudaDeviceProp properties;
  GPT2_TRY(*context, function, cudaGetDeviceProperties(&properties, device));
  const std::string capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  if (properties.major < 8) {
    return fail(context, GPT2_UNSUPPORTED, function,
                std::string(properties.name) + " has compute capability " + capability + ", 8.0 is the least");
  }
  GPT2_TRY(*context, function, cudaSetDevice(device));
  cudaFuncAttributes attributes;
  const cudaError_t found = cudaFuncGetAttributes(&attributes, gpt2::probe_kernel());
  if (found == cudaErrorNoKernelImageForDevice || found == cudaErrorInvalidDeviceFunction ||
      found == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    return fail(context, GPT2_UNSUPPORTED, function,
                "this library was built for other GPUs: it has no code for compute capability " + capability + " (" +
                    properties.name + "); run `npm run build:cuda` on this machine");
  }
  GPT2_TRY(*context, function, found);
  std::string why;
  context->kernels = gpt2::choose_kernels(properties, why);
  if (!context->kernels) return fail(context, GPT2_UNSUPPORTED, function, why);
  GPT2_TRY(*context, function, cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking));
  context->device = device;
  context->dtype = dtype;
  context->accumulates = accumulates;
  context->multiprocessors = properties.multiProcessorCount;
  context->overlaps = attributes.ptxVersion >= 90;
  context->shared_limit = static_cast<int>(properties.sharedMemPerBlockOptin);
  context->shared_per_multiprocessor = static_cast<int>(properties.sharedMemPerMultiprocessor);
  int driver = 0;
  cudaDriverGetVersion(&driver);
  context->description = "{\"library\":\"cuda\",\"device\":\"" + std::string(properties.name) +
                         "\",\"codePath\":\"" + gpt2::name_of(*context->kernels) + "\",\"threads\":1,\"canCapture\":true,\"dtypes\":[\"fp32\",\"tf32\"," +
                         "\"bf16\"],\"computeCapability\":\"" + capability + "\",\"multiprocessors\":" +
                         std::to_string(properties.multiProcessorCount) + ",\"driver\":\"" + version_text(driver) + "\"}";
  return GPT2_OK;
}

int copy(gpt2_context *context, const char *function, void *destination, const void *source, int64_t bytes,
         cudaMemcpyKind kind, bool wait) {
  Check check(context, function);
  check.that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes));
  if (bytes > 0) check.tensors({{"destination", destination}, {"source", source}});
  if (check.failed()) return check.status();
  if (bytes == 0) return GPT2_OK;
  const cudaStream_t stream = cuda(*context).stream;
  GPT2_TRY(*context, function, cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), kind, stream));
  if (wait) GPT2_TRY(*context, function, cudaStreamSynchronize(stream));
  return GPT2_OK;
}

cudaEvent_t native(gpt2_event *event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraphExec_t native(gpt2_graph *graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

}  // namespace

int gpt2_context_create(gpt2_context **context, int32_t device, int32_t dtype, int32_t, int32_t accumulates) {
  if (!context) return GPT2_INVALID_ARGUMENT;
  auto *opened = new (std::nothrow) CudaContext;
  *context = opened;
  if (!opened) return GPT2_OUT_OF_MEMORY;
  return open_context(opened, __func__, device, dtype, accumulates != 0);
}

int gpt2_context_destroy(gpt2_context *context) {
  delete context;
  return GPT2_OK;
}

int gpt2_allocate(gpt2_context *context, void **memory, int64_t bytes) {
  Check check(context, __func__);
  check.sizes({{"bytes", bytes}}).tensors({{"memory", memory}});
  if (check.failed()) return check.status();
  const cudaStream_t stream = cuda(*context).stream;
  const cudaError_t error = cudaMalloc(memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    return fail(context, GPT2_OUT_OF_MEMORY, __func__,
                "cannot allocate " + std::to_string(bytes) + " bytes: " + std::to_string(available) + " of " +
                    std::to_string(total) + " bytes are free on the device");
  }
  TRY(error);
  const cudaError_t cleared = cudaMemsetAsync(*memory, 0, static_cast<size_t>(bytes), stream);
  if (cleared != cudaSuccess) cudaFree(*memory);
  TRY(cleared);
  return GPT2_OK;
}

int gpt2_free(gpt2_context *context, void *memory) {
  cuda(*context);
  TRY(cudaFree(memory));
  return GPT2_OK;
}

int gpt2_allocate_pinned(gpt2_context *context, void **memory, int64_t bytes) {
  Check check(context, __func__);
  check.sizes({{"bytes", bytes}}).tensors({{"memory", memory}});
  if (check.failed()) return check.status();
  cuda(*context);
  TRY(cudaMallocHost(memory, static_cast<size_t>(bytes)));
  std::memset(*memory, 0, static_cast<size_t>(bytes));
  return GPT2_OK;
}

int gpt2_free_pinned(gpt2_context *context, void *memory) {
  cuda(*context);
  TRY(cudaFreeHost(memory));
  return GPT2_OK;
}

int gpt2_memory_info(gpt2_context *context, int64_t *available, int64_t *total) {
  Check check(context, __func__);
  check.tensors({{"available", available}, {"total", total}});
  if (check.failed()) return check.status();
  cuda(*context);
  size_t free_bytes = 0, all_bytes = 0;
  TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  *available = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(all_bytes);
  return GPT2_OK;
}

int gpt2_copy_to_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes, cudaMemcpyHostToDevice, true);
}
int gpt2_copy_to_host(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes, cudaMemcpyDeviceToHost, true);
}
int gpt2_copy_to_device_async(gpt2_context *context, void *destination, const void *pinned, int64_t bytes) {
  return copy(context, __func__, destination, pinned, bytes, cudaMemcpyHostToDevice, false);
}
int gpt2_copy_to_host_async(gpt2_context *context, void *pinned, const void *source, int64_t bytes) {
  return copy(context, __func__, pinned, source, bytes, cudaMemcpyDeviceToHost, false);
}
int gpt2_copy_on_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes, cudaMemcpyDeviceToDevice, false);
}

int gpt2_fill_zero(gpt2_context *context, void *destination, int64_t bytes) {
  Check check(context, __func__);
  check.sizes({{"bytes", bytes}}).tensors({{"destination", destination}});
  if (check.failed()) return check.status();
  TRY(cudaMemsetAsync(destination, 0, static_cast<size_t>(bytes), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_event_create(gpt2_context *context, gpt2_event **event) {
  Check check(context, __func__);
  if (check.handles({{"event", event}}).failed()) return check.status();
  cuda(*context);
  cudaEvent_t made;
  TRY(cudaEventCreate(&made));
  *event = reinterpret_cast<gpt2_event *>(made);
  return GPT2_OK;
}

int gpt2_event_destroy(gpt2_context *context, gpt2_event *event) {
  Check check(context, __func__);
  if (check.handles({{"event", event}}).failed()) return check.status();
  cuda(*context);
  TRY(cudaEventDestroy(native(event)));
  return GPT2_OK;
}

int gpt2_event_record(gpt2_context *context, gpt2_event *event) {
  Check check(context, __func__);
  if (check.handles({{"event", event}}).failed()) return check.status();
  TRY(cudaEventRecord(native(event), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_event_query(gpt2_context *context, int32_t *reached, gpt2_event *event) {
  Check check(context, __func__);
  if (check.handles({{"reached", reached}, {"event", event}}).failed()) return check.status();
  cuda(*context);
  const cudaError_t state = cudaEventQuery(native(event));
  *reached = state == cudaSuccess;
  if (state != cudaErrorNotReady) TRY(state);
  return GPT2_OK;
}

int gpt2_event_elapsed(gpt2_context *context, float *milliseconds, gpt2_event *from, gpt2_event *to) {
  Check check(context, __func__);
  if (check.handles({{"milliseconds", milliseconds}, {"from", from}, {"to", to}}).failed()) return check.status();
  cuda(*context);
  TRY(cudaEventElapsedTime(milliseconds, native(from), native(to)));
  return GPT2_OK;
}

int gpt2_synchronize(gpt2_context *context) {
  TRY(cudaStreamSynchronize(cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_event_wait(gpt2_context *context, gpt2_event *event) {
  Check check(context, __func__);
  if (check.handles({{"event", event}}).failed()) return check.status();
  CudaContext &own = cuda(*context);
  TRY(cudaStreamWaitEvent(own.stream, native(event), 0));
  own.behind_event = true;
  return GPT2_OK;
}

int gpt2_capture_begin(gpt2_context *context) {
  // Relaxed: other threads of this process (another context) may allocate meanwhile.
  TRY(cudaStreamBeginCapture(cuda(*context).stream, cudaStreamCaptureModeRelaxed));
  return GPT2_OK;
}

int gpt2_capture_end(gpt2_context *context, gpt2_graph **graph) {
  Check check(context, __func__);
  if (check.handles({{"graph", graph}}).failed()) return check.status();
  CudaContext &own = cuda(*context);
  cudaGraph_t recorded = nullptr;
  TRY(cudaStreamEndCapture(own.stream, &recorded));
  cudaGraphExec_t made = nullptr;
  // Each kernel keeps the priority of the stream it was recorded from, not that of the stream the graph is launched in.
  const cudaError_t error = cudaGraphInstantiate(&made, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  TRY(error);
  // Without it the first launch pays for the upload.
  const cudaError_t uploaded = cudaGraphUpload(made, own.stream);
  if (uploaded != cudaSuccess) cudaGraphExecDestroy(made);
  TRY(uploaded);
  *graph = reinterpret_cast<gpt2_graph *>(made);
  return GPT2_OK;
}

int gpt2_graph_launch(gpt2_context *context, gpt2_graph *graph) {
  Check check(context, __func__);
  if (check.handles({{"graph", graph}}).failed()) return check.status();
  TRY(cudaGraphLaunch(native(graph), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *graph) {
  Check check(context, __func__);
  if (check.handles({{"graph", graph}}).failed()) return check.status();
  cuda(*context);
  TRY(cudaGraphExecDestroy(native(graph)));
  return GPT2_OK;
}
