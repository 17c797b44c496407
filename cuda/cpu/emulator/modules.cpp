// Kernels from outside this library on the CPU: shared libraries that src/ops/kernels/emulated.ts compiled, run by the emulator.
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "../../runtime/checks.h"
#include "../../runtime/process.h"
#include "../context.h"
#include "block.h"

using gpt2::Check;
using gpt2::cpu;
using gpt2::fail;
namespace emulator = gpt2::emulator;
using emulator::demangled;

std::string emulator::demangled(const char *name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

struct gpt2_module {
  void *handle = nullptr;
  const gpt2_emulator::Module *table = nullptr;
  const void *base = nullptr;
  std::string path, description;
  // A cache for pairs of calls, because the debug information is slow to read.
  std::map<std::pair<const void *, const void *>, bool> same_lines;
  std::vector<emulator::Variable> variables;
  emulator::Heap heap;
  std::set<std::string> warnings;  // printed once each

  ~gpt2_module() {
    if (handle) dlclose(handle);
  }
};

namespace {

// The shared memory that a block on an H100 can have, in bytes.
constexpr int shared_limit = 232448;

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

// The standard output of a program in PATH, run without a shell; empty on failure. The last argument is NULL.
std::string output_of(std::initializer_list<const char *> arguments) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  char *no_environment[] = {nullptr};
  const auto list = const_cast<char *const *>(arguments.begin());
  const int failed = posix_spawnp(&child, list[0], &actions, nullptr, list, no_environment);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char part[1024];
  for (ssize_t bytes; !failed && ((bytes = read(ends[0], part, sizeof part)) > 0 || (bytes < 0 && errno == EINTR));) {
    if (bytes > 0) text.append(part, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  while (!failed && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  return text;
}

// Whether a place is in a header of the emulator or of the C++ library.
bool is_header(const std::string &place) {
  return place.compare(0, 5, "/usr/") == 0 || place.find("cuda/emulator/") != std::string::npos ||
         place.find("/include/c++/") != std::string::npos;
}

// "file:line" of the call before an address, from the module's debug information; empty without information.
std::string line_of(const gpt2_module &module, const void *caller) {
  const auto offset = reinterpret_cast<uintptr_t>(caller) - reinterpret_cast<uintptr_t>(module.base) - 1;
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(offset));
  std::istringstream lines(output_of({"addr2line", "-i", "-e", module.path.c_str(), address, nullptr}));
  std::string innermost;
  // The output has the line, then the lines that the function was inlined into; the caller of a header counts.
  for (std::string line; std::getline(lines, line);) {
    // "kernel.cu:12 (discriminator 2)"
    std::string place = line.substr(0, line.find(' ', line.rfind(':')));
    if (place.compare(0, 2, "./") == 0) place.erase(0, 2);
    if (place.find('?') != std::string::npos) break;
    if (!is_header(place)) return place;
    if (innermost.empty()) innermost = place;
  }
  return innermost;
}

// The text of the line, to be shown below a message.
std::string quoted(const std::string &place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return "";
  std::ifstream file(place.substr(0, colon));
  std::string text;
  for (int line = std::atoi(place.c_str() + colon + 1); line > 0; line--) {
    if (!std::getline(file, text)) return "";
  }
  return "\n  " + place + ": " + text.substr(std::min(text.size(), text.find_first_not_of(" \t")));
}

std::string message(const gpt2_module &module, const gpt2_emulator::Kernel &kernel, const emulator::Failure &failure) {
  const bool is_known = !failure.file.empty() && !is_header(failure.file);
  const std::string place = is_known ? failure.file + ":" + std::to_string(failure.line) : line_of(module, failure.caller);
  std::string text = std::string(kernel.name) + ": " + failure.text;
  std::string lines = quoted(place);
  if (!place.empty()) text += " at " + place;
  if (!failure.other) return text + lines;
  const std::string other = line_of(module, failure.other);
  return text + " (the other is at " + other + ")" + lines + (other == place ? "" : quoted(other));
}

// The pointers among the arguments, with the bytes that may be accessed from each.
std::vector<emulator::Reach> reaches_of(const gpt2_emulator::Kernel &kernel, const char *arguments, const int64_t *reach) {
  std::vector<emulator::Reach> reaches;
  for (int i = 0; i < kernel.parameter_count; i++) {
    const gpt2_emulator::Parameter &parameter = kernel.parameters[i];
    uintptr_t begin = 0;
    if (parameter.element_bytes == 0 || reach[i] <= 0) continue;
    std::memcpy(&begin, arguments + parameter.offset, sizeof begin);
    reaches.push_back({begin, reach[i], i, parameter.element_bytes});
  }
  return reaches;
}

struct Running {
  explicit Running(const char *name) { gpt2::running_kernel = name; }
  ~Running() { gpt2::running_kernel = nullptr; }
};

emulator::Block &own_block() {
  // Kept with its stacks for the next launch.
  static thread_local emulator::Block block;
  return block;
}

}  // namespace

int gpt2_module_load(gpt2_context *context, gpt2_module **module, const void *path, int64_t bytes) try {
  Check check(context, __func__);
  check.sizes({{"bytes", bytes}}).handles({{"a place for the module", module}, {"path", path}});
  if (check.failed()) return check.status();
  auto made = std::make_unique<gpt2_module>();
  made->path.assign(static_cast<const char *>(path), static_cast<size_t>(bytes));
  made->handle = dlopen(made->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Table = const gpt2_emulator::Module *(*)(const gpt2_emulator::Host *);
  const auto table = made->handle ? reinterpret_cast<Table>(dlsym(made->handle, "gpt2_emulated_module")) : nullptr;
  if (!table) {
    const char *why = made->handle ? "it lacks the table of kernels" : dlerror();
    return fail(context, GPT2_INVALID_ARGUMENT, __func__,
                made->path + " is not a file of kernels compiled for a CPU: " + why + "; compile them for it");
  }
  made->table = table(&emulator::host);
  if (made->table->version != gpt2_emulator::interface_version) {
    return fail(context, GPT2_INVALID_ARGUMENT, __func__,
                made->path + " was compiled for another version of this library; compile it again");
  }
  Dl_info info{};
  dladdr(reinterpret_cast<void *>(table), &info);
  made->base = info.dli_fbase;
  if (made->table->has_checks) {
    made->variables = emulator::variables_of(made->path, reinterpret_cast<uintptr_t>(made->base));
  }
  for (int i = 0; i < made->table->kernel_count; i++) {
    made->description += (i > 0 ? "," : "[") + describe(made->table->kernels[i]);
  }
  made->description += made->table->kernel_count > 0 ? "]" : "[]";
  *module = made.release();
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_module_free(gpt2_context *context, gpt2_module *module) {
  Check check(context, __func__);
  if (check.handles({{"module", module}}).failed()) return check.status();
  delete module;
  return GPT2_OK;
}

const char *gpt2_module_description(gpt2_module *module) { return module->description.c_str(); }

int gpt2_module_launch(gpt2_context *context, gpt2_module *module, int32_t kernel, int32_t grid_x, int32_t grid_y,
                       int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z, int32_t shared_bytes,
                       const void *arguments, int64_t bytes, const int64_t *reach, int64_t parameters) try {
  Check check(context, __func__);
  check.handles({{"module", module}, {"arguments", arguments}, {"reach", reach}})
      .sizes({{"grid_x", grid_x}, {"grid_y", grid_y}, {"grid_z", grid_z}})
      .sizes({{"block_x", block_x}, {"block_y", block_y}, {"block_z", block_z}})
      .that(bytes >= 0 && shared_bytes >= 0, "bytes and shared_bytes of at least 0");
  if (check.failed()) return check.status();
  const int64_t threads = int64_t{block_x} * block_y * block_z, blocks = int64_t{grid_x} * grid_y * grid_z;
  check.that(kernel >= 0 && kernel < module->table->kernel_count, "a kernel of the module, got " + std::to_string(kernel))
      .that(shared_bytes <= shared_limit, "at most 232448 bytes of shared memory, got " + std::to_string(shared_bytes))
      .that(blocks <= INT32_MAX, "fewer blocks on a CPU than 2^31, got " + std::to_string(blocks));
  if (check.failed()) return check.status();
  const gpt2_emulator::Kernel &wanted = module->table->kernels[kernel];
  check.that(parameters == wanted.parameter_count, "a reach for each parameter")
      .that(threads <= wanted.threads,
            "at most " + std::to_string(wanted.threads) + " threads in a block, got " + std::to_string(threads));
  if (check.failed()) return check.status();

  emulator::Launch launch;
  launch.module = module->table;
  launch.kernel = &wanted;
  launch.arguments = static_cast<const char *>(arguments);
  launch.blocks = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), static_cast<unsigned>(grid_z)};
  launch.threads = {static_cast<unsigned>(block_x), static_cast<unsigned>(block_y), static_cast<unsigned>(block_z)};
  launch.dynamic_shared = static_cast<size_t>(shared_bytes);
  const Running running(wanted.name);
  emulator::Failure failure;
  bool has_failed = false;
  if (module->table->has_checks) {
    emulator::Memory memory(wanted, reaches_of(wanted, launch.arguments, reach), module->variables, module->base,
                            module->heap);
    launch.memory = &memory;
    launch.is_same_line = [&](const void *a, const void *b) {
      const auto [known, is_new] = module->same_lines.try_emplace({a, b}, false);
      if (is_new) known->second = line_of(*module, a) == line_of(*module, b);
      return known->second;
    };
    emulator::Block &block = own_block();
    for (int64_t index = 0; index < blocks && !has_failed; index++) {
      has_failed = !block.run(launch, static_cast<unsigned>(index));
    }
    if (has_failed) failure = block.failure;
    for (const emulator::Fault &warning : memory.warnings) {
      const std::string text = message(*module, wanted, {warning.text, warning.caller, warning.other, "", 0});
      if (module->warnings.insert(text).second) std::fprintf(stderr, "warning: %s\n", text.c_str());
    }
  } else {
    std::mutex mutex;
    std::atomic<bool> stops{false};
    cpu(*context).pool->each_free(blocks, [&](int64_t index, int) {
      if (stops.load(std::memory_order_relaxed)) return;
      emulator::Block &block = own_block();
      if (block.run(launch, static_cast<unsigned>(index))) return;
      const std::lock_guard<std::mutex> lock(mutex);
      stops = true;
      if (!has_failed) failure = block.failure;
      has_failed = true;
    });
  }
  return has_failed ? fail(context, GPT2_DEVICE_ERROR, __func__, message(*module, wanted, failure)) : GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}
