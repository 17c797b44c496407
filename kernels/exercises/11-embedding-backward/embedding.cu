// The gradient of the embedding, without atomics.
//
// The same token stands at many positions, and its row of dwte gets the sum of their gradients. With one thread per position, threads
// would race for that row; atomics would add in another order in each run, with other bits. Instead, one thread has one channel of all
// rows, and takes the positions in their order. A token outside [0, V) is left out.
// Chapter: kernels/course/embedding.

// dwte[tokens[n]] += dout[n] for n = 0 .. N-1; dwte is [V,C], dout is [N,C].
__global__ void of_tokens(float *dwte, const float *dout, const int *tokens, int N, int C, int V) {
  // Your code begins here.

  // It ends here.
}

// dwpe[t] (=|+=) the sum over b of dout[b,t], one thread per element.
__global__ void of_positions(float *dwpe, const float *dout, int B, int T, int C, int accumulate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!dwpe || i >= T * C) return;
  float sum = 0;
  for (int b = 0; b < B; b++) sum += dout[static_cast<size_t>(b) * T * C + i];
  dwpe[i] = (accumulate ? dwpe[i] : 0) + sum;
}
