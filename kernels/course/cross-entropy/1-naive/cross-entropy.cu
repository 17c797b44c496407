// Cross-entropy of rows of logits, one thread per row. ELEMENT is float or __nv_bfloat16.
#include <cuda_bf16.h>

using element = ELEMENT;

// losses[i] = -log softmax(logits[i])[targets[i]] over the first V of Vp columns; dlogits = (softmax - onehot) * dloss, 0 from column
// V on, or NULL; all 0 where the target is -1. dlogits may be logits: each element is read before it is written.
__global__ void cross_entropy(float *losses, element *dlogits, const element *logits, const int *targets, int N, int V,
                              int Vp, float dloss) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N) return;
  const element *x = logits + static_cast<size_t>(row) * Vp;
  const int target = targets[row];
  const bool exists = target >= 0 && target < V;
  const float missing = target == -1 ? 0 : nanf("");

  float largest = static_cast<float>(x[0]);
  // In fp32 a sum of 50257 terms, one after the other, is off by 1e-4.
  double sum = 0;
  for (int v = 1; v < V; v++) largest = fmaxf(largest, static_cast<float>(x[v]));
  for (int v = 0; v < V; v++) sum += expf(static_cast<float>(x[v]) - largest);
  losses[row] = exists ? logf(static_cast<float>(sum)) + largest - static_cast<float>(x[target]) : missing;
  if (!dlogits) return;
  element *d = dlogits + static_cast<size_t>(row) * Vp;
  for (int v = 0; v < Vp; v++) {
    const float probability = v < V ? expf(static_cast<float>(x[v]) - largest) / static_cast<float>(sum) : 0;
    d[v] = static_cast<element>(exists ? (probability - (v == target ? 1.0f : 0.0f)) * dloss : missing);
  }
}
