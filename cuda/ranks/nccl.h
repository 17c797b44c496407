// Declares the functions of NCCL that this library calls, as nccl.h of NCCL 2.18 and later does, so that building needs
// no NCCL. The library is opened when the first communicator is created.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace gpt2::nccl {

struct Id {
  char bytes[128];
};
struct Communicator;  // ncclComm

constexpr int kSuccess = 0, kUnhandledCudaError = 1, kInProgress = 7;
constexpr int kSum = 0;
constexpr int kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;

struct Library {
  int (*get_unique_id)(Id *id);
  int (*comm_init_rank)(Communicator **communicator, int ranks, Id id, int rank);
  int (*comm_destroy)(Communicator *communicator);
  int (*comm_abort)(Communicator *communicator);
  int (*comm_get_async_error)(Communicator *communicator, int *result);
  int (*group_start)();
  int (*group_end)();
  const char *(*get_error_string)(int result);
  const char *(*get_last_error)(Communicator *communicator);
  int (*all_reduce)(const void *in, void *out, size_t count, int type, int operation, Communicator *, cudaStream_t);
  int (*reduce_scatter)(const void *in, void *out, size_t count, int type, int operation, Communicator *, cudaStream_t);
  int (*all_gather)(const void *in, void *out, size_t count, int type, Communicator *, cudaStream_t);
};

// Opens libnccl.so.2, or the file that GPT2_NCCL_LIB names. On failure returns false, with the reason in `why`.
bool open(Library &library, std::string &why);

}  // namespace gpt2::nccl
