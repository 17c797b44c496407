// Code that the matmul's rungs share: operands and results of the three products, and the gradient of the bias. ELEMENT is float or
// __nv_bfloat16, GRADIENT the type of the weight's gradient. Sums are fp32.
//
// All three are result[m,n] = sum over k of a[m,k] * b[n,k]:
//   product          m  n  k  a             b
//   forward          N  O  C  in [N,C]      weight [O,C]
//   input gradient   N  C  O  dout [N,O]    weight [O,C]
//   weight gradient  O  C  N  dout [N,O]    in [N,C]
#pragma once

#include <cuda_bf16.h>

using element = ELEMENT;
using gradient = GRADIENT;

// WIDTH neighbouring elements, which one instruction reads or writes.
template <int WIDTH>
struct alignas(WIDTH * sizeof(element)) Pack {
  element values[WIDTH];
};

// `lines` lines (the m's or n's) of K. K_INNER: stored as [lines,K], so that neighbouring k's are neighbours in memory; else as
// [K,lines].
template <bool K_INNER>
struct Operand {
  const element *data;
  int lines, K;

  __device__ const element *place(int line, int k) const {
    return data + (K_INNER ? static_cast<size_t>(line) * K + k : static_cast<size_t>(k) * lines + line);
  }
  // Zero outside.
  __device__ float at(int line, int k) const { return line < lines && k < K ? static_cast<float>(*place(line, k)) : 0.0f; }
  // WIDTH neighbours in memory, from this one on. Zeros if it is outside; where it is inside, all must be.
  template <int WIDTH>
  __device__ Pack<WIDTH> pack(int line, int k) const {
    if (line < lines && k < K) return *reinterpret_cast<const Pack<WIDTH> *>(place(line, k));
    return {};
  }
  // Whether all vectors of 16 bytes begin at a multiple of 16 bytes, and lie inside if their first element does.
  __device__ bool has_vectors() const {
    return (K_INNER ? K : lines) * sizeof(element) % 16 == 0 && reinterpret_cast<size_t>(data) % 16 == 0;
  }
};

// A result [M,N]; a bias [N] or null is added, and the old content if `accumulate`.
template <class T>
struct Result {
  T *data;
  const element *bias;
  int M, N;
  bool accumulate;

  __device__ void store(int m, int n, float sum) const {
    if (m >= M || n >= N) return;
    T *to = data + static_cast<size_t>(m) * N + n;
    if (bias) sum += static_cast<float>(bias[n]);
    *to = static_cast<T>(accumulate ? static_cast<float>(*to) + sum : sum);
  }
  // Four neighbours of a row from n on, a multiple of 4: in one access, except of an odd size.
  __device__ void store_four(int m, int n, const float (&sums)[4]) const {
    struct alignas(4 * sizeof(T)) Four {
      T values[4];
    };
    if (N % 4 != 0 || bias || reinterpret_cast<size_t>(data) % sizeof(Four) != 0) {
      for (int i = 0; i < 4; i++) store(m, n + i, sums[i]);
    } else if (m < M && n < N) {
      auto *to = reinterpret_cast<Four *>(data + static_cast<size_t>(m) * N + n);
      Four four = accumulate ? *to : Four{};
      for (int i = 0; i < 4; i++) four.values[i] = static_cast<T>(static_cast<float>(four.values[i]) + sums[i]);
      *to = four;
    }
  }
};

// parts[part,o] = sum of dout[n,o] over 256 n's. A block of 32 x 8 has 32 o's; its grid is [O / 32, N / 256].
__global__ void matmul_bias_parts(float *parts, const element *dout, int N, int O) {
  __shared__ float sums[8][32];
  const int o = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 256 + threadIdx.y;
  float sum = 0;
  for (int n = first; n < N && n < first + 256 && o < O; n += 8) sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || o >= O) return;
  for (int y = 1; y < 8; y++) sum += sums[y][threadIdx.x];
  parts[static_cast<size_t>(blockIdx.y) * O + o] = sum;
}

// dbias[o] (=|+=) the sum of its parts.
__global__ void matmul_bias(float *dbias, const float *parts, int count, int O, int accumulate) {
  const int o = blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= O) return;
  float sum = 0;
  for (int part = 0; part < count; part++) sum += parts[static_cast<size_t>(part) * O + o];
  dbias[o] = (accumulate ? dbias[o] : 0) + sum;
}
