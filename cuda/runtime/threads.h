// The threads that share the loops of a CPU op. No result depends on the number of threads or on which thread takes
// which indices.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gpt2 {

/** The processors that this process may use. */
int processor_count();

// A pool of the calling thread and threads - 1 others, which run from the first loop until the pool is destroyed. Only
// one thread may use the pool at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return threads_; }

  // Calls body(first, last) with one contiguous range per thread. The calling thread alone works on fewer than
  // 2 * `least` indices, which take less time than waking a thread.
  template <class Body>
  void ranges(int64_t count, const Body &body, int64_t least = 1) {
    run(count < 2 * least ? 1 : count, [&](int thread, int threads) {
      const int64_t size = (count + threads - 1) / threads;
      const int64_t first = thread * size, last = std::min(first + size, count);
      if (first < last) body(first, last);
    });
  }

  // Calls body(index) for each index; a thread takes adjacent indices. `least` as in `ranges`.
  template <class Body>
  void each(int64_t count, const Body &body, int64_t least = 1) {
    ranges(
        count,
        [&](int64_t first, int64_t last) {
          for (int64_t index = first; index < last; index++) body(index);
        },
        least);
  }

  // Calls body(index, thread) for each index, for indices that take unequal times: a free thread takes the next index.
  template <class Body>
  void each_free(int64_t count, const Body &body) {
    std::atomic<int64_t> next{0};
    run(count, [&](int thread, int) {
      for (int64_t index; (index = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(index, thread);
    });
  }

 private:
  template <class Body>
  void run(int64_t parts, const Body &body) {
    share(parts,
          {[](const void *data, int thread, int threads) { (*static_cast<const Body *>(data))(thread, threads); },
           &body});
  }

  struct Job {
    void (*call)(const void *body, int thread, int threads);
    const void *body;
  };

  // Takes the loop as a function pointer, so that one thread and several run the same compiled code.
  void share(int64_t parts, Job job);
  void start();
  void work(int thread);
  template <class Ready>
  void wait_for(std::condition_variable &change, const Ready &ready);

  const int threads_;
  const int spins_;
  std::vector<std::thread> others_;
  std::mutex mutex_;
  std::condition_variable begun_, finished_;
  Job job_{};
  std::atomic<uint64_t> jobs_{0};
  std::atomic<int> busy_{0};
  bool ends_ = false;
};

}  // namespace gpt2
