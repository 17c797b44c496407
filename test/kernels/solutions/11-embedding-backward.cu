  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  for (int n = 0; n < N; n++) {
    const int token = tokens[n];
    if (token >= 0 && token < V) dwte[static_cast<size_t>(token) * C + c] += dout[static_cast<size_t>(n) * C + c];
  }
