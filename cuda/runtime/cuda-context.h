// The CUDA library's gpt2_context, and helpers for its host code: CUDA errors, driver functions, scratch.
#pragma once

#include <cuda_runtime.h>

#include "context.h"

namespace gpt2 {

struct TensorCoreKernels;  // common/tensor-cores.h

// State through which the blocks of a kernel wait for each other (fp8-quantize-weight.cu), or share out work
// (sm90/attention.cuh). Floats that are not negative are stored as integers, which have the same order.
struct Grid {
  unsigned arrivals;  // blocks that found their largest element, plus blocks that finished
  unsigned largest, largest_of_bias;
  unsigned taken;  // units of work that blocks have taken
};

// The table of kernels for this GPU, or the table named by GPT2_KERNELS. Without such a table: NULL, and `why` is set.
const TensorCoreKernels *choose_kernels(const cudaDeviceProp &gpu, std::string &why);
const char *name_of(const TensorCoreKernels &);

struct CudaContext : gpt2_context {
  ~CudaContext() override;

  int device = 0;
  int dtype = GPT2_FP32;  // GPT2_BF16 if opened as GPT2_FP8
  bool has_fp8 = false;   // opened as GPT2_FP8
  bool accumulates = false;
  cudaStream_t stream = nullptr;
  const TensorCoreKernels *kernels = nullptr;
  int multiprocessors = 0;
  // Whether kernels may be launched before the previous kernel ends (docs/programmatic-launch.md): true if the code
  // that runs was compiled for compute capability 9.0 or later.
  bool overlaps = false;
  // Whether the next kernel must also wait for an event, and so must not be launched early. Every launch resets this.
  mutable bool follows_event = false;
  int shared_limit = 0;               // bytes of shared memory that one block can have
  int shared_per_multiprocessor = 0;  // bytes of shared memory that an SM has for all of its blocks
  Grid *grid = nullptr;  // device memory, only in bf16; all 0 before and after every kernel

  void check_launches() override;
  void check_fp8() const override;
};

using Context = CudaContext;
void open_context(Context &, int device, int dtype, int threads, bool accumulates);
// The context as a CudaContext; also makes its GPU the calling thread's current device.
inline Context &opened(gpt2_context &context) {
  auto &gpu = static_cast<Context &>(context);
  cudaSetDevice(gpu.device);
  return gpu;
}

// The name and the text of a CUDA error. Clears the error, unless sticky, so that the next call does not report it.
std::string error_text(cudaError_t error);

// Throws a Failure if a CUDA call failed, with the file and line of the call.
void check_cuda(cudaError_t error, const char *file, int line);
#define GPT2_TRY(call) ::gpt2::check_cuda(call, __FILE__, __LINE__)

// A driver function by name, as of CUDA `version` (12000: 12.0); NULL if the driver lacks the function. Looked up at
// run time, so that the library links only the CUDA runtime.
template <class Function>
Function driver_function(const char *name, unsigned version = 12000) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

// Divides scratch into arrays aligned to 256 bytes. Without memory, only counts bytes: *_scratch functions and their
// ops call the same code, and so agree on the size.
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
