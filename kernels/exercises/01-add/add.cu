// Add two vectors: out[i] = a[i] + b[i], one thread per element.
//
// The card launches blocks of 256 threads, as many as cover `count` elements. A thread finds its element from blockIdx.x, blockDim.x and
// threadIdx.x. The last block may reach past the end: those threads must do nothing.
// Chapter: kernels/course/first-kernel.
__global__ void add(float *out, const float *a, const float *b, long long count) {
  // Your code begins here.

  // It ends here.
}
