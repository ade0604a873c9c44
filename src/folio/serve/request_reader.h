#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "folio/serve/http.h"

namespace folio {

// Reads one request from the bytes of a connection, strictly as RFC 9112 defines it: requests that
// two readers could understand differently are refused, and nothing may be read after a refusal.
// docs/serve.md lists the accepted requests.
class RequestReader {
 public:
  RequestReader(size_t head_bytes, size_t body_bytes);
  ~RequestReader();

  enum class State {
    kHead,     // has not come whole
    kBody,     // has not come whole
    kRequest,  // is there
    kRefused,
  };
  // Takes what belongs to the request from the front of `bytes`.
  State Take(std::string& bytes);

  // Returns true where anything of it has come: a line break before it is nothing.
  bool begun() const { return lines_ > 0 || scanned_ > line_; }
  // Returns true where the client waits for word before it sends the body ("Expect: 100-continue").
  bool expects_continue() const;

  // Bytes of the body that have come.
  size_t body_bytes() const;
  // A request that has come whole, without `client`, `gone` and `stopping`.
  struct Whole {
    HttpRequest request;
    bool http_1_1 = false;    // its client knows chunks
    bool keep_alive = false;  // and takes another answer over this connection
  };
  // REQUIRES: State::kRequest. May be called once.
  Whole TakeRequest();

  // Return the status and the reason of a refusal.
  int status() const { return status_; }
  const std::string& reason() const { return reason_; }

 private:
  struct Fields;
  class Parser;
  State TakeHead(std::string& bytes);
  State Refuse(int status, const std::string& reason);

  size_t head_bytes_;
  std::unique_ptr<Parser> parser_;
  size_t begin_ = 0, line_ = 0, scanned_ = 0;  // of the head: in what has come
  int lines_ = 0;
  bool head_done_ = false;
  int status_ = 0;
  std::string reason_;
};

}  // namespace folio
