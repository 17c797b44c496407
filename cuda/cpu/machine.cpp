#include "machine.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace gpt2 {

namespace {

#ifdef __APPLE__
std::string system_name() {
  char name[256] = {};
  size_t bytes = sizeof name - 1;
  return sysctlbyname("machdep.cpu.brand_string", name, &bytes, nullptr, 0) == 0 ? name : "";
}
#else
std::string system_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}
#endif

}  // namespace

std::string cpu_name() {
  std::string name;
  for (const char c : system_name()) {
    if (c >= ' ' && c != '"' && c != '\\') name += c;
  }
  return name.empty() ? "CPU" : name;
}

#ifdef __APPLE__
int64_t available_memory() {
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const mach_port_t host = mach_host_self();
  const bool is_known =
      host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) == KERN_SUCCESS;
  mach_port_deallocate(mach_task_self(), host);
  if (!is_known) return -1;
  return static_cast<int64_t>(pages.free_count + pages.inactive_count) * sysconf(_SC_PAGESIZE);
}
#else
int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kilobytes) == 1) return kilobytes * 1024;
  }
  return -1;
}
#endif

int64_t total_memory() { return static_cast<int64_t>(sysconf(_SC_PAGESIZE)) * sysconf(_SC_PHYS_PAGES); }

}  // namespace gpt2
