// See peers.h.
#include "peers.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cuda-context.h"

namespace gpt2 {

namespace {

// Of a rank's row for sums: the vectors of GPT-2 124M take half a megabyte, those of 1.5B four.
constexpr int64_t row_bytes = 8 << 20;

bool is_refused() {
  const char *given = std::getenv("GPT2_PEER_COPIES");
  return given && std::strcmp(given, "0") == 0;
}

template <class Function>
Function driver_function(const char *name) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

std::string said(cudaError_t error) {
  cudaGetLastError();
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

int64_t size_of(Number number) {
  return number == Number::kFloat64 ? 8 : number == Number::kFloat32 ? 4 : 2;
}

}  // namespace

int Peers::create(gpt2_context &context, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback,
                  std::string &why, const char *function) {
  auto own = std::unique_ptr<Peers>(new Peers(std::move(loopback)));
  if (const int status = own->open(context, why, function)) {
    // The others do not wait for what this rank has not got to.
    own->loopback_->abandon();
    return status;
  }
  if (why.empty()) {
    peers = std::move(own);
  } else {
    own->close();
    loopback = std::move(own->loopback_);
  }
  return GPT2_OK;
}

int Peers::open(gpt2_context &context, std::string &why, const char *function) {
  cudaDeviceProp gpu;
  GPT2_TRY(context, function, cudaGetDeviceProperties(&gpu, cuda(context).device));
  std::vector<cudaUUID_t> gpus(static_cast<size_t>(ranks_));
  if (const int status = loopback_->tell(context, &gpu.uuid, gpus.data(), sizeof gpu.uuid, function)) return status;
  // Every rank finds the same two.
  for (int second = 1; second < ranks_; second++) {
    for (int first = 0; first < second; first++) {
      if (std::memcmp(&gpus[first], &gpus[second], sizeof gpu.uuid) != 0) continue;
      return fail(&context, GPT2_RANK_ERROR, function,
                  "ranks " + std::to_string(first) + " and " + std::to_string(second) +
                      " have the same GPU; each needs one of its own");
    }
  }
  batch_memory_operations_ = driver_function<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  if (is_refused()) why = "GPT2_PEER_COPIES is 0";
  if (!batch_memory_operations_) why = "the driver has no cuStreamBatchMemOp";
  if (const int status = choose_ordering(context, gpus, why, function)) return status;
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  copies_.resize(static_cast<size_t>(ranks_));
  GPT2_TRY(context, function, cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking));
  GPT2_TRY(context, function, cudaStreamCreateWithFlags(&last_, cudaStreamNonBlocking));
  GPT2_TRY(context, function, cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  GPT2_TRY(context, function, cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming));
  if (const int status = allocate(context, granule, flags_, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  return allocate(context, row_bytes * ranks_, sums_, why, function);
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
  if (beside_) cudaStreamDestroy(beside_);
}

void Peers::close() {
  if (!flags_.own) return;
  for (Mapped &each : shared_) unmap(each);
  unmap(flags_);
  unmap(sums_);
  // One that is gone has mapped nothing.
  gpt2_context context;
  wait_for_all(context, "gpt2_communicator_destroy");
  cudaFree(flags_.own);
  cudaFree(sums_.own);
  flags_.own = sums_.own = nullptr;
}

int Peers::agree(gpt2_context &context, std::string &why, const char *function) {
  struct Reason {
    char text[256];
  };
  Reason own{};
  why.copy(own.text, sizeof own.text - 1);
  std::vector<Reason> all(static_cast<size_t>(ranks_));
  if (const int status = loopback_->tell(context, &own, all.data(), sizeof own, function)) return status;
  for (int rank = 0; rank < ranks_ && why.empty(); rank++) {
    if (all[rank].text[0]) why = "rank " + std::to_string(rank) + ": " + all[rank].text;
  }
  return GPT2_OK;
}

int Peers::wait_for_all(gpt2_context &context, const char *function) {
  const char here = 1;
  std::vector<char> all(static_cast<size_t>(ranks_));
  return loopback_->tell(context, &here, all.data(), sizeof here, function);
}

int Peers::allocate(gpt2_context &context, int64_t bytes, Mapped &mapped, std::string &why, const char *function) {
  void *memory = nullptr;
  GPT2_TRY(context, function, cudaMalloc(&memory, static_cast<size_t>(bytes)));
  mapped.own = static_cast<char *>(memory);
  GPT2_TRY(context, function, cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), beside_));
  GPT2_TRY(context, function, cudaStreamSynchronize(beside_));
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
  if (exported != cudaSuccess) why = said(exported);
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) return GPT2_OK;
  std::vector<Offer> offers(static_cast<size_t>(ranks_));
  if (const int status = loopback_->tell(context, &offer, offers.data(), sizeof offer, function)) return status;
  for (int rank = 0; rank < ranks_ && why.empty(); rank++) {
    if (offers[rank].bytes != bytes) {
      why = "rank " + std::to_string(rank) + " shares " + std::to_string(offers[rank].bytes) + " bytes, this rank " +
            std::to_string(bytes);
      break;
    }
    void *there = memory;
    if (rank != rank_) {
      const cudaError_t error = cudaIpcOpenMemHandle(&there, offers[rank].handle, cudaIpcMemLazyEnablePeerAccess);
      if (error != cudaSuccess) why = said(error);
    }
    if (why.empty()) mapped.at[rank] = static_cast<char *>(there);
  }
  if (const int status = agree(context, why, function)) return status;
  if (!why.empty()) unmap(mapped);
  return GPT2_OK;
}

void Peers::unmap(Mapped &mapped) {
  for (char *there : mapped.at) {
    if (there && there != mapped.own) cudaIpcCloseMemHandle(there);
  }
  mapped.at.clear();
}

int Peers::share(gpt2_context &context, void *memory, int64_t bytes, const char *function) {
  Mapped mapped;
  std::string why;
  if (const int status = map(context, memory, bytes, mapped, why, function)) return status;
  if (!why.empty()) {
    return fail(&context, GPT2_UNSUPPORTED, function, why + "; GPT2_PEER_COPIES=0 leaves what goes between ranks to NCCL");
  }
  shared_.push_back(std::move(mapped));
  return GPT2_OK;
}

int Peers::unshare(gpt2_context &context, void *memory, const char *function) {
  const auto shared =
      std::find_if(shared_.begin(), shared_.end(), [&](const Mapped &each) { return each.own == memory; });
  if (shared == shared_.end()) return fail(&context, GPT2_INVALID_ARGUMENT, function, "expected memory that is shared");
  unmap(*shared);
  shared_.erase(shared);
  return wait_for_all(context, function);
}

const Peers::Mapped *Peers::find(gpt2_context &context, const void *memory, int64_t bytes, const char *function,
                                 int &status) const {
  const char *start = static_cast<const char *>(memory);
  for (const Mapped &shared : shared_) {
    if (start >= shared.own && start + bytes <= shared.own + shared.bytes) return &shared;
  }
  status = fail(&context, GPT2_INVALID_ARGUMENT, function, "expected `out` in memory of gpt2_communicator_share");
  return nullptr;
}

int Peers::exchange(gpt2_context &context, cudaStream_t stream, void *out, const void *in, int64_t bytes,
                    int64_t stride, const char *function) {
  int status = GPT2_OK;
  const Mapped *shared = find(context, out, (ranks_ - 1) * stride + bytes, function, status);
  if (!shared) return status;
  const char *parts = static_cast<const char *>(in);
  char *row = static_cast<char *>(out) + rank_ * stride;
  for (int step = 0; step < ranks_; step++) {
    const int to = rank_at(step);
    copies_[step].push_back({shared->at[to] + (row - shared->own), parts + to * bytes, bytes});
  }
  return issue(context, stream, function);
}

int Peers::gather(gpt2_context &context, cudaStream_t stream, void *out, const void *in, int64_t bytes,
                  const char *function) {
  int status = GPT2_OK;
  const Mapped *shared = find(context, out, ranks_ * bytes, function, status);
  if (!shared) return status;
  char *part = static_cast<char *>(out) + rank_ * bytes;
  for (int step = part == in ? 1 : 0; step < ranks_; step++) {
    copies_[step].push_back({shared->at[rank_at(step)] + (part - shared->own), in, bytes});
  }
  return issue(context, stream, function);
}

int Peers::reduce(gpt2_context &context, cudaStream_t stream, void *values, int64_t count, Number number,
                  const char *function) {
  const int64_t size = size_of(number);
  for (int64_t start = 0; start < count;) {
    // Of a group that takes more than a row, what is pending goes first.
    if (summed_bytes_ == row_bytes) {
      if (const int status = run(context, stream, function)) return status;
    }
    const int64_t piece = std::min(count - start, (row_bytes - summed_bytes_) / size);
    char *from = static_cast<char *>(values) + start * size;
    for (int step = 1; step < ranks_; step++) {
      copies_[step].push_back({sums_.at[rank_at(step)] + rank_ * row_bytes + summed_bytes_, from, piece * size});
    }
    pending_sums_.push_back({from, sums_.own + summed_bytes_, piece, number});
    // The next begins where any kernel can read it.
    summed_bytes_ = std::min(row_bytes, (summed_bytes_ + piece * size + 255) / 256 * 256);
    start += piece;
  }
  return issue(context, stream, function);
}

// Every sign is given in the place of those that give none, as often as there is one to wait for. A second is enough for a step;
// a process whose streams still wait then ends as well, when it is ended.
void Peers::abandon(cudaStream_t first, cudaStream_t second) const {
  loopback_->abandon();
  const std::vector<uint32_t> words(static_cast<size_t>(2 * ranks_), 1);
  const size_t bytes = words.size() * sizeof(uint32_t);
  for (int turn = 0; turn < 1000; turn++) {
    if (cudaStreamQuery(first) != cudaErrorNotReady && cudaStreamQuery(second) != cudaErrorNotReady) break;
    if (cudaMemcpyAsync(flags_.own, words.data(), bytes, cudaMemcpyHostToDevice, last_) != cudaSuccess) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int Peers::end_group(gpt2_context &context, cudaStream_t stream, const char *function) {
  is_group_ = false;
  return run(context, stream, function);
}

int Peers::issue(gpt2_context &context, cudaStream_t stream, const char *function) {
  return is_group_ ? GPT2_OK : run(context, stream, function);
}

// A word is set by another rank and taken back by its own. Between two signs of one kind lies one of the other kind, from
// everyone, so that no word is set again before it was taken back. A word is sent after the copies before it, but a GPU may
// reorder the remote writes that it receives. The wait flushes them if the GPU can; otherwise NVLink keeps their order
// (choose_ordering).
int Peers::meet(gpt2_context &context, cudaStream_t stream, Sign sign, const char *function) {
  std::vector<CUstreamBatchMemOpParams> operations;
  const auto word = [&](char *flags, int rank) {
    return reinterpret_cast<CUdeviceptr>(reinterpret_cast<uint32_t *>(flags) + sign * ranks_ + rank);
  };
  const auto write = [&](CUdeviceptr address, uint32_t value) {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = address;
    operation.writeValue.value = value;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    operations.push_back(operation);
  };
  for (int step = 1; step < ranks_; step++) write(word(flags_.at[rank_at(step)], rank_), 1);
  for (int step = 1; step < ranks_; step++) {
    const CUdeviceptr own = word(flags_.own, rank_at(step));
    CUstreamBatchMemOpParams operation{};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = own;
    operation.waitValue.value = 1;
    operation.waitValue.flags = wait_flags_;
    operations.push_back(operation);
    write(own, 0);
  }
  const auto count = static_cast<unsigned>(operations.size());
  // The two APIs number their errors alike.
  GPT2_TRY(context, function,
           static_cast<cudaError_t>(batch_memory_operations_(stream, count, operations.data(), 0)));
  return GPT2_OK;
}

int Peers::run(gpt2_context &context, cudaStream_t stream, const char *function) {
  const auto copy = [&](int step, cudaStream_t in) {
    for (const Copy &each : copies_[step]) {
      const auto bytes = static_cast<size_t>(each.bytes);
      GPT2_TRY(context, function, cudaMemcpyAsync(each.to, each.from, bytes, cudaMemcpyDeviceToDevice, in));
    }
    copies_[step].clear();
    return int{GPT2_OK};
  };
  const bool has_own = !copies_[0].empty();
  if (has_own) {
    GPT2_TRY(context, function, cudaEventRecord(fork_, stream));
    GPT2_TRY(context, function, cudaStreamWaitEvent(beside_, fork_, 0));
    if (const int status = copy(0, beside_)) return status;
    GPT2_TRY(context, function, cudaEventRecord(joined_, beside_));
  }
  if (const int status = meet(context, stream, kReady, function)) return status;
  for (int step = 1; step < ranks_; step++) {
    if (const int status = copy(step, stream)) return status;
  }
  if (const int status = meet(context, stream, kDone, function)) return status;
  if (has_own) GPT2_TRY(context, function, cudaStreamWaitEvent(stream, joined_, 0));
  for (const PendingSum &sum : pending_sums_) {
    launch_sum_of_ranks(stream, sum.values, sum.rows, row_bytes, sum.count, sum.number, rank_, ranks_);
  }
  pending_sums_.clear();
  summed_bytes_ = 0;
  return GPT2_LAUNCHED(context, function);
}

}  // namespace gpt2
