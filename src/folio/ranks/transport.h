#pragma once

#include <cstddef>
#include <string>

namespace folio {

// Messages between the ranks of a run, carried by whatever started them (MPI, or in tests the
// threads of one process). Used only by the thread that made it. Messages between two ranks with
// one tag arrive in the order of sending.
class Transport {
 public:
  using Request = int;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Its name for people: "Open MPI v4.1.4".
  virtual std::string Name() const = 0;

  // Start to send or to receive this many bytes, equal on both sides, which must stay valid until
  // Done. At most kMostBytes.
  static constexpr size_t kMostBytes = size_t{1} << 30;
  virtual Request Send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int from, int tag, void* data, size_t bytes) = 0;
  // Returns true if the request is complete; it is freed then.
  virtual bool Done(Request request) = 0;

  // Ends the processes of all ranks, including this one, with this status, as far as possible; does
  // not return if ranks are processes.
  virtual void Abort(int status) = 0;
};

// Name of a plug-in's function that connects and returns a transport, or null and sets `why`.
inline constexpr char kConnectName[] = "folio_connect";
using ConnectFunction = Transport* (*)(char* why, size_t bytes);

}  // namespace folio
