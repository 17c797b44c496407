// Kernels of users on a CPU: loads shared libraries from src/ops/kernels/emulated.ts, and runs their kernels in the emulator.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "../../runtime/checks.h"
#include "../../runtime/ops.generated.h"
#include "../../runtime/process.h"
#include "block.h"
#include "launch.h"

using namespace gpt2;
using emulator::demangled;
using emulator::shared_limit;

struct gpt2_module {
  void *handle = nullptr;
  const gpt2_emulator::Module *table = nullptr;
  std::string path, description;
  std::vector<const void *> variables;
  emulator::Heap heap;
  std::set<std::string> warnings;  // printed once each

  ~gpt2_module() {
    for (const void *each : variables) gpt2_emulator::erase(each);
    if (handle) dlclose(handle);
    emulator::forget_lines();
  }
};

namespace {

std::string describe(const gpt2_emulator::Kernel &kernel) {
  std::string types, parameters;
  for (int i = 0; i < kernel.parameter_count; i++) {
    const gpt2_emulator::Parameter &parameter = kernel.parameters[i];
    types += (i > 0 ? ", " : "") + demangled(parameter.mangled_type);
    parameters += std::string(i > 0 ? "," : "") + "{\"offset\":" + std::to_string(parameter.offset) +
                  ",\"bytes\":" + std::to_string(parameter.bytes) + "}";
  }
  return std::string("{\"signature\":\"") + kernel.name + "(" + types + ")\",\"parameters\":[" + parameters +
         "],\"registers\":0,\"localBytes\":0,\"sharedBytes\":0,\"threads\":" + std::to_string(kernel.threads) +
         ",\"sharedLimit\":" + std::to_string(shared_limit) + "}";
}

// The pointer arguments as tensors, sorted by address; reach[i] is the number of bytes that may be accessed from argument i.
std::vector<emulator::Place> tensors_of(const gpt2_emulator::Kernel &kernel, const char *arguments, const int64_t *reach) {
  std::vector<emulator::Place> tensors;
  std::istringstream names(kernel.parameter_names);
  for (int i = 0; i < kernel.parameter_count; i++) {
    const gpt2_emulator::Parameter &parameter = kernel.parameters[i];
    std::string name;
    std::getline(names, name, ',');
    name.erase(0, name.find_first_not_of(' '));
    uintptr_t begin = 0;
    if (parameter.element_bytes == 0 || reach[i] <= 0) continue;
    std::memcpy(&begin, arguments + parameter.offset, sizeof begin);
    tensors.push_back({begin, static_cast<size_t>(reach[i]), parameter.element_bytes, name.empty() ? "an argument" : name});
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
  // Arguments that overlap become one tensor.
  std::vector<emulator::Place> joined;
  for (const emulator::Place &each : tensors) {
    const bool is_apart = joined.empty() || each.begin >= joined.back().begin + joined.back().bytes;
    if (is_apart) joined.push_back(each);
    else joined.back().bytes = std::max(joined.back().bytes, each.begin + each.bytes - joined.back().begin);
  }
  return joined;
}

struct Running {
  explicit Running(const char *kernel) { gpt2::running_kernel = kernel; }
  ~Running() { gpt2::running_kernel = nullptr; }
};

struct Call {
  const gpt2_emulator::Kernel *kernel;
  const char *arguments;
};

}  // namespace

void runtime::module_load(Context &, gpt2_module **module, const void *path, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  check_handles({{"path", path}});
  auto made = std::make_unique<gpt2_module>();
  made->path.assign(static_cast<const char *>(path), static_cast<size_t>(bytes));
  made->handle = dlopen(made->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Table = const gpt2_emulator::Module *(*)(const gpt2_emulator::Host *);
  const auto table = made->handle ? reinterpret_cast<Table>(dlsym(made->handle, "gpt2_emulated_module")) : nullptr;
  if (!table) {
    const char *why = made->handle ? "it lacks the table of kernels" : dlerror();
    throw Failure{GPT2_INVALID_ARGUMENT,
                  made->path + " is not a file of kernels compiled for a CPU: " + why + "; compile them for it"};
  }
  made->table = table(&gpt2_emulator::program_host);
  if (made->table->version != gpt2_emulator::interface_version) {
    throw Failure{GPT2_INVALID_ARGUMENT,
                  made->path + " was compiled for another version of this library; compile it again"};
  }
  if (made->table->has_checks) made->variables = emulator::enter_variables(reinterpret_cast<const void *>(table));
  for (int i = 0; i < made->table->kernel_count; i++) {
    made->description += (i > 0 ? "," : "[") + describe(made->table->kernels[i]);
  }
  made->description += made->table->kernel_count > 0 ? "]" : "[]";
  *module = made.release();
}

void runtime::module_free(Context &, gpt2_module &module) { delete &module; }

const char *gpt2_module_description(gpt2_module *module) { return module->description.c_str(); }

void runtime::module_launch(Context &context, gpt2_module &module, int32_t kernel, int32_t grid_x, int32_t grid_y,
                            int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z, int32_t shared_bytes,
                            const void *arguments, int64_t bytes, const int64_t *reach, int64_t parameters) {
  check_handles({{"arguments", arguments}, {"reach", reach}});
  check_sizes({{"grid_x", grid_x}, {"grid_y", grid_y}, {"grid_z", grid_z}});
  check_sizes({{"block_x", block_x}, {"block_y", block_y}, {"block_z", block_z}});
  check_that(bytes >= 0 && shared_bytes >= 0, "bytes and shared_bytes of at least 0");
  const int64_t threads = int64_t{block_x} * block_y * block_z, blocks = int64_t{grid_x} * grid_y * grid_z;
  check_that(kernel >= 0 && kernel < module.table->kernel_count,
             "a kernel of the module, got " + std::to_string(kernel));
  check_that(shared_bytes <= shared_limit, "at most " + std::to_string(shared_limit) + " bytes of shared memory, got " +
                                               std::to_string(shared_bytes));
  check_that(blocks <= INT32_MAX, "fewer blocks on a CPU than 2^31, got " + std::to_string(blocks));
  const gpt2_emulator::Kernel &wanted = module.table->kernels[kernel];
  check_that(parameters == wanted.parameter_count, "a reach for each parameter");
  check_that(threads <= wanted.threads, "at most " + std::to_string(wanted.threads) + " threads in a block, got " +
                                            std::to_string(threads));

  const Call call{&wanted, static_cast<const char *>(arguments)};
  const bool has_checks = module.table->has_checks;
  emulator::Job job;
  gpt2_emulator::Launch &launch = job.launch;
  launch.kernel = wanted.name;
  launch.blocks = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), static_cast<unsigned>(grid_z)};
  launch.threads = {static_cast<unsigned>(block_x), static_cast<unsigned>(block_y), static_cast<unsigned>(block_z)};
  launch.dynamic_shared = static_cast<size_t>(shared_bytes);
  launch.has_checks = has_checks;
  launch.body = [](const void *data) {
    const Call &call = *static_cast<const Call *>(data);
    call.kernel->call(call.kernel->function, call.arguments);
  };
  launch.data = &call;
  launch.arguments = arguments;
  launch.argument_bytes = static_cast<size_t>(bytes);
  launch.here = module.table->here;
  launch.watch = module.table->watch;
  job.pool = context.pool.get();
  if (has_checks) job.tensors = tensors_of(wanted, call.arguments, reach);
  job.heap = &module.heap;
  const Running running(wanted.name);
  const emulator::Done done = emulator::run(job);
  std::string errors;
  for (const emulator::Defect &each : done.defects) {
    const std::string text = message(wanted.name, each);
    if (each.kind != emulator::Defect::Kind::warning) errors += (errors.empty() ? "" : "\n") + text;
    else if (module.warnings.insert(text).second) std::fprintf(stderr, "warning: %s\n", text.c_str());
  }
  if (!errors.empty()) throw Failure{GPT2_DEVICE_ERROR, errors};
}
