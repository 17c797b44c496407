// Communicators of the CUDA library: joining the ranks, sharing memory with them, leaving.
//
// Between the GPUs of one machine, the GPUs' copy engines carry the data (peers.h), which needs only the driver. NCCL
// carries the data between machines, and where a GPU cannot reach another's memory. NCCL can also use copy engines, but
// that needs NCCL 2.28 and memory of NCCL's allocator, computes no sums, and took 10 to 30 us longer than peers.h for
// 14 to 39 MiB (two H200s, NCCL 2.28.9).
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
#include "../runtime/ops.generated.h"

gpt2_communicator::~gpt2_communicator() {
  peers.reset();
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  if (stream) cudaStreamDestroy(stream);
}

namespace gpt2 {

void check_nccl(const gpt2_communicator &communicator, int result) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return;
  const char *more = communicator.library.get_last_error(communicator.joined);
  std::string text = std::string("NCCL: ") + communicator.library.get_error_string(result);
  if (more && *more) text += std::string(": ") + more;
  throw Failure{result == nccl::kUnhandledCudaError ? GPT2_DEVICE_ERROR : GPT2_RANK_ERROR, text};
}

namespace {

// The content of a communicator's id.
struct Id {
  int32_t is_one_machine;
  Loopback::Id loopback;  // set if all ranks are on one machine
  nccl::Id nccl;          // set if ranks are on several machines
};
static_assert(sizeof(Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// How long NCCL may take to join the ranks: long, because NCCL first opens connections and measures them.
constexpr int nccl_milliseconds = 120'000;

// Joins the ranks by NCCL, which waits for other ranks without a timeout, so a separate thread calls NCCL. If a rank
// does not join, the thread is left waiting; the process is about to end.
void join_ranks(Context &gpu, gpt2_communicator &communicator, const nccl::Id &id, int rank, int ranks) {
  struct Joined {
    int result;
    nccl::Communicator *communicator;
  };
  auto promise = std::make_shared<std::promise<Joined>>();
  std::future<Joined> future = promise->get_future();
  std::thread([promise, init = communicator.library.comm_init_rank, device = gpu.device, id, rank, ranks] {
    cudaSetDevice(device);
    Joined joined{};
    joined.result = init(&joined.communicator, ranks, id, rank);
    promise->set_value(joined);
  }).detach();
  if (future.wait_for(std::chrono::milliseconds(nccl_milliseconds)) != std::future_status::ready) {
    throw Failure{GPT2_RANK_ERROR, "NCCL did not join the ranks within " + std::to_string(nccl_milliseconds / 1000) +
                                       " s; set NCCL_DEBUG=INFO for its log"};
  }
  const Joined joined = future.get();
  communicator.joined = joined.communicator;
  check_nccl(communicator, joined.result);
}

// Sends rank 0's NCCL id to all ranks over the loopback, if GPUs of one machine cannot copy to each other.
nccl::Id send_nccl_id(gpt2_communicator &communicator, Loopback &loopback, const std::string &reason) {
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
  loopback.all_gather(&offer, offers.data(), sizeof offer);
  for (int rank = 0; rank < loopback.ranks(); rank++) {
    if (!offers[rank].has_nccl && why.empty()) why = "rank " + std::to_string(rank) + " cannot open NCCL";
  }
  if (!why.empty()) throw Failure{GPT2_UNSUPPORTED, "no copies from GPU to GPU (" + reason + "), and " + why};
  return offers[0].id;
}

// Ends running collectives by ncclCommAbort, in a separate thread: NCCL ends the collectives at once, then waits until
// the caller, after this function has returned, frees their graphs. The process is about to end.
void abort_in_background(const gpt2_communicator &communicator, int device) {
  std::thread([abort = communicator.library.comm_abort, joined = communicator.joined, device] {
    cudaSetDevice(device);
    abort(joined);
  }).detach();
}

}  // namespace

void runtime::communicator_id(Context &context, void *id, int32_t is_one_machine) {
  check_tensors({{"id", id}});
  Id made{};
  made.is_one_machine = is_one_machine != 0;
  if (is_one_machine) {
    made.loopback = Loopback::open(context);
  } else {
    gpt2_communicator none;
    std::string why;
    if (!nccl::open(none.library, why)) throw Failure{GPT2_UNSUPPORTED, why};
    check_nccl(none, none.library.get_unique_id(&made.nccl));
  }
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
}

void runtime::communicator_create(Context &gpu, gpt2_communicator **communicator, const void *id, int32_t rank,
                                  int32_t ranks, int32_t timeout_milliseconds) {
  check_tensors({{"id", id}});
  check_rank(rank, ranks, timeout_milliseconds);
  auto created = std::make_unique<gpt2_communicator>();
  // Stream and events are created before the ranks meet, because after that a failure of one rank would fail all ranks.
  int least = 0, greatest = 0;
  GPT2_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  GPT2_TRY(cudaStreamCreateWithPriority(&created->stream, cudaStreamNonBlocking, greatest));
  GPT2_TRY(cudaEventCreateWithFlags(&created->begin, cudaEventDisableTiming));
  GPT2_TRY(cudaEventCreateWithFlags(&created->end, cudaEventDisableTiming));
  Id known;
  std::memcpy(&known, id, sizeof known);
  std::string why;
  if (known.is_one_machine) {
    auto loopback = std::make_unique<Loopback>(gpu, known.loopback, rank, ranks, timeout_milliseconds);
    Peers::create(gpu, created->peers, loopback, why);
    if (!created->peers) known.nccl = send_nccl_id(*created, *loopback, why);
  } else if (!nccl::open(created->library, why)) {
    throw Failure{GPT2_UNSUPPORTED, why};
  }
  if (!created->peers) join_ranks(gpu, *created, known.nccl, rank, ranks);
  // CUDA's error texts need no escapes in JSON.
  created->description = std::string("{\"carrier\":\"") + (created->peers ? "copies" : "nccl") +
                         "\",\"parts\":" + std::to_string(created->peers ? ranks : 1) + ",\"ordering\":\"" +
                         (created->peers ? created->peers->ordering() : "") + "\",\"reason\":\"" + why + "\"}";
  *communicator = created.release();
}

void runtime::communicator_share(Context &, gpt2_communicator &communicator, void *memory, int64_t bytes) {
  check_tensors({{"memory", memory}});
  check_that(bytes > 0 && bytes % Peers::granule == 0,
             "bytes of a multiple of " + std::to_string(Peers::granule) + ", got " + std::to_string(bytes));
  if (communicator.peers) communicator.peers->share(memory, bytes);
}

void runtime::communicator_unshare(Context &, gpt2_communicator &communicator, void *memory) {
  check_tensors({{"memory", memory}});
  if (communicator.peers) communicator.peers->unshare(memory);
}

void runtime::communicator_destroy(Context &gpu, gpt2_communicator &communicator, int32_t abandon) {
  std::unique_ptr<gpt2_communicator> owner(&communicator);
  if (abandon) {
    // Streams, events and mappings are not freed, because freeing them would wait for their work.
    owner.release();
    if (communicator.peers) return communicator.peers->abandon(gpu.stream, communicator.stream);
    return abort_in_background(communicator, gpu.device);
  }
  if (communicator.peers) {
    // Waits for both streams, because a graph runs its collectives in the context's stream.
    GPT2_TRY(cudaStreamSynchronize(communicator.stream));
    GPT2_TRY(cudaStreamSynchronize(gpu.stream));
    return;
  }
  const int result = communicator.library.comm_destroy(communicator.joined);
  communicator.joined = nullptr;
  check_nccl(communicator, result);
}

void runtime::communicator_check(Context &, gpt2_communicator &communicator) {
  // Copy engines (`peers`) need no check: the next wait for the stream reports a failed copy.
  if (communicator.peers) return;
  int result = nccl::kSuccess;
  const int asked = communicator.library.comm_get_async_error(communicator.joined, &result);
  check_nccl(communicator, asked == nccl::kSuccess ? result : asked);
}

}  // namespace gpt2

const char *gpt2_communicator_description(gpt2_communicator *communicator) { return communicator->description.c_str(); }
