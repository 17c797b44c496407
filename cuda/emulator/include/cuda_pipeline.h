// A thread's asynchronous copies to shared memory (cp.async), of 4, 8 or 16 bytes each.
#pragma once

GPT2_UNCHECKED inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  using namespace gpt2_emulator;
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("copies other than 4, 8 or 16 bytes asynchronously", nullptr, 0, GPT2_CALLER);
  if ((uintptr_t(to) | uintptr_t(from)) % bytes != 0) {
    fail("copies asynchronously from or to an address that is not a multiple of the copied bytes", nullptr, 0, GPT2_CALLER,
         Outcome::misaligned);
  }
  host->copy(to, from, bytes, zeros, GPT2_CALLER);
}
GPT2_UNCHECKED inline void __pipeline_commit() { gpt2_emulator::host->commit(); }
GPT2_UNCHECKED inline void __pipeline_wait_prior(size_t prior) { gpt2_emulator::host->wait(prior, GPT2_CALLER); }
