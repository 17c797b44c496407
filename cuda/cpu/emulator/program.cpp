// Functions that programs call: launches, reports on standard error, and the last lines.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "block.h"
#include "launch.h"

namespace gpt2_emulator {

using namespace gpt2::emulator;

Watch program_watch{0, 0};
Settings settings;

namespace {

constexpr size_t most_defects = 20;

struct Found {
  std::string name;  // "k at sum.cu:6"
  uint64_t count;
  bool is_warning;
};

struct Program {
  std::mutex mutex;
  // Defects and warnings by kernel, kind and places.
  std::map<std::string, Found> found;
  std::vector<const Found *> order;
  size_t defects = 0, printed = 0;
  gpt2::ThreadPool pool{gpt2::processor_count()};
  Heap heap;
  const void *base = nullptr;
};

Program &program() {
  static Program &made = *new Program;
  return made;
}

}  // namespace

void enter_variables() {
  Program &self = program();
  if (self.base) return;
  Dl_info info{};
  const link_map *map = nullptr;
  dladdr1(reinterpret_cast<void *>(&enter_variables), &info, reinterpret_cast<void **>(const_cast<link_map **>(&map)), RTLD_DL_LINKMAP);
  self.base = info.dli_fbase;
  for (const Variable &each : variables_of("/proc/self/exe", map->l_addr)) {
    insert(reinterpret_cast<void *>(each.begin), each.end - each.begin, each.is_constant ? Kind::constant : Kind::variable, 0,
           each.name.c_str());
  }
}

namespace {

// Returns whether the defect is new.
bool tell(const std::string &kernel, const Defect &defect) {
  Program &self = program();
  const bool is_warning = defect.kind == Defect::Kind::warning;
  const std::string places = defect.file + ":" + std::to_string(defect.line) + " " + line_of(defect.caller) + " " + line_of(defect.other);
  const std::string key = kernel + " " + std::to_string(static_cast<int>(defect.kind)) + " " + places +
                          (places.size() > 8 ? "" : defect.text);
  const std::lock_guard<std::mutex> lock(self.mutex);
  const auto [found, is_new] = self.found.try_emplace(key);
  found->second.count += defect.count;
  if (!is_new) return false;
  const std::string text = message(kernel, defect), place = text.substr(0, text.find('\n'));
  const size_t at = place.rfind(" at ", place.find(" (the other is at"));
  found->second.name = (kernel.empty() ? "host code" : kernel) + (at == std::string::npos ? "" : place.substr(at));
  found->second.is_warning = is_warning;
  self.order.push_back(&found->second);
  self.defects += !is_warning;
  std::fflush(stdout);
  if (is_warning) std::fprintf(stderr, "warning: %s\n", text.c_str());
  else if (++self.printed <= most_defects) std::fprintf(stderr, "defect: %s\n", text.c_str());
  return true;
}

}  // namespace

Result run(const Launch &launch) {
  Program &self = program();
  enter_variables();
  Job job;
  job.launch = launch;
  job.checks = settings.checks;
  job.scope.heap = &self.heap;
  job.scope.module_base = self.base;
  job.pool = &self.pool;
  job.can_be_left_out = !settings.every_launch;
  const Watch host = program_watch;
  const Done done = gpt2::emulator::run(job);
  program_watch = host;
  Result result{done.outcome, 0, done.is_left_out};
  for (const Defect &each : done.defects) result.defects += tell(launch.kernel, each) && each.kind != Defect::Kind::warning;
  return result;
}

void report(const char *text, const void *caller, bool is_warning) {
  Defect made;
  made.kind = is_warning ? Defect::Kind::warning : Defect::Kind::race;
  made.text = text;
  made.caller = caller;
  tell("", made);
}

unsigned defects() { return static_cast<unsigned>(program().defects); }

void finish() {
  Program &self = program();
  std::fflush(stdout);
  std::string text;
  for (const bool is_warning : {false, true}) {
    for (const Found *each : self.order) {
      if (each->is_warning == is_warning && each->count > 1) text += "  " + std::to_string(each->count) + " times: " + each->name + "\n";
    }
  }
  if (self.defects > 0) {
    std::fprintf(stderr, "%zu defect%s%s\n", self.defects, self.defects == 1 ? "" : "s",
                 self.defects > most_defects ? ", of which 20 are shown" : "");
  }
  std::fputs(text.c_str(), stderr);
  for (const auto &[begin, region] : table().live) {
    if (region.heap || (region.is.kind != Kind::device && region.is.kind != Kind::managed && region.is.kind != Kind::pinned)) continue;
    std::fprintf(stderr, "notice: %s is not freed: %zu bytes\n", described(region).c_str(), region.is.bytes);
  }
  if (!settings.counts) return;
  for (const auto &[kernel, each] : counts()) {
    std::fprintf(stderr, "%s: %llu of %llu blocks were checked, in %llu launch%s", kernel.c_str(),
                 static_cast<unsigned long long>(each.checked), static_cast<unsigned long long>(each.blocks),
                 static_cast<unsigned long long>(each.launches), each.launches == 1 ? "" : "es");
    if (each.left_out > 0) {
      std::fprintf(stderr, "; %llu were left out, because they would have changed nothing", static_cast<unsigned long long>(each.left_out));
    }
    std::fputs("\n", stderr);
  }
  if (!counts().empty()) std::fputs("times are those of an emulator and say nothing about a GPU\n", stderr);
}

}  // namespace gpt2_emulator

namespace gpt2::emulator {

void access_by_host(const void *memory, size_t bytes, bool is_write, const void *caller) {
  // Counted by text and line, as every report.
  static Defects &known = *new Defects;
  static std::mutex &mutex = *new std::mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known.count(Defect::Kind::bad_access, caller, nullptr)) return;
  Defect made;
  made.kind = Defect::Kind::bad_access;
  made.caller = caller;
  {
    Table &all = table();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Region *region = all.at(address);
    if (!region) region = all.freed_at(address);
    made.text = std::string("host code ") + (is_write ? "writes " : "reads ") + (region ? described(*region) : "device memory") +
                ", which only kernels can access: use cudaMemcpy for these " + std::to_string(bytes) + " bytes";
  }
  known.add(made);
  gpt2_emulator::report(made.text.c_str(), caller, false);
}

}  // namespace gpt2::emulator
