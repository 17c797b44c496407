// Connects the processes of one machine over TCP on its loopback, as a star with rank 0 at its centre. The CPU
// library's collectives use the connections; the CUDA library's ranks use them only for setup. Every wait has a
// timeout, whose error names the rank.
#pragma once

#include <memory>
#include <vector>

#include "../runtime/context.h"

namespace gpt2 {

class Loopback {
 public:
  // Rank 0 sends this to the others.
  struct Id {
    uint16_t port;
    unsigned char secret[32];
  };

  // A connection to a rank, which errors name. Both functions return after all bytes have passed.
  class Connection {
   public:
    int send(const void *data, size_t bytes) { return move(const_cast<void *>(data), bytes, false); }
    int receive(void *data, size_t bytes) { return move(data, bytes, true); }

   private:
    friend class Loopback;
    Connection(gpt2_context &context, const char *function, int socket, int rank, int timeout)
        : context_(context), function_(function), socket_(socket), rank_(rank), timeout_(timeout) {}
    int move(void *data, size_t bytes, bool receives);
    int wait(short direction);
    int refuse(const std::string &what);

    gpt2_context &context_;
    const char *function_;
    int socket_;
    int rank_;
    int timeout_;
  };

  // Opens the port on which rank 0 accepts the other ranks, as the context's `listener`.
  static int open(gpt2_context &, Id &id, const char *function);
  // Returns when all ranks have joined. Rank 0 joins in the context that opened the port.
  static int join(gpt2_context &, std::unique_ptr<Loopback> &joined, const Id &, int rank, int ranks,
                  int timeout_milliseconds, const char *function);
  ~Loopback();

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // The connection to rank 0; at rank 0, the connection to `rank`.
  Connection to(gpt2_context &, int rank, const char *function);
  // Called by every rank before it uses `to`. Fails at rank 0 if another rank begins a different exchange.
  int begin(gpt2_context &, const char *what, size_t bytes, const char *function);
  // all [ranks,bytes] = every rank's in [bytes]. Calls `begin`.
  int all_gather(gpt2_context &, const void *in, void *all, size_t bytes, const char *function);
  // Closes the connections, so that ranks waiting for this rank get an error.
  void abandon() const;

 private:
  Loopback(int rank, int ranks, int timeout);
  int accept_ranks(gpt2_context &, const Id &, const char *function);
  int connect_to_root(gpt2_context &, const Id &, const char *function);

  int rank_, ranks_;
  int timeout_;  // milliseconds
  // At rank 0 a socket for each rank, -1 for itself. At any other rank one socket, to rank 0.
  std::vector<int> sockets_;
  uint64_t begun_ = 0;
};

}  // namespace gpt2
