// Shared code of the Hopper attention kernels (head sizes 64 and 128): tiles, the order of work, stores.
//
// The kernels are persistent, one block per SM. A producer warp loads tiles by TMA into a ring of stages; warpgroups of
// 64 lines (queries or keys) multiply the tiles by wgmma. A warpgroup's matmuls and its exponentials take about the
// same time, so one warpgroup computes exponentials while others multiply. Only the ring synchronizes warpgroups.
#pragma once

#include <type_traits>

#include "../attention.cuh"
#include "hopper.cuh"
#include "wgmma.cuh"

namespace gpt2::sm90 {

// Bytes of a line (query or key) of a tile: 64 bf16 channels. At head size 128 a second tile has channels 64 to 127.
constexpr int line_bytes = 64 * 2;
// Lines (keys or queries) in a stage of the ring.
constexpr int block_lines = 128;
constexpr int block_bytes = block_lines * line_bytes;
// The offset in bytes of channels 16 i to 16 i + 15 in a K-major tile of LINES lines.
template <int LINES>
__device__ __forceinline__ constexpr int channels_at(int i) {
  return i / 4 * (LINES * line_bytes) + i % 4 * 32;
}
// The number of lines of a block that a warpgroup multiplies: half, if the causal mask hides all of the other half.
using Full = std::integral_constant<int, block_lines>;
using Half = std::integral_constant<int, block_lines / 2>;

struct AttentionArguments {
  int B, T, NH;
  int tiles;  // tiles of a head
  Mask mask;
  Grid *grid;

  AttentionArguments(const CudaContext &context, const AttentionSizes &sizes, int tile_lines)
      : B(sizes.B),
        T(sizes.T),
        NH(sizes.NH),
        tiles(static_cast<int>(ceil_divide(sizes.T, tile_lines))),
        mask(sizes.mask),
        grid(context.grid) {}

  int64_t units() const { return static_cast<int64_t>(B) * NH * tiles; }
  unsigned blocks(const CudaContext &context) const {
    return static_cast<unsigned>(units() < context.multiprocessors ? units() : context.multiprocessors);
  }
};

// Initialises a ring's barriers: `full` waits for one arrival (the producer's), `empty` for `readers` arrivals.
template <int STAGES>
__device__ __forceinline__ void init_ring(uint32_t full, uint32_t empty, int readers) {
  for (int i = 0; i < STAGES; i++) {
    barrier_init(full + i * 8, 1);
    barrier_init(empty + i * 8, readers);
  }
}

// A unit of work of a block: a tile of queries (or keys) of one head.
struct HeadTile {
  int tile, b, head;
  int row;             // b * NH + head
  int64_t statistics;  // offset of the head's T values in lse [B,NH,T]

  // Sets the tile with index `place` in the order of all tiles; false if there are fewer tiles.
  __device__ __forceinline__ bool set(const AttentionArguments &arguments, int64_t place) {
    if (place >= static_cast<int64_t>(arguments.B * arguments.NH) * arguments.tiles) return false;
    row = static_cast<int>(place / arguments.tiles);
    tile = static_cast<int>(place - static_cast<int64_t>(row) * arguments.tiles);
    b = row / arguments.NH;
    head = row % arguments.NH;
    statistics = static_cast<int64_t>(row) * arguments.T;
    return true;
  }
};

// Without a mask: sets `unit` to the index-th tile of this block; false if the block has no more. Adjacent blocks take
// the tiles of a head at about the same time, so that they find the head's keys and values in L2: forward then reads
// 302 MB of memory, not 503 (d12, batch 64). Every second round is reversed: each block gets long and short tiles.
__device__ __forceinline__ bool tile_of(const AttentionArguments &arguments, int index, HeadTile &unit) {
  const int blocks = gridDim.x;
  const int64_t turn = static_cast<int64_t>(index) * blocks;
  const int64_t place = turn + (index % 2 ? blocks - 1 - blockIdx.x : blockIdx.x);
  return unit.set(arguments, place);
}

// With a mask, the work in a tile is irregular, so a block takes the next tile whenever it is free. Its producer warp
// takes the tile's index from a counter in global memory, and announces the tile to the other warps by a Ticket in
// shared memory. An atomic or a read of the mask takes about 1000 clocks, so both happen while the previous tile is
// computed: at head size 128 and a window of 512 this was 16% faster than announcing a tile at its first load.
struct Ticket {
  int tile, b, head, row;  // row -1: no tile is left
  // Bounds of the first and of the last of each warpgroup's 64 lines: a query's first key, or a key's last query.
  int of_first[3], of_last[3];

  template <int WARPGROUPS, bool OWNS_KEYS>
  __device__ __forceinline__ void set(const AttentionArguments &arguments, const HeadTile &unit, int first_line) {
    tile = unit.tile, b = unit.b, head = unit.head, row = unit.row;
    const auto bound = [&](int line) {
      if constexpr (OWNS_KEYS) return arguments.mask.last_query(unit.b, first_line + line, arguments.T);
      return arguments.mask.first_key(unit.b, first_line + line, arguments.T);
    };
    const int of_tile = bound(0);
#pragma unroll
    for (int i = 0; i < WARPGROUPS; i++) {
      of_first[i] = max(of_tile, bound(i * 64));
      of_last[i] = bound(i * 64 + 63);
    }
  }
};

// A ring of three barriers (at address `barrier`) and three tickets. A ticket is written when the tile that used the
// same slot, three tiles earlier, has been released.
struct Announcements {
  uint32_t barrier;
  Ticket *tickets;
  RingPosition<3> at;

  Announcements() = default;
  // `memory` is the beginning of the block's dynamic shared memory.
  __device__ __forceinline__ Announcements(unsigned char *memory, uint32_t barrier)
      : barrier(barrier), tickets(reinterpret_cast<Ticket *>(memory + (barrier + 3 * 8 - shared_address(memory)))) {}
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 3; i++) barrier_init(barrier + i * 8, 1);
  }
  // Sets `unit` to the block's next tile (without a mask: tile `index`); false if none is left. Not for producer warps.
  template <bool MASKED>
  __device__ __forceinline__ bool take(const AttentionArguments &arguments, int index, HeadTile &unit) {
    if constexpr (MASKED) {
      barrier_wait(barrier + at.stage * 8, at.parity);
      const Ticket &ticket = tickets[at.stage];
      at.advance();
      unit.tile = uniform(ticket.tile);
      unit.b = uniform(ticket.b);
      unit.head = uniform(ticket.head);
      unit.row = uniform(ticket.row);
      unit.statistics = static_cast<int64_t>(unit.row) * arguments.T;
      return unit.row >= 0;
    } else {
      return tile_of(arguments, index, unit);
    }
  }
  // The ticket that was taken or announced last.
  __device__ __forceinline__ const Ticket &last() const { return tickets[at.stage == 0 ? 2 : at.stage - 1]; }
};

// Begins a kernel; called by all threads. Thread 0 initialises the barriers by init() and prefetches the tensor maps.
template <bool MASKED, class Init, class... Maps>
__device__ __forceinline__ void begin_kernel(const Announcements &tiles, Init init, const Maps &...maps) {
  if (threadIdx.x == 0) {
    init();
    if constexpr (MASKED) tiles.init();
    fence_barrier_init();
    prefetch_maps(maps...);
  }
  __syncthreads();
  wait_for_previous_kernel();
}

// With a mask: calls skip() for each block of keys that only other warpgroups need, because it ends before the first
// key of this warpgroup's queries. Returns the position of the next block's first key.
template <class Skip>
__device__ __forceinline__ int skip_to_own(const Ticket &ticket, int consumer, Skip skip) {
  const int own = uniform(ticket.of_first[consumer]);
  int key = uniform(ticket.of_first[0]);
  for (; key + block_lines <= own; key += block_lines) skip();
  return key;
}

// The producer's loop: calls load(ticket, announce) for each tile of this block. `load` waits for free memory for its
// tile, then calls announce(), which announces the next tile. first_of(unit) is the position of a tile's first line.
// The last block that finds no tile left resets the counter of tiles for the next kernel.
template <bool MASKED, int WARPGROUPS, bool OWNS_KEYS, class First, class Load>
__device__ __forceinline__ void produce(const AttentionArguments &arguments, HeadTile &unit,
                                        Announcements announcements, First first_of, Load load) {
  if constexpr (MASKED) {
    Grid &grid = *arguments.grid;
    HeadTile next{};
    unsigned place = atomicAdd(&grid.taken, 1u);
    const auto announce = [&] {
      Ticket &ticket = announcements.tickets[announcements.at.stage];
      if (next.set(arguments, place)) {
        place = atomicAdd(&grid.taken, 1u);
        ticket.set<WARPGROUPS, OWNS_KEYS>(arguments, next, first_of(next));
      } else {
        ticket.row = next.row = -1;
      }
      barrier_arrive(announcements.barrier + announcements.at.stage * 8);
      announcements.at.advance();
    };
    announce();
    while (next.row >= 0) {
      unit = next;
      load(announcements.last(), announce);
    }
    __threadfence();
    if (atomicAdd(&grid.arrivals, 1u) == gridDim.x - 1) grid.taken = grid.arrivals = 0;
  } else {
    for (int index = 0; tile_of(arguments, index, unit); index++) load(Ticket{}, [] {});
  }
}

template <class Body>
void with_mask(const AttentionSizes &sizes, Body body) {
  if (sizes.mask.first) return body(std::true_type{});
  body(std::false_type{});
}

// Packs columns 16 i to 16 i + 15 of accumulators [64,N] in bf16, as operand a of a wgmma; its k are these columns.
template <int COUNT>
__device__ __forceinline__ void as_operand(uint32_t (&a)[4], const float (&d)[COUNT], int i) {
#pragma unroll
  for (int p = 0; p < 4; p++) a[p] = pack_bf16(d[i * 8 + p * 2], d[i * 8 + p * 2 + 1]);
}

// Packs all 16 STEPS columns of accumulators for multiply_rows().
template <int STEPS, int COUNT>
__device__ __forceinline__ void as_operands(uint32_t (&a)[STEPS][4], const float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < STEPS; i++) as_operand(a[i], d, i);
}

// result[i,j] = dot product of line i of a and line j of b over HS channels. Tiles have A_LINES and B_LINES lines.
template <int HS, int A_LINES = block_lines, int B_LINES = block_lines, int COUNT>
__device__ __forceinline__ void multiply_channels(float (&result)[COUNT], const Operand &a, const Operand &b) {
#pragma unroll
  for (int i = 0; i < HS / 16; i++) {
    wgmma<0, 0>(result, a.at(channels_at<A_LINES>(i)), b.at(channels_at<B_LINES>(i)), i > 0);
  }
}
// result += a b: a [64,16 STEPS] is in registers, b [16 STEPS,N] in shared memory with one line for each k.
template <int STEPS, int COUNT>
__device__ __forceinline__ void multiply_rows(float (&result)[COUNT], const uint32_t (&a)[STEPS][4], const Operand &b) {
#pragma unroll
  for (int i = 0; i < STEPS; i++) wgmma<1>(result, a[i], b.at(i * 2048), true);
}

// Forward's online softmax of a block of keys, for a thread's two rows: replaces scores by exp(scale (score -
// largest)), updates each row's `largest` score and `sum`. The caller multiplies the rows' results by `factor`.
template <bool MASKED, int COUNT>
__device__ __forceinline__ void exponentiate(float (&score)[COUNT], float (&largest)[2], float (&sum)[2],
                                             float scale_log2, float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float most = largest[half];
#pragma unroll
    for (int i = half * 2; i < COUNT; i += 4) most = fmaxf(most, fmaxf(score[i], score[i + 1]));
    most = quad_max(most);
    // If all keys of a row so far are masked, an offset of 0 makes each term exp(-inf) = 0 instead of NaN.
    const float offset = MASKED && most == -INFINITY ? 0.0f : most * scale_log2;
    factor[half] = exp2_approximate(fmaf(largest[half], scale_log2, -offset));
    largest[half] = most;
    float added = 0;
#pragma unroll
    for (int i = half * 2; i < COUNT; i += 4) {
      score[i] = exp2_approximate(fmaf(score[i], scale_log2, -offset));
      score[i + 1] = exp2_approximate(fmaf(score[i + 1], scale_log2, -offset));
      added += score[i] + score[i + 1];
    }
    sum[half] = fmaf(sum[half], factor[half], added);
  }
}

// Ends forward's softmax for a thread's rows, `row` and row + 8: stores lse, and sets `inverse` to 1 / sum.
__device__ __forceinline__ void finish_rows(float (&inverse)[2], float *lse, const HeadTile &unit, int row, int T,
                                            const float (&largest)[2], float (&sum)[2], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    sum[half] = quad_sum(sum[half]);
    inverse[half] = 1.0f / sum[half];
    const int query = row + half * 8;
    if (threadIdx.x % 4 == 0 && query < T) {
      lse[unit.statistics + query] = fmaf(largest[half], scale_log2, log2f(sum[half])) / log2e;
    }
  }
}

// Stores a warp's 16 lines of accumulators [64,HS], times `scale`, to lines from `row` on, through its staging buffer.
template <int COUNT>
__device__ __forceinline__ void store_lines(const CUtensorMap &map, int head, int row, int b, uint32_t staging,
                                            const float (&d)[COUNT], const float (&scale)[2]) {
  constexpr int halves = COUNT / 32;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < halves * 8; j += 2) {
    const uint32_t packed[4] = {pack_bf16(d[j * 4] * scale[0], d[j * 4 + 1] * scale[0]),
                                pack_bf16(d[j * 4 + 2] * scale[1], d[j * 4 + 3] * scale[1]),
                                pack_bf16(d[j * 4 + 4] * scale[0], d[j * 4 + 5] * scale[0]),
                                pack_bf16(d[j * 4 + 6] * scale[1], d[j * 4 + 7] * scale[1])};
    const int line = lane % 16;
    store_matrices(staging + (j / 8 * 16 + line) * line_bytes + ((j % 8 + lane / 16 ^ (line & 7)) << 4), packed);
  }
  fence_async_proxy();
  __syncwarp();
  if (lane == 0) store_box(map, 0, row, head * halves, b, staging);
}

}  // namespace gpt2::sm90
