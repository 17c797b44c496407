// Products of bf16 on tensor cores, sm_80 and later, sums in fp32.
//
// A block of 4 warps computes a tile of 128 x 128 results in steps of 64 in k; each warp has 64 x 64 of it in registers (128
// accumulators a lane), so that a fragment from shared memory serves four multiplications or eight. Operand tiles come by
// cp.async through a ring of three stages. Shared memory holds them as they lie in memory, K-major or MN-major, in 16-byte
// chunks XORed with the line's index, so that both the copies in and ldmatrix (plain, or .trans for MN-major: no transposed
// copies anywhere) are free of bank conflicts. Two blocks share an SM where its memory allows: the epilogue of one hides
// behind the products of the other. Tiles of 128 x 256 with 8 warps and one block on an SM were within 5% on an H100, slower
// where k is short and for weight gradients. benchmarks/h100-portable.md has what it makes there.
//
// The weight gradient has few tiles and a long k: k is split over blocks, each leaves its sums in fp32 scratch, and a second
// kernel adds them in order. The bias gradient falls off on the way: the blocks of the first column also multiply dout by ones.
#include "common/mma.cuh"
#include "common/partial-sums.cuh"
#include "common/tensor-cores.h"

namespace gpt2 {

namespace {

constexpr int tile = 128;
constexpr int step_k = 64;
constexpr int stages = 3;
constexpr int threads = 128;
constexpr int tile_bytes = tile * step_k * 2;
constexpr int stage_bytes = 2 * tile_bytes;
constexpr int shared_bytes = stages * stage_bytes;

// The epilogue's staging: 16 rows of a warp's 64 columns, padded against bank conflicts.
constexpr int staging_stride = 72;

template <bool K_MAJOR>
struct Tile {
  static constexpr int line_bytes = K_MAJOR ? step_k * 2 : tile * 2;

  // Where the 16-byte chunk lies: K-major, chunk of 8 k's in line mn; MN-major, chunk of 8 mn's in line k.
  __device__ static uint32_t offset(int line, int chunk) {
    return line * line_bytes + ((chunk ^ (line & 7)) << 4);
  }

  // A thread's part of copying tiles: the same chunk of every `lines_a_turn`-th line. What does not change from step to step
  // is computed once.
  struct Copier {
    static constexpr int chunks = line_bytes / 16;
    static constexpr int lines_a_turn = threads / chunks;
    static constexpr int turns = (K_MAJOR ? tile : step_k) / lines_a_turn;
    static_assert(lines_a_turn % 8 == 0, "the swizzle must be the same for all of a thread's lines");

    const bf16 *operand, *source;  // source moves on with every copy
    int64_t turn_stride, step_stride;
    uint32_t shared_offset;
    int line, column, k_end;
    unsigned valid_turns;
    bool whole;

    __device__ Copier(const bf16 *operand, int64_t ld, int mn0, int mn_end, int k0, int k_end)
        : operand(operand), k_end(k_end) {
      const int chunk = threadIdx.x % chunks;
      line = threadIdx.x / chunks;
      column = chunk * 8;
      shared_offset = offset(line, chunk);
      turn_stride = lines_a_turn * ld;
      valid_turns = 0;
      if constexpr (K_MAJOR) {
        source = operand + (mn0 + line) * ld + k0 + column;
        step_stride = step_k;
        for (int turn = 0; turn < turns; turn++) valid_turns |= (mn0 + line + turn * lines_a_turn < mn_end) << turn;
      } else {
        source = operand + (k0 + line) * ld + mn0 + column;
        step_stride = step_k * ld;
        valid_turns = mn0 + column < mn_end ? ~0u : 0u;
      }
      whole = mn0 + tile <= mn_end;
    }

    // Copies the next step's tile, whose first k is `k0`.
    __device__ __forceinline__ void copy(uint32_t shared, int k0) {
      const bf16 *from = source;
      source += step_stride;
      // Nearly every tile is whole; its copies need no checks.
      if (whole && k0 + step_k <= k_end) {
#pragma unroll
        for (int turn = 0; turn < turns; turn++) {
          copy_async(shared + shared_offset + turn * lines_a_turn * line_bytes, from, true);
          from += turn_stride;
        }
      } else {
        const int k = k0 + (K_MAJOR ? column : line);
        for (int turn = 0; turn < turns; turn++) {
          const bool valid = (valid_turns >> turn & 1) && k + (K_MAJOR ? 0 : turn * lines_a_turn) < k_end;
          copy_async(shared + shared_offset + turn * lines_a_turn * line_bytes, valid ? from : operand, valid);
          from += turn_stride;
        }
      }
    }
  };

  // Fragment a of 16 mn's by 16 k's.
  __device__ static void load_a(uint32_t (&r)[4], uint32_t shared, int mn, int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (K_MAJOR) {
      load_matrices(r, shared + offset(mn + (lane & 15), k / 8 + (lane >> 4)));
    } else {
      load_matrices_transposed(r, shared + offset(k + (lane & 7) + (lane >> 4) * 8, mn / 8 + (lane >> 3 & 1)));
    }
  }

  // Two fragments b, of 8 mn's by 16 k's each: r[0], r[1] and r[2], r[3].
  __device__ static void load_b(uint32_t (&r)[4], uint32_t shared, int mn, int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (K_MAJOR) {
      load_matrices(r, shared + offset(mn + (lane & 7) + (lane >> 4) * 8, k / 8 + (lane >> 3 & 1)));
    } else {
      load_matrices_transposed(r, shared + offset(k + (lane & 15), mn / 8 + (lane >> 4)));
    }
  }
};

struct Arguments {
  const bf16 *a, *b;
  int64_t lda, ldb;
  int M, N, K;
  int tiles_m, tiles_n;
  int steps_a_split;  // steps of k that a split takes
};

// Which tile a block takes: groups of 8 tiles in m, all of n within a group, so that what runs at a time shares operands.
__device__ __forceinline__ void tile_of_block(const Arguments &arguments, int &m, int &n) {
  constexpr int group = 8;
  const int block = blockIdx.x;
  const int in_group = group * arguments.tiles_n;
  const int first = block / in_group * group;
  const int height = min(arguments.tiles_m - first, group);
  m = first + block % in_group % height;
  n = block % in_group / height;
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class O>
__global__ void __launch_bounds__(threads)
    product_kernel(Arguments arguments, Outputs<bf16, O> outputs, float *sums) {
  using TileA = Tile<A_K_MAJOR>;
  using TileB = Tile<B_K_MAJOR>;
  extern __shared__ __align__(128) unsigned char shared_memory[];
  const uint32_t shared = shared_address(shared_memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / 2 * 64, warp_n = warp % 2 * 64;

  int tile_m, tile_n;
  tile_of_block(arguments, tile_m, tile_n);
  const int m0 = tile_m * tile, n0 = tile_n * tile;
  const int first_step = blockIdx.z * arguments.steps_a_split;
  const int steps = min(arguments.steps_a_split, static_cast<int>((arguments.K + step_k - 1) / step_k) - first_step);

  const int first_k = first_step * step_k;
  typename TileA::Copier copier_a(arguments.a, arguments.lda, m0, arguments.M, first_k, arguments.K);
  typename TileB::Copier copier_b(arguments.b, arguments.ldb, n0, arguments.N, first_k, arguments.K);
  // The ring's stages that are being filled and read; `filled` counts the steps copied or under way.
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

  float result[4][8][4] = {};
  // Sums of a over k, by a product with ones; every column of a fragment is the same.
  constexpr bool has_sums = E == Epilogue::gradient;
  [[maybe_unused]] float a_sums[has_sums ? 4 : 1][4] = {};
  [[maybe_unused]] const bool adds_sums = has_sums && sums && tile_n == 0 && warp_n == 0;
  constexpr uint32_t ones = 0x3f803f80;

  // What the epilogue reads comes into L2 meanwhile: in lines of 128 bytes.
  if (const auto *source = Extra<E, bf16, O, 4>::source(outputs)) {
    constexpr int elements = 128 / sizeof(*source), lines_a_row = tile / elements;
    for (int i = threadIdx.x; i < tile * lines_a_row; i += threads) {
      const int row = m0 + i / lines_a_row, first = n0 + i % lines_a_row * elements;
      if (row < arguments.M && first < arguments.N) {
        prefetch_to_l2(source + static_cast<int64_t>(row) * arguments.N + first);
      }
    }
  }

  uint32_t a[2][4][4], b[2][4][4];
  const auto load_fragments = [&](int buffer, uint32_t stage, int k) {
#pragma unroll
    for (int i = 0; i < 4; i++) TileA::load_a(a[buffer][i], stage, warp_m + i * 16, k);
#pragma unroll
    for (int i = 0; i < 4; i++) TileB::load_b(b[buffer][i], stage + tile_bytes, warp_n + i * 16, k);
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
#pragma unroll
    for (int k = 0; k < step_k; k += 16) {
      const int buffer = k / 16 % 2;
      if (k + 16 < step_k) {
        load_fragments(buffer ^ 1, read, k + 16);
      } else if (step + 1 < steps) {
        // The next step's first fragments, before this step's last products: neither the barrier nor the load is waited for.
        wait_copies<stages - 2>();
        __syncthreads();
        read = next_stage(read);
        load_fragments(buffer ^ 1, read, 0);
      }
      // Into the buffer that the previous step has left.
      if (k == 0) copy_a();
      if (k == 16) copy_b();
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          multiply_bf16(result[i][j], a[buffer][i], b[buffer][j / 2][j % 2 * 2], b[buffer][j / 2][j % 2 * 2 + 1]);
        }
      }
      if constexpr (has_sums) {
        if (adds_sums) {
#pragma unroll
          for (int i = 0; i < 4; i++) multiply_bf16(a_sums[i], a[buffer][i], ones, ones);
        }
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

  // Through shared memory, so that a row of 64 results is stored as one piece: a lane takes 4 neighbours of every other row.
  auto *staging = reinterpret_cast<float *>(shared_memory) + warp * 16 * staging_stride;
  const int column = n0 + warp_n + lane % 16 * 4;
  float bias[4] = {};
  if constexpr (E == Epilogue::bias || E == Epilogue::gelu || E == Epilogue::residual) {
    if (outputs.bias && column < arguments.N) load(bias, outputs.bias + column);
  }
  const int64_t split = static_cast<int64_t>(blockIdx.z) * arguments.M;
  const auto row_of = [&](int i, int turn) { return m0 + warp_m + i * 16 + turn * 2 + lane / 16; };
  const auto at = [&](int i, int turn) { return (split + row_of(i, turn)) * arguments.N + column; };
  const auto exists = [&](int i, int turn) { return row_of(i, turn) < arguments.M && column < arguments.N; };
  // What the epilogue reads is asked for a group of rows ahead, so that its latency is paid once.
  Extra<E, bf16, O, 4> extra[2][8];
  const auto read_extra = [&](int i) {
#pragma unroll
    for (int turn = 0; turn < 8; turn++) {
      if (exists(i, turn)) extra[i % 2][turn].read(outputs, at(i, turn));
    }
  };
  read_extra(0);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (i + 1 < 4) read_extra(i + 1);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float *to = staging + lane / 4 * staging_stride + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2 *>(to) = make_float2(result[i][j][0], result[i][j][1]);
      *reinterpret_cast<float2 *>(to + 8 * staging_stride) = make_float2(result[i][j][2], result[i][j][3]);
    }
    __syncwarp();
#pragma unroll
    for (int turn = 0; turn < 8; turn++) {
      float values[4];
      load(values, static_cast<const float *>(staging + (turn * 2 + lane / 16) * staging_stride + lane % 16 * 4));
      if (exists(i, turn)) finish<E>(outputs, values, bias, extra[i % 2][turn], at(i, turn));
    }
  }
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class O>
void launch(const CudaContext &context, const Product &product, const Outputs<bf16, O> &outputs, float *sums = nullptr,
            int splits = 1) {
  const int64_t tiles_m = ceil_divide(product.M, tile), tiles_n = ceil_divide(product.N, tile);
  const Arguments arguments{static_cast<const bf16 *>(product.a),
                            static_cast<const bf16 *>(product.b),
                            product.lda,
                            product.ldb,
                            product.M,
                            product.N,
                            product.K,
                            static_cast<int>(tiles_m),
                            static_cast<int>(tiles_n),
                            static_cast<int>(ceil_divide(ceil_divide(product.K, step_k), splits))};
  auto *kernel = product_kernel<A_K_MAJOR, B_K_MAJOR, E, O>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  const dim3 grid(static_cast<unsigned>(tiles_m * tiles_n), 1, static_cast<unsigned>(splits));
  kernel<<<grid, threads, shared_bytes, context.stream>>>(arguments, outputs, sums);
}

// Blocks that run at a time: two on an SM if their shared memory fits (and 1 KB of the system's for each), else one.
int slots_of(const CudaContext &context) {
  const bool two = context.shared_per_multiprocessor >= 2 * (shared_bytes + 1024);
  return context.multiprocessors * (two ? 2 : 1);
}

// How many parts the weight gradient's k is cut into: the least time by a model of whole waves of blocks, plus the traffic
// of the partial sums. In microseconds on an H100: 1.2 for a step of two blocks on an SM, as much as 6 steps for a block's
// begin and end, 2 TB/s for partial sums.
int splits_of(const CudaContext &context, int N, int C, int O) {
  const int64_t tiles = ceil_divide(O, tile) * ceil_divide(C, tile);
  const int64_t steps = ceil_divide(N, step_k);
  const int slots = slots_of(context);
  int best = 1;
  double least = 0;
  for (int splits = 1; splits <= 32 && splits <= steps; splits++) {
    const double waves = static_cast<double>(ceil_divide(tiles * splits, slots));
    const double work = waves * (static_cast<double>(ceil_divide(steps, splits)) + 6) * 1.2;
    const double traffic = splits > 1 ? splits * static_cast<double>(O) * C * 8 / 2e6 : 0;
    const double time = work + traffic;
    if (splits == 1 || time < least * 0.98) {
      least = time;
      best = splits;
    }
  }
  // No split may be left without a step.
  return static_cast<int>(ceil_divide(steps, ceil_divide(steps, best)));
}

}  // namespace

void portable::matmul_forward(const CudaContext &context, Epilogue epilogue, const Product &product,
                              const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu) return launch<true, true, Epilogue::gelu>(context, product, outputs);
  if (epilogue == Epilogue::residual) return launch<true, true, Epilogue::residual>(context, product, outputs);
  launch<true, true, Epilogue::bias>(context, product, outputs);
}

void portable::matmul_backward_input(const CudaContext &context, Epilogue epilogue, const Product &product,
                                     const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu_backward) {
    return launch<true, false, Epilogue::gelu_backward>(context, product, outputs);
  }
  launch<true, false, Epilogue::bias>(context, product, outputs);
}

int64_t portable::matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  const int splits = splits_of(context, N, C, O);
  Scratch scratch;
  scratch.take<float>(static_cast<int64_t>(splits) * O);
  if (splits > 1) scratch.take<float>(static_cast<int64_t>(splits) * O * C);
  return scratch.bytes();
}

void portable::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                      bool accumulate, void *memory) {
  const int splits = splits_of(context, product.K, product.N, product.M);
  Scratch scratch(memory);
  float *bias_partial = scratch.take<float>(static_cast<int64_t>(splits) * product.M);
  float *sums = dbias ? bias_partial : nullptr;
  with_gradient_type(context, [&](auto gradient) {
    using G = decltype(gradient);
    if (splits == 1) {
      const Outputs<bf16, G> outputs{static_cast<G *>(dweight), nullptr, nullptr, nullptr, accumulate};
      launch<false, false, Epilogue::gradient>(context, product, outputs, sums, 1);
      return;
    }
    const int64_t count = static_cast<int64_t>(product.M) * product.N;
    auto *partial = scratch.take<float>(splits * count);
    const Outputs<bf16, float> outputs{partial, nullptr, nullptr, nullptr, false};
    launch<false, false, Epilogue::gradient>(context, product, outputs, sums, splits);
    launch_add_parts(context, static_cast<G *>(dweight), partial, splits, count, accumulate);
  });
  if (dbias) launch_add_parts(context, dbias, bias_partial, splits, product.M, accumulate);
}

}  // namespace gpt2
