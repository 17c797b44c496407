// Finds NCCL's functions; see nccl.h.
#include "nccl.h"

#include <dlfcn.h>

#include <cstdlib>

namespace gpt2::nccl {

namespace {

template <class Function>
bool find(void *library, const char *name, Function &function, std::string &why) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) why = std::string("it lacks ") + name;
  return function != nullptr;
}

}  // namespace

bool open(Library &library, std::string &why) {
  const char *variable = std::getenv("GPT2_NCCL_LIB");
  const char *path = variable && *variable ? variable : "libnccl.so.2";
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char *reason = dlerror();
    why = std::string("NCCL is needed, and ") + path + " cannot be opened: " + (reason ? reason : "no reason given") +
          "; install NCCL, or set GPT2_NCCL_LIB to the path of its libnccl.so.2";
    return false;
  }
  const bool is_complete = find(opened, "ncclGetUniqueId", library.get_unique_id, why) &&
                           find(opened, "ncclCommInitRank", library.comm_init_rank, why) &&
                           find(opened, "ncclCommDestroy", library.comm_destroy, why) &&
                           find(opened, "ncclCommAbort", library.comm_abort, why) &&
                           find(opened, "ncclCommGetAsyncError", library.comm_get_async_error, why) &&
                           find(opened, "ncclGroupStart", library.group_start, why) &&
                           find(opened, "ncclGroupEnd", library.group_end, why) &&
                           find(opened, "ncclGetErrorString", library.get_error_string, why) &&
                           find(opened, "ncclGetLastError", library.get_last_error, why) &&
                           find(opened, "ncclAllReduce", library.all_reduce, why) &&
                           find(opened, "ncclReduceScatter", library.reduce_scatter, why) &&
                           find(opened, "ncclAllGather", library.all_gather, why);
  if (!is_complete) why = std::string(path) + " is not a usable NCCL: " + why;
  return is_complete;
}

}  // namespace gpt2::nccl
