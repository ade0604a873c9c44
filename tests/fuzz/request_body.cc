#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

#include "bodies.h"
#include "changes.h"
#include "folio/base/log.h"
#include "folio/infer/test_small_model.h"
#include "folio/serve/http_server.h"
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
                                           "PUT"};

class Served {
 public:
  Served()
      : service_({}, {}), server_([this](const HttpRequest& r) { return service_.Answer(r); }) {
    SetLogLevel(LogLevel::kError);
    OpenedModel model = SmallModel(/*chat=*/true, 40);
    model.backend = MakeBackend("reference");
    service_.Add("m", std::move(model));
  }

  // What it answers to a client that says this and, unless it is a whole request, no more.
  std::string Answer(const std::string& said, bool whole) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return "no sockets";
    std::string answer;
    std::thread client([&] {
      [[maybe_unused]] const ssize_t sent = send(ends[0], said.data(), said.size(), MSG_NOSIGNAL);
      if (!whole) shutdown(ends[0], SHUT_WR);
      std::array<char, 4096> bytes{};
      for (ssize_t count = 0; (count = recv(ends[0], bytes.data(), bytes.size(), 0)) > 0;) {
        answer.append(bytes.data(), static_cast<size_t>(count));
      }
    });
    server_.Converse(ends[1]);
    client.join();
    close(ends[0]);
    return answer;
  }

 private:
  Service service_;
  HttpServer server_;
};

}  // namespace

testing::AssertionResult RequestIsAnswered(std::string_view bytes) {
  static Served& served = *new Served;  // as long as the process
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  std::string said;
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
  const std::string answer = served.Answer(said, kind >= 96);
  if (answer.empty() || (answer.starts_with("HTTP/1.") && answer.substr(9, 1) != "5")) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "to " << said << " it says " << answer;
}

}  // namespace folio
