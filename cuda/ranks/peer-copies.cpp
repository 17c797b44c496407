// The collectives of peers.h: their copies, the order in which streams run the copies, and the signals between ranks.
#include <algorithm>
#include <chrono>
#include <thread>

#include "peers.h"

namespace gpt2 {

namespace {

int64_t size_of(Number number) { return number == Number::kFloat64 ? 8 : number == Number::kFloat32 ? 4 : 2; }

}  // namespace

const Peers::Mapped &Peers::find(const void *memory, int64_t bytes) const {
  const char *start = static_cast<const char *>(memory);
  for (const Mapped &shared : shared_) {
    if (start >= shared.local && start + bytes <= shared.local + shared.bytes) return shared;
  }
  throw Failure{GPT2_INVALID_ARGUMENT, "expected `out` in memory of gpt2_communicator_share"};
}

void Peers::exchange(cudaStream_t stream, void *out, const void *in, int64_t bytes, int64_t stride) {
  const Mapped &shared = find(out, (ranks_ - 1) * stride + bytes);
  const char *parts = static_cast<const char *>(in);
  char *row = static_cast<char *>(out) + rank_ * stride;
  for (int step = 0; step < ranks_; step++) {
    const int to = rank_at(step);
    copies_[step].push_back({shared.at[to] + (row - shared.local), parts + to * bytes, bytes});
  }
  enqueue(stream);
}

void Peers::gather(cudaStream_t stream, void *out, const void *in, int64_t bytes) {
  const Mapped &shared = find(out, ranks_ * bytes);
  char *part = static_cast<char *>(out) + rank_ * bytes;
  for (int step = part == in ? 1 : 0; step < ranks_; step++) {
    copies_[step].push_back({shared.at[rank_at(step)] + (part - shared.local), in, bytes});
  }
  enqueue(stream);
}

void Peers::reduce(cudaStream_t stream, void *values, int64_t count, Number number) {
  const int64_t size = size_of(number);
  for (int64_t start = 0; start < count;) {
    // If pending sums fill the row of `sums_`, pending copies and sums run now, to make room for this sum.
    if (summed_bytes_ == sum_row_bytes) run(stream);
    const int64_t piece = std::min(count - start, (sum_row_bytes - summed_bytes_) / size);
    char *from = static_cast<char *>(values) + start * size;
    for (int step = 1; step < ranks_; step++) {
      copies_[step].push_back({sums_.at[rank_at(step)] + rank_ * sum_row_bytes + summed_bytes_, from, piece * size});
    }
    pending_sums_.push_back({from, sums_.local + summed_bytes_, piece, number});
    // The next sum begins at a multiple of 256 bytes, an address that a kernel can read any element type from.
    summed_bytes_ = std::min(sum_row_bytes, (summed_bytes_ + piece * size + 255) / 256 * 256);
    start += piece;
  }
  enqueue(stream);
}

// Sets every signal that this rank waits for, in place of ranks that are gone. Repeats this for one second, because the
// streams may wait several times; a step takes less than a second. Returns even if the streams then still wait.
void Peers::abandon(cudaStream_t first, cudaStream_t second) const {
  loopback_->abandon();
  const std::vector<uint32_t> words(static_cast<size_t>(2 * ranks_), 1);
  const size_t bytes = words.size() * sizeof(uint32_t);
  for (int turn = 0; turn < 1000; turn++) {
    if (cudaStreamQuery(first) != cudaErrorNotReady && cudaStreamQuery(second) != cudaErrorNotReady) break;
    if (cudaMemcpyAsync(flags_.local, words.data(), bytes, cudaMemcpyHostToDevice, last_) != cudaSuccess) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Peers::end_group(cudaStream_t stream) {
  is_group_ = false;
  run(stream);
}

void Peers::enqueue(cudaStream_t stream) {
  if (!is_group_) run(stream);
}

// Sends a signal to every other rank and waits for theirs. A signal is a word in a rank's memory: another rank sets it,
// the rank itself clears it. kReady and kDone alternate, and a rank clears its words of one kind before it sends the
// other kind, so no word is set again before it is cleared. A rank sets the word after it copies, but a GPU may reorder
// incoming remote writes. The wait flushes the writes if the GPU can; else NVLink keeps their order (choose_ordering).
void Peers::meet(cudaStream_t stream, Sign sign) {
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
    const CUdeviceptr awaited = word(flags_.local, rank_at(step));
    CUstreamBatchMemOpParams operation{};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = awaited;
    operation.waitValue.value = 1;
    operation.waitValue.flags = wait_flags_;
    operations.push_back(operation);
    write(awaited, 0);
  }
  const auto count = static_cast<unsigned>(operations.size());
  // The driver API and the runtime API use the same error numbers.
  GPT2_TRY(static_cast<cudaError_t>(batch_memory_operations_(stream, count, operations.data(), 0)));
}

void Peers::run(cudaStream_t stream) {
  const auto copy = [&](int step, cudaStream_t in) {
    for (const Copy &each : copies_[step]) {
      const auto bytes = static_cast<size_t>(each.bytes);
      GPT2_TRY(cudaMemcpyAsync(each.to, each.from, bytes, cudaMemcpyDeviceToDevice, in));
    }
    copies_[step].clear();
  };
  const bool has_own = !copies_[0].empty();
  if (has_own) {
    GPT2_TRY(cudaEventRecord(fork_, stream));
    GPT2_TRY(cudaStreamWaitEvent(local_, fork_, 0));
    copy(0, local_);
    GPT2_TRY(cudaEventRecord(joined_, local_));
  }
  meet(stream, kReady);
  for (int step = 1; step < ranks_; step++) copy(step, stream);
  meet(stream, kDone);
  if (has_own) GPT2_TRY(cudaStreamWaitEvent(stream, joined_, 0));
  for (const PendingSum &sum : pending_sums_) {
    launch_sum_of_ranks(stream, sum.values, sum.rows, sum_row_bytes, sum.count, sum.number, rank_, ranks_);
  }
  pending_sums_.clear();
  summed_bytes_ = 0;
  GPT2_TRY(cudaGetLastError());
}

}  // namespace gpt2
