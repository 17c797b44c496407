// Records what runs on the GPU: a library that the CUDA driver loads into a process if CUDA_INJECTION64_PATH names it (timeline.ts).
// Each kernel, copy and fill is a line of $GPT2_TIMELINE/rank-$RANK.tsv: start ns, end ns, stream, name. Errors begin with #.
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

// CUPTI passes a buffer when it is full: a process that ends by _exit loses the records of less than one buffer, some 600 kernels.
constexpr size_t buffer_bytes = 128 << 10;
constexpr uint32_t flush_milliseconds = 100;

struct Recorder {
  std::mutex mutex;
  std::FILE *file = nullptr;
  std::unordered_map<std::string, std::string> names;
  // Dropped records, and records without times, which CUPTI gives when its device memory runs out.
  size_t lost = 0;
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

void check(CUptiResult result, const char *what) {
  if (result == CUPTI_SUCCESS) return;
  const char *text = nullptr;
  cuptiGetResultString(result, &text);
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  std::fprintf(file(), "# %s: %s\n", what, text ? text : "unknown error");
  std::fflush(file());
}

// Returns the name in the source. nvcc names an anonymous namespace by its file (_GLOBAL__N__33eb8ab7_8_adamw_cu_87b85ca6), which
// the demangler hides; several files have a forward_kernel, so the file's name takes the place of "(anonymous namespace)".
std::string demangle(const std::string &mangled) {
  char *const demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  std::string name = demangled ? demangled : mangled;
  std::free(demangled);
  const std::string prefix = "_GLOBAL__N__", anonymous = "(anonymous namespace)";
  unsigned length = 0;
  int before = 0;
  const size_t at = mangled.find(prefix);
  if (at == std::string::npos) return name;
  std::sscanf(mangled.c_str() + at, "_GLOBAL__N__%*8[0-9a-f]_%u_%n", &length, &before);
  if (before == 0 || length <= 3) return name;
  const std::string source = mangled.substr(at + before, length - 3);
  for (size_t found; (found = name.find(anonymous)) != std::string::npos;) name.replace(found, anonymous.size(), source);
  return name;
}

// The caller holds the recorder's mutex.
template <typename Record> void write_line(const CUpti_Activity *activity, const char *mangled) {
  const auto *record = reinterpret_cast<const Record *>(activity);
  if (record->start == 0 || record->end < record->start) {
    recorder.lost++;
    return;
  }
  const auto [name, is_new] = recorder.names.try_emplace(mangled);
  if (is_new) name->second = demangle(name->first);
  std::fprintf(file(), "%" PRIu64 "\t%" PRIu64 "\t%" PRIu32 "\t%s\n", uint64_t{record->start}, uint64_t{record->end},
               uint32_t{record->streamId}, name->second.c_str());
}

// Reads records by the structs of CUDA 12, which CUDA 13 still has: later versions of a struct only append fields.
void write_record(const CUpti_Activity *record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const char *name = reinterpret_cast<const CUpti_ActivityKernel9 *>(record)->name;
    write_line<CUpti_ActivityKernel9>(record, name ? name : "kernel");
  }
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) write_line<CUpti_ActivityMemcpy5>(record, "memcpy");
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) write_line<CUpti_ActivityMemcpyPtoP4>(record, "peer copy");
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) write_line<CUpti_ActivityMemset4>(record, "memset");
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = static_cast<uint8_t *>(std::malloc(buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most_records = 0;  // as many records as the buffer can hold
}

// Called by CUPTI's thread and by the thread that runs `finish`. Calls of CUPTI, which take CUPTI's locks, precede the recorder's lock.
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
  recorder.lost += dropped;
  if (recorder.file) std::fflush(recorder.file);
  std::free(buffer);
}

void finish() {
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  if (recorder.lost > 0) std::fprintf(file(), "# %zu records are lost\n", recorder.lost);
  if (recorder.file) std::fflush(recorder.file);
}

}  // namespace

// The driver calls this when it is initialised, before a context exists, and ignores the result; CUPTI's samples return 1.
extern "C" int InitializeInjection(void) {
  static bool is_recording = false;
  if (is_recording || !std::getenv("GPT2_TIMELINE")) return 1;
  is_recording = true;
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
    check(cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  check(cuptiActivityFlushPeriod(flush_milliseconds), "cuptiActivityFlushPeriod");
  // Registered last, so it runs before the exit handlers of the driver and CUPTI.
  std::atexit(finish);
  return 1;
}
