// Tables of the kernels that exist once per generation of tensor cores. Opening a context chooses a table (GPT2_KERNELS
// forces one). These kernels are for bf16; sizes that they do not support (takes_*) go to kernels for any size.
#pragma once

#include "../attention.cuh"
#include "../matmul.cuh"

namespace gpt2 {

// The arguments of gpt2_classifier (gpt2.h) in bf16.
struct Classifier {
  float *losses;
  bf16 *din;
  void *dweight;
  float *dbias, *step;
  bf16 *logits;
  const bf16 *in;
  const uint8_t *in_values;  // NULL without FP8
  const float *in_scale;
  const bf16 *weight;
  const uint8_t *weight_values, *weight_transposed;
  const float *factors;
  const bf16 *bias;
  const int32_t *targets;
  int N, C, V, Vp;
  float dloss, softcap;
  bool accumulate;
};

// The table named "portable": mma.sync and cp.async, for compute capability 8.0 and later.
namespace sm80 {

void matmul_forward(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &);
void matmul_backward_input(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &);
// Also computes dbias (=|+=) the sums of operand a over k, unless dbias is NULL.
void matmul_backward_weight(const CudaContext &, const Product &, void *dweight, float *dbias, bool accumulate,
                            void *scratch);
int64_t matmul_backward_weight_scratch(const CudaContext &, int N, int C, int O);
bool takes_head_size(const CudaContext &, int HS);
void attention_forward(const CudaContext &, bf16 *out, float *lse, const bf16 *qkv, const AttentionSizes &);
// scratch [2,B,NH,T], with T rounded up to a multiple of 128.
void attention_backward(const CudaContext &, bf16 *dqkv, float *scratch, const bf16 *dout, const bf16 *out,
                        const bf16 *qkv, const float *lse, const AttentionSizes &);
// The FP8 matmul of forward, and of backward to the input with the transposed weight as b. Epilogues: bias, gelu,
// relu_squared, residual, gelu_backward, relu_squared_backward. N and K are multiples of 16.
void fp8_matmul(const CudaContext &, Epilogue, const Product &, const Fp8Operands &, const Outputs<bf16, bf16> &);
// matmul_backward_weight with columnwise FP8 copies: both operands K-major, a scale for each block of k, K % 16 == 0.
void fp8_matmul_backward_weight(const CudaContext &, const Product &, const float *a_scale, const float *b_scale,
                                void *dweight, float *dbias, bool accumulate, void *scratch);
int64_t fp8_matmul_backward_weight_scratch(const CudaContext &, int N, int C, int O);
// scratch: [2,M,R,R]. R and K are multiples of 8, all tensors begin on multiples of 16 bytes.
void newton_schulz(const CudaContext &, bf16 *out, const bf16 *in, int M, int R, int K, float a, float b, float c,
                   bf16 *scratch);

}  // namespace sm80

// The table named "sm90": wgmma and TMA, for compute capability 9.0. Head sizes other than 64 and 128 go to "portable".
namespace sm90 {

decltype(sm80::matmul_forward) matmul_forward, matmul_backward_input;
decltype(sm80::matmul_backward_weight) matmul_backward_weight;
// dbias (=|+=) the sums over k of a[m,k] * (weights[0,k] + weights[1,k]), with `weights` [2,weights_line(K)].
void matmul_backward_weight(const CudaContext &, const Product &, void *dweight, float *dbias, const bf16 *weights,
                            bool accumulate, void *scratch);
decltype(sm80::matmul_backward_weight_scratch) matmul_backward_weight_scratch, fp8_matmul_backward_weight_scratch;
decltype(sm80::attention_forward) attention_forward;
decltype(sm80::attention_backward) attention_backward;
// gpt2_classifier without a separate pass over the logits. C and Vp are multiples of 8; dbias only with dweight.
void classifier(const CudaContext &, const Classifier &, void *scratch);
int64_t classifier_scratch(const CudaContext &, int N, int C, int Vp, bool has_gradient, bool fp8);
// The classifier's FP8 matmuls, with operand a in E5M2. classifier_backward_input computes din, and adds to each row
// factor_of_target times the target's row of the weight. classifier_backward_weight computes dweight, where b has a
// scale for each block of k, and dbias, the sums of a times `weights` [2,K].
void classifier_backward_input(const CudaContext &, const Product &, const Fp8Operands &, const Classifier &,
                               const float *factor_of_target);
void classifier_backward_weight(const CudaContext &, const Product &, const uint8_t *weights, const float *b_scale,
                                void *dweight, float *dbias, bool accumulate, void *scratch);
decltype(sm80::fp8_matmul) fp8_matmul;
decltype(sm80::fp8_matmul_backward_weight) fp8_matmul_backward_weight;
decltype(sm80::newton_schulz) newton_schulz;

}  // namespace sm90

struct TensorCoreKernels {
  const char *name;
  decltype(&sm80::matmul_forward) matmul_forward, matmul_backward_input;
  decltype(&sm80::matmul_backward_weight) matmul_backward_weight;
  decltype(&sm80::matmul_backward_weight_scratch) matmul_backward_weight_scratch;
  decltype(&sm80::takes_head_size) takes_head_size;
  decltype(&sm80::attention_forward) attention_forward;
  decltype(&sm80::attention_backward) attention_backward;
  decltype(&sm90::classifier) classifier;  // if NULL, a sequence of other ops replaces it
  decltype(&sm90::classifier_scratch) classifier_scratch;
  decltype(&sm80::fp8_matmul) fp8_matmul;
  decltype(&sm80::fp8_matmul_backward_weight) fp8_matmul_backward_weight;
  decltype(&sm80::fp8_matmul_backward_weight_scratch) fp8_matmul_backward_weight_scratch;
  decltype(&sm80::newton_schulz) newton_schulz;
};

}  // namespace gpt2
