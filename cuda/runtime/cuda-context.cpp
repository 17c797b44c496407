// Opens and closes a context on a GPU, and reports CUDA errors.
#include "cuda-context.h"

#include <cstring>
#include <new>

using gpt2::CudaContext;
using gpt2::fail;

namespace gpt2 {

// A kernel that every build of the library contains (common/probe.cu).
const void *probe_kernel();

CudaContext::~CudaContext() {
  if (!stream) return;
  cudaSetDevice(device);
  cudaFree(grid);
  cudaStreamDestroy(stream);
}

std::string error_text(cudaError_t error) {
  cudaGetLastError();
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

int report(gpt2_context &context, cudaError_t error, const char *function, const char *file, int line) {
  if (error == cudaSuccess) return GPT2_OK;
  const char *base = std::strrchr(file, '/');
  const std::string text = error_text(error) + " (" + (base ? base + 1 : file) + ":" + std::to_string(line) + ")";
  return fail(&context, error == cudaErrorMemoryAllocation ? GPT2_OUT_OF_MEMORY : GPT2_DEVICE_ERROR, function, text);
}

}  // namespace gpt2

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The error when the driver lists no device: the reason, and what to do.
int no_device(CudaContext *context, const char *function, cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  if (driver == 0) return fail(context, GPT2_UNSUPPORTED, function, "no NVIDIA driver is installed");
  if (error == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    return fail(context, GPT2_UNSUPPORTED, function,
                "the NVIDIA driver is too old: it knows CUDA " + version_text(driver) + ", this library needs " +
                    std::to_string(runtime / 1000) + ".0; update the driver");
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return fail(context, GPT2_UNSUPPORTED, function, "no CUDA device is installed, or CUDA_VISIBLE_DEVICES hides it");
  }
  return gpt2::report(*context, error, function, __FILE__, __LINE__);
}

// Makes the GPU the thread's device, if this library has code for it; sets `attributes` to those of the probe kernel.
int use_device(gpt2_context &context, const char *function, int device, const cudaDeviceProp &gpu,
               const std::string &capability, cudaFuncAttributes &attributes) {
#ifdef GPT2_CHECK_ONLY
  return fail(&context, GPT2_UNSUPPORTED, function,
              "this library was built by scripts/build-cuda --check, for machines without a GPU; run scripts/build-cuda");
#endif
  if (gpu.major < 8) {
    return fail(&context, GPT2_UNSUPPORTED, function,
                std::string(gpu.name) + " has compute capability " + capability + "; 8.0 is the minimum");
  }
  GPT2_TRY(context, function, cudaSetDevice(device));
  const cudaError_t found = cudaFuncGetAttributes(&attributes, gpt2::probe_kernel());
  if (found == cudaErrorNoKernelImageForDevice || found == cudaErrorInvalidDeviceFunction ||
      found == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    return fail(&context, GPT2_UNSUPPORTED, function,
                "this library was built for other GPUs: it has no code for compute capability " + capability + " (" +
                    gpu.name + ")");
  }
  GPT2_TRY(context, function, found);
  return GPT2_OK;
}

// FP8 needs tensor cores of compute capability 8.9 or later, and code compiled for them: on a GPU for which the library
// has no machine code, PTX of 8.0 runs, which has no FP8 instructions.
bool has_fp8(const cudaFuncAttributes &attributes) { return attributes.ptxVersion >= 89; }

std::string describe(const CudaContext &context, const cudaDeviceProp &gpu, const cudaFuncAttributes &attributes,
                     const std::string &capability) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return "{\"library\":\"cuda\",\"device\":\"" + std::string(gpu.name) + "\",\"codePath\":\"" +
         gpt2::name_of(*context.kernels) +
         "\",\"threads\":1,\"canCapture\":true,\"dtypes\":[\"fp32\",\"tf32\",\"bf16\"" +
         (has_fp8(attributes) ? ",\"fp8\"" : "") + "],\"computeCapability\":\"" + capability +
         "\",\"multiprocessors\":" + std::to_string(gpu.multiProcessorCount) + ",\"driver\":\"" + version_text(driver) +
         "\"}";
}

int open_context(CudaContext *context, const char *function, int32_t device, int32_t dtype, bool accumulates) {
  if (dtype < GPT2_FP32 || dtype > GPT2_FP8) {
    return fail(context, GPT2_INVALID_ARGUMENT, function, "expected a GPT2_DTYPE, got " + std::to_string(dtype));
  }
  int count = 0;
  const cudaError_t listed = cudaGetDeviceCount(&count);
  if (listed != cudaSuccess || count == 0) return no_device(context, function, listed);
  if (device < 0 || device >= count) {
    return fail(context, GPT2_INVALID_ARGUMENT, function,
                "expected a device from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(device));
  }
  cudaDeviceProp properties;
  GPT2_TRY(*context, function, cudaGetDeviceProperties(&properties, device));
  const std::string capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  cudaFuncAttributes attributes;
  if (const int status = use_device(*context, function, device, properties, capability, attributes)) return status;
  std::string why;
  context->kernels = gpt2::choose_kernels(properties, why);
  if (!context->kernels) return fail(context, GPT2_UNSUPPORTED, function, why);
  if (dtype == GPT2_FP8 && !has_fp8(attributes)) {
    const bool needs_build = properties.major * 10 + properties.minor >= 89;
    return fail(context, GPT2_UNSUPPORTED, function,
                std::string(properties.name) + " has compute capability " + capability + ", and runs code for " +
                    std::to_string(attributes.ptxVersion / 10) + "." + std::to_string(attributes.ptxVersion % 10) +
                    "; fp8 needs " + (needs_build ? "a library built for this GPU" : "a GPU of 8.9 or later"));
  }
  GPT2_TRY(*context, function, cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking));
  context->device = device;
  context->dtype = dtype == GPT2_FP8 ? GPT2_BF16 : dtype;
  context->has_fp8 = dtype == GPT2_FP8;
  if (context->dtype == GPT2_BF16) {
    GPT2_TRY(*context, function, cudaMalloc(&context->grid, sizeof(gpt2::Grid)));
    GPT2_TRY(*context, function, cudaMemsetAsync(context->grid, 0, sizeof(gpt2::Grid), context->stream));
  }
  context->accumulates = accumulates;
  context->multiprocessors = properties.multiProcessorCount;
  context->overlaps = attributes.ptxVersion >= 90;
  context->shared_limit = static_cast<int>(properties.sharedMemPerBlockOptin);
  context->shared_per_multiprocessor = static_cast<int>(properties.sharedMemPerMultiprocessor);
  context->description = describe(*context, properties, attributes, capability);
  return GPT2_OK;
}

}  // namespace

int gpt2_context_create(gpt2_context **context, int32_t device, int32_t dtype, int32_t, int32_t accumulates) {
  if (!context) return GPT2_INVALID_ARGUMENT;
  auto *opened = new (std::nothrow) CudaContext;
  *context = opened;
  if (!opened) return GPT2_OUT_OF_MEMORY;
  return open_context(opened, __func__, device, dtype, accumulates != 0);
}

int gpt2_context_destroy(gpt2_context *context) {
  delete context;
  return GPT2_OK;
}
