// The matrix product that all matmul kernels compute, its epilogues, and the kernels that other files call.
//
// Every direction is result[m,n] = sum over k of a[m,k] * b[n,k]. An operand whose elements are adjacent in memory
// along k is K-major, else MN-major:
//   forward          m = row of in,   n = output,  k = channel: a = in (K-major),   b = weight (K-major)
//   backward_input   m = row of dout, n = channel, k = output:  a = dout (K-major), b = weight (MN-major)
//   backward_weight  m = output,      n = channel, k = row:     a = dout, b = in (both MN-major)
// The matmuls of newton-schulz.cuh have the layouts of forward and backward_input.
#pragma once

#include "common/fp8.cuh"

namespace gpt2 {

enum class Epilogue {
  bias,                   // out = result + bias (if any)
  gelu,                   // pre = result + bias, out = gelu(pre); in FP8, gelu'(pre) in one byte replaces pre
  residual,               // out = result + bias + residual
  gelu_backward,          // out = result * gelu'(pre), in FP8 from forward's byte
  relu_squared,           // out = relu(result + bias)^2
  relu_squared_backward,  // out = result * 2 sqrt(activated)
  gradient,               // out (=|+=) result
  combination,            // out = alpha result + beta residual
  exponentials,           // out = exp(result - reference of the row), for the classifier (sm90/classifier.cu)
  capped_exponentials,    // exponentials of softcap(result + bias), times the cap's derivative
  scaled                  // out = result * scale of the row, for the classifier
};

// The epilogue that applies a GPT2_ACTIVATION in forward, and the epilogue that applies its derivative in backward.
constexpr Epilogue forward_epilogue(int activation) {
  if (activation == GPT2_NO_ACTIVATION) return Epilogue::bias;
  return activation == GPT2_GELU ? Epilogue::gelu : Epilogue::relu_squared;
}
constexpr Epilogue backward_epilogue(int activation) {
  if (activation == GPT2_NO_ACTIVATION) return Epilogue::bias;
  return activation == GPT2_GELU ? Epilogue::gelu_backward : Epilogue::relu_squared_backward;
}

// Calls `body` with the epilogue, one of EPILOGUES, as a constant.
template <Epilogue... EPILOGUES, class Body>
void with_epilogue(Epilogue epilogue, Body body) {
  ((epilogue == EPILOGUES ? body(std::integral_constant<Epilogue, EPILOGUES>{}) : void()), ...);
}
// with_epilogue for matmuls whose operand b is K-major, as in forward.
template <class Body>
void with_forward_epilogue(Epilogue epilogue, Body body) {
  using E = Epilogue;
  with_epilogue<E::bias, E::gelu, E::relu_squared, E::residual>(epilogue, body);
}
// with_epilogue for matmuls whose operand b is MN-major, as in backward to the input.
template <class Body>
void with_backward_epilogue(Epilogue epilogue, Body body) {
  using E = Epilogue;
  with_epilogue<E::bias, E::gelu_backward, E::relu_squared_backward, E::combination>(epilogue, body);
}

template <Epilogue E>
constexpr bool adds_bias = E == Epilogue::bias || E == Epilogue::gelu || E == Epilogue::residual ||
                           E == Epilogue::relu_squared || E == Epilogue::capped_exponentials;

template <Epilogue E>
constexpr bool is_activation = E == Epilogue::gelu || E == Epilogue::relu_squared;
template <Epilogue E>
constexpr bool is_activation_backward = E == Epilogue::gelu_backward || E == Epilogue::relu_squared_backward;

template <Epilogue E>
constexpr bool is_exponential = E == Epilogue::exponentials || E == Epilogue::capped_exponentials;

// Whether the epilogue stores its result in FP8 only. FP8 is whether the operands are in FP8.
template <Epilogue E, bool FP8>
constexpr bool stores_fp8 = FP8 && (is_activation<E> || is_activation_backward<E> || is_exponential<E>);
// Whether the epilogue reads the squared ReLU's output in FP8 (reads_fp8), or GELU's derivative (reads_derivative).
template <Epilogue E, bool FP8>
constexpr bool reads_fp8 = FP8 && E == Epilogue::relu_squared_backward;
template <Epilogue E, bool FP8>
constexpr bool reads_derivative = FP8 && E == Epilogue::gelu_backward;

template <Epilogue E, class T>
__device__ __forceinline__ float activation(float pre) {
  return E == Epilogue::gelu ? gelu<T>(pre) : relu_squared(pre);
}

// The activation's derivative; x is GELU's input, or the squared ReLU's output.
template <Epilogue E, class T>
__device__ __forceinline__ float activation_derivative(float x) {
  return E == Epilogue::gelu_backward ? gelu_derivative<T>(x) : relu_squared_derivative<T>(x);
}

// Tensors of the epilogue, all [M,N] except the bias [N]. O is the element type of `out`.
template <class T, class O>
struct Outputs {
  O *out;
  // gelu stores and gelu_backward reads GELU's input (in FP8, its derivative); relu_squared_backward reads `activated`.
  T *pre;
  const T *bias;
  const T *residual;
  bool accumulate;
  float alpha = 1, beta = 1;  // for combination
};

// COUNT elements of the tensor that an epilogue reads besides the bias: the residual, the activation's input or output,
// or the gradient to add to.
template <Epilogue E, class T, class O, int COUNT, bool FP8 = false>
struct Extra {
  using Byte = std::conditional_t<E == Epilogue::gelu_backward, int8_t, __nv_fp8_e4m3>;
  using Element =
      std::conditional_t<E == Epilogue::gradient, O, std::conditional_t<FP8 && is_activation_backward<E>, Byte, T>>;
  Pack<Element, COUNT> pack;

  __device__ static __forceinline__ const Element *source(const Outputs<T, O> &outputs) {
    if constexpr (E == Epilogue::residual || E == Epilogue::combination) return outputs.residual;
    if constexpr (is_activation_backward<E>) return reinterpret_cast<const Element *>(outputs.pre);
    if constexpr (E == Epilogue::gradient) return outputs.accumulate ? outputs.out : nullptr;
    return nullptr;
  }
  __device__ __forceinline__ void read(const Outputs<T, O> &outputs, int64_t at) {
    if (source(outputs)) pack = *reinterpret_cast<const Pack<Element, COUNT> *>(source(outputs) + at);
  }
};

// Applies the epilogue to COUNT adjacent columns of a row. Stores them in `out`, except where `stores_fp8` is true.
template <Epilogue E, bool FP8 = false, int COUNT, class T, class O>
__device__ __forceinline__ void finish(const Outputs<T, O> &outputs, float (&result)[COUNT], const float (&bias)[COUNT],
                                       const Extra<E, T, O, COUNT, FP8> &extra, int64_t at) {
  if constexpr (adds_bias<E>) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) result[i] += bias[i];
  }
  if constexpr (E == Epilogue::gelu && !FP8) store(outputs.pre + at, result);
  if constexpr (E == Epilogue::gelu && FP8) {
    Pack<int8_t, COUNT> derivatives;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const GeluAndDerivative gelu(result[i]);
      result[i] = gelu.value;
      derivatives.values[i] = gelu.byte();
    }
    *reinterpret_cast<Pack<int8_t, COUNT> *>(reinterpret_cast<int8_t *>(outputs.pre) + at) = derivatives;
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if constexpr (is_activation<E> && !(E == Epilogue::gelu && FP8)) result[i] = activation<E, T>(result[i]);
    if constexpr (E == Epilogue::residual) result[i] += to_float(extra.pack.values[i]);
    if constexpr (is_activation_backward<E>) {
      const float of_activation = to_float(extra.pack.values[i]);
      result[i] *= reads_derivative<E, FP8> ? of_activation : activation_derivative<E, T>(of_activation);
    }
    if constexpr (E == Epilogue::combination) {
      result[i] = outputs.alpha * result[i] + outputs.beta * to_float(extra.pack.values[i]);
    }
    if constexpr (E == Epilogue::gradient) {
      if (outputs.accumulate) result[i] += to_float(extra.pack.values[i]);
    }
  }
  if constexpr (!stores_fp8<E, FP8>) store(outputs.out + at, result);
}

// Operands and sizes of a product, for the tensor-core kernels (sm80, sm90) and for matmul-fp32.cu.
struct Product {
  const void *a, *b;
  bool a_is_k_major, b_is_k_major;
  int M, N, K;
  int64_t lda, ldb;  // elements from one row of the operand in memory to the next
};

// Scales and FP8 results of a Product whose operands are in E4M3, both K-major; gpt2.h defines them under "FP8".
struct Fp8Operands {
  const float *scale;    // [M], for a's rows
  const float *factors;  // the factors of b, the weight
  // The result in FP8: values [M,N], scales [M]; and the norms [M] of a's rows, which bound the result.
  uint8_t *values = nullptr;
  float *values_scale = nullptr;
  const float *norm = nullptr;
  // The result's columnwise copy, or NULL; its scales, and a's norms, one for each block of GPT2_FP8_BLOCK rows.
  uint8_t *columnwise = nullptr;
  float *columnwise_scale = nullptr;
  const float *columnwise_norm = nullptr;
  // For relu_squared_backward: the values_scale and columnwise_scale that relu_squared stored in forward.
  const float *activated_scale = nullptr;
  const float *activated_columnwise_scale = nullptr;
};

// The scale of a row or block of rows of an FP8 result, from the norm of these rows of operand a (bounds in gpt2.h).
template <Epilogue E>
struct Fp8Bound {
  float weight_norm, bias;

  __device__ __forceinline__ static Fp8Bound of(const float *factors) {
    if (is_activation<E>) return {factors[GPT2_FP8_ROW_NORM], factors[GPT2_FP8_BIAS]};
    return {factors[GPT2_FP8_COLUMN_NORM], 0};
  }
  // Only relu_squared_backward needs `activated_scale`, the scale of the same row or block.
  __device__ __forceinline__ float scale(float norm, [[maybe_unused]] float activated_scale) const {
    if constexpr (is_activation_backward<E>) {
      // 2 sqrt(448 s), as 32 sqrt(1.75 s), because 448 s may exceed fp32.
      const float derivative = E == Epilogue::gelu_backward
                                   ? largest_gelu_derivative
                                   : 16 * relu_squared_derivative<bf16>(fp8_largest / 256 * activated_scale);
      return fp8_scale(norm * (derivative * weight_norm));
    }
    const float pre = fmaf(norm, weight_norm, bias);
    return fp8_scale(E == Epilogue::gelu ? pre : pre * pre);
  }
};

// The position (m, n), in tiles, of the index-th tile of a result. A group of 8 tiles in m goes through all n before
// the next group begins, so that concurrently computed tiles share operands in L2.
__device__ __forceinline__ void place_of(int index, int tiles_m, int tiles_n, int &m, int &n) {
  constexpr int group = 8;
  const int in_group = group * tiles_n;
  const int first = index / in_group * group;
  const int height = min(tiles_m - first, group);
  m = first + index % in_group % height;
  n = index % in_group / height;
}

template <class T, class O>
void any_product(const CudaContext &, Epilogue, const Product &, const Outputs<T, O> &);

// Forward (bias, gelu, relu_squared, residual) of at most most_few_rows rows (matmul-few-rows.cu). With norm_weight,
// first normalizes the row (only one row, with bias or gelu). Returns false, without a launch, if unsupported.
constexpr int most_few_rows = 8;
template <class T>
bool few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<T, T> &,
                      const T *norm_weight = nullptr, const T *norm_bias = nullptr);

// dbias [O] (=|+=) column sums of dout [N,O]. Uses the workspace that a weight gradient needs (gpt2_matmul_scratch).
void column_sums(const CudaContext &, float *dbias, const void *dout, int N, int O, bool accumulate);

}  // namespace gpt2
