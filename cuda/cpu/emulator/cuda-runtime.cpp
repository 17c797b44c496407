// CUDA's runtime API (emulator/include/cuda_runtime.h) for programs on a CPU: memory, errors, events, and checks of a launch's grid and
// block sizes against the limits of the emulated GPU.
#define GPT2_PROGRAM
#include "../../emulator/include/cuda_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "reports.h"

// A stream is only a handle, because work is done when it is enqueued.
struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool is_recorded = false;
};

namespace gpt2_emulator {

namespace {

const cudaDeviceProp model;

struct State {
  cudaError_t last = cudaSuccess, sticky = cudaSuccess;
  // Bytes: the most dynamic shared memory that cudaFuncSetAttribute has allowed for any kernel.
  size_t dynamic_shared = model.sharedMemPerBlock;
  // The code address of a refused launch whose error the program has not read, or NULL.
  const void *unread = nullptr;
  std::set<cudaStream_t> destroyed;  // not deleted, so that no new stream gets their addresses
  std::set<const void *> reset;      // memory that cudaDeviceReset freed
  std::set<uintptr_t> symbols;       // variables whose addresses the host has asked for
  std::set<std::string> names;
};

State &state() { return gpt2::emulator::only<State>(); }

// Runs after everything that the program does at its exit.
void ended(int code, void *) {
  const std::string error = cudaGetErrorString(state().last);
  const std::string text = "a launch failed (" + error + "), and the program did not check it: call cudaGetLastError after the launch";
  if (state().unread) report(text.c_str(), state().unread);
  finish();
  if (code == 0 && defects() > 0) _exit(3);
}

__attribute__((constructor(101))) void begin() {
  on_exit(ended, nullptr);
  enter_variables();
  // The commands `kernel run` and `kernel test` set this environment variable to their options.
  const char *options = std::getenv("GPT2_EMULATOR");
  const auto has = [&](const char *option) { return options && std::strstr(options, option); };
  settings.checks = has("all") ? Checks::all : has("none") ? Checks::none : Checks::sampled;
  settings.every_launch = has("every-launch");
  settings.counts = !has("quiet");
}

size_t free_bytes() { return model.totalGlobalMem - gpt2::emulator::table().device_bytes; }

std::string bytes_text(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

// Whether the bytes may be copied or set; otherwise reports a defect. `on_device`: the call treats them as device memory. A __device__
// variable is accepted either way, once the program has asked for its address. Device memory passed as host memory is reported, but
// still copied, as on GPUs (CUDA leaves the result undefined).
bool is_usable(const void *memory, size_t bytes, const char *what, bool on_device, const void *caller) {
  const Allocation *found = find(memory);
  std::string text = what;
  const size_t offset = found ? reinterpret_cast<uintptr_t>(memory) - found->begin : 0;
  if (on_device && (!found || found->kind == Kind::host)) {
    text += " memory of the host, but the call says that it is the device's";
  } else if (found && !found->is_live) {
    text += " memory that was freed";
  } else if (found && bytes > found->bytes - offset) {
    text += " " + bytes_text(bytes) + (offset > 0 ? " from byte " + std::to_string(offset) + " on" : "") + " of an allocation of " +
            bytes_text(found->bytes);
  } else if (found && found->kind != Kind::device && gpt2::emulator::closed_to_host(found->begin).bytes > 0 &&
             state().symbols.count(found->begin) == 0) {
    text += std::string(" ") + found->name + ", a variable of the device, by its address in host code: use " +
            "cudaMemcpyToSymbol, cudaMemcpyFromSymbol or cudaGetSymbolAddress";
  } else if (!on_device && found && found->kind == Kind::device) {
    report((text + " memory of the device, but the call says that it is the host's").c_str(), caller);
    return true;
  } else {
    return true;
  }
  report(text.c_str(), caller);
  return false;
}

bool is_stream(cudaStream_t stream, const std::string &use, const void *caller) {
  if (state().destroyed.count(stream) == 0) return true;
  report((use + " on a stream that was destroyed").c_str(), caller);
  return false;
}

cudaError_t copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                 cudaStream_t stream, const void *caller) {
  if (!is_stream(stream, "copies", caller)) return result(cudaErrorInvalidResourceHandle);
  const OpenMemory open_to(to, height * to_pitch), open_from(from, height * from_pitch);
  if (width == 0 || height == 0 || state().sticky != cudaSuccess) return state().sticky;
  if (kind < 0 || kind > cudaMemcpyDefault) return result(cudaErrorInvalidMemcpyDirection);
  if (!to || !from || width > to_pitch || width > from_pitch) return result(cudaErrorInvalidValue);
  const auto is_device = [&](const void *memory, int other) {
    const Allocation *found = find(memory);
    if (kind == cudaMemcpyDefault) return found && (found->kind == Kind::device || found->kind == Kind::managed);
    return kind == other || kind == cudaMemcpyDeviceToDevice;
  };
  const bool to_device = is_device(to, cudaMemcpyHostToDevice), from_device = is_device(from, cudaMemcpyDeviceToHost);
  if (!is_usable(to, (height - 1) * to_pitch + width, "copies to", to_device, caller) ||
      !is_usable(from, (height - 1) * from_pitch + width, "copies from", from_device, caller)) {
    return result(cudaErrorInvalidValue);
  }
  for (size_t row = 0; row < height; row++) {
    const char *source = static_cast<const char *>(from) + row * from_pitch;
    char *target = static_cast<char *>(to) + row * to_pitch;
    if (const void *first = from_device && !to_device ? first_unwritten(source, width) : nullptr) {
      const std::string at = std::to_string(static_cast<const char *>(first) - static_cast<const char *>(from));
      const std::string name = gpt2::emulator::described(*gpt2::emulator::table().find(reinterpret_cast<uintptr_t>(from)));
      report(("copies from " + name + ", which was never written (from byte " + at + " on)").c_str(), caller, true);
    }
    // Benchmarks copy the same bytes before every launch. Such a copy changes nothing, so repeated launches are still skipped.
    const bool is_changed = std::memcmp(target, source, width) != 0;
    if (is_changed) std::memmove(target, source, width);
    written(target, width, is_changed);
  }
  return cudaSuccess;
}

cudaError_t set(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream, const void *caller) {
  if (!is_stream(stream, "sets memory", caller)) return result(cudaErrorInvalidResourceHandle);
  const OpenMemory open(to, height * pitch);
  if (width == 0 || height == 0 || state().sticky != cudaSuccess) return state().sticky;
  if (!to || width > pitch) return result(cudaErrorInvalidValue);
  if (!is_usable(to, (height - 1) * pitch + width, "sets", true, caller)) return result(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; row++) {
    char *target = static_cast<char *>(to) + row * pitch;
    const bool is_changed = *target != static_cast<char>(value) || std::memcmp(target, target + 1, width - 1) != 0;
    if (is_changed) std::memset(target, value, width);
    written(target, width, is_changed);
  }
  return cudaSuccess;
}

cudaError_t freed(void *memory, bool is_pinned, const void *caller) {
  // cudaDeviceReset has freed this memory. Destructors that free it again are not reported.
  if (state().reset.count(memory) > 0) return result(cudaErrorInvalidValue);
  const Allocation *found = memory ? find(memory) : nullptr;
  if (found && found->is_live && (found->kind == Kind::pinned) != is_pinned) {
    report(is_pinned ? "frees memory of the device by cudaFreeHost" : "frees memory of cudaMallocHost by cudaFree", caller);
    return result(cudaErrorInvalidValue);
  }
  return result(!memory || release(memory, caller) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace

void *address_of(const volatile void *symbol) {
  state().symbols.insert(reinterpret_cast<uintptr_t>(symbol));
  return const_cast<void *>(symbol);
}

cudaError_t result(cudaError_t error) {
  State &now = state();
  if (now.sticky != cudaSuccess) return now.sticky;
  const bool stays = error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure && error != cudaErrorLaunchOutOfResources;
  if (stays) now.sticky = error;
  if (error != cudaSuccess) now.last = error;
  return error;
}

cudaError_t allocate(void **memory, size_t bytes, Kind kind, int element_bytes, const char *text) {
  if (!memory) return result(cudaErrorInvalidValue);
  *memory = nullptr;
  if (kind == Kind::device && bytes > free_bytes()) {
    // Only a warning: a larger GPU may have that much memory.
    report(("allocates " + bytes_text(bytes) + ", but " + bytes_text(free_bytes()) + " of the emulated GPU are free").c_str(), GPT2_CALLER,
           true);
    return result(cudaErrorMemoryAllocation);
  }
  if (bytes == 0) return result(kind == Kind::managed ? cudaErrorInvalidValue : cudaSuccess);
  // The name for reports is the last identifier: "values" of "(void **)&self->values". Names stay until the program ends.
  std::string name = text;
  while (!name.empty() && !std::isalnum(name.back()) && name.back() != '_') name.pop_back();
  name.erase(0, name.find_last_of(" \t&*()>.:") + 1);
  *memory = allocate(bytes, kind, element_bytes, state().names.insert(name).first->c_str(), GPT2_CALLER);
  return result(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

int resident_blocks(int threads, size_t shared) {
  if (threads < 1 || threads > model.maxThreadsPerBlock) return 0;
  const size_t bytes = shared + model.reservedSharedMemPerBlock;
  return std::min({model.maxThreadsPerMultiProcessor / 32 / ((threads + 31) / 32), model.maxBlocksPerMultiProcessor,
                   static_cast<int>(model.sharedMemPerMultiprocessor / bytes)});
}

cudaError_t set_attribute(cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > model.sharedMemPerBlockOptin) return result(cudaErrorInvalidValue);
  state().dynamic_shared = std::max(state().dynamic_shared, static_cast<size_t>(value));
  return cudaSuccess;
}

cudaFuncAttributes attributes() {
  const int version = model.major * 10 + model.minor, shared = static_cast<int>(state().dynamic_shared);
  return {0, 0, 0, model.maxThreadsPerBlock, 32, version, version, 0, shared, 0};
}

cudaError_t start(const Shape &shape, const void *caller) {
  const Launch &launch = shape.launch;
  State &now = state();
  if (now.sticky != cudaSuccess) return now.sticky;
  if (host->is_kernel()) {
    host->fail("launches a kernel, which a CPU does not emulate (dynamic parallelism): launch it from the host", nullptr, 0, caller,
               Outcome::stuck);
  }
  if (!is_stream(shape.stream, std::string("launches ") + launch.kernel, caller)) return result(cudaErrorInvalidResourceHandle);
  const auto fits = [](const Sizes &sizes, const int *limits) {
    const auto is_size = [](unsigned size, int limit) { return size >= 1 && size <= static_cast<unsigned>(limit); };
    return is_size(sizes.x, limits[0]) && is_size(sizes.y, limits[1]) && is_size(sizes.z, limits[2]);
  };
  const uint64_t threads = launch.threads.count(), blocks = launch.blocks.count();
  const auto text = [](const Sizes &of) { return std::to_string(of.x) + " x " + std::to_string(of.y) + " x " + std::to_string(of.z); };
  cudaError_t error = cudaSuccess;
  std::string why;
  if (!fits(launch.threads, model.maxThreadsDim) || threads > static_cast<uint64_t>(model.maxThreadsPerBlock)) {
    error = cudaErrorInvalidConfiguration;
    why = "blocks of " + text(launch.threads) + " threads: a block has 1 to " + std::to_string(model.maxThreadsPerBlock);
  } else if (!fits(launch.blocks, model.maxGridSize)) {
    error = cudaErrorInvalidConfiguration;
    why = "a grid of " + text(launch.blocks) + " blocks: each size is at least 1, the second and third at most " +
          std::to_string(model.maxGridSize[1]);
  } else if (launch.dynamic_shared > now.dynamic_shared) {
    error = cudaErrorInvalidValue;
    why = bytes_text(launch.dynamic_shared) + " of dynamic shared memory: more than " + std::to_string(now.dynamic_shared) +
          " need cudaFuncSetAttribute";
  } else if (launch.is_cooperative &&
             blocks > uint64_t(model.multiProcessorCount) * resident_blocks(static_cast<int>(threads), launch.dynamic_shared)) {
    error = cudaErrorCooperativeLaunchTooLarge;
    why = std::to_string(blocks) + " blocks that wait for each other: they do not run at one time";
  }
  if (error != cudaSuccess) {
    if (!shape.returns_error) now.unread = caller;
    report((std::string(launch.kernel) + " is not launched with " + why).c_str(), caller, true);
    return result(error);
  }
  switch (run(launch)) {
    case Outcome::ok: return cudaSuccess;
    case Outcome::failed_assert: return result(cudaErrorAssert);
    case Outcome::bad_access: return result(cudaErrorIllegalAddress);
    case Outcome::misaligned: return result(cudaErrorMisalignedAddress);
    default: return result(cudaErrorLaunchFailure);
  }
}

}  // namespace gpt2_emulator

using namespace gpt2_emulator;

// An error's name and text.
static std::pair<const char *, const char *> described(cudaError_t error) {
#define GPT2_ROW(name, code, text) \
  if (error == code) return {"cuda" #name, text};
  GPT2_ERRORS(GPT2_ROW)
#undef GPT2_ROW
  return {"unrecognized error code", "unrecognized error code"};
}
const char *cudaGetErrorName(cudaError_t error) { return described(error).first; }
const char *cudaGetErrorString(cudaError_t error) { return described(error).second; }

cudaError_t cudaPeekAtLastError() {
  state().unread = nullptr;
  return state().sticky != cudaSuccess ? state().sticky : state().last;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  state().last = cudaSuccess;
  return error;
}
cudaError_t cudaDeviceSynchronize() { return state().sticky; }

cudaError_t cudaDeviceReset() {
  std::vector<void *> made;
  for (const auto &[begin, region] : gpt2::emulator::table().live) {
    const bool is_made = region.is.kind == Kind::device || region.is.kind == Kind::managed;
    if (is_made && !region.heap) made.push_back(reinterpret_cast<void *>(begin));
  }
  state().reset.insert(made.begin(), made.end());
  for (void *each : made) release(each, nullptr);
  return state().sticky;
}
cudaError_t cudaSetDevice(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (device == 0) *properties = model;
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
#define GPT2_ROW(name, number, property) \
  if (attribute == number) *value = static_cast<int>(model.property);
  *value = 0;
  GPT2_ATTRIBUTES(GPT2_ROW)
  return cudaSetDevice(device);
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return *total = model.totalGlobalMem, *free = free_bytes(), cudaSuccess;
}
cudaError_t cudaFree(void *memory, cudaStream_t) { return freed(memory, false, GPT2_CALLER); }
cudaError_t cudaFreeHost(void *memory) { return freed(memory, true, GPT2_CALLER); }
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned) {
  if (!memory || bytes == 0) return result(cudaErrorInvalidValue);
  if (find(memory) && find(memory)->is_live) return result(cudaErrorHostMemoryAlreadyRegistered);
  insert(memory, bytes, Kind::pinned, 0, "");
  written(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory) {
  if (!find(memory) || !find(memory)->is_live) return result(cudaErrorHostMemoryNotRegistered);
  erase(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, stream, GPT2_CALLER);
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, stream, GPT2_CALLER);
}
cudaError_t cudaMemcpyPeer(void *to, int there, const void *from, int here, size_t bytes, cudaStream_t stream) {
  if (there != 0 || here != 0) return result(cudaErrorInvalidDevice);
  return copy(to, bytes, from, bytes, bytes, 1, cudaMemcpyDeviceToDevice, stream, GPT2_CALLER);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes, cudaStream_t stream) {
  return set(to, bytes, value, bytes, 1, stream, GPT2_CALLER);
}
cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return set(to, pitch, value, width, height, stream, GPT2_CALLER);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream, unsigned, int) { return *stream = new CUstream_st, result(cudaSuccess); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return result(stream && state().destroyed.insert(stream).second ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned) { return *event = new CUevent_st, result(cudaSuccess); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, result(event ? cudaSuccess : cudaErrorInvalidResourceHandle); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t, unsigned) {
  if (!event) return result(cudaErrorInvalidResourceHandle);
  *event = {std::chrono::steady_clock::now(), true};
  return state().sticky;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start || !end || !start->is_recorded || !end->is_recorded) return result(cudaErrorInvalidResourceHandle);
  // At least 0.5 us, the resolution of a GPU's events, because programs divide by the time.
  *milliseconds = std::max(std::chrono::duration<float, std::milli>(end->time - start->time).count(), 0.0005f);
  return state().sticky;
}
