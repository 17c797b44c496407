// What runs on the GPU, written to a file: a library that the CUDA driver loads into a process where
// CUDA_INJECTION64_PATH names it. Of each kernel, copy and fill CUPTI hands over a record, which becomes a line of
// $GPT2_TIMELINE/rank-$RANK.tsv:
//   start ns, end ns, stream, node of its graph (0: none), blocks of its grid (0: no kernel), name
// and what went wrong one that begins with #. ../timeline.ts builds it, starts a run with it and reads the lines.
//
// Kernels inside a graph have records of their own as long as CUPTI_ACTIVITY_KIND_GRAPH_TRACE is off, which would put
// one record of the whole graph in their place.
#include <cupti.h>
#include <cxxabi.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// CUPTI hands over what is full: a process that ends by _exit loses less than a buffer, some 600 kernels.
constexpr size_t buffer_bytes = 128 << 10;
constexpr uint32_t flush_milliseconds = 100;

struct Recorder {
  std::mutex mutex;
  std::FILE *file = nullptr;
  std::unordered_map<std::string, std::string> names;
  // Records without times, which CUPTI gives where its memory on the device ran out, and those it dropped.
  size_t timeless = 0, dropped = 0;
};

// Never destroyed: CUPTI's thread may hand over a buffer while the process ends.
Recorder &recorder = *new Recorder;

// Opened by the first line, so that a process that opens CUDA and launches nothing leaves a rank's file alone. The
// recorder's mutex is held.
std::FILE *file() {
  if (!recorder.file) {
    const char *folder = std::getenv("GPT2_TIMELINE"), *rank = std::getenv("RANK");
    const std::string path = std::string(folder ? folder : ".") + "/rank-" + (rank ? rank : "0") + ".tsv";
    recorder.file = std::fopen(path.c_str(), "w");
    if (!recorder.file) std::perror(path.c_str());
  }
  return recorder.file ? recorder.file : stderr;
}

bool succeeded(CUptiResult result, const char *what) {
  if (result == CUPTI_SUCCESS) return true;
  const char *text = nullptr;
  cuptiGetResultString(result, &text);
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  std::fprintf(file(), "# %s: %s\n", what, text ? text : "unknown error");
  std::fflush(file());
  return false;
}

// "adamw" of _GLOBAL__N__33eb8ab7_8_adamw_cu_87b85ca6: nvcc calls anonymous namespaces by their file.
std::string source_of(const std::string &mangled) {
  const size_t at = mangled.find("_GLOBAL__N__");
  if (at == std::string::npos) return "";
  unsigned length = 0;
  int before = 0;
  std::sscanf(mangled.c_str() + at, "_GLOBAL__N__%*8[0-9a-f]_%u_%n", &length, &before);
  if (before == 0 || length <= 3) return "";
  return mangled.substr(at + before, length - 3);
}

// As it is in the source, with the file's name for an anonymous namespace: several files have a forward_kernel.
std::string demangle(const std::string &mangled) {
  char *const demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  std::string name = demangled ? demangled : mangled;
  std::free(demangled);
  const std::string source = source_of(mangled), anonymous = "(anonymous namespace)";
  for (size_t at; !source.empty() && (at = name.find(anonymous)) != std::string::npos;) {
    name.replace(at, anonymous.size(), source);
  }
  for (char &letter : name) {
    if (letter == '\t' || letter == '\n' || letter == '\r') letter = ' ';
  }
  return name;
}

const std::string &name_of(const char *mangled) {
  const auto [entry, is_new] = recorder.names.try_emplace(mangled ? mangled : "kernel");
  if (is_new) entry->second = demangle(entry->first);
  return entry->second;
}

void write_line(uint64_t start, uint64_t end, uint32_t stream, uint64_t node, int64_t blocks, const std::string &name) {
  if (start == 0 || end < start) {
    recorder.timeless++;
    return;
  }
  std::fprintf(file(), "%" PRIu64 "\t%" PRIu64 "\t%" PRIu32 "\t%" PRIu64 "\t%" PRId64 "\t%s\n", start, end, stream,
               node, blocks, name.c_str());
}

// The structs are those of CUDA 12, which the headers of 13 still have: later ones only add fields behind.
void write_record(const CUpti_Activity *record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto *own = reinterpret_cast<const CUpti_ActivityKernel9 *>(record);
      const int64_t blocks = int64_t{own->gridX} * own->gridY * own->gridZ;
      write_line(own->start, own->end, own->streamId, own->graphNodeId, blocks, name_of(own->name));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto *own = reinterpret_cast<const CUpti_ActivityMemcpy5 *>(record);
      write_line(own->start, own->end, own->streamId, own->graphNodeId, 0, "memcpy");
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto *own = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4 *>(record);
      write_line(own->start, own->end, own->streamId, own->graphNodeId, 0, "peer copy");
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto *own = reinterpret_cast<const CUpti_ActivityMemset4 *>(record);
      write_line(own->start, own->end, own->streamId, own->graphNodeId, 0, "memset");
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = static_cast<uint8_t *>(std::malloc(buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most_records = 0;  // As many as there is room for.
}

// Called by CUPTI's own thread, and by the one that flushes. What takes locks of CUPTI's comes before our own.
void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid_bytes) {
  std::vector<const CUpti_Activity *> records;
  CUpti_Activity *record = nullptr;
  while (valid_bytes > 0 && cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    records.push_back(record);
  }
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  for (const CUpti_Activity *each : records) write_record(each);
  recorder.dropped += dropped;
  if (recorder.file) std::fflush(recorder.file);
  std::free(buffer);
}

void finish() {
  succeeded(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  if (recorder.timeless > 0) std::fprintf(file(), "# %zu records came without times\n", recorder.timeless);
  if (recorder.dropped > 0) std::fprintf(file(), "# %zu records were dropped\n", recorder.dropped);
  if (recorder.file) std::fflush(recorder.file);
}

}  // namespace

// Called by the driver when it is initialised, before there is a context. It goes on whatever this returns; CUPTI's
// samples return 1.
extern "C" int InitializeInjection(void) {
  static bool is_recording = false;
  if (is_recording || !std::getenv("GPT2_TIMELINE")) return 1;
  is_recording = true;
  if (!succeeded(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks")) return 1;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET}) {
    succeeded(cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  succeeded(cuptiActivityFlushPeriod(flush_milliseconds), "cuptiActivityFlushPeriod");
  // Runs before what the driver and CUPTI have left to be done at the end: the last to ask is the first to be called.
  std::atexit(finish);
  return 1;
}
