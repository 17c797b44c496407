// A step of a Newton-Schulz iteration as matmuls of matmul.cuh, matrix after matrix.
#pragma once

#include "matmul.cuh"

namespace gpt2 {

// The bytes of scratch that gpt2_normalize_matrices needs (muon.cu).
int64_t normalize_matrices_scratch(int M);

// out and in [M,R,K], scratch [2,R,R]. launch(epilogue, product, outputs) computes one matmul, with the operand layouts
// of a linear layer's forward for Epilogue::bias, and of its backward to the input for Epilogue::combination.
template <class T, class Launch>
void newton_schulz_by_products(T *out, const T *in, int M, int R, int K, float a, float b, float c, T *scratch,
                               Launch launch) {
  const int64_t count = static_cast<int64_t>(R) * K;
  T *gram = scratch, *polynomial = scratch + static_cast<int64_t>(R) * R;
  for (int matrix = 0; matrix < M; matrix++) {
    const T *x = in + matrix * count;
    T *result = out + matrix * count;
    launch(Epilogue::bias, Product{x, x, true, true, R, R, K, K, K},
           Outputs<T, T>{gram, nullptr, nullptr, nullptr, false});
    launch(Epilogue::combination, Product{gram, gram, true, false, R, R, R, R, R},
           Outputs<T, T>{polynomial, nullptr, nullptr, gram, false, c, b});
    launch(Epilogue::combination, Product{polynomial, x, true, false, R, K, R, R, K},
           Outputs<T, T>{result, nullptr, nullptr, x, false, 1, a});
  }
}

}  // namespace gpt2
