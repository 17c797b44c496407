// The exported ops: arguments are checked here, then the kernel of the context's code path does the work.
#include <cmath>

#include "checks.h"

using gpt2::Check;
using gpt2::Task;

namespace {

Task task_of(const gpt2_context *context) { return {context->threads, static_cast<float *>(context->workspace)}; }

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

int64_t rows_of(int32_t B, int32_t T) { return static_cast<int64_t>(B) * T; }

// A scratch function's answer, in bytes.
int answer(const Check &check, int64_t *bytes, int64_t (*size)(const gpt2_context *, const int64_t *),
           const gpt2_context *context, std::initializer_list<int64_t> sizes) {
  if (check.failed()) return check.status();
  *bytes = size(context, sizes.begin()) * static_cast<int64_t>(sizeof(float));
  return GPT2_OK;
}

}  // namespace

int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const void *wte, const void *wpe,
                           int32_t B, int32_t T, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}})
      .tensors({{"out", out}, {"tokens", tokens}, {"wte", wte}, {"wpe", wpe}})
      .below("tokens", tokens, rows_of(B, T), V);
  if (check.failed()) return check.status();
  context->kernels->embedding_forward(task_of(context), floats(out), tokens, floats(wte), floats(wpe), B, T, C);
  return GPT2_OK;
}

int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens,
                            int32_t B, int32_t T, int32_t C, int32_t V, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}})
      .tensors({{"dwte", dwte}, {"dwpe", dwpe}, {"dout", dout}, {"tokens", tokens}})
      .below("tokens", tokens, rows_of(B, T), V);
  if (check.failed()) return check.status();
  context->kernels->embedding_backward(task_of(context), floats(dwte), floats(dwpe), floats(dout), tokens, B, T, C,
                                       accumulate != 0);
  return GPT2_OK;
}

int gpt2_embedding_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}}).tensors({{"bytes", bytes}});
  return answer(check, bytes, [](const gpt2_context *, const int64_t *) -> int64_t { return 0; }, context, {});
}

int gpt2_layernorm_forward(gpt2_context *context, void *out, float *mean, float *rstd, const void *in,
                           const void *weight, const void *bias, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"out", out}, {"mean", mean}, {"rstd", rstd}, {"in", in}, {"weight", weight}, {"bias", bias}});
  if (check.failed()) return check.status();
  context->kernels->layernorm_forward(task_of(context), floats(out), mean, rstd, floats(in), floats(weight),
                                      floats(bias), N, C);
  return GPT2_OK;
}

int gpt2_layernorm_backward(gpt2_context *context, void *din, float *dweight, float *dbias, const void *dout,
                            const void *dresidual, const void *in, const void *weight, const float *mean,
                            const float *rstd, int32_t N, int32_t C, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"din", din}, {"dweight", dweight}, {"dbias", dbias}, {"dout", dout}, {"in", in}, {"weight", weight}})
      .tensors({{"mean", mean}, {"rstd", rstd}});
  if (check.failed()) return check.status();
  context->kernels->layernorm_backward(task_of(context), floats(din), dweight, dbias, floats(dout), floats(dresidual),
                                       floats(in), floats(weight), mean, rstd, N, C, accumulate != 0);
  return GPT2_OK;
}

int gpt2_layernorm_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}}).tensors({{"bytes", bytes}});
  return answer(check, bytes, [](const gpt2_context *, const int64_t *) -> int64_t { return 0; }, context, {});
}

int gpt2_matmul_forward(gpt2_context *context, void *out, const void *in, const void *weight, const void *bias,
                        int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"out", out}, {"in", in}, {"weight", weight}});
  if (!check.failed()) check.scratch(context->kernels->matmul_scratch(context->threads, N, C, O));
  if (check.failed()) return check.status();
  context->kernels->matmul_forward(task_of(context), floats(out), floats(in), floats(weight), floats(bias), N, C, O);
  return GPT2_OK;
}

int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight, int32_t N,
                               int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"din", din}, {"dout", dout}, {"weight", weight}});
  if (!check.failed()) check.scratch(context->kernels->matmul_scratch(context->threads, N, C, O));
  if (check.failed()) return check.status();
  context->kernels->matmul_backward_input(task_of(context), floats(din), floats(dout), floats(weight), N, C, O);
  return GPT2_OK;
}

int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout, const void *in,
                                int32_t N, int32_t C, int32_t O, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"dweight", dweight}, {"dout", dout}, {"in", in}});
  if (!check.failed()) check.scratch(context->kernels->matmul_scratch(context->threads, N, C, O));
  if (check.failed()) return check.status();
  context->kernels->matmul_backward_weight(task_of(context), floats(dweight), dbias, floats(dout), floats(in), N, C, O,
                                           accumulate != 0);
  return GPT2_OK;
}

int gpt2_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"bytes", bytes}});
  const auto size = [](const gpt2_context *c, const int64_t *s) -> int64_t {
    return c->kernels->matmul_scratch(c->threads, static_cast<int>(s[0]), static_cast<int>(s[1]),
                                      static_cast<int>(s[2]));
  };
  return answer(check, bytes, size, context, {N, C, O});
}

int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, int32_t B, int32_t T,
                           int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}}).tensors({{"out", out}, {"lse", lse}, {"qkv", qkv}});
  if (!check.failed()) {
    check.that(C % NH == 0, "C divisible by NH, got " + std::to_string(C) + " and " + std::to_string(NH))
        .scratch(context->kernels->attention_scratch(context->threads, T, C / NH));
  }
  if (check.failed()) return check.status();
  context->kernels->attention_forward(task_of(context), floats(out), lse, floats(qkv), B, T, C, NH);
  return GPT2_OK;
}

int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out, const void *qkv,
                            const float *lse, int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}})
      .tensors({{"dqkv", dqkv}, {"dout", dout}, {"out", out}, {"qkv", qkv}, {"lse", lse}});
  if (!check.failed()) {
    check.that(C % NH == 0, "C divisible by NH, got " + std::to_string(C) + " and " + std::to_string(NH))
        .scratch(context->kernels->attention_scratch(context->threads, T, C / NH));
  }
  if (check.failed()) return check.status();
  context->kernels->attention_backward(task_of(context), floats(dqkv), floats(dout), floats(out), floats(qkv), lse, B,
                                       T, C, NH);
  return GPT2_OK;
}

int gpt2_attention_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}}).tensors({{"bytes", bytes}});
  const auto size = [](const gpt2_context *c, const int64_t *s) -> int64_t {
    return c->kernels->attention_scratch(c->threads, static_cast<int>(s[0]), static_cast<int>(s[1]));
  };
  return answer(check, bytes, size, context, {T, NH > 0 ? C / NH : 0});
}

int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"out", out}, {"in", in}});
  if (check.failed()) return check.status();
  context->kernels->gelu_forward(task_of(context), floats(out), floats(in), count);
  return GPT2_OK;
}

int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"din", din}, {"dout", dout}, {"in", in}});
  if (check.failed()) return check.status();
  context->kernels->gelu_backward(task_of(context), floats(din), floats(dout), floats(in), count);
  return GPT2_OK;
}

int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"out", out}, {"a", a}, {"b", b}});
  if (check.failed()) return check.status();
  context->kernels->residual_forward(task_of(context), floats(out), floats(a), floats(b), count);
  return GPT2_OK;
}

int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                       int32_t N, int32_t V, int32_t Vp, float dloss) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"V", V}, {"Vp", Vp}})
      .tensors({{"losses", losses}, {"logits", logits}, {"targets", targets}})
      .that(V <= Vp, "V of at most Vp, got " + std::to_string(V) + " and " + std::to_string(Vp))
      .below("targets", targets, N, V);
  if (check.failed()) return check.status();
  context->kernels->cross_entropy(task_of(context), losses, floats(dlogits), floats(logits), targets, N, V, Vp, dloss);
  return GPT2_OK;
}

int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}}).tensors({{"step", step}, {"losses", losses}});
  if (check.failed()) return check.status();
  double sum = 0;
  for (int32_t n = 0; n < N; n++) sum += losses[n];
  step[GPT2_STEP_LOSS] = static_cast<float>((accumulate ? step[GPT2_STEP_LOSS] : 0) + sum * scale);
  return GPT2_OK;
}

int gpt2_global_norm(gpt2_context *context, float *step, const void *matrices, const float *vectors,
                     int64_t matrix_count, int64_t vector_count, float max_norm) {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}})
      .tensors({{"step", step}, {"matrices", matrices}, {"vectors", vectors}})
      .scratch(context->kernels->square_sum_scratch(matrix_count > vector_count ? matrix_count : vector_count));
  if (check.failed()) return check.status();
  const double squares = context->kernels->square_sum(task_of(context), floats(matrices), matrix_count) +
                         context->kernels->square_sum(task_of(context), vectors, vector_count);
  const double norm = std::sqrt(squares);
  step[GPT2_STEP_NORM] = static_cast<float>(norm);
  step[GPT2_STEP_CLIP] = max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  return GPT2_OK;
}

int gpt2_global_norm_scratch(gpt2_context *context, int64_t *bytes, int64_t matrix_count, int64_t vector_count) {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}}).tensors({{"bytes", bytes}});
  const auto size = [](const gpt2_context *c, const int64_t *s) -> int64_t {
    return c->kernels->square_sum_scratch(s[0] > s[1] ? s[0] : s[1]);
  };
  return answer(check, bytes, size, context, {matrix_count, vector_count});
}

int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
               const float *step, int64_t count, int32_t gradient_dtype, float beta1, float beta2, float eps,
               float weight_decay) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"weight", weight}, {"master", master}, {"m", m}, {"v", v}, {"gradient", gradient}, {"step", step}})
      .that(gradient_dtype == GPT2_FP32, "gradient_dtype fp32 (0), got " + std::to_string(gradient_dtype))
      .that(weight == master, "weight and master to be the same memory, as they are in fp32");
  if (check.failed()) return check.status();
  context->kernels->adamw(task_of(context), master, m, v, floats(gradient), count, step[GPT2_STEP_LEARNING_RATE],
                          step[GPT2_STEP_BETA1_CORRECTION], step[GPT2_STEP_BETA2_CORRECTION], step[GPT2_STEP_CLIP],
                          beta1, beta2, eps, weight_decay);
  return GPT2_OK;
}
