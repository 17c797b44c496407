// QK-norm and rotary positions: each head's q and k are normalized by RMS and rotated, in place. Memory-bound: forward
// reads and writes q and k once, backward reads them and their gradients and writes the gradients. A warp takes a
// token, so the token's rotations are loaded once for all heads. value-embedding.cuh mixes v with a value embedding.
#include "runtime/ops.generated.h"
#include "value-embedding.cuh"

namespace gpt2 {

namespace {

constexpr int threads = factor_threads, warps = factor_warps;

struct Sizes {
  int tokens, T, S, C, NH;  // tokens = B * T

  // The number of heads of q and k together.
  __host__ __device__ int heads() const { return 2 * NH; }
  // The offset of a token's q.
  __device__ int64_t at(int token) const { return static_cast<int64_t>(token) * 3 * C; }
};

// A token's position, or -1 if the T tokens do not fit in S positions.
__device__ __forceinline__ int64_t position_of(int token, const int32_t *positions, const Sizes &sizes) {
  const int64_t first = positions ? positions[token / sizes.T] : 0, position = first + token % sizes.T;
  return position >= 0 && first <= sizes.S - sizes.T ? position : -1;
}

// Rotates the pair (low, high) by an angle; a negated sine rotates back.
__device__ __forceinline__ void rotate(float &low, float &high, float cosine, float sine) {
  const float x = low;
  low = x * cosine + high * sine;
  high = high * cosine - x * sine;
}

// ---- head sizes of 64 and 128 ----

// A lane's part of a head: V adjacent elements of the first half, and the elements of the second half that they are
// rotated with. A warp takes `groups` heads at a time.
template <class T, int HS>
struct Lane {
  static constexpr int V = vector_size<T>, half = HS / 2, lanes = half / V, groups = 32 / lanes;

  int group = static_cast<int>(threadIdx.x) % 32 / lanes, column = static_cast<int>(threadIdx.x) % lanes * V;
  float cosines[V / 4][4], sines[V / 4][4];

  __device__ explicit Lane(const float *rotations) {
#pragma unroll
    for (int j = 0; j < V / 4; j++) {
      load(cosines[j], rotations + column + j * 4);
      load(sines[j], rotations + half + column + j * 4);
    }
  }
  __device__ void load_head(float (&low)[V], float (&high)[V], const T *head) const {
    load(low, head + column);
    load(high, head + half + column);
  }
  // The mean of low * other_low and high * other_high over the head.
  __device__ static float mean_of_products(const float (&low)[V], const float (&high)[V], const float (&other_low)[V],
                                           const float (&other_high)[V]) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < V; j++) sum += low[j] * other_low[j] + high[j] * other_high[j];
#pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    return sum / HS;
  }
  // Rotates by the position's angles (back if `direction` is -1), and stores.
  __device__ void store_rotated(T *head, float (&low)[V], float (&high)[V], float direction) const {
#pragma unroll
    for (int j = 0; j < V; j++) rotate(low[j], high[j], cosines[j / 4][j % 4], direction * sines[j / 4][j % 4]);
    store(head + column, low);
    store(head + half + column, high);
  }
};

template <class T, int HS>
__global__ void __launch_bounds__(threads, 4)
    forward_kernel(T *qkv, float *rstd, const float *rotations, const int32_t *positions, Sizes sizes, float eps,
                   float query_factor) {
  wait_for_previous_kernel();
  const int token = static_cast<int>(blockIdx.x * warps + threadIdx.x / 32);
  if (token >= sizes.tokens) return;
  const int64_t position = position_of(token, positions, sizes);
  const Lane<T, HS> lane(rotations + (position >= 0 ? position : 0) * HS);
  // All groups run the same number of iterations, because the shuffles below need all lanes of a warp.
  for (int first = 0; first < sizes.heads(); first += lane.groups) {
    const int head = first + lane.group;
    const bool exists = head < sizes.heads();
    T *x = qkv + sizes.at(token) + head * HS;
    float low[lane.V] = {}, high[lane.V] = {};
    if (exists) lane.load_head(low, high, x);
    const float r = rstd ? rsqrtf(lane.mean_of_products(low, high, low, high) + eps) : 1.0f;
    const float factor = position >= 0 ? (head < sizes.NH ? r * query_factor : r) : NAN;
#pragma unroll
    for (int j = 0; j < lane.V; j++) {
      low[j] *= factor;
      high[j] *= factor;
    }
    if (exists) {
      lane.store_rotated(x, low, high, 1.0f);
      if (rstd && lane.column == 0) rstd[static_cast<int64_t>(token) * sizes.heads() + head] = r;
    }
  }
}

// y is forward's result, dy its gradient. A rotation preserves dot products, so mean(dy * y) is taken before dy is
// rotated back; query_factor cancels in this mean. The rotation is linear, so it is undone once, on the difference.
template <class T, int HS>
__global__ void __launch_bounds__(threads, 3)
    backward_kernel(T *dqkv, const T *qkv, const float *rstd, const float *rotations, Sizes sizes, float query_factor) {
  wait_for_previous_kernel();
  const int token = static_cast<int>(blockIdx.x * warps + threadIdx.x / 32);
  if (token >= sizes.tokens) return;
  const Lane<T, HS> lane(rotations + static_cast<int64_t>(token % sizes.T) * HS);
  for (int first = 0; first < sizes.heads(); first += lane.groups) {
    const int head = first + lane.group;
    const bool exists = head < sizes.heads();
    const int64_t at = sizes.at(token) + head * HS;
    float low[lane.V] = {}, high[lane.V] = {};
    if (exists) lane.load_head(low, high, dqkv + at);
    const float factor = head < sizes.NH ? query_factor : 1.0f;
    if (rstd) {
      float y_low[lane.V] = {}, y_high[lane.V] = {};
      if (exists) lane.load_head(y_low, y_high, qkv + at);
      const float r = exists ? rstd[static_cast<int64_t>(token) * sizes.heads() + head] : 0.0f;
      const float share = lane.mean_of_products(low, high, y_low, y_high) / factor;
#pragma unroll
      for (int j = 0; j < lane.V; j++) {
        low[j] = r * (low[j] * factor - y_low[j] * share);
        high[j] = r * (high[j] * factor - y_high[j] * share);
      }
    } else {
#pragma unroll
      for (int j = 0; j < lane.V; j++) {
        low[j] *= factor;
        high[j] *= factor;
      }
    }
    if (exists) lane.store_rotated(dqkv + at, low, high, -1.0f);
  }
}

// ---- any even head size: a warp per head, which reads the head again instead of holding it in registers ----

template <class T>
__global__ void __launch_bounds__(threads)
    forward_any_kernel(T *qkv, float *rstd, const float *rotations, const int32_t *positions, Sizes sizes, int HS,
                       float eps, float query_factor) {
  const int lane = threadIdx.x % 32, half = HS / 2;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  const int token = static_cast<int>(row / sizes.heads()), head = static_cast<int>(row % sizes.heads());
  if (token >= sizes.tokens) return;
  T *x = qkv + sizes.at(token) + head * HS;
  float r = 1.0f;
  if (rstd) {
    float squares = 0;
    for (int i = lane; i < half; i += 32) {
      const float low = to_float(x[i]), high = to_float(x[i + half]);
      squares += low * low + high * high;
    }
    r = rsqrtf(warp_sum(squares) / HS + eps);
    if (lane == 0) rstd[row] = r;
  }
  const int64_t position = position_of(token, positions, sizes);
  const float *angles = rotations + (position >= 0 ? position : 0) * HS;
  const float factor = position >= 0 ? (head < sizes.NH ? r * query_factor : r) : NAN;
  for (int i = lane; i < half; i += 32) {
    float low = to_float(x[i]) * factor, high = to_float(x[i + half]) * factor;
    rotate(low, high, angles[i], angles[i + half]);
    x[i] = from_float<T>(low);
    x[i + half] = from_float<T>(high);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    backward_any_kernel(T *dqkv, const T *qkv, const float *rstd, const float *rotations, Sizes sizes, int HS,
                        float query_factor) {
  const int lane = threadIdx.x % 32, half = HS / 2;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  const int token = static_cast<int>(row / sizes.heads()), head = static_cast<int>(row % sizes.heads());
  if (token >= sizes.tokens) return;
  T *d = dqkv + sizes.at(token) + head * HS;
  const T *y = qkv + sizes.at(token) + head * HS;
  const float *angles = rotations + static_cast<int64_t>(token % sizes.T) * HS;
  const float r = rstd ? rstd[row] : 1.0f, factor = head < sizes.NH ? query_factor : 1.0f;
  float product = 0;
  for (int i = lane; rstd && i < half; i += 32) {
    product += to_float(d[i]) * to_float(y[i]) + to_float(d[i + half]) * to_float(y[i + half]);
  }
  const float share = warp_sum(product) / HS / factor;
  for (int i = lane; i < half; i += 32) {
    float low = r * (to_float(d[i]) * factor - to_float(y[i]) * share);
    float high = r * (to_float(d[i + half]) * factor - to_float(y[i + half]) * share);
    rotate(low, high, angles[i], -angles[i + half]);
    d[i] = from_float<T>(low);
    d[i + half] = from_float<T>(high);
  }
}

// Calls `with_size` with a constant head size if HS is 64 or 128 and addresses allow vectors; otherwise `with_any`.
template <class WithSize, class WithAny>
void with_head_size(int HS, bool vectors, WithSize with_size, WithAny with_any) {
  if (vectors && HS == 64) {
    with_size(std::integral_constant<int, 64>{});
  } else if (vectors && HS == 128) {
    with_size(std::integral_constant<int, 128>{});
  } else {
    with_any();
  }
}

}  // namespace

void ops::qk_norm_rotary_forward(Context &gpu, void *qkv, float *rstd, void *values, const float *rotations,
                                 const int32_t *positions, const void *value_factors, const void *embedded, int B,
                                 int T, int S, int C, int NH, float eps, float query_factor) {
  const Sizes sizes{B * T, T, S, C, NH};
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *x = static_cast<E *>(qkv);
    with_head_size(
        C / NH, on_16_bytes(x, rotations),
        [&](auto size) {
          launch_overlapping(gpu, forward_kernel<E, size>, ceil_divide(sizes.tokens, warps), threads, 0, x, rstd,
                             rotations, positions, sizes, eps, query_factor);
        },
        [&] {
          const auto blocks = static_cast<unsigned>(ceil_divide(int64_t{sizes.tokens} * sizes.heads(), warps));
          forward_any_kernel<<<blocks, threads, 0, gpu.stream>>>(x, rstd, rotations, positions, sizes, C / NH, eps,
                                                                 query_factor);
        });
    if (value_factors) mix_values(gpu, x, static_cast<E *>(values), value_factors, embedded, sizes.tokens, C);
  });
}

void ops::qk_norm_rotary_backward(Context &gpu, void *dqkv, float *dvalue_factors, void *dembedded, const void *qkv,
                                  const float *rstd, const float *rotations, const void *value_factors,
                                  const void *values, const void *embedded, int B, int T, int C, int NH,
                                  float query_factor, bool accumulate) {
  const Sizes sizes{B * T, T, T, C, NH};
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *d = static_cast<E *>(dqkv);
    auto *y = static_cast<const E *>(qkv);
    with_head_size(
        C / NH, on_16_bytes(d, y, rotations),
        [&](auto size) {
          launch_overlapping(gpu, backward_kernel<E, size>, ceil_divide(sizes.tokens, warps), threads, 0, d, y, rstd,
                             rotations, sizes, query_factor);
        },
        [&] {
          const auto blocks = static_cast<unsigned>(ceil_divide(int64_t{sizes.tokens} * sizes.heads(), warps));
          backward_any_kernel<<<blocks, threads, 0, gpu.stream>>>(d, y, rstd, rotations, sizes, C / NH, query_factor);
        });
    if (!value_factors) return;
    mix_values_backward(gpu, d, static_cast<E *>(dembedded), dvalue_factors, value_factors, values, embedded,
                        sizes.tokens, C, accumulate);
  });
}

}  // namespace gpt2
