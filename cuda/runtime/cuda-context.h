// What a gpt2_context is on CUDA, and how host code there launches kernels and reports what the driver says.
#pragma once

#include <cuda_runtime.h>

#include "context.h"

namespace gpt2 {

struct TensorCoreKernels;  // common/tensor-cores.h

// The table for this GPU, or the one that GPT2_KERNELS names; NULL with the reason in `why` if there is none such.
const TensorCoreKernels *choose_kernels(const cudaDeviceProp &gpu, std::string &why);
const char *name_of(const TensorCoreKernels &);

struct CudaContext : gpt2_context {
  ~CudaContext() override;

  int device = 0;
  int dtype = GPT2_FP32;
  bool accumulates = false;
  cudaStream_t stream = nullptr;
  const TensorCoreKernels *kernels = nullptr;
  int multiprocessors = 0;
  // Whether kernels may begin while the one before them ends (programmatic dependent launch): where the code
  // that runs was made for compute capability 9.0 or later.
  bool overlaps = false;
  // Whether the next kernel runs behind an event, and not only behind the kernel before it: then it may not begin while that
  // ends. Launching resets it.
  mutable bool behind_event = false;
  // Bytes of shared memory that one block may ask for.
  int shared_limit = 0;
  // Bytes of shared memory that an SM has for all its blocks.
  int shared_per_multiprocessor = 0;
  // Why the op at hand cannot launch its kernels though its arguments were checked: set by host code below the op,
  // which returns nothing; launches are then left out, and GPT2_LAUNCHED reports it.
  mutable cudaError_t refusal = cudaSuccess;
};

// The context with its device made the calling thread's own.
inline CudaContext &cuda(gpt2_context &context) {
  auto &own = static_cast<CudaContext &>(context);
  cudaSetDevice(own.device);
  return own;
}
inline const CudaContext &cuda(const gpt2_context &context) { return static_cast<const CudaContext &>(context); }

// GPT2_OK, or what a CUDA call said, kept as the context's last error together with where it was made.
int report(gpt2_context &context, cudaError_t error, const char *function, const char *file, int line);

// Whether the op's kernels could be launched.
inline cudaError_t launched(const gpt2_context &context) {
  const cudaError_t refusal = cuda(context).refusal;
  cuda(context).refusal = cudaSuccess;
  return refusal != cudaSuccess ? refusal : cudaGetLastError();
}

// Ends an op.
#define GPT2_LAUNCHED(context, function) \
  ::gpt2::report(context, ::gpt2::launched(context), function, __FILE__, __LINE__)

#define GPT2_TRY(context, function, call)                                                                 \
  if (const int gpt2_status = ::gpt2::report(context, call, function, __FILE__, __LINE__)) return gpt2_status

// Scratch handed out piece by piece, each on 256 bytes. Made without memory it only counts, which is how *_scratch
// functions and their ops agree on the size.
class Scratch {
 public:
  explicit Scratch(void *memory = nullptr) : memory_(static_cast<char *>(memory)) {}
  template <class T>
  T *take(int64_t count) {
    char *piece = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return reinterpret_cast<T *>(piece);
  }
  int64_t bytes() const { return bytes_; }

 private:
  char *memory_;
  int64_t bytes_ = 0;
};

constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace gpt2
