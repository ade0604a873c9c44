#pragma once

#include <strings.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
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

// Returns true where two names of headers are the same, in any case.
inline bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

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

inline HttpReply EventStreamReply(std::shared_ptr<HttpStream> stream) {
  return {.type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = std::move(stream)};
}

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

// The reason why a request fails, as OpenAI's clients read it:
//   {"error": {"message", "type", "param", "code"}}
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}
  // A mistake of the request's content is a 400, anything else a 500 or 503.
  explicit ApiError(const Error& error);

  int status() const { return status_; }
  // The JSON of the error alone.
  std::string body() const;
  HttpReply reply() const;

 private:
  int status_;
  std::string param_, code_;
};

// A MemoryBudget is the memory that the requests of a service may take together. The memory that a
// request is going to take is reserved before it is worked on, so that many large ones are told to
// come again instead of ending the process. Any thread may reserve.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : bytes_(bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;

  // An eighth of what this machine, or its cgroup, has free now: at least 64 MiB, at most 1 GiB.
  static int64_t DefaultBytes();

  int64_t bytes() const { return bytes_; }
  int64_t used() const { return used_; }

  // A Share is what one request has of the budget; it is given back when this goes. Without a
  // budget it has what it asks for.
  class Share {
   public:
    // Makes an empty share.
    Share() = default;
    // Throws as Resize.
    Share(std::shared_ptr<MemoryBudget> budget, int64_t bytes) : budget_(std::move(budget)) {
      Resize(bytes);
    }
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share();

    int64_t bytes() const { return bytes_; }
    // Makes the share so many bytes from now on. Throws an ApiError and stays as it is where there
    // are not so many: 503 (come again), or 413 where there never will be.
    void Resize(int64_t bytes);

   private:
    std::shared_ptr<MemoryBudget> budget_ = {};
    int64_t bytes_ = 0;
  };

 private:
  int64_t bytes_;
  std::atomic<int64_t> used_ = 0;
};

// The most memory that an answer takes for each byte of a text: if every byte is a token, 4 bytes
// of an id, twice while the vector grows, and the answer with id, place and piece.
inline constexpr int64_t kMemoryOfText = 64;

}  // namespace folio
