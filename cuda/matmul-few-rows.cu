// The forward product for so few rows (a token of each of a few sequences) that reading the weight is all the work: a
// warp takes a line of the weight, or a quarter of a long one, holds it in registers and multiplies it with every row;
// with one row the warp can normalise that first. Its part of the weight is asked for before the kernel waits for the
// one before it, so that memory keeps busy from one op of a token to the next.
#include "matmul.cuh"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
// Warps that share a line that one would hold too much of.
constexpr int long_split = 4;
constexpr float eps = 1e-5f;

// Packs of V neighbours that a lane holds of a line, 32 lanes apart; d12, d24 and d48 need 3, 4 and 7 of 8 bf16.
template <class T>
using Packs =
    std::conditional_t<sizeof(T) == 2, std::integer_sequence<int, 3, 4, 7>, std::integer_sequence<int, 6, 8, 13>>;
template <class T>
constexpr int most_packs = sizeof(T) == 2 ? 7 : 13;

template <Epilogue E, int ROWS, int PACKS, bool NORMALISES, class T>
__global__ void __launch_bounds__(threads)
    few_rows_kernel(Outputs<T, T> outputs, const T *in, const T *weight, const T *norm_weight, const T *norm_bias,
                    int M, int N, int K, int split) {
  constexpr int V = vector_size<T>;
  __shared__ float parts[warps][ROWS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = (blockIdx.x * warps + warp) / split, part = warp % split;
  const int share = K / split / V * V, begin = part * share, end = part == split - 1 ? K : begin + share;
  const T *line = weight + static_cast<int64_t>(column < N ? column : 0) * K;
  release_next_kernel();
  constexpr int per_line = 128 / sizeof(T);
  for (int k = begin + lane * per_line; k < end; k += 32 * per_line) prefetch_to_l2(line + k);
  wait_for_previous_kernel();

  using Vector = Pack<T, V>;
  const auto place = [&](int p) { return begin + (p * 32 + lane) * V; };
  const auto at = [&](const T *values, int p) { return *reinterpret_cast<const Vector *>(values + place(p)); };
  Vector w[PACKS];
#pragma unroll
  for (int p = 0; p < PACKS; p++) {
    if (place(p) < end) w[p] = at(line, p);
  }
  // Lane m finishes row m; what that needs is on its way with the rest.
  const bool finishes = part == 0 && lane < M && column < N;
  const int64_t to = static_cast<int64_t>(lane) * N + column;
  float bias[1] = {0};
  Extra<E, T, T, 1> extra;
  if (finishes) {
    if (outputs.bias) bias[0] = to_float(outputs.bias[column]);
    extra.read(outputs, to);
  }

  float own[1] = {0};
  if constexpr (NORMALISES) {
    Vector nw[PACKS], nb[PACKS];
    float x[PACKS][V], sum = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      if (place(p) < end) {
        load(x[p], in + place(p));
        nw[p] = at(norm_weight, p);
        nb[p] = at(norm_bias, p);
      } else {
#pragma unroll
        for (int j = 0; j < V; j++) x[p][j] = 0;
      }
#pragma unroll
      for (int j = 0; j < V; j++) sum += x[p][j];
    }
    const float mean = warp_sum(sum) / K;
    float squares = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      if (place(p) < end) {
#pragma unroll
        for (int j = 0; j < V; j++) squares += (x[p][j] - mean) * (x[p][j] - mean);
      }
    }
    const float rstd = rsqrtf(warp_sum(squares) / K + eps);
    float product = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      if (place(p) < end) {
#pragma unroll
        for (int j = 0; j < V; j++) {
          const float normal = fmaf((x[p][j] - mean) * rstd, to_float(nw[p].values[j]), to_float(nb[p].values[j]));
          product += normal * to_float(w[p].values[j]);
        }
      }
    }
    own[0] = warp_sum(product);
  } else {
    float sums[ROWS] = {};
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
      // Rows that are not there are the last one again: no branch keeps loads from going together.
      const T *row = in + static_cast<int64_t>(min(m, M - 1)) * K;
#pragma unroll
      for (int p = 0; p < PACKS; p++) {
        if (place(p) < end) {
          float x[V];
          load(x, row + place(p));
#pragma unroll
          for (int j = 0; j < V; j++) sums[m] += x[j] * to_float(w[p].values[j]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
      const float sum = warp_sum(sums[m]);
      if (lane == m) own[0] = sum;
    }
    if (split > 1) {
      if (lane < ROWS) parts[warp][lane] = own[0];
      __syncthreads();
      if (finishes) {
        for (int other = 1; other < split; other++) own[0] += parts[warp + other][lane];
      }
    }
  }
  if (finishes) finish<E>(outputs, own, bias, extra, to);
}

template <Epilogue E, int ROWS, bool NORMALISES, class T, int... PACKS>
void launch(const CudaContext &context, const Product &product, const Outputs<T, T> &outputs, const T *norm_weight,
            const T *norm_bias, int needed, int split, std::integer_sequence<int, PACKS...>) {
  const auto start = [&](auto *kernel) {
    launch_overlapping(context, kernel, ceil_divide(static_cast<int64_t>(product.N) * split, warps), threads, 0,
                       outputs, static_cast<const T *>(product.a), static_cast<const T *>(product.b), norm_weight,
                       norm_bias, product.M, product.N, product.K, split);
    return true;
  };
  bool done = false;
  ((done = done || (needed <= PACKS && start(few_rows_kernel<E, ROWS, PACKS, NORMALISES, T>))), ...);
}

}  // namespace

template <class T>
bool few_rows_product(const CudaContext &context, Epilogue epilogue, const Product &product,
                      const Outputs<T, T> &outputs, const T *norm_weight, const T *norm_bias) {
  constexpr int V = vector_size<T>;
  if (product.M > most_few_rows || product.K % V != 0 || !on_16_bytes(product.a, product.b, norm_weight, norm_bias)) {
    return false;
  }
  // The last share is the longest.
  const auto packs_of = [&](int split) {
    const int share = product.K / split / V * V;
    return static_cast<int>(ceil_divide(product.K - (split - 1) * share, 32 * V));
  };
  const int split = packs_of(1) <= most_packs<T> ? 1 : long_split, needed = packs_of(split);
  if (needed > most_packs<T> || (norm_weight && (split > 1 || product.M > 1))) return false;
  const auto of = [&](auto epilogue_constant) {
    constexpr Epilogue E = epilogue_constant;
    if constexpr (E != Epilogue::residual) {
      if (norm_weight) {
        return launch<E, 1, true>(context, product, outputs, norm_weight, norm_bias, needed, split, Packs<T>{});
      }
    }
    if (product.M == 1)
      return launch<E, 1, false, T>(context, product, outputs, nullptr, nullptr, needed, split, Packs<T>{});
    launch<E, most_few_rows, false, T>(context, product, outputs, nullptr, nullptr, needed, split, Packs<T>{});
  };
  if (epilogue == Epilogue::bias) of(std::integral_constant<Epilogue, Epilogue::bias>{});
  if (epilogue == Epilogue::gelu) of(std::integral_constant<Epilogue, Epilogue::gelu>{});
  if (epilogue == Epilogue::residual) of(std::integral_constant<Epilogue, Epilogue::residual>{});
  return true;
}

template bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<float, float> &,
                               const float *, const float *);
template bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &,
                               const bf16 *, const bf16 *);

}  // namespace gpt2
