// The ops on the CPU: hands each to the kernel of the context's code path. Everything is fp32 here.
#include "../runtime/ops.h"

#include <cmath>

#include "../runtime/checks.h"
#include "collectives.h"
#include "context.h"

namespace gpt2::ops {

namespace {

Task task_of(gpt2_context &context) { return {cpu(context).threads, static_cast<float *>(context.workspace)}; }
const Kernels &kernels_of(const gpt2_context &context) { return *static_cast<const CpuContext &>(context).kernels; }
int threads_of(const gpt2_context &context) { return static_cast<const CpuContext &>(context).threads; }

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

constexpr int64_t float_bytes = sizeof(float);

}  // namespace

int embedding_forward(gpt2_context &context, void *out, const int32_t *tokens, const void *wte, const void *wpe, int B,
                      int T, int C, int V) {
  Check check(&context, "gpt2_embedding_forward");
  if (check.below("tokens", tokens, static_cast<int64_t>(B) * T, V).failed()) return check.status();
  kernels_of(context).embedding_forward(task_of(context), floats(out), tokens, floats(wte), floats(wpe), B, T, C);
  return GPT2_OK;
}

int embedding_backward(gpt2_context &context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B,
                       int T, int C, int V, bool accumulate) {
  Check check(&context, "gpt2_embedding_backward");
  if (check.below("tokens", tokens, static_cast<int64_t>(B) * T, V).failed()) return check.status();
  kernels_of(context).embedding_backward(task_of(context), floats(dwte), floats(dwpe), floats(dout), tokens, B, T, C,
                                         accumulate);
  return GPT2_OK;
}

int64_t embedding_scratch(const gpt2_context &, int, int, int, int) { return 0; }

int layernorm_forward(gpt2_context &context, void *out, float *mean, float *rstd, const void *in, const void *weight,
                      const void *bias, int N, int C) {
  kernels_of(context).layernorm_forward(task_of(context), floats(out), mean, rstd, floats(in), floats(weight),
                                        floats(bias), N, C);
  return GPT2_OK;
}

int layernorm_backward(gpt2_context &context, void *din, float *dweight, float *dbias, const void *dout,
                       const void *dresidual, const void *in, const void *weight, const float *mean, const float *rstd,
                       int N, int C, bool accumulate) {
  kernels_of(context).layernorm_backward(task_of(context), floats(din), dweight, dbias, floats(dout),
                                         floats(dresidual), floats(in), floats(weight), mean, rstd, N, C, accumulate);
  return GPT2_OK;
}

int64_t layernorm_scratch(const gpt2_context &, int, int) { return 0; }

int matmul_forward(gpt2_context &context, void *out, const void *in, const void *weight, const void *bias, int N, int C,
                   int O) {
  kernels_of(context).matmul_forward(task_of(context), floats(out), floats(in), floats(weight), floats(bias), N, C, O);
  return GPT2_OK;
}

int matmul_gelu_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *weight,
                        const void *bias, int N, int C, int O) {
  matmul_forward(context, pre, in, weight, bias, N, C, O);
  return gelu_forward(context, out, pre, static_cast<int64_t>(N) * O);
}

int matmul_residual_forward(gpt2_context &context, void *out, const void *in, const void *weight, const void *bias,
                            const void *residual, int N, int C, int O) {
  matmul_forward(context, out, in, weight, bias, N, C, O);
  return residual_forward(context, out, residual, out, static_cast<int64_t>(N) * O);
}

int matmul_backward_input(gpt2_context &context, void *din, const void *dout, const void *weight, int N, int C, int O) {
  kernels_of(context).matmul_backward_input(task_of(context), floats(din), floats(dout), floats(weight), N, C, O);
  return GPT2_OK;
}

int matmul_gelu_backward_input(gpt2_context &context, void *din, const void *dout, const void *weight, const void *pre,
                               int N, int C, int O) {
  matmul_backward_input(context, din, dout, weight, N, C, O);
  return gelu_backward(context, din, din, pre, static_cast<int64_t>(N) * C);
}

int matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const void *dout, const void *in, int N,
                           int C, int O, bool accumulate) {
  kernels_of(context).matmul_backward_weight(task_of(context), floats(dweight), dbias, floats(dout), floats(in), N, C,
                                             O, accumulate);
  return GPT2_OK;
}

int64_t matmul_scratch(const gpt2_context &context, int N, int C, int O, bool) {
  return kernels_of(context).matmul_scratch(threads_of(context), N, C, O) * float_bytes;
}

int attention_forward(gpt2_context &context, void *out, float *lse, const void *qkv, int B, int T, int C, int NH) {
  kernels_of(context).attention_forward(task_of(context), floats(out), lse, floats(qkv), B, T, C, NH);
  return GPT2_OK;
}

int attention_backward(gpt2_context &context, void *dqkv, const void *dout, const void *out, const void *qkv,
                       const float *lse, int B, int T, int C, int NH) {
  kernels_of(context).attention_backward(task_of(context), floats(dqkv), floats(dout), floats(out), floats(qkv), lse, B,
                                         T, C, NH);
  return GPT2_OK;
}

int64_t attention_scratch(const gpt2_context &context, int, int T, int C, int NH) {
  return kernels_of(context).attention_scratch(threads_of(context), T, C / NH) * float_bytes;
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

int cross_entropy(gpt2_context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                  int N, int V, int Vp, float dloss) {
  Check check(&context, "gpt2_cross_entropy");
  if (check.below("targets", targets, N, V).failed()) return check.status();
  kernels_of(context).cross_entropy(task_of(context), losses, floats(dlogits), floats(logits), targets, N, V, Vp,
                                    dloss);
  return GPT2_OK;
}

int classifier(gpt2_context &context, float *losses, void *din, void *dweight, void *logits, const void *in,
               const void *weight, const int32_t *targets, int N, int C, int V, int Vp, float dloss, bool accumulate) {
  Check check(&context, "gpt2_classifier");
  if (check.below("targets", targets, N, V).failed()) return check.status();
  return classifier_in_parts(context, losses, din, dweight, logits, in, weight, targets, N, C, V, Vp, dloss, accumulate);
}

int64_t classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool) {
  return classifier_in_parts_scratch(context, N, C, Vp);
}

int loss_sum(gpt2_context &, float *step, const float *losses, int N, float scale, bool accumulate) {
  double sum = 0;
  for (int n = 0; n < N; n++) sum += losses[n];
  step[GPT2_STEP_LOSS] = static_cast<float>((accumulate ? step[GPT2_STEP_LOSS] : 0) + sum * scale);
  return GPT2_OK;
}

namespace {

int norm_of(float *step, double squares, float max_norm) {
  const double norm = std::sqrt(squares);
  step[GPT2_STEP_NORM] = static_cast<float>(norm);
  step[GPT2_STEP_CLIP] = max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  const bool updates = step[GPT2_STEP_LOSS] <= step[GPT2_STEP_LOSS_LIMIT] &&
                       step[GPT2_STEP_NORM] <= step[GPT2_STEP_NORM_LIMIT] &&
                       (step[GPT2_STEP_AFTER_UPDATE] == 0 || step[GPT2_STEP_UPDATED] != 0);
  step[GPT2_STEP_UPDATED] = updates ? 1.0f : 0.0f;
  return GPT2_OK;
}

}  // namespace

int global_norm(gpt2_context &context, float *step, const void *matrices, const float *vectors, int64_t matrix_count,
                int64_t vector_count, float max_norm) {
  const double squares = kernels_of(context).square_sum(task_of(context), floats(matrices), matrix_count) +
                         kernels_of(context).square_sum(task_of(context), vectors, vector_count);
  return norm_of(step, squares, max_norm);
}

int global_norm_of_ranks(gpt2_context &context, float *step, void *matrices, const float *vectors,
                         gpt2_communicator &communicator, int64_t matrix_count, int64_t vector_count, int parts,
                         float max_norm) {
  float *sum = floats(matrices);
  for (int part = 1; part < parts; part++) {
    const float *row = sum + part * matrix_count;
    for (int64_t i = 0; i < matrix_count; i++) sum[i] += row[i];
  }
  double squares = kernels_of(context).square_sum(task_of(context), floats(matrices), matrix_count);
  if (const int status = sum_over_ranks(context, squares, communicator)) return status;
  squares += kernels_of(context).square_sum(task_of(context), vectors, vector_count);
  return norm_of(step, squares, max_norm);
}

int64_t global_norm_scratch(const gpt2_context &context, int64_t matrix_count, int64_t vector_count) {
  return kernels_of(context).square_sum_scratch(matrix_count > vector_count ? matrix_count : vector_count) *
         float_bytes;
}

int adamw(gpt2_context &context, void *weight, float *master, float *m, float *v, const void *gradient,
          const float *step, int64_t count, int gradient_dtype, float beta1, float beta2, float eps,
          float weight_decay) {
  Check check(&context, "gpt2_adamw");
  check.that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " + std::to_string(gradient_dtype))
      .that(weight == master, "weight and master to be the same memory, as they are in fp32");
  if (check.failed()) return check.status();
  if (step[GPT2_STEP_UPDATED] == 0) return GPT2_OK;
  kernels_of(context).adamw(task_of(context), master, m, v, floats(gradient), count, step[GPT2_STEP_LEARNING_RATE],
                            step[GPT2_STEP_BETA1_CORRECTION], step[GPT2_STEP_BETA2_CORRECTION], step[GPT2_STEP_CLIP],
                            beta1, beta2, eps, weight_decay);
  return GPT2_OK;
}

int embedding_at_forward(gpt2_context &context, void *out, const int32_t *tokens, const int32_t *positions,
                         const void *wte, const void *wpe, int B, int T, int S, int C, int V) {
  kernels_of(context).embedding_at_forward(task_of(context), floats(out), tokens, positions, floats(wte), floats(wpe), B,
                                           T, S, C, V);
  return GPT2_OK;
}

int layernorm_matmul_forward(gpt2_context &context, void *out, const void *in, const void *norm_weight,
                             const void *norm_bias, const void *weight, const void *bias, int N, int C, int O) {
  // In the workspace: what layernorm leaves, then the matmul's own scratch.
  float *rows = floats(context.workspace), *mean = rows + static_cast<int64_t>(N) * C, *rstd = mean + N;
  layernorm_forward(context, rows, mean, rstd, in, norm_weight, norm_bias, N, C);
  kernels_of(context).matmul_forward({threads_of(context), rstd + N}, floats(out), rows, floats(weight), floats(bias),
                                     N, C, O);
  return GPT2_OK;
}

int layernorm_matmul_gelu_forward(gpt2_context &context, void *out, void *pre, const void *in, const void *norm_weight,
                                  const void *norm_bias, const void *weight, const void *bias, int N, int C, int O) {
  layernorm_matmul_forward(context, pre, in, norm_weight, norm_bias, weight, bias, N, C, O);
  return gelu_forward(context, out, pre, static_cast<int64_t>(N) * O);
}

int64_t layernorm_matmul_scratch(const gpt2_context &context, int N, int C, int O) {
  return matmul_scratch(context, N, C, O, false) + static_cast<int64_t>(N) * (C + 2) * float_bytes;
}

int attention_cached_forward(gpt2_context &context, void *out, void *keys, void *values, const void *qkv,
                             const int32_t *positions, int B, int T, int S, int C, int NH) {
  kernels_of(context).attention_cached_forward(task_of(context), floats(out), floats(keys), floats(values), floats(qkv),
                                               positions, B, T, S, C, NH);
  return GPT2_OK;
}

int64_t attention_cached_scratch(const gpt2_context &context, int S) {
  return kernels_of(context).attention_cached_scratch(threads_of(context), S) * float_bytes;
}

int sample(gpt2_context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
           int S, int V, int Vp, float temperature, int top_k, float top_p) {
  kernels_of(context).sample(task_of(context), tokens, positions, floats(logits), seeds, B, S, V, Vp, temperature, top_k,
                             top_p);
  return GPT2_OK;
}

int64_t sample_scratch(const gpt2_context &context, int B, int V) {
  return kernels_of(context).sample_scratch(B, V) * float_bytes;
}

}  // namespace gpt2::ops
