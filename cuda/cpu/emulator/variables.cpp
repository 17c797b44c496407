// Finds the variables of a compiled file of kernels, and whether they are the device's or the host's, in the file's ELF symbol table.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "table.h"

namespace gpt2::emulator {

using gpt2_emulator::Kind;

std::string demangled(const char *name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// Reads the file that contains `code` without checks of offsets: the dynamic linker has accepted the file.
std::vector<const void *> enter_variables(const void *code) {
  Dl_info info{};
  link_map *map = nullptr;
  dladdr1(code, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP);
  // The link map has an empty name for the program itself.
  std::ifstream stream(*map->l_name ? map->l_name : "/proc/self/exe", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto *header = reinterpret_cast<const ElfW(Ehdr) *>(file.data());
  const auto *sections = reinterpret_cast<const ElfW(Shdr) *>(file.data() + header->e_shoff);
  const auto text = [&](unsigned section, size_t offset) { return file.data() + sections[section].sh_offset + offset; };
  std::vector<const void *> found;
  // src/ops/kernels/rewrite.ts puts __device__ and __constant__ variables into sections .gpt2_device and .gpt2_constant.
  const auto section = [&](unsigned index) { return std::string(text(header->e_shstrndx, sections[index].sh_name)); };
  const auto is_named = [](const std::string &name, const char *start) { return name.rfind(start, 0) == 0; };
  for (unsigned i = 0; i < header->e_shnum; i++) {
    const bool is_closed = is_named(section(i), ".gpt2_device") || is_named(section(i), ".gpt2_constant");
    if (is_closed && !*map->l_name && (sections[i].sh_flags & SHF_WRITE)) {
      variable_pages().push_back({map->l_addr + sections[i].sh_addr, sections[i].sh_size});
    }
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto *symbols = reinterpret_cast<const ElfW(Sym) *>(text(i, 0));
    for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++) {
      const auto &[name, info, other, home, value, size] = symbols[j];
      if (ELF64_ST_TYPE(info) != STT_OBJECT || size == 0 || home == SHN_UNDEF || home >= header->e_shnum) continue;
      // Skip the emulator's variables: extern "C" names begin with gpt2_emulat, and 4gpt28emulator is its mangled namespace.
      const char *symbol = text(sections[i].sh_link, name);
      if (std::strstr(symbol, "gpt2_emulat") || std::strstr(symbol, "4gpt28emulator")) continue;
      const bool is_constant = !(sections[home].sh_flags & SHF_WRITE) || is_named(section(home), ".gpt2_constant");
      // Demangle C++ names only (_Z...): the demangler takes a C variable named x for a type.
      const std::string shown = is_named(symbol, "_Z") ? demangled(symbol) : symbol;
      // Static variables of functions (_ZZ), their guards (_ZG) and templates' variables may be the device's, although in .data or .bss.
      const bool is_host = (section(home) == ".data" || section(home) == ".bss") && !is_named(symbol, "_ZZ") &&
                           !is_named(symbol, "_ZG") && shown.find('<') == std::string::npos;
      found.push_back(reinterpret_cast<const void *>(map->l_addr + value));
      gpt2_emulator::insert(found.back(), size, is_constant ? Kind::constant : is_host ? Kind::host : Kind::variable, 0, shown.c_str());
    }
  }
  return found;
}

}  // namespace gpt2::emulator
