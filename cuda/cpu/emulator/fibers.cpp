// longjmp switches between stacks here, which fortified libraries refuse.
#undef _FORTIFY_SOURCE

#include "fibers.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <new>

namespace gpt2::emulator {

namespace {

constexpr size_t most_fibers = 1024;
constexpr size_t guard_bytes = 64 << 10;  // a multiple of any page size
constexpr size_t reserve_bytes = 64 << 10;
constexpr size_t stack_bytes = guard_bytes + reserve_bytes + Fibers::usable_bytes;

}  // namespace

struct Fiber {
  explicit Fiber(char *stack) : stack(stack) {}
  char *const stack;
  bool has_started = false;
  jmp_buf place;
};

struct Fibers::State {
  explicit State(void (*main)()) : main(main) {}
  void (*const main)();
  // All stacks, adjacent. The system allocates pages only for the stacks that are used.
  char *memory = static_cast<char *>(mmap(nullptr, most_fibers * stack_bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber *> free;
  jmp_buf outside;

  ~State() {
    if (memory != MAP_FAILED) munmap(memory, most_fibers * stack_bytes);
  }
};

Fibers::Fibers(void (*main)()) : state_(new State(main)) {
  if (state_->memory == MAP_FAILED) throw std::bad_alloc();
}

Fibers::~Fibers() = default;

Fiber *Fibers::take() {
  if (state_->free.empty()) {
    char *stack = state_->memory + state_->all.size() * stack_bytes;
    mprotect(stack, guard_bytes, PROT_NONE);
    state_->all.emplace_back(new Fiber(stack));
    state_->free.push_back(state_->all.back().get());
  }
  Fiber *fiber = state_->free.back();
  state_->free.pop_back();
  return fiber;
}

void Fibers::resume(Fiber *fiber) {
  if (_setjmp(state_->outside) != 0) return;
  if (fiber->has_started) _longjmp(fiber->place, 1);
  fiber->has_started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber->stack;
  context.uc_stack.ss_size = stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, state_->main, 0);
  setcontext(&context);
}

void Fibers::wait(Fiber *fiber) {
  if (_setjmp(fiber->place) == 0) _longjmp(state_->outside, 1);
}

void Fibers::finish(Fiber *fiber) {
  state_->free.push_back(fiber);
  wait(fiber);
}

void Fibers::abandon() { _longjmp(state_->outside, 1); }

void Fibers::forget() {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(state_->memory, state_->all.size() * stack_bytes);
#endif
  state_->free.clear();
  for (const auto &fiber : state_->all) {
    fiber->has_started = false;
    state_->free.push_back(fiber.get());
  }
}

size_t Fibers::room(const Fiber *fiber, const void *frame) const {
  return static_cast<size_t>(static_cast<const char *>(frame) - (fiber->stack + guard_bytes));
}

bool Fibers::is_guard(const Fiber *fiber, const void *address) const {
  return address >= fiber->stack && address < fiber->stack + guard_bytes;
}

const char *Fibers::begin() const { return state_->memory; }
const char *Fibers::end() const { return state_->memory + most_fibers * stack_bytes; }

}  // namespace gpt2::emulator
