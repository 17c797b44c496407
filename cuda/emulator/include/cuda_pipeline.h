// Asynchronous copies to shared memory: here a copy is done at once.
#pragma once

inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  for (size_t i = 0; i < bytes; i += 4) {
    *reinterpret_cast<unsigned *>(static_cast<char *>(to) + i) =
        i < bytes - zeros ? *reinterpret_cast<const unsigned *>(static_cast<const char *>(from) + i) : 0u;
  }
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
