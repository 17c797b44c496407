// Copies between the GPUs of one machine, one process per GPU, by the GPUs' copy engines: no SM takes part, so kernels
// that run concurrently keep all SMs. Each process maps the memory of the others (CUDA IPC). Ranks signal each other by
// words in that memory, which streams write and wait for (stream memory operations). All of it can be part of a graph.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "../runtime/context.h"
#include "loopback.h"

namespace gpt2 {

// The type of values that are summed over ranks.
enum class Number { kFloat32, kBfloat16, kFloat64 };

// values [count] = the sum over ranks, in the order of ranks: the row of each other rank is at rank * stride bytes
// (sum-of-ranks.cu). Sums are taken in fp32, those of doubles in double.
void launch_sum_of_ranks(cudaStream_t, void *values, const char *rows, int64_t stride, int64_t count, Number, int rank,
                         int ranks);

class Peers {
 public:
  // Shared memory is a multiple of this: the driver puts smaller allocations into one block with other memory, and maps
  // entire blocks.
  static constexpr int64_t granule = 2 << 20;

  // All ranks call it. Where a GPU cannot reach another's memory, at every rank `peers` stays NULL, the loopback is not
  // moved from, and `why` has the reason: no path between the GPUs, containers that isolate processes, or
  // GPT2_PEER_COPIES=0.
  static int create(gpt2_context &, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback,
                    std::string &why, const char *function);
  // All ranks destroy their own, and none returns before all do; no copy may be running.
  ~Peers();

  // Maps `memory` [bytes], of the same size at every rank, into the other processes. All ranks call these in the same
  // order.
  int share(gpt2_context &, void *memory, int64_t bytes, const char *function);
  int unshare(gpt2_context &, void *memory, const char *function);
  // The guarantee that a rank that sees another rank's word also sees the copies before it: "flushed" or "nvlink".
  const char *ordering() const { return ordering_; }
  // Ends running collectives in both streams without their results, even if they wait for a rank that is gone.
  void abandon(cudaStream_t, cudaStream_t) const;

  // The collectives, in the order of `stream`. Those enqueued between begin and end of a group begin together, after what
  // the stream holds at the group's end. Sizes in bytes; `out` is shared memory. out[r] = rank r's in[rank]; rows are
  // `stride` bytes apart, `bytes` of each are written.
  int exchange(gpt2_context &, cudaStream_t stream, void *out, const void *in, int64_t bytes, int64_t stride,
               const char *function);
  // out[r] = rank r's in (may be out[rank]).
  int gather(gpt2_context &, cudaStream_t stream, void *out, const void *in, int64_t bytes, const char *function);
  // values [count] = the sum of all ranks' values; they need not be shared.
  int reduce(gpt2_context &, cudaStream_t stream, void *values, int64_t count, Number, const char *function);
  void begin_group() { is_group_ = true; }
  int end_group(gpt2_context &, cudaStream_t stream, const char *function);

 private:
  // Memory that every rank owns one of, and maps from every other rank.
  struct Mapped {
    char *local;
    int64_t bytes;
    // This process's address of each rank's memory; `own` for this rank.
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
  // The words in the flags, one from each rank for each sign: its memory may be written; it has written.
  enum Sign { kReady, kDone };

  // A rank's row for sums: the vectors of GPT-2 124M take half a megabyte, those of 1.5B four.
  static constexpr int64_t sum_row_bytes = 8 << 20;

  explicit Peers(std::unique_ptr<Loopback> loopback)
      : loopback_(std::move(loopback)), rank_(loopback_->rank()), ranks_(loopback_->ranks()) {}
  int open(gpt2_context &, std::string &why, const char *function);
  // Sets `ordering_`; also sets `why` if nothing guarantees that copies arrive before the word that follows them.
  int choose_ordering(gpt2_context &, const std::vector<cudaUUID_t> &gpus, std::string &why, const char *function);
  // Unmaps everything, and frees its own memory once all ranks have unmapped it.
  void close();
  // Allocates zeroed memory that all ranks map.
  int allocate(gpt2_context &, int64_t bytes, Mapped &mapped, std::string &why, const char *function);
  // `why` is empty if all ranks could map it.
  int map(gpt2_context &, void *memory, int64_t bytes, Mapped &mapped, std::string &why, const char *function);
  static void unmap(Mapped &);
  // Shares every rank's reason not to go on: afterwards `why` is empty at all ranks or set at all.
  int agree(gpt2_context &, std::string &why, const char *function);
  int wait_for_all(gpt2_context &, const char *function);
  const Mapped *find(gpt2_context &, const void *memory, int64_t bytes, const char *function, int &status) const;
  // Each rank begins with a different one.
  int rank_at(int step) const { return (rank_ + step) % ranks_; }
  // Gives the sign to every other rank, and waits for theirs.
  int meet(gpt2_context &, cudaStream_t, Sign, const char *function);
  // Runs the pending copies and sums, unless they belong to a group.
  int enqueue(gpt2_context &, cudaStream_t, const char *function);
  int run(gpt2_context &, cudaStream_t, const char *function);

  std::unique_ptr<Loopback> loopback_;
  int rank_, ranks_;
  // `sums_` holds a row from each rank, for what is summed in one run.
  Mapped flags_{}, sums_{};
  std::vector<Mapped> shared_;
  bool is_group_ = false;
  // Copies to other ranks by the step from this rank to them, from 1 on; at 0 the copies within this GPU.
  std::vector<std::vector<Copy>> copies_;
  std::vector<PendingSum> pending_sums_;
  // Bytes of a row of `sums_` that pending sums use.
  int64_t summed_bytes_ = 0;
  // For copies within this GPU, which run concurrently with those to other ranks.
  cudaStream_t local_ = nullptr;
  // For abandon(), which has to run while all other streams wait.
  cudaStream_t last_ = nullptr;
  cudaEvent_t fork_ = nullptr, joined_ = nullptr;
  const char *ordering_ = "";
  // Flags of every wait for a word.
  unsigned wait_flags_ = CU_STREAM_WAIT_VALUE_EQ;
  decltype(&cuStreamBatchMemOp) batch_memory_operations_ = nullptr;
};

}  // namespace gpt2
