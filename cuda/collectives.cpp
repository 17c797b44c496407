// Collectives on a stream of the communicator's own with the highest priority: each begins behind what the context's stream
// holds (an event), runs beside what is issued there next, and gpt2_collectives_join puts the context's stream behind all
// of them. Inside a capture the same events make the two streams branches of one graph.
//
// Between GPUs of one machine their copy engines carry all of it (runtime/peers.h), and nothing but the driver is needed. NCCL
// does between machines, and where a GPU cannot reach another's memory. Its own copies by copy engines want 2.28 and memory of
// its own allocator, add nothing up, and took 10 to 30 us longer for 14 to 39 MiB (two H200s, 2.28.9).
//
// NCCL's environment is the user's: nothing here sets or overrides it (NCCL_NVLS_ENABLE=0 keeps NVLink multicast off).
#include "collectives.h"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/checks.h"
#include "runtime/cuda-context.h"
#include "runtime/nccl.h"
#include "runtime/peers.h"
#include "runtime/ops.generated.h"

using gpt2::Check;
using gpt2::cuda;
using gpt2::CudaContext;
using gpt2::fail;
using gpt2::Loopback;
using gpt2::Number;
using gpt2::Peers;
namespace nccl = gpt2::nccl;

struct gpt2_communicator {
  // One of the two carries everything: peers, or NCCL.
  std::unique_ptr<Peers> peers;
  nccl::Library library{};
  nccl::Communicator *joined = nullptr;
  cudaStream_t stream = nullptr;
  // Marks where a collective begins, and where the last has ended.
  cudaEvent_t before = nullptr, behind = nullptr;
  // Whether collectives were issued since the last join.
  bool pending = false;
  std::string description;

  ~gpt2_communicator() {
    peers.reset();
    if (before) cudaEventDestroy(before);
    if (behind) cudaEventDestroy(behind);
    if (stream) cudaStreamDestroy(stream);
  }
};

namespace {

// What GPT2_COMMUNICATOR_ID_SIZE bytes hold here.
struct Id {
  int32_t is_one_machine;
  // Of one machine.
  Loopback::Id loopback;
  // Of several.
  nccl::Id nccl;
};
static_assert(sizeof(Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// GPT2_OK, or what NCCL said.
int nccl_report(gpt2_context &context, const gpt2_communicator &own, int result, const char *function) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return GPT2_OK;
  const char *more = own.library.get_last_error(own.joined);
  std::string text = std::string("NCCL: ") + own.library.get_error_string(result);
  if (more && *more) text += std::string(": ") + more;
  return fail(&context, result == nccl::kUnhandledCudaError ? GPT2_DEVICE_ERROR : GPT2_RANK_ERROR, function, text);
}

// NCCL opens connections and measures them first.
constexpr int nccl_milliseconds = 120'000;

// NCCL waits for the other ranks for ever. Its thread is left behind if one does not come; the process is about to end
// then.
int join_ranks(gpt2_context &context, gpt2_communicator &own, const nccl::Id &id, int rank, int ranks,
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
  if (future.wait_for(std::chrono::milliseconds(nccl_milliseconds)) != std::future_status::ready) {
    return fail(&context, GPT2_RANK_ERROR, function,
                "NCCL has not joined the ranks within " + std::to_string(nccl_milliseconds / 1000) +
                    " s; NCCL_DEBUG=INFO says more");
  }
  const Joined joined = future.get();
  own.joined = joined.communicator;
  return nccl_report(context, own, joined.result, function);
}

// Over NCCL, on one machine where copy engines do not reach: rank 0's id goes over the loopback.
int meet_for_nccl(gpt2_context &context, gpt2_communicator &own, Loopback &loopback, nccl::Id &id,
                  const std::string &reason, const char *function) {
  struct Offer {
    nccl::Id id;
    int32_t has_nccl;
  };
  Offer offer{};
  std::string why;
  offer.has_nccl = nccl::open(own.library, why);
  if (offer.has_nccl && loopback.rank() == 0) {
    const int result = own.library.get_unique_id(&offer.id);
    if (result != nccl::kSuccess) why = own.library.get_error_string(result);
    offer.has_nccl = why.empty();
  }
  std::vector<Offer> offers(static_cast<size_t>(loopback.ranks()));
  if (const int status = loopback.tell(context, &offer, offers.data(), sizeof offer, function)) return status;
  for (int rank = 0; rank < loopback.ranks(); rank++) {
    if (!offers[rank].has_nccl && why.empty()) why = "rank " + std::to_string(rank) + " cannot open NCCL";
  }
  if (!why.empty()) {
    return fail(&context, GPT2_UNSUPPORTED, function, "no copies from GPU to GPU (" + reason + "), and " + why);
  }
  id = offers[0].id;
  return GPT2_OK;
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

int64_t bytes_of(int64_t count, int dtype) { return count * (dtype == GPT2_BF16 ? 2 : 4); }
int type_of(int dtype) { return dtype == GPT2_BF16 ? nccl::kBfloat16 : nccl::kFloat32; }

}  // namespace

int gpt2_communicator_id(gpt2_context *context, void *id, int32_t is_one_machine) try {
  Check check(context, __func__);
  if (check.tensors({{"id", id}}).failed()) return check.status();
  Id made{};
  made.is_one_machine = is_one_machine != 0;
  if (is_one_machine) {
    if (const int status = Loopback::open(*context, made.loopback, __func__)) return status;
  } else {
    gpt2_communicator none;
    std::string why;
    if (!nccl::open(none.library, why)) return fail(context, GPT2_UNSUPPORTED, __func__, why);
    cuda(*context);
    const int result = none.library.get_unique_id(&made.nccl);
    if (const int status = nccl_report(*context, none, result, __func__)) return status;
  }
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
                             int32_t ranks, int32_t timeout_milliseconds) try {
  Check check(context, __func__);
  check.tensors({{"communicator", communicator}, {"id", id}})
      .that(ranks >= 2 && rank >= 0 && rank < ranks,
            "one of at least 2 ranks, got rank " + std::to_string(rank) + " of " + std::to_string(ranks))
      .sizes({{"timeout_milliseconds", timeout_milliseconds}});
  if (check.failed()) return check.status();
  auto own = std::make_unique<gpt2_communicator>();
  cuda(*context);
  // First: what fails later fails at every rank.
  int least = 0, greatest = 0;
  GPT2_TRY(*context, __func__, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  GPT2_TRY(*context, __func__, cudaStreamCreateWithPriority(&own->stream, cudaStreamNonBlocking, greatest));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&own->before, cudaEventDisableTiming));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&own->behind, cudaEventDisableTiming));
  Id known;
  std::memcpy(&known, id, sizeof known);
  std::string why;
  if (known.is_one_machine) {
    std::unique_ptr<Loopback> loopback;
    const int joined = Loopback::join(*context, loopback, known.loopback, rank, ranks, timeout_milliseconds, __func__);
    if (joined != GPT2_OK) return joined;
    if (const int status = Peers::create(*context, own->peers, loopback, why, __func__)) return status;
    if (!own->peers) {
      if (const int status = meet_for_nccl(*context, *own, *loopback, known.nccl, why, __func__)) return status;
    }
  } else if (!nccl::open(own->library, why)) {
    return fail(context, GPT2_UNSUPPORTED, __func__, why);
  }
  if (!own->peers) {
    if (const int status = join_ranks(*context, *own, known.nccl, rank, ranks, __func__)) return status;
  }
  // CUDA's words for errors need no escapes.
  own->description = std::string("{\"carrier\":\"") + (own->peers ? "copies" : "nccl") +
                     "\",\"parts\":" + std::to_string(own->peers ? ranks : 1) + ",\"ordering\":\"" +
                     (own->peers ? own->peers->ordering() : "") + "\",\"reason\":\"" + why + "\"}";
  *communicator = own.release();
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

const char *gpt2_communicator_description(gpt2_communicator *communicator) { return communicator->description.c_str(); }

int gpt2_communicator_share(gpt2_context *context, gpt2_communicator *communicator, void *memory, int64_t bytes) try {
  Check check(context, __func__);
  check.handles({{"communicator", communicator}})
      .tensors({{"memory", memory}})
      .that(bytes > 0 && bytes % Peers::granule == 0,
            "bytes of a multiple of " + std::to_string(Peers::granule) + ", got " + std::to_string(bytes));
  if (check.failed()) return check.status();
  cuda(*context);
  return communicator->peers ? communicator->peers->share(*context, memory, bytes, __func__) : GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_unshare(gpt2_context *context, gpt2_communicator *communicator, void *memory) try {
  Check check(context, __func__);
  check.handles({{"communicator", communicator}}).tensors({{"memory", memory}});
  if (check.failed()) return check.status();
  cuda(*context);
  return communicator->peers ? communicator->peers->unshare(*context, memory, __func__) : GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon) try {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  std::unique_ptr<gpt2_communicator> own(communicator);
  const int device = cuda(*context).device;
  if (abandon) {
    if (own->peers) {
      own->peers->abandon(cuda(*context).stream, own->stream);
    } else {
      abort_beside(*own, device);
    }
    // Its streams, events and mappings stay: freeing them would wait for what they hold.
    own.release();
    return GPT2_OK;
  }
  if (own->peers) {
    // Recorded collectives are replayed in the context's stream.
    GPT2_TRY(*context, __func__, cudaStreamSynchronize(own->stream));
    GPT2_TRY(*context, __func__, cudaStreamSynchronize(cuda(*context).stream));
    return GPT2_OK;
  }
  const int result = own->library.comm_destroy(own->joined);
  own->joined = nullptr;
  return nccl_report(*context, *own, result, __func__);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator) {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  // What fails of a copy is found by whoever waits for it.
  if (communicator->peers) return GPT2_OK;
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
  if (communicator->peers) {
    communicator->peers->begin_group();
    return GPT2_OK;
  }
  return nccl_report(*context, *communicator, communicator->library.group_start(), __func__);
}

int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator) try {
  Check check(context, __func__);
  if (check.handles({{"communicator", communicator}}).failed()) return check.status();
  cuda(*context);
  if (communicator->peers) return communicator->peers->end_group(*context, communicator->stream, __func__);
  return nccl_report(*context, *communicator, communicator->library.group_end(), __func__);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

namespace gpt2::ops {

int all_reduce(gpt2_context &context, void *data, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_reduce";
  if (const int status = begin(context, own, function)) return status;
  if (own.peers) {
    const Number number = dtype == GPT2_BF16 ? Number::kBfloat16 : Number::kFloat32;
    return own.peers->reduce(context, own.stream, data, count, number, function);
  }
  const int result = own.library.all_reduce(data, data, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                            own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count,
                   int64_t stride, int dtype) {
  const char *function = "gpt2_reduce_scatter";
  if (const int status = begin(context, own, function)) return status;
  if (own.peers) {
    return own.peers->exchange(context, own.stream, out, in, bytes_of(count, dtype), bytes_of(stride, dtype), function);
  }
  const int result = own.library.reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype), nccl::kSum,
                                                own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_gather";
  if (const int status = begin(context, own, function)) return status;
  if (own.peers) return own.peers->gather(context, own.stream, out, in, bytes_of(count, dtype), function);
  const int result =
      own.library.all_gather(in, out, static_cast<size_t>(count), type_of(dtype), own.joined, own.stream);
  return nccl_report(context, own, result, function);
}

int sum_over_ranks(gpt2_context &context, double *value, gpt2_communicator &own, const char *function) {
  if (const int status = begin(context, own, function)) return status;
  if (own.peers) {
    if (const int status = own.peers->reduce(context, own.stream, value, 1, Number::kFloat64, function)) return status;
  } else {
    const int result = own.library.all_reduce(value, value, 1, nccl::kFloat64, nccl::kSum, own.joined, own.stream);
    if (const int status = nccl_report(context, own, result, function)) return status;
  }
  return join(context, own, function);
}

}  // namespace gpt2::ops
