#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/json.h"

namespace folio {

// A request of HTTP as its handler sees it; untrusted, but of a bounded size, and whole.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query
  std::string body;
  std::string client;             // the address that it comes from
  std::string id = {}, key = {};  // of the request and, its name, of what opens the service to it
  // These return the value of a header, in any case (several of one name with commas between them),
  // and of a parameter of the query, decoded; "" where there is none.
  std::function<std::string(const std::string&name)> header = {}, parameter = {};
  // Returns true where the client has hung up: nobody wants the answer any more.
  std::function<bool()> gone = [] { return false; };
  // Returns true where the service is about to end: answers without an end of their own end then.
  std::function<bool()> stopping = [] { return false; };
};

class HttpStream;

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<void> held = {};  // what it takes is given back with this, when it was sent

  // A stream, instead of `body`, makes the body as it comes, in pieces or, where the status too is
  // not known before (`waits`), at once.
  std::shared_ptr<HttpStream> stream = {};
  bool waits = false;
  // A stream calls this once, with the status, when the last of the answer is about to be sent, or
  // when its client is gone; that is 499 where there was no status yet.
  std::function<void(int status)> ended = {};
};

// An answer that is made as it comes, without a thread that waits for it. It is asked for more
// whenever it says that there are news or its time is over, never by two threads at a time, and not
// while the client leaves much of it unread. It is destroyed as soon as it has ended or its client
// is gone: what still works for it ends then.
class HttpStream {
 public:
  struct Part {
    std::string bytes = {};               // more of the body
    std::optional<HttpReply> whole = {};  // of an answer that waits: all of it, without a stream
    bool ended = false;                   // there is no more
    double seconds = 1e9;                 // after which it is to be asked without news, too
  };

  virtual ~HttpStream() = default;

  // Begin is called before the first Next. `news` may be called by any thread, at any time.
  virtual void Begin(const std::function<void()>& /*news*/) {}
  // Returns what there is now; may be nothing.
  virtual Part Next() = 0;
  // Returns true where Next takes no longer than computing what it says. Where it reads files it
  // may not keep those who wait for tokens.
  virtual bool quick() const { return true; }
};

// An event of text/event-stream.
inline std::string EventOf(const Json& json) {
  return "data: " + json.dump() + "\n\n";
}

// One with a name and, if it is not empty, an id.
inline std::string NamedEvent(const std::string& name, const Json& json,
                              const std::string& id = {}) {
  return (id.empty() ? "" : "id: " + id + "\n") + "event: " + name + "\n" + EventOf(json);
}

// This event ends a stream of OpenAI's.
inline constexpr char kLastEvent[] = "data: [DONE]\n\n";
// A comment: keeps the connection, and finds out that nobody is there.
inline constexpr char kHeartbeat[] = ": still writing\n\n";
// A heartbeat comes after so many seconds of silence.
inline constexpr double kHeartbeatSeconds = 15;

}  // namespace folio
