// assert() in a kernel: fails the launch instead of ending the process.
#undef assert
#ifdef NDEBUG
#define assert(condition) void()
#else
#define assert(condition) \
  ((condition) ? void() : ::gpt2_emulator::fail("fails the assertion " #condition, __FILE__, __LINE__, nullptr, \
                                                 ::gpt2_emulator::Outcome::failed_assert))
#endif
