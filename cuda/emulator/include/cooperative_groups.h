// Groups of threads: the grid, the block, tiles of a warp, and coalesced_threads(), which is the
// calling thread alone.
#pragma once

namespace cooperative_groups {

struct thread_block {
  GPT2_INLINE void sync() const { __syncthreads(); }
  unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return gpt2_emulator::linear_thread(); }
  dim3 thread_index() const { return threadIdx; }
  dim3 group_index() const { return blockIdx; }
  dim3 dim_threads() const { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

template <unsigned SIZE, class Parent = thread_block>
struct thread_block_tile {
  static_assert(SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  static unsigned mask() {
    const unsigned first = gpt2_emulator::lane() / SIZE * SIZE;
    return (SIZE == 32 ? 0xffffffffu : (1u << SIZE % 32) - 1) << first;
  }
  GPT2_INLINE void sync() const { __syncwarp(mask()); }
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  unsigned thread_rank() const { return gpt2_emulator::lane() % SIZE; }
  unsigned meta_group_rank() const { return gpt2_emulator::linear_thread() / SIZE; }
  unsigned meta_group_size() const { return (this_thread_block().size() + SIZE - 1) / SIZE; }
  template <class T>
  GPT2_INLINE T shfl(T value, int rank) const { return __shfl_sync(mask(), value, rank, SIZE); }
  template <class T>
  GPT2_INLINE T shfl_up(T value, unsigned delta) const { return __shfl_up_sync(mask(), value, delta, SIZE); }
  template <class T>
  GPT2_INLINE T shfl_down(T value, unsigned delta) const { return __shfl_down_sync(mask(), value, delta, SIZE); }
  template <class T>
  GPT2_INLINE T shfl_xor(T value, int lanes) const { return __shfl_xor_sync(mask(), value, lanes, SIZE); }
  GPT2_INLINE int any(int predicate) const { return __any_sync(mask(), predicate); }
  GPT2_INLINE int all(int predicate) const { return __all_sync(mask(), predicate); }
  GPT2_INLINE unsigned ballot(int predicate) const {
    return __ballot_sync(mask(), predicate) >> (gpt2_emulator::lane() / SIZE * SIZE);
  }
};
template <unsigned SIZE, class Parent>
thread_block_tile<SIZE, Parent> tiled_partition(const Parent &) { return {}; }

struct coalesced_group {
  GPT2_INLINE void sync() const {}
  unsigned size() const { return 1; }
  unsigned num_threads() const { return 1; }
  unsigned thread_rank() const { return 0; }
  template <class T>
  GPT2_INLINE T shfl(T value, int) const { return value; }
};
inline coalesced_group coalesced_threads() { return {}; }

template <class Group>
GPT2_INLINE void sync(const Group &group) { group.sync(); }

struct grid_group {
  GPT2_UNCHECKED void sync() const { gpt2_emulator::host->grid_barrier(GPT2_CALLER); }
  unsigned long long size() const { return 1ull * gridDim.x * gridDim.y * gridDim.z * this_thread_block().size(); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long thread_rank() const {
    const unsigned long long block = (blockIdx.z * 1ull * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return block * this_thread_block().size() + this_thread_block().thread_rank();
  }
};
inline grid_group this_grid() { return {}; }

template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <unsigned SIZE, class Parent, class T, class Join>
GPT2_INLINE T reduce(const thread_block_tile<SIZE, Parent> &tile, T value, const Join &join) {
  for (unsigned lanes = SIZE / 2; lanes > 0; lanes /= 2) value = join(value, tile.shfl_xor(value, lanes));
  return value;
}

}  // namespace cooperative_groups
