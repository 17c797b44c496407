// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.

/** An address in device memory, or a handle of the library. */
export type Pointer = bigint;
/** Memory of the caller, or the address of memory from gpt2_allocate_pinned. */
export type HostMemory = ArrayBufferView | Pointer;
export type Int32 = number;
export type Uint32 = number;
export type Int64 = number;
export type Float = number;

export const abiVersion = 25;

export const GPT2_STATUS = {
  GPT2_OK: 0,
  GPT2_INVALID_ARGUMENT: 1,
  GPT2_UNSUPPORTED: 2,
  GPT2_OUT_OF_MEMORY: 3,
  GPT2_DEVICE_ERROR: 4,
  GPT2_RANK_ERROR: 5,
} as const;

export const GPT2_DTYPE = {
  GPT2_FP32: 0,
  GPT2_TF32: 1,
  GPT2_BF16: 2,
  GPT2_FP8: 3,
} as const;

export const GPT2_ACTIVATION = {
  GPT2_NO_ACTIVATION: 0,
  GPT2_GELU: 1,
  GPT2_RELU_SQUARED: 2,
} as const;

export const GPT2_STEP = {
  GPT2_STEP_LEARNING_RATE: 0,
  GPT2_STEP_LOSS_LIMIT: 1,
  GPT2_STEP_NORM_LIMIT: 2,
  GPT2_STEP_AFTER_UPDATE: 3,
  GPT2_STEP_SCALARS: 4,
  GPT2_STEP_TARGETS: 14,
  GPT2_STEP_STOP: 15,
  GPT2_STEP_LOSS: 16,
  GPT2_STEP_SATURATED: 17,
  GPT2_STEP_NORM: 18,
  GPT2_STEP_CLIP: 19,
  GPT2_STEP_UPDATED: 20,
  GPT2_STEP_SIZE: 64,
} as const;

export const GPT2_COMMUNICATOR = {
  GPT2_COMMUNICATOR_ID_SIZE: 192,
} as const;

export const GPT2_FP8_COLUMNWISE = {
  GPT2_FP8_GROUP: 16,
  GPT2_FP8_BLOCK: 512,
} as const;

export const GPT2_FP8_FACTOR = {
  GPT2_FP8_SCALE: 0,
  GPT2_FP8_ROW_NORM: 1,
  GPT2_FP8_COLUMN_NORM: 2,
  GPT2_FP8_BIAS: 3,
  GPT2_FP8_FACTORS: 4,
} as const;

/** The library's functions, arguments by name. A number result is a GPT2_STATUS unless its text says otherwise. */
export interface Bindings {
  /** The GPT2_ABI_VERSION the library was built with. */
  abiVersion(): number;
  /**
   * Ends the process after `milliseconds`, with `text` on standard error, even if the process's threads hang in a driver or
   * in exit(3). `text` is [bytes] of UTF-8.
   */
  endLater(args: { text: HostMemory; bytes: Int64; milliseconds: Int32; exitCode: Int32 }): number;
  /**
   * From now on, a second signal out of `signals` [count] ends the process with exit code 128 + signal, unless the process
   * ends by itself within `grace` milliseconds. This works even while a kernel blocks the host language. Signals without an
   * installed handler do not count, nor do signals within `apart` milliseconds of the first; handlers are still called. If a
   * kernel runs on the CPU at that time, a line on standard error names the kernel. Later calls change nothing.
   */
  endAtSecondSignal(args: { signals: HostMemory; count: Int64; apart: Int32; grace: Int32 }): number;
  /**
   * Opens a device. On failure *context is still set, so that gpt2_last_error works, and must still be destroyed. *context
   * is NULL only if memory ran out.
   *   device      index of the GPU; 0 for the CPU
   *   dtype       GPT2_DTYPE; a dtype that the device lacks gives GPT2_UNSUPPORTED
   *   threads     CPU threads, 0 for all cores; ignored on CUDA
   *   accumulates 1 if gradients will be summed over micro-batches (decides the weight gradients' dtype in bf16)
   */
  contextCreate(args: { context: HostMemory; device: Int32; dtype: Int32; threads: Int32; accumulates: Int32 }): number;
  contextDestroy(args: { context: Pointer | null }): number;
  /** The text of the context's last failure: function, what was expected, what was passed, the driver's message, file and line. */
  lastError(args: { context: Pointer | null }): string;
  /**
   * The opened device, as JSON: {"library":"cpu"|"cuda","device":name,"codePath":"avx512"|"avx2"|"portable"|"sm90"|...,
   * "threads":n,"canCapture":bool,"dtypes":["fp32",...]}; on CUDA also "computeCapability":"9.0","multiprocessors":n,
   * "driver":"13.0". If the last failure blames another rank, also "failedRank":n; gpt2_last_error then says "function: rank n ...".
   */
  contextDescription(args: { context: Pointer | null }): string;
  /** Gives ops their scratch: `workspace` [bytes] of device memory, owned by the caller. */
  setWorkspace(args: { context: Pointer | null; workspace: Pointer | null; bytes: Int64 }): number;
  /**
   * Allocate and free zeroed memory: on the device, or page-locked on the host for asynchronous copies. gpt2_memory_info
   * gives the free and the total bytes of the device's memory.
   */
  allocate(args: { context: Pointer | null; memory: HostMemory; bytes: Int64 }): number;
  free(args: { context: Pointer | null; memory: Pointer | null }): number;
  allocatePinned(args: { context: Pointer | null; memory: HostMemory; bytes: Int64 }): number;
  freePinned(args: { context: Pointer | null; memory: Pointer | null }): number;
  memoryInfo(args: { context: Pointer | null; available: HostMemory; total: HostMemory }): number;
  /**
   * gpt2_copy_to_device and gpt2_copy_to_host return when the copy is done; the other functions are enqueued. Host memory is
   * [bytes]. `pinned` is from gpt2_allocate_pinned; leave it alone until an event recorded after the copy is reached.
   */
  copyToDevice(args: { context: Pointer | null; destination: Pointer | null; source: HostMemory; bytes: Int64 }): number;
  copyToHost(args: { context: Pointer | null; destination: HostMemory; source: Pointer | null; bytes: Int64 }): number;
  copyToDeviceAsync(args: { context: Pointer | null; destination: Pointer | null; pinned: Pointer | null; bytes: Int64 }): number;
  copyToHostAsync(args: { context: Pointer | null; pinned: Pointer | null; source: Pointer | null; bytes: Int64 }): number;
  copyOnDevice(args: { context: Pointer | null; destination: Pointer | null; source: Pointer | null; bytes: Int64 }): number;
  fillZero(args: { context: Pointer | null; destination: Pointer | null; bytes: Int64 }): number;
  /**
   * weight [count] = master [count], rounded to nearest even. In fp32 and tf32 the call copies, or does nothing if weight
   * and master are the same memory.
   */
  castWeights(args: { context: Pointer | null; weight: Pointer | null; master: Pointer | null; count: Int64 }): number;
  /**
   * An event is reached when all work enqueued before it was recorded has finished. gpt2_event_query does not block;
   * gpt2_event_elapsed gives the time between two reached events. Work enqueued after gpt2_event_wait starts after the
   * event is reached; in a graph, the event must be recorded in the same graph.
   */
  eventCreate(args: { context: Pointer | null; event: HostMemory }): number;
  eventDestroy(args: { context: Pointer | null; event: Pointer | null }): number;
  eventRecord(args: { context: Pointer | null; event: Pointer | null }): number;
  eventQuery(args: { context: Pointer | null; reached: HostMemory; event: Pointer | null }): number;
  eventElapsed(args: { context: Pointer | null; milliseconds: HostMemory; from: Pointer | null; to: Pointer | null }): number;
  eventWait(args: { context: Pointer | null; event: Pointer | null }): number;
  /**
   * The ops enqueued between begin and end are not run but recorded into a graph, which gpt2_graph_launch runs. A device
   * that cannot record ("canCapture":false) returns GPT2_UNSUPPORTED: enqueue the same ops every step instead.
   */
  captureBegin(args: { context: Pointer | null }): number;
  captureEnd(args: { context: Pointer | null; graph: HostMemory }): number;
  graphLaunch(args: { context: Pointer | null; graph: Pointer | null }): number;
  graphDestroy(args: { context: Pointer | null; graph: Pointer | null }): number;
  /** Loads a file of compiled kernels: a cubin for this GPU, or a shared library for the CPU. `path` is [bytes] of UTF-8. */
  moduleLoad(args: { context: Pointer | null; module: HostMemory; path: HostMemory; bytes: Int64 }): number;
  moduleFree(args: { context: Pointer | null; module: Pointer | null }): number;
  /**
   * The module's kernels as a JSON array, with an object for each kernel:
   *   "signature"   demangled: "add(float*, float const*, int)"; an extern "C" kernel has only a name
   *   "parameters"  an object for each, with its "offset" and "bytes" in the arguments of a launch
   *   "registers" and "localBytes" (spills and arrays) of a thread; "sharedBytes" (static shared memory) of a block;
   *   "threads" and "sharedLimit", the most threads and the most bytes of shared memory that a block can have
   */
  moduleDescription(args: { module: Pointer | null }): string;
  /**
   * Enqueues a kernel of a module: `kernel` is its index in the description.
   *   arguments [bytes]  the kernel's parameters, each at its offset
   *   shared_bytes       dynamic shared memory of a block
   *   reach [parameters] for each pointer, how many bytes the kernel may access from its address on; only the CPU library
   *                      checks this, if the file was compiled with checks
   */
  moduleLaunch(args: { context: Pointer | null; module: Pointer | null; kernel: Int32; gridX: Int32; gridY: Int32; gridZ: Int32; blockX: Int32; blockY: Int32; blockZ: Int32; sharedBytes: Int32; arguments: HostMemory; bytes: Int64; reach: HostMemory; parameters: Int64 }): number;
  /** MT19937 (Matsumoto and Nishimura 1998), seeded as by torch.manual_seed on the CPU. Returns NULL if memory ran out. */
  generatorCreate(args: { seed: Uint32 }): Pointer | null;
  generatorDestroy(args: { generator: Pointer | null }): number;
  /** Draws `normals` [count] as torch.Tensor.normal_ does on the CPU. A count below 16 gives GPT2_INVALID_ARGUMENT. */
  generatorNormal(args: { generator: Pointer | null; normals: HostMemory; count: Int64; mean: Float; standardDeviation: Float }): number;
  /**
   * Makes a unique id for a new communicator, `id` = [GPT2_COMMUNICATOR_ID_SIZE] bytes. Rank 0 calls this function and sends
   * the id to every rank. is_one_machine is 1 if all ranks are on this machine and share its loopback; the CPU library requires 1.
   */
  communicatorId(args: { context: Pointer | null; id: HostMemory; isOneMachine: Int32 }): number;
  /**
   * Joins the ranks; returns when all have joined. On one machine they connect over TCP on its loopback, and copy engines
   * carry the data if each GPU can access the memory of the others. Otherwise, or with GPT2_PEER_COPIES=0, NCCL carries the
   * data; only then is NCCL opened (libnccl.so.2, or the file that GPT2_NCCL_LIB names).
   *   id [GPT2_COMMUNICATOR_ID_SIZE]
   *   timeout_milliseconds  how long rank 0 waits for another rank in the functions of this section; other ranks wait five
   *                         seconds longer for rank 0. NCCL has two minutes to join the ranks.
   */
  communicatorCreate(args: { context: Pointer | null; communicator: HostMemory; id: HostMemory; rank: Int32; ranks: Int32; timeoutMilliseconds: Int32 }): number;
  /**
   * Waits for the collectives enqueued so far, then frees the communicator; all ranks call it. If `abandon` is not 0,
   * unfinished collectives, which may wait for a rank that is gone, end without a result: the call returns within a second.
   * Free graphs after a call that abandons.
   */
  communicatorDestroy(args: { context: Pointer | null; communicator: Pointer | null; abandon: Int32 }): number;
  /**
   * The communicator, as JSON:
   *   "carrier"   "copies" (the GPUs' copy engines), "nccl" or "loopback" (the CPU library)
   *   "parts"     the rows P of gpt2_reduce_scatter's result: R (the ranks), or 1 if NCCL adds the rows
   *   "ordering"  why a rank that sees a signal also sees the data copied earlier: "flushed" (waiting for the signal flushes
   *               remote writes) or "nvlink" (NVLink keeps their order); "" if no copy engines are used
   *   "reason"    on one machine: why NCCL is used instead of copy engines; else ""
   */
  communicatorDescription(args: { communicator: Pointer | null }): string;
  /**
   * Lets the other ranks write to `memory`, which gpt2_allocate returned; does nothing with NCCL. `bytes` is a multiple
   * of 2 MiB, the same at every rank. The `out` of gpt2_reduce_scatter and gpt2_all_gather must be in such memory. When no
   * collective uses the memory any more, all ranks call gpt2_communicator_unshare or gpt2_communicator_destroy, then free
   * it. All ranks call gpt2_communicator_share and unshare, which return when all have called.
   */
  communicatorShare(args: { context: Pointer | null; communicator: Pointer | null; memory: Pointer | null; bytes: Int64 }): number;
  communicatorUnshare(args: { context: Pointer | null; communicator: Pointer | null; memory: Pointer | null }): number;
  /**
   * gpt2_communicator_check gives GPT2_RANK_ERROR if a collective has failed so far; it does not wait. gpt2_collectives_join
   * makes ops enqueued later wait for all collectives enqueued so far; gpt2_collectives_record records an event after these
   * collectives, for gpt2_event_wait. A graph must join, or wait for such an event, after its last collective.
   */
  communicatorCheck(args: { context: Pointer | null; communicator: Pointer | null }): number;
  collectivesJoin(args: { context: Pointer | null; communicator: Pointer | null }): number;
  collectivesRecord(args: { context: Pointer | null; communicator: Pointer | null; event: Pointer | null }): number;
  /**
   * Collectives enqueued between begin and end start together at the end if the library supports this, so that ranks wait for
   * each other once instead of once per collective. No two collectives of a group may access the same memory. Within a group,
   * call no other function that takes a communicator.
   */
  collectivesGroupBegin(args: { context: Pointer | null; communicator: Pointer | null }): number;
  collectivesGroupEnd(args: { context: Pointer | null; communicator: Pointer | null }): number;
  /**
   * out[b,t,:] = wte[id,:] + wpe[p,:]. Without positions id = tokens[b,t] and p = t; with positions id = texts[b,p] and
   * p = positions[b] + t (see "generation").
   *   out = [B,T,C], tokens [B,T] < V where positions == NULL, texts [B,S+1] where positions != NULL, positions [B] or NULL,
   *   wte [>=V,C] by tokens, wpe [>=S,C] or NULL; positions != NULL || S == T
   */
  embeddingForward(args: { context: Pointer | null; out: Pointer | null; tokens: Pointer | null; texts: Pointer | null; positions: Pointer | null; wte: Pointer | null; wpe: Pointer | null; B: Int32; T: Int32; S: Int32; C: Int32; V: Int32 }): number;
  /**
   * dwte[v,:] += sum of dout[b,t,:] over tokens[b,t] = v, in an order that depends only on the tokens;
   * dwpe[t,:] (=|+=) sum over b of dout[b,t,:]. In training dwte may already hold the gradient of gpt2_classifier, whose
   * weight can be wte. On CUDA V is at most 65536, the limit of a token file, and a token outside [0, V) counts only in dwpe.
   *   dwte += [>=V,C]: gradient by tokens, dwpe (accumulate) [>=T,C]: gradient or NULL, dout [B,T,C], tokens [B,T] < V;
   *   workspace (B,T,C,V)
   */
  embeddingBackward(args: { context: Pointer | null; dwte: Pointer | null; dwpe: Pointer | null; dout: Pointer | null; tokens: Pointer | null; B: Int32; T: Int32; C: Int32; V: Int32; accumulate: Int32 }): number;
  embeddingScratch(args: { context: Pointer | null; bytes: HostMemory; B: Int32; T: Int32; C: Int32; V: Int32 }): number;
  /**
   * out = (in - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(population variance + eps); or in RMSNorm
   * out = in * rstd * weight, rstd = 1/sqrt(mean of in^2 + eps).
   *   out = [N,C] or NULL, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values, mean = [N] or NULL,
   *   rstd = [N], in [N,C], weight [C], bias [C] with mean; out != NULL || values != NULL; eps >= 0
   */
  normForward(args: { context: Pointer | null; out: Pointer | null; values: Pointer | null; scale: Pointer | null; norm: Pointer | null; mean: Pointer | null; rstd: Pointer | null; in: Pointer | null; weight: Pointer | null; bias: Pointer | null; N: Int32; C: Int32; eps: Float }): number;
  /**
   * With g = dout * weight and normalized = (in - mean) * rstd, `mean` and mean(g) 0 in RMSNorm:
   * din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, the residual stream's gradient; dweight (=|+=)
   * column sums of dout * normalized; dbias (=|+=) column sums of dout.
   *   din = [N,C] may be dout or dresidual, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
   *   dweight (accumulate) [C], dbias (accumulate) [C] with mean, dout [N,C], dresidual [N,C] or NULL, in [N,C], weight [C],
   *   mean [N] or NULL, rstd [N]; workspace (N,C)
   */
  normBackward(args: { context: Pointer | null; din: Pointer | null; values: Pointer | null; scale: Pointer | null; norm: Pointer | null; dweight: Pointer | null; dbias: Pointer | null; dout: Pointer | null; dresidual: Pointer | null; in: Pointer | null; weight: Pointer | null; mean: Pointer | null; rstd: Pointer | null; N: Int32; C: Int32; accumulate: Int32 }): number;
  normScratch(args: { context: Pointer | null; bytes: HostMemory; N: Int32; C: Int32 }): number;
  /**
   * out = activation(in * weight^T + bias) + residual. Backward needs GELU's input `pre`, or the squared ReLU's `out`.
   *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], weight [O,C], bias [O] or NULL,
   *   residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION; workspace (N,C,O,0)
   */
  matmulForward(args: { context: Pointer | null; out: Pointer | null; pre: Pointer | null; in: Pointer | null; weight: Pointer | null; bias: Pointer | null; residual: Pointer | null; N: Int32; C: Int32; O: Int32; activation: Int32 }): number;
  /**
   * din[n,c] = (dout * weight)[n,c] f[n,c], with the derivative f of the activation before the layer: gelu'(pre), or 2 sqrt(activated).
   *   din = [N,C], dout [N,O], weight [O,C], pre [N,C] where activation == GPT2_GELU,
   *   activated [N,C] where activation == GPT2_RELU_SQUARED; workspace (N,C,O,0)
   */
  matmulBackwardInput(args: { context: Pointer | null; din: Pointer | null; dout: Pointer | null; weight: Pointer | null; pre: Pointer | null; activated: Pointer | null; N: Int32; C: Int32; O: Int32; activation: Int32 }): number;
  /**
   * dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
   *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [N,O], in [N,C]; workspace (N,C,O,1)
   */
  matmulBackwardWeight(args: { context: Pointer | null; dweight: Pointer | null; dbias: Pointer | null; dout: Pointer | null; in: Pointer | null; N: Int32; C: Int32; O: Int32; accumulate: Int32 }): number;
  matmulScratch(args: { context: Pointer | null; bytes: HostMemory; N: Int32; C: Int32; O: Int32; gradients: Int32 }): number;
  /**
   * Normalizes and rotates each head's q and k in place. QK-norm (Henry et al. 2020): x = x * rstd, with
   * rstd = 1/sqrt(mean of x^2 + eps) over the head, or 1 if rstd is NULL. Rotary position p (Su et al. 2021), with i < HS/2,
   * cos = rotations[p,i] and sin = rotations[p,i+HS/2]: x[i] = x[i] cos + x[i+HS/2] sin, x[i+HS/2] = x[i+HS/2] cos - x[i] sin.
   * q is multiplied by query_factor last. Token t has position t, or positions[b] + t with `positions`; a position outside
   * [0, S - T + t] makes q and k NaN. rstd holds, for each token, NH values of q and then NH of k. v, the last C elements of
   * a row of qkv, is accessed only with value_factors: `values` = v, then v = value_factors[0] v + value_factors[1] embedded,
   * where `embedded` is a value embedding of the token (Zhou et al. 2024), 0 if NULL.
   *   qkv (updated) [B,T,3C] first 2C, rstd = [B,T,2NH] or NULL, values = [B,T,C] with value_factors, rotations [S,C/NH],
   *   positions [B] or NULL, value_factors [2] or NULL, embedded [B,T,C] or NULL where value_factors != NULL;
   *   C % (2 * NH) == 0; T <= S; eps >= 0
   */
  qkNormRotaryForward(args: { context: Pointer | null; qkv: Pointer | null; rstd: Pointer | null; values: Pointer | null; rotations: Pointer | null; positions: Pointer | null; valueFactors: Pointer | null; embedded: Pointer | null; B: Int32; T: Int32; S: Int32; C: Int32; NH: Int32; eps: Float; queryFactor: Float }): number;
  /**
   * Turns the gradient of forward's result `qkv` into the gradient of forward's input, in place; for v only with value_factors.
   * Forward ran without positions. Let y be forward's result and dy its gradient, both rotated back; for q, divide y and
   * multiply dy by query_factor. Then dx = rstd * (dy - y * mean(dy * y)), or dy if rstd is NULL. With value_factors:
   * dvalue_factors (=|+=) the sums of dv * values and of dv * embedded; dembedded = value_factors[1] dv; dv = value_factors[0] dv.
   *   dqkv (updated) [B,T,3C] first 2C, dvalue_factors (accumulate) [2] with value_factors, dembedded = [B,T,C] with embedded,
   *   qkv [B,T,3C] first 2C, rstd [B,T,2NH] or NULL, rotations [>=T,C/NH], value_factors [2] or NULL,
   *   values [B,T,C] with value_factors, embedded [B,T,C] or NULL where value_factors != NULL; C % (2 * NH) == 0;
   *   query_factor != 0; workspace (2)
   */
  qkNormRotaryBackward(args: { context: Pointer | null; dqkv: Pointer | null; dvalueFactors: Pointer | null; dembedded: Pointer | null; qkv: Pointer | null; rstd: Pointer | null; rotations: Pointer | null; valueFactors: Pointer | null; values: Pointer | null; embedded: Pointer | null; B: Int32; T: Int32; C: Int32; NH: Int32; queryFactor: Float; accumulate: Int32 }): number;
  factorsScratch(args: { context: Pointer | null; bytes: HostMemory; K: Int32 }): number;
  /**
   * For each head, softmax(q*k^T/sqrt(HS))*v, where a query t attends to positions first[b,t] to t; to 0 to t if `first` is
   * NULL. qkv holds q, k, v, each [NH,HS]. first[b,t] = max(0, t - w + 1) makes a window of w positions; the
   * start of t's document separates documents; the larger of these two does both. If a row of `first` decreases or exceeds t,
   * the CPU library refuses it; on CUDA results are undefined, but the op ends and reads no other memory. lse is the log of
   * the softmax's denominator, from which backward recomputes the probabilities (Dao et al. 2022). On CUDA HS is at most
   * 256, and less on GPUs whose blocks have little shared memory: a larger HS gives GPT2_UNSUPPORTED.
   *   out = [B,T,C], lse = [B,NH,T], qkv [B,T,3C], first [B,T] <= t or NULL; C % NH == 0; workspace (B,T,C,NH)
   */
  attentionForward(args: { context: Pointer | null; out: Pointer | null; lse: Pointer | null; qkv: Pointer | null; first: Pointer | null; B: Int32; T: Int32; C: Int32; NH: Int32 }): number;
  /**
   * With p = exp(q*k^T/sqrt(HS) - lse) where a query attends to a key, else 0: dv = p^T * dout;
   * ds[t,s] = p[t,s] ((dout * v^T)[t,s] - sum of dout[t] out[t]) / sqrt(HS); dq = ds * k; dk = ds^T * q. `first` as in forward.
   *   dqkv = [B,T,3C], dout [B,T,C], out [B,T,C], qkv [B,T,3C], lse [B,NH,T], first [B,T] <= t or NULL; C % NH == 0;
   *   workspace (B,T,C,NH)
   */
  attentionBackward(args: { context: Pointer | null; dqkv: Pointer | null; dout: Pointer | null; out: Pointer | null; qkv: Pointer | null; lse: Pointer | null; first: Pointer | null; B: Int32; T: Int32; C: Int32; NH: Int32 }): number;
  attentionScratch(args: { context: Pointer | null; bytes: HostMemory; B: Int32; T: Int32; C: Int32; NH: Int32 }): number;
  /**
   * GELU (Hendrycks and Gimpel 2016) in tanh form, out = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
   *   out = [count], in [count]
   */
  geluForward(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; count: Int64 }): number;
  /**
   * din = dout * gelu'(in).
   *   din = [count] may be dout, dout [count], in [count]
   */
  geluBackward(args: { context: Pointer | null; din: Pointer | null; dout: Pointer | null; in: Pointer | null; count: Int64 }): number;
  /**
   * out = a + b. Backward is the identity on both sides (see dresidual of gpt2_norm_backward).
   *   out = [count] may be a or b, a [count], b [count]
   */
  residualForward(args: { context: Pointer | null; out: Pointer | null; a: Pointer | null; b: Pointer | null; count: Int64 }): number;
  /**
   * Limits logits (Gemma Team 2024), here by an algebraic sigmoid: out = cap * in / sqrt(in^2 + cap^2).
   *   out = [count] may be in, in [count]; cap > 0
   */
  softcapForward(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; count: Int64; cap: Float }): number;
  /**
   * The input of a layer: out = factors[0] (in + factors[2] skip) + factors[1] embedded, with `in` the residual stream,
   * `skip` the output of an earlier layer, 0 if NULL, and `embedded` the input of the first layer.
   *   out = [N,C], in [N,C], skip [N,C] or NULL, embedded [N,C], factors [3]
   */
  streamSumForward(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; skip: Pointer | null; embedded: Pointer | null; factors: Pointer | null; N: Int32; C: Int32 }): number;
  /**
   * din = factors[0] dout + later_factors[0] later_factors[2] later, the gradients of `in` as the residual stream of this
   * layer and as the skip of a later layer, whose dout is `later`. dembedded += factors[1] dout; dfactors (=|+=) the sums of
   * dout * (in + factors[2] skip), of dout * embedded, and of factors[0] dout * skip.
   *   din = [N,C] may be dout or later, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
   *   dembedded += [N,C], dfactors (accumulate) [3], dout [N,C], later [N,C] or NULL, later_factors [3] with later, in [N,C],
   *   skip [N,C] or NULL, embedded [N,C], factors [3]; workspace gpt2_factors_scratch(3)
   */
  streamSumBackward(args: { context: Pointer | null; din: Pointer | null; values: Pointer | null; scale: Pointer | null; norm: Pointer | null; dembedded: Pointer | null; dfactors: Pointer | null; dout: Pointer | null; later: Pointer | null; laterFactors: Pointer | null; in: Pointer | null; skip: Pointer | null; embedded: Pointer | null; factors: Pointer | null; N: Int32; C: Int32; accumulate: Int32 }): number;
  /**
   * losses[i] = -log softmax(logits[i,:V])[targets[i]]; dlogits[i,:V] = (softmax - onehot) * dloss, dlogits[i,V:] = 0. Here and
   * in gpt2_classifier a row with target -1 has loss and gradient 0. For a mean loss, dloss is 1 / (tokens of a step).
   *   losses = [N], dlogits = [N,Vp] or NULL may be logits, logits [N,Vp], targets [N] < V or -1; V <= Vp
   */
  crossEntropy(args: { context: Pointer | null; losses: Pointer | null; dlogits: Pointer | null; logits: Pointer | null; targets: Pointer | null; N: Int32; V: Int32; Vp: Int32; dloss: Float }): number;
  /**
   * The last linear layer with its loss, and backward through both: losses[i] = -log softmax(logits[i])[targets[i]] over the
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
   *   targets [N] < V or -1; V <= Vp; softcap >= 0; workspace (N,C,Vp,din || dweight || dbias,in_values)
   */
  classifier(args: { context: Pointer | null; losses: Pointer | null; din: Pointer | null; dweight: Pointer | null; dbias: Pointer | null; step: Pointer | null; logits: Pointer | null; in: Pointer | null; inValues: Pointer | null; inScale: Pointer | null; weight: Pointer | null; weightValues: Pointer | null; weightTransposed: Pointer | null; factors: Pointer | null; bias: Pointer | null; targets: Pointer | null; N: Int32; C: Int32; V: Int32; Vp: Int32; dloss: Float; softcap: Float; accumulate: Int32 }): number;
  classifierScratch(args: { context: Pointer | null; bytes: HostMemory; N: Int32; C: Int32; Vp: Int32; gradients: Int32; fp8: Int32 }): number;
  /**
   * step[LOSS] (=|+=) scale * sum of losses, summed in double.
   *   step (updated) [GPT2_STEP_SIZE], losses [N]
   */
  lossSum(args: { context: Pointer | null; step: Pointer | null; losses: Pointer | null; N: Int32; scale: Float; accumulate: Int32 }): number;
  /**
   * The weight in FP8 and its factors. On CUDA at most two contexts may call this op on a GPU at the same time, because the
   * kernel's blocks wait for each other.
   *   values = [O,C] or NULL, transposed = [C,O] or NULL, factors = [GPT2_FP8_FACTORS], weight [O,C], bias [O] or NULL;
   *   C % 16 == 0; O % 16 == 0; workspace (C,O)
   */
  fp8QuantizeWeight(args: { context: Pointer | null; values: Pointer | null; transposed: Pointer | null; factors: Pointer | null; weight: Pointer | null; bias: Pointer | null; C: Int32; O: Int32 }): number;
  fp8QuantizeWeightScratch(args: { context: Pointer | null; bytes: HostMemory; C: Int32; O: Int32 }): number;
  /**
   * The columnwise copy of a matrix in FP8. Values are rounded again only if they become subnormal at the block's scale.
   *   columnwise = [C,N/16,16], columnwise_scale = [N/GPT2_FP8_BLOCK], columnwise_norm = [N/GPT2_FP8_BLOCK], values [N,C],
   *   scale [N], norm [N]
   */
  fp8Transpose(args: { context: Pointer | null; columnwise: Pointer | null; columnwiseScale: Pointer | null; columnwiseNorm: Pointer | null; values: Pointer | null; scale: Pointer | null; norm: Pointer | null; N: Int32; C: Int32 }): number;
  /**
   * gpt2_matmul_forward in FP8: out = in * weight^T + bias + residual. With an activation the result is stored in FP8 only:
   * values * scale = gelu(pre), derivative = gelu'(pre), pre = in * weight^T + bias; or values * scale = relu(pre)^2.
   *   out = [N,O] where activation == GPT2_NO_ACTIVATION, values = [N,O] where activation != GPT2_NO_ACTIVATION,
   *   scale = [N] with values, columnwise = [O,N/16,16] or NULL where activation != GPT2_NO_ACTIVATION,
   *   columnwise_scale = [N/GPT2_FP8_BLOCK] with columnwise, derivative = [N,O] where activation == GPT2_GELU, in [N,C],
   *   in_scale [N], in_norm [N] with values, in_columnwise_norm [N/GPT2_FP8_BLOCK] with columnwise, weight [O,C],
   *   factors [GPT2_FP8_FACTORS], bias [O] or NULL, residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION;
   *   workspace (N,C,O,0)
   */
  fp8MatmulForward(args: { context: Pointer | null; out: Pointer | null; values: Pointer | null; scale: Pointer | null; columnwise: Pointer | null; columnwiseScale: Pointer | null; derivative: Pointer | null; in: Pointer | null; inScale: Pointer | null; inNorm: Pointer | null; inColumnwiseNorm: Pointer | null; weight: Pointer | null; factors: Pointer | null; bias: Pointer | null; residual: Pointer | null; N: Int32; C: Int32; O: Int32; activation: Int32 }): number;
  /**
   * gpt2_matmul_backward_input in FP8: din = dout * weight. Through an activation the result is stored in FP8 only:
   * values * scale = (dout * weight) * derivative, or (dout * weight) * 2 sqrt(activated), with forward's result `activated`.
   *   din = [N,C] where activation == GPT2_NO_ACTIVATION, values = [N,C] where activation != GPT2_NO_ACTIVATION,
   *   scale = [N] with values, columnwise = [C,N/16,16] with values, columnwise_scale = [N/GPT2_FP8_BLOCK] with values,
   *   dout [N,O], dout_scale [N], dout_norm [N] with values, dout_columnwise_norm [N/GPT2_FP8_BLOCK] with values,
   *   transposed [C,O], factors [GPT2_FP8_FACTORS], derivative [N,C] where activation == GPT2_GELU,
   *   activated [N,C] where activation == GPT2_RELU_SQUARED, activated_scale [N] with activated,
   *   activated_columnwise_scale [N/GPT2_FP8_BLOCK] with activated; workspace (N,C,O,0)
   */
  fp8MatmulBackwardInput(args: { context: Pointer | null; din: Pointer | null; values: Pointer | null; scale: Pointer | null; columnwise: Pointer | null; columnwiseScale: Pointer | null; dout: Pointer | null; doutScale: Pointer | null; doutNorm: Pointer | null; doutColumnwiseNorm: Pointer | null; transposed: Pointer | null; factors: Pointer | null; derivative: Pointer | null; activated: Pointer | null; activatedScale: Pointer | null; activatedColumnwiseScale: Pointer | null; N: Int32; C: Int32; O: Int32; activation: Int32 }): number;
  /**
   * gpt2_matmul_backward_weight from columnwise copies: dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
   *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [O,N/16,16], dout_scale [N/GPT2_FP8_BLOCK],
   *   in [C,N/16,16], in_scale [N/GPT2_FP8_BLOCK]; workspace (N,C,O,1)
   */
  fp8MatmulBackwardWeight(args: { context: Pointer | null; dweight: Pointer | null; dbias: Pointer | null; dout: Pointer | null; doutScale: Pointer | null; in: Pointer | null; inScale: Pointer | null; N: Int32; C: Int32; O: Int32; accumulate: Int32 }): number;
  fp8MatmulScratch(args: { context: Pointer | null; bytes: HostMemory; N: Int32; C: Int32; O: Int32; gradients: Int32 }): number;
  /**
   * `targets` is 1 / dloss, and f = targets / step[TARGETS] leaves targets of -1 out of the means:
   * step[LOSS] *= f; step[NORM] = f * sqrt of the sum of squares over `matrices` and `vectors`;
   * step[CLIP] = f * max_norm / step[NORM] if step[NORM] > max_norm > 0, else f;
   * step[UPDATED] = 1 if step[LOSS] <= step[LOSS_LIMIT] and step[NORM] <= step[NORM_LIMIT] and (step[AFTER_UPDATE] = 0 or
   * step[UPDATED] was not 0), else 0. The device decides, because the host enqueues a step before it knows the previous loss.
   * With a communicator each rank passes its share of the matrices, as the `parts` rows that gpt2_reduce_scatter wrote,
   * and all vectors, which are the same at every rank. The first row becomes the sum of the rows, added in fp32 in row
   * order and rounded once. The op waits for all collectives enqueued before it.
   *   step (updated) [GPT2_STEP_SIZE], matrices (updated) [parts,matrix_count]: gradient, vectors [vector_count],
   *   communicator or NULL; communicator != NULL || parts == 1; parts == 1 || matrix_count % 32 == 0;
   *   workspace (matrix_count,vector_count)
   */
  globalNorm(args: { context: Pointer | null; step: Pointer | null; matrices: Pointer | null; vectors: Pointer | null; communicator: Pointer | null; parts: Int32; matrixCount: Int64; vectorCount: Int64; targets: Float; maxNorm: Float }): number;
  globalNormScratch(args: { context: Pointer | null; bytes: HostMemory; matrixCount: Int64; vectorCount: Int64 }): number;
  /**
   * AdamW (Loshchilov and Hutter 2019), with g = gradient * step[CLIP]: m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2;
   * master -= lr * (m / c1 / (sqrt(v / c2) + eps) + weight_decay * master). c1 = 1 - beta1^t and c2 = 1 - beta2^t (step t
   * counted from 1) are step[first_scalar] and step[first_scalar + 1].
   *   weight (kept) [count] may be master, master (updated) [count], m (updated) [count], v (updated) [count],
   *   gradient [count]: gradient_dtype, step [GPT2_STEP_SIZE]; first_scalar >= GPT2_STEP_SCALARS;
   *   first_scalar + 2 <= GPT2_STEP_TARGETS
   */
  adamw(args: { context: Pointer | null; weight: Pointer | null; master: Pointer | null; m: Pointer | null; v: Pointer | null; gradient: Pointer | null; step: Pointer | null; count: Int64; gradientDtype: Int32; firstScalar: Int32; rate: Float; beta1: Float; beta2: Float; eps: Float; weightDecay: Float }): number;
  /**
   * With g = gradient * step[CLIP] and mu = step[scalar]: momentum = mu momentum + (1-mu) g, then (Nesterov's)
   * direction = mu momentum + (1-mu) g. Muon (Jordan 2024) updates a matrix by this op, gpt2_normalize_matrices,
   * gpt2_newton_schulz several times, and gpt2_muon_update. If rows > columns, direction is [columns,rows] in all four ops.
   *   direction (kept) [rows,columns], momentum (updated) [rows,columns], gradient [rows,columns]: gradient_dtype,
   *   step [GPT2_STEP_SIZE]; scalar >= GPT2_STEP_SCALARS; scalar < GPT2_STEP_TARGETS
   */
  muonMomentum(args: { context: Pointer | null; direction: Pointer | null; momentum: Pointer | null; gradient: Pointer | null; step: Pointer | null; rows: Int32; columns: Int32; gradientDtype: Int32; scalar: Int32 }): number;
  /**
   * Each matrix is divided by margin * (its Frobenius norm) + eps.
   *   matrices (updated) [M,R,K]; workspace (M,R,K)
   */
  normalizeMatrices(args: { context: Pointer | null; matrices: Pointer | null; M: Int32; R: Int32; K: Int32; margin: Float; eps: Float }): number;
  /**
   * A step of a Newton-Schulz iteration on M matrices: each singular value x becomes a x + b x^3 + c x^5. For a matrix X:
   * A = X X^T, B = b A + c A^2, out = a X + B X. A, B and out are rounded to the context's dtype, each once.
   *   out = [M,R,K], in [M,R,K]; R <= K; workspace (M,R,K)
   */
  newtonSchulz(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; M: Int32; R: Int32; K: Int32; a: Float; b: Float; c: Float }): number;
  newtonSchulzScratch(args: { context: Pointer | null; bytes: HostMemory; M: Int32; R: Int32; K: Int32 }): number;
  /**
   * master = master (1 - lr weight_decay) - lr sqrt(max(1, rows/columns)) direction.
   *   weight (kept) [rows,columns] may be master, master (updated) [rows,columns], direction [rows,columns],
   *   step [GPT2_STEP_SIZE]
   */
  muonUpdate(args: { context: Pointer | null; weight: Pointer | null; master: Pointer | null; direction: Pointer | null; step: Pointer | null; rows: Int32; columns: Int32; rate: Float; weightDecay: Float }): number;
  /**
   * out = activation(layernorm(in) * weight^T + bias), for few rows; the layernorm's eps is 1e-5, `pre` is GELU's input.
   *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], norm_weight [C], norm_bias [C], weight [O,C],
   *   bias [O] or NULL; activation >= 0 && activation <= GPT2_GELU; workspace (N,C,O)
   */
  normMatmulForward(args: { context: Pointer | null; out: Pointer | null; pre: Pointer | null; in: Pointer | null; normWeight: Pointer | null; normBias: Pointer | null; weight: Pointer | null; bias: Pointer | null; N: Int32; C: Int32; O: Int32; activation: Int32 }): number;
  normMatmulScratch(args: { context: Pointer | null; bytes: HostMemory; N: Int32; C: Int32; O: Int32 }): number;
  /**
   * Writes the T new keys and values of each sequence to rows positions[b] to positions[b]+T-1 of the cache, then attention of
   * the T new queries: each attends to all rows up to its position or, if `window` is not 0, to the last `window` of them.
   *   out = [B,T,C], keys (updated) [B,NH,S,C/NH], values (updated) [B,NH,S,C/NH], qkv [B,T,3C], positions [B]; C % NH == 0;
   *   C / NH <= 256; window >= 0; workspace (S)
   */
  attentionCachedForward(args: { context: Pointer | null; out: Pointer | null; keys: Pointer | null; values: Pointer | null; qkv: Pointer | null; positions: Pointer | null; B: Int32; T: Int32; S: Int32; C: Int32; NH: Int32; window: Int32 }): number;
  attentionCachedScratch(args: { context: Pointer | null; bytes: HostMemory; S: Int32 }): number;
  /**
   * Chooses the next token of each sequence by temperature, top-k and top-p: tokens[b,positions[b]+1] = the choice,
   * positions[b] += 1. A sequence with positions[b] outside [0, S) is left unchanged. A logit that is NaN or infinite
   * makes the choice -1: the model has diverged. Temperature 0 chooses the largest logit, the first of equal ones.
   * Otherwise token i has the weight w[i] = round(2^31 e^((logits[i] - largest) / temperature)). Top-k keeps the top_k
   * largest weights (0: all); then top-p (nucleus sampling, Holtzman et al. 2019) keeps the fewest largest kept weights with
   * at least top_p of the kept sum (1: all), and of equal weights the first. The choice is the first i where the running sum
   * of the kept w, in integers, exceeds r * (sum of the kept w) / 2^64, with r the number seeds[b] * 2^32 + positions[b] of
   * SplitMix64 (Steele et al. 2014) seeded with 0.
   *   tokens (updated) [B,S+1], positions (updated) [B], logits [B,Vp], seeds [B]; V <= Vp; temperature >= 0; top_k >= 0;
   *   top_p >= 0; top_p <= 1; workspace (B,V)
   */
  sample(args: { context: Pointer | null; tokens: Pointer | null; positions: Pointer | null; logits: Pointer | null; seeds: Pointer | null; B: Int32; S: Int32; V: Int32; Vp: Int32; temperature: Float; topK: Int32; topP: Float }): number;
  sampleScratch(args: { context: Pointer | null; bytes: HostMemory; B: Int32; V: Int32 }): number;
  /**
   * data = the sum of every rank's data.
   *   data (updated) [count]: dtype
   */
  allReduce(args: { context: Pointer | null; data: Pointer | null; communicator: Pointer | null; count: Int64; dtype: Int32 }): number;
  /**
   * out[r,:count] = rank r's in[this rank]; where P is 1, out[0,:count] = the sum of all ranks' in[this rank]. `count` and
   * `stride` are elements of a row.
   *   out = [P,stride]: dtype, in [R,count]: dtype; stride >= count
   */
  reduceScatter(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; communicator: Pointer | null; count: Int64; stride: Int64; dtype: Int32 }): number;
  /**
   * out[r] = rank r's `in`.
   *   out = [R,count]: dtype may be in, in [count]: dtype
   */
  allGather(args: { context: Pointer | null; out: Pointer | null; in: Pointer | null; communicator: Pointer | null; count: Int64; dtype: Int32 }): number;
}

/** The prototype of each function, for koffi. */
export const signatures: Record<keyof Bindings, { symbol: string; result: string; types: string[]; names: string[] }> = {
  abiVersion: { symbol: 'gpt2_abi_version', result: 'int', types: [], names: [] },
  endLater: { symbol: 'gpt2_end_later', result: 'int', types: ['void *', 'int64_t', 'int32_t', 'int32_t'], names: ['text', 'bytes', 'milliseconds', 'exitCode'] },
  endAtSecondSignal: { symbol: 'gpt2_end_at_second_signal', result: 'int', types: ['void *', 'int64_t', 'int32_t', 'int32_t'], names: ['signals', 'count', 'apart', 'grace'] },
  contextCreate: { symbol: 'gpt2_context_create', result: 'int', types: ['void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'device', 'dtype', 'threads', 'accumulates'] },
  contextDestroy: { symbol: 'gpt2_context_destroy', result: 'int', types: ['void *'], names: ['context'] },
  lastError: { symbol: 'gpt2_last_error', result: 'const char *', types: ['void *'], names: ['context'] },
  contextDescription: { symbol: 'gpt2_context_description', result: 'const char *', types: ['void *'], names: ['context'] },
  setWorkspace: { symbol: 'gpt2_set_workspace', result: 'int', types: ['void *', 'void *', 'int64_t'], names: ['context', 'workspace', 'bytes'] },
  allocate: { symbol: 'gpt2_allocate', result: 'int', types: ['void *', 'void *', 'int64_t'], names: ['context', 'memory', 'bytes'] },
  free: { symbol: 'gpt2_free', result: 'int', types: ['void *', 'void *'], names: ['context', 'memory'] },
  allocatePinned: { symbol: 'gpt2_allocate_pinned', result: 'int', types: ['void *', 'void *', 'int64_t'], names: ['context', 'memory', 'bytes'] },
  freePinned: { symbol: 'gpt2_free_pinned', result: 'int', types: ['void *', 'void *'], names: ['context', 'memory'] },
  memoryInfo: { symbol: 'gpt2_memory_info', result: 'int', types: ['void *', 'void *', 'void *'], names: ['context', 'available', 'total'] },
  copyToDevice: { symbol: 'gpt2_copy_to_device', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'destination', 'source', 'bytes'] },
  copyToHost: { symbol: 'gpt2_copy_to_host', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'destination', 'source', 'bytes'] },
  copyToDeviceAsync: { symbol: 'gpt2_copy_to_device_async', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'destination', 'pinned', 'bytes'] },
  copyToHostAsync: { symbol: 'gpt2_copy_to_host_async', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'pinned', 'source', 'bytes'] },
  copyOnDevice: { symbol: 'gpt2_copy_on_device', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'destination', 'source', 'bytes'] },
  fillZero: { symbol: 'gpt2_fill_zero', result: 'int', types: ['void *', 'void *', 'int64_t'], names: ['context', 'destination', 'bytes'] },
  castWeights: { symbol: 'gpt2_cast_weights', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'weight', 'master', 'count'] },
  eventCreate: { symbol: 'gpt2_event_create', result: 'int', types: ['void *', 'void *'], names: ['context', 'event'] },
  eventDestroy: { symbol: 'gpt2_event_destroy', result: 'int', types: ['void *', 'void *'], names: ['context', 'event'] },
  eventRecord: { symbol: 'gpt2_event_record', result: 'int', types: ['void *', 'void *'], names: ['context', 'event'] },
  eventQuery: { symbol: 'gpt2_event_query', result: 'int', types: ['void *', 'void *', 'void *'], names: ['context', 'reached', 'event'] },
  eventElapsed: { symbol: 'gpt2_event_elapsed', result: 'int', types: ['void *', 'void *', 'void *', 'void *'], names: ['context', 'milliseconds', 'from', 'to'] },
  eventWait: { symbol: 'gpt2_event_wait', result: 'int', types: ['void *', 'void *'], names: ['context', 'event'] },
  captureBegin: { symbol: 'gpt2_capture_begin', result: 'int', types: ['void *'], names: ['context'] },
  captureEnd: { symbol: 'gpt2_capture_end', result: 'int', types: ['void *', 'void *'], names: ['context', 'graph'] },
  graphLaunch: { symbol: 'gpt2_graph_launch', result: 'int', types: ['void *', 'void *'], names: ['context', 'graph'] },
  graphDestroy: { symbol: 'gpt2_graph_destroy', result: 'int', types: ['void *', 'void *'], names: ['context', 'graph'] },
  moduleLoad: { symbol: 'gpt2_module_load', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'module', 'path', 'bytes'] },
  moduleFree: { symbol: 'gpt2_module_free', result: 'int', types: ['void *', 'void *'], names: ['context', 'module'] },
  moduleDescription: { symbol: 'gpt2_module_description', result: 'const char *', types: ['void *'], names: ['module'] },
  moduleLaunch: { symbol: 'gpt2_module_launch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'void *', 'int64_t', 'void *', 'int64_t'], names: ['context', 'module', 'kernel', 'gridX', 'gridY', 'gridZ', 'blockX', 'blockY', 'blockZ', 'sharedBytes', 'arguments', 'bytes', 'reach', 'parameters'] },
  generatorCreate: { symbol: 'gpt2_generator_create', result: 'void *', types: ['uint32_t'], names: ['seed'] },
  generatorDestroy: { symbol: 'gpt2_generator_destroy', result: 'int', types: ['void *'], names: ['generator'] },
  generatorNormal: { symbol: 'gpt2_generator_normal', result: 'int', types: ['void *', 'void *', 'int64_t', 'float', 'float'], names: ['generator', 'normals', 'count', 'mean', 'standardDeviation'] },
  communicatorId: { symbol: 'gpt2_communicator_id', result: 'int', types: ['void *', 'void *', 'int32_t'], names: ['context', 'id', 'isOneMachine'] },
  communicatorCreate: { symbol: 'gpt2_communicator_create', result: 'int', types: ['void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'communicator', 'id', 'rank', 'ranks', 'timeoutMilliseconds'] },
  communicatorDestroy: { symbol: 'gpt2_communicator_destroy', result: 'int', types: ['void *', 'void *', 'int32_t'], names: ['context', 'communicator', 'abandon'] },
  communicatorDescription: { symbol: 'gpt2_communicator_description', result: 'const char *', types: ['void *'], names: ['communicator'] },
  communicatorShare: { symbol: 'gpt2_communicator_share', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'communicator', 'memory', 'bytes'] },
  communicatorUnshare: { symbol: 'gpt2_communicator_unshare', result: 'int', types: ['void *', 'void *', 'void *'], names: ['context', 'communicator', 'memory'] },
  communicatorCheck: { symbol: 'gpt2_communicator_check', result: 'int', types: ['void *', 'void *'], names: ['context', 'communicator'] },
  collectivesJoin: { symbol: 'gpt2_collectives_join', result: 'int', types: ['void *', 'void *'], names: ['context', 'communicator'] },
  collectivesRecord: { symbol: 'gpt2_collectives_record', result: 'int', types: ['void *', 'void *', 'void *'], names: ['context', 'communicator', 'event'] },
  collectivesGroupBegin: { symbol: 'gpt2_collectives_group_begin', result: 'int', types: ['void *', 'void *'], names: ['context', 'communicator'] },
  collectivesGroupEnd: { symbol: 'gpt2_collectives_group_end', result: 'int', types: ['void *', 'void *'], names: ['context', 'communicator'] },
  embeddingForward: { symbol: 'gpt2_embedding_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'tokens', 'texts', 'positions', 'wte', 'wpe', 'B', 'T', 'S', 'C', 'V'] },
  embeddingBackward: { symbol: 'gpt2_embedding_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'dwte', 'dwpe', 'dout', 'tokens', 'B', 'T', 'C', 'V', 'accumulate'] },
  embeddingScratch: { symbol: 'gpt2_embedding_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'B', 'T', 'C', 'V'] },
  normForward: { symbol: 'gpt2_norm_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'float'], names: ['context', 'out', 'values', 'scale', 'norm', 'mean', 'rstd', 'in', 'weight', 'bias', 'N', 'C', 'eps'] },
  normBackward: { symbol: 'gpt2_norm_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'din', 'values', 'scale', 'norm', 'dweight', 'dbias', 'dout', 'dresidual', 'in', 'weight', 'mean', 'rstd', 'N', 'C', 'accumulate'] },
  normScratch: { symbol: 'gpt2_norm_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'N', 'C'] },
  matmulForward: { symbol: 'gpt2_matmul_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'pre', 'in', 'weight', 'bias', 'residual', 'N', 'C', 'O', 'activation'] },
  matmulBackwardInput: { symbol: 'gpt2_matmul_backward_input', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'din', 'dout', 'weight', 'pre', 'activated', 'N', 'C', 'O', 'activation'] },
  matmulBackwardWeight: { symbol: 'gpt2_matmul_backward_weight', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'dweight', 'dbias', 'dout', 'in', 'N', 'C', 'O', 'accumulate'] },
  matmulScratch: { symbol: 'gpt2_matmul_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'N', 'C', 'O', 'gradients'] },
  qkNormRotaryForward: { symbol: 'gpt2_qk_norm_rotary_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'float', 'float'], names: ['context', 'qkv', 'rstd', 'values', 'rotations', 'positions', 'valueFactors', 'embedded', 'B', 'T', 'S', 'C', 'NH', 'eps', 'queryFactor'] },
  qkNormRotaryBackward: { symbol: 'gpt2_qk_norm_rotary_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'float', 'int32_t'], names: ['context', 'dqkv', 'dvalueFactors', 'dembedded', 'qkv', 'rstd', 'rotations', 'valueFactors', 'values', 'embedded', 'B', 'T', 'C', 'NH', 'queryFactor', 'accumulate'] },
  factorsScratch: { symbol: 'gpt2_factors_scratch', result: 'int', types: ['void *', 'void *', 'int32_t'], names: ['context', 'bytes', 'K'] },
  attentionForward: { symbol: 'gpt2_attention_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'lse', 'qkv', 'first', 'B', 'T', 'C', 'NH'] },
  attentionBackward: { symbol: 'gpt2_attention_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'dqkv', 'dout', 'out', 'qkv', 'lse', 'first', 'B', 'T', 'C', 'NH'] },
  attentionScratch: { symbol: 'gpt2_attention_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'B', 'T', 'C', 'NH'] },
  geluForward: { symbol: 'gpt2_gelu_forward', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t'], names: ['context', 'out', 'in', 'count'] },
  geluBackward: { symbol: 'gpt2_gelu_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'int64_t'], names: ['context', 'din', 'dout', 'in', 'count'] },
  residualForward: { symbol: 'gpt2_residual_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'int64_t'], names: ['context', 'out', 'a', 'b', 'count'] },
  softcapForward: { symbol: 'gpt2_softcap_forward', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t', 'float'], names: ['context', 'out', 'in', 'count', 'cap'] },
  streamSumForward: { symbol: 'gpt2_stream_sum_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'out', 'in', 'skip', 'embedded', 'factors', 'N', 'C'] },
  streamSumBackward: { symbol: 'gpt2_stream_sum_backward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'din', 'values', 'scale', 'norm', 'dembedded', 'dfactors', 'dout', 'later', 'laterFactors', 'in', 'skip', 'embedded', 'factors', 'N', 'C', 'accumulate'] },
  crossEntropy: { symbol: 'gpt2_cross_entropy', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'float'], names: ['context', 'losses', 'dlogits', 'logits', 'targets', 'N', 'V', 'Vp', 'dloss'] },
  classifier: { symbol: 'gpt2_classifier', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'float', 'float', 'int32_t'], names: ['context', 'losses', 'din', 'dweight', 'dbias', 'step', 'logits', 'in', 'inValues', 'inScale', 'weight', 'weightValues', 'weightTransposed', 'factors', 'bias', 'targets', 'N', 'C', 'V', 'Vp', 'dloss', 'softcap', 'accumulate'] },
  classifierScratch: { symbol: 'gpt2_classifier_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'N', 'C', 'Vp', 'gradients', 'fp8'] },
  lossSum: { symbol: 'gpt2_loss_sum', result: 'int', types: ['void *', 'void *', 'void *', 'int32_t', 'float', 'int32_t'], names: ['context', 'step', 'losses', 'N', 'scale', 'accumulate'] },
  fp8QuantizeWeight: { symbol: 'gpt2_fp8_quantize_weight', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'values', 'transposed', 'factors', 'weight', 'bias', 'C', 'O'] },
  fp8QuantizeWeightScratch: { symbol: 'gpt2_fp8_quantize_weight_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'C', 'O'] },
  fp8Transpose: { symbol: 'gpt2_fp8_transpose', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'columnwise', 'columnwiseScale', 'columnwiseNorm', 'values', 'scale', 'norm', 'N', 'C'] },
  fp8MatmulForward: { symbol: 'gpt2_fp8_matmul_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'values', 'scale', 'columnwise', 'columnwiseScale', 'derivative', 'in', 'inScale', 'inNorm', 'inColumnwiseNorm', 'weight', 'factors', 'bias', 'residual', 'N', 'C', 'O', 'activation'] },
  fp8MatmulBackwardInput: { symbol: 'gpt2_fp8_matmul_backward_input', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'din', 'values', 'scale', 'columnwise', 'columnwiseScale', 'dout', 'doutScale', 'doutNorm', 'doutColumnwiseNorm', 'transposed', 'factors', 'derivative', 'activated', 'activatedScale', 'activatedColumnwiseScale', 'N', 'C', 'O', 'activation'] },
  fp8MatmulBackwardWeight: { symbol: 'gpt2_fp8_matmul_backward_weight', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'dweight', 'dbias', 'dout', 'doutScale', 'in', 'inScale', 'N', 'C', 'O', 'accumulate'] },
  fp8MatmulScratch: { symbol: 'gpt2_fp8_matmul_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'N', 'C', 'O', 'gradients'] },
  globalNorm: { symbol: 'gpt2_global_norm', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int64_t', 'int64_t', 'float', 'float'], names: ['context', 'step', 'matrices', 'vectors', 'communicator', 'parts', 'matrixCount', 'vectorCount', 'targets', 'maxNorm'] },
  globalNormScratch: { symbol: 'gpt2_global_norm_scratch', result: 'int', types: ['void *', 'void *', 'int64_t', 'int64_t'], names: ['context', 'bytes', 'matrixCount', 'vectorCount'] },
  adamw: { symbol: 'gpt2_adamw', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int64_t', 'int32_t', 'int32_t', 'float', 'float', 'float', 'float', 'float'], names: ['context', 'weight', 'master', 'm', 'v', 'gradient', 'step', 'count', 'gradientDtype', 'firstScalar', 'rate', 'beta1', 'beta2', 'eps', 'weightDecay'] },
  muonMomentum: { symbol: 'gpt2_muon_momentum', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'direction', 'momentum', 'gradient', 'step', 'rows', 'columns', 'gradientDtype', 'scalar'] },
  normalizeMatrices: { symbol: 'gpt2_normalize_matrices', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'float', 'float'], names: ['context', 'matrices', 'M', 'R', 'K', 'margin', 'eps'] },
  newtonSchulz: { symbol: 'gpt2_newton_schulz', result: 'int', types: ['void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'float', 'float', 'float'], names: ['context', 'out', 'in', 'M', 'R', 'K', 'a', 'b', 'c'] },
  newtonSchulzScratch: { symbol: 'gpt2_newton_schulz_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'M', 'R', 'K'] },
  muonUpdate: { symbol: 'gpt2_muon_update', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'float', 'float'], names: ['context', 'weight', 'master', 'direction', 'step', 'rows', 'columns', 'rate', 'weightDecay'] },
  normMatmulForward: { symbol: 'gpt2_norm_matmul_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'pre', 'in', 'normWeight', 'normBias', 'weight', 'bias', 'N', 'C', 'O', 'activation'] },
  normMatmulScratch: { symbol: 'gpt2_norm_matmul_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'N', 'C', 'O'] },
  attentionCachedForward: { symbol: 'gpt2_attention_cached_forward', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'int32_t'], names: ['context', 'out', 'keys', 'values', 'qkv', 'positions', 'B', 'T', 'S', 'C', 'NH', 'window'] },
  attentionCachedScratch: { symbol: 'gpt2_attention_cached_scratch', result: 'int', types: ['void *', 'void *', 'int32_t'], names: ['context', 'bytes', 'S'] },
  sample: { symbol: 'gpt2_sample', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'void *', 'int32_t', 'int32_t', 'int32_t', 'int32_t', 'float', 'int32_t', 'float'], names: ['context', 'tokens', 'positions', 'logits', 'seeds', 'B', 'S', 'V', 'Vp', 'temperature', 'topK', 'topP'] },
  sampleScratch: { symbol: 'gpt2_sample_scratch', result: 'int', types: ['void *', 'void *', 'int32_t', 'int32_t'], names: ['context', 'bytes', 'B', 'V'] },
  allReduce: { symbol: 'gpt2_all_reduce', result: 'int', types: ['void *', 'void *', 'void *', 'int64_t', 'int32_t'], names: ['context', 'data', 'communicator', 'count', 'dtype'] },
  reduceScatter: { symbol: 'gpt2_reduce_scatter', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'int64_t', 'int64_t', 'int32_t'], names: ['context', 'out', 'in', 'communicator', 'count', 'stride', 'dtype'] },
  allGather: { symbol: 'gpt2_all_gather', result: 'int', types: ['void *', 'void *', 'void *', 'void *', 'int64_t', 'int32_t'], names: ['context', 'out', 'in', 'communicator', 'count', 'dtype'] },
};
