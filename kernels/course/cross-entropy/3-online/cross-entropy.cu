// Cross-entropy of rows of logits, one block per row, whose largest logit and sum of exponentials are found in one pass. ELEMENT is
// float or __nv_bfloat16.
#include <cfloat>
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr int threads = 256;  // of a block
constexpr int warps = threads / 32;

// The largest of some logits, and the sum of exp(logit - largest). Without logits: -FLT_MAX, the lowest finite number, and 0.
struct Softmax {
  float largest, sum;

  // Takes in other logits. A sum that was relative to a smaller maximum is scaled down.
  __device__ void join(Softmax other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * __expf(largest - most) + other.sum * __expf(other.largest - most);
    largest = most;
  }
};

// Joins all threads' results: shuffles in each warp, then the warps' results in their order. Every thread gets the whole.
__device__ Softmax joined(Softmax own) {
  __shared__ Softmax of_warps[warps];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    Softmax other;
    other.largest = __shfl_down_sync(0xffffffffu, own.largest, lanes);
    other.sum = __shfl_down_sync(0xffffffffu, own.sum, lanes);
    own.join(other);
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  Softmax all = of_warps[0];
  for (int warp = 1; warp < warps; warp++) all.join(of_warps[warp]);
  return all;
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

  Softmax own{-FLT_MAX, 0};
  for (int v = threadIdx.x; v < V; v += threads) {
    const float logit = static_cast<float>(x[v]);
    if (logit > own.largest) {
      own.sum *= __expf(own.largest - logit);
      own.largest = logit;
    }
    own.sum += __expf(logit - own.largest);
  }
  const Softmax all = joined(own);
  if (threadIdx.x == 0) losses[blockIdx.x] = exists ? logf(all.sum) + all.largest - of_target : missing;
  if (!dlogits) return;
  element *d = dlogits + first;
  const float scale = 1 / all.sum;
  for (int v = threadIdx.x; v < Vp; v += threads) {
    const float probability = v < V ? __expf(static_cast<float>(x[v]) - all.largest) * scale : 0;
    d[v] = static_cast<element>(exists ? (probability - (v == target ? 1.0f : 0.0f)) * dloss : missing);
  }
}
