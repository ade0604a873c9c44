// Requests when memory runs out, and when many request much of it.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "failing_new.h"
#include "folio/base/log.h"
#include "folio/infer/test_small_model.h"
#include "folio/serve/service.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

OpenedModel Model(std::unique_ptr<Tokenizer> tokenizer) {
  OpenedModel model;
  model.tokenizer = std::move(tokenizer);
  GptConfig config = TinyConfig();
  config.vocab_size = model.tokenizer->vocab_size();
  config.n_positions = 64;
  config.n_embd = 16;
  model.weights = std::make_unique<GptWeights>(config);
  Scatter(*model.weights, 1);
  model.backend = MakeBackend("reference");
  return model;
}

// All of an answer that is produced in pieces.
HttpReply Whole(HttpReply reply) {
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    bool any = false;
  };
  const auto news = std::make_shared<News>();
  const std::shared_ptr<HttpStream> stream = std::exchange(reply.stream, {});
  stream->Begin([news] {
    const std::lock_guard lock(news->mutex);
    news->any = true;
    news->changed.notify_one();
  });
  for (;;) {
    HttpStream::Part part = stream->Next();
    if (part.whole) return std::move(*part.whole);
    reply.body += part.bytes;
    if (part.ended) return reply;
    std::unique_lock lock(news->mutex);
    news->changed.wait_for(lock, std::chrono::duration<double>(std::min(part.seconds, 60.0)),
                           [&] { return news->any; });
    news->any = false;
  }
}

struct Said {
  std::string method, path, body;
};
constexpr size_t kByModels = 7;  // the first of the addresses

class MemoryOfRequests : public testing::Test {
 protected:
  MemoryOfRequests() { SetLogLevel(LogLevel::kError); }
  ~MemoryOfRequests() override { SetLogLevel(LogLevel::kInfo); }

  void Begin(AnswerLimits limits = {}) {
    service_ = std::make_unique<Service>(ServiceOptions{.limits = std::move(limits)}, nullptr);
    service_->Add("m", Model(WithChatTokens(ByteTokenizer())));
    static const BpeVocab learnt = LearntVocab(1, 400);
    service_->Add("merges", Model(std::make_unique<BpeTokenizer>(learnt)));
  }

  static HttpRequest Request(const Said& said) {
    return {.method = said.method,
            .path = said.path,
            .body = said.body,
            .client = "1.2.3.4",
            .header = [](const std::string& name) { return name == "Host" ? "localhost" : ""; },
            .parameter = [](const std::string&) { return ""; }};
  }
  // The whole answer, as its client gets it.
  HttpReply Ask(const Said& said) { return Ask(Request(said)); }
  HttpReply Ask(HttpRequest request) {
    HttpReply reply = service_->Answer(std::move(request));
    if (!reply.stream) return reply;
    return Whole(std::move(reply));
  }
  HttpReply Post(const std::string& path, const std::string& body) {
    return Ask(Said{"POST", path, body});
  }

  std::unique_ptr<Service> service_;
};

const std::vector<Said>& AllAddresses() {
  static const std::vector<Said> all = {
      {"POST", "/v1/completions",
       R"({"model":"m","prompt":["Once",""],"max_tokens":3,"n":2,"best_of":3,"echo":true,"logprobs":2,)"
       R"("stop":["x","yz"],"logit_bias":{"65":-5.5},"seed":3,"return_token_ids":true})"},
      {"POST", "/v1/completions",
       R"({"model":"m","prompt":[1,2,3],"stream":true,"stream_options":{"include_usage":true},"max_tokens":2,)"
       R"("seed":4,"logprobs":1,"repetition_penalty":1.1,"no_repeat_ngram_size":2})"},
      {"POST", "/v1/chat/completions",
       R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text",)"
       R"("text":"u"}]}],"logprobs":true,"top_logprobs":2,"max_completion_tokens":2,"seed":5})"},
      {"POST", "/v1/embeddings", R"({"model":"m","input":["a",[1,2]],"encoding_format":"base64"})"},
      {"POST", "/v1/embeddings", R"({"model":"merges","input":"a text of some words"})"},
      {"POST", "/api/generate",
       R"({"model":"m","ids":[1,2,3],"max_tokens":3,"logprobs":2,"seed":1})"},
      {"POST", "/api/generate",
       R"({"model":"m","messages":[{"role":"user","content":"u"}],"max_tokens":3,"seed":1})"},
      {"POST", "/tokenize", R"({"model":"merges","content":"abc ab c é","with_pieces":true})"},
      {"POST", "/detokenize",
       R"({"model":"merges","tokens":[1,2,300,301,302,303,304,305,306,307]})"},
      {"POST", "/api/tokenize", R"({"model":"merges","text":"abc ab c é"})"},
      {"POST", "/api/score", R"({"model":"merges","text":"abc ab c é","top":3})"},
      {"POST", "/api/trace", R"({"model":"merges","text":"abc ab c"})"},
      {"GET", "/v1/models", ""},
      {"GET", "/api/info", ""},
      {"GET", "/api/vocab", ""},
      {"GET", "/api/wpe", ""},
      {"GET", "/metrics", ""},
      {"GET", "/health", ""},
      {"GET", "/nothing", ""},
      {"POST", "/tokenize", R"({"model":"none","content":"abc"})"},
  };
  return all;
}

// Returns the part of an answer that is always the same: without ids and times.
std::string Lasting(const HttpReply& reply) {
  std::string lasting = std::to_string(reply.status);
  for (const char* key : {"\"text\":", "\"content\":", "\"tokens\":", "\"embedding\":",
                          "\"spans\":", "\"lp\":", "\"top_logprobs\":", "\"H\":"}) {
    for (size_t at = reply.body.find(key); at != std::string::npos;
         at = reply.body.find(key, at + 1)) {
      lasting += reply.body.substr(at, 60);
    }
  }
  return lasting;
}

// Whichever allocation fails, in the request's thread or in the one that runs the model, the
// request ends correctly or with a 503, and the same request succeeds right after that.
class MemoryOfAddresses : public MemoryOfRequests, public testing::WithParamInterface<size_t> {
 protected:
  void FailEach(NewOf which) {
    Begin();
    const Said& said = AllAddresses()[GetParam()];
    const std::string right = Lasting(Ask(said));
    Ask(said);
    const int64_t before = LiveBytes(), used = service_->metrics().new_tokens;
    HttpReply reply{.status = 0};
    int64_t turn = 0;
    const int64_t calls = WithEachFailing(
        which, [&] { reply = Ask(said); },
        [&] {
          const bool stream = reply.type == "text/event-stream";
          EXPECT_TRUE(reply.status == 0 || reply.status == 503 || Lasting(reply) == right ||
                      (stream && Contains(reply.body, "not enough memory")))
              << said.path << " " << reply.status << " " << reply.body;
          reply = {.status = 0};
          if (++turn % 8 != 0) return;
          EXPECT_EQ(Lasting(Ask(said)), right) << said.path;
        });
    EXPECT_EQ(Lasting(Ask(said)), right) << said.path;
    EXPECT_GT(calls, 2);
    EXPECT_GE(service_->metrics().new_tokens, used);
    // Only cached memory is left.
    EXPECT_LE(LiveBytes(), before + (128 << 10)) << said.path;
  }
};

TEST_P(MemoryOfAddresses, EachAllocationOfARequestMayFail) {
  FailEach(NewOf::kThisThread);
}

class MemoryOfModels : public MemoryOfAddresses {};

TEST_P(MemoryOfModels, EachAllocationOfTheirThreadMayFail) {
  FailEach(NewOf::kOtherThreads);
}

INSTANTIATE_TEST_SUITE_P(Each, MemoryOfAddresses, testing::Range(size_t{0}, AllAddresses().size()));
INSTANTIATE_TEST_SUITE_P(Each, MemoryOfModels, testing::Range(size_t{0}, kByModels));

// A JSON text with this many bytes.
std::string Repeated(const std::string& begin, const std::string& part, const std::string& end,
                     size_t bytes) {
  std::string text = begin;
  while (text.size() + end.size() + part.size() < bytes) text += part;
  return text + end;
}

std::vector<Said> LargeBodies(size_t bytes) {
  const auto ids = [&](const std::string& begin, const std::string& id) {
    return Repeated(begin, id + ",", id + "]}", bytes);
  };
  return {
      {"POST", "/api/tokenize",
       Repeated(R"({"model":"merges","text":")", "abc ab, c", "\"}", bytes)},
      {"POST", "/api/tokenize", Repeated(R"({"model":"m","text":")", "\\n", "\"}", bytes)},
      {"POST", "/tokenize",
       Repeated(R"({"model":"m","with_pieces":true,"content":")", "\xC3\xA9", "\"}", bytes)},
      {"POST", "/tokenize", Repeated(R"({"model":"merges","content":")", "z", "\"}", bytes)},
      {"POST", "/detokenize", ids(R"({"model":"m","tokens":[)", "1")},
      {"POST", "/detokenize", ids(R"({"model":"merges","tokens":[)", "300")},
      {"POST", "/v1/completions",
       Repeated(R"({"model":"m","max_tokens":1,"echo":true,"truncate":true,"prompt":")", "\\u0001",
                "\"}", bytes)},
      {"POST", "/v1/completions",
       ids(R"({"model":"m","max_tokens":1,"n":8,"truncate":true,"return_token_ids":true,"prompt":[)",
           "9")},
      {"POST", "/v1/completions",
       Repeated(R"({"model":"m","max_tokens":1,"prompt":"a","x":[)", "[],", "[]]}", bytes)},
      {"POST", "/v1/completions",
       Repeated(R"({"model":"m","max_tokens":1,"prompt":"a","x":[)", "[[0]],", "[]]}", bytes)},
      {"POST", "/v1/completions",
       Repeated(R"({"model":"m","max_tokens":1,"prompt":"a","x":[)", R"({"":0},)", "{}]}", bytes)},
      {"POST", "/api/generate", ids(R"({"model":"m","max_tokens":1,"truncate":true,"ids":[)", "7")},
      {"POST", "/v1/chat/completions",
       R"({"model":"m","max_tokens":30,"n":60,"logprobs":true,"top_logprobs":20,"messages":[{"role":"user","content":"a"}]})"},
      {"POST", "/v1/completions",
       R"({"model":"m","max_tokens":60,"n":60,"logprobs":20,"echo":true,"prompt":"a"})"},
      {"POST", "/v1/embeddings", Repeated(R"({"model":"m","input":[)", "[1],", "[2]]}", 200)},
  };
}

// The memory that is reserved for a request is sufficient: with the smallest budget that allows an
// answer, it takes no more than that, in addition to the memory for a small one.
TEST_F(MemoryOfRequests, TakeNoMoreThanTheyReserve) {
  for (const Said& said : LargeBodies(kSanitized ? 30000 : 120000)) {
    Begin();
    ASSERT_EQ(Ask(said).status, 200) << said.path << " " << Ask(said).body.substr(0, 300);
    int64_t low = 0, high = int64_t{256} << 20;  // refused and answered
    while (high - low > 1 << 19) {
      const int64_t middle = (low + high) / 2;
      Begin({.memory = std::make_shared<MemoryBudget>(middle)});
      (Ask(said).status == 200 ? high : low) = middle;
    }
    Begin({.memory = std::make_shared<MemoryBudget>(high)});
    Ask(said);
    HttpRequest request = Request(said);
    const int64_t before = LiveBytes();
    ResetPeakLiveBytes();
    EXPECT_EQ(Ask(std::move(request)).status, 200) << said.path;
    const int64_t peak = PeakLiveBytes() - before;
    EXPECT_LE(peak, high) << said.path << " " << said.body.substr(0, 60);
  }
}

// Many at once stay within the budget: those without room are asked to retry, and the health check
// still works.
TEST_F(MemoryOfRequests, ManyLargeOnesStayWithinTheBudget) {
  constexpr int64_t kBudget = 64 << 20;
  constexpr int kClients = 24;
  Begin({.memory = std::make_shared<MemoryBudget>(kBudget)});
  const std::string body = Repeated(R"({"model":"merges","text":")", "abc ab c", "\"}", 300000);
  std::atomic<int> answered = 0, refused = 0, others = 0, well = 0;
  const int64_t before = LiveBytes();
  ResetPeakLiveBytes();
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      for (int turn = 0; turn < 4; ++turn) {
        const HttpReply reply = Post("/api/tokenize", body);
        const bool told = reply.status == 503 &&
                          std::ranges::count(reply.headers, std::pair<std::string, std::string>(
                                                                "Retry-After", "1"));
        ++(reply.status == 200 ? answered : told ? refused : others);
        well += Ask(Said{"GET", "/health", ""}).status == 200 &&
                Ask(Said{"GET", "/metrics", ""}).status == 200;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(others, 0);
  EXPECT_EQ(well, 4 * kClients);
  const int64_t bodies = 2 * kClients * std::ssize(body);
  EXPECT_LE(PeakLiveBytes() - before, kBudget + bodies + (4 << 20));
  // All of it was released.
  EXPECT_EQ(Post("/api/tokenize", body).status, 200);
  EXPECT_TRUE(
      Contains(Ask(Said{"GET", "/metrics", ""}).body, "folio_request_memory_used_bytes 0\n"));
}

// A request larger than the whole budget is not asked to retry.
TEST_F(MemoryOfRequests, OneThatIsLargerThanTheBudgetIsRefused) {
  Begin({.memory = std::make_shared<MemoryBudget>(1 << 20)});
  EXPECT_EQ(Post("/tokenize", Repeated(R"({"model":"m","content":")", "a", "\"}", 30000)).status,
            413);
  EXPECT_EQ(Post("/tokenize", R"({"model":"m","content":"a"})").status, 200);
  EXPECT_EQ(
      Post("/v1/completions", R"({"model":"m","prompt":"a","max_tokens":20,"n":60,"logprobs":20})")
          .status,
      413);
}

// A large answer keeps its share until it was sent.
TEST_F(MemoryOfRequests, AnAnswerIsCountedUntilItIsSent) {
  const auto budget = std::make_shared<MemoryBudget>(int64_t{64} << 20);
  Begin({.memory = budget});
  HttpReply reply = Post("/tokenize", Repeated(R"({"model":"m","content":")", "a", "\"}", 100000));
  ASSERT_EQ(reply.status, 200);
  EXPECT_GE(budget->used(), std::ssize(reply.body));
  EXPECT_LE(budget->used(), 2 * std::ssize(reply.body));
  reply = {};
  EXPECT_EQ(budget->used(), 0);
}

// Fields whose texts exceed the limit, for every address that takes a text.
TEST_F(MemoryOfRequests, TextsHaveALimitOfBytesThatIsTold) {
  constexpr size_t kLimit = 1000;
  Begin({.text_bytes = kLimit});
  struct Case {
    std::string path, key, before, after;
  };
  const std::vector<Case> cases = {
      {"/v1/completions", "prompt", "", ""},
      {"/v1/completions", "prompt", "[\"a\",", "]"},
      {"/v1/completions", "stop", "[", "]"},
      {"/v1/completions", "user", "", ""},
      {"/v1/completions", "logit_bias", "{", ":1}"},
      {"/v1/chat/completions", "messages", R"([{"role":"user","content":)", "}]"},
      {"/v1/chat/completions", "messages", R"([{"role":"user","content":[{"type":"text","text":)",
       "}]}]"},
      {"/v1/embeddings", "input", "", ""},
      {"/v1/embeddings", "input", "[", "]"},
      {"/tokenize", "content", "", ""},
      {"/tokenize", "prompt", "", ""},
      {"/api/tokenize", "text", "", ""},
      {"/api/generate", "prompt", "", ""},
      {"/api/score", "text", "", ""},
      {"/api/trace", "text", "", ""},
  };
  for (const Case& one : cases) {
    const std::string body = "{\"model\":\"m\",\"" + one.key + "\":" + one.before + "\"" +
                             std::string(kLimit + 1, 'a') + "\"" + one.after + "}";
    const HttpReply reply = Post(one.path, body);
    EXPECT_EQ(reply.status, 400) << one.path << " " << one.key;
    EXPECT_TRUE(Contains(reply.body, "'" + one.key + "'", "1000", "text_too_long")) << reply.body;
  }
  // Ids are as long as their text.
  const HttpReply long_ids =
      Post("/detokenize", Repeated(R"({"model":"m","tokens":[)", "65,", "65]}", 4000));
  EXPECT_EQ(long_ids.status, 400);
  EXPECT_TRUE(Contains(long_ids.body, "'tokens'", "1000")) << long_ids.body;
  EXPECT_EQ(Post("/tokenize", R"({"model":"m","content":")" + std::string(900, 'a') + "\"}").status,
            200);
}

// Long lists instead of texts.
TEST_F(MemoryOfRequests, ListsHaveLimitsThatAreTold) {
  Begin({.values = 1000});
  const auto refusal = [&](const std::string& path, const std::string& body) {
    const HttpReply reply = Post(path, body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.body;
  };
  EXPECT_TRUE(
      Contains(refusal("/detokenize", Repeated(R"({"model":"m","tokens":[)", "1,", "1]}", 3000)),
               "too many values", "1000"));
  Begin();
  EXPECT_TRUE(
      Contains(refusal("/v1/chat/completions",
                       Repeated(R"({"model":"m","messages":[)", R"({"role":"user","content":""},)",
                                R"({"role":"user","content":""}]})", 700000)),
               "'messages'", "16384"));
  EXPECT_TRUE(Contains(refusal("/v1/completions", Repeated(R"({"model":"m","prompt":"a","stop":[)",
                                                           "\"a\",", "\"a\"]}", 100000)),
                       "'stop'", "16"));
  EXPECT_TRUE(Contains(
      refusal("/v1/completions",
              Repeated(R"({"model":"m","prompt":"a","stop_token_ids":[)", "1,", "1]}", 100000)),
      "'stop_token_ids'", "16"));
  EXPECT_TRUE(Contains(
      refusal("/v1/completions", Repeated(R"({"model":"m","prompt":[)", "[1],", "[1]]}", 100000)),
      "'prompt'", "64"));
  std::string bias = R"({"model":"m","prompt":"a","logit_bias":{)";
  for (int i = 0; i < 5000; ++i) bias += "\"" + std::to_string(i) + "\":1,";
  EXPECT_TRUE(Contains(refusal("/v1/completions", bias + "\"x\":1}}"), "'logit_bias'"));
  EXPECT_TRUE(Contains(
      refusal(
          "/v1/completions",
          R"({"model":"m","prompt":"a","n":128,"max_tokens":1000000,"when_full":"slide","logprobs":20})"),
      "log-probabilities", "262144"));
}

}  // namespace
}  // namespace folio
