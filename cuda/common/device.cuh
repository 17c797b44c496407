// Helpers of the CUDA kernels: element types, 16-byte vectors, sums over a warp and a block, activations, launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../runtime/cuda-context.h"

namespace gpt2 {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(bf16 value) { return __bfloat162float(value); }

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  return __float2bfloat16_rn(value);
}

// COUNT adjacent elements, read and written in one access.
template <class T, int COUNT>
struct alignas(sizeof(T) * COUNT) Pack {
  T values[COUNT];
};

template <class T>
constexpr int vector_size = 16 / sizeof(T);

template <class T, int COUNT>
__device__ __forceinline__ void load(float (&values)[COUNT], const T *source) {
  const auto pack = *reinterpret_cast<const Pack<T, COUNT> *>(source);
#pragma unroll
  for (int i = 0; i < COUNT; i++) values[i] = to_float(pack.values[i]);
}

template <class T, int COUNT>
__device__ __forceinline__ void store(T *destination, const float (&values)[COUNT]) {
  Pack<T, COUNT> pack;
#pragma unroll
  for (int i = 0; i < COUNT; i++) pack.values[i] = from_float<T>(values[i]);
  *reinterpret_cast<Pack<T, COUNT> *>(destination) = pack;
}

// destination = values, or destination += values; `values` gets the stored numbers before rounding.
template <class T, int COUNT>
__device__ __forceinline__ void store_or_add(T *destination, float (&values)[COUNT], bool accumulate) {
  if (accumulate) {
    float old[COUNT];
    load(old, static_cast<const T *>(destination));
#pragma unroll
    for (int i = 0; i < COUNT; i++) values[i] += old[i];
  }
  store(destination, values);
}

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// The inclusive prefix sum over the lanes of a warp.
template <class T>
__device__ __forceinline__ T sum_up_to_lane(T value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const T lower = __shfl_up_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 >= offset) value += lower;
  }
  return value;
}

// The sum over a block of THREADS, added in the order of warps; every thread gets it. May be called repeatedly.
template <int THREADS, class T>
__device__ __forceinline__ T block_sum(T value) {
  __shared__ T partial[THREADS / 32];
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  T total = 0;
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; warp++) total += partial[warp];
  return total;
}

constexpr float log2e = 1.4426950408889634f;
constexpr float layernorm_eps = 1e-5f;

// 2^x in one instruction: relative error 2^-22; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh(x). For fp32, the function of CUDA's math library. For bf16, one instruction: its error of 2^-11 is an eighth of
// the error of the rounding to bf16 that follows.
template <class T>
__device__ __forceinline__ float tanh_for(float x) {
  if constexpr (sizeof(T) == 4) return tanhf(x);
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// In GELU the argument of tanh is x (gelu_scale + gelu_cubic x^2).
constexpr float gelu_scale = 0.7978845608028654f;  // sqrt(2/pi)
constexpr float gelu_cubic = 0.044715f * gelu_scale;

template <class T>
__device__ __forceinline__ float gelu(float x) {
  const float t = tanh_for<T>(x * fmaf(gelu_cubic, x * x, gelu_scale));
  return fmaf(0.5f * x, t, 0.5f * x);
}

template <class T>
__device__ __forceinline__ float gelu_derivative(float x) {
  const float square = x * x;
  const float t = tanh_for<T>(x * fmaf(gelu_cubic, square, gelu_scale));
  const float slope = x * fmaf(1.5f * gelu_cubic, square, 0.5f * gelu_scale);
  return fmaf(fmaf(-t, t, 1.0f), slope, fmaf(0.5f, t, 0.5f));
}

// relu(x)^2; NaN stays NaN.
__device__ __forceinline__ float relu_squared(float x) {
  float positive;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(positive) : "f"(x));
  return positive * positive;
}

__device__ __forceinline__ float sqrt_approximate(float x) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

// The derivative of relu_squared, from its result.
template <class T>
__device__ __forceinline__ float relu_squared_derivative(float activated) {
  return 2 * (sizeof(T) == 4 ? sqrtf(activated) : sqrt_approximate(activated));
}

// The softcap of x, value = cap x / sqrt(x^2 + cap^2), and its derivative by x.
struct Softcapped {
  float value, derivative;
};
__device__ __forceinline__ Softcapped softcapped(float x, float cap) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaf(x, x, cap * cap)));
  const float share = cap * inverse;
  return {x * share, share * share * share};
}

// Waits until all earlier work in the stream is complete and visible, then lets the next kernel be launched early. A
// kernel launched by launch_overlapping calls this before it accesses memory (docs/programmatic-launch.md).
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Allows the next kernel to start now. Called before wait_for_previous_kernel(), so that the next kernel may prefetch
// while this kernel still waits (docs/programmatic-launch.md).
__device__ __forceinline__ void release_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Prefetches the 128 bytes at an address into L2. A hint: it reads nothing, so later writes to the address are seen.
__device__ __forceinline__ void prefetch_to_l2(const void *address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), int bytes) {
  GPT2_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

// Launches a kernel that may start before the previous kernel ends, where docs/programmatic-launch.md allows it. The
// kernel must call wait_for_previous_kernel().
template <class... Parameters, class... Arguments>
void launch_overlapping(const CudaContext &context, void (*kernel)(Parameters...), int64_t blocks, int threads,
                        int shared, Arguments... arguments) {
  if (shared > 0) allow_shared(kernel, shared);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = context.stream;
  config.attrs = &attribute;
  config.numAttrs = context.overlaps && !context.follows_event ? 1 : 0;
  context.follows_event = false;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Calls `body` with the first of COUNTS that is at least `needed`, as a constant, and returns the result of `body`.
// Returns false if every count is smaller.
template <int... COUNTS, class Body>
bool with_count(int needed, std::integer_sequence<int, COUNTS...>, Body body) {
  bool found = false, done = false;
  ((!found && needed <= COUNTS ? (found = true, done = body(std::integral_constant<int, COUNTS>{})) : false), ...);
  return done;
}

// Calls `body` with a value of the context's element type: float or bf16.
template <class Body>
auto with_element_type(const CudaContext &context, Body body) {
  return context.dtype == GPT2_BF16 ? body(bf16{}) : body(float{});
}

// Calls `body` with a value of the type of the context's weight gradients.
template <class Body>
auto with_gradient_type(const CudaContext &context, Body body) {
  return context.dtype == GPT2_BF16 && !context.accumulates ? body(bf16{}) : body(float{});
}

// Calls body(element, gradient) with values of the context's element type and of the gradients' type: bf16 if
// has_bf16_gradients and the elements are bf16, else fp32.
template <class Body>
void with_types(const CudaContext &context, bool has_bf16_gradients, Body body) {
  if (context.dtype != GPT2_BF16) return body(float{}, float{});
  has_bf16_gradients ? body(bf16{}, bf16{}) : body(bf16{}, float{});
}

// Calls `body` with `flag` as a compile-time constant.
template <class Body>
void with_flag(bool flag, Body body) {
  flag ? body(std::true_type{}) : body(std::false_type{});
}

// Whether every address is a multiple of 16, so that 16-byte vectors may be used.
template <class... Pointers>
bool on_16_bytes(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls body(V), a constant: vector_size<T> if rows of C elements at these addresses may be read as vectors, else 1.
template <class T, class Body, class... Pointers>
void with_vectors(int64_t C, Body body, Pointers... pointers) {
  if (C % vector_size<T> == 0 && on_16_bytes(pointers...)) {
    body(std::integral_constant<int, vector_size<T>>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

}  // namespace gpt2
