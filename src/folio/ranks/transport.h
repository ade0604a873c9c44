#pragma once

#include <cstddef>
#include <string>

namespace folio {

// Messages between the ranks of a run, as whatever started them carries them (MPI, or for tests the
// threads of one process). Used by one thread alone, that which made it. Between two ranks,
// messages with one tag arrive in the order in which they were sent.
class Transport {
 public:
  using Request = int;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Its name for people: "Open MPI v4.1.4".
  virtual std::string Name() const = 0;

  // Begin to send or to receive so many bytes, as many on either side, which stay where they are
  // until Done. At most kMostBytes.
  static constexpr size_t kMostBytes = size_t{1} << 30;
  virtual Request Send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int from, int tag, void* data, size_t bytes) = 0;
  // Returns whether the request is done; if so, it is gone.
  virtual bool Done(Request request) = 0;

  // Ends the processes of all ranks, this one too, with this status, as far as that is possible;
  // does not return where ranks are processes.
  virtual void Abort(int status) = 0;
};

// The function of a file with a transport in it, which is opened while the program runs, has this
// name. It connects, or returns null and says why in `why`.
inline constexpr char kConnectName[] = "folio_connect";
using ConnectFunction = Transport* (*)(char* why, size_t bytes);

}  // namespace folio
