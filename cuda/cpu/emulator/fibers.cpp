#include "fibers.h"

#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#define GPT2_SWITCH(type)                                                       \
  ".text; .globl gpt2_emulator_switch; .hidden gpt2_emulator_switch; .type gpt2_emulator_switch, " type "\n" \
  "gpt2_emulator_switch:\n"
#if defined(__x86_64__)
__asm__(GPT2_SWITCH("@function")
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n");
#elif defined(__aarch64__)
#define GPT2_ALL(op)                                                                                        \
  op " x19, x20, [sp]; " op " x21, x22, [sp, #16]; " op " x23, x24, [sp, #32]; " op " x25, x26, [sp, #48]\n" \
  op " x27, x28, [sp, #64]; " op " x29, x30, [sp, #80]; " op " d8, d9, [sp, #96]; " op " d10, d11, [sp, #112]\n" \
  op " d12, d13, [sp, #128]; " op " d14, d15, [sp, #144]\n"
__asm__(GPT2_SWITCH("%function") "sub sp, sp, #160\n" GPT2_ALL("stp") "mov x9, sp; str x9, [x0]; mov sp, x1\n"
        GPT2_ALL("ldp") "add sp, sp, #160; ret\n");
#else
#error "the emulator switches fibers on x86-64 and on arm64 only"
#endif

namespace gpt2::emulator {

namespace {

constexpr size_t most_fibers = 1024;
constexpr size_t guard_bytes = 64 << 10;  // a multiple of any page size
constexpr size_t reserve_bytes = 64 << 10;
// Stacks begin at staggered offsets: at equal offsets all would compete for a few sets of the CPU's caches.
constexpr size_t stagger_bytes = 64 << 10;
constexpr size_t stack_bytes = guard_bytes + reserve_bytes + Fibers::usable_bytes + stagger_bytes;

}  // namespace

Fibers::Fibers(void (*main)())
    : main_(main), memory_(static_cast<char *>(mmap(nullptr, most_fibers * stack_bytes, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
}

Fibers::~Fibers() { munmap(memory_, most_fibers * stack_bytes); }

Fiber *Fibers::take() {
  if (free_.empty()) {
    char *stack = memory_ + all_.size() * stack_bytes;
    mprotect(stack, guard_bytes, PROT_NONE);
    all_.emplace_back(new Fiber{stack, nullptr});
    restart(*all_.back());
    return all_.back().get();
  }
  Fiber *fiber = free_.back();
  free_.pop_back();
  return fiber;
}

// Prepares the stack so that the next switch to the fiber starts `main`.
void Fibers::restart(Fiber &fiber) const {
  const auto number = static_cast<size_t>(fiber.stack - memory_) / stack_bytes;
  char *const end = fiber.stack + stack_bytes - number * 832 % stagger_bytes;
  // The registers that gpt2_emulator_switch restores. Word `next` is the address at which the switch continues: on
  // x86-64 the return address, then an empty word for main's return address; on arm64 register x30.
#ifdef __x86_64__
  constexpr int words = 8, next = 6;
#else
  constexpr int words = 20, next = 11;
#endif
  void **place = reinterpret_cast<void **>(end) - words;
  std::fill(place, place + words, nullptr);
  place[next] = reinterpret_cast<void *>(main_);
  fiber.place = place;
}

void Fibers::abandon() {
  void *lost;
  gpt2_emulator_switch(&lost, outside_);
  std::abort();
}

void Fibers::forget() {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(memory_, all_.size() * stack_bytes);
#endif
  free_.clear();
  for (const auto &fiber : all_) {
    restart(*fiber);
    free_.push_back(fiber.get());
  }
}

size_t Fibers::room(const Fiber *fiber, const void *frame) {
  return static_cast<size_t>(static_cast<const char *>(frame) - (fiber->stack + guard_bytes));
}

bool Fibers::is_guard(const Fiber *fiber, const void *address) {
  return address >= fiber->stack && address < fiber->stack + guard_bytes;
}

const char *Fibers::end() const { return memory_ + most_fibers * stack_bytes; }

}  // namespace gpt2::emulator
