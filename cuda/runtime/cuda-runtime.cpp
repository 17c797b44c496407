// The runtime functions of gpt2.h on CUDA: memory, copies, events, graphs. cuda-context.cpp opens the context.
#include <cstring>

#include "checks.h"
#include "ops.generated.h"

namespace gpt2 {

namespace {

void copy(Context &gpu, void *destination, const void *source, int64_t bytes, cudaMemcpyKind kind) {
  check_copy(destination, source, bytes);
  if (bytes > 0) GPT2_TRY(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), kind, gpu.stream));
}

cudaEvent_t native(gpt2_event &event) { return reinterpret_cast<cudaEvent_t>(&event); }
cudaGraphExec_t native(gpt2_graph &graph) { return reinterpret_cast<cudaGraphExec_t>(&graph); }

}  // namespace

void runtime::allocate(Context &gpu, void **memory, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  const cudaError_t error = cudaMalloc(memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    throw Failure{GPT2_OUT_OF_MEMORY,
                  "cannot allocate " + std::to_string(bytes) + " bytes: " + std::to_string(available) + " of " +
                      std::to_string(total) + " bytes are free on the device"};
  }
  GPT2_TRY(error);
  const cudaError_t cleared = cudaMemsetAsync(*memory, 0, static_cast<size_t>(bytes), gpu.stream);
  if (cleared != cudaSuccess) cudaFree(*memory);
  GPT2_TRY(cleared);
}

void runtime::free(Context &, void *memory) { GPT2_TRY(cudaFree(memory)); }

void runtime::allocate_pinned(Context &, void **memory, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  GPT2_TRY(cudaMallocHost(memory, static_cast<size_t>(bytes)));
  std::memset(*memory, 0, static_cast<size_t>(bytes));
}

void runtime::free_pinned(Context &, void *memory) { GPT2_TRY(cudaFreeHost(memory)); }

void runtime::memory_info(Context &, int64_t *available, int64_t *total) {
  size_t free_bytes = 0, all_bytes = 0;
  GPT2_TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  *available = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(all_bytes);
}

void runtime::copy_to_device(Context &gpu, void *destination, const void *source, int64_t bytes) {
  copy(gpu, destination, source, bytes, cudaMemcpyHostToDevice);
  GPT2_TRY(cudaStreamSynchronize(gpu.stream));
}
void runtime::copy_to_host(Context &gpu, void *destination, const void *source, int64_t bytes) {
  copy(gpu, destination, source, bytes, cudaMemcpyDeviceToHost);
  GPT2_TRY(cudaStreamSynchronize(gpu.stream));
}
void runtime::copy_to_device_async(Context &gpu, void *destination, const void *pinned, int64_t bytes) {
  copy(gpu, destination, pinned, bytes, cudaMemcpyHostToDevice);
}
void runtime::copy_to_host_async(Context &gpu, void *pinned, const void *source, int64_t bytes) {
  copy(gpu, pinned, source, bytes, cudaMemcpyDeviceToHost);
}
void runtime::copy_on_device(Context &gpu, void *destination, const void *source, int64_t bytes) {
  copy(gpu, destination, source, bytes, cudaMemcpyDeviceToDevice);
}

void runtime::fill_zero(Context &gpu, void *destination, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  check_tensors({{"destination", destination}});
  GPT2_TRY(cudaMemsetAsync(destination, 0, static_cast<size_t>(bytes), gpu.stream));
}

void runtime::event_create(Context &, gpt2_event **event) {
  cudaEvent_t made;
  GPT2_TRY(cudaEventCreate(&made));
  *event = reinterpret_cast<gpt2_event *>(made);
}

void runtime::event_destroy(Context &, gpt2_event &event) { GPT2_TRY(cudaEventDestroy(native(event))); }
void runtime::event_record(Context &gpu, gpt2_event &event) { GPT2_TRY(cudaEventRecord(native(event), gpu.stream)); }

void runtime::event_query(Context &, int32_t *reached, gpt2_event &event) {
  const cudaError_t state = cudaEventQuery(native(event));
  *reached = state == cudaSuccess;
  if (state != cudaErrorNotReady) GPT2_TRY(state);
}

void runtime::event_elapsed(Context &, float *milliseconds, gpt2_event &from, gpt2_event &to) {
  GPT2_TRY(cudaEventElapsedTime(milliseconds, native(from), native(to)));
}

void runtime::event_wait(Context &gpu, gpt2_event &event) {
  GPT2_TRY(cudaStreamWaitEvent(gpu.stream, native(event), 0));
  gpu.follows_event = true;
}

// Relaxed capture, because other threads of this process (with another context) may allocate at the same time.
void runtime::capture_begin(Context &gpu) {
  GPT2_TRY(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeRelaxed));
}

void runtime::capture_end(Context &gpu, gpt2_graph **graph) {
  cudaGraph_t recorded = nullptr;
  GPT2_TRY(cudaStreamEndCapture(gpu.stream, &recorded));
  cudaGraphExec_t made = nullptr;
  // Each kernel keeps the priority of the stream in which it was recorded, whichever stream launches the graph.
  const cudaError_t error = cudaGraphInstantiate(&made, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  GPT2_TRY(error);
  // Uploads the graph now, so that the first launch does not have to.
  const cudaError_t uploaded = cudaGraphUpload(made, gpu.stream);
  if (uploaded != cudaSuccess) cudaGraphExecDestroy(made);
  GPT2_TRY(uploaded);
  *graph = reinterpret_cast<gpt2_graph *>(made);
}

void runtime::graph_launch(Context &gpu, gpt2_graph &graph) { GPT2_TRY(cudaGraphLaunch(native(graph), gpu.stream)); }
void runtime::graph_destroy(Context &, gpt2_graph &graph) { GPT2_TRY(cudaGraphExecDestroy(native(graph))); }

}  // namespace gpt2
