// The last linear layer with softmax and cross-entropy on Hopper, without a pass over the logits.
//
// With l_ij the logits and r_i the target's logit, the matmul's epilogue writes e_ij = exp(l_ij - r_i) instead of l_ij,
// with 0 for the target and for padding, and sums each row over the tile. With S_i the sum of the whole row, the loss
// is log(1 + S_i). The gradient of the logits is a_i e_ij with a_i = dloss / (1 + S_i), and -a_i S_i for the target. So
// the target's element of e is set to -S_i, and
//   din_i = a_i (e * weight)_i      (a_i in the matmul's epilogue)
//   dweight = e^T * (a_i in_i)      (rows of the input scaled before)
//   dbias = e^T * a                 (weighted sums in the matmul of dweight)
// With a softcap, l_ij is the capped logit, and the gradient by the logit before the cap has the cap's derivative d_ij
// as a further factor: the epilogue sums e_ij but stores e_ij d_ij, and the target's element is set to -S_i d_ij. No
// maximum is needed and no logit is rounded to bf16; the tests require each token's loss to be within 1e-4. Exponents
// are limited to 77 (exponential() in product-finisher.cuh), so a loss stays under 77 + log(V). Logits in FP8 change
// only the first matmul and r_i, which is the dot product of the same FP8 values.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int threads = 256;
constexpr int warps = threads / 32;

using gpt2::load;
// 16 adjacent values.
__device__ __forceinline__ void load(float (&values)[16], const e4m3 *source) {
  const auto pack = *reinterpret_cast<const Pack<uint16_t, 8> *>(source);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float2 two = unpack_fp8(pack.values[i]);
    values[i * 2] = two.x;
    values[i * 2 + 1] = two.y;
  }
}

// reference[i] = the target's logit, capped if cap > 0, and derivative[i] = the cap's derivative there. The reference
// is NaN for a target outside the vocabulary. A warp takes a row. The scales are only for FP8.
template <class T>
__global__ void __launch_bounds__(threads)
    reference_kernel(float *reference, float *derivative, const T *in, const T *weight, const bf16 *bias,
                     const int32_t *targets, int N, int C, int vocabulary, float cap, const float *in_scale,
                     const float *weight_scale) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= N) return;
  const int target = targets[row];
  if (target < 0 || target >= vocabulary) {
    if (lane == 0) reference[row] = NAN;
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
  if constexpr (is_fp8<T>) sum *= in_scale[row] * *weight_scale;
  if (bias) sum += to_float(bias[target]);
  const Softcapped logit = cap > 0 ? softcapped(sum, cap) : Softcapped{sum, 1};
  reference[row] = logit.value;
  derivative[row] = logit.derivative;
}

// Computes from the row sums of `tiles` tiles: losses, the scale of each row (also as weights, see product.cuh), the
// target's element of e, and the scaled input. A block takes 32 rows; 8 threads add each row.
__global__ void __launch_bounds__(threads)
    finish_kernel(float *losses, float *scale, bf16 *weights, bf16 *exponentials, bf16 *scaled, const bf16 *in,
                  const float *row_sums, const float *reference, const float *derivative, const int32_t *targets,
                  int tiles, int N, int C, int padded, float dloss, bool has_gradient) {
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
    // A target outside the vocabulary makes everything NaN.
    if (isnan(reference[row])) sum = NAN;
    losses[row] = log1pf(sum);
    if (has_gradient) {
      const float factor = dloss / (1 + sum);
      scales[threadIdx.x] = scale[row] = factor;
      const bf16 high = __float2bfloat16_rn(factor);
      weights[row] = high;
      weights[weights_line(N) + row] = __float2bfloat16_rn(factor - to_float(high));
      if (!isnan(sum)) {
        exponentials[static_cast<int64_t>(row) * padded + targets[row]] = __float2bfloat16_rn(-sum * derivative[row]);
      }
    }
  }
  if (!has_gradient) return;
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
  int64_t bytes;
};

// The memory for gradients comes last: a smaller N may need more of it, because k is split differently, and a forward
// pass with fewer rows than the workspace was allocated for must not need any.
Memory memory_of(const CudaContext &context, void *workspace, int N, int C, int padded, bool has_gradient) {
  Scratch scratch(workspace);
  Memory memory{};
  memory.reference = scratch.take<float>(N);
  memory.derivative = scratch.take<float>(N);
  memory.scale = scratch.take<float>(N);
  memory.row_sums = scratch.take<float>(ceil_divide(padded, interleaved_tile_n) * N);
  if (has_gradient) {
    memory.scaled = scratch.take<bf16>(static_cast<int64_t>(N) * C);
    memory.weights = scratch.take<bf16>(2 * weights_line(N));
    const int64_t rest = sm90::matmul_backward_weight_scratch(context, N, C, padded);
    memory.rest = scratch.take<char>(rest);
  }
  memory.bytes = scratch.bytes();
  return memory;
}

}  // namespace

int64_t sm90::classifier_scratch(const CudaContext &context, int N, int C, int Vp, bool has_gradient) {
  return memory_of(context, nullptr, N, C, Vp, has_gradient).bytes;
}

void sm90::classifier(const CudaContext &context, const Classifier &args, void *workspace) {
  const int N = args.N, C = args.C, Vp = args.Vp;
  // A bias without a softcap is capped far above every logit, where the cap changes nothing.
  const float cap = args.softcap > 0 ? args.softcap : args.bias ? 0x1p60f : 0;
  const bool has_gradient = args.din || args.dweight;
  const Memory memory = memory_of(context, workspace, N, C, Vp, has_gradient);
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
  const auto launch_logits = [&](const auto *from, const auto *by, const auto &arguments) {
    launch_overlapping(context, reference_kernel<std::remove_const_t<std::remove_pointer_t<decltype(from)>>>,
                       ceil_divide(N, warps), threads, 0, memory.reference, memory.derivative, from, by, args.bias,
                       args.targets, N, C, args.V, cap, args.in_scale, args.factors + GPT2_FP8_SCALE);
    const Product forward{from, by, true, true, N, Vp, C, C, C};
    if (cap > 0) {
      launch_interleaved<true, true, Epilogue::capped_exponentials>(context, forward, outputs, args.logits, nullptr,
                                                                    arguments);
    } else {
      launch_interleaved<true, true, Epilogue::exponentials>(context, forward, outputs, args.logits, nullptr,
                                                             arguments);
    }
  };
  if (args.in_values) {
    launch_logits(reinterpret_cast<const e4m3 *>(args.in_values), reinterpret_cast<const e4m3 *>(args.weight_values),
                  Fp8Arguments{{}, {args.in_scale, args.factors}});
  } else {
    launch_logits(args.in, args.weight, ProductArguments{});
  }
  launch_overlapping(context, finish_kernel, ceil_divide(N, 32), threads, 0, args.losses, memory.scale, memory.weights,
                     args.logits, memory.scaled, args.in, memory.row_sums, memory.reference, memory.derivative,
                     args.targets, static_cast<int>(ceil_divide(Vp, interleaved_tile_n)), N, C, Vp, args.dloss,
                     has_gradient);
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
