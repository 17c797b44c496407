// The functions of a context that are the same in both libraries.
#include <cstdint>
#include <string>

#include "checks.h"


int gpt2_abi_version(void) { return GPT2_ABI_VERSION; }

const char *gpt2_last_error(gpt2_context *context) { return context->error.c_str(); }
const char *gpt2_context_description(gpt2_context *context) {
  context->described = context->description;
  if (context->failed_rank >= 0) {
    context->described.back() = ',';
    context->described += "\"failedRank\":" + std::to_string(context->failed_rank) + "}";
  }
  return context->described.c_str();
}

int gpt2_set_workspace(gpt2_context *context, void *workspace, int64_t bytes) {
  GPT2_CHECK(context, that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes))
                          .that(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace aligned to 64 bytes"));
  context->workspace = workspace;
  context->workspace_bytes = bytes;
  return GPT2_OK;
}
