#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/io/posix.h"

namespace folio {

struct HttpAnswer {
  int status = 0;  // 0: there was none, and `body` says why
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};

  explicit operator bool() const { return status != 0; }
  // In any case; "" where there is none.
  std::string header(std::string_view name) const;
};

// Sends requests to a service, one after the other, over one connection while that lives.
class HttpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  // Takes a piece of an answer's body; false where it wants no more of it.
  using Take = std::function<bool(std::string_view piece)>;

  // The host is a numeric address. `seconds`: for the connection, and for each silence.
  HttpClient(std::string host, int port, double seconds = 60)
      : host_(std::move(host)), port_(port), seconds_(seconds) {}

  // Adds "Host" unless it is given. With `take` the body is not kept.
  HttpAnswer Ask(const std::string& method, const std::string& target, const std::string& body = "",
                 const Headers& headers = {}, const Take& take = {});
  HttpAnswer Get(const std::string& target, const Headers& headers = {}) {
    return Ask("GET", target, "", headers);
  }

 private:
  bool Connect(std::string& why);
  bool Send(std::string_view bytes) const;
  HttpAnswer Receive(const std::string& method, const Take& take, bool& silent);

  std::string host_;
  int port_;
  double seconds_;
  std::optional<internal::FileDescriptor> socket_;
  std::string rest_;  // has come behind the last answer
};

// LoadOptions say how a service of OpenAI's interface with one model is driven: each client asks
// for a completion, reads it as a stream, and asks for the next.
struct LoadOptions {
  int port = 0;                      // on this machine
  std::vector<std::string> prompts;  // not empty; taken in turns
  int64_t max_tokens = 64;           // of each completion; its end of text does not end it
  double seconds = 10;               // no request begins later
};

struct LoadResult {
  int clients = 0;
  double seconds = 0;                       // until the last answer
  int64_t requests = 0;                     // answered whole
  int64_t refused = 0;                      // told to come again (429), and did
  int64_t failed = 0;                       // anything else
  int64_t different = 0;                    // answers that are not what the same request got before
  int64_t tokens = 0;                       // written
  std::vector<double> first_token = {};     // seconds from each request to its first token, sorted
  std::vector<double> between_tokens = {};  // of each request the mean, sorted

  // Returns a quantile of sorted numbers; 0 where there are none.
  static double Quantile(const std::vector<double>& sorted, double q);
  Json json() const;
};

// Remembers what each request got, to find texts that were mixed up.
class LoadGenerator {
 public:
  explicit LoadGenerator(LoadOptions options) : options_(std::move(options)) {
    known_.resize(options_.prompts.size());
  }
  // So many clients at a time. Throws a kRuntime Error where nobody answers.
  LoadResult Run(int clients);

 private:
  LoadOptions options_;
  std::vector<std::string> known_;  // by prompt, once known
};

}  // namespace folio
