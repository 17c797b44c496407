#include "fibers.h"

#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <new>

// Saves the registers that a function must keep on the stack and the stack pointer in *from, and goes on at `to`. A
// switch takes some 3 ns; swapcontext, which also asks the system for the signal mask, 300.
extern "C" void gpt2_emulator_switch(void **from, void *to);

#if defined(__x86_64__)
__asm__(R"(
  .text
  .globl gpt2_emulator_switch
  .hidden gpt2_emulator_switch
  .type gpt2_emulator_switch, @function
gpt2_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size gpt2_emulator_switch, .-gpt2_emulator_switch
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .globl gpt2_emulator_switch
  .hidden gpt2_emulator_switch
  .type gpt2_emulator_switch, %function
gpt2_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size gpt2_emulator_switch, .-gpt2_emulator_switch
)");
#else
#include <ucontext.h>
void gpt2_emulator_switch(void **from, void *to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t *>(to));
}
#endif

namespace gpt2::emulator {

namespace {

constexpr size_t most_fibers = 1024;
constexpr size_t guard_bytes = 64 << 10;  // a multiple of any page size
constexpr size_t reserve_bytes = 64 << 10;
// The stacks begin at different places of their first page: at the same place all would share a few lines of the caches.
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

// Lets the next switch to the fiber begin `main`.
void Fibers::restart(Fiber &fiber) const {
  const auto number = static_cast<size_t>(fiber.stack - memory_) / stack_bytes;
  char *const end = fiber.stack + stack_bytes - number * 832 % stagger_bytes;
  [[maybe_unused]] void **top = reinterpret_cast<void **>(end);
#if defined(__x86_64__)
  // The registers, the address that the switch returns to, and main's return address, of which there is none.
  void **place = top - 8;
  for (int i = 0; i < 8; i++) place[i] = nullptr;
  place[6] = reinterpret_cast<void *>(main_);
  fiber.place = place;
#elif defined(__aarch64__)
  void **place = top - 20;
  for (int i = 0; i < 20; i++) place[i] = nullptr;
  place[11] = reinterpret_cast<void *>(main_);
  fiber.place = place;
#else
  auto *context = reinterpret_cast<ucontext_t *>(end - (sizeof(ucontext_t) + 63) / 64 * 64);
  getcontext(context);
  context->uc_stack.ss_sp = fiber.stack;
  context->uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<char *>(context) - fiber.stack);
  context->uc_link = nullptr;
  makecontext(context, main_, 0);
  fiber.place = context;
#endif
}

void Fibers::enter(Fiber *fiber) { gpt2_emulator_switch(&outside_, fiber->place); }
void Fibers::change(Fiber *from, Fiber *to) { gpt2_emulator_switch(&from->place, to->place); }
void Fibers::leave(Fiber *from) { gpt2_emulator_switch(&from->place, outside_); }

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
