// Cross-entropy of rows of logits, one block per row. ELEMENT is float or __nv_bfloat16.
#include <cfloat>
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr int threads = 256;  // of a block, a power of two

// The largest value, or the sum, of all threads' values: a tree in shared memory. Every thread gets it.
template <bool IS_SUM>
__device__ float joined(float value) {
  __shared__ float values[threads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float a = values[threadIdx.x], b = values[threadIdx.x + half];
      values[threadIdx.x] = IS_SUM ? a + b : fmaxf(a, b);
    }
    __syncthreads();
  }
  return values[0];
}

// losses[i] = -log softmax(logits[i])[targets[i]] over the first V of Vp columns; dlogits = (softmax - onehot) * dloss, 0 from column
// V on, or NULL; all 0 where the target is -1. dlogits may be logits: each element is read by the thread that writes it, and the target's before that.
__global__ void cross_entropy(float *losses, element *dlogits, const element *logits, const int *targets, int N, int V,
                              int Vp, float dloss) {
  const size_t first = static_cast<size_t>(blockIdx.x) * Vp;
  const element *x = logits + first;
  const int target = targets[blockIdx.x];
  const bool exists = target >= 0 && target < V;
  const float missing = target == -1 ? 0 : nanf("");
  const float of_target = exists ? static_cast<float>(x[target]) : missing;

  float largest = -FLT_MAX, sum = 0;
  for (int v = threadIdx.x; v < V; v += threads) largest = fmaxf(largest, static_cast<float>(x[v]));
  largest = joined<false>(largest);
  for (int v = threadIdx.x; v < V; v += threads) sum += expf(static_cast<float>(x[v]) - largest);
  sum = joined<true>(sum);
  if (threadIdx.x == 0) losses[blockIdx.x] = exists ? logf(sum) + largest - of_target : missing;
  if (!dlogits) return;
  element *d = dlogits + first;
  for (int v = threadIdx.x; v < Vp; v += threads) {
    const float probability = v < V ? expf(static_cast<float>(x[v]) - largest) / sum : 0;
    d[v] = static_cast<element>(exists ? (probability - (v == target ? 1.0f : 0.0f)) * dloss : missing);
  }
}
