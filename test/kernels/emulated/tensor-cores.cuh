// The functions of kernels/course/tensor-cores.cuh with PTX, lane by lane as the PTX ISA describes them: a stand-in for emulated GPUs.
#include <cuda_bf16.h>

struct Fragment {
  unsigned values[4];
};

inline float half_of(unsigned pair, int second) { return __uint_as_float(second ? pair & 0xffff0000u : pair << 16); }

template <bool TRANSPOSED>
__device__ inline Fragment load_matrices(const __nv_bfloat16 *row) {
  const int lane = threadIdx.x % 32, g = lane / 4, p = lane % 4;
  Fragment to;
  for (int i = 0; i < 4; i++) {
    const auto row_of = [&](int j) {
      const auto address = __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(row), 8 * i + j);
      return reinterpret_cast<const __nv_bfloat16 *>(address);
    };
    // Both lanes of a shuffle take part in all.
    const __nv_bfloat16 *own = row_of(g), *even = row_of(2 * p), *odd = row_of(2 * p + 1);
    const float first = static_cast<float>(TRANSPOSED ? even[g] : own[2 * p]);
    const float second = static_cast<float>(TRANSPOSED ? odd[g] : own[2 * p + 1]);
    to.values[i] = __float_as_uint(first) >> 16 | (__float_as_uint(second) & 0xffff0000u);
  }
  return to;
}

__device__ inline void multiply(float (&sums)[4], const Fragment &a, const Fragment &b, int half) {
  const int lane = threadIdx.x % 32, g = lane / 4, p = lane % 4;
  for (int high = 0; high < 2; high++) {
    for (int pair = 0; pair < 4; pair++) {
      const auto of = [&](unsigned value, int lane) { return __shfl_sync(0xffffffffu, value, lane); };
      const unsigned top = of(a.values[2 * high], 4 * g + pair), bottom = of(a.values[2 * high + 1], 4 * g + pair);
      const unsigned left = of(b.values[half + 2 * high], 8 * p + pair), right = of(b.values[half + 2 * high], 8 * p + 4 + pair);
      for (int e = 0; e < 2; e++) {
        sums[0] += half_of(top, e) * half_of(left, e);
        sums[1] += half_of(top, e) * half_of(right, e);
        sums[2] += half_of(bottom, e) * half_of(left, e);
        sums[3] += half_of(bottom, e) * half_of(right, e);
      }
    }
  }
}

// ---- from here on as there ----
