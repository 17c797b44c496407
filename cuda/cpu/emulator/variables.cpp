// The variables of a compiled file of kernels, from its table of symbols.
#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "table.h"

namespace gpt2::emulator {

std::string demangled(const char *name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// `base` is where the file is loaded. The dynamic linker has checked the file.
std::vector<Variable> variables_of(const std::string &path, uintptr_t base) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto *header = reinterpret_cast<const ElfW(Ehdr) *>(file.data());
  const auto *sections = reinterpret_cast<const ElfW(Shdr) *>(file.data() + header->e_shoff);
  const auto text = [&](unsigned section, size_t offset) { return file.data() + sections[section].sh_offset + offset; };
  std::vector<Variable> found;
  for (unsigned i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto *symbols = reinterpret_cast<const ElfW(Sym) *>(text(i, 0));
    for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++) {
      const auto &[name, info, other, home, value, size] = symbols[j];
      if (ELF64_ST_TYPE(info) != STT_OBJECT || size == 0 || home == SHN_UNDEF || home >= header->e_shnum) continue;
      // Skips the emulator's variables, also those in a namespace.
      const char *symbol = text(sections[i].sh_link, name);
      if (std::strstr(symbol, "gpt2_emulat") || std::strstr(symbol, "4gpt28emulator")) continue;
      // kernel.h puts __constant__ variables into these sections.
      const char *section = text(header->e_shstrndx, sections[home].sh_name);
      const bool is_constant = !(sections[home].sh_flags & SHF_WRITE) || std::strncmp(section, ".gpt2_constant", 14) == 0;
      found.push_back({demangled(symbol), base + value, base + value + size, is_constant});
    }
  }
  return found;
}

}  // namespace gpt2::emulator
