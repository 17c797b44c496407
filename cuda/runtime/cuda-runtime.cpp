// The runtime functions of gpt2.h on CUDA: memory, copies, events, graphs. cuda-context.cpp opens the context.
#include <cstring>

#include "checks.h"
#include "cuda-context.h"

using gpt2::Check;
using gpt2::cuda;
using gpt2::CudaContext;
using gpt2::fail;

#define TRY(call) GPT2_TRY(*context, __func__, call)

namespace {

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

int gpt2_allocate(gpt2_context *context, void **memory, int64_t bytes) {
  GPT2_CHECK(context, sizes({{"bytes", bytes}}).tensors({{"memory", memory}}));
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
  GPT2_CHECK(context, sizes({{"bytes", bytes}}).tensors({{"memory", memory}}));
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
  GPT2_CHECK(context, tensors({{"available", available}, {"total", total}}));
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
  GPT2_CHECK(context, sizes({{"bytes", bytes}}).tensors({{"destination", destination}}));
  TRY(cudaMemsetAsync(destination, 0, static_cast<size_t>(bytes), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_event_create(gpt2_context *context, gpt2_event **event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  cuda(*context);
  cudaEvent_t made;
  TRY(cudaEventCreate(&made));
  *event = reinterpret_cast<gpt2_event *>(made);
  return GPT2_OK;
}

int gpt2_event_destroy(gpt2_context *context, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  cuda(*context);
  TRY(cudaEventDestroy(native(event)));
  return GPT2_OK;
}

int gpt2_event_record(gpt2_context *context, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  TRY(cudaEventRecord(native(event), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_event_query(gpt2_context *context, int32_t *reached, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"reached", reached}, {"event", event}}));
  cuda(*context);
  const cudaError_t state = cudaEventQuery(native(event));
  *reached = state == cudaSuccess;
  if (state != cudaErrorNotReady) TRY(state);
  return GPT2_OK;
}

int gpt2_event_elapsed(gpt2_context *context, float *milliseconds, gpt2_event *from, gpt2_event *to) {
  GPT2_CHECK(context, handles({{"milliseconds", milliseconds}, {"from", from}, {"to", to}}));
  cuda(*context);
  TRY(cudaEventElapsedTime(milliseconds, native(from), native(to)));
  return GPT2_OK;
}

int gpt2_event_wait(gpt2_context *context, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  CudaContext &gpu = cuda(*context);
  TRY(cudaStreamWaitEvent(gpu.stream, native(event), 0));
  gpu.follows_event = true;
  return GPT2_OK;
}

int gpt2_capture_begin(gpt2_context *context) {
  // Relaxed, because other threads of this process (another context) may allocate at the same time.
  TRY(cudaStreamBeginCapture(cuda(*context).stream, cudaStreamCaptureModeRelaxed));
  return GPT2_OK;
}

int gpt2_capture_end(gpt2_context *context, gpt2_graph **graph) {
  GPT2_CHECK(context, handles({{"graph", graph}}));
  CudaContext &gpu = cuda(*context);
  cudaGraph_t recorded = nullptr;
  TRY(cudaStreamEndCapture(gpu.stream, &recorded));
  cudaGraphExec_t made = nullptr;
  // Each kernel keeps the priority of the stream in which it was recorded, whichever stream launches the graph.
  const cudaError_t error = cudaGraphInstantiate(&made, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  TRY(error);
  // Otherwise the first launch would include the upload.
  const cudaError_t uploaded = cudaGraphUpload(made, gpu.stream);
  if (uploaded != cudaSuccess) cudaGraphExecDestroy(made);
  TRY(uploaded);
  *graph = reinterpret_cast<gpt2_graph *>(made);
  return GPT2_OK;
}

int gpt2_graph_launch(gpt2_context *context, gpt2_graph *graph) {
  GPT2_CHECK(context, handles({{"graph", graph}}));
  TRY(cudaGraphLaunch(native(graph), cuda(*context).stream));
  return GPT2_OK;
}

int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *graph) {
  GPT2_CHECK(context, handles({{"graph", graph}}));
  cuda(*context);
  TRY(cudaGraphExecDestroy(native(graph)));
  return GPT2_OK;
}
