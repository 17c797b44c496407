// The functions of a context that are the same in both libraries.
#include <cstdint>
#include <new>
#include <string>

#include "checks.h"
#include "ops.generated.h"

int gpt2_abi_version(void) { return GPT2_ABI_VERSION; }

int gpt2_context_create(gpt2_context **context, int32_t device, int32_t dtype, int32_t threads, int32_t accumulates) {
  if (!context) return GPT2_INVALID_ARGUMENT;
  auto *opened = new (std::nothrow) gpt2::Context;
  *context = opened;
  if (!opened) return GPT2_OUT_OF_MEMORY;
  try {
    gpt2::open_context(*opened, device, dtype, threads, accumulates != 0);
    return GPT2_OK;
  } catch (...) {
    return gpt2::thrown(opened, __func__);
  }
}

int gpt2_context_destroy(gpt2_context *context) {
  delete context;
  return GPT2_OK;
}

const char *gpt2_last_error(gpt2_context *context) { return context->error.c_str(); }
const char *gpt2_context_description(gpt2_context *context) {
  context->described = context->description;
  if (context->failed_rank >= 0) {
    context->described.back() = ',';
    context->described += "\"failedRank\":" + std::to_string(context->failed_rank) + "}";
  }
  return context->described.c_str();
}

void gpt2::runtime::set_workspace(Context &context, void *workspace, int64_t bytes) {
  check_that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes));
  check_that(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace aligned to 64 bytes");
  context.workspace = workspace;
  context.workspace_bytes = bytes;
}
