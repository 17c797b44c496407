// Included after a user's file in a program that `gpt2 kernel test FILE --expect` makes: reads the arguments of a function as
// doubles, and writes the arrays after the call. CUDA for nvcc and for the emulator.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <type_traits>

namespace gpt2_expect {

static FILE *input;
// Of the parameters whose arguments are still to be read.
static const char *const *names;

inline double next() {
  double value = 0;
  if (fread(&value, sizeof value, 1, input) != 1) exit(2);
  return value;
}
inline dim3 next_sizes() {
  const double x = next(), y = next(), z = next();
  return dim3(unsigned(x), unsigned(y), unsigned(z));
}
// Throws, so that memory is freed.
inline void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  throw status;
}
struct Free {
  void operator()(void *memory) const { cudaFree(memory); }
};

template <class T>
struct Argument {
  T value = (names++, T(next()));
  T get() const { return value; }
  void write(FILE *) const {}
};

// An array on the device: its length, whether it has values, and the values.
template <class T>
struct Argument<T *> {
  using Element = std::remove_cv_t<T>;
  size_t count = size_t(next());
  std::unique_ptr<Element, Free> memory;
  Element *get() const { return memory.get(); }
  Argument() {
    const bool has_values = next() != 0;
    const char *name = *names++;
    const size_t bytes = (count + (count == 0)) * sizeof(Element);
    Element *made = nullptr;
#ifdef GPT2_PROGRAM
    check(gpt2_allocate<gpt2_emulator::Kind::device>(name, &made, bytes), name);
#else
    check(cudaMalloc(reinterpret_cast<void **>(&made), bytes), name);
#endif
    memory.reset(made);
    if (!has_values) return;
    const std::unique_ptr<Element[]> host(new Element[count]);
    for (size_t i = 0; i < count; i++) host[i] = Element(next());
    check(cudaMemcpy(made, host.get(), count * sizeof(Element), cudaMemcpyHostToDevice), name);
  }
  void write(FILE *output) const {
    const std::unique_ptr<Element[]> host(new Element[count]);
    check(cudaMemcpy(host.get(), get(), count * sizeof(Element), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < count; i++) {
      // A 16-bit float becomes a double by way of fp32.
      const double wide = std::conditional_t<std::is_arithmetic_v<Element>, Element, float>(host[i]);
      fwrite(&wide, sizeof wide, 1, output);
    }
  }
};

// The arguments of a function, read in their order.
template <class... P>
std::tuple<Argument<std::remove_cv_t<P>>...> arguments(void (*)(P...)) {
  return {Argument<std::remove_cv_t<P>>()...};
}

template <class Arguments>
void finish(const Arguments &arguments, const char *path) {
  check(cudaGetLastError(), "the launch failed");
  check(cudaDeviceSynchronize(), "the kernel failed");
  FILE *output = fopen(path, "wb");
  std::apply([&](const auto &...each) { (each.write(output), ...); }, arguments);
  fclose(output);
}

}  // namespace gpt2_expect
