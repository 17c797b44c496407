// Copies between the GPUs of one machine, one process per GPU, by the GPUs' copy engines. No SM takes part, so
// concurrent kernels keep all SMs. Each process maps the memory of the others (CUDA IPC). Ranks signal each other by
// words in that memory, which streams write and wait for (stream memory operations). Graphs can contain all of these
// operations.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "../runtime/cuda-context.h"
#include "loopback.h"

namespace gpt2 {

// The type of values that are summed over ranks.
enum class Number { kFloat32, kBfloat16, kFloat64 };

// values [count] = the sum over ranks, in the order of ranks (sum-of-ranks.cu). Rank r's values are at rows + r *
// stride bytes, this rank's values in `values`. Sums are in fp32; sums of doubles are in double.
void launch_sum_of_ranks(cudaStream_t, void *values, const char *rows, int64_t stride, int64_t count, Number, int rank,
                         int ranks);

class Peers {
 public:
  // Sizes of shared memory are multiples of this: the driver puts smaller allocations together, and maps whole blocks.
  static constexpr int64_t granule = 2 << 20;

  // Connects the GPUs; called by all ranks. If some GPU cannot reach another's memory, then at every rank `peers` stays
  // NULL, `loopback` stays usable, and `why` has the reason: no path between the GPUs, containers that isolate
  // processes, or GPT2_PEER_COPIES=0.
  static void create(const CudaContext &, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback,
                     std::string &why);
  // Waits until all ranks destroy their Peers; no copy may be running.
  ~Peers();

  // Maps `memory` [bytes], of one size at every rank, into the other processes. Called in the same order at all ranks.
  void share(void *memory, int64_t bytes);
  void unshare(void *memory);
  // The guarantee that a rank that sees a signal also sees the copies sent before the signal: "flushed" or "nvlink".
  const char *ordering() const { return ordering_; }
  // Ends running collectives in both streams without their results, even if they wait for a rank that is gone.
  void abandon(cudaStream_t, cudaStream_t) const;

  // The collectives, in the order of `stream`. The collectives of a group begin together, after the work in the stream
  // at the group's end. Sizes are in bytes; `out` is shared memory.
  // out[r] = rank r's in[this rank]. Rows of `in` have `bytes`; rows of `out` are `stride` bytes apart.
  void exchange(cudaStream_t stream, void *out, const void *in, int64_t bytes, int64_t stride);
  // out[r] = rank r's `in` [bytes], which may be out[this rank].
  void gather(cudaStream_t stream, void *out, const void *in, int64_t bytes);
  // values [count] = the sum of all ranks' values; `values` need not be shared memory.
  void reduce(cudaStream_t stream, void *values, int64_t count, Number);
  void begin_group() { is_group_ = true; }
  void end_group(cudaStream_t stream);

 private:
  // Memory that every rank allocates, in one size, and that every other rank maps.
  struct Mapped {
    char *local;
    int64_t bytes;
    // The address in this process of each rank's memory; `local` for this rank.
    std::vector<char *> at;
  };
  struct Copy {
    void *to;
    const void *from;
    int64_t bytes;
  };
  struct PendingSum {
    void *values;
    const char *rows;
    int64_t count;
    Number number;
  };
  // A rank's signals to every other rank. kReady: the rank's memory may be written. kDone: the rank's copies are done.
  enum Sign { kReady, kDone };

  // Bytes of a rank's row in `sums_`. The gradients of biases and norms take 0.5 MB in GPT-2 124M, 4 MB in 1.5B.
  static constexpr int64_t sum_row_bytes = 8 << 20;

  explicit Peers(std::unique_ptr<Loopback> loopback)
      : loopback_(std::move(loopback)), rank_(loopback_->rank()), ranks_(loopback_->ranks()) {}
  void open(int device, std::string &why);
  // Sets `ordering_`; also sets `why` if nothing guarantees that copies arrive before the signal sent after them.
  void choose_ordering(int device, const std::vector<cudaUUID_t> &gpus, std::string &why);
  // Unmaps all memory, and frees this rank's memory once all ranks have unmapped it.
  void close();
  // Allocates zeroed memory that all ranks map.
  void allocate(int64_t bytes, Mapped &mapped, std::string &why);
  // Maps `memory` [bytes] into the other processes. `why` stays empty if all ranks could map it.
  void map(void *memory, int64_t bytes, Mapped &mapped, std::string &why);
  static void unmap(Mapped &);
  // Exchanges the reasons why ranks cannot use copies: afterwards `why` is empty at all ranks or set at all ranks.
  void agree(std::string &why);
  void wait_for_all();
  const Mapped &find(const void *memory, int64_t bytes) const;
  // The rank that this rank copies to in a step. In each step, every rank copies to a different rank.
  int rank_at(int step) const { return (rank_ + step) % ranks_; }
  // Signals every other rank, and waits for the signals of all others.
  void meet(cudaStream_t, Sign);
  // Runs the pending copies and sums, unless a group is open.
  void enqueue(cudaStream_t);
  void run(cudaStream_t);

  std::unique_ptr<Loopback> loopback_;
  int rank_, ranks_;
  // flags_: the words of the signals. sums_: for each rank a row with the values that are being summed.
  Mapped flags_{}, sums_{};
  std::vector<Mapped> shared_;
  bool is_group_ = false;
  // copies_[step]: pending copies to rank_at(step); copies_[0] are copies within this GPU.
  std::vector<std::vector<Copy>> copies_;
  std::vector<PendingSum> pending_sums_;
  int64_t summed_bytes_ = 0;      // bytes of a row of `sums_` that pending sums use
  cudaStream_t local_ = nullptr;  // for copies within this GPU, concurrent with copies to other ranks
  cudaStream_t last_ = nullptr;   // for abandon(), which has to run while all other streams wait
  cudaEvent_t fork_ = nullptr, joined_ = nullptr;
  const char *ordering_ = "";
  unsigned wait_flags_ = CU_STREAM_WAIT_VALUE_EQ;  // of every wait for a signal
  decltype(&cuStreamBatchMemOp) batch_memory_operations_ = nullptr;
};

}  // namespace gpt2
