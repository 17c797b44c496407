// Softmax in one pass: the largest logit and the sum of exponentials together.
//
// exp of a large logit overflows, so softmax subtracts the largest logit first. Usually that takes a pass for the largest and one for the
// sum. One pass is enough if the sum is relative to the largest logit so far, and is scaled when a larger one comes:
//
//   new_largest = max(largest, x[v])
//   sum = sum * exp(largest - new_largest) + exp(x[v] - new_largest)
//
// A row has V logits. It is stored with Vp columns, of which the last ones are padding.
// Chapter: kernels/course/cross-entropy.
#include <cfloat>

// One thread per row.
__global__ void cross_entropy(float *losses, float *dlogits, const float *logits, const int *targets, int N, int V, int Vp,
                              float dloss) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N) return;
  const float *x = logits + static_cast<size_t>(row) * Vp;
  const int target = targets[row];
  float largest = -FLT_MAX, sum = 0;
  // Nothing is to be learnt where the target is -1.
  const float counts = target == -1 ? 0 : 1, of_target = target == -1 ? 0 : x[target];
  for (int v = 0; v < V; v++) {
    // Your code begins here.

    // It ends here.
  }
  losses[row] = counts * (logf(sum) + largest - of_target);
  if (!dlogits) return;
  float *d = dlogits + static_cast<size_t>(row) * Vp;
  for (int v = 0; v < Vp; v++) {
    const float probability = v < V ? expf(x[v] - largest) / sum : 0;
    d[v] = counts * (probability - (v == target ? 1.0f : 0.0f)) * dloss;
  }
}
