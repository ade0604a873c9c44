#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bodies.h"
#include "folio/base/log.h"
#include "folio/infer/test_small_model.h"
#include "folio/serve/service.h"
#include "input.h"

namespace folio {
namespace {

struct Right {
  std::string_view path, body;
};
constexpr Right kRequests[] = {
    {"/v1/completions",
     R"({"model":"m","prompt":["Once",""],"max_tokens":3,"n":2,"best_of":3,"echo":true,"logprobs":2,)"
     R"("stop":["x","yz"],"logit_bias":{"65":-5.5},"seed":-3,"temperature":0.5,"top_p":0.9})"},
    {"/v1/completions",
     R"({"prompt":[1,2,3],"stream":true,"stream_options":{"include_usage":true},"max_tokens":2,)"
     R"("top_k":4,"min_p":0.1,"repetition_penalty":1.1,"no_repeat_ngram_size":2,"min_tokens":1,)"
     R"("stop_token_ids":[5],"ignore_eos":true,"return_token_ids":true,"frequency_penalty":-1})"},
    {"/v1/completions", R"({"prompt":[[1],[2,3]],"max_tokens":0,"echo":true,"logprobs":0})"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text",)"
     R"("text":"u"}]}],"logprobs":true,"top_logprobs":2,"max_completion_tokens":2,"stream":true})"},
    {"/v1/embeddings",
     R"({"input":["a",[1,2]],"encoding_format":"base64","pooling":"last","normalize":false})"},
    {"/tokenize", R"({"content":"a\u00e9","with_pieces":true})"},
    {"/detokenize", R"({"tokens":[1,2,300]})"}};

constexpr std::string_view kWhole =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 31\r\nExpect: x\r\nRange: "
    "bytes=0-1\r\n\r\n{\"prompt\":\"x\",\"max_tokens\":1}  "
    "\r\nGET /v1/models/m?a=b%20c HTTP/1.1\r\nHost: [::1]:5\r\nOrigin: http://[::1]:5\r\n\r\n";
constexpr std::string_view kHeadParts[] = {"\r\n",
                                           "\r\n\r\n",
                                           "HTTP/1.0",
                                           "Transfer-Encoding: chunked\r\n",
                                           "Content-Length: ",
                                           "\0",
                                           "5\r\n",
                                           "0\r\n\r\n",
                                           "%",
                                           ":",
                                           "Connection: close\r\n",
                                           "multipart/form-data; boundary=x",
                                           "OPTIONS",
                                           "Accept-Encoding: gzip, br\r\n",
                                           "Authorization: Bearer ",
                                           "/v1/",
                                           "?",
                                           "HEAD",
                                           "PUT",
                                           "Content-Length: 5\r\n",
                                           "1;a=b\r\nx\r\n",
                                           "HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "Expect: 100-continue\r\n",
                                           "Host: b\r\n",
                                           "\n",
                                           " "};

// Requests that may follow each other in a connection.
constexpr std::string_view kOneOfMany[] = {
    "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 42\r\n\r\n"
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{\"content\":\"a\"}",
    "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\n{\"con\r\nA\r\ntent\":\"a\"}\r\n0\r\n\r\n",
    "HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n"
    "{\"prompt\":\"x\",\"max_tokens\":1,\"stream\":true} ",
};

class Served {
 public:
  Served() : service_({}, {}), server_(service_, "127.0.0.1", 0) {
    SetLogLevel(LogLevel::kError);
    OpenedModel model = SmallModel(/*chat=*/true, 40);
    model.backend = MakeBackend("reference");
    service_.Add("m", std::move(model));
    server_.Begin();
  }

  // Returns the service's answer to a client that sends this, in pieces of at most `piece` bytes,
  // and then ends its side unless the request is complete.
  std::string Answer(const std::string& said, bool whole, size_t piece) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      answer = "no sockets";
    }
    for (size_t at = 0; answer.empty() && at < said.size(); at += piece) {
      const size_t size = std::min(piece, said.size() - at);
      if (send(client, said.data() + at, size, MSG_NOSIGNAL) < 0) break;
    }
    if (!whole) shutdown(client, SHUT_WR);
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = recv(client, bytes.data(), bytes.size(), 0)) > 0;) {
      answer.append(bytes.data(), static_cast<size_t>(count));
    }
    close(client);
    return answer;
  }

 private:
  Service service_;
  BackgroundServer server_;
};

// The statuses of consecutive answers. Nothing if a client cannot parse them, if one is a failure
// of the service, or if something follows the last answer of a connection.
std::optional<std::vector<int>> StatusesOf(std::string_view answers) {
  std::vector<int> statuses;
  bool last = false;
  while (!answers.empty()) {
    if (last || !answers.starts_with("HTTP/1.1 ") || answers.size() < 12) return {};
    const int status = std::atoi(std::string(answers.substr(9, 3)).c_str());
    const size_t end = answers.find("\r\n\r\n");
    if (end == answers.npos) return {};
    const std::string_view head = answers.substr(0, end + 2);
    answers.remove_prefix(end + 4);
    if (status == 100) continue;
    if (status >= 500 && status != 501 && status != 505) return {};
    statuses.push_back(status);
    last = head.find("\r\nConnection: close\r\n") != head.npos;
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    if (const size_t at = head.find(kLength); at != head.npos) {
      const auto length =
          std::strtoull(std::string(head.substr(at + kLength.size(), 20)).c_str(), nullptr, 10);
      // An answer to HEAD has no body.
      if (!answers.starts_with("HTTP/1.1 ")) {
        if (length > answers.size())
          return answers.empty() ? std::optional(statuses) : std::nullopt;
        answers.remove_prefix(length);
      }
    } else if (head.find("Transfer-Encoding: chunked") != head.npos) {
      constexpr std::string_view kEnd = "\r\n0\r\n\r\n";
      const size_t found = answers.find(kEnd);
      if (found == answers.npos) return statuses;  // the client had hung up
      answers.remove_prefix(found + kEnd.size());
    }
  }
  return statuses;
}

// A connection with several requests, some of them changed. However its bytes are divided, it gets
// the same answers, except that those to a client that has closed its end may be missing.
testing::AssertionResult ManyAreAnswered(Served& served, FuzzInput& input) {
  const size_t piece = 1 + input.Byte() % 64;
  std::string said;
  for (size_t count = 1 + input.Byte() % 4; count > 0; --count) {
    said += kOneOfMany[input.Byte() % std::size(kOneOfMany)];
  }
  said = ChangedText(said, kHeadParts, input);
  const std::string whole = served.Answer(said, false, said.size() + 1),
                    cut = served.Answer(said, false, piece);
  const auto a = StatusesOf(whole), b = StatusesOf(cut);
  const auto fails = [&] {
    return testing::AssertionFailure()
           << "to " << said << " it says " << whole << " or, cut, " << cut;
  };
  if (!a || !b) return fails();
  for (size_t i = 0; i < std::min(a->size(), b->size()); ++i) {
    if ((*a)[i] != (*b)[i]) return fails();
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult RequestIsAnswered(std::string_view bytes) {
  static Served& served = *new Served;  // as long as the process
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  std::string said;
  if (kind < 16) return ManyAreAnswered(served, input);
  if (kind < 32) {
    said = std::string(input.Rest());
  } else if (kind < 96) {
    said = ChangedText(std::string(kWhole), kHeadParts, input);
  } else {
    const Right& right = kRequests[kind % std::size(kRequests)];
    const std::string body = ChangedText(std::string(right.body), JsonFragments(), input);
    said = fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        right.path, body.size(), body);
  }
  const std::string answer = served.Answer(said, kind >= 96, said.size() + 1);
  if (StatusesOf(answer)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "to " << said << " it says " << answer;
}

}  // namespace folio
