// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The exported ops of both libraries: arguments are checked here, then the library's own op runs (ops.generated.h).
#include <cstdint>

#include "checks.h"
#include "ops.generated.h"

using gpt2::Check;
namespace ops = gpt2::ops;

int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int32_t B, int32_t T, int32_t S, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"V", V}})
      .tensors({{"out", out}, {"wte", wte}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(positions != nullptr || S == T, "positions != NULL || S == T, got S = " + std::to_string(S) + ", T = " +
            std::to_string(T))
        .that((tokens != nullptr) == (positions == nullptr), "tokens exactly where positions == NULL")
        .that((texts != nullptr) == (positions != nullptr), "texts exactly where positions != NULL");
  }
  if (check.failed()) return check.status();
  return ops::embedding_forward(*context, out, tokens, texts, positions, wte, wpe, B, T, S, C, V);
}

int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens,
    int32_t B, int32_t T, int32_t C, int32_t V, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}})
      .tensors({{"dwte", dwte}, {"dout", dout}, {"tokens", tokens}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  }
  if (!check.failed()) check.scratch(ops::embedding_scratch(*context, B, T, C, V));
  if (check.failed()) return check.status();
  return ops::embedding_backward(*context, dwte, dwpe, dout, tokens, B, T, C, V, accumulate != 0);
}

int gpt2_norm_forward(gpt2_context *context, void *out, uint8_t *values, float *scale, float *norm, float *mean,
    float *rstd, const void *in, const void *weight, const void *bias, int32_t N, int32_t C, float eps) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"rstd", rstd}, {"in", in}, {"weight", weight}});
  if (!check.failed()) {
    check.that(out != nullptr || values != nullptr, "out != NULL || values != NULL")
        .that(eps >= 0, "eps >= 0, got eps = " + std::to_string(eps))
        .that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C))
        .that(!scale == !values, "both scale and values, or neither")
        .that(!norm == !values, "both norm and values, or neither")
        .that(!bias == !mean, "both bias and mean, or neither");
  }
  if (check.failed()) return check.status();
  return ops::norm_forward(*context, out, values, scale, norm, mean, rstd, in, weight, bias, N, C, eps);
}

int gpt2_norm_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int32_t N, int32_t C, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"din", din}, {"dweight", dweight}, {"dout", dout}, {"in", in}, {"weight", weight}, {"rstd", rstd}});
  if (!check.failed()) {
    check.that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C))
        .that(!scale == !values, "both scale and values, or neither")
        .that(!norm == !values, "both norm and values, or neither")
        .that(!dbias == !mean, "both dbias and mean, or neither");
  }
  if (!check.failed()) check.scratch(ops::norm_scratch(*context, N, C));
  if (check.failed()) return check.status();
  return ops::norm_backward(*context, din, values, scale, norm, dweight, dbias, dout, dresidual, in, weight, mean, rstd,
      N, C, accumulate != 0);
}

int gpt2_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *weight,
    const void *bias, const void *residual, int32_t N, int32_t C, int32_t O, int32_t activation) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"out", out}, {"in", in}, {"weight", weight}});
  if (!check.failed()) {
    check.that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
        std::to_string(activation))
        .that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation))
        .that(!residual || activation == GPT2_NO_ACTIVATION, "residual only where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  }
  if (!check.failed()) check.scratch(ops::matmul_scratch(*context, N, C, O, false));
  if (check.failed()) return check.status();
  return ops::matmul_forward(*context, out, pre, in, weight, bias, residual, N, C, O, activation);
}

int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int32_t N, int32_t C, int32_t O, int32_t activation) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"din", din}, {"dout", dout}, {"weight", weight}});
  if (!check.failed()) {
    check.that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
        std::to_string(activation))
        .that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation))
        .that((activated != nullptr) == (activation == GPT2_RELU_SQUARED),
            "activated exactly where activation == GPT2_RELU_SQUARED, got activation = " + std::to_string(activation));
  }
  if (!check.failed()) check.scratch(ops::matmul_scratch(*context, N, C, O, false));
  if (check.failed()) return check.status();
  return ops::matmul_backward_input(*context, din, dout, weight, pre, activated, N, C, O, activation);
}

int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout, const void *in,
    int32_t N, int32_t C, int32_t O, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"dweight", dweight}, {"dout", dout}, {"in", in}});
  if (!check.failed()) check.scratch(ops::matmul_scratch(*context, N, C, O, true));
  if (check.failed()) return check.status();
  return ops::matmul_backward_weight(*context, dweight, dbias, dout, in, N, C, O, accumulate != 0);
}

int gpt2_qk_norm_rotary_forward(gpt2_context *context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int32_t B, int32_t T, int32_t S,
    int32_t C, int32_t NH, float eps, float query_factor) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"NH", NH}})
      .tensors({{"qkv", qkv}, {"rotations", rotations}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(C % (2 * NH) == 0, "C % (2 * NH) == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH))
        .that(T <= S, "T <= S, got T = " + std::to_string(T) + ", S = " + std::to_string(S))
        .that(eps >= 0, "eps >= 0, got eps = " + std::to_string(eps))
        .that(!values == !value_factors, "both values and value_factors, or neither")
        .that(!embedded || value_factors != nullptr, "embedded only where value_factors != NULL");
  }
  if (check.failed()) return check.status();
  return ops::qk_norm_rotary_forward(*context, qkv, rstd, values, rotations, positions, value_factors, embedded, B, T,
      S, C, NH, eps, query_factor);
}

int gpt2_qk_norm_rotary_backward(gpt2_context *context, void *dqkv, float *dvalue_factors, void *dembedded,
    const void *qkv, const float *rstd, const float *rotations, const void *value_factors, const void *values,
    const void *embedded, int32_t B, int32_t T, int32_t C, int32_t NH, float query_factor, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}})
      .tensors({{"dqkv", dqkv}, {"qkv", qkv}, {"rotations", rotations}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(C % (2 * NH) == 0, "C % (2 * NH) == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH))
        .that(query_factor != 0, "query_factor != 0, got query_factor = " + std::to_string(query_factor))
        .that(!dvalue_factors == !value_factors, "both dvalue_factors and value_factors, or neither")
        .that(!dembedded == !embedded, "both dembedded and embedded, or neither")
        .that(!values == !value_factors, "both values and value_factors, or neither")
        .that(!embedded || value_factors != nullptr, "embedded only where value_factors != NULL");
  }
  if (!check.failed()) check.scratch(ops::factors_scratch(*context, 2));
  if (check.failed()) return check.status();
  return ops::qk_norm_rotary_backward(*context, dqkv, dvalue_factors, dembedded, qkv, rstd, rotations, value_factors,
      values, embedded, B, T, C, NH, query_factor, accumulate != 0);
}

int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, const int32_t *first,
    int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}})
      .tensors({{"out", out}, {"lse", lse}, {"qkv", qkv}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  }
  if (!check.failed()) check.scratch(ops::attention_scratch(*context, B, T, C, NH));
  if (check.failed()) return check.status();
  return ops::attention_forward(*context, out, lse, qkv, first, B, T, C, NH);
}

int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}})
      .tensors({{"dqkv", dqkv}, {"dout", dout}, {"out", out}, {"qkv", qkv}, {"lse", lse}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  }
  if (!check.failed()) check.scratch(ops::attention_scratch(*context, B, T, C, NH));
  if (check.failed()) return check.status();
  return ops::attention_backward(*context, dqkv, dout, out, qkv, lse, first, B, T, C, NH);
}

int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"out", out}, {"in", in}});
  if (check.failed()) return check.status();
  return ops::gelu_forward(*context, out, in, count);
}

int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"din", din}, {"dout", dout}, {"in", in}});
  if (check.failed()) return check.status();
  return ops::gelu_backward(*context, din, dout, in, count);
}

int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"out", out}, {"a", a}, {"b", b}});
  if (check.failed()) return check.status();
  return ops::residual_forward(*context, out, a, b, count);
}

int gpt2_softcap_forward(gpt2_context *context, void *out, const void *in, int64_t count, float cap) {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"out", out}, {"in", in}});
  if (!check.failed()) {
    check.that(cap > 0, "cap > 0, got cap = " + std::to_string(cap));
  }
  if (check.failed()) return check.status();
  return ops::softcap_forward(*context, out, in, count, cap);
}

int gpt2_stream_sum_forward(gpt2_context *context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"out", out}, {"in", in}, {"embedded", embedded}, {"factors", factors}});
  if (check.failed()) return check.status();
  return ops::stream_sum_forward(*context, out, in, skip, embedded, factors, N, C);
}

int gpt2_stream_sum_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm,
    void *dembedded, float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in,
        const void *skip, const void *embedded, const void *factors, int32_t N, int32_t C, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"din", din}, {"dembedded", dembedded}, {"dfactors", dfactors}, {"dout", dout}, {"in", in}, {"embedded",
          embedded}, {"factors", factors}});
  if (!check.failed()) {
    check.that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C))
        .that(!scale == !values, "both scale and values, or neither")
        .that(!norm == !values, "both norm and values, or neither")
        .that(!later_factors == !later, "both later_factors and later, or neither");
  }
  if (!check.failed()) check.scratch(ops::factors_scratch(*context, 3));
  if (check.failed()) return check.status();
  return ops::stream_sum_backward(*context, din, values, scale, norm, dembedded, dfactors, dout, later, later_factors,
      in, skip, embedded, factors, N, C, accumulate != 0);
}

int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
    int32_t N, int32_t V, int32_t Vp, float dloss) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"V", V}, {"Vp", Vp}})
      .tensors({{"losses", losses}, {"logits", logits}, {"targets", targets}});
  if (!check.failed()) {
    check.that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp));
  }
  if (check.failed()) return check.status();
  return ops::cross_entropy(*context, losses, dlogits, logits, targets, N, V, Vp, dloss);
}

int gpt2_classifier(gpt2_context *context, float *losses, void *din, void *dweight, float *dbias, float *step,
    void *logits, const void *in, const uint8_t *in_values, const float *in_scale, const void *weight,
        const uint8_t *weight_values, const uint8_t *weight_transposed, const float *factors, const void *bias,
        const int32_t *targets, int32_t N, int32_t C, int32_t V, int32_t Vp, float dloss, float softcap,
        int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"V", V}, {"Vp", Vp}})
      .tensors({{"losses", losses}, {"logits", logits}, {"in", in}, {"weight", weight}, {"targets", targets}});
  if (!check.failed()) {
    check.that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp))
        .that(softcap >= 0, "softcap >= 0, got softcap = " + std::to_string(softcap))
        .that(in_values == nullptr || C % 16 == 0, "in_values == NULL || C % 16 == 0, got C = " + std::to_string(C))
        .that(in_values == nullptr || Vp % 16 == 0, "in_values == NULL || Vp % 16 == 0, got Vp = " + std::to_string(Vp))
        .that(!step || in_values != nullptr, "step only where in_values != NULL")
        .that(!in_scale == !in_values, "both in_scale and in_values, or neither")
        .that(!weight_values == !in_values, "both weight_values and in_values, or neither")
        .that(!weight_transposed == !in_values, "both weight_transposed and in_values, or neither")
        .that(!factors == !in_values, "both factors and in_values, or neither");
  }
  if (!check.failed()) check.scratch(ops::classifier_scratch(*context, N, C, Vp, din || dweight || dbias, in_values));
  if (check.failed()) return check.status();
  return ops::classifier(*context, losses, din, dweight, dbias, step, logits, in, in_values, in_scale, weight,
      weight_values, weight_transposed, factors, bias, targets, N, C, V, Vp, dloss, softcap, accumulate != 0);
}

int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale, int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}})
      .tensors({{"step", step}, {"losses", losses}});
  if (check.failed()) return check.status();
  return ops::loss_sum(*context, step, losses, N, scale, accumulate != 0);
}

int gpt2_fp8_quantize_weight(gpt2_context *context, uint8_t *values, uint8_t *transposed, float *factors,
    const void *weight, const void *bias, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"C", C}, {"O", O}})
      .tensors({{"factors", factors}, {"weight", weight}});
  if (!check.failed()) {
    check.that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C))
        .that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O));
  }
  if (!check.failed()) check.scratch(ops::fp8_quantize_weight_scratch(*context, C, O));
  if (check.failed()) return check.status();
  return ops::fp8_quantize_weight(*context, values, transposed, factors, weight, bias, C, O);
}

int gpt2_fp8_transpose(gpt2_context *context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}})
      .tensors({{"columnwise", columnwise}, {"columnwise_scale", columnwise_scale}, {"columnwise_norm",
          columnwise_norm}, {"values", values}, {"scale", scale}, {"norm", norm}});
  if (!check.failed()) {
    check.that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  }
  if (check.failed()) return check.status();
  return ops::fp8_transpose(*context, columnwise, columnwise_scale, columnwise_norm, values, scale, norm, N, C);
}

int gpt2_fp8_matmul_forward(gpt2_context *context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int32_t N, int32_t C, int32_t O, int32_t activation) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"in", in}, {"in_scale", in_scale}, {"weight", weight}, {"factors", factors}});
  if (!check.failed()) {
    check.that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C))
        .that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O))
        .that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
            std::to_string(activation))
        .that((out != nullptr) == (activation == GPT2_NO_ACTIVATION),
            "out exactly where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation))
        .that((values != nullptr) == (activation != GPT2_NO_ACTIVATION),
            "values exactly where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation))
        .that(!scale == !values, "both scale and values, or neither")
        .that(!columnwise || activation != GPT2_NO_ACTIVATION, "columnwise only where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation))
        .that(!columnwise_scale == !columnwise, "both columnwise_scale and columnwise, or neither")
        .that((derivative != nullptr) == (activation == GPT2_GELU), "derivative exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation))
        .that(!in_norm == !values, "both in_norm and values, or neither")
        .that(!in_columnwise_norm == !columnwise, "both in_columnwise_norm and columnwise, or neither")
        .that(!residual || activation == GPT2_NO_ACTIVATION, "residual only where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  }
  if (!check.failed()) check.scratch(ops::fp8_matmul_scratch(*context, N, C, O, false));
  if (check.failed()) return check.status();
  return ops::fp8_matmul_forward(*context, out, values, scale, columnwise, columnwise_scale, derivative, in, in_scale,
      in_norm, in_columnwise_norm, weight, factors, bias, residual, N, C, O, activation);
}

int gpt2_fp8_matmul_backward_input(gpt2_context *context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int32_t N,
    int32_t C, int32_t O, int32_t activation) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"dout", dout}, {"dout_scale", dout_scale}, {"transposed", transposed}, {"factors", factors}});
  if (!check.failed()) {
    check.that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O))
        .that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C))
        .that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
            std::to_string(activation))
        .that((din != nullptr) == (activation == GPT2_NO_ACTIVATION),
            "din exactly where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation))
        .that((values != nullptr) == (activation != GPT2_NO_ACTIVATION),
            "values exactly where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation))
        .that(!scale == !values, "both scale and values, or neither")
        .that(!columnwise == !values, "both columnwise and values, or neither")
        .that(!columnwise_scale == !values, "both columnwise_scale and values, or neither")
        .that(!dout_norm == !values, "both dout_norm and values, or neither")
        .that(!dout_columnwise_norm == !values, "both dout_columnwise_norm and values, or neither")
        .that((derivative != nullptr) == (activation == GPT2_GELU), "derivative exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation))
        .that((activated != nullptr) == (activation == GPT2_RELU_SQUARED),
            "activated exactly where activation == GPT2_RELU_SQUARED, got activation = " + std::to_string(activation))
        .that(!activated_scale == !activated, "both activated_scale and activated, or neither")
        .that(!activated_columnwise_scale == !activated, "both activated_columnwise_scale and activated, or neither");
  }
  if (!check.failed()) check.scratch(ops::fp8_matmul_scratch(*context, N, C, O, false));
  if (check.failed()) return check.status();
  return ops::fp8_matmul_backward_input(*context, din, values, scale, columnwise, columnwise_scale, dout, dout_scale,
      dout_norm, dout_columnwise_norm, transposed, factors, derivative, activated, activated_scale,
      activated_columnwise_scale, N, C, O, activation);
}

int gpt2_fp8_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int32_t N, int32_t C, int32_t O,
    int32_t accumulate) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"dweight", dweight}, {"dout", dout}, {"dout_scale", dout_scale}, {"in", in}, {"in_scale", in_scale}});
  if (!check.failed()) {
    check.that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O))
        .that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  }
  if (!check.failed()) check.scratch(ops::fp8_matmul_scratch(*context, N, C, O, true));
  if (check.failed()) return check.status();
  return ops::fp8_matmul_backward_weight(*context, dweight, dbias, dout, dout_scale, in, in_scale, N, C, O,
      accumulate != 0);
}

int gpt2_global_norm(gpt2_context *context, float *step, void *matrices, const float *vectors,
    gpt2_communicator *communicator, int32_t parts, int64_t matrix_count, int64_t vector_count, float targets,
    float max_norm) try {
  Check check(context, __func__);
  check.sizes({{"parts", parts}, {"matrix_count", matrix_count}, {"vector_count", vector_count}})
      .tensors({{"step", step}, {"matrices", matrices}, {"vectors", vectors}});
  if (!check.failed()) {
    check.that(communicator != nullptr || parts == 1, "communicator != NULL || parts == 1, got parts = " +
        std::to_string(parts))
        .that(parts == 1 || matrix_count % 32 == 0, "parts == 1 || matrix_count % 32 == 0, got parts = " +
            std::to_string(parts) + ", matrix_count = " + std::to_string(matrix_count));
  }
  if (!check.failed()) check.scratch(ops::global_norm_scratch(*context, matrix_count, vector_count));
  if (check.failed()) return check.status();
  return ops::global_norm(*context, step, matrices, vectors, communicator, parts, matrix_count, vector_count, targets,
      max_norm);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
    const float *step, int64_t count, int32_t gradient_dtype, int32_t first_scalar, float rate, float beta1,
    float beta2, float eps, float weight_decay) {
  Check check(context, __func__);
  check.sizes({{"count", count}, {"first_scalar", first_scalar}})
      .tensors({{"weight", weight}, {"master", master}, {"m", m}, {"v", v}, {"gradient", gradient}, {"step", step}});
  if (!check.failed()) {
    check.that(first_scalar >= 4, "first_scalar >= 4, got first_scalar = " + std::to_string(first_scalar))
        .that(first_scalar + 2 <= 14, "first_scalar + 2 <= 14, got first_scalar = " + std::to_string(first_scalar))
        .that(gradient_dtype == GPT2_FP32 || gradient_dtype == GPT2_BF16, "gradient_dtype fp32 or bf16, got " +
            std::to_string(gradient_dtype));
  }
  if (check.failed()) return check.status();
  return ops::adamw(*context, weight, master, m, v, gradient, step, count, gradient_dtype, first_scalar, rate, beta1,
      beta2, eps, weight_decay);
}

int gpt2_muon_momentum(gpt2_context *context, void *direction, float *momentum, const void *gradient, const float *step,
    int32_t rows, int32_t columns, int32_t gradient_dtype, int32_t scalar) {
  Check check(context, __func__);
  check.sizes({{"rows", rows}, {"columns", columns}, {"scalar", scalar}})
      .tensors({{"direction", direction}, {"momentum", momentum}, {"gradient", gradient}, {"step", step}});
  if (!check.failed()) {
    check.that(scalar >= 4, "scalar >= 4, got scalar = " + std::to_string(scalar))
        .that(scalar < 14, "scalar < 14, got scalar = " + std::to_string(scalar))
        .that(gradient_dtype == GPT2_FP32 || gradient_dtype == GPT2_BF16, "gradient_dtype fp32 or bf16, got " +
            std::to_string(gradient_dtype));
  }
  if (check.failed()) return check.status();
  return ops::muon_momentum(*context, direction, momentum, gradient, step, rows, columns, gradient_dtype, scalar);
}

int gpt2_normalize_matrices(gpt2_context *context, void *matrices, int32_t M, int32_t R, int32_t K, float margin,
    float eps) {
  Check check(context, __func__);
  check.sizes({{"M", M}, {"R", R}, {"K", K}})
      .tensors({{"matrices", matrices}});
  if (!check.failed()) check.scratch(ops::newton_schulz_scratch(*context, M, R, K));
  if (check.failed()) return check.status();
  return ops::normalize_matrices(*context, matrices, M, R, K, margin, eps);
}

int gpt2_newton_schulz(gpt2_context *context, void *out, const void *in, int32_t M, int32_t R, int32_t K, float a,
    float b, float c) {
  Check check(context, __func__);
  check.sizes({{"M", M}, {"R", R}, {"K", K}})
      .tensors({{"out", out}, {"in", in}});
  if (!check.failed()) {
    check.that(R <= K, "R <= K, got R = " + std::to_string(R) + ", K = " + std::to_string(K));
  }
  if (!check.failed()) check.scratch(ops::newton_schulz_scratch(*context, M, R, K));
  if (check.failed()) return check.status();
  return ops::newton_schulz(*context, out, in, M, R, K, a, b, c);
}

int gpt2_muon_update(gpt2_context *context, void *weight, float *master, const void *direction, const float *step,
    int32_t rows, int32_t columns, float rate, float weight_decay) {
  Check check(context, __func__);
  check.sizes({{"rows", rows}, {"columns", columns}})
      .tensors({{"weight", weight}, {"master", master}, {"direction", direction}, {"step", step}});
  if (check.failed()) return check.status();
  return ops::muon_update(*context, weight, master, direction, step, rows, columns, rate, weight_decay);
}

int gpt2_norm_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int32_t N, int32_t C, int32_t O, int32_t activation) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}})
      .tensors({{"out", out}, {"in", in}, {"norm_weight", norm_weight}, {"norm_bias", norm_bias}, {"weight", weight}});
  if (!check.failed()) {
    check.that(activation >= 0 && activation <= 1, "activation >= 0 && activation <= 1, got activation = " +
        std::to_string(activation))
        .that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  }
  if (!check.failed()) check.scratch(ops::norm_matmul_scratch(*context, N, C, O));
  if (check.failed()) return check.status();
  return ops::norm_matmul_forward(*context, out, pre, in, norm_weight, norm_bias, weight, bias, N, C, O, activation);
}

int gpt2_attention_cached_forward(gpt2_context *context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int32_t B, int32_t T, int32_t S, int32_t C, int32_t NH, int32_t window) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"NH", NH}})
      .tensors({{"out", out}, {"keys", keys}, {"values", values}, {"qkv", qkv}, {"positions", positions}});
  if (!check.failed()) {
    check.that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")
        .that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH))
        .that(C / NH <= 256, "C / NH <= 256, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH))
        .that(window >= 0, "window >= 0, got window = " + std::to_string(window));
  }
  if (!check.failed()) check.scratch(ops::attention_cached_scratch(*context, S));
  if (check.failed()) return check.status();
  return ops::attention_cached_forward(*context, out, keys, values, qkv, positions, B, T, S, C, NH, window);
}

int gpt2_sample(gpt2_context *context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds,
    int32_t B, int32_t S, int32_t V, int32_t Vp, float temperature, int32_t top_k, float top_p) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"S", S}, {"V", V}, {"Vp", Vp}})
      .tensors({{"tokens", tokens}, {"positions", positions}, {"logits", logits}, {"seeds", seeds}});
  if (!check.failed()) {
    check.that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp))
        .that(temperature >= 0, "temperature >= 0, got temperature = " + std::to_string(temperature))
        .that(top_k >= 0, "top_k >= 0, got top_k = " + std::to_string(top_k))
        .that(top_p >= 0, "top_p >= 0, got top_p = " + std::to_string(top_p))
        .that(top_p <= 1, "top_p <= 1, got top_p = " + std::to_string(top_p));
  }
  if (!check.failed()) check.scratch(ops::sample_scratch(*context, B, V));
  if (check.failed()) return check.status();
  return ops::sample(*context, tokens, positions, logits, seeds, B, S, V, Vp, temperature, top_k, top_p);
}

int gpt2_all_reduce(gpt2_context *context, void *data, gpt2_communicator *communicator, int64_t count,
    int32_t dtype) try {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"data", data}})
      .handles({{"a communicator", communicator}});
  if (!check.failed()) {
    check.that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  }
  if (check.failed()) return check.status();
  return ops::all_reduce(*context, data, *communicator, count, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_reduce_scatter(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
    int64_t count, int64_t stride, int32_t dtype) try {
  Check check(context, __func__);
  check.sizes({{"count", count}, {"stride", stride}})
      .tensors({{"out", out}, {"in", in}})
      .handles({{"a communicator", communicator}});
  if (!check.failed()) {
    check.that(stride >= count, "stride >= count, got stride = " + std::to_string(stride) + ", count = " +
        std::to_string(count))
        .that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  }
  if (check.failed()) return check.status();
  return ops::reduce_scatter(*context, out, in, *communicator, count, stride, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_all_gather(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator, int64_t count,
    int32_t dtype) try {
  Check check(context, __func__);
  check.sizes({{"count", count}})
      .tensors({{"out", out}, {"in", in}})
      .handles({{"a communicator", communicator}});
  if (!check.failed()) {
    check.that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  }
  if (check.failed()) return check.status();
  return ops::all_gather(*context, out, in, *communicator, count, dtype);
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_embedding_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::embedding_scratch(*context, B, T, C, V);
  return GPT2_OK;
}

int gpt2_norm_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::norm_scratch(*context, N, C);
  return GPT2_OK;
}

int gpt2_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O, int32_t gradients) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::matmul_scratch(*context, N, C, O, gradients != 0);
  return GPT2_OK;
}

int gpt2_factors_scratch(gpt2_context *context, int64_t *bytes, int32_t K) {
  Check check(context, __func__);
  check.sizes({{"K", K}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::factors_scratch(*context, K);
  return GPT2_OK;
}

int gpt2_attention_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t NH) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::attention_scratch(*context, B, T, C, NH);
  return GPT2_OK;
}

int gpt2_classifier_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t Vp, int32_t gradients,
    int32_t fp8) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"Vp", Vp}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::classifier_scratch(*context, N, C, Vp, gradients != 0, fp8 != 0);
  return GPT2_OK;
}

int gpt2_fp8_quantize_weight_scratch(gpt2_context *context, int64_t *bytes, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"C", C}, {"O", O}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::fp8_quantize_weight_scratch(*context, C, O);
  return GPT2_OK;
}

int gpt2_fp8_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O, int32_t gradients) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::fp8_matmul_scratch(*context, N, C, O, gradients != 0);
  return GPT2_OK;
}

int gpt2_global_norm_scratch(gpt2_context *context, int64_t *bytes, int64_t matrix_count, int64_t vector_count) {
  Check check(context, __func__);
  check.sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}}).handles({{"a place for the bytes",
      bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::global_norm_scratch(*context, matrix_count, vector_count);
  return GPT2_OK;
}

int gpt2_newton_schulz_scratch(gpt2_context *context, int64_t *bytes, int32_t M, int32_t R, int32_t K) {
  Check check(context, __func__);
  check.sizes({{"M", M}, {"R", R}, {"K", K}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::newton_schulz_scratch(*context, M, R, K);
  return GPT2_OK;
}

int gpt2_norm_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O) {
  Check check(context, __func__);
  check.sizes({{"N", N}, {"C", C}, {"O", O}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::norm_matmul_scratch(*context, N, C, O);
  return GPT2_OK;
}

int gpt2_attention_cached_scratch(gpt2_context *context, int64_t *bytes, int32_t S) {
  Check check(context, __func__);
  check.sizes({{"S", S}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::attention_cached_scratch(*context, S);
  return GPT2_OK;
}

int gpt2_sample_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t V) {
  Check check(context, __func__);
  check.sizes({{"B", B}, {"V", V}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::sample_scratch(*context, B, V);
  return GPT2_OK;
}
