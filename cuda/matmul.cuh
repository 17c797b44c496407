// What the matmul's kernels share: the product as they see it, and what happens to it before it is stored.
//
// Every direction is result[m,n] = sum over k of a[m,k] * b[n,k]. An operand whose neighbours in memory are neighbours in k
// is K-major, else MN-major:
//   forward          m = row of in,   n = output,  k = channel: a = in (K-major),   b = weight (K-major)
//   backward_input   m = row of dout, n = channel, k = output:  a = dout (K-major), b = weight (MN-major)
//   backward_weight  m = output,      n = channel, k = row:     a = dout, b = in (both MN-major)
#pragma once

#include "common/device.cuh"

namespace gpt2 {

enum class Epilogue {
  bias,           // out = result + bias (if any)
  gelu,           // pre = result + bias, out = gelu(pre)
  residual,       // out = result + bias + residual
  gelu_backward,  // out = result * gelu'(pre)
  gradient,       // out (=|+=) result
  exponentials,   // out = exp(result - reference of the row); the classifier's (sm90/classifier.cu)
  scaled          // out = result * scale of the row; likewise
};

// Tensors of the epilogue, all [M,N] but the bias [N]. O is what `out` holds.
template <class T, class O>
struct Outputs {
  O *out;
  T *pre;  // written by gelu, read by gelu_backward
  const T *bias;
  const T *residual;
  bool accumulate;
};

// The COUNT neighbouring elements that an epilogue reads besides the result: the residual, the GELU's input, the old gradient.
template <Epilogue E, class T, class O, int COUNT>
struct Extra {
  using Element = std::conditional_t<E == Epilogue::gradient, O, T>;
  Pack<Element, COUNT> pack;

  // The tensor they are in, or NULL.
  __device__ static __forceinline__ const Element *source(const Outputs<T, O> &outputs) {
    if constexpr (E == Epilogue::residual) return outputs.residual;
    if constexpr (E == Epilogue::gelu_backward) return outputs.pre;
    if constexpr (E == Epilogue::gradient) return outputs.accumulate ? outputs.out : nullptr;
    return nullptr;
  }
  __device__ __forceinline__ void read(const Outputs<T, O> &outputs, int64_t at) {
    if (source(outputs)) pack = *reinterpret_cast<const Pack<Element, COUNT> *>(source(outputs) + at);
  }
};

// Applies the epilogue to COUNT neighbouring columns of a row and stores them.
template <Epilogue E, int COUNT, class T, class O>
__device__ __forceinline__ void finish(const Outputs<T, O> &outputs, float (&result)[COUNT], const float (&bias)[COUNT],
                                       const Extra<E, T, O, COUNT> &extra, int64_t at) {
  if constexpr (E == Epilogue::bias || E == Epilogue::gelu || E == Epilogue::residual) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) result[i] += bias[i];
  }
  if constexpr (E == Epilogue::gelu) store(outputs.pre + at, result);
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if constexpr (E == Epilogue::gelu) result[i] = gelu<T>(result[i]);
    if constexpr (E == Epilogue::residual) result[i] += to_float(extra.pack.values[i]);
    if constexpr (E == Epilogue::gelu_backward) result[i] *= gelu_derivative<T>(to_float(extra.pack.values[i]));
    if constexpr (E == Epilogue::gradient) {
      if (outputs.accumulate) result[i] += to_float(extra.pack.values[i]);
    }
  }
  store(outputs.out + at, result);
}

// A product, for the kernels of matmul-bf16.cu (tensor cores) and matmul-fp32.cu (any size, fp32 and tf32).
struct Product {
  const void *a, *b;
  bool a_is_k_major, b_is_k_major;
  int M, N, K;
  int64_t lda, ldb;  // elements from one line of the operand to the next
};

template <class T, class O>
void any_product(const CudaContext &, Epilogue, const Product &, const Outputs<T, O> &);

// Forward (bias, gelu or residual) of at most so many rows, matmul-few-rows.cu. With a norm_weight, the one row is normalised
// first. False: not for this product, which is then left undone.
constexpr int most_few_rows = 8;
template <class T>
bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<T, T> &, const T *norm_weight = nullptr,
                      const T *norm_bias = nullptr);

}  // namespace gpt2
