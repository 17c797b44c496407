// The last linear layer with softmax and cross-entropy on Hopper, without a pass over the logits (docs/classifier.md).
//
// With l_ij the logit of token i for vocabulary entry j, and r_i the logit of i's target, the matmul's epilogue writes
// e_ij = exp(l_ij - r_i) instead of l_ij, with 0 for the target and for padding, and sums e over each row of its tile.
// With S_i the sum over the whole row, the loss is log(1 + S_i). With a_i = dloss / (1 + S_i) the gradient of the
// logits is a_i e_ij, once the target's element of e is set to -S_i:
//   din_i = a_i (e * weight)_i      (the matmul's epilogue multiplies by a_i)
//   dweight = e^T * (a_i in_i)      (the input's rows are scaled before the matmul)
//   dbias = e^T * a                 (weighted sums, computed with dweight)
// With a softcap, whose derivative is d_ij, the epilogue sums e_ij but stores e_ij d_ij, and the target's element
// becomes -S_i d_ij. exponential() in product-finisher.cuh limits the exponents.
//
// With FP8 (docs/fp8.md), e_ij = 128 exp(l_ij - z_i) is stored in E5M2, in the memory of bf16 logits: rowwise for din
// and columnwise for dweight. z_i estimates the log of softmax's denominator, from a matmul with every s-th row of the
// weight (s = sample_stride). With T_i the target's exponential, a_i = dloss / (T_i + S_i). The target's term is not
// rounded to FP8: the epilogue of din adds -a_i S_i times the target's row of the weight, and add_token_sums() adds the
// targets' terms to rows of dweight. r_i is computed from the same FP8 values as l_ij.
#include "../common/tensor-cores.h"
#include "../cross-entropy.cuh"
#include "../embedding-backward.cuh"
#include "../fp8-transpose.cuh"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int threads = 256;
constexpr int warps = threads / 32;

using gpt2::load;
// Loads 16 adjacent E4M3 values as fp32.
__device__ __forceinline__ void load(float (&values)[16], const e4m3 *source) {
  const auto pack = *reinterpret_cast<const Pack<uint16_t, 8> *>(source);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float2 two = unpack_fp8(pack.values[i]);
    values[i * 2] = two.x;
    values[i * 2 + 1] = two.y;
  }
}

// With FP8 gradients, the sample of the weight's rows from which z is estimated: `count` rows, every `stride`-th (a
// stride of 0: no sample); their biases; and for each token the index of its target in the sample, or -1.
struct Sample {
  int stride = 0, count = 0;
  int32_t *targets = nullptr;
  bf16 *bias = nullptr;
};

// reference[i] = the logit of token i's target, capped if cap > 0, and derivative[i] = the cap's derivative there. The
// reference is infinite for a target of -1, so that the row's exponentials are 0, and NaN for other targets outside the
// vocabulary. A warp takes a row. The scales are for FP8 only.
template <class T>
__global__ void __launch_bounds__(threads)
    reference_kernel(float *reference, float *derivative, const T *in, const T *weight, const bf16 *bias,
                     const int32_t *targets, int N, int C, int vocabulary, float cap, const float *in_scale,
                     const float *weight_scale, Sample sample) {
  wait_for_previous_kernel();
  const int thread = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (bias && sample.stride) {
    for (int i = thread; i < sample.count; i += static_cast<int>(gridDim.x) * threads) {
      sample.bias[i] = bias[i * sample.stride];
    }
  }
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= N) return;
  const int target = targets[row];
  if (sample.stride && lane == 0) {
    sample.targets[row] = target % sample.stride == 0 ? target / sample.stride : -1;
  }
  if (target < 0 || target >= vocabulary) {
    if (lane == 0) reference[row] = target == -1 ? INFINITY : NAN;
    return;
  }
  constexpr int V = vector_size<T>;
  const T *x = in + static_cast<int64_t>(row) * C, *w = weight + static_cast<int64_t>(target) * C;
  float sum = 0;
  for (int column = lane * V; column < C; column += 32 * V) {
    float a[V], b[V];
    load(a, x + column);
    load(b, w + column);
#pragma unroll
    for (int i = 0; i < V; i++) sum = fmaf(a[i], b[i], sum);
  }
  sum = warp_sum(sum);
  if (lane > 0) return;
  if constexpr (is_fp8<T>) sum = is_not_finite(in_scale[row]) ? NAN : sum * (in_scale[row] * *weight_scale);
  if (bias) sum += to_float(bias[target]);
  const Softcapped logit = cap > 0 ? softcapped(sum, cap) : Softcapped{sum, 1};
  reference[row] = logit.value;
  derivative[row] = logit.derivative;
}

// normalizer[i] = z_i - log(fp8_of_estimate): z_i estimates the logarithm of softmax's denominator, from the sums of
// row i over the sampled columns, of which `row_sums` has one for each of `tiles` tiles.
__global__ void __launch_bounds__(threads)
    normalizer_kernel(float *normalizer, const float *row_sums, const float *reference, int tiles, int stride, int N) {
  wait_for_previous_kernel();
  const int row = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (row >= N) return;
  float sum = 0;
  for (int tile = 0; tile < tiles; tile++) sum += row_sums[static_cast<int64_t>(tile) * N + row];
  normalizer[row] = reference[row] + logf(fp8_of_target + static_cast<float>(stride) * sum) - logf(fp8_of_estimate);
}

// Arrays [N], one number for each row, for gradients in FP8; NULL in bf16.
struct Fp8Rows {
  float *normalizer = nullptr, *of_target = nullptr, *saturated = nullptr;
};

// Adds each row's sums of `tiles` tiles, and computes the row's loss and the scale of its gradient. In bf16 also writes
// the scale as weights (product.cuh), the target's element of e and the scaled input; in FP8 the target's factor and
// whether the row may have saturated. A block takes 32 rows, with 8 threads for each row.
__global__ void __launch_bounds__(threads)
    finish_kernel(float *losses, float *scale, bf16 *weights, bf16 *exponentials, bf16 *scaled, const bf16 *in,
                  const float *row_sums, const float *reference, const float *derivative, const int32_t *targets,
                  int tiles, int N, int C, int padded, float dloss, bool has_gradient, Fp8Rows fp8) {
  wait_for_previous_kernel();
  __shared__ float scales[32];
  const int first = blockIdx.x * 32, part = threadIdx.x / 32, row = first + threadIdx.x % 32;
  __shared__ float sums[8][32];
  float sum = 0;
  if (row < N) {
#pragma unroll 8
    for (int tile = part; tile < tiles; tile += 8) sum += row_sums[static_cast<int64_t>(tile) * N + row];
  }
  sums[part][threadIdx.x % 32] = sum;
  __syncthreads();
  if (part == 0 && row < N) {
    sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += sums[i][threadIdx.x];
    // A target outside the vocabulary, except -1, makes the loss and the gradient NaN.
    if (isnan(reference[row])) sum = NAN;
    const int target = targets[row];
    if (fp8.normalizer) {
      const auto numbers =
          target == -1 ? Fp8Row{} : Fp8Row::of(sum, fp8.normalizer[row] - reference[row], derivative[row], dloss);
      losses[row] = numbers.loss;
      scale[row] = numbers.scale;
      fp8.of_target[row] = numbers.of_target;
      fp8.saturated[row] = numbers.saturated;
      return;
    }
    losses[row] = log1pf(sum);
    if (has_gradient) {
      const float factor = dloss / (1 + sum);
      scales[threadIdx.x] = scale[row] = factor;
      const bf16 high = __float2bfloat16_rn(factor);
      weights[row] = high;
      weights[weights_line(N) + row] = __float2bfloat16_rn(factor - to_float(high));
      if (!isnan(sum) && target >= 0) {
        exponentials[static_cast<int64_t>(row) * padded + target] = __float2bfloat16_rn(-sum * derivative[row]);
      }
    }
  }
  if (!has_gradient || fp8.normalizer) return;
  __syncthreads();
  const int packs = C / 8, rows = min(32, N - first);
  for (int i = threadIdx.x; i < rows * packs; i += threads) {
    const int64_t at = (static_cast<int64_t>(first) + i / packs) * C + i % packs * 8;
    float values[8];
    load(values, in + at);
#pragma unroll
    for (int j = 0; j < 8; j++) values[j] *= scales[i / packs];
    store(scaled + at, values);
  }
}

struct Memory {
  float *reference, *derivative, *scale, *row_sums;
  bf16 *scaled, *weights;
  void *rest;
  // Only with gradients in FP8:
  Fp8Rows rows;
  Sample sample;
  uint8_t *values_columnwise, *in_columnwise, *fp8_weights;
  float *in_columnwise_scale;
  void *token_sums;
  int64_t bytes;
};

// Lays out the workspace. Memory for gradients comes last, so that the forward pass of a smaller N fits into the
// workspace for a larger N: for its gradients a smaller N may need more memory, because k is split differently.
Memory memory_of(const CudaContext &context, void *workspace, int N, int C, int padded, bool has_gradient, bool fp8) {
  Scratch scratch(workspace);
  Memory memory{};
  memory.reference = scratch.take<float>(N);
  memory.derivative = scratch.take<float>(N);
  memory.scale = scratch.take<float>(N);
  memory.row_sums = scratch.take<float>(ceil_divide(padded, interleaved_tile_n) * N);
  if (has_gradient && fp8) {
    const int64_t tokens = columnwise_groups(N) * GPT2_FP8_GROUP;
    memory.rows = {scratch.take<float>(N), scratch.take<float>(N), scratch.take<float>(N)};
    // The memory of bf16 logits has room for two FP8 copies of N rows, but not for padding of the columnwise copy.
    memory.values_columnwise = scratch.take<uint8_t>(tokens > N ? tokens * padded : 0);
    memory.sample.stride = sample_stride(padded);
    memory.sample.count = static_cast<int>(ceil_divide(padded, memory.sample.stride));
    memory.sample.targets = scratch.take<int32_t>(N);
    memory.sample.bias = scratch.take<bf16>(memory.sample.count + 1);  // loaded in pairs
    memory.in_columnwise = scratch.take<uint8_t>(tokens * C);
    memory.in_columnwise_scale = scratch.take<float>(ceil_divide(N, GPT2_FP8_BLOCK));
    memory.fp8_weights = scratch.take<uint8_t>(2 * tokens);
    memory.token_sums = scratch.take<char>(token_sums_scratch(N, C));
    memory.rest = scratch.take<char>(sm90::fp8_matmul_backward_weight_scratch(context, N, C, padded));
  } else if (has_gradient) {
    memory.scaled = scratch.take<bf16>(static_cast<int64_t>(N) * C);
    memory.weights = scratch.take<bf16>(2 * weights_line(N));
    const int64_t rest = sm90::matmul_backward_weight_scratch(context, N, C, padded);
    memory.rest = scratch.take<char>(rest);
  }
  memory.bytes = scratch.bytes();
  return memory;
}

}  // namespace

int64_t sm90::classifier_scratch(const CudaContext &context, int N, int C, int Vp, bool has_gradient, bool fp8) {
  return memory_of(context, nullptr, N, C, Vp, has_gradient, fp8).bytes;
}

void sm90::classifier(const CudaContext &context, const Classifier &args, void *workspace) {
  const int N = args.N, C = args.C, Vp = args.Vp;
  // Only the epilogue with a cap adds a bias. With a bias and no softcap, the cap 2^60 changes no logit.
  const float cap = args.softcap > 0 ? args.softcap : args.bias ? 0x1p60f : 0;
  const bool has_gradient = args.din || args.dweight, fp8 = args.in_values;
  const Memory memory = memory_of(context, workspace, N, C, Vp, has_gradient, fp8);
  ProductOutputs outputs;
  outputs.rows = memory.reference;
  outputs.targets = args.targets;
  outputs.columns = args.V;
  outputs.row_sums = memory.row_sums;
  outputs.stores = has_gradient;
  if (cap > 0) {
    outputs.bias = args.bias;
    outputs.softcap = cap;
  }
  const auto launch_reference = [&](const auto *from, const auto *by) {
    launch_overlapping(context, reference_kernel<std::remove_const_t<std::remove_pointer_t<decltype(from)>>>,
                       ceil_divide(N, warps), threads, 0, memory.reference, memory.derivative, from, by, args.bias,
                       args.targets, N, C, args.V, cap, args.in_scale, args.factors + GPT2_FP8_SCALE, memory.sample);
  };
  const bf16 *out = fp8 ? nullptr : args.logits;
  const auto launch_logits = [&](const Product &forward, const auto &arguments) {
    if (cap > 0) {
      launch_interleaved<true, true, Epilogue::capped_exponentials>(context, forward, outputs, out, nullptr, arguments);
    } else {
      launch_interleaved<true, true, Epilogue::exponentials>(context, forward, outputs, out, nullptr, arguments);
    }
  };
  const int tokens = static_cast<int>(columnwise_groups(N) * GPT2_FP8_GROUP);
  auto *rowwise = reinterpret_cast<uint8_t *>(args.logits);
  uint8_t *columnwise = tokens == N ? rowwise + static_cast<int64_t>(N) * Vp : memory.values_columnwise;
  if (fp8) {
    const auto *in = reinterpret_cast<const e4m3 *>(args.in_values);
    const auto *weight = reinterpret_cast<const e4m3 *>(args.weight_values);
    launch_reference(in, weight);
    Fp8Arguments arguments{{}, {args.in_scale, args.factors}};
    if (has_gradient) {
      const auto [stride, count, targets, bias] = memory.sample;
      const ProductOutputs of_all = outputs;
      outputs.targets = targets;
      outputs.columns = static_cast<int>(ceil_divide(args.V, stride));
      outputs.bias = of_all.bias ? bias : nullptr;
      outputs.stores = false;
      launch_logits({in, weight, true, true, N, count, C, C, static_cast<int64_t>(stride) * C}, arguments);
      launch_overlapping(context, normalizer_kernel, ceil_divide(N, threads), threads, 0, memory.rows.normalizer,
                         memory.row_sums, memory.reference, static_cast<int>(ceil_divide(count, interleaved_tile_n)),
                         stride, N);
      outputs = of_all;
      outputs.rows = memory.rows.normalizer;
      arguments.fp8.values = rowwise;
      arguments.fp8.columnwise = columnwise;
    }
    launch_logits({in, weight, true, true, N, Vp, C, C, C}, arguments);
  } else {
    launch_reference(args.in, args.weight);
    launch_logits({args.in, args.weight, true, true, N, Vp, C, C, C}, ProductArguments{});
  }
  launch_overlapping(context, finish_kernel, ceil_divide(N, 32), threads, 0, args.losses, memory.scale, memory.weights,
                     args.logits, memory.scaled, args.in, memory.row_sums, memory.reference, memory.derivative,
                     args.targets, static_cast<int>(ceil_divide(Vp, interleaved_tile_n)), N, C, Vp, args.dloss,
                     has_gradient, memory.rows);
  if (has_gradient && fp8) {
    if (args.step) {
      add_to_step(context, args.step, GPT2_STEP_SATURATED, memory.rows.saturated, N, 1, args.accumulate);
    }
    if (args.din) {
      const Product backward{rowwise, args.weight_transposed, true, true, N, C, Vp, Vp, Vp};
      classifier_backward_input(context, backward, {memory.scale, args.factors}, args, memory.rows.of_target);
    }
    if (args.dweight) {
      scale_columnwise(context, memory.in_columnwise, memory.in_columnwise_scale, memory.fp8_weights, args.in,
                       args.in_scale, memory.scale, N, C);
      const Product backward{columnwise, memory.in_columnwise, true, true, Vp, C, tokens, tokens, tokens};
      classifier_backward_weight(context, backward, memory.fp8_weights, memory.in_columnwise_scale, args.dweight,
                                 args.dbias, args.accumulate, memory.rest);
      add_token_sums(context, args.dweight, args.dbias, args.in, memory.rows.of_target, args.targets, N, C, args.V,
                     memory.token_sums);
    }
    return;
  }
  if (args.din) {
    ProductOutputs scaled;
    scaled.rows = memory.scale;
    const Product backward{args.logits, args.weight, true, false, N, C, Vp, Vp, C};
    launch_plain<true, false, Epilogue::scaled>(context, backward, scaled, args.din, unsplit(backward));
  }
  if (args.dweight) {
    const Product backward{args.logits, memory.scaled, false, false, Vp, C, N, Vp, C};
    sm90::matmul_backward_weight(context, backward, args.dweight, args.dbias, memory.weights, args.accumulate,
                                 memory.rest);
  }
}

}  // namespace gpt2
