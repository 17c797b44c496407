// Token and position embedding. ELEMENT is the type of tensors, GRADIENT that of the tables' gradients; the card takes fp32.
#include <cuda_bf16.h>

using element = ELEMENT;
using gradient = GRADIENT;

// out[b,t,:] = wte[tokens[b,t],:] + wpe[t,:], one thread per element. Without wpe, only the former. A token that does not exist gives
// NaN.
__global__ void embedding_forward(element *out, const int *tokens, const element *wte, const element *wpe, int B, int T,
                                  int C, int V) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= static_cast<long long>(B) * T * C) return;
  const int c = i % C, t = i / C % T, token = tokens[i / C];
  const bool exists = token >= 0 && token < V;
  float value = exists ? static_cast<float>(wte[static_cast<size_t>(token) * C + c]) : nanf("");
  if (wpe) value += static_cast<float>(wpe[static_cast<size_t>(t) * C + c]);
  out[i] = static_cast<element>(value);
}

// dwte[token] += dout of its positions. One thread per channel walks over all positions, so no two threads add to one element, and the
// order is always the same.
__global__ void embedding_backward_tokens(gradient *dwte, const element *dout, const int *tokens, int N, int C, int V) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  for (int n = 0; n < N; n++) {
    if (tokens[n] < 0 || tokens[n] >= V) continue;
    gradient &sum = dwte[static_cast<size_t>(tokens[n]) * C + c];
    sum = static_cast<gradient>(static_cast<float>(sum) + static_cast<float>(dout[static_cast<size_t>(n) * C + c]));
  }
}

// dwpe[t] (=|+=) the sum over b of dout[b,t], one thread per element.
__global__ void embedding_backward_positions(gradient *dwpe, const element *dout, int B, int T, int C, int accumulate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!dwpe || i >= T * C) return;
  float sum = 0;
  for (int b = 0; b < B; b++) sum += static_cast<float>(dout[static_cast<size_t>(b) * T * C + i]);
  dwpe[i] = static_cast<gradient>((accumulate ? static_cast<float>(dwpe[i]) : 0) + sum);
}
