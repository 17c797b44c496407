// The CPU library's communicator and collectives, between processes of one machine over TCP on its loopback
// (loopback.h), so that training on several ranks can be tested without a GPU. Every rank sends its numbers to rank 0.
// Rank 0 receives them in the order of ranks, whichever is ready first, and sends back the result. Data moves in
// chunks, so no collective allocates memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../common/end-of-step.h"
#include "../runtime/checks.h"
#include "../runtime/ops.generated.h"
#include "loopback.h"

struct gpt2_communicator {
  gpt2::Loopback loopback;
  // A buffer for received floats: chunk_size of them; at rank 0, chunk_size for each rank.
  std::vector<float> chunk;
  std::vector<double> parts;  // one value from each rank
  std::string description;
};

const char *gpt2_communicator_description(gpt2_communicator *communicator) { return communicator->description.c_str(); }

namespace gpt2 {

namespace {

static_assert(sizeof(Loopback::Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// The most floats that are sent at a time.
constexpr int64_t chunk_size = 1 << 16;

size_t bytes_of(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

void check_fp32(int dtype) {
  if (dtype != GPT2_FP32) throw Failure{GPT2_UNSUPPORTED, "on a CPU tensors are fp32, not bf16"};
}

}  // namespace

void runtime::communicator_id(Context &context, void *id, int32_t is_one_machine) {
  check_tensors({{"id", id}});
  if (!is_one_machine) throw Failure{GPT2_UNSUPPORTED, "the CPU library joins ranks of one machine, for tests"};
  const Loopback::Id made = Loopback::open(context);
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
}

void runtime::communicator_create(Context &context, gpt2_communicator **communicator, const void *id, int32_t rank,
                                  int32_t ranks, int32_t timeout_milliseconds) {
  check_tensors({{"id", id}});
  check_rank(rank, ranks, timeout_milliseconds);
  Loopback::Id known{};
  std::memcpy(&known, id, sizeof known);
  std::vector<float> chunk(static_cast<size_t>(rank == 0 ? ranks : 1) * chunk_size);
  *communicator = new gpt2_communicator{
      {context, known, rank, ranks, timeout_milliseconds},
      std::move(chunk),
      std::vector<double>(ranks),
      "{\"carrier\":\"loopback\",\"parts\":" + std::to_string(ranks) + ",\"ordering\":\"\",\"reason\":\"\"}"};
}

void runtime::communicator_destroy(Context &, gpt2_communicator &communicator, int32_t) { delete &communicator; }

// Sharing memory does nothing, because all data goes over sockets.
void runtime::communicator_share(Context &, gpt2_communicator &, void *, int64_t) {}
void runtime::communicator_unshare(Context &, gpt2_communicator &, void *) {}

// Collectives are synchronous, so none is pending, and none can have failed since it returned.
void runtime::communicator_check(Context &, gpt2_communicator &) {}
void runtime::collectives_join(Context &, gpt2_communicator &) {}
void runtime::collectives_record(Context &context, gpt2_communicator &, gpt2_event &event) {
  event_record(context, event);
}
void runtime::collectives_group_begin(Context &, gpt2_communicator &) {}
void runtime::collectives_group_end(Context &, gpt2_communicator &) {}

void ops::all_reduce(Context &, void *data, gpt2_communicator &communicator, int64_t count, int dtype) {
  check_fp32(dtype);
  Loopback &loopback = communicator.loopback;
  loopback.begin("all_reduce", bytes_of(count));
  for (int64_t start = 0; start < count; start += chunk_size) {
    float *part = static_cast<float *>(data) + start;
    const int64_t size = std::min(chunk_size, count - start);
    const size_t bytes = bytes_of(size);
    if (loopback.rank() != 0) {
      loopback.to(0).send(part, bytes);
      loopback.to(0).receive(part, bytes);
      continue;
    }
    for (int rank = 1; rank < loopback.ranks(); rank++) {
      loopback.to(rank).receive(communicator.chunk.data(), bytes);
      for (int64_t i = 0; i < size; i++) part[i] += communicator.chunk[i];
    }
    for (int rank = 1; rank < loopback.ranks(); rank++) loopback.to(rank).send(part, bytes);
  }
}

void ops::reduce_scatter(Context &, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
                         int64_t stride, int dtype) {
  check_fp32(dtype);
  Loopback &loopback = communicator.loopback;
  const int ranks = loopback.ranks();
  loopback.begin("reduce_scatter", bytes_of(count));
  for (int owner = 0; owner < ranks; owner++) {
    for (int64_t start = 0; start < count; start += chunk_size) {
      const float *part = static_cast<const float *>(in) + owner * count + start;
      const size_t bytes = bytes_of(std::min(chunk_size, count - start));
      const auto row = [&](int rank) { return static_cast<float *>(out) + rank * stride + start; };
      if (loopback.rank() != 0) {
        loopback.to(0).send(part, bytes);
        for (int rank = 0; owner == loopback.rank() && rank < ranks; rank++) loopback.to(0).receive(row(rank), bytes);
        continue;
      }
      // Rank 0 receives all chunks before it sends any, because `owner` sends its chunk before it receives any.
      const auto chunk = [&](int rank) { return communicator.chunk.data() + rank * chunk_size; };
      std::memcpy(chunk(0), part, bytes);
      for (int rank = 1; rank < ranks; rank++) loopback.to(rank).receive(chunk(rank), bytes);
      for (int rank = 0; rank < ranks; rank++) {
        if (owner == 0) {
          std::memcpy(row(rank), chunk(rank), bytes);
        } else {
          loopback.to(owner).send(chunk(rank), bytes);
        }
      }
    }
  }
}

void ops::all_gather(Context &, void *out, const void *in, gpt2_communicator &communicator, int64_t count, int dtype) {
  check_fp32(dtype);
  communicator.loopback.all_gather(in, out, bytes_of(count));
}

void ops::global_norm(Context &context, float *step, void *matrices, const float *vectors,
                      gpt2_communicator *communicator, int parts, int64_t matrix_count, int64_t vector_count,
                      float targets, float max_norm) {
  float *sum = static_cast<float *>(matrices);
  for (int part = 1; part < parts; part++) {
    const float *row = sum + part * matrix_count;
    for (int64_t i = 0; i < matrix_count; i++) sum[i] += row[i];
  }
  const Task task = context.task();
  double squares = context.kernels->square_sum(task, sum, matrix_count);
  if (communicator) {
    communicator->loopback.all_gather(&squares, communicator->parts.data(), sizeof squares);
    squares = 0;
    for (const double of_rank : communicator->parts) squares += of_rank;
  }
  squares += context.kernels->square_sum(task, vectors, vector_count);
  end_of_step(step, std::sqrt(squares), targets, max_norm);
}

}  // namespace gpt2
