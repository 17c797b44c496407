// CUDA's runtime API (emulator/include/cuda_runtime.h) for programs on a CPU: memory, errors, events, the model GPU, and the
// checks of a launch's shape.
#define GPT2_PROGRAM
#include "../../emulator/include/cuda_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace gpt2_emulator {

namespace {

const cudaDeviceProp model;

struct State {
  cudaError_t last = cudaSuccess, sticky = cudaSuccess;
  // The most dynamic shared memory that the program has asked for, for any kernel.
  size_t dynamic_shared = model.sharedMemPerBlock;
  // The launch whose error nobody has read.
  const void *unread = nullptr;
  std::vector<Registered> kernels;
  std::set<std::string> names;
};

// Never destroyed, because destructors of the program may call the API.
State &state() {
  static State *state = new State;
  return *state;
}

// Runs after everything that the program does at its exit.
void ended(int code, void *) {
  if (const void *launch = state().unread) {
    report(("the launch failed (" + std::string(cudaGetErrorString(state().last)) +
            "), and the program did not ask: call cudaGetLastError after a launch").c_str(), launch);
  }
  std::fflush(nullptr);
  finish();
  if (code == 0 && defects() > 0) _exit(3);
}
__attribute__((constructor(101))) void begin() {
  on_exit(ended, nullptr);
  enter_variables();
  // `kernel run` says its options here.
  const char *options = std::getenv("GPT2_EMULATOR");
  const auto has = [&](const char *option) { return options && std::strstr(options, option); };
  if (has("all")) settings.checks = Checks::all;
  if (has("none")) settings.checks = Checks::none;
  settings.every_launch = has("every-launch");
}

bool is_sticky(cudaError_t error) { return error >= 700 && error < 720 && error != cudaErrorLaunchOutOfResources; }

}  // namespace

cudaError_t result(cudaError_t error) {
  State &now = state();
  if (now.sticky != cudaSuccess) return now.sticky;
  if (is_sticky(error)) now.sticky = error;
  if (error != cudaSuccess) now.last = error;
  return error;
}

namespace {

cudaError_t refuse(const std::string &text, cudaError_t error, const void *caller) {
  report(text.c_str(), caller);
  return result(error);
}

std::string bytes_text(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

// Whether the bytes can be copied or set; a defect is reported otherwise. `on_device`: where the call says that they are.
// A variable may be the host's or the device's.
bool is_usable(const void *memory, size_t bytes, const char *what, bool on_device, const void *caller) {
  const Allocation *found = find(memory);
  std::string text;
  if (on_device && !found) {
    text = " memory of the host, but the call says that it is the device's";
  } else if (!on_device && found && found->kind == Kind::device) {
    text = " memory of the device, but the call says that it is the host's";
  } else if (found && !found->is_live) {
    text = " memory that was freed";
  } else if (found && bytes > found->begin + found->bytes - reinterpret_cast<uintptr_t>(memory)) {
    const size_t offset = reinterpret_cast<uintptr_t>(memory) - found->begin;
    text = " " + bytes_text(bytes) + (offset > 0 ? " from byte " + std::to_string(offset) + " on" : "") +
           " of an allocation of " + bytes_text(found->bytes);
  }
  if (text.empty()) return true;
  report((what + text).c_str(), caller);
  return false;
}

cudaError_t copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                 const void *caller) {
  if (state().sticky != cudaSuccess) return state().sticky;
  if (width == 0 || height == 0) return cudaSuccess;
  if (kind < 0 || kind > cudaMemcpyDefault) return result(cudaErrorInvalidMemcpyDirection);
  if (!to || !from || width > to_pitch || width > from_pitch) return result(cudaErrorInvalidValue);
  const auto is_device = [](const void *memory) {
    const Allocation *found = find(memory);
    return found && (found->kind == Kind::device || found->kind == Kind::managed);
  };
  const bool known = kind != cudaMemcpyDefault;
  const bool to_device = known ? kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice : is_device(to);
  const bool from_device = known ? kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice : is_device(from);
  const size_t to_bytes = (height - 1) * to_pitch + width, from_bytes = (height - 1) * from_pitch + width;
  if (!is_usable(to, to_bytes, "copies to", to_device, caller) || !is_usable(from, from_bytes, "copies from", from_device, caller)) {
    return result(cudaErrorInvalidValue);
  }
  for (size_t row = 0; row < height; row++) {
    const char *source = static_cast<const char *>(from) + row * from_pitch;
    char *target = static_cast<char *>(to) + row * to_pitch;
    const void *first = nullptr;
    if (from_device && !to_device && !is_written(source, width, &first)) {
      const std::string at = std::to_string(static_cast<const char *>(first) - static_cast<const char *>(from));
      report(("copies memory of the device that nobody has written, from byte " + at + " on").c_str(), caller, true);
    }
    std::memmove(target, source, width);
    if (find(target)) written(target, width);
  }
  return cudaSuccess;
}

cudaError_t set(void *to, size_t pitch, int value, size_t width, size_t height, const void *caller) {
  if (state().sticky != cudaSuccess) return state().sticky;
  if (width == 0 || height == 0) return cudaSuccess;
  if (!to || width > pitch) return result(cudaErrorInvalidValue);
  if (!is_usable(to, (height - 1) * pitch + width, "sets", true, caller)) return result(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; row++) {
    std::memset(static_cast<char *>(to) + row * pitch, value, width);
    written(static_cast<char *>(to) + row * pitch, width);
  }
  return cudaSuccess;
}

cudaError_t freed(void *memory, bool is_pinned, const void *caller) {
  const Allocation *found = memory ? find(memory) : nullptr;
  if (found && found->is_live && (found->kind == Kind::pinned) != is_pinned) {
    return refuse(is_pinned ? "frees memory of the device by cudaFreeHost" : "frees memory of cudaMallocHost by cudaFree",
                  cudaErrorInvalidValue, caller);
  }
  return result(!memory || release(memory, caller) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace

cudaError_t allocate(void **memory, size_t bytes, Kind kind, int element_bytes, const char *text) {
  if (!memory) return result(cudaErrorInvalidValue);
  *memory = nullptr;
  if (bytes == 0) return result(kind == Kind::managed ? cudaErrorInvalidValue : cudaSuccess);
  // "(void **)&self->values" is "values". Names stay until the program ends.
  std::string name = text;
  while (!name.empty() && !std::isalnum(name.back()) && name.back() != '_') name.pop_back();
  name.erase(0, name.find_last_of(" \t&*()>.:") + 1);
  *memory = allocate(bytes, kind, element_bytes, state().names.insert(name).first->c_str(), GPT2_CALLER);
  return result(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

int resident_blocks(int threads, size_t shared) {
  if (threads < 1 || threads > model.maxThreadsPerBlock) return 0;
  const int warps = (threads + 31) / 32;
  const size_t bytes = shared + model.reservedSharedMemPerBlock;
  return std::min({model.maxThreadsPerMultiProcessor / 32 / warps, model.maxBlocksPerMultiProcessor,
                   static_cast<int>(model.sharedMemPerMultiprocessor / bytes)});
}

cudaError_t set_attribute(cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > model.sharedMemPerBlockOptin) return result(cudaErrorInvalidValue);
  state().dynamic_shared = std::max(state().dynamic_shared, static_cast<size_t>(value));
  return cudaSuccess;
}

void attributes_of(cudaFuncAttributes *attributes) {
  *attributes = {};
  attributes->maxThreadsPerBlock = model.maxThreadsPerBlock;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = model.major * 10 + model.minor;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(state().dynamic_shared);
}

bool enlist(const Registered *kernels, int count) {
  state().kernels.insert(state().kernels.end(), kernels, kernels + count);
  return true;
}

const char *name_of(const void *function) {
  for (const Registered &kernel : state().kernels) {
    if (kernel.function == function) return kernel.name;
  }
  return "kernel";
}

cudaError_t launch_registered(const void *function, const Shape &shape, void **arguments) {
  for (const Registered &kernel : state().kernels) {
    if (kernel.function == function) return kernel.launch(function, shape, arguments);
  }
  return result(cudaErrorInvalidDeviceFunction);
}

cudaError_t start(const Launch &launch, const void *caller) {
  State &now = state();
  if (now.sticky != cudaSuccess) return now.sticky;
  const auto fits = [](const Sizes &sizes, const int *limits) {
    const auto is_size = [](unsigned size, int limit) { return size >= 1 && size <= static_cast<unsigned>(limit); };
    return is_size(sizes.x, limits[0]) && is_size(sizes.y, limits[1]) && is_size(sizes.z, limits[2]);
  };
  const uint64_t threads = uint64_t{launch.threads.x} * launch.threads.y * launch.threads.z;
  const uint64_t blocks = uint64_t{launch.blocks.x} * launch.blocks.y * launch.blocks.z;
  cudaError_t error = cudaSuccess;
  if (!fits(launch.blocks, model.maxGridSize) || !fits(launch.threads, model.maxThreadsDim) ||
      threads > static_cast<uint64_t>(model.maxThreadsPerBlock)) {
    error = cudaErrorInvalidConfiguration;
  } else if (launch.dynamic_shared > now.dynamic_shared) {
    error = cudaErrorInvalidValue;
  } else if (launch.is_cooperative &&
             blocks > uint64_t(model.multiProcessorCount) * resident_blocks(int(threads), launch.dynamic_shared)) {
    error = cudaErrorCooperativeLaunchTooLarge;
  }
  if (error != cudaSuccess) {
    now.unread = caller;
    return result(error);
  }
  switch (run(launch).outcome) {
    case Outcome::ok: return cudaSuccess;
    case Outcome::failed_assert: return result(cudaErrorAssert);
    case Outcome::bad_access: return result(cudaErrorIllegalAddress);
    default: return result(cudaErrorLaunchFailure);
  }
}

}  // namespace gpt2_emulator

using namespace gpt2_emulator;

const char *cudaGetErrorName(cudaError_t error) {
#define GPT2_ROW(name, code, text) \
  if (error == code) return "cuda" #name;
  GPT2_ERRORS(GPT2_ROW)
#undef GPT2_ROW
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
#define GPT2_ROW(name, code, text) \
  if (error == code) return text;
  GPT2_ERRORS(GPT2_ROW)
#undef GPT2_ROW
  return "unrecognized error code";
}

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
cudaError_t cudaDeviceReset() { return state().sticky; }

cudaError_t cudaSetDevice(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  return *properties = model, cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
#define GPT2_ROW(name, number, property) \
  if (attribute == number) return *value = static_cast<int>(model.property), cudaSuccess;
  GPT2_ATTRIBUTES(GPT2_ROW)
#undef GPT2_ROW
  return *value = 0, cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *free = *total = model.totalGlobalMem;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory) {
  const Allocation *found = find(memory);
  *attributes = {};
  if (!found) return cudaSuccess;
  attributes->type = found->kind == Kind::pinned ? cudaMemoryTypeHost : found->kind == Kind::managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void *>(memory);
  if (found->kind != Kind::device) attributes->hostPointer = attributes->devicePointer;
  return cudaSuccess;
}

cudaError_t cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + model.textureAlignment - 1) / model.textureAlignment * model.textureAlignment;
  return allocate(memory, *pitch * height, Kind::device, 0, "");
}
cudaError_t cudaFree(void *memory) { return freed(memory, false, GPT2_CALLER); }
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

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, GPT2_CALLER);
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, GPT2_CALLER);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return set(to, bytes, value, bytes, 1, GPT2_CALLER); }
cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
  return set(to, pitch, value, width, height, GPT2_CALLER);
}

// A stream is a name: its work is done when it is asked for.
struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool is_recorded = false;
};

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return *stream = new CUstream_st, result(cudaSuccess); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return state().sticky; }
cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = new CUevent_st, result(cudaSuccess); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return result(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (!event) return result(cudaErrorInvalidResourceHandle);
  *event = {std::chrono::steady_clock::now(), true};
  return state().sticky;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return state().sticky; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start || !end || !start->is_recorded || !end->is_recorded) return result(cudaErrorInvalidResourceHandle);
  // At least a GPU's unit, because programs divide by the time.
  *milliseconds = std::max(std::chrono::duration<float, std::milli>(end->time - start->time).count(), 0.0005f);
  return state().sticky;
}
