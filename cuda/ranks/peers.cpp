// Joins the GPUs of one machine and maps their memory; peer-copies.cpp has the collectives.
#include "peers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../runtime/cuda-context.h"

namespace gpt2 {

namespace {

bool is_refused() {
  const char *variable = std::getenv("GPT2_PEER_COPIES");
  return variable && std::strcmp(variable, "0") == 0;
}

}  // namespace

int Peers::create(gpt2_context &context, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback,
                  std::string &why, const char *function) {
  auto made = std::unique_ptr<Peers>(new Peers(std::move(loopback)));
  if (const int status = made->open(context, why, function)) {
    // The other ranks must not wait for steps that this rank never reaches.
    made->loopback_->abandon();
    return status;
  }
  if (why.empty()) {
    peers = std::move(made);
  } else {
    made->close();
    loopback = std::move(made->loopback_);
  }
  return GPT2_OK;
}

int Peers::open(gpt2_context &context, std::string &why, const char *function) {
  cudaDeviceProp gpu;
  GPT2_TRY(context, function, cudaGetDeviceProperties(&gpu, cuda(context).device));
  std::vector<cudaUUID_t> gpus(static_cast<size_t>(ranks_));
  if (const int status = loopback_->all_gather(context, &gpu.uuid, gpus.data(), sizeof gpu.uuid, function))
    return status;
  // All ranks compare the same list, so all of them find the same pair.
  for (int second = 1; second < ranks_; second++) {
    for (int first = 0; first < second; first++) {
      if (std::memcmp(&gpus[first], &gpus[second], sizeof gpu.uuid) != 0) continue;
      return fail(&context, GPT2_RANK_ERROR, function,
                  "ranks " + std::to_string(first) + " and " + std::to_string(second) +
                      " use the same GPU; give each rank its own");
    }
  }
  batch_memory_operations_ = driver_function<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  if (is_refused()) why = "GPT2_PEER_COPIES is 0";
  if (!batch_memory_operations_) why = "the driver has no cuStreamBatchMemOp";
  if (const int status = choose_ordering(context, gpus, why, function)) return status;
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  copies_.resize(static_cast<size_t>(ranks_));
  GPT2_TRY(context, function, cudaStreamCreateWithFlags(&local_, cudaStreamNonBlocking));
  GPT2_TRY(context, function, cudaStreamCreateWithFlags(&last_, cudaStreamNonBlocking));
  GPT2_TRY(context, function, cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  GPT2_TRY(context, function, cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming));
  if (const int status = allocate(context, granule, flags_, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  return allocate(context, sum_row_bytes * ranks_, sums_, why, function);
}

int Peers::choose_ordering(gpt2_context &context, const std::vector<cudaUUID_t> &gpus, std::string &why,
                           const char *function) {
  const int device = cuda(context).device;
  int can_flush = 0, devices = 0;
  GPT2_TRY(context, function, cudaDeviceGetAttribute(&can_flush, cudaDevAttrCanFlushRemoteWrites, device));
  if (can_flush) {
    ordering_ = "flushed";
    wait_flags_ |= CU_STREAM_WAIT_VALUE_FLUSH;
    return GPT2_OK;
  }
  GPT2_TRY(context, function, cudaGetDeviceCount(&devices));
  std::vector<bool> has_nvlink(gpus.size(), false);
  for (int other = 0; other < devices; other++) {
    cudaDeviceProp gpu;
    // Atomics in another GPU's memory need NVLink. A GPU counts as linked to itself.
    int has_atomics = other == device;
    GPT2_TRY(context, function, cudaGetDeviceProperties(&gpu, other));
    if (other != device) {
      GPT2_TRY(context, function,
               cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, device, other));
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
  return GPT2_OK;
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
  // The only failure is that a rank is gone, and then it maps nothing, so the status is ignored.
  gpt2_context context;
  wait_for_all(context, "gpt2_communicator_destroy");
  cudaFree(flags_.local);
  cudaFree(sums_.local);
  flags_.local = sums_.local = nullptr;
}

int Peers::agree(gpt2_context &context, std::string &why, const char *function) {
  struct Reason {
    char text[256];
  };
  Reason reason{};
  why.copy(reason.text, sizeof reason.text - 1);
  std::vector<Reason> all(static_cast<size_t>(ranks_));
  if (const int status = loopback_->all_gather(context, &reason, all.data(), sizeof reason, function)) return status;
  for (int rank = 0; rank < ranks_ && why.empty(); rank++) {
    if (all[rank].text[0]) why = "rank " + std::to_string(rank) + ": " + all[rank].text;
  }
  return GPT2_OK;
}

int Peers::wait_for_all(gpt2_context &context, const char *function) {
  const char here = 1;
  std::vector<char> all(static_cast<size_t>(ranks_));
  return loopback_->all_gather(context, &here, all.data(), sizeof here, function);
}

int Peers::allocate(gpt2_context &context, int64_t bytes, Mapped &mapped, std::string &why, const char *function) {
  void *memory = nullptr;
  GPT2_TRY(context, function, cudaMalloc(&memory, static_cast<size_t>(bytes)));
  mapped.local = static_cast<char *>(memory);
  GPT2_TRY(context, function, cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), local_));
  GPT2_TRY(context, function, cudaStreamSynchronize(local_));
  return map(context, memory, bytes, mapped, why, function);
}

int Peers::map(gpt2_context &context, void *memory, int64_t bytes, Mapped &mapped, std::string &why,
               const char *function) {
  struct Offer {
    cudaIpcMemHandle_t handle;
    int64_t bytes;
  };
  mapped = {static_cast<char *>(memory), bytes, std::vector<char *>(static_cast<size_t>(ranks_), nullptr)};
  Offer offer{};
  offer.bytes = bytes;
  const cudaError_t exported = cudaIpcGetMemHandle(&offer.handle, memory);
  if (exported != cudaSuccess) why = error_text(exported);
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  std::vector<Offer> offers(static_cast<size_t>(ranks_));
  if (const int status = loopback_->all_gather(context, &offer, offers.data(), sizeof offer, function)) return status;
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
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) unmap(mapped);
  return GPT2_OK;
}

void Peers::unmap(Mapped &mapped) {
  for (char *there : mapped.at) {
    if (there && there != mapped.local) cudaIpcCloseMemHandle(there);
  }
  mapped.at.clear();
}

int Peers::share(gpt2_context &context, void *memory, int64_t bytes, const char *function) {
  Mapped mapped;
  std::string why;
  if (const int status = map(context, memory, bytes, mapped, why, function)) return status;
  if (!why.empty()) {
    return fail(&context, GPT2_UNSUPPORTED, function, why + "; set GPT2_PEER_COPIES=0 to use NCCL instead");
  }
  shared_.push_back(std::move(mapped));
  return GPT2_OK;
}

int Peers::unshare(gpt2_context &context, void *memory, const char *function) {
  const auto shared =
      std::find_if(shared_.begin(), shared_.end(), [&](const Mapped &each) { return each.local == memory; });
  if (shared == shared_.end())
    return fail(&context, GPT2_INVALID_ARGUMENT, function, "expected memory of gpt2_communicator_share");
  unmap(*shared);
  shared_.erase(shared);
  return wait_for_all(context, function);
}

}  // namespace gpt2
