// cooperative_groups in kernels on a CPU: the grid, the block, tiles of a warp, and the active threads of a warp.
#pragma once

namespace cooperative_groups {

struct thread_block {
  GPT2_INLINE static void sync() { __syncthreads(); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static unsigned thread_rank() { return gpt2_emulator::linear_thread(); }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_index() { return blockIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// The base class of groups of lanes of a warp. `mask()` has the group's lanes; a rank is a lane's position among them.
template <class Group>
struct warp_group {
  unsigned size() const { return unsigned(__popc(mask())); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return unsigned(__popc(mask() & ((1u << gpt2_emulator::lane()) - 1))); }
  GPT2_INLINE void sync() const { __syncwarp(mask()); }
  template <class T>
  GPT2_INLINE T shfl(T value, int rank) const { return value_of(value, unsigned(rank) % size()); }
  template <class T>
  GPT2_INLINE T shfl_up(T value, unsigned delta) const { return value_of(value, thread_rank() - delta); }
  template <class T>
  GPT2_INLINE T shfl_down(T value, unsigned delta) const { return value_of(value, thread_rank() + delta); }
  template <class T>
  GPT2_INLINE T shfl_xor(T value, unsigned lanes) const { return value_of(value, thread_rank() ^ lanes); }
  GPT2_INLINE int any(int predicate) const { return __any_sync(mask(), predicate); }
  GPT2_INLINE int all(int predicate) const { return __all_sync(mask(), predicate); }
  GPT2_INLINE unsigned ballot(int predicate) const { return ranks_of(__ballot_sync(mask(), predicate)); }
  template <class T>
  GPT2_INLINE unsigned match_any(T value) const { return ranks_of(__match_any_sync(mask(), value)); }
  unsigned mask() const { return static_cast<const Group &>(*this).lanes(); }

 private:
  // The value of the lane with this rank, or the caller's value if the group has no such rank.
  template <class T>
  GPT2_INLINE T value_of(T value, unsigned rank) const {
    const int lane = lane_of(rank < size() ? rank : thread_rank());
    if constexpr (sizeof(T) <= 8) return __shfl_sync(mask(), value, lane);
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    memcpy(words, &value, sizeof(T));
    for (uint64_t &word : words) word = __shfl_sync(mask(), word, lane);
    memcpy(&value, words, sizeof(T));
    return value;
  }
  int lane_of(unsigned rank) const {
    unsigned rest = mask();
    for (; rank > 0; rank--) rest &= rest - 1;
    return __ffs(int(rest)) - 1;
  }
  unsigned ranks_of(unsigned lanes) const {
    unsigned ranks = 0;
    for (unsigned rank = 0; rank < size(); rank++) ranks |= (lanes >> lane_of(rank) & 1) << rank;
    return ranks;
  }
};

template <unsigned SIZE, class Parent = thread_block>
struct thread_block_tile : warp_group<thread_block_tile<SIZE, Parent>> {
  static_assert(SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  static unsigned lanes() { return unsigned((1ull << SIZE) - 1) << gpt2_emulator::lane() / SIZE * SIZE; }
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  static unsigned thread_rank() { return gpt2_emulator::lane() % SIZE; }
  static unsigned meta_group_rank() { return Parent().thread_rank() / SIZE; }
  static unsigned meta_group_size() { return (Parent().size() + SIZE - 1) / SIZE; }
};

// Some lanes of a warp: a tile whose size is known only at run time, lanes with an equal label, or the active lanes.
class coalesced_group : public warp_group<coalesced_group> {
 public:
  explicit coalesced_group(unsigned lanes) : lanes_(lanes) {}
  unsigned lanes() const { return lanes_; }

 private:
  unsigned lanes_;
};
GPT2_INLINE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
template <class Group, class T>
GPT2_INLINE coalesced_group labeled_partition(const warp_group<Group> &group, T label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}
template <class Group>
GPT2_INLINE coalesced_group binary_partition(const warp_group<Group> &group, bool predicate) {
  return labeled_partition(group, int(predicate));
}

// A group of any kind: the block, or a tile.
class thread_group {
 public:
  thread_group(const thread_block &) : tile_(0), is_block_(true) {}
  template <class Tile>
  thread_group(const warp_group<Tile> &tile) : tile_(tile.mask()), is_block_(false) {}
  unsigned size() const { return is_block_ ? thread_block::size() : tile_.size(); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return is_block_ ? thread_block::thread_rank() : tile_.thread_rank(); }
  GPT2_INLINE void sync() const {
    if (is_block_) thread_block::sync();
    else tile_.sync();
  }

 private:
  coalesced_group tile_;
  bool is_block_;
};
template <unsigned SIZE, class Parent>
thread_block_tile<SIZE, Parent> tiled_partition(const Parent &) { return {}; }
template <class Parent>
GPT2_UNCHECKED coalesced_group tiled_partition(const Parent &, unsigned size) {
  if (size == 0 || size > 32 || (size & (size - 1)) != 0) {
    gpt2_emulator::fail("makes tiles whose size is not 1, 2, 4, 8, 16 or 32", nullptr, 0, GPT2_CALLER);
  }
  return coalesced_group(unsigned((1ull << size) - 1) << gpt2_emulator::lane() / size * size);
}

template <class Group>
GPT2_INLINE void sync(const Group &group) { group.sync(); }

struct grid_group {
  GPT2_UNCHECKED void sync() const { gpt2_emulator::host->grid_barrier(GPT2_CALLER); }
  unsigned long long size() const { return num_blocks() * thread_block::size(); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long num_blocks() const { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  unsigned long long block_rank() const { return (blockIdx.z * 1ull * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  unsigned long long thread_rank() const { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
  dim3 block_index() const { return blockIdx; }
  dim3 dim_blocks() const { return gridDim; }
  dim3 group_dim() const { return gridDim; }
  bool is_valid() const { return true; }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
