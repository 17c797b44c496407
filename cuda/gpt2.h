/* The contract between TypeScript and the native libraries (libgpt2-cpu, libgpt2-cuda): status codes, dtypes, the
 * runtime, and every op of GPT-2 in the order of the model. Both libraries export exactly these functions;
 * src/native/bindings.generated.ts is made from this file by scripts/generate-bindings.ts.
 *
 * Letters: B batch, T sequence length, S positions of a cache, N = B*T rows, C channels, NH heads, HS = C/NH head size,
 * V vocabulary (50257), Vp vocabulary padded to a multiple of 128 (50304), O output channels of a matmul, L layers.
 *
 * Rules that hold for every function
 *  - Arguments: context, outputs, inputs, sizes, scalars. Beside each pointer stands its shape; each output says
 *    `=` (overwritten) or `+=` (added to). `accumulate` chooses: 0 is `=`, 1 is `+=`.
 *  - `void *` tensors have the context's dtype (see GPT2_DTYPE); `float *` and `int32_t *` are what they say.
 *    Pointers are device memory from gpt2_allocate, except those marked GPT2_HOST. All are 64-byte aligned.
 *  - The result is a status. On failure nothing was launched, and gpt2_last_error(context) tells what was expected,
 *    what came, and where. Nothing here exits, aborts or asserts on a caller's input. There are no globals.
 *  - Ops are issued in order on the context's stream and may return before they finish (CPU: they do not). Between
 *    gpt2_capture_begin and gpt2_capture_end they are recorded instead of run.
 *  - No op allocates. Scratch is the context's workspace (gpt2_set_workspace); the size an op needs is told by the
 *    *_scratch function beside it, in bytes. Ops run one after another, so the workspace is as large as the largest.
 *  - Bitwise deterministic: same inputs, same bits, at any thread count on one code path. No floating-point atomics.
 */
#ifndef GPT2_H
#define GPT2_H

#include <stdint.h>

#ifdef __cplusplus
#define GPT2_API extern "C" __attribute__((visibility("default")))
#else
#define GPT2_API __attribute__((visibility("default")))
#endif

/* Marks a pointer to the caller's own memory (in TypeScript: a typed array). */
#define GPT2_HOST

/* Raised whenever a signature or a meaning below changes; the loader refuses a library of another version. */
#define GPT2_ABI_VERSION 10

enum GPT2_STATUS {
  GPT2_OK = 0,
  GPT2_INVALID_ARGUMENT = 1, /* a size, pointer or value the function cannot take */
  GPT2_UNSUPPORTED = 2,      /* right in itself, but this library or device lacks it */
  GPT2_OUT_OF_MEMORY = 3,
  GPT2_DEVICE_ERROR = 4, /* the device or its driver failed; its own words are in the text */
  GPT2_RANK_ERROR = 5    /* another rank is gone, silent, or does something else; or what joins the ranks failed */
};

/* The dtype of a context. What each kind of tensor then holds:
 *                                                    fp32, tf32   bf16
 *   weights, activations, their gradients, logits    fp32         bf16 (sums in fp32)
 *   weight gradients (matrices)                      fp32         bf16; fp32 if the context accumulates
 *   bias and layernorm gradients, mean, rstd, lse,
 *   losses, norm                                     fp32         fp32
 *   master weights, moments                          fp32         fp32
 * In fp32 and tf32 the master weights are the weights. */
enum GPT2_DTYPE { GPT2_FP32 = 0, GPT2_TF32 = 1, GPT2_BF16 = 2 };

/* The step block: 64 floats in device memory that hold what changes from step to step, so that a captured step can
 * be replayed. The host writes the first group before a step and reads the second after it. */
enum GPT2_STEP {
  GPT2_STEP_LEARNING_RATE = 0,
  GPT2_STEP_BETA1_CORRECTION = 1, /* 1 - beta1^t with t = step + 1 */
  GPT2_STEP_BETA2_CORRECTION = 2, /* 1 - beta2^t */
  GPT2_STEP_LOSS_LIMIT = 3,       /* finite; a loss over it, or that is no number, changes no weight */
  GPT2_STEP_NORM_LIMIT = 4,       /* the same of the norm */
  GPT2_STEP_AFTER_UPDATE = 5,     /* not 0: nor does a step that follows one without an update */
  GPT2_STEP_STOP = 15,            /* not 0: this rank was asked to stop; after the step, how many were */
  GPT2_STEP_LOSS = 16,            /* mean loss over the micro-batches */
  GPT2_STEP_NORM = 17,            /* gradient norm before clipping */
  GPT2_STEP_CLIP = 18,            /* what the gradients are multiplied by */
  GPT2_STEP_UPDATED = 19,         /* 1 if adamw updates in this step, 0 if it leaves everything as it is */
  GPT2_STEP_SIZE = 64
};

typedef struct gpt2_context gpt2_context;           /* device, stream, dtype, workspace, last error */
typedef struct gpt2_event gpt2_event;               /* a point in the context's stream */
typedef struct gpt2_graph gpt2_graph;               /* a recorded step */
typedef struct gpt2_generator gpt2_generator;       /* MT19937, seeded as PyTorch's CPU generator */
typedef struct gpt2_communicator gpt2_communicator; /* what joins the ranks of a job */

/* ---------------------------------------------------------------- runtime */

/* The GPT2_ABI_VERSION the library was built with. */
GPT2_API int gpt2_abi_version(void);

/* Ends the process after a time, unless it has ended by then, having written a line to its standard error. For a process
 * whose threads may be held in a driver for ever, its way out through exit(3) too.
 *   text [bytes]  UTF-8 */
GPT2_API int gpt2_end_later(GPT2_HOST const void *text, int64_t bytes, int32_t milliseconds, int32_t exit_code);

/* Opens a device. On failure *context is still set (unless memory ran out: then NULL) so that gpt2_last_error can be
 * asked; it must be destroyed all the same.
 *   context = [1]
 *   device      index of the GPU; 0 for the CPU
 *   dtype       GPT2_DTYPE; one the device lacks gives GPT2_UNSUPPORTED
 *   threads     CPU threads, 0 for all cores; no meaning on CUDA
 *   accumulates 1 if gradients will be summed over micro-batches (decides the weight gradients' dtype in bf16) */
GPT2_API int gpt2_context_create(GPT2_HOST gpt2_context **context, int32_t device, int32_t dtype, int32_t threads,
                                 int32_t accumulates);

/* Frees the context. Memory, events and graphs made with it must be freed before. */
GPT2_API int gpt2_context_destroy(gpt2_context *context);

/* The text of the context's last failure: function, what was expected, what came, the driver's words, file and line.
 * Belongs to the context; valid until its next failure. */
GPT2_API const char *gpt2_last_error(gpt2_context *context);

/* What was opened, as JSON: {"library":"cpu"|"cuda","device":name,"codePath":"avx512"|"avx2"|"portable"|"sm90"|...,
 * "threads":n,"canCapture":bool,"dtypes":["fp32",...]}; on CUDA also "computeCapability":"9.0","multiprocessors":n,
 * "driver":"13.0". Belongs to the context. */
GPT2_API const char *gpt2_context_description(gpt2_context *context);

/* Gives ops their scratch: `workspace` [bytes] of device memory that stays the caller's. */
GPT2_API int gpt2_set_workspace(gpt2_context *context, void *workspace, int64_t bytes);

/* Device memory, zeroed, 64-byte aligned.
 *   memory = [1] the address */
GPT2_API int gpt2_allocate(gpt2_context *context, GPT2_HOST void **memory, int64_t bytes);
GPT2_API int gpt2_free(gpt2_context *context, void *memory);

/* Page-locked host memory for the asynchronous copies.
 *   memory = [1] the address */
GPT2_API int gpt2_allocate_pinned(gpt2_context *context, GPT2_HOST void **memory, int64_t bytes);
GPT2_API int gpt2_free_pinned(gpt2_context *context, void *memory);

/* Memory of the device, in bytes.
 *   available = [1], total = [1] */
GPT2_API int gpt2_memory_info(gpt2_context *context, GPT2_HOST int64_t *available, GPT2_HOST int64_t *total);

/* Copies that have finished when they return. `source` and `destination` of the host are [bytes]. */
GPT2_API int gpt2_copy_to_device(gpt2_context *context, void *destination, GPT2_HOST const void *source, int64_t bytes);
GPT2_API int gpt2_copy_to_host(gpt2_context *context, GPT2_HOST void *destination, const void *source, int64_t bytes);

/* Copies in stream order; the host side is memory of gpt2_allocate_pinned and must stay untouched until an event
 * recorded after the copy has been reached. */
GPT2_API int gpt2_copy_to_device_async(gpt2_context *context, void *destination, const void *pinned, int64_t bytes);
GPT2_API int gpt2_copy_to_host_async(gpt2_context *context, void *pinned, const void *source, int64_t bytes);
GPT2_API int gpt2_copy_on_device(gpt2_context *context, void *destination, const void *source, int64_t bytes);

/* Sets `destination` [bytes] to zero, in stream order. */
GPT2_API int gpt2_fill_zero(gpt2_context *context, void *destination, int64_t bytes);

/* Between a context's fp32 master weights and its weights: weight = rounded to nearest even. In fp32 and tf32 a copy
 * (nothing if both are the same memory).
 *   weight = [count], master [count] */
GPT2_API int gpt2_cast_weights(gpt2_context *context, void *weight, const float *master, int64_t count);

/* Waiting. An event is reached when all work issued before it was recorded has finished. gpt2_event_query does not
 * block: *reached = 0 or 1. gpt2_synchronize blocks until the stream is empty. gpt2_event_elapsed gives the time
 * between two reached events in milliseconds. */
GPT2_API int gpt2_event_create(gpt2_context *context, GPT2_HOST gpt2_event **event);
GPT2_API int gpt2_event_destroy(gpt2_context *context, gpt2_event *event);
GPT2_API int gpt2_event_record(gpt2_context *context, gpt2_event *event);
GPT2_API int gpt2_event_query(gpt2_context *context, GPT2_HOST int32_t *reached, gpt2_event *event);
GPT2_API int gpt2_event_elapsed(gpt2_context *context, GPT2_HOST float *milliseconds, gpt2_event *from, gpt2_event *to);
GPT2_API int gpt2_synchronize(gpt2_context *context);

/* Puts what is issued next behind an event: in a capture one that was recorded in the same capture. */
GPT2_API int gpt2_event_wait(gpt2_context *context, gpt2_event *event);

/* Records the ops issued between begin and end into a graph, which gpt2_graph_launch then replays. A device that
 * cannot says GPT2_UNSUPPORTED (and "canCapture":false in its description): issue the same ops every step instead. */
GPT2_API int gpt2_capture_begin(gpt2_context *context);
GPT2_API int gpt2_capture_end(gpt2_context *context, GPT2_HOST gpt2_graph **graph);
GPT2_API int gpt2_graph_launch(gpt2_context *context, gpt2_graph *graph);
GPT2_API int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *graph);

/* ---------------------------------------------------------------- random numbers (on the host) */

/* MT19937 (Matsumoto and Nishimura 1998) seeded with init_genrand(seed), as torch.manual_seed does on the CPU.
 * NULL if memory ran out. */
GPT2_API gpt2_generator *gpt2_generator_create(uint32_t seed);
GPT2_API int gpt2_generator_destroy(gpt2_generator *generator);

/* Normal numbers as torch.Tensor.normal_ draws them on the CPU for count >= 16: a uniform is the low 24 bits of a draw
 * / 2^24; each block of 16 uniforms becomes 16 normals by Box-Muller (first 8: radius from 1 - u, next 8: angle);
 * if count is not a multiple of 16 the last 16 are drawn again. count < 16 gives GPT2_INVALID_ARGUMENT.
 *   normals = [count] */
GPT2_API int gpt2_generator_normal(gpt2_generator *generator, GPT2_HOST float *normals, int64_t count, float mean,
                                   float standard_deviation);

/* Shuffles in place by Fisher-Yates from the end, j = next draw mod (i + 1): llm.c's random_permutation.
 *   values = [count] permuted */
GPT2_API int gpt2_generator_shuffle(gpt2_generator *generator, GPT2_HOST int32_t *values, int64_t count);

/* ---------------------------------------------------------------- embedding */

/* out[b,t,:] = wte[tokens[b,t],:] + wpe[t,:].
 *   out = [B,T,C], tokens [B,T], wte [Vp,C], wpe [>=T,C]. A token outside [0, V) is an error on the
 *   CPU and a row of NaN on CUDA. */
GPT2_API int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const void *wte,
                                    const void *wpe, int32_t B, int32_t T, int32_t C, int32_t V);

/* dwte[v,:] += sum of dout[b,t,:] over tokens[b,t] = v, in an order that depends on the tokens alone;
 * dwpe[t,:] (=|+=) sum over b of dout[b,t,:].
 *   dwte += [Vp,C], dwpe (accumulate) [T,C] (weight-gradient dtype), dout [B,T,C], tokens [B,T];
 *   on CUDA V is at most 65536, what a token file can hold. A token outside [0, V) is an error on the CPU; on CUDA it
 *   counts in dwpe alone */
GPT2_API int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout,
                                     const int32_t *tokens, int32_t B, int32_t T, int32_t C, int32_t V,
                                     int32_t accumulate);
GPT2_API int gpt2_embedding_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t T, int32_t C,
                                    int32_t V);

/* ---------------------------------------------------------------- layernorm (Ba et al. 2016), eps 1e-5 */

/* out = (in - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(variance + 1e-5), population variance.
 *   out = [N,C], mean = [N], rstd = [N], in [N,C], weight [C], bias [C] */
GPT2_API int gpt2_layernorm_forward(gpt2_context *context, void *out, float *mean, float *rstd, const void *in,
                                    const void *weight, const void *bias, int32_t N, int32_t C);

/* din = gradient through the layernorm + dresidual (the gradient that passes beside it).
 *   din = [N,C], dweight (accumulate) [C], dbias (accumulate) [C], dout [N,C], dresidual [N,C] or NULL (may be din),
 *   in [N,C], weight [C], mean [N], rstd [N] */
GPT2_API int gpt2_layernorm_backward(gpt2_context *context, void *din, float *dweight, float *dbias, const void *dout,
                                     const void *dresidual, const void *in, const void *weight, const float *mean,
                                     const float *rstd, int32_t N, int32_t C, int32_t accumulate);
GPT2_API int gpt2_layernorm_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C);

/* ---------------------------------------------------------------- matmul */

/* out = in * weight^T + bias.
 *   out = [N,O], in [N,C], weight [O,C], bias [O] or NULL */
GPT2_API int gpt2_matmul_forward(gpt2_context *context, void *out, const void *in, const void *weight, const void *bias,
                                 int32_t N, int32_t C, int32_t O);

/* The same with the GELU behind it, which backward needs its input of: pre = in * weight^T + bias, out = gelu(pre).
 *   out = [N,O], pre = [N,O], in [N,C], weight [O,C], bias [O] or NULL */
GPT2_API int gpt2_matmul_gelu_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *weight,
                                      const void *bias, int32_t N, int32_t C, int32_t O);

/* The same with the residual stream added: out = residual + in * weight^T + bias.
 *   out = [N,O], in [N,C], weight [O,C], bias [O] or NULL, residual [N,O] */
GPT2_API int gpt2_matmul_residual_forward(gpt2_context *context, void *out, const void *in, const void *weight,
                                          const void *bias, const void *residual, int32_t N, int32_t C, int32_t O);

/* din = dout * weight.
 *   din = [N,C], dout [N,O], weight [O,C] */
GPT2_API int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight,
                                        int32_t N, int32_t C, int32_t O);

/* The same through the GELU before the matmul: din = (dout * weight) * gelu'(pre).
 *   din = [N,C], dout [N,O], weight [O,C], pre [N,C] */
GPT2_API int gpt2_matmul_gelu_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight,
                                             const void *pre, int32_t N, int32_t C, int32_t O);

/* dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
 *   dweight (accumulate) [O,C] (weight-gradient dtype), dbias (accumulate) [O] or NULL, dout [N,O], in [N,C] */
GPT2_API int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout,
                                         const void *in, int32_t N, int32_t C, int32_t O, int32_t accumulate);

/* Enough for every direction at this size; without the weight gradient, what the largest N needs is enough for every
 * smaller one. */
GPT2_API int gpt2_matmul_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t O);

/* ---------------------------------------------------------------- attention (Vaswani et al. 2017), causal */

/* Softmax of q*k^T/sqrt(HS) over the positions up to and including the own one, times v, per head. No T x T matrix is
 * kept; lse is the log of the softmax's denominator (natural log, of the scaled scores), from which backward rebuilds
 * the probabilities (Dao et al. 2022).
 *   out = [B,T,C], lse = [B,NH,T], qkv [B,T,3C] (q, k, v, each [NH,HS]). On CUDA HS is at most 256, and less where the
 *   GPU's blocks have little shared memory: GPT2_UNSUPPORTED says so */
GPT2_API int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, int32_t B, int32_t T,
                                    int32_t C, int32_t NH);

/*   dqkv = [B,T,3C], dout [B,T,C], out [B,T,C], qkv [B,T,3C], lse [B,NH,T] */
GPT2_API int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out,
                                     const void *qkv, const float *lse, int32_t B, int32_t T, int32_t C, int32_t NH);
GPT2_API int gpt2_attention_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t T, int32_t C,
                                    int32_t NH);

/* ---------------------------------------------------------------- gelu (Hendrycks and Gimpel 2016), tanh form */

/* out = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 *   out = [count], in [count] */
GPT2_API int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count);

/*   din = [count] (may be dout), dout [count], in [count] */
GPT2_API int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count);

/* ---------------------------------------------------------------- residual */

/* out = a + b. Backward is the identity on both sides (see dresidual of gpt2_layernorm_backward).
 *   out = [count] (may be a or b), a [count], b [count] */
GPT2_API int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count);

/* ---------------------------------------------------------------- cross-entropy */

/* losses[i] = -log softmax(logits[i,:V])[targets[i]]; dlogits[i,:V] = (softmax - onehot) * dloss, dlogits[i,V:] = 0.
 *   losses = [N], dlogits = [N,Vp] or NULL (may be logits), logits [N,Vp], targets [N]. A target outside [0, V) is an
 *   error on the CPU, and a loss and a row of NaN on CUDA; so it is in gpt2_classifier */
GPT2_API int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits,
                                const int32_t *targets, int32_t N, int32_t V, int32_t Vp, float dloss);

/* The last linear layer with its loss, and backward through both: losses[i] = -log softmax(in[i] * weight^T)[targets[i]]
 * over the first V outputs, din and dweight the gradients of dloss * sum of losses. What `logits` holds afterwards is the
 * library's own: a CUDA library for sm_90 keeps exponentials there and never rounds a logit; it holds the
 * difference of a logit and the target's at 77, so that no loss is over 77 + log(V).
 *   losses = [N], din = [N,C] or NULL, dweight (accumulate) [Vp,C] (weight-gradient dtype) or NULL, logits = [N,Vp],
 *   in [N,C], weight [Vp,C], targets [N] */
GPT2_API int gpt2_classifier(gpt2_context *context, float *losses, void *din, void *dweight, void *logits,
                             const void *in, const void *weight, const int32_t *targets, int32_t N, int32_t C,
                             int32_t V, int32_t Vp, float dloss, int32_t accumulate);
/* With gradients; without, what the largest N needs is enough for every smaller one. */
GPT2_API int gpt2_classifier_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t Vp);

/* step[GPT2_STEP_LOSS] (=|+=) scale * sum of losses, summed in double.
 *   step (accumulate) [GPT2_STEP_SIZE], losses [N] */
GPT2_API int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale,
                           int32_t accumulate);

/* ---------------------------------------------------------------- global norm */

/* step[GPT2_STEP_NORM] = sqrt of the sum of squares over both arenas, in blocks of fixed size: in each a thread's in
 * fp32 on CUDA (up to 6,000 of them), the rest in double;
 * step[GPT2_STEP_CLIP] = max_norm / norm if norm > max_norm and max_norm > 0, else 1;
 * step[GPT2_STEP_UPDATED] = 1 if LOSS <= LOSS_LIMIT and NORM <= NORM_LIMIT and (AFTER_UPDATE = 0 or UPDATED was not 0), else
 * 0. So the host, which issues a step before it knows the last one's loss, still finds the weights that gave a bad one.
 *   step = [GPT2_STEP_SIZE], matrices [matrix_count] (weight-gradient dtype), vectors [vector_count] fp32 */
GPT2_API int gpt2_global_norm(gpt2_context *context, float *step, const void *matrices, const float *vectors,
                              int64_t matrix_count, int64_t vector_count, float max_norm);
GPT2_API int gpt2_global_norm_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int64_t matrix_count,
                                      int64_t vector_count);

/* ---------------------------------------------------------------- adamw (Loshchilov and Hutter 2019) */

/* Nothing if step[UPDATED] = 0. Else with g = gradient * step[CLIP]: m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2;
 * master -= lr * (m / BETA1_CORRECTION / (sqrt(v / BETA2_CORRECTION) + eps) + weight_decay * master); weight = rounded
 * master. lr and corrections come from the step block.
 *   weight = [count], master = [count] (the same memory as weight in fp32 and tf32), m = [count], v = [count],
 *   gradient [count] (GPT2_FP32 or the context's dtype, as gradient_dtype says), step [GPT2_STEP_SIZE] */
GPT2_API int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
                        const float *step, int64_t count, int32_t gradient_dtype, float beta1, float beta2, float eps,
                        float weight_decay);

/* ---------------------------------------------------------------- generation: text that grows token by token */

/* B sequences of at most S tokens in the making. positions[b] is where the next tokens of sequence b stand: the keys and
 * values of all positions before it are in the cache. Because the position is read from device memory, one token's ops can
 * be recorded once and replayed. A sequence that does not fit (positions[b] outside [0, S - T]) gets rows of NaN and its
 * cache stays as it is, a token outside [0, V) a row of NaN; so a host may issue steps before it knows how the last ended. */

/* out[b,t,:] = wte[tokens[b,p+t],:] + wpe[p+t,:] with p = positions[b].
 *   out = [B,T,C], tokens [B,S+1], positions [B], wte [Vp,C], wpe [>=S,C] */
GPT2_API int gpt2_embedding_at_forward(gpt2_context *context, void *out, const int32_t *tokens,
                                       const int32_t *positions, const void *wte, const void *wpe, int32_t B, int32_t T,
                                       int32_t S, int32_t C, int32_t V);

/* The layernorm and the matmul behind it in one, for texts that grow by a token at a time: with h = layernorm(in) *
 * norm_weight + norm_bias (eps 1e-5), out = h * weight^T + bias, or pre = that and out = gelu(pre).
 *   out = [N,O], pre = [N,O], in [N,C], norm_weight [C], norm_bias [C], weight [O,C], bias [O] or NULL */
GPT2_API int gpt2_layernorm_matmul_forward(gpt2_context *context, void *out, const void *in, const void *norm_weight,
                                           const void *norm_bias, const void *weight, const void *bias, int32_t N,
                                           int32_t C, int32_t O);
GPT2_API int gpt2_layernorm_matmul_gelu_forward(gpt2_context *context, void *out, void *pre, const void *in,
                                                const void *norm_weight, const void *norm_bias, const void *weight,
                                                const void *bias, int32_t N, int32_t C, int32_t O);
GPT2_API int gpt2_layernorm_matmul_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C,
                                           int32_t O);

/* Puts the T new keys and values of each sequence into the cache from positions[b] on, then attention of the T new
 * queries over all positions up to and including the own one. Head sizes up to 256.
 *   out = [B,T,C], keys, values = rows positions[b] to positions[b]+T-1 of [B,NH,S,HS], qkv [B,T,3C], positions [B] */
GPT2_API int gpt2_attention_cached_forward(gpt2_context *context, void *out, void *keys, void *values, const void *qkv,
                                           const int32_t *positions, int32_t B, int32_t T, int32_t S, int32_t C,
                                           int32_t NH);
GPT2_API int gpt2_attention_cached_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t S);

/* Chooses the token behind the one at positions[b]: tokens[b,positions[b]+1] = the choice, positions[b] += 1; nothing where
 * positions[b] is outside [0, S). A logit that is NaN or infinite makes the choice -1: the model has diverged.
 *   temperature 0: the largest logit, the first of equal ones. Else, with w[i] = round(2^31 e^((logits[i] - largest) /
 *   temperature)), the top_k largest w are kept (0: all), of these the fewest largest ones whose sum is at least top_p of
 *   theirs all (1: all; Holtzman et al. 2019), the first of equal ones, and the choice is the first i at which the running
 *   sum of the kept w is over r * (sum of the kept w) / 2^64. All in whole numbers, so that no order of summation matters.
 *   r is a number of SplitMix64 (Steele et al. 2014) seeded with 0: that at place seeds[b] * 2^32 + positions[b].
 *   tokens = one of [B,S+1], positions = [B], logits [B,Vp], seeds [B]; 0 <= temperature, 0 <= top_k, 0 <= top_p <= 1 */
GPT2_API int gpt2_sample(gpt2_context *context, int32_t *tokens, int32_t *positions, const void *logits,
                         const int32_t *seeds, int32_t B, int32_t S, int32_t V, int32_t Vp, float temperature,
                         int32_t top_k, float top_p);
GPT2_API int gpt2_sample_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t V);

/* ---------------------------------------------------------------- collectives: processes that train together
 *
 * Each of R ranks is a process with a context of its own; a communicator joins them. All ranks issue the same
 * collectives in the same order. A collective runs behind what was issued before it and beside what is issued after it
 * (on CUDA on a stream of its own): its tensors may be touched again behind gpt2_collectives_join. Every rank gets the
 * same sums: added in the order of ranks, or where NCCL adds in its own, which is the same for the same ranks, groups and
 * NCCL. `dtype` is GPT2_FP32 or GPT2_BF16, whatever the context's. */

enum GPT2_COMMUNICATOR { GPT2_COMMUNICATOR_ID_SIZE = 192 };

/* What tells a communicator from all others: rank 0 asks for it, and hands it to every rank.
 *   id = [GPT2_COMMUNICATOR_ID_SIZE] bytes
 *   is_one_machine  whether all ranks are on this one, and share its loopback; the CPU library knows no others */
GPT2_API int gpt2_communicator_id(gpt2_context *context, GPT2_HOST void *id, int32_t is_one_machine);

/* Joins the ranks; returns when all are there. On one machine they meet over TCP on its loopback. The GPUs' copy engines carry
 * what goes between them where each reaches the others' memory; on several machines, where one does not, and with
 * GPT2_PEER_COPIES=0 NCCL does (libnccl.so.2, or what GPT2_NCCL_LIB names), which is opened there alone.
 *   communicator = [1], id [GPT2_COMMUNICATOR_ID_SIZE]
 *   timeout_milliseconds  how long rank 0 waits for another wherever this section waits on the host; the others wait five
 *                         seconds longer for rank 0, and for NCCL to join two minutes */
GPT2_API int gpt2_communicator_create(gpt2_context *context, GPT2_HOST gpt2_communicator **communicator,
                                      GPT2_HOST const void *id, int32_t rank, int32_t ranks,
                                      int32_t timeout_milliseconds);

/* Leaves, behind what is under way; all ranks do. Graphs with its collectives must be freed before. With `abandon` not 0
 * collectives under way are ended without their result, since they may be waiting for a rank that is gone: then it returns
 * within a second, and graphs are freed after. */
GPT2_API int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon);

/* The communicator, as JSON:
 *   "carrier"   "copies" (the GPUs' copy engines), "nccl" or "loopback" (the CPU library)
 *   "parts"     the rows P that gpt2_reduce_scatter gives: R, or 1 if NCCL adds
 *   "ordering"  what guarantees that a signalled rank sees the copies before the signal: "flushed" (the wait flushes remote
 *               writes) or "nvlink" (NVLink keeps their order); "" if no copy engines are used
 *   "reason"    why NCCL carries although copy engines might, else ""
 * The text belongs to the communicator. */
GPT2_API const char *gpt2_communicator_description(gpt2_communicator *communicator);

/* Lets the other ranks write to `memory` of gpt2_allocate, of a multiple of 2 MiB, the same at every rank; nothing where
 * NCCL carries all. The `out` of gpt2_reduce_scatter and gpt2_all_gather lies in such memory. All ranks call it, and
 * gpt2_communicator_unshare before they free the memory, with nothing under way in it, or gpt2_communicator_destroy; both
 * return when all have. */
GPT2_API int gpt2_communicator_share(gpt2_context *context, gpt2_communicator *communicator, void *memory,
                                     int64_t bytes);
GPT2_API int gpt2_communicator_unshare(gpt2_context *context, gpt2_communicator *communicator, void *memory);

/* GPT2_RANK_ERROR if a collective that was issued has failed since; does not wait. */
GPT2_API int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator);

/* data = the sum of every rank's.
 *   data = [count] */
GPT2_API int gpt2_all_reduce(gpt2_context *context, void *data, gpt2_communicator *communicator, int64_t count,
                             int32_t dtype);

/* out = what, added, is this rank's part of the sum of every rank's `in`: each rank's, in the order of ranks, or where P is 1 the
 * sum; see gpt2_communicator_description.
 *   out = [P,count] in rows of `stride` elements, in [R,count] */
GPT2_API int gpt2_reduce_scatter(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
                                 int64_t count, int64_t stride, int32_t dtype);

/* out[r] = rank r's `in`.
 *   out = [R,count], in [count] (may be out[rank]) */
GPT2_API int gpt2_all_gather(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
                             int64_t count, int32_t dtype);

/* What is issued from now on runs behind the collectives issued so far. */
GPT2_API int gpt2_collectives_join(gpt2_context *context, gpt2_communicator *communicator);

/* Puts an event behind the collectives issued so far, which takes the place of gpt2_collectives_join for them: what
 * gpt2_event_wait puts behind it has joined them. In a capture the last of them has to be waited for before its end. */
GPT2_API int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *communicator, gpt2_event *event);

/* gpt2_all_reduce, _reduce_scatter and _all_gather issued between begin and end begin together at its end, where they can:
 * ranks wait for each other once then, not for each. No two may touch the same memory. Nothing else of this section may be
 * issued between. */
GPT2_API int gpt2_collectives_group_begin(gpt2_context *context, gpt2_communicator *communicator);
GPT2_API int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator);

/* gpt2_global_norm of matrices that are spread over ranks, with its scratch: each rank gives its own part of the
 * matrices, and the vectors, which are the same everywhere. Of `parts` rows the first becomes the sum, taken in fp32 in
 * the order of rows, and rounded once. It joins.
 *   step = [GPT2_STEP_SIZE], matrices [parts,matrix_count], matrices[0] = (weight-gradient dtype),
 *   vectors [vector_count] fp32 */
GPT2_API int gpt2_global_norm_of_ranks(gpt2_context *context, float *step, void *matrices, const float *vectors,
                                       gpt2_communicator *communicator, int64_t matrix_count, int64_t vector_count,
                                       int32_t parts, float max_norm);

#endif
