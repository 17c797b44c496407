// The CUDA library's collectives. They run in the communicator's stream, which has the highest priority: each
// collective begins after all work in the context's stream (an event), and runs concurrently with work enqueued there
// later. gpt2_collectives_join makes the context's stream wait for all collectives so far. While a graph is recorded,
// the same events make the two streams branches of the graph.
#include "../runtime/ops.generated.h"
#include "communicator.h"

namespace gpt2 {

namespace {

// Makes the communicator's stream wait for all work in the context's stream.
void begin(Context &gpu, gpt2_communicator &communicator) {
  GPT2_TRY(cudaEventRecord(communicator.begin, gpu.stream));
  GPT2_TRY(cudaStreamWaitEvent(communicator.stream, communicator.begin, 0));
  communicator.pending = true;
}

int64_t bytes_of(int64_t count, int dtype) { return count * (dtype == GPT2_BF16 ? 2 : 4); }
int type_of(int dtype) { return dtype == GPT2_BF16 ? nccl::kBfloat16 : nccl::kFloat32; }

}  // namespace

void runtime::collectives_join(Context &gpu, gpt2_communicator &communicator) {
  // If no collective was enqueued since the last join, `end` may be older than a graph's capture: do not wait for it.
  if (!communicator.pending) return;
  communicator.pending = false;
  GPT2_TRY(cudaEventRecord(communicator.end, communicator.stream));
  GPT2_TRY(cudaStreamWaitEvent(gpu.stream, communicator.end, 0));
  gpu.follows_event = true;
}

void runtime::collectives_record(Context &, gpt2_communicator &communicator, gpt2_event &event) {
  GPT2_TRY(cudaEventRecord(reinterpret_cast<cudaEvent_t>(&event), communicator.stream));
  communicator.pending = false;
}

void runtime::collectives_group_begin(Context &, gpt2_communicator &communicator) {
  if (communicator.peers) return communicator.peers->begin_group();
  check_nccl(communicator, communicator.library.group_start());
}

void runtime::collectives_group_end(Context &, gpt2_communicator &communicator) {
  if (communicator.peers) return communicator.peers->end_group(communicator.stream);
  check_nccl(communicator, communicator.library.group_end());
}

void ops::all_reduce(Context &gpu, void *data, gpt2_communicator &communicator, int64_t count, int dtype) {
  begin(gpu, communicator);
  if (communicator.peers) {
    const Number number = dtype == GPT2_BF16 ? Number::kBfloat16 : Number::kFloat32;
    return communicator.peers->reduce(communicator.stream, data, count, number);
  }
  const int result = communicator.library.all_reduce(data, data, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                                     communicator.joined, communicator.stream);
  check_nccl(communicator, result);
}

void ops::reduce_scatter(Context &gpu, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
                         int64_t stride, int dtype) {
  begin(gpu, communicator);
  if (communicator.peers) {
    return communicator.peers->exchange(communicator.stream, out, in, bytes_of(count, dtype), bytes_of(stride, dtype));
  }
  const int result = communicator.library.reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype),
                                                         nccl::kSum, communicator.joined, communicator.stream);
  check_nccl(communicator, result);
}

void ops::all_gather(Context &gpu, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
                     int dtype) {
  begin(gpu, communicator);
  if (communicator.peers) return communicator.peers->gather(communicator.stream, out, in, bytes_of(count, dtype));
  const int result = communicator.library.all_gather(in, out, static_cast<size_t>(count), type_of(dtype),
                                                     communicator.joined, communicator.stream);
  check_nccl(communicator, result);
}

void sum_over_ranks(Context &gpu, double *value, gpt2_communicator &communicator) {
  begin(gpu, communicator);
  if (communicator.peers) {
    communicator.peers->reduce(communicator.stream, value, 1, Number::kFloat64);
  } else {
    const int result = communicator.library.all_reduce(value, value, 1, nccl::kFloat64, nccl::kSum, communicator.joined,
                                                       communicator.stream);
    check_nccl(communicator, result);
  }
  runtime::collectives_join(gpu, communicator);
}

}  // namespace gpt2
