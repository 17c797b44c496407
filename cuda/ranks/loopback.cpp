// TCP on the loopback: joining, sending and receiving with timeouts; see loopback.h.
#include "loopback.h"

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

namespace gpt2 {

namespace {

using Clock = std::chrono::steady_clock;

// The first message of every rank but 0.
struct Hello {
  unsigned char secret[32];
  int32_t rank;
  int32_t ranks;
};

// The first message of every exchange, which detects ranks that begin different exchanges.
struct Head {
  char what[16];
  uint64_t bytes;
  uint64_t number;
};

std::string text_of(const Head &head) {
  return std::string(head.what, strnlen(head.what, sizeof head.what)) + " of " + std::to_string(head.bytes) +
         " bytes as number " + std::to_string(head.number);
}

// The other ranks wait this many milliseconds longer for rank 0, so that rank 0 reports first which rank is missing.
constexpr int extra_timeout_for_root = 5000;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection that the other side has closed must fail with EPIPE instead of ending the process.
#ifdef MSG_NOSIGNAL
constexpr int no_signal = MSG_NOSIGNAL;
#else
constexpr int no_signal = 0;  // macOS has an option of the socket instead
#endif

void prepare(int socket) {
  const int on = 1;
#ifdef SO_NOSIGPIPE
  setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
}

int system_failure(gpt2_context &context, const char *function, const char *what) {
  return fail(&context, GPT2_RANK_ERROR, function, std::string(what) + ": " + std::strerror(errno));
}

// The result of poll on one socket: positive when it is ready, 0 when the time is over.
int poll_until(Clock::time_point end, int socket, short direction) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd entry{socket, direction, 0};
    const int ready = left > 0 ? poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

}  // namespace

int Loopback::Connection::move(void *data, size_t bytes, bool receives) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    if (const int status = wait(receives ? POLLIN : POLLOUT)) return status;
    const ssize_t moved =
        receives ? recv(socket_, at, bytes, MSG_DONTWAIT) : ::send(socket_, at, bytes, MSG_DONTWAIT | no_signal);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // A process that is killed with unread data resets its connection; sending after that is EPIPE.
    const bool closed = moved == 0 || errno == ECONNRESET || errno == EPIPE;
    if (moved <= 0) return refuse(std::string("is gone: ") + (closed ? "its connection is closed" : std::strerror(errno)));
    at += moved;
    bytes -= static_cast<size_t>(moved);
  }
  return GPT2_OK;
}

int Loopback::Connection::wait(short direction) {
  const int ready = poll_until(Clock::now() + std::chrono::milliseconds(timeout_), socket_, direction);
  if (ready > 0) return GPT2_OK;
  if (ready == 0) return refuse("has not answered for " + std::to_string(timeout_ / 1000) + " s");
  return refuse(std::string("cannot be polled: ") + std::strerror(errno));
}

int Loopback::Connection::refuse(const std::string &what) {
  return fail(&context_, GPT2_RANK_ERROR, function_, "rank " + std::to_string(rank_) + " " + what, rank_);
}

Loopback::Loopback(int rank, int ranks, int timeout) : rank_(rank), ranks_(ranks), timeout_(timeout) {
  sockets_.assign(static_cast<size_t>(rank == 0 ? ranks : 1), -1);
}

Loopback::~Loopback() {
  for (const int socket : sockets_) {
    if (socket >= 0) close(socket);
  }
}

Loopback::Connection Loopback::to(gpt2_context &context, int rank, const char *function) {
  return {context, function, sockets_[rank_ == 0 ? rank : 0], rank,
          timeout_ + (rank_ == 0 ? 0 : extra_timeout_for_root)};
}

int Loopback::open(gpt2_context &context, Id &id, const char *function) {
  int &listener = context.listener;
  if (listener >= 0) close(listener);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) return system_failure(context, function, "cannot create a socket");
  prepare(listener);
  // A connection that ends between poll and accept must not block accept.
  fcntl(listener, F_SETFL, O_NONBLOCK);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
    return system_failure(context, function, "cannot listen on the loopback");
  }
  id.port = address.sin_port;
  if (getentropy(id.secret, sizeof id.secret) != 0) {
    return system_failure(context, function, "cannot get random bytes for the secret");
  }
  return GPT2_OK;
}

int Loopback::join(gpt2_context &context, std::unique_ptr<Loopback> &joined, const Id &id, int rank, int ranks,
                   int timeout_milliseconds, const char *function) {
  if (rank == 0 && context.listener < 0) {
    return fail(&context, GPT2_INVALID_ARGUMENT, function,
                "expected gpt2_communicator_id to be called first, with the same context");
  }
  auto made = std::unique_ptr<Loopback>(new Loopback(rank, ranks, timeout_milliseconds));
  const int status =
      rank == 0 ? made->accept_ranks(context, id, function) : made->connect_to_root(context, id, function);
  if (status == GPT2_OK) joined = std::move(made);
  return status;
}

// Accepts a connection from every other rank; closes connections that do not send the secret.
int Loopback::accept_ranks(gpt2_context &context, const Id &id, const char *function) {
  const int listener = context.listener;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_);
  for (int missing = ranks_ - 1; missing > 0;) {
    const int ready = poll_until(end, listener, POLLIN);
    if (ready < 0) return system_failure(context, function, "cannot poll for ranks");
    if (ready == 0) {
      const auto absent = std::find(sockets_.begin() + 1, sockets_.end(), -1) - sockets_.begin();
      const int rank = static_cast<int>(absent);
      return fail(
          &context, GPT2_RANK_ERROR, function,
          "rank " + std::to_string(rank) + " did not connect within " + std::to_string(timeout_ / 1000) + " s", rank);
    }
    const int socket = accept(listener, nullptr, nullptr);
    if (socket < 0) continue;
    prepare(socket);
    Hello hello{};
    const bool is_one = Connection(context, function, socket, -1, 1000).receive(&hello, sizeof hello) == GPT2_OK &&
                        std::memcmp(hello.secret, id.secret, sizeof id.secret) == 0 && hello.ranks == ranks_ &&
                        hello.rank > 0 && hello.rank < ranks_ && sockets_[hello.rank] < 0;
    if (!is_one) {
      close(socket);
      continue;
    }
    sockets_[hello.rank] = socket;
    missing--;
  }
  return GPT2_OK;
}

int Loopback::connect_to_root(gpt2_context &context, const Id &id, const char *function) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (socket < 0) return system_failure(context, function, "cannot create a socket");
  sockets_[0] = socket;
  prepare(socket);
  const sockaddr_in address = loopback(id.port);
  if (connect(socket, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
    return system_failure(context, function, "cannot connect to rank 0");
  }
  Hello hello{};
  std::memcpy(hello.secret, id.secret, sizeof id.secret);
  hello.rank = rank_;
  hello.ranks = ranks_;
  return to(context, 0, function).send(&hello, sizeof hello);
}

void Loopback::abandon() const {
  for (const int socket : sockets_) {
    if (socket >= 0) shutdown(socket, SHUT_RDWR);
  }
}

int Loopback::begin(gpt2_context &context, const char *what, size_t bytes, const char *function) {
  Head head{{}, bytes, begun_++};
  std::strncpy(head.what, what, sizeof head.what - 1);
  if (rank_ != 0) return to(context, 0, function).send(&head, sizeof head);
  for (int rank = 1; rank < ranks_; rank++) {
    Head other;
    if (const int status = to(context, rank, function).receive(&other, sizeof other)) return status;
    if (std::memcmp(&head, &other, sizeof head) == 0) continue;
    return fail(&context, GPT2_RANK_ERROR, function,
                "rank " + std::to_string(rank) + " enqueued " + text_of(other) + ", rank 0 " + text_of(head), rank);
  }
  return GPT2_OK;
}

int Loopback::all_gather(gpt2_context &context, const void *in, void *all, size_t bytes, const char *function) {
  if (const int status = begin(context, "all_gather", bytes, function)) return status;
  char *rows = static_cast<char *>(all);
  if (rank_ != 0) {
    Connection root = to(context, 0, function);
    if (const int status = root.send(in, bytes)) return status;
    return root.receive(rows, bytes * ranks_);
  }
  if (all != in) std::memcpy(rows, in, bytes);
  for (int rank = 1; rank < ranks_; rank++) {
    if (const int status = to(context, rank, function).receive(rows + rank * bytes, bytes)) return status;
  }
  for (int rank = 1; rank < ranks_; rank++) {
    if (const int status = to(context, rank, function).send(rows, bytes * ranks_)) return status;
  }
  return GPT2_OK;
}

}  // namespace gpt2
