// Joins the GPUs of one machine and maps their memory; peer-copies.cpp has the collectives.
#include "peers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gpt2 {

namespace {

bool is_refused() {
  const char *variable = std::getenv("GPT2_PEER_COPIES");
  return variable && std::strcmp(variable, "0") == 0;
}

}  // namespace

void Peers::create(const CudaContext &gpu, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback,
                   std::string &why) {
  auto made = std::unique_ptr<Peers>(new Peers(std::move(loopback)));
  try {
    made->open(gpu.device, why);
  } catch (...) {
    // Closes the connections, so that the other ranks do not wait for steps that this rank never reaches.
    made->loopback_->abandon();
    throw;
  }
  if (why.empty()) {
    peers = std::move(made);
  } else {
    made->close();
    loopback = std::move(made->loopback_);
  }
}

void Peers::open(int device, std::string &why) {
  cudaDeviceProp gpu;
  GPT2_TRY(cudaGetDeviceProperties(&gpu, device));
  std::vector<cudaUUID_t> gpus(static_cast<size_t>(ranks_));
  loopback_->all_gather(&gpu.uuid, gpus.data(), sizeof gpu.uuid);
  // All ranks compare the same list of GPUs, so all of them report the same pair of ranks.
  for (int second = 1; second < ranks_; second++) {
    for (int first = 0; first < second; first++) {
      if (std::memcmp(&gpus[first], &gpus[second], sizeof gpu.uuid) != 0) continue;
      throw Failure{GPT2_RANK_ERROR, "ranks " + std::to_string(first) + " and " + std::to_string(second) +
                                         " use the same GPU; give each rank its own"};
    }
  }
  batch_memory_operations_ = driver_function<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  if (is_refused()) why = "GPT2_PEER_COPIES is 0";
  if (!batch_memory_operations_) why = "the driver has no cuStreamBatchMemOp";
  choose_ordering(device, gpus, why);
  agree(why);
  if (!why.empty()) return;
  copies_.resize(static_cast<size_t>(ranks_));
  GPT2_TRY(cudaStreamCreateWithFlags(&local_, cudaStreamNonBlocking));
  GPT2_TRY(cudaStreamCreateWithFlags(&last_, cudaStreamNonBlocking));
  GPT2_TRY(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  GPT2_TRY(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming));
  allocate(granule, flags_, why);
  if (!why.empty()) return;
  allocate(sum_row_bytes * ranks_, sums_, why);
}

void Peers::choose_ordering(int device, const std::vector<cudaUUID_t> &gpus, std::string &why) {
  int can_flush = 0, devices = 0;
  GPT2_TRY(cudaDeviceGetAttribute(&can_flush, cudaDevAttrCanFlushRemoteWrites, device));
  if (can_flush) {
    ordering_ = "flushed";
    wait_flags_ |= CU_STREAM_WAIT_VALUE_FLUSH;
    return;
  }
  GPT2_TRY(cudaGetDeviceCount(&devices));
  std::vector<bool> has_nvlink(gpus.size(), false);
  for (int other = 0; other < devices; other++) {
    cudaDeviceProp gpu;
    // Native atomics in another GPU's memory are only supported over NVLink. A GPU counts as linked to itself.
    int has_atomics = other == device;
    GPT2_TRY(cudaGetDeviceProperties(&gpu, other));
    if (other != device) {
      GPT2_TRY(cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, device, other));
    }
    for (size_t rank = 0; rank < gpus.size(); rank++) {
      if (std::memcmp(&gpus[rank], &gpu.uuid, sizeof gpu.uuid) == 0) has_nvlink[rank] = has_atomics;
    }
  }
  const auto without = std::find(has_nvlink.begin(), has_nvlink.end(), false);
  if (without != has_nvlink.end()) {
    why = "the GPU cannot flush remote writes and has no visible NVLink to rank " +
          std::to_string(without - has_nvlink.begin()) + "'s GPU";
  }
  ordering_ = "nvlink";
}

Peers::~Peers() {
  close();
  if (joined_) cudaEventDestroy(joined_);
  if (fork_) cudaEventDestroy(fork_);
  if (last_) cudaStreamDestroy(last_);
  if (local_) cudaStreamDestroy(local_);
}

void Peers::close() {
  if (!flags_.local) return;
  for (Mapped &each : shared_) unmap(each);
  unmap(flags_);
  unmap(sums_);
  try {
    wait_for_all();
  } catch (const Failure &) {
    // The wait failed because a rank is gone. A rank that is gone maps no memory.
  }
  cudaFree(flags_.local);
  cudaFree(sums_.local);
  flags_.local = sums_.local = nullptr;
}

void Peers::agree(std::string &why) {
  struct Reason {
    char text[256];
  };
  Reason reason{};
  why.copy(reason.text, sizeof reason.text - 1);
  std::vector<Reason> all(static_cast<size_t>(ranks_));
  loopback_->all_gather(&reason, all.data(), sizeof reason);
  for (int rank = 0; rank < ranks_ && why.empty(); rank++) {
    if (all[rank].text[0]) why = "rank " + std::to_string(rank) + ": " + all[rank].text;
  }
}

void Peers::wait_for_all() {
  const char here = 1;
  std::vector<char> all(static_cast<size_t>(ranks_));
  loopback_->all_gather(&here, all.data(), sizeof here);
}

void Peers::allocate(int64_t bytes, Mapped &mapped, std::string &why) {
  void *memory = nullptr;
  GPT2_TRY(cudaMalloc(&memory, static_cast<size_t>(bytes)));
  mapped.local = static_cast<char *>(memory);
  GPT2_TRY(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), local_));
  GPT2_TRY(cudaStreamSynchronize(local_));
  map(memory, bytes, mapped, why);
}

void Peers::map(void *memory, int64_t bytes, Mapped &mapped, std::string &why) {
  struct Offer {
    cudaIpcMemHandle_t handle;
    int64_t bytes;
  };
  mapped = {static_cast<char *>(memory), bytes, std::vector<char *>(static_cast<size_t>(ranks_), nullptr)};
  Offer offer{};
  offer.bytes = bytes;
  const cudaError_t exported = cudaIpcGetMemHandle(&offer.handle, memory);
  if (exported != cudaSuccess) why = error_text(exported);
  agree(why);
  if (!why.empty()) return;
  std::vector<Offer> offers(static_cast<size_t>(ranks_));
  loopback_->all_gather(&offer, offers.data(), sizeof offer);
  for (int rank = 0; rank < ranks_ && why.empty(); rank++) {
    if (offers[rank].bytes != bytes) {
      why = "rank " + std::to_string(rank) + " shares " + std::to_string(offers[rank].bytes) + " bytes, this rank " +
            std::to_string(bytes);
      break;
    }
    void *there = memory;
    if (rank != rank_) {
      const cudaError_t error = cudaIpcOpenMemHandle(&there, offers[rank].handle, cudaIpcMemLazyEnablePeerAccess);
      if (error != cudaSuccess) why = error_text(error);
    }
    if (why.empty()) mapped.at[rank] = static_cast<char *>(there);
  }
  agree(why);
  if (!why.empty()) unmap(mapped);
}

void Peers::unmap(Mapped &mapped) {
  for (char *there : mapped.at) {
    if (there && there != mapped.local) cudaIpcCloseMemHandle(there);
  }
  mapped.at.clear();
}

void Peers::share(void *memory, int64_t bytes) {
  Mapped mapped;
  std::string why;
  map(memory, bytes, mapped, why);
  if (!why.empty()) throw Failure{GPT2_UNSUPPORTED, why + "; set GPT2_PEER_COPIES=0 to use NCCL instead"};
  shared_.push_back(std::move(mapped));
}

void Peers::unshare(void *memory) {
  const auto shared =
      std::find_if(shared_.begin(), shared_.end(), [&](const Mapped &each) { return each.local == memory; });
  if (shared == shared_.end()) throw Failure{GPT2_INVALID_ARGUMENT, "expected memory of gpt2_communicator_share"};
  unmap(*shared);
  shared_.erase(shared);
  wait_for_all();
}

}  // namespace gpt2
