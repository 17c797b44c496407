// Kernels from outside this library, on CUDA: loads a user's compiled cubins and launches their kernels by the driver.
#include <cuda.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checks.h"
#include "ops.generated.h"

struct gpt2_module {
  CUmodule handle = nullptr;
  std::vector<CUfunction> kernels;
  std::vector<std::string> names;
  // For each kernel, the dynamic shared memory in bytes that the driver was asked to allow.
  std::vector<int64_t> shared_limits;
  std::string description;
};

namespace gpt2 {

namespace {

struct Driver {
  decltype(&cuGetErrorName) error_name = driver_function<decltype(error_name)>("cuGetErrorName");
  decltype(&cuGetErrorString) error_string = driver_function<decltype(error_string)>("cuGetErrorString");
  decltype(&cuModuleLoad) load = driver_function<decltype(load)>("cuModuleLoad");
  decltype(&cuModuleUnload) unload = driver_function<decltype(unload)>("cuModuleUnload");
  decltype(&cuModuleGetFunctionCount) count = driver_function<decltype(count)>("cuModuleGetFunctionCount", 12040);
  decltype(&cuModuleEnumerateFunctions) enumerate =
      driver_function<decltype(enumerate)>("cuModuleEnumerateFunctions", 12040);
  decltype(&cuModuleGetFunction) function = driver_function<decltype(function)>("cuModuleGetFunction");
  decltype(&cuFuncGetName) name = driver_function<decltype(name)>("cuFuncGetName", 12030);
  decltype(&cuFuncGetParamInfo) parameter = driver_function<decltype(parameter)>("cuFuncGetParamInfo", 12040);
  decltype(&cuFuncGetAttribute) attribute = driver_function<decltype(attribute)>("cuFuncGetAttribute");
  decltype(&cuFuncSetAttribute) set_attribute = driver_function<decltype(set_attribute)>("cuFuncSetAttribute");
  decltype(&cuLaunchKernel) launch = driver_function<decltype(launch)>("cuLaunchKernel");

  bool is_complete() const {
    return error_name && error_string && load && unload && count && enumerate && function && name && parameter && attribute &&
           set_attribute && launch;
  }
};

const Driver &driver() {
  static const Driver functions;
  return functions;
}

// Throws if a driver call failed; `what` begins the error's text.
void check_driver(CUresult result, const std::string &what) {
  if (result == CUDA_SUCCESS) return;
  const char *name = "an unknown error", *text = "";
  driver().error_name(result, &name);
  driver().error_string(result, &text);
  throw Failure{GPT2_DEVICE_ERROR, what + ": " + name + ": " + text};
}

std::string demangled(const char *name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// Adds a kernel and its description, as JSON, to the module. Demangled names need no escapes.
CUresult add(gpt2_module &module, CUfunction listed, int shared_limit) {
  const char *name = nullptr;
  if (const CUresult result = driver().name(&name, listed)) return result;
  // A listed function is not loaded yet and has no attributes; looking it up by name loads it.
  CUfunction kernel = nullptr;
  if (const CUresult result = driver().function(&kernel, module.handle, name)) return result;
  std::string text = "{\"signature\":\"" + demangled(name) + "\",\"parameters\":[";
  size_t offset = 0, bytes = 0;
  for (size_t index = 0; driver().parameter(kernel, index, &offset, &bytes) == CUDA_SUCCESS; index++) {
    text += std::string(index > 0 ? "," : "") + "{\"offset\":" + std::to_string(offset) +
            ",\"bytes\":" + std::to_string(bytes) + "}";
  }
  const std::pair<const char *, CUfunction_attribute> attributes[] = {
      {"registers", CU_FUNC_ATTRIBUTE_NUM_REGS},
      {"localBytes", CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES},
      {"sharedBytes", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES},
      {"threads", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
  };
  text += "]";
  for (const auto &[key, attribute] : attributes) {
    int value = 0;
    if (const CUresult result = driver().attribute(&value, attribute, kernel)) return result;
    text += std::string(",\"") + key + "\":" + std::to_string(value);
  }
  text += ",\"sharedLimit\":" + std::to_string(shared_limit) + "}";
  module.description += (module.kernels.empty() ? "" : ",") + text;
  module.kernels.push_back(kernel);
  module.names.push_back(demangled(name));
  module.shared_limits.push_back(0);
  return CUDA_SUCCESS;
}

}  // namespace

void runtime::module_load(Context &gpu, gpt2_module **module, const void *path, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  check_handles({{"path", path}});
  if (!driver().is_complete()) {
    throw Failure{GPT2_UNSUPPORTED, "the driver lacks functions of CUDA 12.4; update it"};
  }
  const std::string file(static_cast<const char *>(path), static_cast<size_t>(bytes));
  auto made = std::make_unique<gpt2_module>();
  CUresult result = driver().load(&made->handle, file.c_str());
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE) {
    throw Failure{GPT2_INVALID_ARGUMENT, file + " has no kernels for this GPU; compile them for it"};
  }
  check_driver(result, "cannot load " + file);
  unsigned count = 0;
  result = driver().count(&count, made->handle);
  std::vector<CUfunction> listed(count);
  if (result == CUDA_SUCCESS && count > 0) result = driver().enumerate(listed.data(), count, made->handle);
  made->description = "[";
  for (unsigned index = 0; result == CUDA_SUCCESS && index < count; index++) {
    result = add(*made, listed[index], gpu.shared_limit);
  }
  if (result != CUDA_SUCCESS) driver().unload(made->handle);
  check_driver(result, "cannot read the kernels of " + file);
  made->description += "]";
  *module = made.release();
}

void runtime::module_free(Context &, gpt2_module &module) {
  const std::unique_ptr<gpt2_module> owned(&module);
  check_driver(driver().unload(module.handle), "cannot free the module");
}

void runtime::module_launch(Context &gpu, gpt2_module &module, int32_t kernel, int32_t grid_x, int32_t grid_y,
                            int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z, int32_t shared_bytes,
                            const void *arguments, int64_t bytes, const int64_t *, int64_t) {
  check_handles({{"arguments", arguments}});
  check_sizes({{"grid_x", grid_x}, {"grid_y", grid_y}, {"grid_z", grid_z}});
  check_sizes({{"block_x", block_x}, {"block_y", block_y}, {"block_z", block_z}});
  check_that(bytes >= 0 && shared_bytes >= 0, "bytes and shared_bytes of at least 0");
  check_that(kernel >= 0 && kernel < static_cast<int64_t>(module.kernels.size()),
             "a kernel below " + std::to_string(module.kernels.size()) + ", got " + std::to_string(kernel));
  const CUfunction function = module.kernels[static_cast<size_t>(kernel)];
  // A block gets more than 48 KB of shared memory, static and dynamic together, only on request.
  int64_t &limit = module.shared_limits[static_cast<size_t>(kernel)];
  if (shared_bytes > limit) {
    check_driver(driver().set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes),
                 module.names[kernel]);
    limit = shared_bytes;
  }
  // The driver copies the arguments before it returns.
  auto size = static_cast<size_t>(bytes);
  void *buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void *>(arguments), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                    CU_LAUNCH_PARAM_END};
  const CUresult result =
      driver().launch(function, static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y),
                      static_cast<unsigned>(grid_z), static_cast<unsigned>(block_x), static_cast<unsigned>(block_y),
                      static_cast<unsigned>(block_z), static_cast<unsigned>(shared_bytes), gpu.stream, nullptr, buffer);
  check_driver(result, module.names[kernel]);
  gpu.follows_event = false;
}

}  // namespace gpt2

const char *gpt2_module_description(gpt2_module *module) { return module->description.c_str(); }
