// Adds the values of all ranks, after every rank has copied its values to every other rank (peers.h): the second half
// of an all-reduce. Each rank adds in the order of ranks, so all get the same bits.
#include "../common/device.cuh"
#include "peers.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;

template <class T>
struct Sum {
  using Type = float;
  __device__ static float from(T value) { return to_float(value); }
  __device__ static T round(float value) { return from_float<T>(value); }
};
template <>
struct Sum<double> {
  using Type = double;
  __device__ static double from(double value) { return value; }
  __device__ static double round(double value) { return value; }
};

template <class T>
__global__ void __launch_bounds__(threads)
    sum_of_ranks_kernel(T *values, const char *rows, int64_t stride, int64_t count, int rank, int ranks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const auto of = [&](int row) {
    return Sum<T>::from(row == rank ? values[i] : reinterpret_cast<const T *>(rows + row * stride)[i]);
  };
  typename Sum<T>::Type sum = of(0);
  for (int row = 1; row < ranks; row++) sum += of(row);
  values[i] = Sum<T>::round(sum);
}

}  // namespace

void launch_sum_of_ranks(cudaStream_t stream, void *values, const char *rows, int64_t stride, int64_t count,
                         Number number, int rank, int ranks) {
  const auto launch = [&](auto element) {
    using T = decltype(element);
    const auto blocks = static_cast<unsigned>(ceil_divide(count, threads));
    sum_of_ranks_kernel<<<blocks, threads, 0, stream>>>(static_cast<T *>(values), rows, stride, count, rank, ranks);
  };
  if (number == Number::kFloat64) {
    launch(double{});
  } else if (number == Number::kFloat32) {
    launch(float{});
  } else {
    launch(bf16{});
  }
}

}  // namespace gpt2
