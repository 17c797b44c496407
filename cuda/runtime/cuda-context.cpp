// Opens and closes a context on a GPU, and reports CUDA errors.
#include "cuda-context.h"

#include <cstring>

#include "checks.h"

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

void check_cuda(cudaError_t error, const char *file, int line) {
  if (error == cudaSuccess) return;
  const char *base = std::strrchr(file, '/');
  throw Failure{error == cudaErrorMemoryAllocation ? GPT2_OUT_OF_MEMORY : GPT2_DEVICE_ERROR,
                error_text(error) + " (" + (base ? base + 1 : file) + ":" + std::to_string(line) + ")"};
}

void CudaContext::check_launches() { GPT2_TRY(cudaGetLastError()); }

void CudaContext::check_fp8() const {
  const char *names[] = {"fp32", "tf32", "bf16"};
  if (!has_fp8) throw Failure{GPT2_UNSUPPORTED, std::string("expected a context of fp8, got one of ") + names[dtype]};
}

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void unsupported(const std::string &text) { throw Failure{GPT2_UNSUPPORTED, text}; }

// Throws the error for a driver that lists no device: the reason, and how to fix it.
void no_device(cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  if (driver == 0) unsupported("no NVIDIA driver is installed");
  if (error == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    unsupported("the NVIDIA driver is too old: it knows CUDA " + version_text(driver) + ", this library needs " +
                std::to_string(runtime / 1000) + ".0; update the driver");
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    unsupported("no CUDA device is installed, or CUDA_VISIBLE_DEVICES hides it");
  }
  GPT2_TRY(error);
}

// Makes the GPU the thread's device; throws if this library has no code for it. Returns the probe kernel's attributes.
cudaFuncAttributes use_device(int device, const cudaDeviceProp &gpu, const std::string &capability) {
#ifdef GPT2_CHECK_ONLY
  unsupported(
      "this library was built by scripts/build-cuda --check, for machines without a GPU; run scripts/build-cuda");
#endif
  if (gpu.major < 8)
    unsupported(std::string(gpu.name) + " has compute capability " + capability + "; 8.0 is the minimum");
  GPT2_TRY(cudaSetDevice(device));
  cudaFuncAttributes attributes;
  const cudaError_t found = cudaFuncGetAttributes(&attributes, probe_kernel());
  if (found == cudaErrorNoKernelImageForDevice || found == cudaErrorInvalidDeviceFunction ||
      found == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    unsupported("this library was built for other GPUs: it has no code for compute capability " + capability + " (" +
                gpu.name + ")");
  }
  GPT2_TRY(found);
  return attributes;
}

// FP8 needs compute capability 8.9 or later, and code compiled for it: where the library has no machine code for the
// GPU, the driver compiles its PTX of 8.0, which has no FP8 instructions.
bool has_fp8(const cudaFuncAttributes &attributes) { return attributes.ptxVersion >= 89; }

std::string describe(const CudaContext &context, const cudaDeviceProp &gpu, const cudaFuncAttributes &attributes,
                     const std::string &capability) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return "{\"library\":\"cuda\",\"device\":\"" + std::string(gpu.name) + "\",\"codePath\":\"" +
         name_of(*context.kernels) + "\",\"threads\":1,\"canCapture\":true,\"dtypes\":[\"fp32\",\"tf32\",\"bf16\"" +
         (has_fp8(attributes) ? ",\"fp8\"" : "") + "],\"computeCapability\":\"" + capability +
         "\",\"multiprocessors\":" + std::to_string(gpu.multiProcessorCount) + ",\"driver\":\"" + version_text(driver) +
         "\"}";
}

}  // namespace

void open_context(Context &context, int device, int dtype, int, bool accumulates) {
  check_that(dtype >= GPT2_FP32 && dtype <= GPT2_FP8, "a GPT2_DTYPE, got " + std::to_string(dtype));
  int count = 0;
  const cudaError_t listed = cudaGetDeviceCount(&count);
  if (listed != cudaSuccess || count == 0) no_device(listed);
  check_that(device >= 0 && device < count,
             "a device from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(device));
  cudaDeviceProp properties;
  GPT2_TRY(cudaGetDeviceProperties(&properties, device));
  const std::string capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  const cudaFuncAttributes attributes = use_device(device, properties, capability);
  std::string why;
  context.kernels = choose_kernels(properties, why);
  if (!context.kernels) unsupported(why);
  if (dtype == GPT2_FP8 && !has_fp8(attributes)) {
    const bool needs_build = properties.major * 10 + properties.minor >= 89;
    unsupported(std::string(properties.name) + " has compute capability " + capability + ", and runs code for " +
                std::to_string(attributes.ptxVersion / 10) + "." + std::to_string(attributes.ptxVersion % 10) +
                "; fp8 needs " + (needs_build ? "a library built for this GPU" : "a GPU of 8.9 or later"));
  }
  GPT2_TRY(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking));
  context.device = device;
  context.dtype = dtype == GPT2_FP8 ? GPT2_BF16 : dtype;
  context.has_fp8 = dtype == GPT2_FP8;
  if (context.dtype == GPT2_BF16) {
    GPT2_TRY(cudaMalloc(&context.grid, sizeof(Grid)));
    GPT2_TRY(cudaMemsetAsync(context.grid, 0, sizeof(Grid), context.stream));
  }
  context.accumulates = accumulates;
  context.multiprocessors = properties.multiProcessorCount;
  context.overlaps = attributes.ptxVersion >= 90;
  context.shared_limit = static_cast<int>(properties.sharedMemPerBlockOptin);
  context.shared_per_multiprocessor = static_cast<int>(properties.sharedMemPerMultiprocessor);
  context.description = describe(context, properties, attributes, capability);
}

}  // namespace gpt2
