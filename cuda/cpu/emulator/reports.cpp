#include "reports.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace gpt2::emulator {

namespace {

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

// Whether a place ("file:line") is in a header of the emulator or of the C++ library.
bool is_header(const std::string &place) {
  return place.compare(0, 5, "/usr/") == 0 || place.find("cuda/emulator/") != std::string::npos ||
         place.find("/include/c++/") != std::string::npos;
}

std::string find_line(const void *caller) {
  Dl_info info{};
  const link_map *map = nullptr;
  if (!caller || !dladdr1(caller, &info, reinterpret_cast<void **>(const_cast<link_map **>(&map)), RTLD_DL_LINKMAP) || !map) return "";
  // The link map has an empty name for the program itself.
  const char *path = map->l_name && *map->l_name ? map->l_name : "/proc/self/exe";
  char program[4096] = "";
  if (path[0] == '/' && readlink(path, program, sizeof program - 1) > 0 && std::string(path) == "/proc/self/exe") path = program;
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(caller) - map->l_addr - 1));
  std::istringstream lines(output_of({"addr2line", "-i", "-e", path, address, nullptr}));
  std::string innermost;
  // addr2line prints the line, then the lines of the callers into which it was inlined. The first outside of a header is the place.
  for (std::string line; std::getline(lines, line);) {
    // A line is, for example, "kernel.cu:12 (discriminator 2)".
    std::string place = line.substr(0, line.find(' ', line.rfind(':')));
    while (place.compare(0, 2, "./") == 0) place.erase(0, 2);
    if (place.find('?') != std::string::npos) break;
    if (!is_header(place)) return place;
    if (innermost.empty()) innermost = place;
  }
  return innermost;
}

// The place and its source line, to be shown below a message.
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

int line_number(const std::string &place) { return std::atoi(place.c_str() + place.rfind(':') + 1); }

// A cache of source lines by code address, because debug information is slow to read.
struct Lines {
  std::mutex mutex;
  std::map<const void *, std::string> known;
};
Lines &lines() { return only<Lines>(); }

}  // namespace

std::string place_of(const Defect &defect) {
  const bool is_known = !defect.file.empty() && !is_header(defect.file);
  return is_known ? defect.file + ":" + std::to_string(defect.line) : line_of(defect.caller);
}

bool Defects::count(Defect::Kind kind, const void *caller, const void *other) {
  const auto found = known_.find({kind, caller, other});
  if (found == known_.end()) return false;
  all[found->second].count++;
  return true;
}

// Defects of one kind on the same two lines, in either order, are one defect.
bool Defects::add(Defect defect) {
  // Defects without a place differ by their texts.
  if (!defect.caller) known_.erase({defect.kind, nullptr, defect.other});
  const auto [known, is_first] = known_.try_emplace({defect.kind, defect.caller, defect.other}, all.size());
  if (is_first) {
    const std::string place = place_of(defect), other = line_of(defect.other);
    const auto same = std::find_if(all.begin(), all.end(), [&](const Defect &each) {
      if (each.kind != defect.kind) return false;
      const std::string first = place_of(each), second = line_of(each.other);
      if (place.empty()) return first.empty() && each.text == defect.text;
      return (first == place && second == other) || (first == other && second == place);
    });
    known->second = static_cast<size_t>(same - all.begin());
  }
  if (known->second == all.size()) return all.push_back(std::move(defect)), true;
  all[known->second].count += defect.count;
  return false;
}

std::string line_of(const void *caller) {
  Lines &all = lines();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto [found, is_new] = all.known.try_emplace(caller);
  if (is_new) found->second = find_line(caller);
  return found->second;
}

void forget_lines() {
  const std::lock_guard<std::mutex> lock(lines().mutex);
  lines().known.clear();
}

std::string message(const std::string &kernel, const Defect &defect) {
  const std::string place = place_of(defect), lines = quoted(place);
  std::string text = (kernel.empty() ? "" : kernel + ": ") + defect.text;
  if (!place.empty()) text += " at " + place;
  if (!defect.other) return text + lines;
  const std::string other = line_of(defect.other);
  text += " (the other is at " + other + ")" + lines + (other == place ? "" : quoted(other));
  if (defect.barrier != Defect::Barrier::unknown && other != place && !other.empty()) {
    const bool is_earlier = defect.barrier == Defect::Barrier::after_earlier && line_number(other) < line_number(place);
    const bool is_other = is_earlier || defect.barrier == Defect::Barrier::after_other;
    const std::string &first = is_other ? other : place, &second = is_other ? place : other;
    text += "\n  a __syncthreads() is missing between " + first + " and " + second;
    if (line_number(first) > line_number(second)) text += ", which the next round of a loop runs";
  } else if (defect.barrier == Defect::Barrier::after_other && defect.caller != defect.other && !place.empty()) {
    text += "\n  a __syncthreads() is missing between the accesses of " + place + ", or between the rounds of a loop around it";
  }
  return text;
}

std::string described(const Region &region) {
  const std::string place = line_of(region.is.caller);
  return (region.name.empty() ? "memory" : region.name) + (place.empty() ? "" : " (allocated at " + place + ")");
}

}  // namespace gpt2::emulator
