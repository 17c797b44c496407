// The CPU library's communicator and collectives, between processes of one machine over TCP on its loopback
// (loopback.h), so that training on several ranks can be tested without a GPU. Every rank sends its numbers to rank 0.
// Rank 0 receives them in the order of ranks, whichever is ready first, and sends back the result. Data moves in
// chunks, so nothing is allocated.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../common/end-of-step.h"
#include "../cpu/context.h"
#include "../runtime/checks.h"
#include "../runtime/ops.generated.h"
#include "loopback.h"

using gpt2::fail;
using gpt2::Loopback;

struct gpt2_communicator {
  std::unique_ptr<Loopback> loopback;
  // A buffer for received floats; at rank 0, a chunk for each rank.
  std::vector<float> chunk;
  std::vector<double> parts;  // one value from each rank
  std::string description;
};

namespace {

static_assert(sizeof(Loopback::Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// Floats sent at a time.
constexpr int64_t chunk_size = 1 << 16;

size_t bytes_of(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

int refuse_bf16(gpt2_context &context, const char *function) {
  return fail(&context, GPT2_UNSUPPORTED, function, "on a CPU tensors are fp32, not bf16");
}

}  // namespace

int gpt2_communicator_id(gpt2_context *context, void *id, int32_t is_one_machine) try {
  GPT2_CHECK(context, tensors({{"id", id}}));
  if (!is_one_machine) {
    return fail(context, GPT2_UNSUPPORTED, __func__, "the CPU library joins ranks of one machine, for tests");
  }
  Loopback::Id made{};
  if (const int status = Loopback::open(*context, made, __func__)) return status;
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
  return GPT2_OK;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
                             int32_t ranks, int32_t timeout_milliseconds) try {
  GPT2_CHECK(context, tensors({{"communicator", communicator}, {"id", id}}).rank(rank, ranks, timeout_milliseconds));
  Loopback::Id known{};
  std::memcpy(&known, id, sizeof known);
  auto created = std::make_unique<gpt2_communicator>();
  created->chunk.resize(static_cast<size_t>(rank == 0 ? ranks : 1) * chunk_size);
  created->parts.resize(ranks);
  created->description =
      "{\"carrier\":\"loopback\",\"parts\":" + std::to_string(ranks) + ",\"ordering\":\"\",\"reason\":\"\"}";
  const int status = Loopback::join(*context, created->loopback, known, rank, ranks, timeout_milliseconds, __func__);
  if (status == GPT2_OK) *communicator = created.release();
  return status;
} catch (...) {
  return gpt2::thrown(context, __func__);
}

int gpt2_communicator_destroy(gpt2_context *, gpt2_communicator *communicator, int32_t) {
  delete communicator;
  return GPT2_OK;
}

const char *gpt2_communicator_description(gpt2_communicator *communicator) { return communicator->description.c_str(); }

// Sharing does nothing, because all data goes over sockets.
int gpt2_communicator_share(gpt2_context *, gpt2_communicator *, void *, int64_t) { return GPT2_OK; }
int gpt2_communicator_unshare(gpt2_context *, gpt2_communicator *, void *) { return GPT2_OK; }

// Collectives are synchronous, so nothing is pending that could have failed.
int gpt2_communicator_check(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_join(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *, gpt2_event *event) {
  return gpt2_event_record(context, event);
}
int gpt2_collectives_group_begin(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_group_end(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }

namespace gpt2::ops {

int all_reduce(gpt2_context &context, void *data, gpt2_communicator &communicator, int64_t count, int dtype) {
  const char *function = "gpt2_all_reduce";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  Loopback &loopback = *communicator.loopback;
  if (const int status = loopback.begin(context, "all_reduce", bytes_of(count), function)) return status;
  for (int64_t start = 0; start < count; start += chunk_size) {
    float *part = static_cast<float *>(data) + start;
    const int64_t size = std::min(chunk_size, count - start);
    const size_t bytes = bytes_of(size);
    if (loopback.rank() != 0) {
      Loopback::Connection root = loopback.to(context, 0, function);
      if (const int status = root.send(part, bytes)) return status;
      if (const int status = root.receive(part, bytes)) return status;
      continue;
    }
    for (int rank = 1; rank < loopback.ranks(); rank++) {
      if (const int status = loopback.to(context, rank, function).receive(communicator.chunk.data(), bytes))
        return status;
      for (int64_t i = 0; i < size; i++) part[i] += communicator.chunk[i];
    }
    for (int rank = 1; rank < loopback.ranks(); rank++) {
      if (const int status = loopback.to(context, rank, function).send(part, bytes)) return status;
    }
  }
  return GPT2_OK;
}

int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
                   int64_t stride, int dtype) {
  const char *function = "gpt2_reduce_scatter";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  Loopback &loopback = *communicator.loopback;
  const int ranks = loopback.ranks();
  if (const int status = loopback.begin(context, "reduce_scatter", bytes_of(count), function)) return status;
  for (int owner = 0; owner < ranks; owner++) {
    for (int64_t start = 0; start < count; start += chunk_size) {
      const float *part = static_cast<const float *>(in) + owner * count + start;
      const size_t bytes = bytes_of(std::min(chunk_size, count - start));
      const auto row = [&](int rank) { return static_cast<float *>(out) + rank * stride + start; };
      if (loopback.rank() != 0) {
        Loopback::Connection root = loopback.to(context, 0, function);
        if (const int status = root.send(part, bytes)) return status;
        for (int rank = 0; owner == loopback.rank() && rank < ranks; rank++) {
          if (const int status = root.receive(row(rank), bytes)) return status;
        }
        continue;
      }
      // Rank 0 receives all chunks before it sends any, because an owner receives only after it has sent its chunk.
      const auto chunk = [&](int rank) { return communicator.chunk.data() + rank * chunk_size; };
      std::memcpy(chunk(0), part, bytes);
      for (int rank = 1; rank < ranks; rank++) {
        if (const int status = loopback.to(context, rank, function).receive(chunk(rank), bytes)) return status;
      }
      for (int rank = 0; rank < ranks; rank++) {
        if (owner == 0) {
          std::memcpy(row(rank), chunk(rank), bytes);
        } else if (const int status = loopback.to(context, owner, function).send(chunk(rank), bytes)) {
          return status;
        }
      }
    }
  }
  return GPT2_OK;
}

int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &communicator, int64_t count,
               int dtype) {
  const char *function = "gpt2_all_gather";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  return communicator.loopback->all_gather(context, in, out, bytes_of(count), function);
}

int global_norm(gpt2_context &context, float *step, void *matrices, const float *vectors,
                gpt2_communicator *communicator, int parts, int64_t matrix_count, int64_t vector_count,
                float targets, float max_norm) {
  float *sum = static_cast<float *>(matrices);
  for (int part = 1; part < parts; part++) {
    const float *row = sum + part * matrix_count;
    for (int64_t i = 0; i < matrix_count; i++) sum[i] += row[i];
  }
  const CpuContext &device = cpu(context);
  const Task task = device.task();
  double squares = device.kernels->square_sum(task, sum, matrix_count);
  if (communicator) {
    // A double has the size of two floats.
    const int status = all_gather(context, communicator->parts.data(), &squares, *communicator, 2, GPT2_FP32);
    if (status) return status;
    squares = 0;
    for (const double of_rank : communicator->parts) squares += of_rank;
  }
  squares += device.kernels->square_sum(task, vectors, vector_count);
  const double norm = std::sqrt(squares);
  end_of_step(step, norm, targets, max_norm);
  return GPT2_OK;
}

}  // namespace gpt2::ops
