// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The ops on the CPU: passes each to the kernel of the context's code path. Collectives are in collectives.cpp.
#include "../runtime/ops.generated.h"

#include "../runtime/checks.h"
#include "context.h"

namespace gpt2::ops {

namespace {

Task task_of(gpt2_context &context) { return cpu(context).task(); }
const Kernels &kernels_of(const gpt2_context &context) { return *static_cast<const CpuContext &>(context).kernels; }
int threads_of(const gpt2_context &context) { return static_cast<const CpuContext &>(context).pool->threads(); }

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

}  // namespace

int embedding_forward(gpt2_context &context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C, int V) {
  Check check(&context, "gpt2_embedding_forward");
  if (check.ids("tokens", tokens, static_cast<int64_t>(B) * (T), 0, V).failed()) return check.status();
  kernels_of(context).embedding_forward(task_of(context), floats(out), tokens, texts, positions, floats(wte),
  floats(wpe), B, T, S, C, V);
  return GPT2_OK;
}

int embedding_backward(gpt2_context &context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B,
    int T, int C, int V, bool accumulate) {
  Check check(&context, "gpt2_embedding_backward");
  if (check.ids("tokens", tokens, static_cast<int64_t>(B) * (T), 0, V).failed()) return check.status();
  kernels_of(context).embedding_backward(task_of(context), floats(dwte), floats(dwpe), floats(dout), tokens, B, T, C, V,
  accumulate);
  return GPT2_OK;
}

int norm_forward(gpt2_context &context, void *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
    const void *in, const void *weight, const void *bias, int N, int C, float eps) {
  kernels_of(context).norm_forward(task_of(context), floats(out), values, scale, norm, mean, rstd, floats(in),
  floats(weight), floats(bias), N, C, eps);
  return GPT2_OK;
}

int norm_backward(gpt2_context &context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int N, int C, bool accumulate) {
  kernels_of(context).norm_backward(task_of(context), floats(din), values, scale, norm, dweight, dbias, floats(dout),
  floats(dresidual), floats(in), floats(weight), mean, rstd, N, C, accumulate);
  return GPT2_OK;
}

int matmul_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *weight, const void *bias,
    const void *residual, int N, int C, int O, int activation) {
  kernels_of(context).matmul_forward(task_of(context), floats(out), floats(pre), floats(in), floats(weight),
  floats(bias), floats(residual), N, C, O, activation);
  return GPT2_OK;
}

int matmul_backward_input(gpt2_context &context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int N, int C, int O, int activation) {
  kernels_of(context).matmul_backward_input(task_of(context), floats(din), floats(dout), floats(weight), floats(pre),
  floats(activated), N, C, O, activation);
  return GPT2_OK;
}

int matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const void *dout, const void *in, int N,
    int C, int O, bool accumulate) {
  kernels_of(context).matmul_backward_weight(task_of(context), floats(dweight), dbias, floats(dout), floats(in), N, C,
  O, accumulate);
  return GPT2_OK;
}

int qk_norm_rotary_forward(gpt2_context &context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int B, int T, int S, int C, int NH,
    float eps, float query_factor) {
  kernels_of(context).qk_norm_rotary_forward(task_of(context), floats(qkv), rstd, floats(values), rotations, positions,
  floats(value_factors), floats(embedded), B, T, S, C, NH, eps, query_factor);
  return GPT2_OK;
}

int qk_norm_rotary_backward(gpt2_context &context, void *dqkv, float *dvalue_factors, void *dembedded, const void *qkv,
    const float *rstd, const float *rotations, const void *value_factors, const void *values, const void *embedded,
    int B, int T, int C, int NH, float query_factor, bool accumulate) {
  kernels_of(context).qk_norm_rotary_backward(task_of(context), floats(dqkv), dvalue_factors, floats(dembedded),
  floats(qkv), rstd, rotations, floats(value_factors), floats(values), floats(embedded), B, T, C, NH, query_factor,
  accumulate);
  return GPT2_OK;
}

int attention_forward(gpt2_context &context, void *out, float *lse, const void *qkv, const int32_t *first, int B, int T,
    int C, int NH) {
  Check check(&context, "gpt2_attention_forward");
  if (check.causal("first", first, B, T).failed()) return check.status();
  kernels_of(context).attention_forward(task_of(context), floats(out), lse, floats(qkv), first, B, T, C, NH);
  return GPT2_OK;
}

int attention_backward(gpt2_context &context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int B, int T, int C, int NH) {
  Check check(&context, "gpt2_attention_backward");
  if (check.causal("first", first, B, T).failed()) return check.status();
  kernels_of(context).attention_backward(task_of(context), floats(dqkv), floats(dout), floats(out), floats(qkv), lse,
  first, B, T, C, NH);
  return GPT2_OK;
}

int gelu_forward(gpt2_context &context, void *out, const void *in, int64_t count) {
  kernels_of(context).gelu_forward(task_of(context), floats(out), floats(in), count);
  return GPT2_OK;
}

int gelu_backward(gpt2_context &context, void *din, const void *dout, const void *in, int64_t count) {
  kernels_of(context).gelu_backward(task_of(context), floats(din), floats(dout), floats(in), count);
  return GPT2_OK;
}

int residual_forward(gpt2_context &context, void *out, const void *a, const void *b, int64_t count) {
  kernels_of(context).residual_forward(task_of(context), floats(out), floats(a), floats(b), count);
  return GPT2_OK;
}

int softcap_forward(gpt2_context &context, void *out, const void *in, int64_t count, float cap) {
  kernels_of(context).softcap_forward(task_of(context), floats(out), floats(in), count, cap);
  return GPT2_OK;
}

int stream_sum_forward(gpt2_context &context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int N, int C) {
  kernels_of(context).stream_sum_forward(task_of(context), floats(out), floats(in), floats(skip), floats(embedded),
  floats(factors), N, C);
  return GPT2_OK;
}

int stream_sum_backward(gpt2_context &context, void *din, uint8_t *values, float *scale, float *norm, void *dembedded,
    float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in, const void *skip,
    const void *embedded, const void *factors, int N, int C, bool accumulate) {
  kernels_of(context).stream_sum_backward(task_of(context), floats(din), values, scale, norm, floats(dembedded),
  dfactors, floats(dout), floats(later), floats(later_factors), floats(in), floats(skip), floats(embedded),
  floats(factors), N, C, accumulate);
  return GPT2_OK;
}

int cross_entropy(gpt2_context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
    int N, int V, int Vp, float dloss) {
  Check check(&context, "gpt2_cross_entropy");
  if (check.ids("targets", targets, static_cast<int64_t>(N), -1, V).failed()) return check.status();
  kernels_of(context).cross_entropy(task_of(context), losses, floats(dlogits), floats(logits), targets, N, V, Vp,
  dloss);
  return GPT2_OK;
}

int classifier(gpt2_context &context, float *losses, void *din, void *dweight, float *dbias, float *step, void *logits,
    const void *in, const uint8_t *in_values, const float *in_scale, const void *weight, const uint8_t *weight_values,
    const uint8_t *weight_transposed, const float *factors, const void *bias, const int32_t *targets, int N, int C,
    int V, int Vp, float dloss, float softcap, bool accumulate) {
  Check check(&context, "gpt2_classifier");
  if (check.ids("targets", targets, static_cast<int64_t>(N), -1, V).failed()) return check.status();
  kernels_of(context).classifier(task_of(context), losses, floats(din), floats(dweight), dbias, step, floats(logits),
  floats(in), in_values, in_scale, floats(weight), weight_values, weight_transposed, factors, floats(bias), targets, N,
  C, V, Vp, dloss, softcap, accumulate);
  return GPT2_OK;
}

int loss_sum(gpt2_context &context, float *step, const float *losses, int N, float scale, bool accumulate) {
  kernels_of(context).loss_sum(task_of(context), step, losses, N, scale, accumulate);
  return GPT2_OK;
}

int fp8_quantize_weight(gpt2_context &context, uint8_t *values, uint8_t *transposed, float *factors, const void *weight,
    const void *bias, int C, int O) {
  kernels_of(context).fp8_quantize_weight(task_of(context), values, transposed, factors, floats(weight), floats(bias),
  C, O);
  return GPT2_OK;
}

int fp8_transpose(gpt2_context &context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int N, int C) {
  kernels_of(context).fp8_transpose(task_of(context), columnwise, columnwise_scale, columnwise_norm, values, scale,
  norm, N, C);
  return GPT2_OK;
}

int fp8_matmul_forward(gpt2_context &context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int N, int C, int O, int activation) {
  kernels_of(context).fp8_matmul_forward(task_of(context), floats(out), values, scale, columnwise, columnwise_scale,
  derivative, in, in_scale, in_norm, in_columnwise_norm, weight, factors, floats(bias), floats(residual), N, C, O,
  activation);
  return GPT2_OK;
}

int fp8_matmul_backward_input(gpt2_context &context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
    int O, int activation) {
  kernels_of(context).fp8_matmul_backward_input(task_of(context), floats(din), values, scale, columnwise,
  columnwise_scale, dout, dout_scale, dout_norm, dout_columnwise_norm, transposed, factors, derivative, activated,
  activated_scale, activated_columnwise_scale, N, C, O, activation);
  return GPT2_OK;
}

int fp8_matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate) {
  kernels_of(context).fp8_matmul_backward_weight(task_of(context), floats(dweight), dbias, dout, dout_scale, in,
  in_scale, N, C, O, accumulate);
  return GPT2_OK;
}

int adamw(gpt2_context &context, void *weight, float *master, float *m, float *v, const void *gradient,
    const float *step, int64_t count, int gradient_dtype, int first_scalar, float rate, float beta1, float beta2,
    float eps, float weight_decay) {
  Check check(&context, "gpt2_adamw");
  if (check.that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " +
  std::to_string(gradient_dtype)).failed()) return check.status();
  kernels_of(context).adamw(task_of(context), floats(weight), master, m, v, floats(gradient), step, count, first_scalar,
  rate, beta1, beta2, eps, weight_decay);
  return GPT2_OK;
}

int muon_momentum(gpt2_context &context, void *direction, float *momentum, const void *gradient, const float *step,
    int rows, int columns, int gradient_dtype, int scalar) {
  Check check(&context, "gpt2_muon_momentum");
  if (check.that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " +
  std::to_string(gradient_dtype)).failed()) return check.status();
  kernels_of(context).muon_momentum(task_of(context), floats(direction), momentum, floats(gradient), step, rows,
  columns, scalar);
  return GPT2_OK;
}

int normalize_matrices(gpt2_context &context, void *matrices, int M, int R, int K, float margin, float eps) {
  kernels_of(context).normalize_matrices(task_of(context), floats(matrices), M, R, K, margin, eps);
  return GPT2_OK;
}

int newton_schulz(gpt2_context &context, void *out, const void *in, int M, int R, int K, float a, float b, float c) {
  kernels_of(context).newton_schulz(task_of(context), floats(out), floats(in), M, R, K, a, b, c);
  return GPT2_OK;
}

int muon_update(gpt2_context &context, void *weight, float *master, const void *direction, const float *step, int rows,
    int columns, float rate, float weight_decay) {
  kernels_of(context).muon_update(task_of(context), floats(weight), master, floats(direction), step, rows, columns,
  rate, weight_decay);
  return GPT2_OK;
}

int norm_matmul_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int N, int C, int O, int activation) {
  kernels_of(context).norm_matmul_forward(task_of(context), floats(out), floats(pre), floats(in), floats(norm_weight),
  floats(norm_bias), floats(weight), floats(bias), N, C, O, activation);
  return GPT2_OK;
}

int attention_cached_forward(gpt2_context &context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int B, int T, int S, int C, int NH, int window) {
  kernels_of(context).attention_cached_forward(task_of(context), floats(out), floats(keys), floats(values), floats(qkv),
  positions, B, T, S, C, NH, window);
  return GPT2_OK;
}

int sample(gpt2_context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
    int S, int V, int Vp, float temperature, int top_k, float top_p) {
  kernels_of(context).sample(task_of(context), tokens, positions, floats(logits), seeds, B, S, V, Vp, temperature,
  top_k, top_p);
  return GPT2_OK;
}

int64_t embedding_scratch(const gpt2_context &context, int B, int T, int C, int V) {
  const int64_t floats = kernels_of(context).embedding_scratch(threads_of(context), B, T, C, V);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t norm_scratch(const gpt2_context &context, int N, int C) {
  const int64_t floats = kernels_of(context).norm_scratch(threads_of(context), N, C);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t matmul_scratch(const gpt2_context &context, int N, int C, int O, bool gradients) {
  const int64_t floats = kernels_of(context).matmul_scratch(threads_of(context), N, C, O, gradients);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t factors_scratch(const gpt2_context &context, int K) {
  const int64_t floats = kernels_of(context).factors_scratch(threads_of(context), K);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t attention_scratch(const gpt2_context &context, int B, int T, int C, int NH) {
  const int64_t floats = kernels_of(context).attention_scratch(threads_of(context), B, T, C, NH);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool gradients, bool fp8) {
  const int64_t floats = kernels_of(context).classifier_scratch(threads_of(context), N, C, Vp, gradients, fp8);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t fp8_quantize_weight_scratch(const gpt2_context &context, int C, int O) {
  const int64_t floats = kernels_of(context).fp8_quantize_weight_scratch(threads_of(context), C, O);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t fp8_matmul_scratch(const gpt2_context &context, int N, int C, int O, bool gradients) {
  const int64_t floats = kernels_of(context).fp8_matmul_scratch(threads_of(context), N, C, O, gradients);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t global_norm_scratch(const gpt2_context &context, int64_t matrix_count, int64_t vector_count) {
  const int64_t floats = kernels_of(context).global_norm_scratch(threads_of(context), matrix_count, vector_count);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t newton_schulz_scratch(const gpt2_context &context, int M, int R, int K) {
  const int64_t floats = kernels_of(context).newton_schulz_scratch(threads_of(context), M, R, K);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t norm_matmul_scratch(const gpt2_context &context, int N, int C, int O) {
  const int64_t floats = kernels_of(context).norm_matmul_scratch(threads_of(context), N, C, O);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t attention_cached_scratch(const gpt2_context &context, int S) {
  const int64_t floats = kernels_of(context).attention_cached_scratch(threads_of(context), S);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t sample_scratch(const gpt2_context &context, int B, int V) {
  const int64_t floats = kernels_of(context).sample_scratch(threads_of(context), B, V);
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace gpt2::ops
