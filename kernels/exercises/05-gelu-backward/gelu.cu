// The gradient of GELU, with a grid of fixed size.
//
//   t = tanh(scale (x + 0.044715 x^3))        gelu(x) = 0.5 x (1 + t)
//   gelu'(x) = 0.5 (1 + t) + 0.5 x (1 - t^2) scale (1 + 3 * 0.044715 x^2)        din = dout * gelu'(x)
//
// The card launches 8 blocks of 256 threads for any `count`, so each thread takes several elements: its first, and then every 2048th.
// gridDim.x is the number of blocks.
// Chapter: kernels/course/gelu.
constexpr float scale = 0.7978845608028654f;  // sqrt(2 / pi)

__global__ void gelu_backward(float *din, const float *dout, const float *in, long long count) {
  // Your code begins here.

  // It ends here.
}
