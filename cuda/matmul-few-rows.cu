// The forward matmul for few rows (one token for each of a few sequences). Reading the weight takes most of the time. A
// warp, or several warps for a long row, holds a row of the weight in registers and multiplies it with every input row.
// A single input row can be layernormed first; every block repeats the norm. Warps prefetch their rows of the weight
// before the kernel waits for the previous kernel, so that memory stays busy from one op of a token to the next.
#include <algorithm>

#include "matmul.cuh"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
// The most blocks per SM. Blocks loop over output columns, so that each block normalizes the input row only once.
constexpr int blocks_of_multiprocessor = 6;

// The longest input row, in elements, that the kernel can normalize.
constexpr int most_normalised = 8 * threads;

// The numbers of packs (16 bytes) of a weight row that a lane can hold; 1 to 8 warps share a row. In bf16, 3 packs fit
// rows of 768 (1 warp) and 3072 (4 warps); 4 packs fit 1024 (1), 1600 (2), 4096 (4) and 6400 (8).
template <class T>
using Packs = std::conditional_t<sizeof(T) == 2, std::integer_sequence<int, 3, 4>, std::integer_sequence<int, 3, 4, 7>>;
template <class T>
constexpr int most_packs = sizeof(T) == 2 ? 4 : 7;

// Each thread normalizes NORMALISED elements of the input row. NORMALISED is 0 without layernorm.
template <Epilogue E, int ROWS, int PACKS, int NORMALISED, class T>
__global__ void __launch_bounds__(threads)
    few_rows_kernel(Outputs<T, T> outputs, const T *in, const T *weight, const T *norm_weight, const T *norm_bias,
                    int M, int N, int K, int split) {
  constexpr int V = vector_size<T>;
  using Vector = Pack<T, V>;
  __shared__ alignas(32) float normal[NORMALISED > 0 ? NORMALISED * threads : 1];
  __shared__ float parts[warps][ROWS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % split;
  const int share = K / split / V * V, begin = part * share, end = part == split - 1 ? K : begin + share;
  const int columns = warps / split;  // output columns per block and iteration
  const int first = blockIdx.x * columns + warp / split, step = gridDim.x * columns;
  const auto prefetch = [&](int column) {
    constexpr int per_line = 128 / sizeof(T);
    if (column >= N) return;
    for (int k = begin + lane * per_line; k < end; k += 32 * per_line) {
      prefetch_to_l2(weight + static_cast<int64_t>(column) * K + k);
    }
  };
  release_next_kernel();
  prefetch(first);
  wait_for_previous_kernel();

  const auto place = [&](int p) { return begin + (p * 32 + lane) * V; };
  if constexpr (NORMALISED > 0) {
    float x[NORMALISED], w[NORMALISED], b[NORMALISED], sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < NORMALISED; i++) {
      const int k = i * threads + threadIdx.x;
      x[i] = k < K ? to_float(in[k]) : 0.0f;
      w[i] = k < K ? to_float(norm_weight[k]) : 0.0f;
      b[i] = k < K ? to_float(norm_bias[k]) : 0.0f;
      sum += x[i];
    }
    const float mean = block_sum<threads>(sum) / K;
#pragma unroll
    for (int i = 0; i < NORMALISED; i++)
      squares += i * threads + threadIdx.x < K ? (x[i] - mean) * (x[i] - mean) : 0.0f;
    const float rstd = rsqrtf(block_sum<threads>(squares) / K + layernorm_eps);
#pragma unroll
    for (int i = 0; i < NORMALISED; i++) {
      normal[i * threads + threadIdx.x] = fmaf((x[i] - mean) * rstd, w[i], b[i]);
    }
    __syncthreads();
  }

  // All warps of a block run the same number of iterations, because warps that share a weight row call __syncthreads.
  for (int column = first; column - warp / split < N; column += step) {
    const T *line = weight + static_cast<int64_t>(column < N ? column : 0) * K;
    Vector w[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      if (place(p) < end) w[p] = *reinterpret_cast<const Vector *>(line + place(p));
    }
    prefetch(column + step);
    // Lane m applies the epilogue to row m. The epilogue's inputs are loaded early, with the weights.
    const bool finishes = part == 0 && lane < M && column < N;
    const int64_t to = static_cast<int64_t>(lane) * N + column;
    float bias[1] = {0};
    Extra<E, T, T, 1> extra;
    if (finishes) {
      if (outputs.bias) bias[0] = to_float(outputs.bias[column]);
      extra.read(outputs, to);
    }
    float result[1] = {0};
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
      // Rows past M repeat row M - 1: without a branch the loads can be issued together.
      const T *row = in + static_cast<int64_t>(min(m, M - 1)) * K;
      float sum = 0;
#pragma unroll
      for (int p = 0; p < PACKS; p++) {
        if (place(p) < end) {
          float x[V];
          if constexpr (NORMALISED > 0) {
            load(x, normal + place(p));
          } else {
            load(x, row + place(p));
          }
#pragma unroll
          for (int j = 0; j < V; j++) sum += x[j] * to_float(w[p].values[j]);
        }
      }
      sum = warp_sum(sum);
      if (lane == m) result[0] = sum;
    }
    if (split > 1) {
      if (lane < ROWS) parts[warp][lane] = result[0];
      __syncthreads();
      if (finishes) {
        for (int other = 1; other < split; other++) result[0] += parts[warp + other][lane];
      }
      __syncthreads();
    }
    if (finishes) finish<E>(outputs, result, bias, extra, to);
  }
}

template <Epilogue E, int ROWS, int NORMALISED, class T>
void launch(const CudaContext &context, const Product &product, const Outputs<T, T> &outputs, const T *norm_weight,
            const T *norm_bias, int needed, int split) {
  const int64_t needed_blocks = ceil_divide(static_cast<int64_t>(product.N) * split, warps);
  const int64_t most_blocks = static_cast<int64_t>(context.multiprocessors) * blocks_of_multiprocessor;
  with_count(needed, Packs<T>{}, [&](auto packs) {
    launch_overlapping(context, few_rows_kernel<E, ROWS, packs, NORMALISED, T>, std::min(needed_blocks, most_blocks),
                       threads, 0, outputs, static_cast<const T *>(product.a), static_cast<const T *>(product.b),
                       norm_weight, norm_bias, product.M, product.N, product.K, split);
    return true;
  });
}

}  // namespace

template <class T>
bool few_rows_product(const CudaContext &context, Epilogue epilogue, const Product &product,
                      const Outputs<T, T> &outputs, const T *norm_weight, const T *norm_bias) {
  constexpr int V = vector_size<T>;
  if (product.M > most_few_rows || product.K % V != 0 || !on_16_bytes(product.a, product.b)) {
    return false;
  }
  // The packs per lane if `split` warps share a weight row; the last warp's share is the longest.
  const auto packs_of = [&](int split) {
    const int share = product.K / split / V * V;
    return static_cast<int>(ceil_divide(product.K - (split - 1) * share, 32 * V));
  };
  int split = 1;
  while (split < warps && packs_of(split) > most_packs<T>) split *= 2;
  const int needed = packs_of(split);
  if (needed > most_packs<T> || (norm_weight && (product.M > 1 || product.K > most_normalised))) return false;
  const auto of = [&](auto epilogue_constant) {
    constexpr Epilogue E = epilogue_constant;
    if constexpr (E == Epilogue::bias || E == Epilogue::gelu) {
      if (norm_weight) {
        const auto normed = [&](auto each) {
          launch<E, 1, each, T>(context, product, outputs, norm_weight, norm_bias, needed, split);
        };
        if (product.K <= 4 * threads) return normed(std::integral_constant<int, 4>{});
        return normed(std::integral_constant<int, 8>{});
      }
    }
    if (product.M == 1) return launch<E, 1, 0, T>(context, product, outputs, nullptr, nullptr, needed, split);
    launch<E, most_few_rows, 0, T>(context, product, outputs, nullptr, nullptr, needed, split);
  };
  with_forward_epilogue(epilogue, of);
  return true;
}

template bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<float, float> &,
                               const float *, const float *);
template bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &,
                               const bf16 *, const bf16 *);

}  // namespace gpt2
