// What goes between the GPUs of one machine, each the device of a process of its own, by their copy engines: no SM takes part,
// so that the kernels beside it keep all of theirs. Memory is mapped into the other processes (CUDA IPC); ranks wait for each
// other by words in it, which streams write and wait for (stream memory operations). All of it can be captured.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "context.h"
#include "loopback.h"

namespace gpt2 {

// What is added over ranks.
enum class Number { kFloat32, kBfloat16, kFloat64 };

// values [count] = the sum over ranks, in their order: of each other rank its row, at rank * stride bytes (all-reduce.cu). Taken
// in fp32, of doubles in double.
void launch_sum_of_ranks(cudaStream_t, void *values, const char *rows, int64_t stride, int64_t count, Number, int rank,
                         int ranks);

class Peers {
 public:
  // What shared memory must be a multiple of: the driver puts less into one block with other memory, and maps whole blocks.
  static constexpr int64_t granule = 2 << 20;

  // All ranks call it. Where one cannot reach the memory of another `peers` stays NULL and the loopback where it is, at every
  // rank, with the reason in `why`: GPUs without a way between them, containers that keep processes apart, or
  // GPT2_PEER_COPIES=0.
  static int create(gpt2_context &, std::unique_ptr<Peers> &peers, std::unique_ptr<Loopback> &loopback, std::string &why,
                    const char *function);
  // All ranks destroy theirs, and none does before all do; nothing of it may be under way.
  ~Peers();

  // Maps `memory` [bytes], of the same size at every rank, into the others. All ranks call these in the same order.
  int share(gpt2_context &, void *memory, int64_t bytes, const char *function);
  int unshare(gpt2_context &, void *memory, const char *function);
  // The guarantee that a rank that has another's word also sees the copies before it: "flushed" or "nvlink".
  const char *ordering() const { return ordering_; }
  // Ends what is under way in both streams without its result, though it may be waiting for a rank that is gone.
  void abandon(cudaStream_t, cudaStream_t) const;

  // The collectives, in the order of `stream`: what is issued between begin and end of a group begins together, behind
  // what the stream holds at its end. Sizes in bytes; `out` is shared.
  // out[r] = rank r's in[rank], rows of `stride` bytes of which `bytes` are written.
  int exchange(gpt2_context &, cudaStream_t stream, void *out, const void *in, int64_t bytes, int64_t stride,
               const char *function);
  // out[r] = rank r's in (may be out[rank]).
  int gather(gpt2_context &, cudaStream_t stream, void *out, const void *in, int64_t bytes, const char *function);
  // values [count] = the sum of every rank's, which need not be shared.
  int reduce(gpt2_context &, cudaStream_t stream, void *values, int64_t count, Number, const char *function);
  void begin_group() { is_group_ = true; }
  int end_group(gpt2_context &, cudaStream_t stream, const char *function);

 private:
  // Memory that every rank has, and has mapped of every other.
  struct Mapped {
    char *own;
    int64_t bytes;
    // Of each rank, here; `own` of this one.
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
  // Words in the flags, one of each rank for each: it can be written to; it has written.
  enum Sign { kReady, kDone };

  explicit Peers(std::unique_ptr<Loopback> loopback)
      : loopback_(std::move(loopback)), rank_(loopback_->rank()), ranks_(loopback_->ranks()) {}
  int open(gpt2_context &, std::string &why, const char *function);
  // Sets `ordering_`; also sets `why` if nothing guarantees that copies arrive before the word that follows them.
  int choose_ordering(gpt2_context &, const std::vector<cudaUUID_t> &gpus, std::string &why, const char *function);
  // Unmaps everything, and frees what is its own when all ranks have.
  void close();
  // Zeroed memory, mapped by all.
  int allocate(gpt2_context &, int64_t bytes, Mapped &mapped, std::string &why, const char *function);
  // `why` is empty if all ranks could.
  int map(gpt2_context &, void *memory, int64_t bytes, Mapped &mapped, std::string &why, const char *function);
  static void unmap(Mapped &);
  // Every rank's reason against going on, which is none at every rank or one at all.
  int agree(gpt2_context &, std::string &why, const char *function);
  int wait_for_all(gpt2_context &, const char *function);
  const Mapped *find(gpt2_context &, const void *memory, int64_t bytes, const char *function, int &status) const;
  // Each rank begins with another.
  int rank_at(int step) const { return (rank_ + step) % ranks_; }
  // Gives every other rank the sign, and waits for theirs.
  int meet(gpt2_context &, cudaStream_t, Sign, const char *function);
  // Does what is pending, unless it is a group's.
  int issue(gpt2_context &, cudaStream_t, const char *function);
  int run(gpt2_context &, cudaStream_t, const char *function);

  std::unique_ptr<Loopback> loopback_;
  int rank_, ranks_;
  // `sums_` holds a row of each rank, for what is summed in one go.
  Mapped flags_{}, sums_{};
  std::vector<Mapped> shared_;
  bool is_group_ = false;
  // Copies to others by the step from this rank to theirs, from 1 on; at 0 those that stay.
  std::vector<std::vector<Copy>> copies_;
  std::vector<PendingSum> pending_sums_;
  // Of a row of `sums_` taken by pending sums.
  int64_t summed_bytes_ = 0;
  // Beside the copies to others, those that stay.
  cudaStream_t beside_ = nullptr;
  // For what has to pass while all others wait.
  cudaStream_t last_ = nullptr;
  cudaEvent_t fork_ = nullptr, joined_ = nullptr;
  const char *ordering_ = "";
  // Flags of every wait for a word.
  unsigned wait_flags_ = CU_STREAM_WAIT_VALUE_EQ;
  decltype(&cuStreamBatchMemOp) batch_memory_operations_ = nullptr;
};

}  // namespace gpt2
