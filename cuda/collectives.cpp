// Collectives over NCCL, on a stream of the communicator's own with the highest priority: each begins behind what the
// context's stream holds (an event), runs beside what is issued there next, and gpt2_collectives_join puts the
// context's stream behind all of them. Inside a capture the same events make the two streams branches of one graph.
//
// NCCL's environment is the user's: nothing here sets or overrides it (NCCL_NVLS_ENABLE=0 keeps NVLink multicast off).
#include "collectives.h"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <thread>

#include "runtime/checks.h"
#include "runtime/cuda-context.h"
#include "runtime/nccl.h"
#include "runtime/ops.h"

using gpt2::Check;
using gpt2::cuda;
using gpt2::CudaContext;
using gpt2::fail;
namespace nccl = gpt2::nccl;

struct gpt2_communicator {
  nccl::Library library{};
  nccl::Communicator *joined = nullptr;
  cudaStream_t stream = nullptr;
  // Marks where a collective begins, and where the last has ended.
  cudaEvent_t before = nullptr, behind = nullptr;
  // Whether collectives were issued since the last join.
  bool pending = false;
};

namespace {

// GPT2_OK, or what NCCL said.
int nccl_report(gpt2_context &context, const gpt2_communicator &own, int result, const char *function) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return GPT2_OK;
  const char *more = own.library.get_last_error(own.joined);
  std::string text = std::string("NCCL: ") + own.library.get_error_string(result);
  if (more && *more) text += std::string(": ") + more;
  return fail(&context, result == nccl::kUnhandledCudaError ? GPT2_DEVICE_ERROR : GPT2_RANK_ERROR, function, text);
}

// NCCL waits for the other ranks for ever. Its thread is left behind if one does not come; the process is about to end
// then.
int join_ranks(gpt2_context &context, gpt2_communicator &own, const nccl::Id &id, int rank, int ranks, int timeout,
               const char *function) {
  struct Joined {
    int result;
    nccl::Communicator *communicator;
  };
  auto promise = std::make_shared<std::promise<Joined>>();
  std::future<Joined> future = promise->get_future();
  std::thread([promise, init = own.library.comm_init_rank, device = cuda(context).device, id, rank, ranks] {
    cudaSetDevice(device);
    Joined joined{};
    joined.result = init(&joined.communicator, ranks, id, rank);
    promise->set_value(joined);
  }).detach();
  if (future.wait_for(std::chrono::milliseconds(timeout)) != std::future_status::ready) {
    return fail(
        &context, GPT2_RANK_ERROR, function,
        "NCCL has not joined the ranks within " + std::to_string(timeout / 1000) + " s; NCCL_DEBUG=INFO says more");
  }
  const Joined joined = future.get();
  own.joined = joined.communicator;
  return nccl_report(context, own, joined.result, function);
}

// Ends collectives under way, on a thread of its own: NCCL tells them to end at once, then waits for the graphs that hold
// them, which can be freed only when they have ended. Whoever abandons ranks is about to end the process.
void abort_beside(const gpt2_communicator &own, int device) {
  std::thread([abort = own.library.comm_abort, joined = own.joined, device] {
    cudaSetDevice(device);
    abort(joined);
  }).detach();
}

// Puts the communicator's stream behind what the context's holds.
int begin(gpt2_context &context, gpt2_communicator &own, const char *function) {
  GPT2_TRY(context, function, cudaEventRecord(own.before, cuda(context).stream));
  GPT2_TRY(context, function, cudaStreamWaitEvent(own.stream, own.before, 0));
  own.pending = true;
  return GPT2_OK;
}

int join(gpt2_context &context, gpt2_communicator &own, const char *function) {
  // Nothing new: in a capture, what was issued outside of it must not be waited for.
  if (!own.pending) return GPT2_OK;
  own.pending = false;
  GPT2_TRY(context, function, cudaEventRecord(own.behind, own.stream));
  GPT2_TRY(context, function, cudaStreamWaitEvent(cuda(context).stream, own.behind, 0));
  cuda(context).behind_event = true;
  return GPT2_OK;
}

int type_of(int dtype) { return dtype == GPT2_BF16 ? nccl::kBfloat16 : nccl::kFloat32; }

}  // namespace

int gpt2_communicator_id(gpt2_context *context, void *id) {
  Check check(context, __func__);
  if (check.tensors({{"id", id}}).failed()) return check.status();
  gpt2_communicator none;
  std::string why;
  if (!nccl::open(none.library, why)) return fail(context, GPT2_UNSUPPORTED, __func__, why);
  static_assert(sizeof(nccl::Id) == GPT2_COMMUNICATOR_ID_SIZE, "NCCL's id is the id");
  cuda(*context);
  return nccl_report(*context, none, none.library.get_unique_id(static_cast<nccl::Id *>(id)), __func__);
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
                             int32_t ranks, int32_t timeout_milliseconds) {
  Check check(context, __func__);
  check.tensors({{"communicator", communicator}, {"id", id}})
      .that(ranks >= 2 && rank >= 0 && rank < ranks,
            "one of at least 2 ranks, got rank " + std::to_string(rank) + " of " + std::to_string(ranks))
      .sizes({{"timeout_milliseconds", timeout_milliseconds}});
  if (check.failed()) return check.status();
  auto own = std::unique_ptr<gpt2_communicator>(new (std::nothrow) gpt2_communicator);
  if (!own) return fail(context, GPT2_OUT_OF_MEMORY, __func__, "cannot allocate a communicator");
  std::string why;
  if (!nccl::open(own->library, why)) return fail(context, GPT2_UNSUPPORTED, __func__, why);
  cuda(*context);
  nccl::Id known;
  std::memcpy(&known, id, sizeof known);
  if (const int status = join_ranks(*context, *own, known, rank, ranks, timeout_milliseconds, __func__)) return status;
  int least = 0, greatest = 0;
  GPT2_TRY(*context, __func__, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  GPT2_TRY(*context, __func__, cudaStreamCreateWithPriority(&own->stream, cudaStreamNonBlocking, greatest));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&own->before, cudaEventDisableTiming));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&own->behind, cudaEventDisableTiming));
  *communicator = own.release();
  return GPT2_OK;
}

int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  const std::unique_ptr<gpt2_communicator> own(communicator);
  const int device = cuda(*context).device;
  if (abandon) {
    // Its stream and events stay: freeing them would wait for what they hold.
    abort_beside(*own, device);
    return GPT2_OK;
  }
  const int result = own->library.comm_destroy(own->joined);
  cudaEventDestroy(own->before);
  cudaEventDestroy(own->behind);
  cudaStreamDestroy(own->stream);
  own->joined = nullptr;
  return nccl_report(*context, *own, result, __func__);
}

int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  cuda(*context);
  int result = nccl::kSuccess;
  const int asked = communicator->library.comm_get_async_error(communicator->joined, &result);
  return nccl_report(*context, *communicator, asked == nccl::kSuccess ? result : asked, __func__);
}

int gpt2_collectives_join(gpt2_context *context, gpt2_communicator *communicator) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  return join(*context, *communicator, __func__);
}

int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *communicator, gpt2_event *event) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}, {"event", event}}).failed()) return check.status();
  cuda(*context);
  GPT2_TRY(*context, __func__, cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), communicator->stream));
  communicator->pending = false;
  return GPT2_OK;
}

int gpt2_collectives_group_begin(gpt2_context *context, gpt2_communicator *communicator) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  return nccl_report(*context, *communicator, communicator->library.group_start(), __func__);
}

int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  cuda(*context);
  return nccl_report(*context, *communicator, communicator->library.group_end(), __func__);
}

namespace gpt2::ops {

int all_reduce(gpt2_context &context, void *data, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_reduce";
  if (const int status = begin(context, own, function)) return status;
  const int result = own.library.all_reduce(data, data, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                            own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_reduce_scatter";
  if (const int status = begin(context, own, function)) return status;
  const int result = own.library.reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                                own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_gather";
  if (const int status = begin(context, own, function)) return status;
  const int result =
      own.library.all_gather(in, out, static_cast<size_t>(count), type_of(dtype), own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int sum_over_ranks(gpt2_context &context, double *value, gpt2_communicator &own, const char *function) {
  if (const int status = begin(context, own, function)) return status;
  const int result = own.library.all_reduce(value, value, 1, nccl::kFloat64, nccl::kSum, own.joined, own.stream);
  if (const int status = nccl_report(context, own, result, function)) return status;
  return join(context, own, function);
}

}  // namespace gpt2::ops
