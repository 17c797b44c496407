// Records what runs on the GPU: a library that the CUDA driver loads into a process if CUDA_INJECTION64_PATH names it. CUPTI
// gives a record of each kernel, copy and fill, which becomes a line of $GPT2_TIMELINE/rank-$RANK.tsv:
//   start ns, end ns, stream, node of its graph (0: none), blocks of its grid (0: no kernel), name
// Errors are lines that begin with #. ../timeline.ts builds it, starts a run with it and reads the lines.
//
// Kernels inside a graph have records while CUPTI_ACTIVITY_KIND_GRAPH_TRACE is off; it would give one record of the whole graph.
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

// CUPTI passes full buffers: a process that ends by _exit loses less than one, some 600 kernels.
constexpr size_t buffer_bytes = 128 << 10;
constexpr uint32_t flush_milliseconds = 100;

struct Recorder {
  std::mutex mutex;
  std::FILE *file = nullptr;
  std::unordered_map<std::string, std::string> names;
  // Records without times, which CUPTI gives when its device memory runs out, and dropped records.
  size_t timeless = 0, dropped = 0;
};

// Never destroyed: CUPTI's thread may pass a buffer while the process ends.
Recorder &recorder = *new Recorder;

// Opened by the first line, so that a process that launches nothing does not overwrite a rank's file. The caller holds the
// recorder's mutex.
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

// Returns "adamw" for _GLOBAL__N__33eb8ab7_8_adamw_cu_87b85ca6: nvcc names anonymous namespaces by their file.
std::string source_of(const std::string &mangled) {
  const size_t at = mangled.find("_GLOBAL__N__");
  if (at == std::string::npos) return "";
  unsigned length = 0;
  int before = 0;
  std::sscanf(mangled.c_str() + at, "_GLOBAL__N__%*8[0-9a-f]_%u_%n", &length, &before);
  if (before == 0 || length <= 3) return "";
  return mangled.substr(at + before, length - 3);
}

// Returns the name in the source, with the file's name for an anonymous namespace: several files have a forward_kernel.
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

// The structs are those of CUDA 12, which CUDA 13 still has: later ones only append fields.
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

// Called by CUPTI's thread and by the one that flushes. Calls that take CUPTI's locks come before ours.
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

// The driver calls this when it is initialised, before a context exists, and ignores the result; CUPTI's samples return 1.
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
  // Registered last, so it runs before the exit handlers of the driver and CUPTI.
  std::atexit(finish);
  return 1;
}
