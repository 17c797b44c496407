// Included after a user's file in a program that `gpt2 kernel test FILE --expect` makes: reads the arguments of a function as
// doubles, and writes the arrays after the call. CUDA for nvcc and for the emulator.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <type_traits>

namespace gpt2_expect {

static FILE *input;

inline double next() {
  double value = 0;
  if (fread(&value, sizeof value, 1, input) != 1) exit(2);
  return value;
}
inline dim3 next_sizes() {
  const double x = next(), y = next(), z = next();
  return dim3(unsigned(x), unsigned(y), unsigned(z));
}
inline void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  exit(1);
}

template <class T>
struct Argument {
  T value = T(next());
  void write(FILE *) const {}
};

// An array on the device: its length, whether it has values, and the values.
template <class T>
struct Argument<T *> {
  using Element = std::remove_cv_t<T>;
  size_t count = size_t(next());
  Element *value = nullptr;
  Argument() {
    const bool has_values = next() != 0;
    check(cudaMalloc(reinterpret_cast<void **>(&value), (count + (count == 0)) * sizeof(Element)), "cudaMalloc");
    if (!has_values) return;
    const std::unique_ptr<Element[]> host(new Element[count]);
    for (size_t i = 0; i < count; i++) host[i] = Element(next());
    check(cudaMemcpy(value, host.get(), count * sizeof(Element), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void write(FILE *output) const {
    const std::unique_ptr<Element[]> host(new Element[count]);
    check(cudaMemcpy(host.get(), value, count * sizeof(Element), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < count; i++) {
      // A 16-bit float becomes a double by way of fp32.
      const double wide = std::conditional_t<std::is_arithmetic_v<Element>, Element, float>(host[i]);
      fwrite(&wide, sizeof wide, 1, output);
    }
    cudaFree(value);
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
