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
#include <new>
#include <vector>

#include "../emulator/interface.h"
#include "../runtime/checks.h"
#include "context.h"
#include "machine.h"

using gpt2::Check;
using gpt2::CpuContext;
using gpt2::fail;

using Clock = std::chrono::steady_clock;

struct gpt2_event {
  Clock::time_point time;
};

namespace {

struct CodePath {
  const char *name;
  const gpt2::Kernels *kernels;
  const gpt2::Engine *bf16;
  std::string lacks;  // what it would need; empty if it can run
};

// A path without a separate engine.
CodePath path_of(const char *name, const gpt2::Kernels &kernels, bool supported) {
  return {name, &kernels, kernels.bf16, supported ? "" : "this CPU lacks its instructions"};
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
  paths.push_back({"amx", &gpt2::avx512::kernels, &gpt2::amx::bf16_engine, amx_lacks()});
#elif defined(__x86_64__)
  paths.push_back({"amx", nullptr, nullptr, "this build lacks it"});
#endif
#ifdef GPT2_HAS_avx512
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  paths.push_back(path_of("avx512", gpt2::avx512::kernels, has_avx512));
#endif
#ifdef GPT2_HAS_avx2
  paths.push_back(
      path_of("avx2", gpt2::avx2::kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
#endif
#ifdef GPT2_HAS_neon
  // Every such CPU has NEON.
  paths.push_back(path_of("neon", gpt2::neon::kernels, true));
#endif
#ifdef GPT2_HAS_portable
  paths.push_back(path_of("portable", gpt2::portable::kernels, true));
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
  return "{\"library\":\"cpu\",\"device\":\"" + gpt2::cpu_name() + "\",\"codePath\":\"" + path.name +
         "\",\"faster\":\"" + faster + "\",\"threads\":" + std::to_string(threads) +
         ",\"canCapture\":false,\"dtypes\":[\"fp32\",\"bf16\",\"fp8\"]}";
}

int open_context(CpuContext *context, const char *function, int32_t device, int32_t dtype, int32_t threads) {
  if (device != 0) {
    return fail(context, GPT2_INVALID_ARGUMENT, function, "expected device 0, got " + std::to_string(device));
  }
  if (dtype != GPT2_FP32 && dtype != GPT2_BF16 && dtype != GPT2_FP8) {
    const std::string name = dtype == GPT2_TF32 ? "tf32" : std::to_string(dtype);
    return fail(context, GPT2_UNSUPPORTED, function, "the CPU library has no " + name + ", only fp32, bf16 and fp8");
  }
  if (threads < 0) {
    return fail(context, GPT2_INVALID_ARGUMENT, function,
                "expected threads of at least 0, got " + std::to_string(threads));
  }
  std::string why;
  const CodePath path = choose_path(why);
  if (!path.kernels) return fail(context, GPT2_UNSUPPORTED, function, why);
  context->pool.reset(new (std::nothrow) gpt2::ThreadPool(threads > 0 ? threads : gpt2::processor_count()));
  if (!context->pool) return fail(context, GPT2_OUT_OF_MEMORY, function, "cannot allocate its threads");
  context->kernels = path.kernels;
  context->engine = dtype == GPT2_BF16 ? path.bf16 : path.kernels->fp32;
  context->description = describe(path, why, context->pool->threads());
  return GPT2_OK;
}

constexpr size_t alignment = 64, huge_page = 2 << 20;

int allocate(gpt2_context *context, const char *function, void **memory, int64_t bytes) {
  Check check(context, function);
  check.sizes({{"bytes", bytes}}).tensors({{"memory", memory}});
  if (check.failed()) return check.status();
  const size_t rounded = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
  size_t boundary = 2 * alignment, start = 0;
#ifdef MADV_HUGEPAGE
  // In pages of 2 MiB AdamW's pass over all parameters takes 64 ms instead of 73, a norm 16 instead of 23 (d12, 2
  // cores). Arrays start at different places of their pages: four that start at the same place pass a Xeon's memory at
  // 25 GB/s instead of 40.
  if (rounded >= huge_page) {
    boundary = huge_page;
    start = alignment + 1024 * (gpt2::cpu(*context).large_allocations++ % 8);
  }
#endif
  void *first = nullptr;
  if (posix_memalign(&first, boundary, start + rounded) != 0)
    return fail(context, GPT2_OUT_OF_MEMORY, function, "cannot allocate " + std::to_string(bytes) + " bytes");
#ifdef MADV_HUGEPAGE
  if (boundary == huge_page) madvise(first, start + rounded, MADV_HUGEPAGE);
#endif
  *memory = static_cast<char *>(first) + start;
  std::memset(*memory, 0, rounded);
  gpt2_emulator::insert(*memory, rounded, gpt2_emulator::Kind::tensor, 0, "");
  return GPT2_OK;
}

int release(void *memory) {
  gpt2_emulator::erase(memory);
  // Only memory in pages of 2 MiB starts at an odd multiple of the alignment.
  auto address = reinterpret_cast<uintptr_t>(memory);
  if (address % (2 * alignment) == alignment) address -= address % huge_page;
  std::free(reinterpret_cast<void *>(address));
  return GPT2_OK;
}

int copy(gpt2_context *context, const char *function, void *destination, const void *source, int64_t bytes) {
  Check check(context, function);
  check.that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes));
  if (bytes > 0) check.tensors({{"destination", destination}, {"source", source}});
  if (check.failed()) return check.status();
  if (bytes > 0) std::memmove(destination, source, static_cast<size_t>(bytes));
  return GPT2_OK;
}

int cannot_capture(gpt2_context *context, const char *function) {
  return fail(context, GPT2_UNSUPPORTED, function, "the CPU library cannot record a step; enqueue its ops instead");
}

}  // namespace

int gpt2_context_create(gpt2_context **context, int32_t device, int32_t dtype, int32_t threads, int32_t) {
  if (!context) return GPT2_INVALID_ARGUMENT;
  auto *opened = new (std::nothrow) CpuContext;
  *context = opened;
  if (!opened) return GPT2_OUT_OF_MEMORY;
  return open_context(opened, __func__, device, dtype, threads);
}

int gpt2_context_destroy(gpt2_context *context) {
  delete context;
  return GPT2_OK;
}

int gpt2_allocate(gpt2_context *context, void **memory, int64_t bytes) {
  return allocate(context, __func__, memory, bytes);
}

int gpt2_free(gpt2_context *, void *memory) { return release(memory); }

int gpt2_allocate_pinned(gpt2_context *context, void **memory, int64_t bytes) {
  return allocate(context, __func__, memory, bytes);
}

int gpt2_free_pinned(gpt2_context *, void *memory) { return release(memory); }

int gpt2_memory_info(gpt2_context *context, int64_t *available, int64_t *total) {
  GPT2_CHECK(context, tensors({{"available", available}, {"total", total}}));
  *total = gpt2::total_memory();
  *available = gpt2::available_memory();
  if (*available < 0) *available = *total;
  return GPT2_OK;
}

int gpt2_copy_to_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes);
}
int gpt2_copy_to_host(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes);
}
int gpt2_copy_to_device_async(gpt2_context *context, void *destination, const void *pinned, int64_t bytes) {
  return copy(context, __func__, destination, pinned, bytes);
}
int gpt2_copy_to_host_async(gpt2_context *context, void *pinned, const void *source, int64_t bytes) {
  return copy(context, __func__, pinned, source, bytes);
}
int gpt2_copy_on_device(gpt2_context *context, void *destination, const void *source, int64_t bytes) {
  return copy(context, __func__, destination, source, bytes);
}

int gpt2_fill_zero(gpt2_context *context, void *destination, int64_t bytes) {
  GPT2_CHECK(context, sizes({{"bytes", bytes}}).tensors({{"destination", destination}}));
  std::memset(destination, 0, static_cast<size_t>(bytes));
  return GPT2_OK;
}

int gpt2_cast_weights(gpt2_context *context, void *weight, const float *master, int64_t count) {
  GPT2_CHECK(context, sizes({{"count", count}}).tensors({{"weight", weight}, {"master", master}}));
  return weight == master ? GPT2_OK
                          : copy(context, __func__, weight, master, count * static_cast<int64_t>(sizeof(float)));
}

int gpt2_event_create(gpt2_context *context, gpt2_event **event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  *event = new (std::nothrow) gpt2_event{Clock::now()};
  return *event ? GPT2_OK : fail(context, GPT2_OUT_OF_MEMORY, __func__, "cannot allocate an event");
}

int gpt2_event_destroy(gpt2_context *, gpt2_event *event) {
  delete event;
  return GPT2_OK;
}

int gpt2_event_record(gpt2_context *context, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"event", event}}));
  event->time = Clock::now();
  return GPT2_OK;
}

int gpt2_event_query(gpt2_context *context, int32_t *reached, gpt2_event *event) {
  GPT2_CHECK(context, handles({{"reached", reached}, {"event", event}}));
  *reached = 1;
  return GPT2_OK;
}

int gpt2_event_elapsed(gpt2_context *context, float *milliseconds, gpt2_event *from, gpt2_event *to) {
  GPT2_CHECK(context, handles({{"milliseconds", milliseconds}, {"from", from}, {"to", to}}));
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return GPT2_OK;
}

int gpt2_event_wait(gpt2_context *, gpt2_event *) { return GPT2_OK; }

int gpt2_capture_begin(gpt2_context *context) { return cannot_capture(context, __func__); }
int gpt2_capture_end(gpt2_context *context, gpt2_graph **) { return cannot_capture(context, __func__); }
int gpt2_graph_launch(gpt2_context *context, gpt2_graph *) { return cannot_capture(context, __func__); }
int gpt2_graph_destroy(gpt2_context *context, gpt2_graph *) { return cannot_capture(context, __func__); }
