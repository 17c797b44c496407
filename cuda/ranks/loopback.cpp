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

// The first message of a rank to rank 0.
struct Hello {
  unsigned char secret[32];
  int32_t rank;
  int32_t ranks;
};

// Begins every exchange: name, size and index, by which rank 0 detects that ranks begin different exchanges.
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

[[noreturn]] void system_failure(const char *what) {
  throw Failure{GPT2_RANK_ERROR, std::string(what) + ": " + std::strerror(errno)};
}

// The result of poll on one socket: positive if the socket is ready, 0 if the time is over, negative on an error.
int poll_until(Clock::time_point end, int socket, short direction) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd entry{socket, direction, 0};
    const int ready = left > 0 ? poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

}  // namespace

void Loopback::Connection::move(void *data, size_t bytes, bool receives) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    wait(receives ? POLLIN : POLLOUT);
    const ssize_t moved =
        receives ? recv(socket_, at, bytes, MSG_DONTWAIT) : ::send(socket_, at, bytes, MSG_DONTWAIT | no_signal);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // A process that is killed with unread data resets its connection; later sends fail with EPIPE.
    const bool closed = moved == 0 || errno == ECONNRESET || errno == EPIPE;
    if (moved <= 0) refuse(std::string("is gone: ") + (closed ? "its connection is closed" : std::strerror(errno)));
    at += moved;
    bytes -= static_cast<size_t>(moved);
  }
}

void Loopback::Connection::wait(short direction) {
  const int ready = poll_until(Clock::now() + std::chrono::milliseconds(timeout_), socket_, direction);
  if (ready == 0) refuse("has not answered for " + std::to_string(timeout_ / 1000) + " s");
  if (ready < 0) refuse(std::string("cannot be polled: ") + std::strerror(errno));
}

void Loopback::Connection::refuse(const std::string &what) {
  throw Failure{GPT2_RANK_ERROR, "rank " + std::to_string(rank_) + " " + what, rank_};
}

Loopback::~Loopback() { close_all(); }

void Loopback::close_all() {
  for (const int socket : sockets_) {
    if (socket >= 0) close(socket);
  }
}

Loopback::Connection Loopback::to(int rank) {
  return {sockets_[rank_ == 0 ? rank : 0], rank, timeout_ + (rank_ == 0 ? 0 : extra_timeout_for_root)};
}

Loopback::Id Loopback::open(gpt2_context &context) {
  int &listener = context.listener;
  if (listener >= 0) close(listener);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) system_failure("cannot create a socket");
  prepare(listener);
  // A connection that ends between poll and accept must not block accept.
  fcntl(listener, F_SETFL, O_NONBLOCK);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
    system_failure("cannot listen on the loopback");
  }
  Id id{address.sin_port, {}};
  if (getentropy(id.secret, sizeof id.secret) != 0) system_failure("cannot get random bytes for the secret");
  return id;
}

Loopback::Loopback(gpt2_context &context, const Id &id, int rank, int ranks, int timeout_milliseconds)
    : rank_(rank), ranks_(ranks), timeout_(timeout_milliseconds), sockets_(static_cast<size_t>(rank == 0 ? ranks : 1), -1) {
  if (rank == 0 && context.listener < 0) {
    throw Failure{GPT2_INVALID_ARGUMENT, "expected gpt2_communicator_id to be called first, with the same context"};
  }
  try {
    rank == 0 ? accept_ranks(context.listener, id) : connect_to_root(id);
  } catch (...) {
    close_all();
    throw;
  }
}

// Accepts a connection from every other rank; closes connections that do not send the secret.
void Loopback::accept_ranks(int listener, const Id &id) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_);
  const auto is_a_rank = [&](int socket, Hello &hello) {
    try {
      Connection(socket, -1, 1000).receive(&hello, sizeof hello);
    } catch (const Failure &) {
      return false;
    }
    return std::memcmp(hello.secret, id.secret, sizeof id.secret) == 0 && hello.ranks == ranks_ && hello.rank > 0 &&
           hello.rank < ranks_ && sockets_[hello.rank] < 0;
  };
  for (int missing = ranks_ - 1; missing > 0;) {
    const int ready = poll_until(end, listener, POLLIN);
    if (ready < 0) system_failure("cannot poll for ranks");
    if (ready == 0) {
      const auto absent = std::find(sockets_.begin() + 1, sockets_.end(), -1) - sockets_.begin();
      Connection(-1, static_cast<int>(absent), 0)
          .refuse("did not connect within " + std::to_string(timeout_ / 1000) + " s");
    }
    const int socket = accept(listener, nullptr, nullptr);
    if (socket < 0) continue;
    prepare(socket);
    Hello hello{};
    if (!is_a_rank(socket, hello)) {
      close(socket);
      continue;
    }
    sockets_[hello.rank] = socket;
    missing--;
  }
}

void Loopback::connect_to_root(const Id &id) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (socket < 0) system_failure("cannot create a socket");
  sockets_[0] = socket;
  prepare(socket);
  const sockaddr_in address = loopback(id.port);
  if (connect(socket, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
    system_failure("cannot connect to rank 0");
  }
  Hello hello{};
  std::memcpy(hello.secret, id.secret, sizeof id.secret);
  hello.rank = rank_;
  hello.ranks = ranks_;
  to(0).send(&hello, sizeof hello);
}

void Loopback::abandon() const {
  for (const int socket : sockets_) {
    if (socket >= 0) shutdown(socket, SHUT_RDWR);
  }
}

void Loopback::begin(const char *what, size_t bytes) {
  Head head{{}, bytes, begun_++};
  std::strncpy(head.what, what, sizeof head.what - 1);
  if (rank_ != 0) return to(0).send(&head, sizeof head);
  for (int rank = 1; rank < ranks_; rank++) {
    Head other;
    Connection connection = to(rank);
    connection.receive(&other, sizeof other);
    if (std::memcmp(&head, &other, sizeof head) == 0) continue;
    connection.refuse("enqueued " + text_of(other) + ", rank 0 " + text_of(head));
  }
}

void Loopback::all_gather(const void *in, void *all, size_t bytes) {
  begin("all_gather", bytes);
  char *rows = static_cast<char *>(all);
  if (rank_ != 0) {
    to(0).send(in, bytes);
    return to(0).receive(rows, bytes * ranks_);
  }
  if (all != in) std::memcpy(rows, in, bytes);
  for (int rank = 1; rank < ranks_; rank++) to(rank).receive(rows + rank * bytes, bytes);
  for (int rank = 1; rank < ranks_; rank++) to(rank).send(rows, bytes * ranks_);
}

}  // namespace gpt2
