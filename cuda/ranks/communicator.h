// The CUDA library's communicator: peers (the GPUs' copy engines) or NCCL, and the stream of its collectives.
#pragma once

#include <memory>
#include <string>

#include "nccl.h"
#include "peers.h"

struct gpt2_communicator {
  std::unique_ptr<gpt2::Peers> peers;  // carries all data if set; otherwise NCCL does
  gpt2::nccl::Library library{};
  gpt2::nccl::Communicator *joined = nullptr;
  cudaStream_t stream = nullptr;
  // Events. begin: the context's stream reached a collective. end: the communicator's stream ended the last collective.
  cudaEvent_t begin = nullptr, end = nullptr;
  bool pending = false;  // whether collectives were enqueued since the last join
  std::string description;

  ~gpt2_communicator();
};

namespace gpt2 {

// Throws the error of an NCCL call, unless `result` is success or in progress.
void check_nccl(const gpt2_communicator &, int result);

// value [1] in device memory = the sum of all ranks' values (collectives.cpp); the context's stream waits for the sum.
void sum_over_ranks(CudaContext &, double *value, gpt2_communicator &);

}  // namespace gpt2
