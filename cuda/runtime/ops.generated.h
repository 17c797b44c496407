// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// The functions of gpt2.h as each library implements them. All throw a Failure. Ops run after api.generated.cpp has checked
// arguments and workspace; *_scratch give bytes.
#pragma once

#ifdef GPT2_CUDA
#include "cuda-context.h"
#else
#include "../cpu/context.h"
#endif

namespace gpt2::runtime {

void set_workspace(Context &context, void *workspace, int64_t bytes);
void allocate(Context &context, void **memory, int64_t bytes);
void free(Context &context, void *memory);
void allocate_pinned(Context &context, void **memory, int64_t bytes);
void free_pinned(Context &context, void *memory);
void memory_info(Context &context, int64_t *available, int64_t *total);
void copy_to_device(Context &context, void *destination, const void *source, int64_t bytes);
void copy_to_host(Context &context, void *destination, const void *source, int64_t bytes);
void copy_to_device_async(Context &context, void *destination, const void *pinned, int64_t bytes);
void copy_to_host_async(Context &context, void *pinned, const void *source, int64_t bytes);
void copy_on_device(Context &context, void *destination, const void *source, int64_t bytes);
void fill_zero(Context &context, void *destination, int64_t bytes);
void cast_weights(Context &context, void *weight, const float *master, int64_t count);
void event_create(Context &context, gpt2_event **event);
void event_destroy(Context &context, gpt2_event &event);
void event_record(Context &context, gpt2_event &event);
void event_query(Context &context, int32_t *reached, gpt2_event &event);
void event_elapsed(Context &context, float *milliseconds, gpt2_event &from, gpt2_event &to);
void event_wait(Context &context, gpt2_event &event);
void capture_begin(Context &context);
void capture_end(Context &context, gpt2_graph **graph);
void graph_launch(Context &context, gpt2_graph &graph);
void graph_destroy(Context &context, gpt2_graph &graph);
void module_load(Context &context, gpt2_module **module, const void *path, int64_t bytes);
void module_free(Context &context, gpt2_module &module);
void module_launch(Context &context, gpt2_module &module, int32_t kernel, int32_t grid_x, int32_t grid_y,
    int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z, int32_t shared_bytes, const void *arguments,
        int64_t bytes, const int64_t *reach, int64_t parameters);
void communicator_id(Context &context, void *id, int32_t is_one_machine);
void communicator_create(Context &context, gpt2_communicator **communicator, const void *id, int32_t rank,
    int32_t ranks, int32_t timeout_milliseconds);
void communicator_destroy(Context &context, gpt2_communicator &communicator, int32_t abandon);
void communicator_share(Context &context, gpt2_communicator &communicator, void *memory, int64_t bytes);
void communicator_unshare(Context &context, gpt2_communicator &communicator, void *memory);
void communicator_check(Context &context, gpt2_communicator &communicator);
void collectives_join(Context &context, gpt2_communicator &communicator);
void collectives_record(Context &context, gpt2_communicator &communicator, gpt2_event &event);
void collectives_group_begin(Context &context, gpt2_communicator &communicator);
void collectives_group_end(Context &context, gpt2_communicator &communicator);

}  // namespace gpt2::runtime

namespace gpt2::ops {

void embedding_forward(Context &context, void *out, const int32_t *tokens, const int32_t *texts,
    const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C, int V);
void embedding_backward(Context &context, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B, int T,
    int C, int V, bool accumulate);
void norm_forward(Context &context, void *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
    const void *in, const void *weight, const void *bias, int N, int C, float eps);
void norm_backward(Context &context, void *din, uint8_t *values, float *scale, float *norm, float *dweight,
    float *dbias, const void *dout, const void *dresidual, const void *in, const void *weight, const float *mean,
    const float *rstd, int N, int C, bool accumulate);
void matmul_forward(Context &context, void *out, void *pre, const void *in, const void *weight, const void *bias,
    const void *residual, int N, int C, int O, int activation);
void matmul_backward_input(Context &context, void *din, const void *dout, const void *weight, const void *pre,
    const void *activated, int N, int C, int O, int activation);
void matmul_backward_weight(Context &context, void *dweight, float *dbias, const void *dout, const void *in, int N,
    int C, int O, bool accumulate);
void qk_norm_rotary_forward(Context &context, void *qkv, float *rstd, void *values, const float *rotations,
    const int32_t *positions, const void *value_factors, const void *embedded, int B, int T, int S, int C, int NH,
    float eps, float query_factor);
void qk_norm_rotary_backward(Context &context, void *dqkv, float *dvalue_factors, void *dembedded, const void *qkv,
    const float *rstd, const float *rotations, const void *value_factors, const void *values, const void *embedded,
    int B, int T, int C, int NH, float query_factor, bool accumulate);
void attention_forward(Context &context, void *out, float *lse, const void *qkv, const int32_t *first, int B, int T,
    int C, int NH);
void attention_backward(Context &context, void *dqkv, const void *dout, const void *out, const void *qkv,
    const float *lse, const int32_t *first, int B, int T, int C, int NH);
void gelu_forward(Context &context, void *out, const void *in, int64_t count);
void gelu_backward(Context &context, void *din, const void *dout, const void *in, int64_t count);
void residual_forward(Context &context, void *out, const void *a, const void *b, int64_t count);
void softcap_forward(Context &context, void *out, const void *in, int64_t count, float cap);
void stream_sum_forward(Context &context, void *out, const void *in, const void *skip, const void *embedded,
    const void *factors, int N, int C);
void stream_sum_backward(Context &context, void *din, uint8_t *values, float *scale, float *norm, void *dembedded,
    float *dfactors, const void *dout, const void *later, const void *later_factors, const void *in, const void *skip,
    const void *embedded, const void *factors, int N, int C, bool accumulate);
void cross_entropy(Context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets, int N,
    int V, int Vp, float dloss);
void classifier(Context &context, float *losses, void *din, void *dweight, float *dbias, float *step, void *logits,
    const void *in, const uint8_t *in_values, const float *in_scale, const void *weight, const uint8_t *weight_values,
    const uint8_t *weight_transposed, const float *factors, const void *bias, const int32_t *targets, int N, int C,
    int V, int Vp, float dloss, float softcap, bool accumulate);
void loss_sum(Context &context, float *step, const float *losses, int N, float scale, bool accumulate);
void fp8_quantize_weight(Context &context, uint8_t *values, uint8_t *transposed, float *factors, const void *weight,
    const void *bias, int C, int O);
void fp8_transpose(Context &context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
    const uint8_t *values, const float *scale, const float *norm, int N, int C);
void fp8_matmul_forward(Context &context, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale, const float *in_norm,
    const float *in_columnwise_norm, const uint8_t *weight, const float *factors, const void *bias,
    const void *residual, int N, int C, int O, int activation);
void fp8_matmul_backward_input(Context &context, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
    float *columnwise_scale, const uint8_t *dout, const float *dout_scale, const float *dout_norm,
    const float *dout_columnwise_norm, const uint8_t *transposed, const float *factors, const int8_t *derivative,
    const uint8_t *activated, const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
    int O, int activation);
void fp8_matmul_backward_weight(Context &context, void *dweight, float *dbias, const uint8_t *dout,
    const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate);
void global_norm(Context &context, float *step, void *matrices, const float *vectors, gpt2_communicator *communicator,
    int parts, int64_t matrix_count, int64_t vector_count, float targets, float max_norm);
void adamw(Context &context, void *weight, float *master, float *m, float *v, const void *gradient, const float *step,
    int64_t count, int gradient_dtype, int first_scalar, float rate, float beta1, float beta2, float eps,
        float weight_decay);
void muon_momentum(Context &context, void *direction, float *momentum, const void *gradient, const float *step,
    int rows, int columns, int gradient_dtype, int scalar);
void normalize_matrices(Context &context, void *matrices, int M, int R, int K, float margin, float eps);
void newton_schulz(Context &context, void *out, const void *in, int M, int R, int K, float a, float b, float c);
void muon_update(Context &context, void *weight, float *master, const void *direction, const float *step, int rows,
    int columns, float rate, float weight_decay);
void norm_matmul_forward(Context &context, void *out, void *pre, const void *in, const void *norm_weight,
    const void *norm_bias, const void *weight, const void *bias, int N, int C, int O, int activation);
void attention_cached_forward(Context &context, void *out, void *keys, void *values, const void *qkv,
    const int32_t *positions, int B, int T, int S, int C, int NH, int window);
void sample(Context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
    int S, int V, int Vp, float temperature, int top_k, float top_p);
void all_reduce(Context &context, void *data, gpt2_communicator &communicator, int64_t count, int dtype);
void reduce_scatter(Context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
    int64_t stride, int dtype);
void all_gather(Context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count, int dtype);
int64_t embedding_scratch(const Context &context, int B, int T, int C, int V);
int64_t norm_scratch(const Context &context, int N, int C);
int64_t matmul_scratch(const Context &context, int N, int C, int O, bool gradients);
int64_t factors_scratch(const Context &context, int K);
int64_t attention_scratch(const Context &context, int B, int T, int C, int NH);
int64_t classifier_scratch(const Context &context, int N, int C, int Vp, bool gradients, bool fp8);
int64_t fp8_quantize_weight_scratch(const Context &context, int C, int O);
int64_t fp8_matmul_scratch(const Context &context, int N, int C, int O, bool gradients);
int64_t global_norm_scratch(const Context &context, int64_t matrix_count, int64_t vector_count);
int64_t newton_schulz_scratch(const Context &context, int M, int R, int K);
int64_t norm_matmul_scratch(const Context &context, int N, int C, int O);
int64_t attention_cached_scratch(const Context &context, int S);
int64_t sample_scratch(const Context &context, int B, int V);

}  // namespace gpt2::ops
