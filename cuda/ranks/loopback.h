// Connects the processes of one machine over TCP on its loopback, as a star with rank 0 at its centre. The CPU
// library's collectives use the connections; the CUDA library's ranks use them only for setup. Every wait has a
// timeout, whose error names the rank that did not answer.
#pragma once

#include <memory>
#include <vector>

#include "../runtime/context.h"

namespace gpt2 {

class Loopback {
 public:
  // How ranks find rank 0's port, and prove that they belong to the job. Rank 0 sends the Id to the others.
  struct Id {
    uint16_t port;
    unsigned char secret[32];
  };

  // A connection to a rank; errors name the rank. `send` and `receive` return after all bytes have passed.
  class Connection {
   public:
    void send(const void *data, size_t bytes) { move(const_cast<void *>(data), bytes, false); }
    void receive(void *data, size_t bytes) { move(data, bytes, true); }

   private:
    friend class Loopback;
    Connection(int socket, int rank, int timeout) : socket_(socket), rank_(rank), timeout_(timeout) {}
    void move(void *data, size_t bytes, bool receives);
    void wait(short direction);
    [[noreturn]] void refuse(const std::string &what);

    int socket_;
    int rank_;
    int timeout_;
  };

  // Opens the port on which rank 0 accepts the other ranks, as the context's `listener`.
  static Id open(gpt2_context &);
  // Returns when all ranks have joined. Rank 0 joins in the context that opened the port.
  Loopback(gpt2_context &, const Id &, int rank, int ranks, int timeout_milliseconds);
  ~Loopback();
  Loopback(const Loopback &) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // The connection to rank 0; at rank 0, the connection to `rank`.
  Connection to(int rank);
  // Begins an exchange; every rank calls it before `to`. Fails at rank 0 if another rank begins a different exchange.
  void begin(const char *what, size_t bytes);
  // all [ranks,bytes] = every rank's in [bytes]. Calls `begin`.
  void all_gather(const void *in, void *all, size_t bytes);
  // Closes the connections, so that ranks waiting for this rank get an error.
  void abandon() const;

 private:
  void accept_ranks(int listener, const Id &);
  void connect_to_root(const Id &);
  void close_all();

  int rank_, ranks_;
  int timeout_;  // milliseconds
  // At rank 0 a socket for each rank, -1 for itself. At any other rank one socket, to rank 0.
  std::vector<int> sockets_;
  uint64_t begun_ = 0;
};

}  // namespace gpt2
