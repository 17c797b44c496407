// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The ops as each library implements them, after api.generated.cpp has checked arguments and workspace. The result is a
// GPT2_STATUS; *_scratch give bytes.
#pragma once

#include "context.h"

namespace gpt2::ops {

int embedding_forward(gpt2_context &context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C, int V);
int embedding_backward(gpt2_context &context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B,
    int T, int C, int V, bool accumulate);
int norm_forward(gpt2_context &context, void *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
    const void *in, const void *weight, const void *bias, int N, int C, float eps);
int norm_backward(gpt2_context &context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int N, int C, bool accumulate);
int matmul_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *weight, const void *bias,
    const void *residual, int N, int C, int O, int activation);
int matmul_backward_input(gpt2_context &context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int N, int C, int O, int activation);
int matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const void *dout, const void *in, int N,
    int C, int O, bool accumulate);
int qk_norm_rotary_forward(gpt2_context &context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int B, int T, int S, int C, int NH,
    float eps, float query_factor);
int qk_norm_rotary_backward(gpt2_context &context, void *dqkv, float *dvalue_factors, void *dembedded, const void *qkv,
    const float *rstd, const float *rotations, const void *value_factors, const void *values, const void *embedded,
    int B, int T, int C, int NH, float query_factor, bool accumulate);
int attention_forward(gpt2_context &context, void *out, float *lse, const void *qkv, const int32_t *first, int B, int T,
    int C, int NH);
int attention_backward(gpt2_context &context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int B, int T, int C, int NH);
int gelu_forward(gpt2_context &context, void *out, const void *in, int64_t count);
int gelu_backward(gpt2_context &context, void *din, const void *dout, const void *in, int64_t count);
int residual_forward(gpt2_context &context, void *out, const void *a, const void *b, int64_t count);
int softcap_forward(gpt2_context &context, void *out, const void *in, int64_t count, float cap);
int stream_sum_forward(gpt2_context &context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int N, int C);
int stream_sum_backward(gpt2_context &context, void *din, uint8_t *values, float *scale, float *norm, void *dembedded,
    float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in, const void *skip,
    const void *embedded, const void *factors, int N, int C, bool accumulate);
int cross_entropy(gpt2_context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
    int N, int V, int Vp, float dloss);
int classifier(gpt2_context &context, float *losses, void *din, void *dweight, float *dbias, float *step, void *logits,
    const void *in, const uint8_t *in_values, const float *in_scale, const void *weight, const uint8_t *weight_values,
    const uint8_t *weight_transposed, const float *factors, const void *bias, const int32_t *targets, int N, int C,
    int V, int Vp, float dloss, float softcap, bool accumulate);
int loss_sum(gpt2_context &context, float *step, const float *losses, int N, float scale, bool accumulate);
int fp8_quantize_weight(gpt2_context &context, uint8_t *values, uint8_t *transposed, float *factors, const void *weight,
    const void *bias, int C, int O);
int fp8_transpose(gpt2_context &context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int N, int C);
int fp8_matmul_forward(gpt2_context &context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int N, int C, int O, int activation);
int fp8_matmul_backward_input(gpt2_context &context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
    int O, int activation);
int fp8_matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate);
int global_norm(gpt2_context &context, float *step, void *matrices, const float *vectors,
    gpt2_communicator *communicator, int parts, int64_t matrix_count, int64_t vector_count, float targets,
    float max_norm);
int adamw(gpt2_context &context, void *weight, float *master, float *m, float *v, const void *gradient,
    const float *step, int64_t count, int gradient_dtype, int first_scalar, float rate, float beta1, float beta2,
    float eps, float weight_decay);
int muon_momentum(gpt2_context &context, void *direction, float *momentum, const void *gradient, const float *step,
    int rows, int columns, int gradient_dtype, int scalar);
int normalize_matrices(gpt2_context &context, void *matrices, int M, int R, int K, float margin, float eps);
int newton_schulz(gpt2_context &context, void *out, const void *in, int M, int R, int K, float a, float b, float c);
int muon_update(gpt2_context &context, void *weight, float *master, const void *direction, const float *step, int rows,
    int columns, float rate, float weight_decay);
int norm_matmul_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int N, int C, int O, int activation);
int attention_cached_forward(gpt2_context &context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int B, int T, int S, int C, int NH, int window);
int sample(gpt2_context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
    int S, int V, int Vp, float temperature, int top_k, float top_p);
int all_reduce(gpt2_context &context, void *data, gpt2_communicator &communicator, int64_t count, int dtype);
int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
    int64_t stride, int dtype);
int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
    int dtype);
int64_t embedding_scratch(const gpt2_context &context, int B, int T, int C, int V);
int64_t norm_scratch(const gpt2_context &context, int N, int C);
int64_t matmul_scratch(const gpt2_context &context, int N, int C, int O, bool gradients);
int64_t factors_scratch(const gpt2_context &context, int K);
int64_t attention_scratch(const gpt2_context &context, int B, int T, int C, int NH);
int64_t classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool gradients, bool fp8);
int64_t fp8_quantize_weight_scratch(const gpt2_context &context, int C, int O);
int64_t fp8_matmul_scratch(const gpt2_context &context, int N, int C, int O, bool gradients);
int64_t global_norm_scratch(const gpt2_context &context, int64_t matrix_count, int64_t vector_count);
int64_t newton_schulz_scratch(const gpt2_context &context, int M, int R, int K);
int64_t norm_matmul_scratch(const gpt2_context &context, int N, int C, int O);
int64_t attention_cached_scratch(const gpt2_context &context, int S);
int64_t sample_scratch(const gpt2_context &context, int B, int V);

}  // namespace gpt2::ops
