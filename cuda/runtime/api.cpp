// The exported ops of both libraries: arguments are checked here, once; the library's own op (ops.h) does the work.
#include <cmath>
#include <cstdint>

#include "checks.h"
#include "ops.h"

using gpt2::Check;
namespace ops = gpt2::ops;

namespace {

// Rows are counted in 32 bits.
bool rows_fit(int32_t B, int32_t T) { return static_cast<int64_t>(B) * T <= INT32_MAX; }

}  // namespace

int gpt2_abi_version(void) { return GPT2_ABI_VERSION; }

const char *gpt2_last_error(gpt2_context *context) { return context->error.c_str(); }
const char *gpt2_context_description(gpt2_context *context) { return context->description.c_str(); }

int gpt2_set_workspace(gpt2_context *context, void *workspace, int64_t bytes) {
  Check check(context, __func__);
  check.that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes))
      .that(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace on 64 bytes");
  if (check.failed()) return check.status();
  context->workspace = workspace;
  context->workspace_bytes = bytes;
  return GPT2_OK;
}

int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const void *wte, const void *wpe,
                           int32_t B, int32_t T, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}})
      .that(rows_fit(B, T), "B * T below 2^31")
      .tensors({{"out", out}, {"tokens", tokens}, {"wte", wte}, {"wpe", wpe}});
  if (check.failed()) return check.status();
  return ops::embedding_forward(*context, out, tokens, wte, wpe, B, T, C, V);
}

int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens,
                            int32_t B, int32_t T, int32_t C, int32_t V, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}})
      .that(rows_fit(B, T), "B * T below 2^31")
      .tensors({{"dwte", dwte}, {"dwpe", dwpe}, {"dout", dout}, {"tokens", tokens}});
  if (!check.failed()) check.scratch(ops::embedding_scratch(*context, B, T, C, V));
  if (check.failed()) return check.status();
  return ops::embedding_backward(*context, dwte, dwpe, dout, tokens, B, T, C, V, accumulate != 0);
}

int gpt2_embedding_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::embedding_scratch(*context, B, T, C, V);
  return GPT2_OK;
}

int gpt2_layernorm_forward(gpt2_context *context, void *out, float *mean, float *rstd, const void *in,
                           const void *weight, const void *bias, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"out", out}, {"mean", mean}, {"rstd", rstd}, {"in", in}, {"weight", weight}, {"bias", bias}});
  if (check.failed()) return check.status();
  return ops::layernorm_forward(*context, out, mean, rstd, in, weight, bias, N, C);
}

int gpt2_layernorm_backward(gpt2_context *context, void *din, float *dweight, float *dbias, const void *dout,
                            const void *dresidual, const void *in, const void *weight, const float *mean,
                            const float *rstd, int32_t N, int32_t C, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"din", din}, {"dweight", dweight}, {"dbias", dbias}, {"dout", dout}, {"in", in}, {"weight", weight}})
      .tensors({{"mean", mean}, {"rstd", rstd}});
  if (!check.failed()) check.scratch(ops::layernorm_scratch(*context, N, C));
  if (check.failed()) return check.status();
  return ops::layernorm_backward(*context, din, dweight, dbias, dout, dresidual, in, weight, mean, rstd, N, C,
                                 accumulate != 0);
}

int gpt2_layernorm_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::layernorm_scratch(*context, N, C);
  return GPT2_OK;
}

namespace {

// What every direction of the matmul asks for.
Check matmul_check(gpt2_context *context, const char *function, int32_t N, int32_t C, int32_t O,
                   std::initializer_list<std::pair<const char *, const void *>> tensors,
                   bool has_weight_gradient = false) {
  Check check(context, function);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors(tensors);
  if (!check.failed()) check.scratch(ops::matmul_scratch(*context, N, C, O, has_weight_gradient));
  return check;
}

}  // namespace

int gpt2_matmul_forward(gpt2_context *context, void *out, const void *in, const void *weight, const void *bias,
                        int32_t N, int32_t C, int32_t O) {
  const Check check = matmul_check(context, __func__, N, C, O, {{"out", out}, {"in", in}, {"weight", weight}});
  if (check.failed()) return check.status();
  return ops::matmul_forward(*context, out, in, weight, bias, N, C, O);
}

int gpt2_matmul_gelu_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *weight,
                             const void *bias, int32_t N, int32_t C, int32_t O) {
  const Check check =
      matmul_check(context, __func__, N, C, O, {{"out", out}, {"pre", pre}, {"in", in}, {"weight", weight}});
  if (check.failed()) return check.status();
  return ops::matmul_gelu_forward(*context, out, pre, in, weight, bias, N, C, O);
}

int gpt2_matmul_residual_forward(gpt2_context *context, void *out, const void *in, const void *weight, const void *bias,
                                 const void *residual, int32_t N, int32_t C, int32_t O) {
  const Check check =
      matmul_check(context, __func__, N, C, O, {{"out", out}, {"in", in}, {"weight", weight}, {"residual", residual}});
  if (check.failed()) return check.status();
  return ops::matmul_residual_forward(*context, out, in, weight, bias, residual, N, C, O);
}

int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight, int32_t N,
                               int32_t C, int32_t O) {
  const Check check = matmul_check(context, __func__, N, C, O, {{"din", din}, {"dout", dout}, {"weight", weight}});
  if (check.failed()) return check.status();
  return ops::matmul_backward_input(*context, din, dout, weight, N, C, O);
}

int gpt2_matmul_gelu_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight,
                                    const void *pre, int32_t N, int32_t C, int32_t O) {
  const Check check =
      matmul_check(context, __func__, N, C, O, {{"din", din}, {"dout", dout}, {"weight", weight}, {"pre", pre}});
  if (check.failed()) return check.status();
  return ops::matmul_gelu_backward_input(*context, din, dout, weight, pre, N, C, O);
}

int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout, const void *in,
                                int32_t N, int32_t C, int32_t O, int32_t accumulate) {
  const Check check =
      matmul_check(context, __func__, N, C, O, {{"dweight", dweight}, {"dout", dout}, {"in", in}}, true);
  if (check.failed()) return check.status();
  return ops::matmul_backward_weight(*context, dweight, dbias, dout, in, N, C, O, accumulate != 0);
}

int gpt2_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::matmul_scratch(*context, N, C, O, true);
  return GPT2_OK;
}

namespace {

Check attention_check(gpt2_context *context, const char *function, int32_t B, int32_t T, int32_t C, int32_t NH,
                      std::initializer_list<std::pair<const char *, const void *>> tensors) {
  Check check(context, function);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}}).tensors(tensors);
  if (!check.failed()) {
    check.that(C % NH == 0, "C divisible by NH, got " + std::to_string(C) + " and " + std::to_string(NH));
  }
  return check;
}

}  // namespace

int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, int32_t B, int32_t T,
                           int32_t C, int32_t NH) {
  Check check = attention_check(context, __func__, B, T, C, NH, {{"out", out}, {"lse", lse}, {"qkv", qkv}});
  if (!check.failed()) check.scratch(ops::attention_scratch(*context, B, T, C, NH));
  if (check.failed()) return check.status();
  return ops::attention_forward(*context, out, lse, qkv, B, T, C, NH);
}

int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out, const void *qkv,
                            const float *lse, int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check = attention_check(context, __func__, B, T, C, NH,
                                {{"dqkv", dqkv}, {"dout", dout}, {"out", out}, {"qkv", qkv}, {"lse", lse}});
  if (!check.failed()) check.scratch(ops::attention_scratch(*context, B, T, C, NH));
  if (check.failed()) return check.status();
  return ops::attention_backward(*context, dqkv, dout, out, qkv, lse, B, T, C, NH);
}

int gpt2_attention_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t NH) {
  const Check check = attention_check(context, __func__, B, T, C, NH, {{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::attention_scratch(*context, B, T, C, NH);
  return GPT2_OK;
}

int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"out", out}, {"in", in}});
  if (check.failed()) return check.status();
  return ops::gelu_forward(*context, out, in, count);
}

int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"din", din}, {"dout", dout}, {"in", in}});
  if (check.failed()) return check.status();
  return ops::gelu_backward(*context, din, dout, in, count);
}

int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}}).tensors({{"out", out}, {"a", a}, {"b", b}});
  if (check.failed()) return check.status();
  return ops::residual_forward(*context, out, a, b, count);
}

int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                       int32_t N, int32_t V, int32_t Vp, float dloss) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"V", V}, {"Vp", Vp}})
      .tensors({{"losses", losses}, {"logits", logits}, {"targets", targets}})
      .that(V <= Vp, "V of at most Vp, got " + std::to_string(V) + " and " + std::to_string(Vp));
  if (check.failed()) return check.status();
  return ops::cross_entropy(*context, losses, dlogits, logits, targets, N, V, Vp, dloss);
}

int gpt2_classifier(gpt2_context *context, float *losses, void *din, void *dweight, void *logits, const void *in,
                    const void *weight, const int32_t *targets, int32_t N, int32_t C, int32_t V, int32_t Vp,
                    float dloss, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"V", V}, {"Vp", Vp}})
      .tensors({{"losses", losses}, {"logits", logits}, {"in", in}, {"weight", weight}, {"targets", targets}})
      .that(V <= Vp, "V of at most Vp, got " + std::to_string(V) + " and " + std::to_string(Vp));
  if (!check.failed()) check.scratch(ops::classifier_scratch(*context, N, C, Vp, din || dweight));
  if (check.failed()) return check.status();
  return ops::classifier(*context, losses, din, dweight, logits, in, weight, targets, N, C, V, Vp, dloss,
                         accumulate != 0);
}

int gpt2_classifier_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t Vp) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"Vp", Vp}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::classifier_scratch(*context, N, C, Vp, true);
  return GPT2_OK;
}

int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}}).tensors({{"step", step}, {"losses", losses}});
  if (check.failed()) return check.status();
  return ops::loss_sum(*context, step, losses, N, scale, accumulate != 0);
}

int gpt2_global_norm(gpt2_context *context, float *step, const void *matrices, const float *vectors,
                     int64_t matrix_count, int64_t vector_count, float max_norm) {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}})
      .tensors({{"step", step}, {"matrices", matrices}, {"vectors", vectors}});
  if (!check.failed()) check.scratch(ops::global_norm_scratch(*context, matrix_count, vector_count));
  if (check.failed()) return check.status();
  return ops::global_norm(*context, step, matrices, vectors, matrix_count, vector_count, max_norm);
}

int gpt2_global_norm_scratch(gpt2_context *context, int64_t *bytes, int64_t matrix_count, int64_t vector_count) {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::global_norm_scratch(*context, matrix_count, vector_count);
  return GPT2_OK;
}

int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
               const float *step, int64_t count, int32_t gradient_dtype, float beta1, float beta2, float eps,
               float weight_decay) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"weight", weight}, {"master", master}, {"m", m}, {"v", v}, {"gradient", gradient}, {"step", step}});
  if (check.failed()) return check.status();
  return ops::adamw(*context, weight, master, m, v, gradient, step, count, gradient_dtype, beta1, beta2, eps,
                    weight_decay);
}

int gpt2_embedding_at_forward(gpt2_context *context, void *out, const int32_t *tokens, const int32_t *positions,
                              const void *wte, const void *wpe, int32_t B, int32_t T, int32_t S, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"V", V}})
      .that(rows_fit(B, T), "B * T below 2^31")
      .tensors({{"out", out}, {"tokens", tokens}, {"positions", positions}, {"wte", wte}, {"wpe", wpe}});
  if (check.failed()) return check.status();
  return ops::embedding_at_forward(*context, out, tokens, positions, wte, wpe, B, T, S, C, V);
}

int gpt2_layernorm_matmul_forward(gpt2_context *context, void *out, const void *in, const void *norm_weight,
                                  const void *norm_bias, const void *weight, const void *bias, int32_t N, int32_t C,
                                  int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"out", out}, {"in", in}, {"norm_weight", norm_weight}, {"norm_bias", norm_bias}, {"weight", weight}});
  if (!check.failed()) check.scratch(ops::layernorm_matmul_scratch(*context, N, C, O));
  if (check.failed()) return check.status();
  return ops::layernorm_matmul_forward(*context, out, in, norm_weight, norm_bias, weight, bias, N, C, O);
}

int gpt2_layernorm_matmul_gelu_forward(gpt2_context *context, void *out, void *pre, const void *in,
                                       const void *norm_weight, const void *norm_bias, const void *weight,
                                       const void *bias, int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"out", out}, {"pre", pre}, {"in", in}, {"weight", weight}})
      .tensors({{"norm_weight", norm_weight}, {"norm_bias", norm_bias}});
  if (!check.failed()) check.scratch(ops::layernorm_matmul_scratch(*context, N, C, O));
  if (check.failed()) return check.status();
  return ops::layernorm_matmul_gelu_forward(*context, out, pre, in, norm_weight, norm_bias, weight, bias, N, C, O);
}

int gpt2_layernorm_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::layernorm_matmul_scratch(*context, N, C, O);
  return GPT2_OK;
}

int gpt2_attention_cached_forward(gpt2_context *context, void *out, void *keys, void *values, const void *qkv,
                                  const int32_t *positions, int32_t B, int32_t T, int32_t S, int32_t C, int32_t NH) {
  Check check = attention_check(
      context, __func__, B, T, C, NH,
      {{"out", out}, {"keys", keys}, {"values", values}, {"qkv", qkv}, {"positions", positions}});
  check.sizes({{"S", S}});
  if (!check.failed()) {
    check.that(C / NH <= 256, "a head size of at most 256, got " + std::to_string(C / NH))
        .scratch(ops::attention_cached_scratch(*context, S));
  }
  if (check.failed()) return check.status();
  return ops::attention_cached_forward(*context, out, keys, values, qkv, positions, B, T, S, C, NH);
}

int gpt2_attention_cached_scratch(gpt2_context *context, int64_t *bytes, int32_t S) {
  Check check(context, __func__);
  check.sizes({{"S", S}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::attention_cached_scratch(*context, S);
  return GPT2_OK;
}

int gpt2_sample(gpt2_context *context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds,
                int32_t B, int32_t S, int32_t V, int32_t Vp, float temperature, int32_t top_k, float top_p) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"S", S}, {"V", V}, {"Vp", Vp}})
      .tensors({{"tokens", tokens}, {"positions", positions}, {"logits", logits}, {"seeds", seeds}})
      .that(V <= Vp, "V of at most Vp, got " + std::to_string(V) + " and " + std::to_string(Vp))
      .that(temperature >= 0 && std::isfinite(temperature), "a temperature of at least 0, got " + std::to_string(temperature))
      .that(top_k >= 0, "top_k of at least 0, got " + std::to_string(top_k))
      .that(top_p >= 0 && top_p <= 1, "top_p from 0 to 1, got " + std::to_string(top_p));
  if (!check.failed()) check.scratch(ops::sample_scratch(*context, B, V));
  if (check.failed()) return check.status();
  return ops::sample(*context, tokens, positions, logits, seeds, B, S, V, Vp, temperature, top_k, top_p);
}

int gpt2_sample_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"V", V}}).tensors({{"bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::sample_scratch(*context, B, V);
  return GPT2_OK;
}

namespace {

// What every collective asks for.
Check collective_check(gpt2_context *context, const char *function, gpt2_communicator *communicator, int64_t count,
                       int32_t dtype, std::initializer_list<std::pair<const char *, const void *>> tensors) {
  Check check(context, function);
  check.sizes({{"count", count}})
      .tensors(tensors)
      .that(communicator != nullptr, "a communicator, got NULL")
      .that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  return check;
}

}  // namespace

int gpt2_all_reduce(gpt2_context *context, void *data, gpt2_communicator *communicator, int64_t count, int32_t dtype) try {
  const Check check = collective_check(context, __func__, communicator, count, dtype, {{"data", data}});
  if (check.failed()) return check.status();
  return ops::all_reduce(*context, data, *communicator, count, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_reduce_scatter(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
                        int64_t count, int64_t stride, int32_t dtype) try {
  Check check = collective_check(context, __func__, communicator, count, dtype, {{"out", out}, {"in", in}});
  check.that(stride >= count, "a stride of at least count, got " + std::to_string(stride));
  if (check.failed()) return check.status();
  return ops::reduce_scatter(*context, out, in, *communicator, count, stride, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_all_gather(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator, int64_t count,
                    int32_t dtype) try {
  const Check check = collective_check(context, __func__, communicator, count, dtype, {{"out", out}, {"in", in}});
  if (check.failed()) return check.status();
  return ops::all_gather(*context, out, in, *communicator, count, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_global_norm_of_ranks(gpt2_context *context, float *step, void *matrices, const float *vectors,
                              gpt2_communicator *communicator, int64_t matrix_count, int64_t vector_count,
                              int32_t parts, float max_norm) try {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}, {"parts", parts}})
      .tensors({{"step", step}, {"matrices", matrices}, {"vectors", vectors}})
      .that(parts == 1 || matrix_count % 32 == 0,
            "a matrix_count of a multiple of 32 where there are parts, got " + std::to_string(matrix_count))
      .that(communicator != nullptr, "a communicator, got NULL");
  if (!check.failed()) check.scratch(ops::global_norm_scratch(*context, matrix_count, vector_count));
  if (check.failed()) return check.status();
  return ops::global_norm_of_ranks(*context, step, matrices, vectors, *communicator, matrix_count, vector_count,
                                   parts, max_norm);
} catch (...) {
  return gpt2::thrown(context, __func__);
}
