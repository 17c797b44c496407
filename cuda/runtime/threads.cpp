// Starts, wakes and ends the threads of a pool.
#include "threads.h"

#include <dlfcn.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <exception>

namespace gpt2 {

namespace {

// Iterations that an idle thread spins before it sleeps, about 50 microseconds. The next loop of a step usually begins
// sooner, and waking a sleeping thread takes as long. A longer spin would slow other work on the cores.
constexpr int spins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Keeps this library loaded: koffi (the FFI) unloads libraries at exit, which would unmap the code of waiting threads.
void keep_loaded() {
  Dl_info library;
  if (dladdr(reinterpret_cast<void *>(&keep_loaded), &library)) dlopen(library.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

}  // namespace

int processor_count() {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

// Without a core for each thread there is no spinning: a spinning thread would only keep others from work.
ThreadPool::ThreadPool(int threads) : threads_(threads), spins_(threads <= processor_count() ? spins : 0) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    jobs_++;
  }
  begun_.notify_all();
  for (std::thread &other : others_) other.join();
}

void ThreadPool::start() try {
  static const bool is_kept = (keep_loaded(), true);
  (void)is_kept;
  while (static_cast<int>(others_.size()) < threads_ - 1) {
    others_.emplace_back(&ThreadPool::work, this, static_cast<int>(others_.size()) + 1);
  }
} catch (const std::exception &) {
  // The system allows no more threads; the threads that did start do the work.
}

template <class Ready>
void ThreadPool::wait_for(std::condition_variable &change, const Ready &ready) {
  for (int spin = 0; spin < spins_; spin++) {
    if (ready()) return;
    pause();
  }
  std::unique_lock lock(mutex_);
  change.wait(lock, ready);
}

void ThreadPool::share(int64_t parts, Job job) {
  if (threads_ == 1 || parts == 1) return job.call(job.body, 0, 1);
  if (others_.empty()) start();
  // Without other threads the job must not be published: a thread that starts later would run it.
  if (others_.empty()) return job.call(job.body, 0, 1);
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    busy_ = static_cast<int>(others_.size());
    jobs_++;
  }
  begun_.notify_all();
  job.call(job.body, 0, static_cast<int>(others_.size()) + 1);
  wait_for(finished_, [&] { return busy_ == 0; });
}

void ThreadPool::work(int thread) {
  for (uint64_t done = 0;; done++) {
    wait_for(begun_, [&] { return jobs_ != done; });
    if (ends_) return;
    job_.call(job_.body, thread, static_cast<int>(others_.size()) + 1);
    if (--busy_ > 0) continue;
    const std::lock_guard lock(mutex_);
    finished_.notify_one();
  }
}

}  // namespace gpt2
