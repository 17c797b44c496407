// Driver that `gpt2 kernel test FILE --expect` compiles after the user's FILE: reads a function's arguments as doubles,
// calls the function, and writes the arrays. CUDA for nvcc and for the emulator. Each test compiles this file, so
// headers are few: with <string> and <algorithm> a small test took 4.7 s instead of 3.7.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>

namespace gpt2_expect {

static FILE *input;
// Names of the parameters whose arguments are not yet read.
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
// Throws `status` if a CUDA call failed. The destructors then free device memory.
inline void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  throw status;
}
struct Free {
  void operator()(void *memory) const { cudaFree(memory); }
};

// Ends the program because a parameter of the function cannot take a value of the test case. _Exit skips leak reports.
template <class... Values>
[[noreturn]] void refuse(const char *format, Values... values) {
  fprintf(stderr, format, values...);
  std::_Exit(78);
}

// The value as a double. A 16-bit float is converted by way of fp32.
template <class T>
double wide(T value) {
  return std::conditional_t<std::is_arithmetic_v<T>, T, float>(value);
}

// Whether T can hold `value`. Floats may round it; integers must be below 2^53, where doubles are still exact.
template <class T>
bool holds(double value) {
  if constexpr (!std::is_integral_v<T>) return !std::isfinite(value) || std::isfinite(wide(T(value)));
  constexpr int digits = std::numeric_limits<T>::digits;
  const double end = std::ldexp(1, digits < 53 ? digits : 53);
  return value >= (std::is_signed_v<T> ? -end : 0) && value < end && value == std::trunc(value);
}

// Reads the next number: the argument of parameter `name`, or, with an index, an element of its array.
template <class T>
T next_as(const char *name, long index = -1) {
  const double value = next();
  if (holds<T>(value)) return T(value);
  const bool is_rounded = std::is_integral_v<T> && std::fabs(value) >= std::ldexp(1, 53);
  const char *why = is_rounded ? "a whole number of 2^53 or more, which may be rounded: give a smaller one" : "which its C type cannot hold";
  if (index < 0) refuse("%s is %.15g, %s", name, value, why);
  refuse("%s[%ld] is %.15g, %s", name, index, value, why);
}

template <class T>
struct Argument {
  T value;
  Argument() {
    if (next() >= 0) refuse("%s takes a number, not an array", *names);
    value = next_as<T>(*names++);
  }
  T get() const { return value; }
  void write(FILE *) const {}
};

// An array argument, on the device. Input: length, flags (has values, has expected values), values, expected values.
template <class T>
struct Argument<T *> {
  using Element = std::remove_cv_t<T>;
  using Elements = std::unique_ptr<Element[]>;
  const char *name = *names++;
  size_t count, bytes;
  std::unique_ptr<Element, Free> memory;
  Element *get() const { return memory.get(); }
  Elements read() const {
    Elements host(new Element[count]);
    for (size_t i = 0; i < count; i++) host[i] = next_as<Element>(name, long(i));
    return host;
  }
  Argument() {
    const double length = next();
    if (length < 0) refuse("%s takes an array, not a number", name);
    const bool has_values = next() != 0, is_expected = next() != 0;
    count = size_t(length);
    bytes = count * sizeof(Element);
    // At least one byte, so that an empty array is not a null pointer.
    const size_t allocated = bytes + (bytes == 0);
#ifdef GPT2_PROGRAM
    // The caller is NULL, because the emulator's reports would name a line of this file.
    memory.reset(static_cast<Element *>(
        gpt2_emulator::allocate(allocated, gpt2_emulator::Kind::device, sizeof(Element), name, nullptr)));
    check(memory ? cudaSuccess : cudaErrorMemoryAllocation, name);
#else
    Element *made = nullptr;
    check(cudaMalloc(reinterpret_cast<void **>(&made), allocated), name);
    memory.reset(made);
#endif
    if (has_values) check(cudaMemcpy(get(), read().get(), bytes, cudaMemcpyHostToDevice), name);
    if (is_expected) read();
  }
  // Writes 1 if the elements are integers, else 0; then the elements as doubles.
  void write(FILE *output) const {
#ifdef GPT2_PROGRAM
    if (const void *first = gpt2_emulator::first_unwritten(get(), bytes)) {
      char text[200];
      snprintf(text, sizeof text, "no kernel wrote %s[%td]", name, static_cast<const Element *>(first) - get());
      gpt2_emulator::report(text, nullptr);
      // Without this call the emulator would also report the copy below.
      gpt2_emulator::written(get(), bytes);
    }
#endif
    const Elements host(new Element[count]);
    check(cudaMemcpy(host.get(), get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    const auto put = [&](double value) { fwrite(&value, sizeof value, 1, output); };
    put(std::is_integral_v<Element>);
    for (size_t i = 0; i < count; i++) put(wide(host[i]));
  }
};

// Reads the arguments of a function, in the order of its parameters.
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
