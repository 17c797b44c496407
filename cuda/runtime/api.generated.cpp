// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The exported functions of both libraries: arguments are checked here, then the library implements the rest (ops.generated.h).
#include <cstdint>

#include "checks.h"
#include "ops.generated.h"

using namespace gpt2;

int gpt2_set_workspace(gpt2_context *context, void *workspace, int64_t bytes) try {
  runtime::set_workspace(opened(*context), workspace, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_allocate(gpt2_context *context, void **memory, int64_t bytes) try {
  check_handles({{"memory", memory}});
  runtime::allocate(opened(*context), memory, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_free(gpt2_context *context, void *memory) try {
  runtime::free(opened(*context), memory);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_allocate_pinned(gpt2_context *context, void **memory, int64_t bytes) try {
  check_handles({{"memory", memory}});
  runtime::allocate_pinned(opened(*context), memory, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_free_pinned(gpt2_context *context, void *memory) try {
  runtime::free_pinned(opened(*context), memory);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_memory_info(gpt2_context *context, int64_t *available, int64_t *total) try {
  check_handles({{"available", available}, {"total", total}});
  runtime::memory_info(opened(*context), available, total);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_copy_to_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) try {
  runtime::copy_to_device(opened(*context), destination, source, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_copy_to_host(gpt2_context *context, void *destination, const void *source, int64_t bytes) try {
  runtime::copy_to_host(opened(*context), destination, source, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_copy_to_device_async(gpt2_context *context, void *destination, const void *pinned, int64_t bytes) try {
  runtime::copy_to_device_async(opened(*context), destination, pinned, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_copy_to_host_async(gpt2_context *context, void *pinned, const void *source, int64_t bytes) try {
  runtime::copy_to_host_async(opened(*context), pinned, source, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_copy_on_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) try {
  runtime::copy_on_device(opened(*context), destination, source, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fill_zero(gpt2_context *context, void *destination, int64_t bytes) try {
  runtime::fill_zero(opened(*context), destination, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_cast_weights(gpt2_context *context, void *weight, const float *master, int64_t count) try {
  runtime::cast_weights(opened(*context), weight, master, count);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_create(gpt2_context *context, gpt2_event **event) try {
  check_handles({{"event", event}});
  runtime::event_create(opened(*context), event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_destroy(gpt2_context *context, gpt2_event *event) try {
  check_handles({{"event", event}});
  runtime::event_destroy(opened(*context), *event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_record(gpt2_context *context, gpt2_event *event) try {
  check_handles({{"event", event}});
  runtime::event_record(opened(*context), *event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_query(gpt2_context *context, int32_t *reached, gpt2_event *event) try {
  check_handles({{"reached", reached}, {"event", event}});
  runtime::event_query(opened(*context), reached, *event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_elapsed(gpt2_context *context, float *milliseconds, gpt2_event *from, gpt2_event *to) try {
  check_handles({{"milliseconds", milliseconds}, {"from", from}, {"to", to}});
  runtime::event_elapsed(opened(*context), milliseconds, *from, *to);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_event_wait(gpt2_context *context, gpt2_event *event) try {
  check_handles({{"event", event}});
  runtime::event_wait(opened(*context), *event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_capture_begin(gpt2_context *context) try {
  runtime::capture_begin(opened(*context));
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_capture_end(gpt2_context *context, gpt2_graph **graph) try {
  check_handles({{"graph", graph}});
  runtime::capture_end(opened(*context), graph);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_graph_launch(gpt2_context *context, gpt2_graph *graph) try {
  check_handles({{"graph", graph}});
  runtime::graph_launch(opened(*context), *graph);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *graph) try {
  check_handles({{"graph", graph}});
  runtime::graph_destroy(opened(*context), *graph);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_module_load(gpt2_context *context, gpt2_module **module, const void *path, int64_t bytes) try {
  check_handles({{"module", module}});
  runtime::module_load(opened(*context), module, path, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_module_free(gpt2_context *context, gpt2_module *module) try {
  check_handles({{"module", module}});
  runtime::module_free(opened(*context), *module);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_module_launch(gpt2_context *context, gpt2_module *module, int32_t kernel, int32_t grid_x, int32_t grid_y,
    int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z, int32_t shared_bytes, const void *arguments,
        int64_t bytes, const int64_t *reach, int64_t parameters) try {
  check_handles({{"module", module}});
  runtime::module_launch(opened(*context), *module, kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,
  shared_bytes, arguments, bytes, reach, parameters);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_id(gpt2_context *context, void *id, int32_t is_one_machine) try {
  runtime::communicator_id(opened(*context), id, is_one_machine);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
    int32_t ranks, int32_t timeout_milliseconds) try {
  check_handles({{"communicator", communicator}});
  runtime::communicator_create(opened(*context), communicator, id, rank, ranks, timeout_milliseconds);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon) try {
  check_handles({{"communicator", communicator}});
  runtime::communicator_destroy(opened(*context), *communicator, abandon);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_share(gpt2_context *context, gpt2_communicator *communicator, void *memory, int64_t bytes) try {
  check_handles({{"communicator", communicator}});
  runtime::communicator_share(opened(*context), *communicator, memory, bytes);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_unshare(gpt2_context *context, gpt2_communicator *communicator, void *memory) try {
  check_handles({{"communicator", communicator}});
  runtime::communicator_unshare(opened(*context), *communicator, memory);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator) try {
  check_handles({{"communicator", communicator}});
  runtime::communicator_check(opened(*context), *communicator);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_collectives_join(gpt2_context *context, gpt2_communicator *communicator) try {
  check_handles({{"communicator", communicator}});
  runtime::collectives_join(opened(*context), *communicator);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *communicator, gpt2_event *event) try {
  check_handles({{"communicator", communicator}, {"event", event}});
  runtime::collectives_record(opened(*context), *communicator, *event);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_collectives_group_begin(gpt2_context *context, gpt2_communicator *communicator) try {
  check_handles({{"communicator", communicator}});
  runtime::collectives_group_begin(opened(*context), *communicator);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator) try {
  check_handles({{"communicator", communicator}});
  runtime::collectives_group_end(opened(*context), *communicator);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int32_t B, int32_t T, int32_t S, int32_t C,
    int32_t V) try {
  check_sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"V", V}});
  check_tensors({{"out", out}, {"wte", wte}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(positions != nullptr || S == T, "positions != NULL || S == T, got S = " + std::to_string(S) + ", T = " +
      std::to_string(T));
  check_that((tokens != nullptr) == (positions == nullptr), "tokens exactly where positions == NULL");
  check_that((texts != nullptr) == (positions != nullptr), "texts exactly where positions != NULL");
  ops::embedding_forward(opened(*context), out, tokens, texts, positions, wte, wpe, B, T, S, C, V);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens,
    int32_t B, int32_t T, int32_t C, int32_t V, int32_t accumulate) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}});
  check_tensors({{"dwte", dwte}, {"dout", dout}, {"tokens", tokens}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_scratch(*context, ops::embedding_scratch(opened(*context), B, T, C, V));
  ops::embedding_backward(opened(*context), dwte, dwpe, dout, tokens, B, T, C, V, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_norm_forward(gpt2_context *context, void *out, uint8_t *values, float *scale, float *norm, float *mean,
    float *rstd, const void *in, const void *weight, const void *bias, int32_t N, int32_t C, float eps) try {
  check_sizes({{"N", N}, {"C", C}});
  check_tensors({{"rstd", rstd}, {"in", in}, {"weight", weight}});
  check_that(out != nullptr || values != nullptr, "out != NULL || values != NULL");
  check_that(eps >= 0, "eps >= 0, got eps = " + std::to_string(eps));
  check_that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C));
  check_that(!scale == !values, "both scale and values, or neither");
  check_that(!norm == !values, "both norm and values, or neither");
  check_that(!bias == !mean, "both bias and mean, or neither");
  if (values) context->check_fp8();
  ops::norm_forward(opened(*context), out, values, scale, norm, mean, rstd, in, weight, bias, N, C, eps);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_norm_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int32_t N, int32_t C, int32_t accumulate) try {
  check_sizes({{"N", N}, {"C", C}});
  check_tensors({{"din", din}, {"dweight", dweight}, {"dout", dout}, {"in", in}, {"weight", weight}, {"rstd", rstd}});
  check_that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C));
  check_that(!scale == !values, "both scale and values, or neither");
  check_that(!norm == !values, "both norm and values, or neither");
  check_that(!dbias == !mean, "both dbias and mean, or neither");
  if (values) context->check_fp8();
  check_scratch(*context, ops::norm_scratch(opened(*context), N, C));
  ops::norm_backward(opened(*context), din, values, scale, norm, dweight, dbias, dout, dresidual, in, weight, mean,
  rstd, N, C, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *weight,
    const void *bias, const void *residual, int32_t N, int32_t C, int32_t O, int32_t activation) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"out", out}, {"in", in}, {"weight", weight}});
  check_that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
      std::to_string(activation));
  check_that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  check_that(!residual || activation == GPT2_NO_ACTIVATION, "residual only where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_scratch(*context, ops::matmul_scratch(opened(*context), N, C, O, false));
  ops::matmul_forward(opened(*context), out, pre, in, weight, bias, residual, N, C, O, activation);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int32_t N, int32_t C, int32_t O, int32_t activation) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"din", din}, {"dout", dout}, {"weight", weight}});
  check_that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
      std::to_string(activation));
  check_that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  check_that((activated != nullptr) == (activation == GPT2_RELU_SQUARED),
      "activated exactly where activation == GPT2_RELU_SQUARED, got activation = " + std::to_string(activation));
  check_scratch(*context, ops::matmul_scratch(opened(*context), N, C, O, false));
  ops::matmul_backward_input(opened(*context), din, dout, weight, pre, activated, N, C, O, activation);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout, const void *in,
    int32_t N, int32_t C, int32_t O, int32_t accumulate) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"dweight", dweight}, {"dout", dout}, {"in", in}});
  check_scratch(*context, ops::matmul_scratch(opened(*context), N, C, O, true));
  ops::matmul_backward_weight(opened(*context), dweight, dbias, dout, in, N, C, O, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_qk_norm_rotary_forward(gpt2_context *context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int32_t B, int32_t T, int32_t S,
    int32_t C, int32_t NH, float eps, float query_factor) try {
  check_sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"NH", NH}});
  check_tensors({{"qkv", qkv}, {"rotations", rotations}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(C % (2 * NH) == 0, "C % (2 * NH) == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_that(T <= S, "T <= S, got T = " + std::to_string(T) + ", S = " + std::to_string(S));
  check_that(eps >= 0, "eps >= 0, got eps = " + std::to_string(eps));
  check_that(!values == !value_factors, "both values and value_factors, or neither");
  check_that(!embedded || value_factors != nullptr, "embedded only where value_factors != NULL");
  ops::qk_norm_rotary_forward(opened(*context), qkv, rstd, values, rotations, positions, value_factors, embedded, B, T,
  S, C, NH, eps, query_factor);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_qk_norm_rotary_backward(gpt2_context *context, void *dqkv, float *dvalue_factors, void *dembedded,
    const void *qkv, const float *rstd, const float *rotations, const void *value_factors, const void *values,
    const void *embedded, int32_t B, int32_t T, int32_t C, int32_t NH, float query_factor, int32_t accumulate) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}});
  check_tensors({{"dqkv", dqkv}, {"qkv", qkv}, {"rotations", rotations}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(C % (2 * NH) == 0, "C % (2 * NH) == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_that(query_factor != 0, "query_factor != 0, got query_factor = " + std::to_string(query_factor));
  check_that(!dvalue_factors == !value_factors, "both dvalue_factors and value_factors, or neither");
  check_that(!dembedded == !embedded, "both dembedded and embedded, or neither");
  check_that(!values == !value_factors, "both values and value_factors, or neither");
  check_that(!embedded || value_factors != nullptr, "embedded only where value_factors != NULL");
  check_scratch(*context, ops::factors_scratch(opened(*context), 2));
  ops::qk_norm_rotary_backward(opened(*context), dqkv, dvalue_factors, dembedded, qkv, rstd, rotations, value_factors,
  values, embedded, B, T, C, NH, query_factor, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, const int32_t *first,
    int32_t B, int32_t T, int32_t C, int32_t NH) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}});
  check_tensors({{"out", out}, {"lse", lse}, {"qkv", qkv}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_scratch(*context, ops::attention_scratch(opened(*context), B, T, C, NH));
  ops::attention_forward(opened(*context), out, lse, qkv, first, B, T, C, NH);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int32_t B, int32_t T, int32_t C, int32_t NH) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}});
  check_tensors({{"dqkv", dqkv}, {"dout", dout}, {"out", out}, {"qkv", qkv}, {"lse", lse}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_scratch(*context, ops::attention_scratch(opened(*context), B, T, C, NH));
  ops::attention_backward(opened(*context), dqkv, dout, out, qkv, lse, first, B, T, C, NH);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count) try {
  check_sizes({{"count", count}});
  check_tensors({{"out", out}, {"in", in}});
  ops::gelu_forward(opened(*context), out, in, count);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count) try {
  check_sizes({{"count", count}});
  check_tensors({{"din", din}, {"dout", dout}, {"in", in}});
  ops::gelu_backward(opened(*context), din, dout, in, count);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count) try {
  check_sizes({{"count", count}});
  check_tensors({{"out", out}, {"a", a}, {"b", b}});
  ops::residual_forward(opened(*context), out, a, b, count);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_softcap_forward(gpt2_context *context, void *out, const void *in, int64_t count, float cap) try {
  check_sizes({{"count", count}});
  check_tensors({{"out", out}, {"in", in}});
  check_that(cap > 0, "cap > 0, got cap = " + std::to_string(cap));
  ops::softcap_forward(opened(*context), out, in, count, cap);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_stream_sum_forward(gpt2_context *context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int32_t N, int32_t C) try {
  check_sizes({{"N", N}, {"C", C}});
  check_tensors({{"out", out}, {"in", in}, {"embedded", embedded}, {"factors", factors}});
  ops::stream_sum_forward(opened(*context), out, in, skip, embedded, factors, N, C);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_stream_sum_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm,
    void *dembedded, float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in,
        const void *skip, const void *embedded, const void *factors, int32_t N, int32_t C, int32_t accumulate) try {
  check_sizes({{"N", N}, {"C", C}});
  check_tensors({{"din", din}, {"dembedded", dembedded}, {"dfactors", dfactors}, {"dout", dout}, {"in", in},
      {"embedded", embedded}, {"factors", factors}});
  check_that(values == nullptr || C % 16 == 0, "values == NULL || C % 16 == 0, got C = " + std::to_string(C));
  check_that(!scale == !values, "both scale and values, or neither");
  check_that(!norm == !values, "both norm and values, or neither");
  check_that(!later_factors == !later, "both later_factors and later, or neither");
  if (values) context->check_fp8();
  check_scratch(*context, ops::factors_scratch(opened(*context), 3));
  ops::stream_sum_backward(opened(*context), din, values, scale, norm, dembedded, dfactors, dout, later, later_factors,
  in, skip, embedded, factors, N, C, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
    int32_t N, int32_t V, int32_t Vp, float dloss) try {
  check_sizes({{"N", N}, {"V", V}, {"Vp", Vp}});
  check_tensors({{"losses", losses}, {"logits", logits}, {"targets", targets}});
  check_that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp));
  ops::cross_entropy(opened(*context), losses, dlogits, logits, targets, N, V, Vp, dloss);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_classifier(gpt2_context *context, float *losses, void *din, void *dweight, float *dbias, float *step,
    void *logits, const void *in, const uint8_t *in_values, const float *in_scale, const void *weight,
        const uint8_t *weight_values, const uint8_t *weight_transposed, const float *factors, const void *bias,
        const int32_t *targets, int32_t N, int32_t C, int32_t V, int32_t Vp, float dloss, float softcap,
        int32_t accumulate) try {
  check_sizes({{"N", N}, {"C", C}, {"V", V}, {"Vp", Vp}});
  check_tensors({{"losses", losses}, {"logits", logits}, {"in", in}, {"weight", weight}, {"targets", targets}});
  check_that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp));
  check_that(softcap >= 0, "softcap >= 0, got softcap = " + std::to_string(softcap));
  check_that(in_values == nullptr || C % 16 == 0, "in_values == NULL || C % 16 == 0, got C = " + std::to_string(C));
  check_that(in_values == nullptr || Vp % 16 == 0, "in_values == NULL || Vp % 16 == 0, got Vp = " + std::to_string(Vp));
  check_that(!step || in_values != nullptr, "step only where in_values != NULL");
  check_that(!in_scale == !in_values, "both in_scale and in_values, or neither");
  check_that(!weight_values == !in_values, "both weight_values and in_values, or neither");
  check_that(!weight_transposed == !in_values, "both weight_transposed and in_values, or neither");
  check_that(!factors == !in_values, "both factors and in_values, or neither");
  if (in_values) context->check_fp8();
  check_scratch(*context, ops::classifier_scratch(opened(*context), N, C, Vp, din || dweight || dbias, in_values));
  ops::classifier(opened(*context), losses, din, dweight, dbias, step, logits, in, in_values, in_scale, weight,
  weight_values, weight_transposed, factors, bias, targets, N, C, V, Vp, dloss, softcap, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale,
    int32_t accumulate) try {
  check_sizes({{"N", N}});
  check_tensors({{"step", step}, {"losses", losses}});
  ops::loss_sum(opened(*context), step, losses, N, scale, accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_quantize_weight(gpt2_context *context, uint8_t *values, uint8_t *transposed, float *factors,
    const void *weight, const void *bias, int32_t C, int32_t O) try {
  check_sizes({{"C", C}, {"O", O}});
  check_tensors({{"factors", factors}, {"weight", weight}});
  check_that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  check_that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O));
  if (values || transposed) context->check_fp8();
  check_scratch(*context, ops::fp8_quantize_weight_scratch(opened(*context), C, O));
  ops::fp8_quantize_weight(opened(*context), values, transposed, factors, weight, bias, C, O);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_transpose(gpt2_context *context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int32_t N, int32_t C) try {
  check_sizes({{"N", N}, {"C", C}});
  check_tensors({{"columnwise", columnwise}, {"columnwise_scale", columnwise_scale}, {"columnwise_norm",
      columnwise_norm}, {"values", values}, {"scale", scale}, {"norm", norm}});
  check_that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  context->check_fp8();
  ops::fp8_transpose(opened(*context), columnwise, columnwise_scale, columnwise_norm, values, scale, norm, N, C);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_matmul_forward(gpt2_context *context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int32_t N, int32_t C, int32_t O, int32_t activation) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"in", in}, {"in_scale", in_scale}, {"weight", weight}, {"factors", factors}});
  check_that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  check_that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O));
  check_that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
      std::to_string(activation));
  check_that((out != nullptr) == (activation == GPT2_NO_ACTIVATION),
      "out exactly where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_that((values != nullptr) == (activation != GPT2_NO_ACTIVATION),
      "values exactly where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_that(!scale == !values, "both scale and values, or neither");
  check_that(!columnwise || activation != GPT2_NO_ACTIVATION, "columnwise only where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_that(!columnwise_scale == !columnwise, "both columnwise_scale and columnwise, or neither");
  check_that((derivative != nullptr) == (activation == GPT2_GELU), "derivative exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  check_that(!in_norm == !values, "both in_norm and values, or neither");
  check_that(!in_columnwise_norm == !columnwise, "both in_columnwise_norm and columnwise, or neither");
  check_that(!residual || activation == GPT2_NO_ACTIVATION, "residual only where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  context->check_fp8();
  check_scratch(*context, ops::fp8_matmul_scratch(opened(*context), N, C, O, false));
  ops::fp8_matmul_forward(opened(*context), out, values, scale, columnwise, columnwise_scale, derivative, in, in_scale,
  in_norm, in_columnwise_norm, weight, factors, bias, residual, N, C, O, activation);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_matmul_backward_input(gpt2_context *context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int32_t N,
    int32_t C, int32_t O, int32_t activation) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"dout", dout}, {"dout_scale", dout_scale}, {"transposed", transposed}, {"factors", factors}});
  check_that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O));
  check_that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  check_that(activation >= 0 && activation <= 2, "activation >= 0 && activation <= 2, got activation = " +
      std::to_string(activation));
  check_that((din != nullptr) == (activation == GPT2_NO_ACTIVATION),
      "din exactly where activation == GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_that((values != nullptr) == (activation != GPT2_NO_ACTIVATION),
      "values exactly where activation != GPT2_NO_ACTIVATION, got activation = " + std::to_string(activation));
  check_that(!scale == !values, "both scale and values, or neither");
  check_that(!columnwise == !values, "both columnwise and values, or neither");
  check_that(!columnwise_scale == !values, "both columnwise_scale and values, or neither");
  check_that(!dout_norm == !values, "both dout_norm and values, or neither");
  check_that(!dout_columnwise_norm == !values, "both dout_columnwise_norm and values, or neither");
  check_that((derivative != nullptr) == (activation == GPT2_GELU), "derivative exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  check_that((activated != nullptr) == (activation == GPT2_RELU_SQUARED),
      "activated exactly where activation == GPT2_RELU_SQUARED, got activation = " + std::to_string(activation));
  check_that(!activated_scale == !activated, "both activated_scale and activated, or neither");
  check_that(!activated_columnwise_scale == !activated, "both activated_columnwise_scale and activated, or neither");
  context->check_fp8();
  check_scratch(*context, ops::fp8_matmul_scratch(opened(*context), N, C, O, false));
  ops::fp8_matmul_backward_input(opened(*context), din, values, scale, columnwise, columnwise_scale, dout, dout_scale,
  dout_norm, dout_columnwise_norm, transposed, factors, derivative, activated, activated_scale,
  activated_columnwise_scale, N, C, O, activation);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int32_t N, int32_t C, int32_t O,
    int32_t accumulate) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"dweight", dweight}, {"dout", dout}, {"dout_scale", dout_scale}, {"in", in}, {"in_scale", in_scale}});
  check_that(O % 16 == 0, "O % 16 == 0, got O = " + std::to_string(O));
  check_that(C % 16 == 0, "C % 16 == 0, got C = " + std::to_string(C));
  context->check_fp8();
  check_scratch(*context, ops::fp8_matmul_scratch(opened(*context), N, C, O, true));
  ops::fp8_matmul_backward_weight(opened(*context), dweight, dbias, dout, dout_scale, in, in_scale, N, C, O,
  accumulate != 0);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_global_norm(gpt2_context *context, float *step, void *matrices, const float *vectors,
    gpt2_communicator *communicator, int32_t parts, int64_t matrix_count, int64_t vector_count, float targets,
    float max_norm) try {
  check_sizes({{"parts", parts}, {"matrix_count", matrix_count}, {"vector_count", vector_count}});
  check_tensors({{"step", step}, {"matrices", matrices}, {"vectors", vectors}});
  check_that(communicator != nullptr || parts == 1, "communicator != NULL || parts == 1, got parts = " +
      std::to_string(parts));
  check_that(parts == 1 || matrix_count % 32 == 0, "parts == 1 || matrix_count % 32 == 0, got parts = " +
      std::to_string(parts) + ", matrix_count = " + std::to_string(matrix_count));
  check_scratch(*context, ops::global_norm_scratch(opened(*context), matrix_count, vector_count));
  ops::global_norm(opened(*context), step, matrices, vectors, communicator, parts, matrix_count, vector_count, targets,
  max_norm);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
    const float *step, int64_t count, int32_t gradient_dtype, int32_t first_scalar, float rate, float beta1,
    float beta2, float eps, float weight_decay) try {
  check_sizes({{"count", count}, {"first_scalar", first_scalar}});
  check_tensors({{"weight", weight}, {"master", master}, {"m", m}, {"v", v}, {"gradient", gradient}, {"step", step}});
  check_that(first_scalar >= 4, "first_scalar >= 4, got first_scalar = " + std::to_string(first_scalar));
  check_that(first_scalar + 2 <= 14, "first_scalar + 2 <= 14, got first_scalar = " + std::to_string(first_scalar));
  check_that(gradient_dtype == GPT2_FP32 || gradient_dtype == GPT2_BF16, "gradient_dtype fp32 or bf16, got " +
      std::to_string(gradient_dtype));
  ops::adamw(opened(*context), weight, master, m, v, gradient, step, count, gradient_dtype, first_scalar, rate, beta1,
  beta2, eps, weight_decay);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_muon_momentum(gpt2_context *context, void *direction, float *momentum, const void *gradient, const float *step,
    int32_t rows, int32_t columns, int32_t gradient_dtype, int32_t scalar) try {
  check_sizes({{"rows", rows}, {"columns", columns}, {"scalar", scalar}});
  check_tensors({{"direction", direction}, {"momentum", momentum}, {"gradient", gradient}, {"step", step}});
  check_that(scalar >= 4, "scalar >= 4, got scalar = " + std::to_string(scalar));
  check_that(scalar < 14, "scalar < 14, got scalar = " + std::to_string(scalar));
  check_that(gradient_dtype == GPT2_FP32 || gradient_dtype == GPT2_BF16, "gradient_dtype fp32 or bf16, got " +
      std::to_string(gradient_dtype));
  ops::muon_momentum(opened(*context), direction, momentum, gradient, step, rows, columns, gradient_dtype, scalar);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_normalize_matrices(gpt2_context *context, void *matrices, int32_t M, int32_t R, int32_t K, float margin,
    float eps) try {
  check_sizes({{"M", M}, {"R", R}, {"K", K}});
  check_tensors({{"matrices", matrices}});
  check_scratch(*context, ops::newton_schulz_scratch(opened(*context), M, R, K));
  ops::normalize_matrices(opened(*context), matrices, M, R, K, margin, eps);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_newton_schulz(gpt2_context *context, void *out, const void *in, int32_t M, int32_t R, int32_t K, float a,
    float b, float c) try {
  check_sizes({{"M", M}, {"R", R}, {"K", K}});
  check_tensors({{"out", out}, {"in", in}});
  check_that(R <= K, "R <= K, got R = " + std::to_string(R) + ", K = " + std::to_string(K));
  check_scratch(*context, ops::newton_schulz_scratch(opened(*context), M, R, K));
  ops::newton_schulz(opened(*context), out, in, M, R, K, a, b, c);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_muon_update(gpt2_context *context, void *weight, float *master, const void *direction, const float *step,
    int32_t rows, int32_t columns, float rate, float weight_decay) try {
  check_sizes({{"rows", rows}, {"columns", columns}});
  check_tensors({{"weight", weight}, {"master", master}, {"direction", direction}, {"step", step}});
  ops::muon_update(opened(*context), weight, master, direction, step, rows, columns, rate, weight_decay);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_norm_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int32_t N, int32_t C, int32_t O,
    int32_t activation) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_tensors({{"out", out}, {"in", in}, {"norm_weight", norm_weight}, {"norm_bias", norm_bias}, {"weight", weight}});
  check_that(activation >= 0 && activation <= 1, "activation >= 0 && activation <= 1, got activation = " +
      std::to_string(activation));
  check_that((pre != nullptr) == (activation == GPT2_GELU), "pre exactly where activation == GPT2_GELU, got activation = " + std::to_string(activation));
  check_scratch(*context, ops::norm_matmul_scratch(opened(*context), N, C, O));
  ops::norm_matmul_forward(opened(*context), out, pre, in, norm_weight, norm_bias, weight, bias, N, C, O, activation);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_attention_cached_forward(gpt2_context *context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int32_t B, int32_t T, int32_t S, int32_t C, int32_t NH, int32_t window) try {
  check_sizes({{"B", B}, {"T", T}, {"S", S}, {"C", C}, {"NH", NH}});
  check_tensors({{"out", out}, {"keys", keys}, {"values", values}, {"qkv", qkv}, {"positions", positions}});
  check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31");
  check_that(C % NH == 0, "C % NH == 0, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_that(C / NH <= 256, "C / NH <= 256, got C = " + std::to_string(C) + ", NH = " + std::to_string(NH));
  check_that(window >= 0, "window >= 0, got window = " + std::to_string(window));
  check_scratch(*context, ops::attention_cached_scratch(opened(*context), S));
  ops::attention_cached_forward(opened(*context), out, keys, values, qkv, positions, B, T, S, C, NH, window);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_sample(gpt2_context *context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds,
    int32_t B, int32_t S, int32_t V, int32_t Vp, float temperature, int32_t top_k, float top_p) try {
  check_sizes({{"B", B}, {"S", S}, {"V", V}, {"Vp", Vp}});
  check_tensors({{"tokens", tokens}, {"positions", positions}, {"logits", logits}, {"seeds", seeds}});
  check_that(V <= Vp, "V <= Vp, got V = " + std::to_string(V) + ", Vp = " + std::to_string(Vp));
  check_that(temperature >= 0, "temperature >= 0, got temperature = " + std::to_string(temperature));
  check_that(top_k >= 0, "top_k >= 0, got top_k = " + std::to_string(top_k));
  check_that(top_p >= 0, "top_p >= 0, got top_p = " + std::to_string(top_p));
  check_that(top_p <= 1, "top_p <= 1, got top_p = " + std::to_string(top_p));
  check_scratch(*context, ops::sample_scratch(opened(*context), B, V));
  ops::sample(opened(*context), tokens, positions, logits, seeds, B, S, V, Vp, temperature, top_k, top_p);
  context->check_launches();
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_all_reduce(gpt2_context *context, void *data, gpt2_communicator *communicator, int64_t count,
    int32_t dtype) try {
  check_sizes({{"count", count}});
  check_tensors({{"data", data}});
  check_handles({{"a communicator", communicator}});
  check_that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  ops::all_reduce(opened(*context), data, *communicator, count, dtype);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_reduce_scatter(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
    int64_t count, int64_t stride, int32_t dtype) try {
  check_sizes({{"count", count}, {"stride", stride}});
  check_tensors({{"out", out}, {"in", in}});
  check_handles({{"a communicator", communicator}});
  check_that(stride >= count, "stride >= count, got stride = " + std::to_string(stride) + ", count = " +
      std::to_string(count));
  check_that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  ops::reduce_scatter(opened(*context), out, in, *communicator, count, stride, dtype);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_all_gather(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator, int64_t count,
    int32_t dtype) try {
  check_sizes({{"count", count}});
  check_tensors({{"out", out}, {"in", in}});
  check_handles({{"a communicator", communicator}});
  check_that(dtype == GPT2_FP32 || dtype == GPT2_BF16, "dtype fp32 or bf16, got " + std::to_string(dtype));
  ops::all_gather(opened(*context), out, in, *communicator, count, dtype);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_embedding_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t V) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"V", V}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::embedding_scratch(opened(*context), B, T, C, V);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_norm_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C) try {
  check_sizes({{"N", N}, {"C", C}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::norm_scratch(opened(*context), N, C);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O, int32_t gradients) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::matmul_scratch(opened(*context), N, C, O, gradients != 0);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_factors_scratch(gpt2_context *context, int64_t *bytes, int32_t K) try {
  check_sizes({{"K", K}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::factors_scratch(opened(*context), K);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_attention_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t T, int32_t C, int32_t NH) try {
  check_sizes({{"B", B}, {"T", T}, {"C", C}, {"NH", NH}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::attention_scratch(opened(*context), B, T, C, NH);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_classifier_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t Vp, int32_t gradients,
    int32_t fp8) try {
  check_sizes({{"N", N}, {"C", C}, {"Vp", Vp}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::classifier_scratch(opened(*context), N, C, Vp, gradients != 0, fp8 != 0);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_quantize_weight_scratch(gpt2_context *context, int64_t *bytes, int32_t C, int32_t O) try {
  check_sizes({{"C", C}, {"O", O}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::fp8_quantize_weight_scratch(opened(*context), C, O);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_fp8_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O,
    int32_t gradients) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::fp8_matmul_scratch(opened(*context), N, C, O, gradients != 0);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_global_norm_scratch(gpt2_context *context, int64_t *bytes, int64_t matrix_count, int64_t vector_count) try {
  check_sizes({{"matrix_count", matrix_count}, {"vector_count", vector_count}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::global_norm_scratch(opened(*context), matrix_count, vector_count);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_newton_schulz_scratch(gpt2_context *context, int64_t *bytes, int32_t M, int32_t R, int32_t K) try {
  check_sizes({{"M", M}, {"R", R}, {"K", K}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::newton_schulz_scratch(opened(*context), M, R, K);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_norm_matmul_scratch(gpt2_context *context, int64_t *bytes, int32_t N, int32_t C, int32_t O) try {
  check_sizes({{"N", N}, {"C", C}, {"O", O}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::norm_matmul_scratch(opened(*context), N, C, O);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_attention_cached_scratch(gpt2_context *context, int64_t *bytes, int32_t S) try {
  check_sizes({{"S", S}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::attention_cached_scratch(opened(*context), S);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}

int gpt2_sample_scratch(gpt2_context *context, int64_t *bytes, int32_t B, int32_t V) try {
  check_sizes({{"B", B}, {"V", V}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::sample_scratch(opened(*context), B, V);
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}
