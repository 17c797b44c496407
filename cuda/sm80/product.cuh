// Matmuls of bf16, or of FP8, on tensor cores, sm_80 and later, sums in fp32.
//
// A block of 4 warps computes a tile of 128 x 128 results in steps of 64 in k. Each warp holds 64 x 64 results in
// registers (128 accumulators a lane), so a fragment from shared memory serves four or eight multiplications. cp.async
// loads operand tiles into a ring of three stages. Shared memory keeps the layout of global memory, K-major or
// MN-major, in 16-byte chunks XORed with the line's index, so both the copies and ldmatrix (plain, or .trans for
// MN-major: no operand is transposed in memory) have no bank conflicts. Two blocks share an SM if its shared memory
// suffices: the epilogue of one overlaps the multiplications of the other. Tiles of 128 x 256 with 8 warps and one
// block per SM were within 5% on an H100, slower where k is short and for weight gradients. benchmarks/h100-portable.md
// has the measurements.
//
// An FP8 matmul, both operands K-major, is handled as a bf16 matmul of the same bytes, half as long in k: fragments
// have the same bytes, and only the multiplication differs. With FP8 all sizes in k here count pairs of values.
//
// In an FP8 weight gradient the operands' scales change every GPT2_FP8_BLOCK values of k. The accumulators sum one such
// block of k; the sums, times the scales, are then added to a second set of accumulators. For both sets to fit, a warp
// has 64 x 32 results and a block 8 warps. Short sums also limit the error of tensor cores that keep FP8 sums in fewer
// bits than fp32 has.
#pragma once

#include "../common/fp8.cuh"
#include "../matmul.cuh"
#include "tile.cuh"

namespace gpt2::sm80 {

constexpr int stages = 3;
constexpr int tile_bytes = tile * step_k * 2;
constexpr int stage_bytes = 2 * tile_bytes;
constexpr int shared_bytes = stages * stage_bytes;

// The warps of a thread block: each computes 64 rows and `columns` columns of the 128 x 128 tile.
template <Epilogue E, bool FP8>
struct Warps {
  static constexpr bool scales_blocks = FP8 && E == Epilogue::gradient;
  static constexpr int columns = scales_blocks ? 32 : 64;
  static constexpr int in_n = tile / columns;
  static constexpr int threads = 2 * in_n * 32;
  // The number of steps of k whose operands share a scale.
  static constexpr int steps_a_block = scales_blocks ? GPT2_FP8_BLOCK / (2 * step_k) : 1;
  // The epilogue's staging: 16 rows of a warp's columns, padded against bank conflicts.
  static constexpr int staging_stride = columns + 8;
};

// The scales of both operands of an FP8 weight gradient, one for each GPT2_FP8_BLOCK values of k.
struct BlockScales {
  const float *a, *b;
};
template <Epilogue E, bool FP8>
using Scales = std::conditional_t<Warps<E, FP8>::scales_blocks, BlockScales, Fp8Operands>;

struct Arguments {
  const bf16 *a, *b;
  int64_t lda, ldb;
  int M, N, K;
  int tiles_m, tiles_n;
  int steps_a_split;  // steps of k in each part
};

template <bool FP8>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (FP8) {
    multiply_fp8(d, a, b0, b1);
  } else {
    multiply_bf16(d, a, b0, b1);
  }
}

__device__ __forceinline__ void add_scaled(float (&total)[4], float (&sums)[4], float scale) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    total[i] = fmaf(sums[i], scale, total[i]);
    sums[i] = 0;
  }
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, bool FP8, class O>
__global__ void __launch_bounds__(Warps<E, FP8>::threads)
    product_kernel(Arguments arguments, Outputs<bf16, O> outputs, float *sums, Scales<E, FP8> fp8) {
  constexpr bool scales_blocks = Warps<E, FP8>::scales_blocks;
  constexpr int threads = Warps<E, FP8>::threads, warps_n = Warps<E, FP8>::in_n, columns = Warps<E, FP8>::columns;
  [[maybe_unused]] constexpr int steps_a_block = Warps<E, FP8>::steps_a_block;
  constexpr int staging_stride = Warps<E, FP8>::staging_stride;
  using TileA = Tile<A_K_MAJOR, threads>;
  using TileB = Tile<B_K_MAJOR, threads>;
  extern __shared__ __align__(128) unsigned char shared_memory[];
  const uint32_t shared = shared_address(shared_memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / warps_n * 64, warp_n = warp % warps_n * columns;

  int tile_m, tile_n;
  place_of(blockIdx.x, arguments.tiles_m, arguments.tiles_n, tile_m, tile_n);
  const int m0 = tile_m * tile, n0 = tile_n * tile;
  const int first_step = blockIdx.z * arguments.steps_a_split;
  const int steps = min(arguments.steps_a_split, static_cast<int>((arguments.K + step_k - 1) / step_k) - first_step);

  const int first_k = first_step * step_k;
  typename TileA::Copier copier_a(arguments.a, arguments.lda, m0, arguments.M, first_k, arguments.K);
  typename TileB::Copier copier_b(arguments.b, arguments.ldb, n0, arguments.N, first_k, arguments.K);
  // Shared addresses of the ring's stages to fill and to read next; `filled` counts the steps whose copies were issued.
  uint32_t fill = shared, read = shared;
  int filled = 0;
  const auto next_stage = [&](uint32_t stage) {
    return stage + stage_bytes == shared + shared_bytes ? shared : stage + stage_bytes;
  };
  const auto copy_a = [&] {
    if (filled < steps) copier_a.copy(fill, first_k + filled * step_k);
  };
  const auto copy_b = [&] {
    if (filled < steps) copier_b.copy(fill + tile_bytes, first_k + filled * step_k);
    commit_copies();
    filled++;
    fill = next_stage(fill);
  };

  float result[4][columns / 8][4] = {};
  // The bias gradient: sums of a over k, by multiplying a with ones; all columns of a fragment are equal.
  constexpr bool has_sums = E == Epilogue::gradient;
  [[maybe_unused]] float a_sums[has_sums ? 4 : 1][4] = {};
  [[maybe_unused]] const bool adds_sums = has_sums && sums && tile_n == 0 && warp_n == 0;
  constexpr uint32_t ones = FP8 ? 0x38383838 : 0x3f803f80;
  // In an FP8 weight gradient: sums times the scales of their blocks of k, and the scales of the current block of k.
  [[maybe_unused]] float total[scales_blocks ? 4 : 1][columns / 8][4] = {}, a_total[scales_blocks ? 4 : 1][4] = {};
  [[maybe_unused]] float a_scale = 0, b_scale = 0;

  // Prefetches into L2, in lines of 128 bytes, the tensor that the epilogue reads.
  if (const auto *source = Extra<E, bf16, O, 4, FP8>::source(outputs)) {
    constexpr int elements = 128 / sizeof(*source), lines_a_row = tile / elements;
    for (int i = threadIdx.x; i < tile * lines_a_row; i += threads) {
      const int row = m0 + i / lines_a_row, first = n0 + i % lines_a_row * elements;
      if (row < arguments.M && first < arguments.N) {
        prefetch_to_l2(source + static_cast<int64_t>(row) * arguments.N + first);
      }
    }
  }

  uint32_t a[2][4][4], b[2][columns / 16][4];
  const auto load_fragments = [&](int buffer, uint32_t stage, int k) {
#pragma unroll
    for (int i = 0; i < 4; i++) TileA::load_a(a[buffer][i], stage, warp_m + i * 16, k);
#pragma unroll
    for (int i = 0; i < columns / 16; i++) TileB::load_b(b[buffer][i], stage + tile_bytes, warp_n + i * 16, k);
  };

#pragma unroll
  for (int step = 0; step < stages - 1; step++) {
    copy_a();
    copy_b();
  }
  wait_copies<stages - 2>();
  __syncthreads();
  load_fragments(0, read, 0);
  for (int step = 0; step < steps; step++) {
    if constexpr (scales_blocks) {
      if (step % steps_a_block == 0) {
        const int block = (first_step + step) / steps_a_block;
        a_scale = fp8.a[block];
        b_scale = fp8.b[block];
      }
    }
#pragma unroll
    for (int k = 0; k < step_k; k += 16) {
      const int buffer = k / 16 % 2;
      if (k + 16 < step_k) {
        load_fragments(buffer ^ 1, read, k + 16);
      } else if (step + 1 < steps) {
        // The next step's first fragments are loaded before this step's last multiplications, which hide the latency.
        wait_copies<stages - 2>();
        __syncthreads();
        read = next_stage(read);
        load_fragments(buffer ^ 1, read, 0);
      }
      // The copies go to the stage that the previous step has freed.
      if (k == 0) copy_a();
      if (k == 16) copy_b();
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < columns / 8; j++) {
          multiply<FP8>(result[i][j], a[buffer][i], b[buffer][j / 2][j % 2 * 2], b[buffer][j / 2][j % 2 * 2 + 1]);
        }
      }
      if constexpr (has_sums) {
        if (adds_sums) {
#pragma unroll
          for (int i = 0; i < 4; i++) multiply<FP8>(a_sums[i], a[buffer][i], ones, ones);
        }
      }
    }
    if constexpr (scales_blocks) {
      if ((step + 1) % steps_a_block == 0 || step + 1 == steps) {
        const float scale = a_scale * b_scale;
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
          for (int j = 0; j < columns / 8; j++) add_scaled(total[i][j], result[i][j], scale);
          add_scaled(a_total[i], a_sums[i], a_scale);
        }
      }
    }
  }
  if constexpr (scales_blocks) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int v = 0; v < 4; v++) {
#pragma unroll
        for (int j = 0; j < columns / 8; j++) result[i][j][v] = total[i][j][v];
        a_sums[i][v] = a_total[i][v];
      }
    }
  }
  wait_copies<0>();
  __syncthreads();

  if constexpr (has_sums) {
    if (adds_sums && lane % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int m = m0 + warp_m + i * 16 + half * 8 + lane / 4;
          if (m < arguments.M) sums[static_cast<int64_t>(blockIdx.z) * arguments.M + m] = a_sums[i][half * 2];
        }
      }
    }
  }

  // The results go through shared memory, so that a warp's columns of a row are stored contiguously: in each iteration
  // a lane takes 4 adjacent columns of a row.
  constexpr int lanes_a_row = columns / 4, rows_a_turn = 32 / lanes_a_row, turns = 16 / rows_a_turn;
  auto *staging = reinterpret_cast<float *>(shared_memory) + warp * 16 * staging_stride;
  const int column = n0 + warp_n + lane % lanes_a_row * 4;
  float bias[4] = {};
  if constexpr (adds_bias<E>) {
    if (outputs.bias && column < arguments.N) load(bias, outputs.bias + column);
  }
  const int64_t split = static_cast<int64_t>(blockIdx.z) * arguments.M;
  const auto row_of = [&](int i, int turn) { return m0 + warp_m + i * 16 + turn * rows_a_turn + lane / lanes_a_row; };
  const auto at = [&](int i, int turn) { return (split + row_of(i, turn)) * arguments.N + column; };
  const auto exists = [&](int i, int turn) { return row_of(i, turn) < arguments.M && column < arguments.N; };
  constexpr bool scales_rows = FP8 && !scales_blocks;
  [[maybe_unused]] float weight_scale = 1;
  if constexpr (scales_rows) weight_scale = fp8.factors[GPT2_FP8_SCALE];
  constexpr bool stores_fp8 = gpt2::stores_fp8<E, FP8>;
  constexpr bool reads_fp8 = gpt2::reads_fp8<E, FP8>;
  [[maybe_unused]] Fp8Bound<E> bound;
  [[maybe_unused]] float to_columnwise = 0;
  [[maybe_unused]] const int64_t groups_a_column = columnwise_groups(arguments.M);
  if constexpr (stores_fp8) {
    bound = Fp8Bound<E>::of(fp8.factors);
    if (fp8.columnwise) {
      const int block = m0 / GPT2_FP8_BLOCK;
      const float activated_scale = reads_fp8 ? fp8.activated_columnwise_scale[block] : 0.0f;
      const float of_block = bound.scale(fp8.columnwise_norm[block], activated_scale);
      to_columnwise = inverse_of(of_block);
      if (threadIdx.x == 0 && n0 == 0 && m0 % GPT2_FP8_BLOCK == 0) {
        fp8.columnwise_scale[block] = of_block;
      }
    }
  }
  // The epilogue loads its inputs one group of rows ahead, so that only the first load's latency is exposed.
  Extra<E, bf16, O, 4, FP8> extra[2][turns];
  const auto read_extra = [&](int i) {
#pragma unroll
    for (int turn = 0; turn < turns; turn++) {
      if (exists(i, turn)) extra[i % 2][turn].read(outputs, at(i, turn));
    }
  };
  read_extra(0);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (i + 1 < 4) read_extra(i + 1);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < columns / 8; j++) {
      float *to = staging + lane / 4 * staging_stride + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2 *>(to) = make_float2(result[i][j][0], result[i][j][1]);
      *reinterpret_cast<float2 *>(to + 8 * staging_stride) = make_float2(result[i][j][2], result[i][j][3]);
    }
    __syncwarp();
#pragma unroll
    for (int turn = 0; turn < turns; turn++) {
      float values[4];
      float *staged = staging + (turn * rows_a_turn + lane / lanes_a_row) * staging_stride + lane % lanes_a_row * 4;
      load(values, static_cast<const float *>(staged));
      if (!exists(i, turn)) {
        if constexpr (stores_fp8) store(staged, {0, 0, 0, 0});
        continue;
      }
      [[maybe_unused]] float activated_scale = 0;
      if constexpr (reads_fp8) activated_scale = fp8.activated_scale[row_of(i, turn)];
      if constexpr (scales_rows) {
        float scale = fp8.scale[row_of(i, turn)] * weight_scale;
        if constexpr (reads_fp8) scale *= sqrt_approximate(activated_scale);
#pragma unroll
        for (int v = 0; v < 4; v++) values[v] *= scale;
      }
      finish<E, FP8>(outputs, values, bias, extra[i % 2][turn], at(i, turn));
      if constexpr (stores_fp8) {
        const float scale = bound.scale(fp8.norm[row_of(i, turn)], activated_scale);
        store_fp8(fp8.values + at(i, turn), values, inverse_of(scale));
        if (column == 0) fp8.values_scale[row_of(i, turn)] = scale;
        store(staged, values);
      }
    }
    if constexpr (stores_fp8) {
      // For the columnwise copy, a lane takes 16 rows of two columns.
      __syncwarp();
      const int row0 = m0 + warp_m + i * 16;
      if (!fp8.columnwise || row0 >= arguments.M) continue;
#pragma unroll
      for (int j = lane; j < columns; j += 32) {
        if (n0 + warp_n + j >= arguments.N) continue;
        float of_rows[16];
#pragma unroll
        for (int row = 0; row < 8; row++) {
          of_rows[2 * row] = staging[row * staging_stride + j];
          of_rows[2 * row + 1] = staging[(row + 8) * staging_stride + j];
        }
        const int64_t group = (n0 + warp_n + j) * groups_a_column + row0 / GPT2_FP8_GROUP;
        store_fp8(fp8.columnwise + group * GPT2_FP8_GROUP, of_rows, to_columnwise);
      }
    }
  }
}

// Returns an FP8 product whose sizes in k count pairs of values, as launch_product expects.
inline Product in_pairs(Product product) {
  product.K /= 2;
  product.lda /= 2;
  product.ldb /= 2;
  return product;
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, bool FP8 = false, class O>
void launch_product(const CudaContext &context, const Product &product, const Outputs<bf16, O> &outputs,
                    float *sums = nullptr, int splits = 1, const Scales<E, FP8> &fp8 = {}) {
  const int64_t tiles_m = ceil_divide(product.M, tile), tiles_n = ceil_divide(product.N, tile);
  // Each part of k begins where a block of GPT2_FP8_BLOCK values begins, because every block has a different scale.
  constexpr int steps_a_block = Warps<E, FP8>::steps_a_block;
  const int64_t blocks_a_split = ceil_divide(ceil_divide(product.K, step_k * steps_a_block), splits);
  const Arguments arguments{static_cast<const bf16 *>(product.a),
                            static_cast<const bf16 *>(product.b),
                            product.lda,
                            product.ldb,
                            product.M,
                            product.N,
                            product.K,
                            static_cast<int>(tiles_m),
                            static_cast<int>(tiles_n),
                            static_cast<int>(blocks_a_split * steps_a_block)};
  auto *kernel = product_kernel<A_K_MAJOR, B_K_MAJOR, E, FP8, O>;
  allow_shared(kernel, shared_bytes);
  const dim3 grid(static_cast<unsigned>(tiles_m * tiles_n), 1, static_cast<unsigned>(splits));
  kernel<<<grid, Warps<E, FP8>::threads, shared_bytes, context.stream>>>(arguments, outputs, sums, fp8);
}

}  // namespace gpt2::sm80
