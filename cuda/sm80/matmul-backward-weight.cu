// dweight = dout^T * in and the column sums of dout, sm_80 and later: both operands MN-major, or, in FP8, K-major.
//
// The result has few tiles and k is long: k is split over blocks, each block stores its sums in fp32 scratch, and a
// second kernel adds them in order. The bias gradient needs no separate pass: the blocks of the first column of tiles
// also multiply dout by ones.
#include "../common/partial-sums.cuh"
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

namespace {

using namespace sm80;

// Every part of k begins at a multiple of block_k elements, which are block_steps steps.
template <bool FP8>
constexpr int block_steps = Warps<Epilogue::gradient, FP8>::steps_a_block;
template <bool FP8>
constexpr int block_k = block_steps<FP8> * step_k * (FP8 ? 2 : 1);

// The number of thread blocks that run at a time: two per SM if shared memory suffices (CUDA reserves another 1 KB for
// each block), else one. In FP8 one: two blocks of 8 warps need too many registers.
template <bool FP8>
int slots_of(const CudaContext &context) {
  const bool two = !FP8 && context.shared_per_multiprocessor >= 2 * (shared_bytes + 1024);
  return context.multiprocessors * (two ? 2 : 1);
}

// The number of parts that k is split into: the number with the least time in a model of full waves of blocks plus the
// traffic of the partial sums. Constants from an H100: 1.2 microseconds for a step of two blocks on an SM, the time of
// 6 steps for a block's begin and end, 2 TB/s for partial sums.
template <bool FP8>
int splits_of(const CudaContext &context, int N, int C, int O) {
  const int64_t tiles = ceil_divide(O, tile) * ceil_divide(C, tile);
  const int64_t blocks = ceil_divide(N, block_k<FP8>);
  const int slots = slots_of<FP8>(context);
  int best = 1;
  double least = 0;
  for (int splits = 1; splits <= 32 && splits <= blocks; splits++) {
    const double waves = static_cast<double>(ceil_divide(tiles * splits, slots));
    const double steps = static_cast<double>(ceil_divide(blocks, splits) * block_steps<FP8>);
    const double work = waves * (steps + 6) * 1.2;
    const double traffic = splits > 1 ? splits * static_cast<double>(O) * C * 8 / 2e6 : 0;
    const double time = work + traffic;
    if (splits == 1 || time < least * 0.98) {
      least = time;
      best = splits;
    }
  }
  // Drops parts that would be empty.
  return static_cast<int>(ceil_divide(blocks, ceil_divide(blocks, best)));
}

template <bool FP8>
int64_t scratch_of(const CudaContext &context, int N, int C, int O) {
  const int splits = splits_of<FP8>(context, N, C, O);
  Scratch scratch;
  scratch.take<float>(static_cast<int64_t>(splits) * O);
  if (splits > 1) scratch.take<float>(static_cast<int64_t>(splits) * O * C);
  return scratch.bytes();
}

// `product` counts k in the units of product.cuh (with FP8, pairs of values); `k` counts elements.
template <bool FP8>
void backward_weight(const CudaContext &context, const Product &product, int k,
                     const Scales<Epilogue::gradient, FP8> &scales, void *dweight, float *dbias, bool accumulate,
                     void *memory) {
  const int splits = splits_of<FP8>(context, k, product.N, product.M);
  Scratch scratch(memory);
  float *bias_partial = scratch.take<float>(static_cast<int64_t>(splits) * product.M);
  float *sums = dbias ? bias_partial : nullptr;
  with_gradient_type(context, [&](auto gradient) {
    using G = decltype(gradient);
    if (splits == 1) {
      const Outputs<bf16, G> outputs{static_cast<G *>(dweight), nullptr, nullptr, nullptr, accumulate};
      launch_product<FP8, FP8, Epilogue::gradient, FP8>(context, product, outputs, sums, 1, scales);
      return;
    }
    const int64_t count = static_cast<int64_t>(product.M) * product.N;
    auto *partial = scratch.take<float>(splits * count);
    const Outputs<bf16, float> outputs{partial, nullptr, nullptr, nullptr, false};
    launch_product<FP8, FP8, Epilogue::gradient, FP8>(context, product, outputs, sums, splits, scales);
    launch_add_parts(context, static_cast<G *>(dweight), partial, splits, count, accumulate);
  });
  if (dbias) launch_add_parts(context, dbias, bias_partial, splits, product.M, accumulate);
}

}  // namespace

int64_t sm80::matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  return scratch_of<false>(context, N, C, O);
}

void sm80::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  bool accumulate, void *memory) {
  backward_weight<false>(context, product, product.K, {}, dweight, dbias, accumulate, memory);
}

int64_t sm80::fp8_matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  return scratch_of<true>(context, N, C, O);
}

void sm80::fp8_matmul_backward_weight(const CudaContext &context, const Product &product, const float *a_scale,
                                      const float *b_scale, void *dweight, float *dbias, bool accumulate,
                                      void *memory) {
  backward_weight<true>(context, in_pairs(product), product.K, {a_scale, b_scale}, dweight, dbias, accumulate, memory);
}

}  // namespace gpt2
