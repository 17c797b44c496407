// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The ops of one code path of the CPU library, each with plain arrays; *_scratch give floats. See kernels.h.
#pragma once

#include <cstdint>

namespace gpt2 {

struct Task;

struct OpKernels {
  void (*embedding_forward)(Task, float *out, const int32_t *tokens, const int32_t *texts, const int32_t *positions,
      const float *wte, const float *wpe, int B, int T, int S, int C, int V);
  void (*embedding_backward)(Task, float *dwte, float *dwpe, const float *dout, const int32_t *tokens, int B, int T,
      int C, int V, bool accumulate);
  void (*norm_forward)(Task, float *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
      const float *in, const float *weight, const float *bias, int N, int C, float eps);
  void (*norm_backward)(Task, float *din, uint8_t *values, float *scale, float *norm, float *dweight, float *dbias,
      const float *dout, const float *dresidual, const float *in, const float *weight, const float *mean,
      const float *rstd, int N, int C, bool accumulate);
  void (*matmul_forward)(Task, float *out, float *pre, const float *in, const float *weight, const float *bias,
      const float *residual, int N, int C, int O, int activation);
  void (*matmul_backward_input)(Task, float *din, const float *dout, const float *weight, const float *pre,
      const float *activated, int N, int C, int O, int activation);
  void (*matmul_backward_weight)(Task, float *dweight, float *dbias, const float *dout, const float *in, int N, int C,
      int O, bool accumulate);
  void (*qk_norm_rotary_forward)(Task, float *qkv, float *rstd, float *values, const float *rotations,
      const int32_t *positions, const float *value_factors, const float *embedded, int B, int T, int S, int C, int NH,
      float eps, float query_factor);
  void (*qk_norm_rotary_backward)(Task, float *dqkv, float *dvalue_factors, float *dembedded, const float *qkv,
      const float *rstd, const float *rotations, const float *value_factors, const float *values, const float *embedded,
      int B, int T, int C, int NH, float query_factor, bool accumulate);
  void (*attention_forward)(Task, float *out, float *lse, const float *qkv, const int32_t *first, int B, int T, int C,
      int NH);
  void (*attention_backward)(Task, float *dqkv, const float *dout, const float *out, const float *qkv, const float *lse,
      const int32_t *first, int B, int T, int C, int NH);
  void (*gelu_forward)(Task, float *out, const float *in, int64_t count);
  void (*gelu_backward)(Task, float *din, const float *dout, const float *in, int64_t count);
  void (*residual_forward)(Task, float *out, const float *a, const float *b, int64_t count);
  void (*softcap_forward)(Task, float *out, const float *in, int64_t count, float cap);
  void (*stream_sum_forward)(Task, float *out, const float *in, const float *skip, const float *embedded,
      const float *factors, int N, int C);
  void (*stream_sum_backward)(Task, float *din, uint8_t *values, float *scale, float *norm, float *dembedded,
      float *dfactors, const float *dout, const float *later, const float *later_factors, const float *in,
      const float *skip, const float *embedded, const float *factors, int N, int C, bool accumulate);
  void (*cross_entropy)(Task, float *losses, float *dlogits, const float *logits, const int32_t *targets, int N, int V,
      int Vp, float dloss);
  void (*classifier)(Task, float *losses, float *din, float *dweight, float *dbias, float *step, float *logits,
      const float *in, const uint8_t *in_values, const float *in_scale, const float *weight,
      const uint8_t *weight_values, const uint8_t *weight_transposed, const float *factors, const float *bias,
      const int32_t *targets, int N, int C, int V, int Vp, float dloss, float softcap, bool accumulate);
  void (*loss_sum)(Task, float *step, const float *losses, int N, float scale, bool accumulate);
  void (*fp8_quantize_weight)(Task, uint8_t *values, uint8_t *transposed, float *factors, const float *weight,
      const float *bias, int C, int O);
  void (*fp8_transpose)(Task, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
      const uint8_t *values, const float *scale, const float *norm, int N, int C);
  void (*fp8_matmul_forward)(Task, float *out, uint8_t *values, float *scale, uint8_t *columnwise,
      float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
      const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const float *bias,
      const float *residual, int N, int C, int O, int activation);
  void (*fp8_matmul_backward_input)(Task, float *din, uint8_t *values, float *scale, uint8_t *columnwise,
      float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
      const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
      const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
      int O, int activation);
  void (*fp8_matmul_backward_weight)(Task, float *dweight, float *dbias, const uint8_t *dout, const float *dout_scale,
      const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate);
  void (*adamw)(Task, float *weight, float *master, float *m, float *v, const float *gradient, const float *step,
      int64_t count, int first_scalar, float rate, float beta1, float beta2, float eps, float weight_decay);
  void (*muon_momentum)(Task, float *direction, float *momentum, const float *gradient, const float *step, int rows,
      int columns, int scalar);
  void (*normalize_matrices)(Task, float *matrices, int M, int R, int K, float margin, float eps);
  void (*newton_schulz)(Task, float *out, const float *in, int M, int R, int K, float a, float b, float c);
  void (*muon_update)(Task, float *weight, float *master, const float *direction, const float *step, int rows,
      int columns, float rate, float weight_decay);
  void (*norm_matmul_forward)(Task, float *out, float *pre, const float *in, const float *norm_weight,
      const float *norm_bias, const float *weight, const float *bias, int N, int C, int O, int activation);
  void (*attention_cached_forward)(Task, float *out, float *keys, float *values, const float *qkv,
      const int32_t *positions, int B, int T, int S, int C, int NH, int window);
  void (*sample)(Task, int32_t *tokens, int32_t *positions, const float *logits, const int32_t *seeds, int B, int S,
      int V, int Vp, float temperature, int top_k, float top_p);
  int64_t (*embedding_scratch)(int threads, int B, int T, int C, int V);
  int64_t (*norm_scratch)(int threads, int N, int C);
  int64_t (*matmul_scratch)(int threads, int N, int C, int O, bool gradients);
  int64_t (*factors_scratch)(int threads, int K);
  int64_t (*attention_scratch)(int threads, int B, int T, int C, int NH);
  int64_t (*classifier_scratch)(int threads, int N, int C, int Vp, bool gradients, bool fp8);
  int64_t (*fp8_quantize_weight_scratch)(int threads, int C, int O);
  int64_t (*fp8_matmul_scratch)(int threads, int N, int C, int O, bool gradients);
  int64_t (*global_norm_scratch)(int threads, int64_t matrix_count, int64_t vector_count);
  int64_t (*newton_schulz_scratch)(int threads, int M, int R, int K);
  int64_t (*norm_matmul_scratch)(int threads, int N, int C, int O);
  int64_t (*attention_cached_scratch)(int threads, int S);
  int64_t (*sample_scratch)(int threads, int B, int V);
};

#define GPT2_OP_KERNELS(X) \
  X(embedding_forward) \
  X(embedding_backward) \
  X(norm_forward) \
  X(norm_backward) \
  X(matmul_forward) \
  X(matmul_backward_input) \
  X(matmul_backward_weight) \
  X(qk_norm_rotary_forward) \
  X(qk_norm_rotary_backward) \
  X(attention_forward) \
  X(attention_backward) \
  X(gelu_forward) \
  X(gelu_backward) \
  X(residual_forward) \
  X(softcap_forward) \
  X(stream_sum_forward) \
  X(stream_sum_backward) \
  X(cross_entropy) \
  X(classifier) \
  X(loss_sum) \
  X(fp8_quantize_weight) \
  X(fp8_transpose) \
  X(fp8_matmul_forward) \
  X(fp8_matmul_backward_input) \
  X(fp8_matmul_backward_weight) \
  X(adamw) \
  X(muon_momentum) \
  X(normalize_matrices) \
  X(newton_schulz) \
  X(muon_update) \
  X(norm_matmul_forward) \
  X(attention_cached_forward) \
  X(sample) \
  X(embedding_scratch) \
  X(norm_scratch) \
  X(matmul_scratch) \
  X(factors_scratch) \
  X(attention_scratch) \
  X(classifier_scratch) \
  X(fp8_quantize_weight_scratch) \
  X(fp8_matmul_scratch) \
  X(global_norm_scratch) \
  X(newton_schulz_scratch) \
  X(norm_matmul_scratch) \
  X(attention_cached_scratch) \
  X(sample_scratch)

}  // namespace gpt2
