/* The contract between TypeScript and the native libraries (libgpt2-cpu, libgpt2-cuda): status codes, dtypes, the
 * runtime, and every op in the order of the model. Both libraries export exactly these functions.
 * Letters: B batch, T sequence length, S positions of a cache, N = B*T rows, C channels, NH heads, HS = C/NH head size,
 * V vocabulary (50257), Vp vocabulary padded to a multiple of 128 (50304), O output channels of a matmul, L layers.
 *
 * Rules that hold for every function
 *  - Arguments: context, outputs, inputs, sizes, scalars.
 *  - `void *` tensors have the context's dtype (see GPT2_DTYPE). `float *` tensors hold fp32, `int32_t *` int32, `uint8_t *`
 *    FP8, and `int8_t *` GELU's derivative (see "FP8").
 *  - Pointers are device memory from gpt2_allocate; ops take only 64-byte aligned pointers. `pinned` and GPT2_HOST pointers
 *    are host memory (in TypeScript a typed array); a GPT2_HOST pointer without a shape receives one result.
 *  - The result is a status. After a failure nothing was launched, and gpt2_last_error(context) says what was expected,
 *    what was passed, and where. No call exits, aborts or asserts on a caller's input. Only signal handlers are global state.
 *  - A returned text belongs to the object that it describes, and is valid until the next call with that object.
 *  - Free a graph before the objects that it uses, except an abandoned communicator. Free the context last.
 *  - Ops are enqueued in order on the context's stream, and may return before they finish; CPU ops finish before they return.
 *  - No op allocates. Scratch is the context's workspace (gpt2_set_workspace); *_scratch functions give the bytes that
 *    an op needs. Ops run one after another, so one workspace of the largest size serves all of them.
 *  - Bitwise deterministic: same inputs, same bits, at any thread count on one code path (the set of kernels in use, such
 *    as "avx512" or "sm90"). No floating-point atomics. */
#ifndef GPT2_H
#define GPT2_H

#include <stdint.h>

#ifdef __cplusplus
#define GPT2_API extern "C" __attribute__((visibility("default")))
#else
#define GPT2_API __attribute__((visibility("default")))
#endif
#define GPT2_HOST

/* Version of this header, raised when a function's signature or meaning changes; the loader refuses any other version. */
#define GPT2_ABI_VERSION 25

enum GPT2_STATUS {
  GPT2_OK = 0,
  GPT2_INVALID_ARGUMENT = 1, /* a size, pointer or value the function cannot take */
  GPT2_UNSUPPORTED = 2,      /* valid, but unsupported by this library or device */
  GPT2_OUT_OF_MEMORY = 3,
  GPT2_DEVICE_ERROR = 4, /* the device or its driver failed; the error text quotes it */
  GPT2_RANK_ERROR = 5    /* another rank ended, does not answer, or enqueued another collective; or the connection failed */
};

/* The dtype of a context, and of each kind of tensor in it:
 *                                                    fp32, tf32   bf16, fp8
 *   weights, activations, their gradients, logits    fp32         bf16 (sums in fp32)
 *   weight gradients (matrices)                      fp32         bf16; fp32 if the context accumulates
 *   bias and layernorm gradients, mean, rstd, lse,
 *   losses, norm                                     fp32         fp32
 *   master weights, moments                          fp32         fp32
 * In fp32 and tf32 the master weights are the weights. fp8 is bf16 plus the ops on FP8 tensors (see "FP8"). In the CPU
 * library all tensors are fp32: in bf16, matmuls and attention round their operands to bf16; fp8 is fp32 plus the ops on
 * FP8 tensors. */
enum GPT2_DTYPE { GPT2_FP32 = 0, GPT2_TF32 = 1, GPT2_BF16 = 2, GPT2_FP8 = 3 };

/* The activation that a matmul applies to its result: GELU (see gpt2_gelu_forward) or relu(x)^2 (So et al. 2021). */
enum GPT2_ACTIVATION { GPT2_NO_ACTIVATION = 0, GPT2_GELU = 1, GPT2_RELU_SQUARED = 2 };

/* The step block: 64 floats in device memory for values that change from step to step, so that all steps run the same graphs. The
 * host writes elements 0 to STOP before a step, reads TARGETS to UPDATED after it. step[NORM] is element GPT2_STEP_NORM. */
enum GPT2_STEP {
  GPT2_STEP_LEARNING_RATE = 0,
  GPT2_STEP_LOSS_LIMIT = 1,   /* finite; if the loss is NaN or above it, the step changes no weight */
  GPT2_STEP_NORM_LIMIT = 2,   /* finite; if the norm is NaN or above it, the step changes no weight */
  GPT2_STEP_AFTER_UPDATE = 3, /* if not 0, the step changes no weight if the previous step changed none */
  GPT2_STEP_SCALARS = 4,      /* from here to TARGETS: the optimizers' values for the step (src/optimizer) */
  GPT2_STEP_TARGETS = 14,     /* this rank's targets that are not -1; after the step: the sum over ranks */
  GPT2_STEP_STOP = 15,        /* this rank's request to stop or to save; after the step: the sum over ranks */
  GPT2_STEP_LOSS = 16,        /* mean loss over the step's targets that are not -1 */
  GPT2_STEP_SATURATED = 17,   /* tokens whose gradient in FP8 may have saturated (gpt2_classifier) */
  GPT2_STEP_NORM = 18,        /* gradient norm before clipping */
  GPT2_STEP_CLIP = 19,        /* the factor of the gradients */
  GPT2_STEP_UPDATED = 20,     /* 1 if this step updates the weights, 0 if it changes nothing */
  GPT2_STEP_SIZE = 64
};

typedef struct gpt2_context gpt2_context;           /* device, stream, dtype, workspace, last error */
typedef struct gpt2_event gpt2_event;               /* a point in the context's stream */
typedef struct gpt2_graph gpt2_graph;               /* recorded ops, launched together */
typedef struct gpt2_generator gpt2_generator;       /* MT19937, seeded as PyTorch's CPU generator */
typedef struct gpt2_communicator gpt2_communicator; /* the connection between the ranks of a job */
typedef struct gpt2_module gpt2_module;             /* kernels from outside this library, loaded on the device */

/* ---------------------------------------------------------------- runtime */

/* The GPT2_ABI_VERSION the library was built with. */
GPT2_API int gpt2_abi_version(void);

/* Ends the process after `milliseconds`, with `text` on standard error, even if the process's threads hang in a driver or
 * in exit(3). `text` is [bytes] of UTF-8. */
GPT2_API int gpt2_end_later(GPT2_HOST const void *text, int64_t bytes, int32_t milliseconds, int32_t exit_code);

/* From now on, a second signal out of `signals` [count] ends the process with exit code 128 + signal, unless the process
 * ends by itself within `grace` milliseconds. This works even while a kernel blocks the host language. Signals without an
 * installed handler do not count, nor do signals within `apart` milliseconds of the first; handlers are still called. If a
 * kernel runs on the CPU at that time, a line on standard error names the kernel. Later calls change nothing. */
GPT2_API int gpt2_end_at_second_signal(GPT2_HOST const int32_t *signals, int64_t count, int32_t apart, int32_t grace);

/* Opens a device. On failure *context is still set, so that gpt2_last_error works, and must still be destroyed. *context
 * is NULL only if memory ran out.
 *   device      index of the GPU; 0 for the CPU
 *   dtype       GPT2_DTYPE; a dtype that the device lacks gives GPT2_UNSUPPORTED
 *   threads     CPU threads, 0 for all cores; ignored on CUDA
 *   accumulates 1 if gradients will be summed over micro-batches (decides the weight gradients' dtype in bf16) */
GPT2_API int gpt2_context_create(GPT2_HOST gpt2_context **context, int32_t device, int32_t dtype, int32_t threads,
                                 int32_t accumulates);

GPT2_API int gpt2_context_destroy(gpt2_context *context);

/* The text of the context's last failure: function, what was expected, what was passed, the driver's message, file and line. */
GPT2_API const char *gpt2_last_error(gpt2_context *context);

/* The opened device, as JSON: {"library":"cpu"|"cuda","device":name,"codePath":"avx512"|"avx2"|"portable"|"sm90"|...,
 * "threads":n,"canCapture":bool,"dtypes":["fp32",...]}; on CUDA also "computeCapability":"9.0","multiprocessors":n,
 * "driver":"13.0". If the last failure blames another rank, also "failedRank":n; gpt2_last_error then says "function: rank n ...". */
GPT2_API const char *gpt2_context_description(gpt2_context *context);

/* Gives ops their scratch: `workspace` [bytes] of device memory, owned by the caller. */
GPT2_API int gpt2_set_workspace(gpt2_context *context, void *workspace, int64_t bytes);

/* Allocate and free zeroed memory: on the device, or page-locked on the host for asynchronous copies. gpt2_memory_info
 * gives the free and the total bytes of the device's memory. */
GPT2_API int gpt2_allocate(gpt2_context *context, GPT2_HOST void **memory, int64_t bytes);
GPT2_API int gpt2_free(gpt2_context *context, void *memory);
GPT2_API int gpt2_allocate_pinned(gpt2_context *context, GPT2_HOST void **memory, int64_t bytes);
GPT2_API int gpt2_free_pinned(gpt2_context *context, void *memory);
GPT2_API int gpt2_memory_info(gpt2_context *context, GPT2_HOST int64_t *available, GPT2_HOST int64_t *total);

/* gpt2_copy_to_device and gpt2_copy_to_host return when the copy is done; the other functions are enqueued. Host memory is
 * [bytes]. `pinned` is from gpt2_allocate_pinned; leave it alone until an event recorded after the copy is reached. */
GPT2_API int gpt2_copy_to_device(gpt2_context *context, void *destination, GPT2_HOST const void *source, int64_t bytes);
GPT2_API int gpt2_copy_to_host(gpt2_context *context, GPT2_HOST void *destination, const void *source, int64_t bytes);
GPT2_API int gpt2_copy_to_device_async(gpt2_context *context, void *destination, const void *pinned, int64_t bytes);
GPT2_API int gpt2_copy_to_host_async(gpt2_context *context, void *pinned, const void *source, int64_t bytes);
GPT2_API int gpt2_copy_on_device(gpt2_context *context, void *destination, const void *source, int64_t bytes);
GPT2_API int gpt2_fill_zero(gpt2_context *context, void *destination, int64_t bytes);

/* weight [count] = master [count], rounded to nearest even. In fp32 and tf32 the call copies, or does nothing if weight
 * and master are the same memory. */
GPT2_API int gpt2_cast_weights(gpt2_context *context, void *weight, const float *master, int64_t count);

/* An event is reached when all work enqueued before it was recorded has finished. gpt2_event_query does not block;
 * gpt2_event_elapsed gives the time between two reached events. Work enqueued after gpt2_event_wait starts after the
 * event is reached; in a graph, the event must be recorded in the same graph. */
GPT2_API int gpt2_event_create(gpt2_context *context, GPT2_HOST gpt2_event **event);
GPT2_API int gpt2_event_destroy(gpt2_context *context, gpt2_event *event);
GPT2_API int gpt2_event_record(gpt2_context *context, gpt2_event *event);
GPT2_API int gpt2_event_query(gpt2_context *context, GPT2_HOST int32_t *reached, gpt2_event *event);
GPT2_API int gpt2_event_elapsed(gpt2_context *context, GPT2_HOST float *milliseconds, gpt2_event *from, gpt2_event *to);
GPT2_API int gpt2_event_wait(gpt2_context *context, gpt2_event *event);

/* The ops enqueued between begin and end are not run but recorded into a graph, which gpt2_graph_launch runs. A device
 * that cannot record ("canCapture":false) returns GPT2_UNSUPPORTED: enqueue the same ops every step instead. */
GPT2_API int gpt2_capture_begin(gpt2_context *context);
GPT2_API int gpt2_capture_end(gpt2_context *context, GPT2_HOST gpt2_graph **graph);
GPT2_API int gpt2_graph_launch(gpt2_context *context, gpt2_graph *graph);
GPT2_API int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *graph);

/* ---------------------------------------------------------------- kernels from outside this library
 *
 * TypeScript compiles a file of kernels (src/ops/kernels); the CPU library runs them by emulating a GPU (cpu/emulator). */

/* Loads a file of compiled kernels: a cubin for this GPU, or a shared library for the CPU. `path` is [bytes] of UTF-8. */
GPT2_API int gpt2_module_load(gpt2_context *context, GPT2_HOST gpt2_module **module, GPT2_HOST const void *path,
                              int64_t bytes);
GPT2_API int gpt2_module_free(gpt2_context *context, gpt2_module *module);

/* The module's kernels as a JSON array, with an object for each kernel:
 *   "signature"   demangled: "add(float*, float const*, int)"; an extern "C" kernel has only a name
 *   "parameters"  an object for each, with its "offset" and "bytes" in the arguments of a launch
 *   "registers" and "localBytes" (spills and arrays) of a thread; "sharedBytes" (static shared memory) of a block;
 *   "threads" and "sharedLimit", the most threads and the most bytes of shared memory that a block can have */
GPT2_API const char *gpt2_module_description(gpt2_module *module);

/* Enqueues a kernel of a module: `kernel` is its index in the description.
 *   arguments [bytes]  the kernel's parameters, each at its offset
 *   shared_bytes       dynamic shared memory of a block
 *   reach [parameters] for each pointer, how many bytes the kernel may access from its address on; only the CPU library
 *                      checks this, if the file was compiled with checks */
GPT2_API int gpt2_module_launch(gpt2_context *context, gpt2_module *module, int32_t kernel, int32_t grid_x,
                                int32_t grid_y, int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z,
                                int32_t shared_bytes, GPT2_HOST const void *arguments, int64_t bytes,
                                GPT2_HOST const int64_t *reach, int64_t parameters);

/* MT19937 (Matsumoto and Nishimura 1998), seeded as by torch.manual_seed on the CPU. Returns NULL if memory ran out. */
GPT2_API gpt2_generator *gpt2_generator_create(uint32_t seed);
GPT2_API int gpt2_generator_destroy(gpt2_generator *generator);

/* Draws `normals` [count] as torch.Tensor.normal_ does on the CPU. A count below 16 gives GPT2_INVALID_ARGUMENT. */
GPT2_API int gpt2_generator_normal(gpt2_generator *generator, GPT2_HOST float *normals, int64_t count, float mean,
                                   float standard_deviation);

/* ---------------------------------------------------------------- ranks: processes that train together
 *
 * Each of R ranks is a process with one context; a communicator joins the ranks. */

enum GPT2_COMMUNICATOR { GPT2_COMMUNICATOR_ID_SIZE = 192 };

/* Makes a unique id for a new communicator, `id` = [GPT2_COMMUNICATOR_ID_SIZE] bytes. Rank 0 calls this function and sends
 * the id to every rank. is_one_machine is 1 if all ranks are on this machine and share its loopback; the CPU library requires 1. */
GPT2_API int gpt2_communicator_id(gpt2_context *context, GPT2_HOST void *id, int32_t is_one_machine);

/* Joins the ranks; returns when all have joined. On one machine they connect over TCP on its loopback, and copy engines
 * carry the data if each GPU can access the memory of the others. Otherwise, or with GPT2_PEER_COPIES=0, NCCL carries the
 * data; only then is NCCL opened (libnccl.so.2, or the file that GPT2_NCCL_LIB names).
 *   id [GPT2_COMMUNICATOR_ID_SIZE]
 *   timeout_milliseconds  how long rank 0 waits for another rank in the functions of this section; other ranks wait five
 *                         seconds longer for rank 0. NCCL has two minutes to join the ranks. */
GPT2_API int gpt2_communicator_create(gpt2_context *context, GPT2_HOST gpt2_communicator **communicator,
                                      GPT2_HOST const void *id, int32_t rank, int32_t ranks,
                                      int32_t timeout_milliseconds);

/* Waits for the collectives enqueued so far, then frees the communicator; all ranks call it. If `abandon` is not 0,
 * unfinished collectives, which may wait for a rank that is gone, end without a result: the call returns within a second.
 * Free graphs after a call that abandons. */
GPT2_API int gpt2_communicator_destroy(gpt2_context *context, gpt2_communicator *communicator, int32_t abandon);

/* The communicator, as JSON:
 *   "carrier"   "copies" (the GPUs' copy engines), "nccl" or "loopback" (the CPU library)
 *   "parts"     the rows P of gpt2_reduce_scatter's result: R (the ranks), or 1 if NCCL adds the rows
 *   "ordering"  why a rank that sees a signal also sees the data copied earlier: "flushed" (waiting for the signal flushes
 *               remote writes) or "nvlink" (NVLink keeps their order); "" if no copy engines are used
 *   "reason"    on one machine: why NCCL is used instead of copy engines; else "" */
GPT2_API const char *gpt2_communicator_description(gpt2_communicator *communicator);

/* Lets the other ranks write to `memory`, which gpt2_allocate returned; does nothing with NCCL. `bytes` is a multiple
 * of 2 MiB, the same at every rank. The `out` of gpt2_reduce_scatter and gpt2_all_gather must be in such memory. When no
 * collective uses the memory any more, all ranks call gpt2_communicator_unshare or gpt2_communicator_destroy, then free
 * it. All ranks call gpt2_communicator_share and unshare, which return when all have called. */
GPT2_API int gpt2_communicator_share(gpt2_context *context, gpt2_communicator *communicator, void *memory,
                                     int64_t bytes);
GPT2_API int gpt2_communicator_unshare(gpt2_context *context, gpt2_communicator *communicator, void *memory);

/* gpt2_communicator_check gives GPT2_RANK_ERROR if a collective has failed so far; it does not wait. gpt2_collectives_join
 * makes ops enqueued later wait for all collectives enqueued so far; gpt2_collectives_record records an event after these
 * collectives, for gpt2_event_wait. A graph must join, or wait for such an event, after its last collective. */
GPT2_API int gpt2_communicator_check(gpt2_context *context, gpt2_communicator *communicator);
GPT2_API int gpt2_collectives_join(gpt2_context *context, gpt2_communicator *communicator);
GPT2_API int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *communicator, gpt2_event *event);

/* Collectives enqueued between begin and end start together at the end if the library supports this, so that ranks wait for
 * each other once instead of once per collective. No two collectives of a group may access the same memory. Within a group,
 * call no other function that takes a communicator. */
GPT2_API int gpt2_collectives_group_begin(gpt2_context *context, gpt2_communicator *communicator);
GPT2_API int gpt2_collectives_group_end(gpt2_context *context, gpt2_communicator *communicator);

/* ================================================================ ops
 *
 * An op's comment ends with indented lines that list its tensors in the order of the arguments, separated by commas.
 * `npm run generate` makes TypeScript's functions, argument checks and the CPU's dispatch from these lines.
 *   name [N,C]               is read
 *   name = [N,C]             is overwritten
 *   name += [N,C]            is added to
 *   name (accumulate) [N,C]  is overwritten if the argument `accumulate` is 0, added to if it is 1: (=|+=) in formulas
 *   name (updated) [N,C]     is read and changed, or changed in part
 *   name (kept) [N,C]        is overwritten or left as it is, and not read
 *   name (scratch) [N,C]     is overwritten; its content is private to the library
 * A dimension is an argument, a number, or an expression of one argument (3C, S+1, C/NH, N/16); a quotient is rounded up.
 * >=T allows more rows than T, of which the first T are used. These may follow the shape, in this order:
 *   : gradient, : ARGUMENT   the dtype of weight gradients (see GPT2_DTYPE); the dtype that ARGUMENT is, fp32 or bf16
 *   < V, < V or -1           ids from 0 to V-1; -1 stands for no id. On another id the CPU library fails; CUDA gives NaN
 *   <= t                     0 <= element [b,t] <= t, and no element is less than the one before it in row b
 *   by tokens                only rows whose number is an id in this tensor are read or written
 *   first 2C                 only the first 2C elements of a row are read or written
 *   or NULL                  optional; also of a communicator, which has no shape
 *   with X                   NULL exactly where X is
 *   where A == VALUE         NULL unless A == VALUE (A != VALUE) holds; if it holds, not NULL without "or NULL"
 *   may be X, may be X or Y  may be the same memory; an output overlaps no other tensor
 * Then, each after a semicolon: relations between arguments, in C, with NULL for tensors, and `workspace` with the
 * arguments of the scratch function: the next in this file, or the named function. Integer arguments are sizes of at least
 * 1, except `accumulate`, dtypes, arguments in relations, and `activation`, a GPT2_ACTIVATION. Sizes of FP8 tensors, except
 * N, are multiples of 16. With `gradients` 0 a scratch function leaves out the bytes for dweight, gpt2_classifier_scratch
 * also the bytes for din and dbias. The scratch without them for the largest N serves every smaller N. */

/* out[b,t,:] = wte[id,:] + wpe[p,:]. Without positions id = tokens[b,t] and p = t; with positions id = texts[b,p] and
 * p = positions[b] + t (see "generation").
 *   out = [B,T,C], tokens [B,T] < V where positions == NULL, texts [B,S+1] where positions != NULL, positions [B] or NULL,
 *   wte [>=V,C] by tokens, wpe [>=S,C] or NULL; positions != NULL || S == T */
GPT2_API int gpt2_embedding_forward(gpt2_context *context, void *out, const int32_t *tokens, const int32_t *texts,
                                    const int32_t *positions, const void *wte, const void *wpe, int32_t B, int32_t T,
                                    int32_t S, int32_t C, int32_t V);

/* dwte[v,:] += sum of dout[b,t,:] over tokens[b,t] = v, in an order that depends only on the tokens;
 * dwpe[t,:] (=|+=) sum over b of dout[b,t,:]. In training dwte may already hold the gradient of gpt2_classifier, whose
 * weight can be wte. On CUDA V is at most 65536, the limit of a token file, and a token outside [0, V) counts only in dwpe.
 *   dwte += [>=V,C]: gradient by tokens, dwpe (accumulate) [>=T,C]: gradient or NULL, dout [B,T,C], tokens [B,T] < V;
 *   workspace (B,T,C,V) */
GPT2_API int gpt2_embedding_backward(gpt2_context *context, void *dwte, void *dwpe, const void *dout,
                                     const int32_t *tokens, int32_t B, int32_t T, int32_t C, int32_t V,
                                     int32_t accumulate);
GPT2_API int gpt2_embedding_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t T, int32_t C,
                                    int32_t V);

/* ---------------------------------------------------------------- norms: layernorm (Ba et al. 2016); RMSNorm (Zhang and
 * Sennrich 2019), without mean and biases. If `values` is set, the rounded result is also stored in FP8, rowwise. */

/* out = (in - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(population variance + eps); or in RMSNorm
 * out = in * rstd * weight, rstd = 1/sqrt(mean of in^2 + eps).
 *   out = [N,C] or NULL, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values, mean = [N] or NULL,
 *   rstd = [N], in [N,C], weight [C], bias [C] with mean; out != NULL || values != NULL; eps >= 0 */
GPT2_API int gpt2_norm_forward(gpt2_context *context, void *out, uint8_t *values, float *scale, float *norm,
                               float *mean, float *rstd, const void *in, const void *weight, const void *bias,
                               int32_t N, int32_t C, float eps);

/* With g = dout * weight and normalized = (in - mean) * rstd, `mean` and mean(g) 0 in RMSNorm:
 * din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, the residual stream's gradient; dweight (=|+=)
 * column sums of dout * normalized; dbias (=|+=) column sums of dout.
 *   din = [N,C] may be dout or dresidual, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
 *   dweight (accumulate) [C], dbias (accumulate) [C] with mean, dout [N,C], dresidual [N,C] or NULL, in [N,C], weight [C],
 *   mean [N] or NULL, rstd [N]; workspace (N,C) */
GPT2_API int gpt2_norm_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm,
                                float *dweight, float *dbias, const void *dout, const void *dresidual, const void *in,
                                const void *weight, const float *mean, const float *rstd, int32_t N, int32_t C,
                                int32_t accumulate);
GPT2_API int gpt2_norm_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C);

/* ---------------------------------------------------------------- matmul */

/* out = activation(in * weight^T + bias) + residual. Backward needs GELU's input `pre`, or the squared ReLU's `out`.
 *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], weight [O,C], bias [O] or NULL,
 *   residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION; workspace (N,C,O,0) */
GPT2_API int gpt2_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in, const void *weight,
                                 const void *bias, const void *residual, int32_t N, int32_t C, int32_t O,
                                 int32_t activation);

/* din[n,c] = (dout * weight)[n,c] f[n,c], with the derivative f of the activation before the layer: gelu'(pre), or 2 sqrt(activated).
 *   din = [N,C], dout [N,O], weight [O,C], pre [N,C] where activation == GPT2_GELU,
 *   activated [N,C] where activation == GPT2_RELU_SQUARED; workspace (N,C,O,0) */
GPT2_API int gpt2_matmul_backward_input(gpt2_context *context, void *din, const void *dout, const void *weight,
                                        const void *pre, const void *activated, int32_t N, int32_t C, int32_t O,
                                        int32_t activation);

/* dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
 *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [N,O], in [N,C]; workspace (N,C,O,1) */
GPT2_API int gpt2_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const void *dout,
                                         const void *in, int32_t N, int32_t C, int32_t O, int32_t accumulate);
GPT2_API int gpt2_matmul_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t O,
                                 int32_t gradients);

/* ---------------------------------------------------------------- attention (Vaswani et al. 2017), causal */

/* Normalizes and rotates each head's q and k in place. QK-norm (Henry et al. 2020): x = x * rstd, with
 * rstd = 1/sqrt(mean of x^2 + eps) over the head, or 1 if rstd is NULL. Rotary position p (Su et al. 2021), with i < HS/2,
 * cos = rotations[p,i] and sin = rotations[p,i+HS/2]: x[i] = x[i] cos + x[i+HS/2] sin, x[i+HS/2] = x[i+HS/2] cos - x[i] sin.
 * q is multiplied by query_factor last. Token t has position t, or positions[b] + t with `positions`; a position outside
 * [0, S - T + t] makes q and k NaN. rstd holds, for each token, NH values of q and then NH of k. v, the last C elements of
 * a row of qkv, is accessed only with value_factors: `values` = v, then v = value_factors[0] v + value_factors[1] embedded,
 * where `embedded` is a value embedding of the token (Zhou et al. 2024), 0 if NULL.
 *   qkv (updated) [B,T,3C] first 2C, rstd = [B,T,2NH] or NULL, values = [B,T,C] with value_factors, rotations [S,C/NH],
 *   positions [B] or NULL, value_factors [2] or NULL, embedded [B,T,C] or NULL where value_factors != NULL;
 *   C % (2 * NH) == 0; T <= S; eps >= 0 */
GPT2_API int gpt2_qk_norm_rotary_forward(gpt2_context *context, void *qkv, float *rstd, void *values,
                                         const float *rotations, const int32_t *positions, const void *value_factors,
                                         const void *embedded, int32_t B, int32_t T, int32_t S, int32_t C, int32_t NH,
                                         float eps, float query_factor);

/* Turns the gradient of forward's result `qkv` into the gradient of forward's input, in place; for v only with value_factors.
 * Forward ran without positions. Let y be forward's result and dy its gradient, both rotated back; for q, divide y and
 * multiply dy by query_factor. Then dx = rstd * (dy - y * mean(dy * y)), or dy if rstd is NULL. With value_factors:
 * dvalue_factors (=|+=) the sums of dv * values and of dv * embedded; dembedded = value_factors[1] dv; dv = value_factors[0] dv.
 *   dqkv (updated) [B,T,3C] first 2C, dvalue_factors (accumulate) [2] with value_factors, dembedded = [B,T,C] with embedded,
 *   qkv [B,T,3C] first 2C, rstd [B,T,2NH] or NULL, rotations [>=T,C/NH], value_factors [2] or NULL,
 *   values [B,T,C] with value_factors, embedded [B,T,C] or NULL where value_factors != NULL; C % (2 * NH) == 0;
 *   query_factor != 0; workspace (2) */
GPT2_API int gpt2_qk_norm_rotary_backward(gpt2_context *context, void *dqkv, float *dvalue_factors, void *dembedded,
                                          const void *qkv, const float *rstd, const float *rotations,
                                          const void *value_factors, const void *values, const void *embedded,
                                          int32_t B, int32_t T, int32_t C, int32_t NH, float query_factor,
                                          int32_t accumulate);
GPT2_API int gpt2_factors_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t K);

/* For each head, softmax(q*k^T/sqrt(HS))*v, where a query t attends to positions first[b,t] to t; to 0 to t if `first` is
 * NULL. qkv holds q, k, v, each [NH,HS]. first[b,t] = max(0, t - w + 1) makes a window of w positions; the
 * start of t's document separates documents; the larger of these two does both. If a row of `first` decreases or exceeds t,
 * the CPU library refuses it; on CUDA results are undefined, but the op ends and reads no other memory. lse is the log of
 * the softmax's denominator, from which backward recomputes the probabilities (Dao et al. 2022). On CUDA HS is at most
 * 256, and less on GPUs whose blocks have little shared memory: a larger HS gives GPT2_UNSUPPORTED.
 *   out = [B,T,C], lse = [B,NH,T], qkv [B,T,3C], first [B,T] <= t or NULL; C % NH == 0; workspace (B,T,C,NH) */
GPT2_API int gpt2_attention_forward(gpt2_context *context, void *out, float *lse, const void *qkv, const int32_t *first,
                                    int32_t B, int32_t T, int32_t C, int32_t NH);

/* With p = exp(q*k^T/sqrt(HS) - lse) where a query attends to a key, else 0: dv = p^T * dout;
 * ds[t,s] = p[t,s] ((dout * v^T)[t,s] - sum of dout[t] out[t]) / sqrt(HS); dq = ds * k; dk = ds^T * q. `first` as in forward.
 *   dqkv = [B,T,3C], dout [B,T,C], out [B,T,C], qkv [B,T,3C], lse [B,NH,T], first [B,T] <= t or NULL; C % NH == 0;
 *   workspace (B,T,C,NH) */
GPT2_API int gpt2_attention_backward(gpt2_context *context, void *dqkv, const void *dout, const void *out,
                                     const void *qkv, const float *lse, const int32_t *first, int32_t B, int32_t T,
                                     int32_t C, int32_t NH);
GPT2_API int gpt2_attention_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t T, int32_t C,
                                    int32_t NH);

/* ---------------------------------------------------------------- element by element */

/* GELU (Hendrycks and Gimpel 2016) in tanh form, out = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 *   out = [count], in [count] */
GPT2_API int gpt2_gelu_forward(gpt2_context *context, void *out, const void *in, int64_t count);

/* din = dout * gelu'(in).
 *   din = [count] may be dout, dout [count], in [count] */
GPT2_API int gpt2_gelu_backward(gpt2_context *context, void *din, const void *dout, const void *in, int64_t count);

/* out = a + b. Backward is the identity on both sides (see dresidual of gpt2_norm_backward).
 *   out = [count] may be a or b, a [count], b [count] */
GPT2_API int gpt2_residual_forward(gpt2_context *context, void *out, const void *a, const void *b, int64_t count);

/* Limits logits (Gemma Team 2024), here by an algebraic sigmoid: out = cap * in / sqrt(in^2 + cap^2).
 *   out = [count] may be in, in [count]; cap > 0 */
GPT2_API int gpt2_softcap_forward(gpt2_context *context, void *out, const void *in, int64_t count, float cap);

/* The input of a layer: out = factors[0] (in + factors[2] skip) + factors[1] embedded, with `in` the residual stream,
 * `skip` the output of an earlier layer, 0 if NULL, and `embedded` the input of the first layer.
 *   out = [N,C], in [N,C], skip [N,C] or NULL, embedded [N,C], factors [3] */
GPT2_API int gpt2_stream_sum_forward(gpt2_context *context, void *out, const void *in, const void *skip,
                                     const void *embedded, const void *factors, int32_t N, int32_t C);

/* din = factors[0] dout + later_factors[0] later_factors[2] later, the gradients of `in` as the residual stream of this
 * layer and as the skip of a later layer, whose dout is `later`. dembedded += factors[1] dout; dfactors (=|+=) the sums of
 * dout * (in + factors[2] skip), of dout * embedded, and of factors[0] dout * skip.
 *   din = [N,C] may be dout or later, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
 *   dembedded += [N,C], dfactors (accumulate) [3], dout [N,C], later [N,C] or NULL, later_factors [3] with later, in [N,C],
 *   skip [N,C] or NULL, embedded [N,C], factors [3]; workspace gpt2_factors_scratch(3) */
GPT2_API int gpt2_stream_sum_backward(gpt2_context *context, void *din, uint8_t *values, float *scale, float *norm,
                                      void *dembedded, float *dfactors, const void *dout, const void *later,
                                      const void *later_factors, const void *in, const void *skip,
                                      const void *embedded, const void *factors, int32_t N, int32_t C,
                                      int32_t accumulate);

/* ---------------------------------------------------------------- cross-entropy */

/* losses[i] = -log softmax(logits[i,:V])[targets[i]]; dlogits[i,:V] = (softmax - onehot) * dloss, dlogits[i,V:] = 0. Here and
 * in gpt2_classifier a row with target -1 has loss and gradient 0. For a mean loss, dloss is 1 / (tokens of a step).
 *   losses = [N], dlogits = [N,Vp] or NULL may be logits, logits [N,Vp], targets [N] < V or -1; V <= Vp */
GPT2_API int gpt2_cross_entropy(gpt2_context *context, float *losses, void *dlogits, const void *logits,
                                const int32_t *targets, int32_t N, int32_t V, int32_t Vp, float dloss);

/* The last linear layer with its loss, and backward through both: losses[i] = -log softmax(logits[i])[targets[i]] over the
 * first V outputs, with logits = in * weight^T + bias, limited as by gpt2_softcap_forward if softcap > 0; din, dweight and
 * dbias are the gradients of dloss * sum of losses. On sm_90 a logit over the target's logit + 77 counts as this sum.
 *
 * With copies of `in` and `weight` in FP8, logits = (in_values * in_scale) * weight_values^T * factors[SCALE] + bias, and
 * gradients are computed in FP8 (in bf16 on GPUs other than sm_90), from exponentials in E5M2, divided by an estimate of
 * softmax's denominator (formulas: cpu/classifier.cpp). step[SATURATED] (=|+=) the number of rows whose exponentials sum to
 * over 57344, the largest E5M2. weight_transposed is read only with din. CUDA refuses V over 65536 with dweight.
 *   losses = [N], din = [N,C] or NULL, dweight (accumulate) [Vp,C]: gradient or NULL, dbias (accumulate) [Vp] or NULL,
 *   step (updated) [GPT2_STEP_SIZE] or NULL where in_values != NULL, logits (scratch) [N,Vp], in [N,C],
 *   in_values [N,C] or NULL, in_scale [N] with in_values, weight [Vp,C], weight_values [Vp,C] with in_values,
 *   weight_transposed [C,Vp] with in_values, factors [GPT2_FP8_FACTORS] with in_values, bias [Vp] or NULL,
 *   targets [N] < V or -1; V <= Vp; softcap >= 0; workspace (N,C,Vp,din || dweight || dbias,in_values) */
GPT2_API int gpt2_classifier(gpt2_context *context, float *losses, void *din, void *dweight, float *dbias, float *step,
                             void *logits, const void *in, const uint8_t *in_values, const float *in_scale,
                             const void *weight, const uint8_t *weight_values, const uint8_t *weight_transposed,
                             const float *factors, const void *bias, const int32_t *targets, int32_t N, int32_t C,
                             int32_t V, int32_t Vp, float dloss, float softcap, int32_t accumulate);
GPT2_API int gpt2_classifier_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t Vp,
                                     int32_t gradients, int32_t fp8);

/* step[LOSS] (=|+=) scale * sum of losses, summed in double.
 *   step (updated) [GPT2_STEP_SIZE], losses [N] */
GPT2_API int gpt2_loss_sum(gpt2_context *context, float *step, const float *losses, int32_t N, float scale,
                           int32_t accumulate);

/* ---------------------------------------------------------------- FP8 (Micikevicius et al. 2022), in a context of GPT2_FP8
 *
 * An element of a matrix in FP8 is a value in E4M3 times a scale. A scale is a power of two, at least 2^-126, so scaling
 * rounds nothing. Values are rounded to nearest even: from fp32 in matmuls, from the context's dtype in other ops. Values
 * beyond 448, the largest number of E4M3, become 448. NaN stays NaN.
 *
 *   copy        values        scale and norm                       used by
 *   rowwise     [N,C]         one for each row                     forward, backward to the input
 *   columnwise  [C,N/16,16]   one for each block of rows           backward to the weight, which sums over rows
 *   weight      [O,C], [C,O]  in its `factors` (GPT2_FP8_FACTOR)   forward; [C,O]: backward to the input
 *
 * `norm` is an upper bound of the L2 norm of a row in FP8: 17/16 of the norm before rounding, plus sqrt(C) 2^-10 scale. A
 * block is GPT2_FP8_BLOCK rows. Columnwise copies store rows in groups of 16: row 8 b + r of a group, with b 0 or 1 and r
 * from 0 to 7, is at 2 r + b. Values of rows past N are 0.
 *
 * A scale depends on no earlier step: it is the smallest with which bound / scale is at most 448. A block has the largest
 * scale and norm of its rows; NaN is skipped. Matmuls scale a block like a row, by a bound from the block's norm and scale.
 *
 *   elements                               bound of absolute values, with ROW_NORM, COLUMN_NORM and BIAS in `factors`
 *   a weight; a row not from a matmul      the largest absolute value
 *   gelu(in * weight^T + bias)             in_norm * ROW_NORM + BIAS: no element of in * weight^T exceeds the norm of its
 *                                          row of `in` times the largest norm of a row of the weight (Cauchy and Schwarz)
 *   relu(in * weight^T + bias)^2           (in_norm * ROW_NORM + BIAS)^2
 *   (dout * weight) * derivative           1.13 * dout_norm * COLUMN_NORM, because gelu' is below 1.13
 *   (dout * weight) * 2 sqrt(activated)    2 sqrt(448 activated_scale) * dout_norm * COLUMN_NORM
 *
 * Backward through GELU reads gelu', between -0.13 and 1.13, as a byte: c from -126 to 126 stands for (c + 100) / 200. The
 * error is at most 0.0025, and 0 and 1 are exact. 127 is NaN. */
enum GPT2_FP8_COLUMNWISE { GPT2_FP8_GROUP = 16, GPT2_FP8_BLOCK = 512 };

/* Elements of a weight's `factors`: its scale, and norms that bound the results of its matmuls. */
enum GPT2_FP8_FACTOR {
  GPT2_FP8_SCALE = 0,
  GPT2_FP8_ROW_NORM = 1,    /* the largest norm of a row of the weight in FP8; 0 without `values` */
  GPT2_FP8_COLUMN_NORM = 2, /* the largest norm of a column; 0 without `transposed` */
  GPT2_FP8_BIAS = 3,        /* the bias's largest absolute value; 0 without a bias */
  GPT2_FP8_FACTORS = 4
};

/* The weight in FP8 and its factors. On CUDA at most two contexts may call this op on a GPU at the same time, because the
 * kernel's blocks wait for each other.
 *   values = [O,C] or NULL, transposed = [C,O] or NULL, factors = [GPT2_FP8_FACTORS], weight [O,C], bias [O] or NULL;
 *   C % 16 == 0; O % 16 == 0; workspace (C,O) */
GPT2_API int gpt2_fp8_quantize_weight(gpt2_context *context, uint8_t *values, uint8_t *transposed, float *factors,
                                      const void *weight, const void *bias, int32_t C, int32_t O);
GPT2_API int gpt2_fp8_quantize_weight_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t C, int32_t O);

/* The columnwise copy of a matrix in FP8. Values are rounded again only if they become subnormal at the block's scale.
 *   columnwise = [C,N/16,16], columnwise_scale = [N/GPT2_FP8_BLOCK], columnwise_norm = [N/GPT2_FP8_BLOCK], values [N,C],
 *   scale [N], norm [N] */
GPT2_API int gpt2_fp8_transpose(gpt2_context *context, uint8_t *columnwise, float *columnwise_scale,
                                float *columnwise_norm, const uint8_t *values, const float *scale, const float *norm,
                                int32_t N, int32_t C);

/* gpt2_matmul_forward in FP8: out = in * weight^T + bias + residual. With an activation the result is stored in FP8 only:
 * values * scale = gelu(pre), derivative = gelu'(pre), pre = in * weight^T + bias; or values * scale = relu(pre)^2.
 *   out = [N,O] where activation == GPT2_NO_ACTIVATION, values = [N,O] where activation != GPT2_NO_ACTIVATION,
 *   scale = [N] with values, columnwise = [O,N/16,16] or NULL where activation != GPT2_NO_ACTIVATION,
 *   columnwise_scale = [N/GPT2_FP8_BLOCK] with columnwise, derivative = [N,O] where activation == GPT2_GELU, in [N,C],
 *   in_scale [N], in_norm [N] with values, in_columnwise_norm [N/GPT2_FP8_BLOCK] with columnwise, weight [O,C],
 *   factors [GPT2_FP8_FACTORS], bias [O] or NULL, residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION;
 *   workspace (N,C,O,0) */
GPT2_API int gpt2_fp8_matmul_forward(gpt2_context *context, void *out, uint8_t *values, float *scale,
                                     uint8_t *columnwise, float *columnwise_scale, int8_t *derivative,
                                     const uint8_t *in, const float *in_scale, const float *in_norm,
                                     const float *in_columnwise_norm, const uint8_t *weight, const float *factors,
                                     const void *bias, const void *residual, int32_t N, int32_t C, int32_t O,
                                     int32_t activation);

/* gpt2_matmul_backward_input in FP8: din = dout * weight. Through an activation the result is stored in FP8 only:
 * values * scale = (dout * weight) * derivative, or (dout * weight) * 2 sqrt(activated), with forward's result `activated`.
 *   din = [N,C] where activation == GPT2_NO_ACTIVATION, values = [N,C] where activation != GPT2_NO_ACTIVATION,
 *   scale = [N] with values, columnwise = [C,N/16,16] with values, columnwise_scale = [N/GPT2_FP8_BLOCK] with values,
 *   dout [N,O], dout_scale [N], dout_norm [N] with values, dout_columnwise_norm [N/GPT2_FP8_BLOCK] with values,
 *   transposed [C,O], factors [GPT2_FP8_FACTORS], derivative [N,C] where activation == GPT2_GELU,
 *   activated [N,C] where activation == GPT2_RELU_SQUARED, activated_scale [N] with activated,
 *   activated_columnwise_scale [N/GPT2_FP8_BLOCK] with activated; workspace (N,C,O,0) */
GPT2_API int gpt2_fp8_matmul_backward_input(gpt2_context *context, void *din, uint8_t *values, float *scale,
                                            uint8_t *columnwise, float *columnwise_scale, const uint8_t *dout,
                                            const float *dout_scale, const float *dout_norm,
                                            const float *dout_columnwise_norm, const uint8_t *transposed,
                                            const float *factors, const int8_t *derivative,
                                            const uint8_t *activated, const float *activated_scale,
                                            const float *activated_columnwise_scale, int32_t N, int32_t C, int32_t O,
                                            int32_t activation);

/* gpt2_matmul_backward_weight from columnwise copies: dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
 *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [O,N/16,16], dout_scale [N/GPT2_FP8_BLOCK],
 *   in [C,N/16,16], in_scale [N/GPT2_FP8_BLOCK]; workspace (N,C,O,1) */
GPT2_API int gpt2_fp8_matmul_backward_weight(gpt2_context *context, void *dweight, float *dbias, const uint8_t *dout,
                                             const float *dout_scale, const uint8_t *in, const float *in_scale,
                                             int32_t N, int32_t C, int32_t O, int32_t accumulate);
GPT2_API int gpt2_fp8_matmul_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t O,
                                     int32_t gradients);

/* ---------------------------------------------------------------- norm of the gradients, optimizers
 *
 * The optimizers do nothing if step[UPDATED] = 0. In fp32 and tf32 weight and master are the same memory; else weight = the
 * rounded master. lr = rate * step[LEARNING_RATE]. */

/* `targets` is 1 / dloss, and f = targets / step[TARGETS] leaves targets of -1 out of the means:
 * step[LOSS] *= f; step[NORM] = f * sqrt of the sum of squares over `matrices` and `vectors`;
 * step[CLIP] = f * max_norm / step[NORM] if step[NORM] > max_norm > 0, else f;
 * step[UPDATED] = 1 if step[LOSS] <= step[LOSS_LIMIT] and step[NORM] <= step[NORM_LIMIT] and (step[AFTER_UPDATE] = 0 or
 * step[UPDATED] was not 0), else 0. The device decides, because the host enqueues a step before it knows the previous loss.
 * With a communicator each rank passes its share of the matrices, as the `parts` rows that gpt2_reduce_scatter wrote,
 * and all vectors, which are the same at every rank. The first row becomes the sum of the rows, added in fp32 in row
 * order and rounded once. The op waits for all collectives enqueued before it.
 *   step (updated) [GPT2_STEP_SIZE], matrices (updated) [parts,matrix_count]: gradient, vectors [vector_count],
 *   communicator or NULL; communicator != NULL || parts == 1; parts == 1 || matrix_count % 32 == 0;
 *   workspace (matrix_count,vector_count) */
GPT2_API int gpt2_global_norm(gpt2_context *context, float *step, void *matrices, const float *vectors,
                              gpt2_communicator *communicator, int32_t parts, int64_t matrix_count,
                              int64_t vector_count, float targets, float max_norm);
GPT2_API int gpt2_global_norm_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int64_t matrix_count,
                                      int64_t vector_count);

/* AdamW (Loshchilov and Hutter 2019), with g = gradient * step[CLIP]: m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2;
 * master -= lr * (m / c1 / (sqrt(v / c2) + eps) + weight_decay * master). c1 = 1 - beta1^t and c2 = 1 - beta2^t (step t
 * counted from 1) are step[first_scalar] and step[first_scalar + 1].
 *   weight (kept) [count] may be master, master (updated) [count], m (updated) [count], v (updated) [count],
 *   gradient [count]: gradient_dtype, step [GPT2_STEP_SIZE]; first_scalar >= GPT2_STEP_SCALARS;
 *   first_scalar + 2 <= GPT2_STEP_TARGETS */
GPT2_API int gpt2_adamw(gpt2_context *context, void *weight, float *master, float *m, float *v, const void *gradient,
                        const float *step, int64_t count, int32_t gradient_dtype, int32_t first_scalar, float rate,
                        float beta1, float beta2, float eps, float weight_decay);

/* With g = gradient * step[CLIP] and mu = step[scalar]: momentum = mu momentum + (1-mu) g, then (Nesterov's)
 * direction = mu momentum + (1-mu) g. Muon (Jordan 2024) updates a matrix by this op, gpt2_normalize_matrices,
 * gpt2_newton_schulz several times, and gpt2_muon_update. If rows > columns, direction is [columns,rows] in all four ops.
 *   direction (kept) [rows,columns], momentum (updated) [rows,columns], gradient [rows,columns]: gradient_dtype,
 *   step [GPT2_STEP_SIZE]; scalar >= GPT2_STEP_SCALARS; scalar < GPT2_STEP_TARGETS */
GPT2_API int gpt2_muon_momentum(gpt2_context *context, void *direction, float *momentum, const void *gradient,
                                const float *step, int32_t rows, int32_t columns, int32_t gradient_dtype,
                                int32_t scalar);

/* Each matrix is divided by margin * (its Frobenius norm) + eps.
 *   matrices (updated) [M,R,K]; workspace (M,R,K) */
GPT2_API int gpt2_normalize_matrices(gpt2_context *context, void *matrices, int32_t M, int32_t R, int32_t K,
                                     float margin, float eps);

/* A step of a Newton-Schulz iteration on M matrices: each singular value x becomes a x + b x^3 + c x^5. For a matrix X:
 * A = X X^T, B = b A + c A^2, out = a X + B X. A, B and out are rounded to the context's dtype, each once.
 *   out = [M,R,K], in [M,R,K]; R <= K; workspace (M,R,K) */
GPT2_API int gpt2_newton_schulz(gpt2_context *context, void *out, const void *in, int32_t M, int32_t R, int32_t K,
                                float a, float b, float c);
GPT2_API int gpt2_newton_schulz_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t M, int32_t R,
                                        int32_t K);

/* master = master (1 - lr weight_decay) - lr sqrt(max(1, rows/columns)) direction.
 *   weight (kept) [rows,columns] may be master, master (updated) [rows,columns], direction [rows,columns],
 *   step [GPT2_STEP_SIZE] */
GPT2_API int gpt2_muon_update(gpt2_context *context, void *weight, float *master, const void *direction,
                              const float *step, int32_t rows, int32_t columns, float rate, float weight_decay);

/* ---------------------------------------------------------------- generation: text that grows token by token
 *
 * B sequences of at most S tokens. positions[b] is the position of sequence b's first new token; the keys and values
 * of all positions before it are in the cache. The position is in device memory, so that one token's ops can be recorded
 * once as a graph, and enqueued before the last token is known. A sequence that does not fit (positions[b] outside
 * [0, S - T]) gets rows of NaN (in gpt2_qk_norm_rotary_forward only for the tokens outside) and leaves its cache unchanged. */

/* out = activation(layernorm(in) * weight^T + bias), for few rows; the layernorm's eps is 1e-5, `pre` is GELU's input.
 *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], norm_weight [C], norm_bias [C], weight [O,C],
 *   bias [O] or NULL; activation >= 0 && activation <= GPT2_GELU; workspace (N,C,O) */
GPT2_API int gpt2_norm_matmul_forward(gpt2_context *context, void *out, void *pre, const void *in,
                                      const void *norm_weight, const void *norm_bias, const void *weight,
                                      const void *bias, int32_t N, int32_t C, int32_t O, int32_t activation);
GPT2_API int gpt2_norm_matmul_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t N, int32_t C, int32_t O);

/* Writes the T new keys and values of each sequence to rows positions[b] to positions[b]+T-1 of the cache, then attention of
 * the T new queries: each attends to all rows up to its position or, if `window` is not 0, to the last `window` of them.
 *   out = [B,T,C], keys (updated) [B,NH,S,C/NH], values (updated) [B,NH,S,C/NH], qkv [B,T,3C], positions [B]; C % NH == 0;
 *   C / NH <= 256; window >= 0; workspace (S) */
GPT2_API int gpt2_attention_cached_forward(gpt2_context *context, void *out, void *keys, void *values, const void *qkv,
                                           const int32_t *positions, int32_t B, int32_t T, int32_t S, int32_t C,
                                           int32_t NH, int32_t window);
GPT2_API int gpt2_attention_cached_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t S);

/* Chooses the next token of each sequence by temperature, top-k and top-p: tokens[b,positions[b]+1] = the choice,
 * positions[b] += 1. A sequence with positions[b] outside [0, S) is left unchanged. A logit that is NaN or infinite
 * makes the choice -1: the model has diverged. Temperature 0 chooses the largest logit, the first of equal ones.
 * Otherwise token i has the weight w[i] = round(2^31 e^((logits[i] - largest) / temperature)). Top-k keeps the top_k
 * largest weights (0: all); then top-p (nucleus sampling, Holtzman et al. 2019) keeps the fewest largest kept weights with
 * at least top_p of the kept sum (1: all), and of equal weights the first. The choice is the first i where the running sum
 * of the kept w, in integers, exceeds r * (sum of the kept w) / 2^64, with r the number seeds[b] * 2^32 + positions[b] of
 * SplitMix64 (Steele et al. 2014) seeded with 0.
 *   tokens (updated) [B,S+1], positions (updated) [B], logits [B,Vp], seeds [B]; V <= Vp; temperature >= 0; top_k >= 0;
 *   top_p >= 0; top_p <= 1; workspace (B,V) */
GPT2_API int gpt2_sample(gpt2_context *context, int32_t *tokens, int32_t *positions, const void *logits,
                         const int32_t *seeds, int32_t B, int32_t S, int32_t V, int32_t Vp, float temperature,
                         int32_t top_k, float top_p);
GPT2_API int gpt2_sample_scratch(gpt2_context *context, GPT2_HOST int64_t *bytes, int32_t B, int32_t V);

/* ---------------------------------------------------------------- collectives
 *
 * All ranks of a communicator enqueue the same collectives in the same order. A collective starts after everything
 * enqueued before it, and runs concurrently with what is enqueued after it (on CUDA in a separate stream): its tensors
 * may be used again after gpt2_collectives_join. Sums are the same at every rank: added in the order of ranks, or in
 * NCCL's order, which depends only on ranks, groups and NCCL. R is the number of ranks, P the communicator's "parts". */

/* data = the sum of every rank's data.
 *   data (updated) [count]: dtype */
GPT2_API int gpt2_all_reduce(gpt2_context *context, void *data, gpt2_communicator *communicator, int64_t count,
                             int32_t dtype);

/* out[r,:count] = rank r's in[this rank]; where P is 1, out[0,:count] = the sum of all ranks' in[this rank]. `count` and
 * `stride` are elements of a row.
 *   out = [P,stride]: dtype, in [R,count]: dtype; stride >= count */
GPT2_API int gpt2_reduce_scatter(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
                                 int64_t count, int64_t stride, int32_t dtype);

/* out[r] = rank r's `in`.
 *   out = [R,count]: dtype may be in, in [count]: dtype */
GPT2_API int gpt2_all_gather(gpt2_context *context, void *out, const void *in, gpt2_communicator *communicator,
                             int64_t count, int32_t dtype);

#endif
