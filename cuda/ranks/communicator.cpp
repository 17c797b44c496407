// Communicators of the CUDA library: joining the ranks, sharing memory with them, leaving.
//
// Between the GPUs of one machine, the GPUs' copy engines carry the data (peers.h), which needs only the driver. NCCL
// carries the data between machines, and where a GPU cannot reach another's memory. NCCL can also use copy engines, but
// that needs NCCL 2.28 and memory of NCCL's allocator, computes no sums, and took 10 to 30 us longer for 14 to 39 MiB
// (two H200s, 2.28.9).
//
// Nothing here sets or overrides NCCL's environment variables, which belong to the user (NCCL_NVLS_ENABLE=0 keeps
// NVLink multicast off).
#include "communicator.h"

#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "../runtime/checks.h"
#include "../runtime/cuda-context.h"

using gpt2::cuda;
using gpt2::fail;
using gpt2::Loopback;
using gpt2::Peers;
using gpt2::report_nccl;
namespace nccl = gpt2::nccl;

gpt2_communicator::~gpt2_communicator() {
  peers.reset();
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  if (stream) cudaStreamDestroy(stream);
}

int gpt2::report_nccl(gpt2_context &context, const gpt2_communicator &communicator, int result, const char *function) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return GPT2_OK;
  const char *more = communicator.library.get_last_error(communicator.joined);
  std::string text = std::string("NCCL: ") + communicator.library.get_error_string(result);
  if (more && *more) text += std::string(": ") + more;
  return fail(&context, result == nccl::kUnhandledCudaError ? GPT2_DEVICE_ERROR : GPT2_RANK_ERROR, function, text);
}

namespace {

// The content of a communicator's id.
struct Id {
  int32_t is_one_machine;
  Loopback::Id loopback;  // set if all ranks are on one machine
  nccl::Id nccl;          // set if ranks are on several machines
};
static_assert(sizeof(Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// Longer than the timeout of the ranks, because NCCL first opens connections and measures them.
constexpr int nccl_milliseconds = 120'000;

// NCCL waits for the other ranks without a timeout, so a separate thread calls it. If a rank does not come, this thread
// remains; the process is about to end then.
int join_ranks(gpt2_context &context, gpt2_communicator &communicator, const nccl::Id &id, int rank, int ranks,
               const char *function) {
  struct Joined {
    int result;
    nccl::Communicator *communicator;
  };
  auto promise = std::make_shared<std::promise<Joined>>();
  std::future<Joined> future = promise->get_future();
  std::thread([promise, init = communicator.library.comm_init_rank, device = cuda(context).device, id, rank, ranks] {
    cudaSetDevice(device);
    Joined joined{};
    joined.result = init(&joined.communicator, ranks, id, rank);
    promise->set_value(joined);
  }).detach();
  if (future.wait_for(std::chrono::milliseconds(nccl_milliseconds)) != std::future_status::ready) {
    return fail(&context, GPT2_RANK_ERROR, function,
                "NCCL did not join the ranks within " + std::to_string(nccl_milliseconds / 1000) +
                    " s; set NCCL_DEBUG=INFO for its log");
  }
  const Joined joined = future.get();
  communicator.joined = joined.communicator;
  return report_nccl(context, communicator, joined.result, function);
}

// Sends rank 0's NCCL id over the loopback: for one machine whose GPUs cannot copy into each other's memory.
int send_nccl_id(gpt2_context &context, gpt2_communicator &communicator, Loopback &loopback, nccl::Id &id,
                 const std::string &reason, const char *function) {
  struct Offer {
    nccl::Id id;
    int32_t has_nccl;
  };
  Offer offer{};
  std::string why;
  offer.has_nccl = nccl::open(communicator.library, why);
  if (offer.has_nccl && loopback.rank() == 0) {
    const int result = communicator.library.get_unique_id(&offer.id);
    if (result != nccl::kSuccess) why = communicator.library.get_error_string(result);
    offer.has_nccl = why.empty();
  }
  std::vector<Offer> offers(static_cast<size_t>(loopback.ranks()));
  if (const int status = loopback.all_gather(context, &offer, offers.data(), sizeof offer, function)) return status;
  for (int rank = 0; rank < loopback.ranks(); rank++) {
    if (!offers[rank].has_nccl && why.empty()) why = "rank " + std::to_string(rank) + " cannot open NCCL";
  }
  if (!why.empty()) {
    return fail(&context, GPT2_UNSUPPORTED, function, "no copies from GPU to GPU (" + reason + "), and " + why);
  }
  id = offers[0].id;
  return GPT2_OK;
}

// Ends running collectives, in a separate thread: NCCL ends them at once, then waits until the graphs that contain them
// are freed, which the caller can do only afterwards. The process is about to end.
void abort_in_background(const gpt2_communicator &communicator, int device) {
  std::thread([abort = communicator.library.comm_abort, joined = communicator.joined, device] {
    cudaSetDevice(device);
    abort(joined);
  }).detach();
}

}  // namespace

int gpt2_communicator_id(gpt2_context *context, void *id, int32_t is_one_machine) try {
  GPT2_CHECK(context, tensors({{"id", id}}));
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
    if (const int status = report_nccl(*context, none, result, __func__)) return status;
  }
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
                             int32_t ranks, int32_t timeout_milliseconds) try {
  GPT2_CHECK(context, tensors({{"communicator", communicator}, {"id", id}}).rank(rank, ranks, timeout_milliseconds));
  auto created = std::make_unique<gpt2_communicator>();
  cuda(*context);
  // These come before the ranks meet: after that, a failure of one rank would fail all ranks.
  int least = 0, greatest = 0;
  GPT2_TRY(*context, __func__, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  GPT2_TRY(*context, __func__, cudaStreamCreateWithPriority(&created->stream, cudaStreamNonBlocking, greatest));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&created->begin, cudaEventDisableTiming));
  GPT2_TRY(*context, __func__, cudaEventCreateWithFlags(&created->end, cudaEventDisableTiming));
  Id known;
  std::memcpy(&known, id, sizeof known);
  std::string why;
  if (known.is_one_machine) {
    std::unique_ptr<Loopback> loopback;
    const int joined = Loopback::join(*context, loopback, known.loopback, rank, ranks, timeout_milliseconds, __func__);
    if (joined != GPT2_OK) return joined;
    if (const int status = Peers::create(*context, created->peers, loopback, why, __func__)) return status;
    if (!created->peers) {
      if (const int status = send_nccl_id(*context, *created, *loopback, known.nccl, why, __func__)) return status;
    }
  } else if (!nccl::open(created->library, why)) {
    return fail(context, GPT2_UNSUPPORTED, __func__, why);
  }
  if (!created->peers) {
    if (const int status = join_ranks(*context, *created, known.nccl, rank, ranks, __func__)) return status;
  }
  // CUDA's error texts need no escapes in JSON.
  created->description = std::string("{\"carrier\":\"") + (created->peers ? "copies" : "nccl") +
                         "\",\"parts\":" + std::to_string(created->peers ? ranks : 1) + ",\"ordering\":\"" +
                         (created->peers ? created->peers->ordering() : "") + "\",\"reason\":\"" + why + "\"}";
  *communicator = created.release();
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

const char *gpt2_communicator_description(gpt2_communicator *communicator) { return communicator->description.c_str(); }

int gpt2_communicator_share(gpt2_context *context, gpt2_communicator *communicator, void *memory, int64_t bytes) try {
  GPT2_CHECK(context, handles({{"communicator", communicator}})
                          .tensors({{"memory", memory}})
                          .that(bytes > 0 && bytes % Peers::granule == 0,
                                "bytes of a multiple of " + std::to_string(Peers::granule) + ", got " +
                                    std::to_string(bytes)));
  cuda(*context);
  return communicator->peers ? communicator->peers->share(*context, memory, bytes, __func__) : GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_unshare(gpt2_context *context, gpt2_communicator *communicator, void *memory) try {
  GPT2_CHECK(context, handles({{"communicator", communicator}}).tensors({{"memory", memory}}));
  cuda(*context);
  return communicator->peers ? communicator->peers->unshare(*context, memory, __func__) : GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon) try {
  GPT2_CHECK(context, handles({{"communicator", communicator}}));
  std::unique_ptr<gpt2_communicator> owner(communicator);
  const int device = cuda(*context).device;
  if (abandon) {
    if (owner->peers) {
      owner->peers->abandon(cuda(*context).stream, owner->stream);
    } else {
      abort_in_background(*owner, device);
    }
    // The streams, events and mappings are not freed: that would wait for their work.
    owner.release();
    return GPT2_OK;
  }
  if (owner->peers) {
    // A graph runs its collectives in the context's stream.
    GPT2_TRY(*context, __func__, cudaStreamSynchronize(owner->stream));
    GPT2_TRY(*context, __func__, cudaStreamSynchronize(cuda(*context).stream));
    return GPT2_OK;
  }
  const int result = owner->library.comm_destroy(owner->joined);
  owner->joined = nullptr;
  return report_nccl(*context, *owner, result, __func__);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator) {
  GPT2_CHECK(context, handles({{"communicator", communicator}}));
  // With peers, the wait for a copy reports the copy's failure.
  if (communicator->peers) return GPT2_OK;
  cuda(*context);
  int result = nccl::kSuccess;
  const int asked = communicator->library.comm_get_async_error(communicator->joined, &result);
  return report_nccl(*context, *communicator, asked == nccl::kSuccess ? result : asked, __func__);
}
