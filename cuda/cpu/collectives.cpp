// Collectives between processes of one machine, over TCP on its loopback, so that training on many ranks is tested
// without a GPU. A star: every rank gives its numbers to rank 0, which takes them in the order of ranks, whoever is
// ready first, and hands back what came of it; a chunk at a time, so that nothing is allocated. Each collective begins
// with what it is, so that ranks that have come apart find out. Waiting ends after a time, with the rank that was
// waited for.
#include "collectives.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "../runtime/checks.h"
#include "../runtime/ops.h"
#include "context.h"

using gpt2::Check;
using gpt2::fail;

struct gpt2_communicator {
  int rank = 0;
  int ranks = 1;
  int timeout = 0;  // milliseconds
  // Rank 0: to every rank, -1 for itself. Any other: one, to rank 0.
  std::vector<int> sockets;
  // What comes in, and what it is added to.
  std::vector<float> chunk, sum;
  // One of each rank.
  std::vector<double> parts;
  uint32_t issued = 0;

  ~gpt2_communicator() {
    for (const int socket : sockets) {
      if (socket >= 0) close(socket);
    }
  }
};

namespace {

using Clock = std::chrono::steady_clock;

// What GPT2_COMMUNICATOR_ID_SIZE bytes hold here.
struct Id {
  uint16_t port;
  unsigned char secret[32];
};
static_assert(sizeof(Id) <= GPT2_COMMUNICATOR_ID_SIZE, "an id must hold it");

// The first message of a rank.
struct Hello {
  unsigned char secret[32];
  int32_t rank;
  int32_t ranks;
};

enum Kind : uint32_t { kAllReduce, kReduceScatter, kAllGather };
const char *const kind_names[] = {"all_reduce", "reduce_scatter", "all_gather"};

// Begins every collective.
struct Head {
  uint32_t kind;
  uint32_t issued;  // collectives before it
  int64_t count;
};

// Floats handed over at a time.
constexpr int64_t chunk_size = 1 << 16;

// Ranks that wait for rank 0 give it the time to find out whom it waits for itself.
constexpr int patience_for_root = 5000;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket's failures, in words that name the rank at its other end.
class Peer {
 public:
  Peer(gpt2_context &context, const char *function, int socket, int rank, int timeout)
      : context_(context), function_(function), socket_(socket), rank_(rank), timeout_(timeout) {}

  int send(const void *data, size_t bytes) { return move(const_cast<void *>(data), bytes, POLLOUT); }
  int receive(void *data, size_t bytes) { return move(data, bytes, POLLIN); }

 private:
  int move(void *data, size_t bytes, short direction) {
    char *at = static_cast<char *>(data);
    while (bytes > 0) {
      if (const int status = wait(direction)) return status;
      const ssize_t moved = direction == POLLIN ? recv(socket_, at, bytes, MSG_DONTWAIT)
                                                : ::send(socket_, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (moved < 0) return refuse(std::string("is gone: ") + std::strerror(errno));
      if (moved == 0) return refuse("is gone: its connection is closed");
      at += moved;
      bytes -= static_cast<size_t>(moved);
    }
    return GPT2_OK;
  }

  int wait(short direction) {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_);
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd entry{socket_, direction, 0};
      const int ready = left > 0 ? poll(&entry, 1, static_cast<int>(left)) : 0;
      if (ready > 0) return GPT2_OK;
      if (ready == 0) return refuse("has not answered for " + std::to_string(timeout_ / 1000) + " s");
      if (errno != EINTR) return refuse(std::string("cannot be waited for: ") + std::strerror(errno));
    }
  }

  int refuse(const std::string &what) {
    return fail(&context_, GPT2_RANK_ERROR, function_, "rank " + std::to_string(rank_) + " " + what);
  }

  gpt2_context &context_;
  const char *function_;
  int socket_;
  int rank_;
  int timeout_;
};

Peer peer(gpt2_context &context, const char *function, gpt2_communicator &own, int rank) {
  const int patience = own.rank == 0 ? 0 : patience_for_root;
  return {context, function, own.sockets[own.rank == 0 ? rank : 0], rank, own.timeout + patience};
}

void prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
}

int system_failure(gpt2_context &context, const char *function, const char *what) {
  return fail(&context, GPT2_RANK_ERROR, function, std::string(what) + ": " + std::strerror(errno));
}

// Takes every other rank's connection; one that does not know the secret is nobody's.
int accept_ranks(gpt2_context &context, const char *function, gpt2_communicator &own, const Id &id) {
  const int listener = gpt2::cpu(context).listener;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(own.timeout);
  for (int missing = own.ranks - 1; missing > 0;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd entry{listener, POLLIN, 0};
    const int ready = left > 0 ? poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return system_failure(context, function, "cannot wait for ranks");
    if (ready == 0) {
      const auto absent = std::find(own.sockets.begin() + 1, own.sockets.end(), -1) - own.sockets.begin();
      return fail(
          &context, GPT2_RANK_ERROR, function,
          "rank " + std::to_string(absent) + " did not come within " + std::to_string(own.timeout / 1000) + " s");
    }
    const int socket = accept(listener, nullptr, nullptr);
    if (socket < 0) continue;
    prepare(socket);
    Hello hello{};
    const bool is_one = Peer(context, function, socket, -1, 1000).receive(&hello, sizeof hello) == GPT2_OK &&
                        std::memcmp(hello.secret, id.secret, sizeof id.secret) == 0 && hello.ranks == own.ranks &&
                        hello.rank > 0 && hello.rank < own.ranks && own.sockets[hello.rank] < 0;
    if (!is_one) {
      close(socket);
      continue;
    }
    own.sockets[hello.rank] = socket;
    missing--;
  }
  return GPT2_OK;
}

int connect_to_root(gpt2_context &context, const char *function, gpt2_communicator &own, const Id &id) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (socket < 0) return system_failure(context, function, "cannot make a socket");
  own.sockets[0] = socket;
  prepare(socket);
  const sockaddr_in address = loopback(id.port);
  if (connect(socket, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
    return system_failure(context, function, "cannot connect to rank 0");
  }
  Hello hello{};
  std::memcpy(hello.secret, id.secret, sizeof id.secret);
  hello.rank = own.rank;
  hello.ranks = own.ranks;
  return peer(context, function, own, 0).send(&hello, sizeof hello);
}

std::string described(const Head &head) {
  return std::string(head.kind <= kAllGather ? kind_names[head.kind] : "something else") + " of " +
         std::to_string(head.count) + " as number " + std::to_string(head.issued);
}

int begin(gpt2_context &context, const char *function, gpt2_communicator &own, Kind kind, int64_t count) {
  const Head head{kind, own.issued++, count};
  if (own.rank != 0) return peer(context, function, own, 0).send(&head, sizeof head);
  for (int rank = 1; rank < own.ranks; rank++) {
    Head other{};
    if (const int status = peer(context, function, own, rank).receive(&other, sizeof other)) return status;
    if (other.kind == head.kind && other.issued == head.issued && other.count == head.count) continue;
    return fail(&context, GPT2_RANK_ERROR, function,
                "rank " + std::to_string(rank) + " issued " + described(other) + ", rank 0 " + described(head));
  }
  return GPT2_OK;
}

// sum [count] at rank 0 = its own `in` plus rank 1's, rank 2's, ...; elsewhere `in` is given away.
int reduce_to_root(gpt2_context &context, const char *function, gpt2_communicator &own, float *sum, const float *in,
                   int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (own.rank != 0) return peer(context, function, own, 0).send(in, bytes);
  if (sum != in) std::memcpy(sum, in, bytes);
  for (int rank = 1; rank < own.ranks; rank++) {
    if (const int status = peer(context, function, own, rank).receive(own.chunk.data(), bytes)) return status;
    for (int64_t i = 0; i < count; i++) sum[i] += own.chunk[i];
  }
  return GPT2_OK;
}

int refuse_bf16(gpt2_context &context, const char *function) {
  return fail(&context, GPT2_UNSUPPORTED, function, "the CPU library has no bf16, only fp32");
}

}  // namespace

int gpt2_communicator_id(gpt2_context *context, void *id) {
  Check check(context, __func__);
  if (check.tensors({{"id", id}}).failed()) return check.status();
  gpt2::CpuContext &own = gpt2::cpu(*context);
  if (own.listener >= 0) close(own.listener);
  own.listener = socket(AF_INET, SOCK_STREAM, 0);
  if (own.listener < 0) return system_failure(*context, __func__, "cannot make a socket");
  prepare(own.listener);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(own.listener, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(own.listener, 64) != 0 ||
      getsockname(own.listener, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
    return system_failure(*context, __func__, "cannot listen on the loopback");
  }
  Id made{};
  made.port = address.sin_port;
  if (getrandom(made.secret, sizeof made.secret, 0) != sizeof made.secret) {
    return system_failure(*context, __func__, "cannot draw a secret");
  }
  std::memset(id, 0, GPT2_COMMUNICATOR_ID_SIZE);
  std::memcpy(id, &made, sizeof made);
  return GPT2_OK;
}

int gpt2_communicator_create(gpt2_context *context, gpt2_communicator **communicator, const void *id, int32_t rank,
                             int32_t ranks, int32_t timeout_milliseconds) {
  Check check(context, __func__);
  check.tensors({{"communicator", communicator}, {"id", id}})
      .that(ranks >= 2 && rank >= 0 && rank < ranks,
            "one of at least 2 ranks, got rank " + std::to_string(rank) + " of " + std::to_string(ranks))
      .sizes({{"timeout_milliseconds", timeout_milliseconds}})
      .that(rank != 0 || gpt2::cpu(*context).listener >= 0, "gpt2_communicator_id of the same context before");
  if (check.failed()) return check.status();
  Id known{};
  std::memcpy(&known, id, sizeof known);
  std::unique_ptr<gpt2_communicator> own;
  try {
    own = std::make_unique<gpt2_communicator>();
    own->rank = rank;
    own->ranks = ranks;
    own->timeout = timeout_milliseconds;
    own->sockets.assign(rank == 0 ? ranks : 1, -1);
    own->chunk.resize(chunk_size);
    own->sum.resize(chunk_size);
    own->parts.resize(ranks);
  } catch (const std::bad_alloc &) {
    return fail(context, GPT2_OUT_OF_MEMORY, __func__, "cannot allocate a communicator");
  }
  const int status =
      rank == 0 ? accept_ranks(*context, __func__, *own, known) : connect_to_root(*context, __func__, *own, known);
  if (status == GPT2_OK) *communicator = own.release();
  return status;
}

int gpt2_communicator_destroy(gpt2_context *, gpt2_communicator *communicator, int32_t) {
  delete communicator;
  return GPT2_OK;
}

// A collective has failed or succeeded when it returns.
int gpt2_communicator_check(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_join(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_record(gpt2_context *context, gpt2_communicator *, gpt2_event *event) {
  return gpt2_event_record(context, event);
}
int gpt2_collectives_group_begin(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }
int gpt2_collectives_group_end(gpt2_context *, gpt2_communicator *) { return GPT2_OK; }

namespace gpt2::ops {

int all_reduce(gpt2_context &context, void *data, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_reduce";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  if (const int status = begin(context, function, own, kAllReduce, count)) return status;
  for (int64_t start = 0; start < count; start += chunk_size) {
    float *part = static_cast<float *>(data) + start;
    const int64_t size = std::min(chunk_size, count - start);
    const size_t bytes = static_cast<size_t>(size) * sizeof(float);
    if (const int status = reduce_to_root(context, function, own, part, part, size)) return status;
    if (own.rank != 0) {
      if (const int status = peer(context, function, own, 0).receive(part, bytes)) return status;
    }
    for (int rank = 1; own.rank == 0 && rank < own.ranks; rank++) {
      if (const int status = peer(context, function, own, rank).send(part, bytes)) return status;
    }
  }
  return GPT2_OK;
}

int reduce_scatter(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_reduce_scatter";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  if (const int status = begin(context, function, own, kReduceScatter, count)) return status;
  for (int owner = 0; owner < own.ranks; owner++) {
    for (int64_t start = 0; start < count; start += chunk_size) {
      const float *part = static_cast<const float *>(in) + owner * count + start;
      const int64_t size = std::min(chunk_size, count - start);
      const size_t bytes = static_cast<size_t>(size) * sizeof(float);
      if (const int status = reduce_to_root(context, function, own, own.sum.data(), part, size)) return status;
      float *to = static_cast<float *>(out) + start;
      int status = GPT2_OK;
      if (own.rank == 0 && owner == 0) std::memcpy(to, own.sum.data(), bytes);
      if (own.rank == 0 && owner != 0) status = peer(context, function, own, owner).send(own.sum.data(), bytes);
      if (own.rank != 0 && owner == own.rank) status = peer(context, function, own, 0).receive(to, bytes);
      if (status != GPT2_OK) return status;
    }
  }
  return GPT2_OK;
}

int all_gather(gpt2_context &context, void *out, const void *in, gpt2_communicator &own, int64_t count, int dtype) {
  const char *function = "gpt2_all_gather";
  if (dtype != GPT2_FP32) return refuse_bf16(context, function);
  if (const int status = begin(context, function, own, kAllGather, count)) return status;
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  float *all = static_cast<float *>(out);
  if (own.rank != 0) {
    Peer root = peer(context, function, own, 0);
    if (const int status = root.send(in, bytes)) return status;
    return root.receive(all, bytes * own.ranks);
  }
  if (all != in) std::memcpy(all, in, bytes);
  for (int rank = 1; rank < own.ranks; rank++) {
    if (const int status = peer(context, function, own, rank).receive(all + rank * count, bytes)) return status;
  }
  for (int rank = 1; rank < own.ranks; rank++) {
    if (const int status = peer(context, function, own, rank).send(all, bytes * own.ranks)) return status;
  }
  return GPT2_OK;
}

int sum_over_ranks(gpt2_context &context, double &value, gpt2_communicator &own) {
  // A double takes two floats.
  if (const int status = all_gather(context, own.parts.data(), &value, own, 2, GPT2_FP32)) return status;
  value = 0;
  for (const double part : own.parts) value += part;
  return GPT2_OK;
}

}  // namespace gpt2::ops
