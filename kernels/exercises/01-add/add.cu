// Add two vectors: out[i] = a[i] + b[i], one thread per element.
//
// card.ts launches blocks of 256 threads, as many as cover `count` elements; leave it as it is. A thread finds its element from
// blockIdx.x, blockDim.x and threadIdx.x. The last block may reach past the end: those threads must do nothing. `count` may exceed an
// int, so compute the index as a long long. GPT-2 adds a block's result to its input this way; the op's name is residual_forward.
// Chapter: kernels/course/first-kernel.
__global__ void add(float *out, const float *a, const float *b, long long count) {
  // Your code begins here.

  // It ends here.
}
