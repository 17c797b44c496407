// The CUDA library's collectives. They run in the communicator's stream, which has the highest priority: each
// collective begins after all work in the context's stream (an event), and runs concurrently with work enqueued there
// later. gpt2_collectives_join makes the context's stream wait for all of them. While a graph is recorded, the same
// events make the two streams branches of the graph.
#include "communicator.h"

#include "../runtime/checks.h"
#include "../runtime/cuda-context.h"
#include "../runtime/ops.generated.h"

using gpt2::cuda;
using gpt2::Number;
using gpt2::report_nccl;
namespace nccl = gpt2::nccl;

namespace {

// Makes the communicator's stream wait for all work in the context's stream.
int begin(gpt2_context &context, gpt2_communicator &communicator, const char *function) {
  GPT2_TRY(context, function, cudaEventRecord(communicator.begin, cuda(context).stream));
  GPT2_TRY(context, function, cudaStreamWaitEvent(communicator.stream, communicator.begin, 0));
  communicator.pending = true;
  return GPT2_OK;
}

int join(gpt2_context &context, gpt2_communicator &communicator, const char *function) {
  // Without work since the last join `end` may precede a graph's capture, which must not wait for such an event.
  if (!communicator.pending) return GPT2_OK;
  communicator.pending = false;
  GPT2_TRY(context, function, cudaEventRecord(communicator.end, communicator.stream));
  GPT2_TRY(context, function, cudaStreamWaitEvent(cuda(context).stream, communicator.end, 0));
  cuda(context).follows_event = true;
  return GPT2_OK;
}

int64_t bytes_of(int64_t count, int dtype) { return count * (dtype == GPT2_BF16 ? 2 : 4); }
int type_of(int dtype) { return dtype == GPT2_BF16 ? nccl::kBfloat16 : nccl::kFloat32; }

}  // namespace

int gpt2_collectives_join(gpt2_context *context, gpt2_communicator *communicator) {
  GPT2_CHECK(context, handles({{"communicator", communicator}}));
  return join(*context, *communicator, __func__);
}

int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *communicator, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"communicator", communicator}, {"event", event}}));
  cuda(*context);
  GPT2_TRY(*context, __func__, cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), communicator->stream));
  communicator->pending = false;
  return GPT2_OK;
}

int gpt2_collectives_group_begin(gpt2_context *context, gpt2_communicator *communicator) {
  GPT2_CHECK(context, handles({{"communicator", communicator}}));
  if (communicator->peers) {
    communicator->peers->begin_group();
    return GPT2_OK;
  }
  return report_nccl(*context, *communicator, communicator->library.group_start(), __func__);
}

int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator) try {
  GPT2_CHECK(context, handles({{"communicator", communicator}}));
  cuda(*context);
  if (communicator->peers) return communicator->peers->end_group(*context, communicator->stream, __func__);
  return report_nccl(*context, *communicator, communicator->library.group_end(), __func__);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

namespace gpt2::ops {

int all_reduce(gpt2_context &context, void *data, gpt2_communicator &communicator, int64_t count, int dtype) {
  const char *function = "gpt2_all_reduce";
  if (const int status = begin(context, communicator, function)) return status;
  if (communicator.peers) {
    const Number number = dtype == GPT2_BF16 ? Number::kBfloat16 : Number::kFloat32;
    return communicator.peers->reduce(context, communicator.stream, data, count, number, function);
  }
  const int result = communicator.library.all_reduce(data, data, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                                     communicator.joined, communicator.stream);
  return report_nccl(context, communicator, result, function);
}

int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
                   int64_t stride, int dtype) {
  const char *function = "gpt2_reduce_scatter";
  if (const int status = begin(context, communicator, function)) return status;
  if (communicator.peers) {
    return communicator.peers->exchange(context, communicator.stream, out, in, bytes_of(count, dtype),
                                        bytes_of(stride, dtype), function);
  }
  const int result = communicator.library.reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype),
                                                         nccl::kSum, communicator.joined, communicator.stream);
  return report_nccl(context, communicator, result, function);
}

int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
               int dtype) {
  const char *function = "gpt2_all_gather";
  if (const int status = begin(context, communicator, function)) return status;
  if (communicator.peers)
    return communicator.peers->gather(context, communicator.stream, out, in, bytes_of(count, dtype), function);
  const int result = communicator.library.all_gather(in, out, static_cast<size_t>(count), type_of(dtype),
                                                     communicator.joined, communicator.stream);
  return report_nccl(context, communicator, result, function);
}

}  // namespace gpt2::ops

int gpt2::sum_over_ranks(gpt2_context &context, double *value, gpt2_communicator &communicator, const char *function) {
  if (const int status = begin(context, communicator, function)) return status;
  if (communicator.peers) {
    if (const int status =
            communicator.peers->reduce(context, communicator.stream, value, 1, Number::kFloat64, function))
      return status;
  } else {
    const int result = communicator.library.all_reduce(value, value, 1, nccl::kFloat64, nccl::kSum, communicator.joined,
                                                       communicator.stream);
    if (const int status = report_nccl(context, communicator, result, function)) return status;
  }
  return join(context, communicator, function);
}
