// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The ops on the CPU: passes each to the kernel of the context's code path. Collectives are in collectives.cpp.
#include "../runtime/ops.generated.h"

#include "../runtime/checks.h"

namespace gpt2::ops {

namespace {

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

}  // namespace

void embedding_forward(Context &context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C, int V) {
  check_ids("tokens", tokens, static_cast<int64_t>(B) * (T), 0, V);
  context.kernels->embedding_forward(context.task(), floats(out), tokens, texts, positions, floats(wte), floats(wpe), B,
  T, S, C, V);
}

void embedding_backward(Context &context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B, int T,
    int C, int V, bool accumulate) {
  check_ids("tokens", tokens, static_cast<int64_t>(B) * (T), 0, V);
  context.kernels->embedding_backward(context.task(), floats(dwte), floats(dwpe), floats(dout), tokens, B, T, C, V,
  accumulate);
}

void norm_forward(Context &context, void *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
    const void *in, const void *weight, const void *bias, int N, int C, float eps) {
  context.kernels->norm_forward(context.task(), floats(out), values, scale, norm, mean, rstd, floats(in),
  floats(weight), floats(bias), N, C, eps);
}

void norm_backward(Context &context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int N, int C, bool accumulate) {
  context.kernels->norm_backward(context.task(), floats(din), values, scale, norm, dweight, dbias, floats(dout),
  floats(dresidual), floats(in), floats(weight), mean, rstd, N, C, accumulate);
}

void matmul_forward(Context &context, void *out, void *pre, const void *in, const void *weight, const void *bias,
    const void *residual, int N, int C, int O, int activation) {
  context.kernels->matmul_forward(context.task(), floats(out), floats(pre), floats(in), floats(weight), floats(bias),
  floats(residual), N, C, O, activation);
}

void matmul_backward_input(Context &context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int N, int C, int O, int activation) {
  context.kernels->matmul_backward_input(context.task(), floats(din), floats(dout), floats(weight), floats(pre),
  floats(activated), N, C, O, activation);
}

void matmul_backward_weight(Context &context, void *dweight, float *dbias, const void *dout, const void *in, int N,
    int C, int O, bool accumulate) {
  context.kernels->matmul_backward_weight(context.task(), floats(dweight), dbias, floats(dout), floats(in), N, C, O,
  accumulate);
}

void qk_norm_rotary_forward(Context &context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int B, int T, int S, int C, int NH,
    float eps, float query_factor) {
  context.kernels->qk_norm_rotary_forward(context.task(), floats(qkv), rstd, floats(values), rotations, positions,
  floats(value_factors), floats(embedded), B, T, S, C, NH, eps, query_factor);
}

void qk_norm_rotary_backward(Context &context, void *dqkv, float *dvalue_factors, void *dembedded, const void *qkv,
    const float *rstd, const float *rotations, const void *value_factors, const void *values, const void *embedded,
    int B, int T, int C, int NH, float query_factor, bool accumulate) {
  context.kernels->qk_norm_rotary_backward(context.task(), floats(dqkv), dvalue_factors, floats(dembedded), floats(qkv),
  rstd, rotations, floats(value_factors), floats(values), floats(embedded), B, T, C, NH, query_factor, accumulate);
}

void attention_forward(Context &context, void *out, float *lse, const void *qkv, const int32_t *first, int B, int T,
    int C, int NH) {
  check_causal("first", first, B, T);
  context.kernels->attention_forward(context.task(), floats(out), lse, floats(qkv), first, B, T, C, NH);
}

void attention_backward(Context &context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int B, int T, int C, int NH) {
  check_causal("first", first, B, T);
  context.kernels->attention_backward(context.task(), floats(dqkv), floats(dout), floats(out), floats(qkv), lse, first,
  B, T, C, NH);
}

void gelu_forward(Context &context, void *out, const void *in, int64_t count) {
  context.kernels->gelu_forward(context.task(), floats(out), floats(in), count);
}

void gelu_backward(Context &context, void *din, const void *dout, const void *in, int64_t count) {
  context.kernels->gelu_backward(context.task(), floats(din), floats(dout), floats(in), count);
}

void residual_forward(Context &context, void *out, const void *a, const void *b, int64_t count) {
  context.kernels->residual_forward(context.task(), floats(out), floats(a), floats(b), count);
}

void softcap_forward(Context &context, void *out, const void *in, int64_t count, float cap) {
  context.kernels->softcap_forward(context.task(), floats(out), floats(in), count, cap);
}

void stream_sum_forward(Context &context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int N, int C) {
  context.kernels->stream_sum_forward(context.task(), floats(out), floats(in), floats(skip), floats(embedded),
  floats(factors), N, C);
}

void stream_sum_backward(Context &context, void *din, uint8_t *values, float *scale, float *norm, void *dembedded,
    float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in, const void *skip,
    const void *embedded, const void *factors, int N, int C, bool accumulate) {
  context.kernels->stream_sum_backward(context.task(), floats(din), values, scale, norm, floats(dembedded), dfactors,
  floats(dout), floats(later), floats(later_factors), floats(in), floats(skip), floats(embedded), floats(factors), N, C,
  accumulate);
}

void cross_entropy(Context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets, int N,
    int V, int Vp, float dloss) {
  check_ids("targets", targets, static_cast<int64_t>(N), -1, V);
  context.kernels->cross_entropy(context.task(), losses, floats(dlogits), floats(logits), targets, N, V, Vp, dloss);
}

void classifier(Context &context, float *losses, void *din, void *dweight, float *dbias, float *step, void *logits,
    const void *in, const uint8_t *in_values, const float *in_scale, const void *weight, const uint8_t *weight_values,
    const uint8_t *weight_transposed, const float *factors, const void *bias, const int32_t *targets, int N, int C,
    int V, int Vp, float dloss, float softcap, bool accumulate) {
  check_ids("targets", targets, static_cast<int64_t>(N), -1, V);
  context.kernels->classifier(context.task(), losses, floats(din), floats(dweight), dbias, step, floats(logits),
  floats(in), in_values, in_scale, floats(weight), weight_values, weight_transposed, factors, floats(bias), targets, N,
  C, V, Vp, dloss, softcap, accumulate);
}

void loss_sum(Context &context, float *step, const float *losses, int N, float scale, bool accumulate) {
  context.kernels->loss_sum(context.task(), step, losses, N, scale, accumulate);
}

void fp8_quantize_weight(Context &context, uint8_t *values, uint8_t *transposed, float *factors, const void *weight,
    const void *bias, int C, int O) {
  context.kernels->fp8_quantize_weight(context.task(), values, transposed, factors, floats(weight), floats(bias), C, O);
}

void fp8_transpose(Context &context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int N, int C) {
  context.kernels->fp8_transpose(context.task(), columnwise, columnwise_scale, columnwise_norm, values, scale, norm, N,
  C);
}

void fp8_matmul_forward(Context &context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int N, int C, int O, int activation) {
  context.kernels->fp8_matmul_forward(context.task(), floats(out), values, scale, columnwise, columnwise_scale,
  derivative, in, in_scale, in_norm, in_columnwise_norm, weight, factors, floats(bias), floats(residual), N, C, O,
  activation);
}

void fp8_matmul_backward_input(Context &context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
    int O, int activation) {
  context.kernels->fp8_matmul_backward_input(context.task(), floats(din), values, scale, columnwise, columnwise_scale,
  dout, dout_scale, dout_norm, dout_columnwise_norm, transposed, factors, derivative, activated, activated_scale,
  activated_columnwise_scale, N, C, O, activation);
}

void fp8_matmul_backward_weight(Context &context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate) {
  context.kernels->fp8_matmul_backward_weight(context.task(), floats(dweight), dbias, dout, dout_scale, in, in_scale, N,
  C, O, accumulate);
}

void adamw(Context &context, void *weight, float *master, float *m, float *v, const void *gradient, const float *step,
    int64_t count, int gradient_dtype, int first_scalar, float rate, float beta1, float beta2, float eps,
        float weight_decay) {
  check_that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " + std::to_string(gradient_dtype));
  context.kernels->adamw(context.task(), floats(weight), master, m, v, floats(gradient), step, count, first_scalar,
  rate, beta1, beta2, eps, weight_decay);
}

void muon_momentum(Context &context, void *direction, float *momentum, const void *gradient, const float *step,
    int rows, int columns, int gradient_dtype, int scalar) {
  check_that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " + std::to_string(gradient_dtype));
  context.kernels->muon_momentum(context.task(), floats(direction), momentum, floats(gradient), step, rows, columns,
  scalar);
}

void normalize_matrices(Context &context, void *matrices, int M, int R, int K, float margin, float eps) {
  context.kernels->normalize_matrices(context.task(), floats(matrices), M, R, K, margin, eps);
}

void newton_schulz(Context &context, void *out, const void *in, int M, int R, int K, float a, float b, float c) {
  context.kernels->newton_schulz(context.task(), floats(out), floats(in), M, R, K, a, b, c);
}

void muon_update(Context &context, void *weight, float *master, const void *direction, const float *step, int rows,
    int columns, float rate, float weight_decay) {
  context.kernels->muon_update(context.task(), floats(weight), master, floats(direction), step, rows, columns, rate,
  weight_decay);
}

void norm_matmul_forward(Context &context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int N, int C, int O, int activation) {
  context.kernels->norm_matmul_forward(context.task(), floats(out), floats(pre), floats(in), floats(norm_weight),
  floats(norm_bias), floats(weight), floats(bias), N, C, O, activation);
}

void attention_cached_forward(Context &context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int B, int T, int S, int C, int NH, int window) {
  context.kernels->attention_cached_forward(context.task(), floats(out), floats(keys), floats(values), floats(qkv),
  positions, B, T, S, C, NH, window);
}

void sample(Context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
    int S, int V, int Vp, float temperature, int top_k, float top_p) {
  context.kernels->sample(context.task(), tokens, positions, floats(logits), seeds, B, S, V, Vp, temperature, top_k,
  top_p);
}

int64_t embedding_scratch(const Context &context, int B, int T, int C, int V) {
  const int64_t floats = context.kernels->embedding_scratch(context.pool->threads(), B, T, C, V);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t norm_scratch(const Context &context, int N, int C) {
  const int64_t floats = context.kernels->norm_scratch(context.pool->threads(), N, C);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t matmul_scratch(const Context &context, int N, int C, int O, bool gradients) {
  const int64_t floats = context.kernels->matmul_scratch(context.pool->threads(), N, C, O, gradients);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t factors_scratch(const Context &context, int K) {
  const int64_t floats = context.kernels->factors_scratch(context.pool->threads(), K);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t attention_scratch(const Context &context, int B, int T, int C, int NH) {
  const int64_t floats = context.kernels->attention_scratch(context.pool->threads(), B, T, C, NH);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t classifier_scratch(const Context &context, int N, int C, int Vp, bool gradients, bool fp8) {
  const int64_t floats = context.kernels->classifier_scratch(context.pool->threads(), N, C, Vp, gradients, fp8);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t fp8_quantize_weight_scratch(const Context &context, int C, int O) {
  const int64_t floats = context.kernels->fp8_quantize_weight_scratch(context.pool->threads(), C, O);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t fp8_matmul_scratch(const Context &context, int N, int C, int O, bool gradients) {
  const int64_t floats = context.kernels->fp8_matmul_scratch(context.pool->threads(), N, C, O, gradients);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t global_norm_scratch(const Context &context, int64_t matrix_count, int64_t vector_count) {
  const int64_t floats = context.kernels->global_norm_scratch(context.pool->threads(), matrix_count, vector_count);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t newton_schulz_scratch(const Context &context, int M, int R, int K) {
  const int64_t floats = context.kernels->newton_schulz_scratch(context.pool->threads(), M, R, K);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t norm_matmul_scratch(const Context &context, int N, int C, int O) {
  const int64_t floats = context.kernels->norm_matmul_scratch(context.pool->threads(), N, C, O);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t attention_cached_scratch(const Context &context, int S) {
  const int64_t floats = context.kernels->attention_cached_scratch(context.pool->threads(), S);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t sample_scratch(const Context &context, int B, int V) {
  const int64_t floats = context.kernels->sample_scratch(context.pool->threads(), B, V);
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace gpt2::ops
