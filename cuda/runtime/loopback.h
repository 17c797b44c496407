// Processes of one machine that talk over TCP on its loopback: a star, with rank 0 in the middle. What the CPU library's
// collectives run on, and what the CUDA library's ranks meet by. Waiting ends after a time, with the rank that was waited for.
#pragma once

#include <memory>
#include <vector>

#include "context.h"

namespace gpt2 {

class Loopback {
 public:
  // What rank 0 hands to the others.
  struct Id {
    uint16_t port;
    unsigned char secret[32];
  };

  // A connection, whose failures name the rank at its other end. Both wait until all bytes have passed; statuses.
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

  // Opens the port at which rank 0 takes the others, in the context's `listener`.
  static int open(gpt2_context &, Id &id, const char *function);
  // Returns when all are there. Rank 0 joins in the context that opened the port.
  static int join(gpt2_context &, std::unique_ptr<Loopback> &joined, const Id &, int rank, int ranks,
                  int timeout_milliseconds, const char *function);
  ~Loopback();

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // To rank 0, or from it to `rank`.
  Connection to(gpt2_context &, int rank, const char *function);
  // all [ranks,bytes] = every rank's own [bytes].
  int tell(gpt2_context &, const void *own, void *all, size_t bytes, const char *function);
  // Whoever waits for this rank finds out.
  void abandon() const;

 private:
  Loopback(int rank, int ranks, int timeout);
  int accept_ranks(gpt2_context &, const Id &, const char *function);
  int connect_to_root(gpt2_context &, const Id &, const char *function);

  int rank_, ranks_;
  int timeout_;  // milliseconds
  // Rank 0: to every rank, -1 for itself. Any other: one, to rank 0.
  std::vector<int> sockets_;
  uint32_t told_ = 0;
};

}  // namespace gpt2
