// The runtime functions of gpt2.h on the CPU: context, memory, copies, events. Device memory is host memory, and every
// op is complete when it returns. Recording a step is not supported.
#ifdef __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef GPT2_HAS_amx
#include <cpuid.h>
#endif

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../emulator/interface.h"
#include "../runtime/checks.h"
#include "../runtime/ops.generated.h"
#include "machine.h"

using Clock = std::chrono::steady_clock;

struct gpt2_event {
  Clock::time_point time;
};

namespace gpt2 {

namespace {

constexpr size_t alignment = 64, huge_page = 2 << 20;

[[noreturn]] void cannot_capture() {
  throw Failure{GPT2_UNSUPPORTED, "the CPU library cannot record a step; enqueue its ops instead"};
}

struct CodePath {
  const char *name;
  const Kernels *kernels;
  const Engine *fp32, *bf16;
  std::string lacks;  // why the path cannot run here; empty if it can
};

// A code path that uses the engines of its table of kernels.
CodePath path_of(const char *name, const Kernels &kernels, bool supported) {
  return {name, &kernels, kernels.fp32, kernels.bf16, supported ? "" : "this CPU lacks its instructions"};
}

#ifdef GPT2_HAS_amx
// Linux grants the registers of AMX, 8 KiB a thread, on request: once for all threads of a process.
std::string amx_lacks() {
  constexpr int request_permission = 0x1023, tile_data = 18;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_bf16) || !(d & amx_tile)) return "this CPU has no AMX";
  if (syscall(SYS_arch_prctl, request_permission, tile_data) == 0) return "";
  return "the system refuses the registers of AMX (" + std::string(std::strerror(errno)) + ")";
}
#endif

// The CPU's fastest path, or the path that GPT2_KERNELS names. On failure `kernels` is NULL and `why` has the reason;
// else `why` says what a faster path lacks, or is empty.
CodePath choose_path(std::string &why) {
  std::vector<CodePath> paths;
#if defined(GPT2_HAS_amx)
  paths.push_back({"amx", &avx512::kernels, &amx::fp32_engine, &amx::bf16_engine, amx_lacks()});
#elif defined(__x86_64__)
  paths.push_back({"amx", nullptr, nullptr, nullptr, "this build lacks it"});
#endif
#ifdef GPT2_HAS_avx512
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  paths.push_back(path_of("avx512", avx512::kernels, has_avx512));
#endif
#ifdef GPT2_HAS_avx2
  paths.push_back(path_of("avx2", avx2::kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
#endif
#ifdef GPT2_HAS_neon
  // Every arm64 CPU has NEON.
  paths.push_back(path_of("neon", neon::kernels, true));
#endif
#ifdef GPT2_HAS_portable
  paths.push_back(path_of("portable", portable::kernels, true));
#endif
  const char *wanted = std::getenv("GPT2_KERNELS");
  const bool any = !wanted || !*wanted;
  std::string names, reason;
  for (const CodePath &path : paths) {
    const bool is_wanted = !any && std::strcmp(wanted, path.name) == 0;
    if (path.lacks.empty()) names += (names.empty() ? "" : ", ") + std::string(path.name);
    if (path.lacks.empty() && (any || is_wanted)) return path;
    if (any && why.empty()) why = std::string(path.name) + ": " + path.lacks;
    if (is_wanted) reason = ": " + path.lacks;
  }
  why = any ? "this build has no code path that this CPU can run"
            : "expected GPT2_KERNELS to be one of " + names + " on this CPU, got " + wanted + reason;
  return {};
}

std::string describe(const CodePath &path, const std::string &faster, int threads) {
  return "{\"library\":\"cpu\",\"device\":\"" + cpu_name() + "\",\"codePath\":\"" + path.name + "\",\"faster\":\"" +
         faster + "\",\"threads\":" + std::to_string(threads) +
         ",\"canCapture\":false,\"dtypes\":[\"fp32\",\"bf16\",\"fp8\"]}";
}

}  // namespace

void open_context(Context &context, int device, int dtype, int threads, bool) {
  check_that(device == 0, "device 0, got " + std::to_string(device));
  if (dtype != GPT2_FP32 && dtype != GPT2_BF16 && dtype != GPT2_FP8) {
    const std::string name = dtype == GPT2_TF32 ? "tf32" : std::to_string(dtype);
    throw Failure{GPT2_UNSUPPORTED, "the CPU library has no " + name + ", only fp32, bf16 and fp8"};
  }
  check_that(threads >= 0, "threads of at least 0, got " + std::to_string(threads));
  std::string why;
  const CodePath path = choose_path(why);
  if (!path.kernels) throw Failure{GPT2_UNSUPPORTED, why};
  context.pool = std::make_unique<ThreadPool>(threads > 0 ? threads : processor_count());
  context.kernels = path.kernels;
  context.engine = dtype == GPT2_BF16 ? path.bf16 : path.fp32;
  context.description = describe(path, why, context.pool->threads());
}

void runtime::allocate(Context &context, void **memory, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  const size_t rounded = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
  size_t boundary = 2 * alignment, start = 0;
#ifdef MADV_HUGEPAGE
  // In pages of 2 MiB AdamW's pass takes 64 ms instead of 73, a global norm 16 ms instead of 23 (d12, 2 cores). Arrays
  // start at different offsets in pages: with equal offsets a Xeon streams four arrays at 25 GB/s, not 40.
  if (rounded >= huge_page) {
    boundary = huge_page;
    start = alignment + 1024 * (context.large_allocations++ % 8);
  }
#endif
  void *first = nullptr;
  if (posix_memalign(&first, boundary, start + rounded) != 0)
    throw Failure{GPT2_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes"};
#ifdef MADV_HUGEPAGE
  if (boundary == huge_page) madvise(first, start + rounded, MADV_HUGEPAGE);
#endif
  *memory = static_cast<char *>(first) + start;
  std::memset(*memory, 0, rounded);
  gpt2_emulator::insert(*memory, rounded, gpt2_emulator::Kind::tensor, 0, "");
}

void runtime::free(Context &, void *memory) {
  gpt2_emulator::erase(memory);
  // An odd multiple of the alignment marks memory in pages of 2 MiB, which was allocated from its page's beginning.
  auto address = reinterpret_cast<uintptr_t>(memory);
  if (address % (2 * alignment) == alignment) address -= address % huge_page;
  std::free(reinterpret_cast<void *>(address));
}

void runtime::allocate_pinned(Context &context, void **memory, int64_t bytes) { allocate(context, memory, bytes); }
void runtime::free_pinned(Context &context, void *memory) { free(context, memory); }

void runtime::memory_info(Context &, int64_t *available, int64_t *total) {
  *total = total_memory();
  *available = available_memory();
  if (*available < 0) *available = *total;
}

void runtime::copy_on_device(Context &, void *destination, const void *source, int64_t bytes) {
  check_copy(destination, source, bytes);
  if (bytes > 0) std::memmove(destination, source, static_cast<size_t>(bytes));
}
void runtime::copy_to_device(Context &context, void *destination, const void *source, int64_t bytes) {
  copy_on_device(context, destination, source, bytes);
}
void runtime::copy_to_host(Context &context, void *destination, const void *source, int64_t bytes) {
  copy_on_device(context, destination, source, bytes);
}
void runtime::copy_to_device_async(Context &context, void *destination, const void *pinned, int64_t bytes) {
  copy_on_device(context, destination, pinned, bytes);
}
void runtime::copy_to_host_async(Context &context, void *pinned, const void *source, int64_t bytes) {
  copy_on_device(context, pinned, source, bytes);
}

void runtime::fill_zero(Context &, void *destination, int64_t bytes) {
  check_sizes({{"bytes", bytes}});
  check_tensors({{"destination", destination}});
  std::memset(destination, 0, static_cast<size_t>(bytes));
}

void runtime::cast_weights(Context &context, void *weight, const float *master, int64_t count) {
  check_sizes({{"count", count}});
  check_tensors({{"weight", weight}, {"master", master}});
  if (weight != master) copy_on_device(context, weight, master, count * static_cast<int64_t>(sizeof(float)));
}

void runtime::event_create(Context &, gpt2_event **event) { *event = new gpt2_event{Clock::now()}; }
void runtime::event_destroy(Context &, gpt2_event &event) { delete &event; }
void runtime::event_record(Context &, gpt2_event &event) { event.time = Clock::now(); }
void runtime::event_query(Context &, int32_t *reached, gpt2_event &) { *reached = 1; }
void runtime::event_elapsed(Context &, float *milliseconds, gpt2_event &from, gpt2_event &to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to.time - from.time).count();
}
void runtime::event_wait(Context &, gpt2_event &) {}

void runtime::capture_begin(Context &) { cannot_capture(); }
void runtime::capture_end(Context &, gpt2_graph **) { cannot_capture(); }
void runtime::graph_launch(Context &, gpt2_graph &) { cannot_capture(); }
void runtime::graph_destroy(Context &, gpt2_graph &) { cannot_capture(); }

}  // namespace gpt2
