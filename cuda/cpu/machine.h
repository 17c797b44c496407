// The CPU's name and the memory of the machine, on Linux and macOS.
#pragma once

#include <cstdint>
#include <string>

namespace gpt2 {

/** The CPU's name, without characters that JSON would escape; "CPU" where the system has none. */
std::string cpu_name();

/** Bytes that new programs can use without swapping, including caches that the system would free; -1 if unknown. */
int64_t available_memory();

int64_t total_memory();

}  // namespace gpt2
