// The matmul kernels' ring of operands in shared memory, and their launch; product-schedule.cuh has the order of work.
//
// Matmuls of bf16 or FP8 on Hopper's tensor cores, sums in fp32: TMA loads tiles, wgmma multiplies them from shared
// memory. A line of 128 bytes is 64 bf16 or 128 E4M3, and an instruction takes 32 bytes of k of either type in the same
// time, so both types (Arguments::Element) have the same ring, swizzle and descriptors. An FP8 step multiplies twice as
// much, so a tile has half as many steps during which the previous tile is finished. Both FP8 operands are K-major,
// because the FP8 instruction cannot transpose. The epilogue first multiplies FP8 sums by the row's scale and the
// weight's scale, both powers of two, and in backward through the squared ReLU by the square root of the scale that
// forward's output has.
//
// One block of three warpgroups runs on each SM for the whole matmul (persistent) and computes tile after tile. The
// first warpgroup's first thread is the producer: it fills a ring of stages, each with a step of both operands, as far
// ahead as there are stages. The other two warpgroups, the consumers, multiply: each has 64 of the tile's 128 rows, and
// all columns, in registers.
//
// Two blocks on adjacent SMs are a cluster: their tiles lie one below the other and share b. Each block loads half of b
// and multicasts it to both, so that an SM loads 32 KB instead of 48 KB from L2 for a step of 1024 cycles.
//
// Shared memory keeps the layout of global memory; the descriptor says whether an operand is K-major or MN-major, and
// nothing is transposed. TMA loads zeros for rows and columns past the matrix, and does not store them.
//
// The kernels differ in when they finish a tile, that is apply its epilogue and store it:
//   product-plain.cuh        after the tile is multiplied; 256 or 208 columns; for long k, light epilogues and weight
//                            gradients
//   product-interleaved.cuh  while the next tile is multiplied; 192 columns; for short k or heavy epilogues
//   fp8-matmul.cu and fp8-matmul-backward-weight.cu
//                            after the tile is multiplied; 192 or 160 columns; FP8 with long k, whose sums are promoted
#pragma once

#include "hopper.cuh"
#include "product-schedule.cuh"
#include "wgmma.cuh"

namespace gpt2::sm90 {

constexpr int product_threads = 384;

// The tensors that TMA loads and stores. If the columns of a tile are not a multiple of 64, the last columns have
// separate maps (_tail), so that nothing of the next tile is loaded or stored.
struct ProductMaps {
  CUtensorMap a, b, b_tail, out, out_tail;
  CUtensorMap other;  // the epilogue's second input or result; with weighted sums the weights
};

struct Fp8Maps : ProductMaps {
  CUtensorMap values, columnwise;  // the result in FP8: rowwise and columnwise copy
};

// The tensors that ordinary loads and stores access. Each comment begins with the epilogue that uses the member.
struct ProductOutputs {
  const bf16 *bias = nullptr;        // [N] or NULL
  void *gradient = nullptr;          // gradient: [M,N], the result of unsplit tiles
  bool is_bf16 = false;              // gradient: whether it is bf16 instead of fp32
  bool accumulate = false;           // gradient: whether unsplit tiles add to it
  float *parts = nullptr;            // gradient: [parts, split tiles, 256, TILE_N], the sums of split tiles
  float *sums = nullptr;             // gradient: [parts * tiles_n,M] or NULL: (weighted) sums of a over k
  const bf16 *residual = nullptr;    // residual, in plain tiles: [M,N], or rows that `targets` choose
  const float *rows = nullptr;       // exponentials: reference [M]; scaled: scale [M]; residual: factor of chosen rows
  const int32_t *targets = nullptr;  // exponentials: [M], the column of each row that becomes 0
  int columns = 0;                   // exponentials: columns from this one on are padding
  float *row_sums = nullptr;         // exponentials: [tiles_n,M], the sum of each tile's row
  bool stores = true;                // exponentials: whether they are stored, or only their sums
  float alpha = 1, beta = 1;         // combination: alpha * result + beta * extra input
  float softcap = 0;                 // capped_exponentials
};

// Bytes of a buffer that stages results: a consumer warp's 16 rows x 64 columns in bf16.
constexpr int buffer_bytes = 16 * 128;

// The address that a lane passes to stmatrix or ldmatrix for four 8 x 8 matrices in a buffer, from column 8 j on: two
// matrices one below the other, then the two of the next 8 columns.
__device__ __forceinline__ uint32_t matrices_at(uint32_t buffer, int j, uint32_t thread = threadIdx.x) {
  const int row = thread % 16, chunk = j + thread % 32 / 16;
  return buffer + row * 128 + ((chunk ^ (row & 7)) << 4);
}

// The line length of the weights [2,weights_line(K)] for sums of a. A weight is the sum of two bf16, one in each line.
__host__ __device__ constexpr int64_t weights_line(int64_t K) { return (K + 7) / 8 * 8; }

// The eight lines after b in a stage. `weights`: two lines of weights and six of zeros, for weighted sums of a. `ones`:
// for sums of a, as 8 more columns of b in the same instruction. An instruction has at most 256 columns, so with tiles
// of 256 a separate instruction multiplies the ones, which are then outside the ring.
enum class AfterB { nothing, weights, ones };
constexpr int eight_lines = 8 * 128;

template <bool A_K_MAJOR, bool B_K_MAJOR, int TILE_N, int STAGING_BYTES, class Element = bf16,
          AfterB AFTER_B = AfterB::nothing>
struct ProductRing {
  static_assert(!is_fp8<Element> || (A_K_MAJOR && B_K_MAJOR), "the instruction cannot transpose FP8");
  static constexpr int a_bytes = tile_m * 128;
  static constexpr int b_lines = B_K_MAJOR ? TILE_N : (TILE_N + 63) / 64 * step_k;
  static_assert(AFTER_B != AfterB::ones || (B_K_MAJOR && TILE_N <= 248), "the ones are no columns of b");
  static constexpr int after_b_at = a_bytes + b_lines * 128;
  static constexpr int stage_bytes = after_b_at + (AFTER_B == AfterB::nothing ? 0 : eight_lines);
  static constexpr int loaded_bytes = a_bytes + TILE_N * 128 + (AFTER_B == AfterB::weights ? eight_lines : 0);
  // A warpgroup is launched with 168 registers a thread: 40 + 2 * 232 = 3 * 168.
  static constexpr int producer_registers = 40, consumer_registers = 232;
  // Bytes for barriers, and for alignment to 1024 bytes.
  static constexpr int other_bytes = 2048;
  static constexpr int stages = (227 * 1024 - other_bytes - STAGING_BYTES) / stage_bytes;
  static_assert(stages >= 3, "too few stages");
  static constexpr int shared_bytes = stages * stage_bytes + STAGING_BYTES + other_bytes;

  uint32_t ring, staging, full, empty, barriers;  // barriers: free for the kernel, after the ring's
  uint32_t empty_there;                           // address of `empty` in the block at which this lane arrives
  uint32_t rank;
  int cluster;

  __device__ explicit ProductRing(unsigned char *memory) {
    ring = (shared_address(memory) + 1023) & ~1023u;
    staging = ring + stages * stage_bytes;
    full = staging + STAGING_BYTES;
    empty = full + stages * 8;
    barriers = empty + stages * 8;
    rank = cluster_rank();
    cluster = blockIdx.x / 2;
    empty_there = address_at(empty, threadIdx.x % 2);
  }

  // Initialises the ring's barriers; called by one thread, before the cluster synchronises.
  __device__ void init() const {
    for (int i = 0; i < stages; i++) {
      barrier_init(full + i * 8, 1);
      // All consumer warps of both blocks arrive, because b goes to both.
      barrier_init(empty + i * 8, 16);
    }
  }

  // Starts a product kernel; called by all threads. One of them calls prepare(), which may initialise more barriers.
  // Returns the warpgroup: 0 calls produce(), 1 and 2 call start_consumer() and multiply.
  template <class Maps, class Prepare>
  __device__ __forceinline__ int begin(const Maps &maps, Prepare prepare) const {
    if (threadIdx.x == 0) {
      init();
      prepare();
      fence_barrier_init();
      prefetch_maps(maps.a, maps.b);
    }
    cluster_sync();
    wait_for_previous_kernel();
    return uniform(static_cast<int>(threadIdx.x / 128));
  }
  // Ends the kernel; called by all threads.
  __device__ __forceinline__ void end() const {
    // Shared memory must stay allocated until the stores have read it.
    if (threadIdx.x % 32 == 0) wait_stores_read<0>();
    __syncwarp();
    // No block may exit while the other still sends to it or arrives at its barriers.
    cluster_sync();
  }

  template <class Matrix>
  __device__ int first_row(const UnitOf<Matrix> &unit) const {
    return (unit.m * 2 + static_cast<int>(rank)) * tile_m;
  }

  // Takes the registers that the producer gives up; returns which consumer this is, 0 or 1.
  __device__ __forceinline__ int start_consumer(int warpgroup) const {
    increase_registers<consumer_registers>();
    return warpgroup - 1;
  }

  // The producer's loop: loads the operands of each step, in one thread. Called by the first warpgroup.
  template <class Arguments>
  __device__ __forceinline__ void produce(const Arguments &arguments, const ProductMaps &maps) const {
    decrease_registers<producer_registers>();
    if (threadIdx.x > 0) return;
    UnitOf<typename Arguments::Matrix> unit;
    RingPosition<stages> at;
    for (int index = 0; unit_of(arguments, cluster, index, unit); index++) {
      const int m0 = first_row(unit), n0 = unit.n * TILE_N;
      for (int step = 0; step < unit.steps; step++) {
        const int k = (unit.first_step + step) * step_k_of<Element>;
        const uint32_t a = ring + at.stage * stage_bytes, b = a + a_bytes;
        const uint32_t barrier = full + at.stage * 8;
        barrier_wait(empty + at.stage * 8, at.parity ^ 1);
        barrier_expect(barrier, loaded_bytes);
        if constexpr (A_K_MAJOR) {
          load_box(a, maps.a, k, m0, unit.matrix(), barrier);
        } else {
#pragma unroll
          for (int i = 0; i < tile_m / 64; i++) {
            load_box(a + i * (step_k * 128), maps.a, m0 + i * 64, k, unit.matrix(), barrier);
          }
        }
        // This block loads half of the lines of b, into both blocks of the cluster.
        if constexpr (B_K_MAJOR) {
          constexpr int half = TILE_N / 2;
          load_box_to_both(b + rank * (half * 128), maps.b, k, n0 + static_cast<int>(rank) * half, unit.matrix(),
                           barrier);
        } else {
          constexpr int half = step_k / 2;
#pragma unroll
          for (int i = 0; i < b_lines / step_k; i++) {
            load_box_to_both(b + i * (step_k * 128) + rank * (half * 128), i < TILE_N / 64 ? maps.b : maps.b_tail,
                             n0 + i * 64, k + static_cast<int>(rank) * half, unit.matrix(), barrier);
          }
        }
        if constexpr (AFTER_B == AfterB::weights) load_box(a + after_b_at, maps.other, k, 0, unit.matrix(), barrier);
        at.advance();
      }
    }
  }

  // A step of consumer 0 or 1: issues result (=|+=) a times the first 2 COUNT columns of b (then of the lines after b),
  // waits until the previous step's multiplications are complete, and releases the previous step's stage. EAGER waits
  // before issuing, which frees the stage sooner; otherwise the wait comes afterwards, which leaves the tensor cores no
  // gap. With SUMS, adds to `sums` a times the stage's weights, or without weights times the 1s at address `ones`.
  template <bool EAGER = false, bool SUMS = false, int COUNT>
  __device__ __forceinline__ void multiply(float (&result)[COUNT], int consumer, RingPosition<stages> &at,
                                           uint32_t &previous, bool adds, float (*sums)[4] = nullptr,
                                           uint32_t ones = 0) const {
    const uint32_t stage = at.stage * stage_bytes;
    const Operand a =
        (A_K_MAJOR ? k_major(ring + consumer * (64 * 128)) : mn_major<step_k>(ring + consumer * (64 * 128))).at(stage);
    const Operand b = (B_K_MAJOR ? k_major(ring + a_bytes) : mn_major<step_k>(ring + a_bytes)).at(stage);
    if constexpr (EAGER) {
      wgmma_wait<0>();
      release(previous);
    }
    barrier_wait(full + at.stage * 8, at.parity);
    hold(result);
    if constexpr (SUMS) hold(*sums);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < step_k / 16; k++) {
      const Operand a_step = a.at(k * (A_K_MAJOR ? 32 : 2048));
      const Operand b_step = b.at(k * (B_K_MAJOR ? 32 : 2048));
      if constexpr (is_fp8<Element>) {
        wgmma_fp8<is_e5m2<Element>>(result, a_step, b_step, adds || k > 0);
      } else {
        wgmma<!A_K_MAJOR, !B_K_MAJOR>(result, a_step, b_step, adds || k > 0);
      }
      if constexpr (SUMS) {
        static_assert(AFTER_B != AfterB::ones, "these ones are columns of b");
        const Operand by = AFTER_B == AfterB::weights ? k_major(ring + after_b_at).at(stage).at(k * 32) : k_major(ones);
        wgmma<!A_K_MAJOR, 0>(*sums, a_step, by, true);
      }
    }
    wgmma_commit();
    hold(result);
    if constexpr (SUMS) hold(*sums);
    if constexpr (!EAGER) {
      wgmma_wait<1>();
      release(previous);
    }
    previous = at.stage;
    at.advance();
  }

  // release() tells both producers that this warp no longer reads the stage. The first step releases no_stage: nothing.
  static constexpr uint32_t no_stage = ~0u;
  __device__ __forceinline__ void release(uint32_t stage) const {
    if (stage != no_stage && threadIdx.x % 32 < 2) barrier_arrive_there(empty_there + stage * 8);
  }
};

// The number of clusters of a kernel that run at a time.
template <class Kernel>
int resident_clusters(const CudaContext &context, Kernel kernel, int shared_bytes) {
  allow_shared(kernel, shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(context.multiprocessors / 2 * 2));
  config.blockDim = dim3(product_threads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  GPT2_TRY(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  if (clusters == 0) GPT2_TRY(cudaErrorLaunchOutOfResources);
  return clusters;
}

// The time of a matmul in tiles of `tile_n` columns, in arbitrary units: the rounds on `clusters` concurrent clusters
// times the time of a round, which is tile_n plus `overhead` for the other costs of a step.
inline int64_t relative_time(const Product &product, int tile_n, int clusters, int overhead) {
  const int64_t tiles = ceil_divide(product.M, 2 * tile_m) * ceil_divide(product.N, tile_n);
  return ceil_divide(tiles, clusters) * (tile_n + overhead);
}

// The tensor map of a result [M,N] in boxes of the rows that a warp (16) or a warpgroup (64) stores; empty for NULL.
inline CUtensorMap result_map(const Product &product, const bf16 *tensor, int columns = 64,
                              int rows = 16) {
  return tensor ? matrix_map(tensor, product.N, product.M, product.N, rows, columns) : CUtensorMap{};
}

// Launches a matmul kernel. TMA stores `out` [M,N], unless it is NULL; `maps` has the maps of the other results and
// inputs, and `arguments` the members that ProductArguments lacks.
template <bool A_K_MAJOR, bool B_K_MAJOR, int TILE_N, class Arguments = ProductArguments, class Kernel>
Arguments launch_product(const CudaContext &context, Kernel kernel, int shared_bytes, const Product &product,
                         const ProductOutputs &outputs, const bf16 *out, typename Arguments::Maps maps,
                         const Split &split, Arguments arguments = {}, int stored_rows = 16) {
  using Element = typename Arguments::Element;
  constexpr int tail = TILE_N % 64;
  const int tiles_m = static_cast<int>(ceil_divide(product.M, 2 * tile_m));
  const int tiles_n = static_cast<int>(ceil_divide(product.N, TILE_N));
  const int resident = resident_clusters(context, kernel, shared_bytes);
  const int64_t units = static_cast<int64_t>(tiles_m) * tiles_n * split.parts();
  const int clusters = split.rounds > 0 || units > resident ? resident : static_cast<int>(units);
  const auto operand_map = [&](const void *operand, bool k_major, int mn, int64_t stride, int lines, int columns = 64) {
    if (is_fp8<Element>) return fp8_matrix_map(operand, product.K, mn, stride, lines);
    return k_major ? matrix_map(operand, product.K, mn, stride, lines)
                   : matrix_map(operand, mn, product.K, stride, lines, columns);
  };
  maps.a = operand_map(product.a, A_K_MAJOR, product.M, product.lda, A_K_MAJOR ? tile_m : step_k);
  maps.b = operand_map(product.b, B_K_MAJOR, product.N, product.ldb, (B_K_MAJOR ? TILE_N : step_k) / 2);
  maps.out = result_map(product, out, 64, stored_rows);
  if constexpr (tail > 0) {
    if (!B_K_MAJOR) maps.b_tail = operand_map(product.b, false, product.N, product.ldb, step_k / 2, tail);
    maps.out_tail = result_map(product, out, tail);
  }
  // An unsplit tile may have more steps than K needs: TMA loads zeros for the further steps.
  const int needed = unsplit<Element>(product).narrow_steps;
  const int steps = split.parts() == 1 && split.narrow_steps > needed ? split.narrow_steps : needed;
  const bool streams = static_cast<int64_t>(product.M) * product.N * static_cast<int64_t>(sizeof(bf16)) > (64ll << 20);
  static_cast<ProductArguments &>(arguments) = {product.M, product.N, steps,   tiles_m,
                                                tiles_n,   clusters,  streams, split};
  launch_overlapping(context, kernel, clusters * 2, product_threads, shared_bytes, maps, arguments, outputs);
  return arguments;
}

}  // namespace gpt2::sm90
