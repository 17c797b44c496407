  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const float x = in[i];
    const float t = tanhf(scale * (x + 0.044715f * x * x * x));
    din[i] = dout[i] * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * scale * (1 + 3 * 0.044715f * x * x));
  }
