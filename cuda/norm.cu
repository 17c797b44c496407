// Layernorm and RMSNorm. A warp takes a row and holds it in registers: forward reads and writes it once (two-pass
// variance); backward reads three rows and writes one. Backward's grid has as many blocks as the GPU runs at a time,
// each warp loops over rows, and its lanes keep the sums of dweight and dbias for their columns; blocks store partial
// sums that a second kernel adds in order. With FP8 the result is also stored in FP8: a warp has the whole row, so the
// row's scale is known before the store; forward can then omit the bf16 result.
#include "common/fp8.cuh"
#include "common/mma.cuh"
#include "common/partial-sums.cuh"
#include "norm-any.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

using namespace norm_any;

// A lane holds PACKS packs of V adjacent columns, 32 packs apart. Packs past C are skipped.
template <bool CENTERED, class T, int V, int PACKS, bool FP8>
__global__ void __launch_bounds__(threads)
    forward_kernel(T *out, float *mean, float *rstd, const T *in, const T *weight, const T *bias, int N, int C,
                   float eps, uint8_t *values, float *scale, float *norm) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  if (row >= N) return;
  float x[PACKS][V];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < PACKS; p++) {
    const int column = (p * 32 + lane) * V;
    if (column < C) {
      load(x[p], in + row * C + column);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) x[p][j] = 0;
    }
#pragma unroll
    for (int j = 0; j < V; j++) sum += x[p][j];
  }
  const float m = CENTERED ? warp_sum(sum) / C : 0.0f;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < PACKS; p++) {
    if ((p * 32 + lane) * V < C) {
#pragma unroll
      for (int j = 0; j < V; j++) squares += (x[p][j] - m) * (x[p][j] - m);
    }
  }
  const float r = rsqrtf(warp_sum(squares) / C + eps);
  [[maybe_unused]] float largest = 0;
#pragma unroll
  for (int p = 0; p < PACKS; p++) {
    const int column = (p * 32 + lane) * V;
    if (column < C) {
      float w[V];
      load(w, weight + column);
      if constexpr (CENTERED) {
        float b[V];
        load(b, bias + column);
#pragma unroll
        for (int j = 0; j < V; j++) w[j] = (x[p][j] - m) * r * w[j] + b[j];
      } else {
#pragma unroll
        for (int j = 0; j < V; j++) w[j] *= x[p][j] * r;
      }
      if constexpr (FP8) {
#pragma unroll
        for (int j = 0; j < V; j++) {
          x[p][j] = to_float(from_float<T>(w[j]));
          largest = fmaxf(largest, fabsf(x[p][j]));
        }
      } else {
        store(out + row * C + column, w);
      }
    }
  }
  if constexpr (FP8) {
    const float s = fp8_scale(warp_largest(largest)), inverse = inverse_of(s);
    float sum_of_squares = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      const int column = (p * 32 + lane) * V;
      if (column >= C) continue;
      if (out) store(out + row * C + column, x[p]);
      sum_of_squares += store_fp8(values + row * C + column, x[p], inverse);
    }
    store_scale_and_norm(scale, norm, row, s, warp_sum(sum_of_squares), C);
  }
  if (lane == 0) {
    if constexpr (CENTERED) mean[row] = m;
    rstd[row] = r;
  }
}

// Bytes of shared memory that hold ROWS rows of dout, in and dresidual for each warp.
template <int PACKS, int ROWS>
constexpr int backward_shared_bytes = warps * ROWS * 3 * PACKS * 32 * 16;
// The smallest and the largest limit of a block's shared memory, in bytes, among GPUs of compute capability 8.0 and
// later. Kernels that no GPU would launch are not compiled.
constexpr int least_shared_limit = 99 << 10, largest_shared_limit = 227 << 10;

// Two blocks share an SM where the lanes' sums of dweight and dbias leave enough registers. cp.async loads rows into
// shared memory, so pending loads take no registers. Each lane reads only 16-byte packs that it has copied itself, so
// no thread waits for another. ROWS is 2, the current row and the next, or 1 if two rows do not fit.
template <bool CENTERED, class T, int V, int PACKS, int ROWS, bool FP8>
__global__ void __launch_bounds__(threads, V *PACKS <= 24 ? 2 : 1)
    backward_kernel(T *din, float *partial, const T *dout, const T *dresidual, const T *in, const T *weight,
                    const float *mean, const float *rstd, int N, int C, uint8_t *values, float *scale, float *norm) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  extern __shared__ __align__(16) unsigned char memory[];
  using Packs = Pack<T, V>;
  auto *lane_packs = reinterpret_cast<Packs *>(memory) + warp * (ROWS * 3 * PACKS * 32) + lane;
  const auto place = [&](int stage, int tensor, int p) { return lane_packs + ((stage * 3 + tensor) * PACKS + p) * 32; };
  const auto copy = [&](int64_t row, int stage) {
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      const int column = (p * 32 + lane) * V;
      if (row < N && column < C) {
        copy_async(shared_address(place(stage, 0, p)), dout + row * C + column, true);
        copy_async(shared_address(place(stage, 1, p)), in + row * C + column, true);
        if (dresidual) copy_async(shared_address(place(stage, 2, p)), dresidual + row * C + column, true);
      }
    }
    commit_copies();
  };

  float dweight[PACKS][V] = {}, dbias[PACKS][V] = {};
  const int64_t first = static_cast<int64_t>(blockIdx.x) * warps + warp, step = static_cast<int64_t>(gridDim.x) * warps;
  int stage = 0;
  if (ROWS == 2) copy(first, 0);
  for (int64_t row = first; row < N; row += step) {
    copy(ROWS == 2 ? row + step : row, ROWS == 2 ? stage ^ 1 : 0);
    const float m = CENTERED ? mean[row] : 0.0f, r = rstd[row];
    wait_copies<ROWS - 1>();
    Packs dy[PACKS], x[PACKS];
    float sum = 0, product = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      const int column = (p * 32 + lane) * V;
      if (column < C) {
        dy[p] = *place(stage, 0, p);
        x[p] = *place(stage, 1, p);
        float w[V];
        load(w, weight + column);
#pragma unroll
        for (int j = 0; j < V; j++) {
          const float normalized = (to_float(x[p].values[j]) - m) * r, d = to_float(dy[p].values[j]);
          dweight[p][j] += d * normalized;
          if constexpr (CENTERED) dbias[p][j] += d;
          sum += d * w[j];
          product += d * w[j] * normalized;
        }
      }
    }
    sum = CENTERED ? warp_sum(sum) / C : 0.0f;
    product = warp_sum(product) / C;
    [[maybe_unused]] float largest = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      const int column = (p * 32 + lane) * V;
      if (column < C) {
        float w[V];
        load(w, weight + column);
        Packs residual;
        if (dresidual) residual = *place(stage, 2, p);
#pragma unroll
        for (int j = 0; j < V; j++) {
          const float normalized = (to_float(x[p].values[j]) - m) * r;
          const float gradient = r * (to_float(dy[p].values[j]) * w[j] - sum - normalized * product);
          w[j] = gradient + (dresidual ? to_float(residual.values[j]) : 0.0f);
        }
        store(din + row * C + column, w);
        if constexpr (FP8) {
          // The result goes to the registers of dy, which is no longer needed.
#pragma unroll
          for (int j = 0; j < V; j++) {
            dy[p].values[j] = from_float<T>(w[j]);
            largest = fmaxf(largest, fabsf(to_float(dy[p].values[j])));
          }
        }
      }
    }
    if constexpr (FP8) {
      const float s = fp8_scale(warp_largest(largest)), inverse = inverse_of(s);
      float sum_of_squares = 0;
#pragma unroll
      for (int p = 0; p < PACKS; p++) {
        const int column = (p * 32 + lane) * V;
        if (column < C) {
          float result[V];
#pragma unroll
          for (int j = 0; j < V; j++) result[j] = to_float(dy[p].values[j]);
          sum_of_squares += store_fp8(values + row * C + column, result, inverse);
        }
      }
      store_scale_and_norm(scale, norm, row, s, warp_sum(sum_of_squares), C);
    }
    if (ROWS == 2) stage ^= 1;
  }
  wait_copies<0>();
  __syncthreads();
  // The block's warps add their sums in shared memory, one warp after the other. The sums of adjacent lanes are
  // adjacent, so there are no bank conflicts.
  auto *sums = reinterpret_cast<float *>(memory);
  constexpr int lines = PACKS * V;  // rows of 32 sums, one per lane, for dweight; dbias has as many
  for (int turn = 0; turn < warps; turn++) {
    if (warp == turn) {
#pragma unroll
      for (int i = 0; i < lines; i++) {
        float &weight_sum = sums[i * 32 + lane];
        weight_sum = dweight[i / V][i % V] + (turn > 0 ? weight_sum : 0.0f);
        if constexpr (CENTERED) {
          float &bias_sum = sums[(lines + i) * 32 + lane];
          bias_sum = dbias[i / V][i % V] + (turn > 0 ? bias_sum : 0.0f);
        }
      }
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < parameters<CENTERED> * C; i += threads) {
    const int column = i < C ? i : i - C, pack = column / V;
    const int line = (i < C ? 0 : lines) + pack / 32 * V + column % V;
    partial[static_cast<int64_t>(blockIdx.x) * parameters<CENTERED> * C + i] = sums[line * 32 + pack % 32];
  }
}

// The number of partial sums in backward: at most one for each concurrent block, and at most one for every 32 rows.
int parts_of(const CudaContext &context, int N, int C) {
  const int64_t most = static_cast<int64_t>(context.multiprocessors) * (C <= 768 ? 2 : 1);
  const int64_t needed = ceil_divide(N, warps * 4);
  return static_cast<int>(needed < most ? needed : most);
}

// The packs per lane for which kernels are compiled. d12, d24, d36 and d48 need 3, 4, 5 and 7 packs of 8 bf16.
template <class T>
using Packs = std::conditional_t<sizeof(T) == 2, std::integer_sequence<int, 1, 2, 3, 4, 5, 7, 8>,
                                 std::integer_sequence<int, 1, 2, 3, 6, 8, 10, 13, 16>>;

// Calls body(element, centered, fp8): a value of the element type, and constants that choose the kernel. `mean` is not
// NULL in layernorm (centered), `values` is not NULL with FP8. With FP8 the element type is bf16.
template <class Body>
void with_variant(const CudaContext &gpu, const float *mean, const uint8_t *values, Body body) {
  const auto with_mean = [&](auto element, auto fp8) {
    with_flag(mean, [&](auto centered) { body(element, centered, fp8); });
  };
  if (values) {
    with_mean(bf16{}, std::true_type{});
  } else {
    with_element_type(gpu, [&](auto element) { with_mean(element, std::false_type{}); });
  }
}

}  // namespace

int64_t ops::norm_scratch(const Context &gpu, int N, int C) {
  Scratch scratch;
  scratch.take<float>(static_cast<int64_t>(parts_of(gpu, N, C)) * 2 * C);
  return scratch.bytes();
}

void ops::norm_forward(Context &gpu, void *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
                       const void *in, const void *weight, const void *bias, int N, int C, float eps) {
  const auto blocks = static_cast<unsigned>(ceil_divide(N, warps));
  with_variant(gpu, mean, values, [&](auto element, auto centered, auto fp8) {
    using T = decltype(element);
    constexpr int V = vector_size<T>;
    constexpr bool CENTERED = decltype(centered)::value, FP8 = decltype(fp8)::value;
    auto *y = static_cast<T *>(out);
    auto *x = static_cast<const T *>(in), *w = static_cast<const T *>(weight), *b = static_cast<const T *>(bias);
    const bool done = C % V == 0 && on_16_bytes(y, x, w, b, values) &&
                      with_count(static_cast<int>(ceil_divide(C, 32 * V)), Packs<T>{}, [&](auto packs) {
                        launch_overlapping(gpu, forward_kernel<CENTERED, T, V, packs, FP8>, blocks, threads, 0, y, mean,
                                           rstd, x, w, b, N, C, eps, values, scale, norm);
                        return true;
                      });
    if (!done) {
      forward_any_kernel<CENTERED, FP8>
          <<<blocks, threads, 0, gpu.stream>>>(y, mean, rstd, x, w, b, N, C, eps, values, scale, norm);
    }
  });
}

void ops::norm_backward(Context &gpu, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
                        float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight,
                        const float *mean, const float *rstd, int N, int C, bool accumulate) {
  const int parts = parts_of(gpu, N, C);
  float *partial = Scratch(gpu.workspace).take<float>(static_cast<int64_t>(parts) * 2 * C);
  with_variant(gpu, mean, values, [&](auto element, auto centered, auto fp8) {
    using T = decltype(element);
    constexpr int V = vector_size<T>;
    constexpr bool CENTERED = decltype(centered)::value, FP8 = decltype(fp8)::value;
    auto *dx = static_cast<T *>(din);
    auto *dy = static_cast<const T *>(dout), *residual = static_cast<const T *>(dresidual);
    auto *x = static_cast<const T *>(in), *w = static_cast<const T *>(weight);
    const bool done =
        C % V == 0 && on_16_bytes(dx, dy, residual, x, w, values) &&
        with_count(static_cast<int>(ceil_divide(C, 32 * V)), Packs<T>{}, [&](auto packs) {
          const auto launch = [&](auto *kernel, int shared) {
            if (shared > gpu.shared_limit) return false;
            launch_overlapping(gpu, kernel, parts, threads, shared, dx, partial, dy, residual, x, w, mean, rstd, N, C,
                               values, scale, norm);
            return true;
          };
          constexpr int two_rows = backward_shared_bytes<packs, 2>;
          if constexpr (two_rows <= largest_shared_limit) {
            if (launch(backward_kernel<CENTERED, T, V, packs, 2, FP8>, two_rows)) return true;
          }
          if constexpr (two_rows <= least_shared_limit) {
            return false;
          } else {
            return launch(backward_kernel<CENTERED, T, V, packs, 1, FP8>, backward_shared_bytes<packs, 1>);
          }
        });
    if (!done) {
      // dweight and dbias are computed before din, because din may overwrite dout.
      const dim3 grid(static_cast<unsigned>(ceil_divide(C, 32)), static_cast<unsigned>(parts));
      const auto blocks = static_cast<unsigned>(ceil_divide(N, warps));
      parameters_any_kernel<CENTERED><<<grid, threads, 0, gpu.stream>>>(partial, dy, x, mean, rstd, N, C);
      backward_any_kernel<CENTERED><<<blocks, threads, 0, gpu.stream>>>(dx, dy, residual, x, w, mean, rstd, N, C);
      if constexpr (FP8) quantize_any_kernel<<<blocks, threads, 0, gpu.stream>>>(values, scale, norm, dx, N, C);
    }
  });
  launch_add_partials(gpu, dweight, dbias, partial, parts, C, accumulate);
}

}  // namespace gpt2
