#include "folio/serve/page_model.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "folio/base/base64.h"
#include "folio/base/error.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/text_streamer.h"
#include "folio/infer/token_probabilities.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/probabilities.h"
#include "folio/inspect/trace.h"
#include "folio/model/decoder.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/serve/test_service.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

class PageModel : public PageTest {};

TEST_F(PageModel, SaysWhatThereIs) {
  ServiceOptions options;
  options.page.version = "9.8";
  Serve(options);
  const Json info = Get("/api/info");
  EXPECT_EQ(info["version"], "9.8");
  EXPECT_EQ(info["models"], Json::array({"small", "talker"}));
  const Json& model = info["model"];
  EXPECT_EQ(model["name"], "small");
  EXPECT_EQ(model["n_layer"], 2);
  EXPECT_EQ(model["n_head"], 2);
  EXPECT_EQ(model["n_embd"], 16);
  EXPECT_EQ(model["n_ctx"], 300);
  EXPECT_EQ(model["n_vocab"], 257);
  EXPECT_EQ(model["dtype"], "fp32");
  EXPECT_EQ(model["params"], SmallModel().weights->table().parameters());
  EXPECT_EQ(Get("/api/info?model=talker")["model"]["name"], "talker");
  EXPECT_EQ(info["features"], Json::array({"generate", "score", "trace", "embed"}));
  EXPECT_EQ(Get("/api/info?model=talker")["features"],
            Json::array({"generate", "chat", "score", "trace", "embed"}));
}

// A page that knew another model by the same name is not answered with this one.
TEST_F(PageModel, AModelHasAnIdThatNoOtherHas) {
  Serve();
  const std::string id = Get("/api/info")["model"]["id"].text();
  const auto id_of = [](const std::string& name, OpenedModel model) {
    Service service({}, {});
    service.Add(name, std::move(model));
    const HttpReply info = service.Answer(LocalRequest("GET", "/api/info"));
    return ParseJson(info.body, "info")["model"]["id"].text();
  };
  EXPECT_EQ(id_of("small", SmallModel()), id) << "a service that is started again has the same";
  EXPECT_NE(id_of("other", SmallModel()), id);
  EXPECT_NE(id_of("small", SmallModel(false, 301)), id);
  OpenedModel trained = SmallModel();
  const Tensor last = trained.weights->tensors().back();
  last.data<float>()[0] += 1e-6F;
  EXPECT_NE(id_of("small", std::move(trained)), id);
  OpenedModel other = SmallModel();
  other.tokenizer = WithChatTokens(*other.tokenizer);
  EXPECT_NE(id_of("small", std::move(other)), id);

  EXPECT_EQ(Get("/api/info?model=" + id)["model"]["name"], "small");
  EXPECT_EQ(Generate({{"model", id}, {"prompt", "a"}, {"max_tokens", 1}})[0].data["model"], id);
  const Answer gone = Post("/api/generate", {{"model", "small@0123456789abcdef"}, {"prompt", "a"}});
  ErrorOf(gone, 404);
  EXPECT_EQ(gone.json()["error"]["code"], "model_not_found");
}

TEST_F(PageModel, RefusesWhatIsNotThere) {
  Serve();
  ErrorOf(Ask("GET", "/api"), 404);
  ErrorOf(Ask("GET", "/api/"), 404);
  ErrorOf(Ask("GET", "/api/nothing"), 404);
  ErrorOf(Ask("GET", "/api/info/more"), 404);
  ErrorOf(Ask("POST", "/api/info", "{}"), 405);
  ErrorOf(Ask("GET", "/api/generate"), 405);
  ErrorOf(Ask("GET", "/api/info?model=none"), 404);
  ErrorOf(Post("/api/score", {{"model", "none"}, {"text", "ab"}}), 404);
  ErrorOf(Ask("POST", "/api/score", "[1]"), 400);
}

TEST_F(PageModel, GivesEachTokensBytesOnceForEachTokenizer) {
  Serve();
  const auto answer = client_->Get("/api/vocab");
  const Json tokens = ParseJson(answer.body, "vocab")["tokens"];
  ASSERT_EQ(tokens.size(), 257u);
  EXPECT_EQ(tokens[0], "AA==");
  EXPECT_EQ(tokens[97], "YQ==");
  EXPECT_EQ(tokens[256], Base64("<|endoftext|>"));
  const std::string tag = answer.header("ETag");
  const auto again = client_->Get("/api/vocab", {{"If-None-Match", tag}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(client_->Get("/api/vocab?model=talker", {{"If-None-Match", tag}}).status, 200);
}

std::vector<int32_t> Integers(const Json& json) {
  std::vector<int32_t> numbers;
  for (const Json& number : json) numbers.push_back(static_cast<int32_t>(number.get<int64_t>()));
  return numbers;
}

TEST_F(PageModel, MergesMakeTheTokens) {
  const std::string text = "the thin thing and the thin thing and 1";
  const BpeTokenizer tokenizer(
      TrainedOn("the thing and the thin thing and the thinner thing ", {.vocab_size = 270}));
  OpenedModel opened = SmallModel();
  opened.tokenizer = std::make_unique<BpeTokenizer>(tokenizer.vocab());
  Serve();
  service_->Add("merges", std::move(opened));
  const Json json = Post("/api/tokenize", {{"model", "merges"}, {"text", text}}).json();
  EXPECT_GE(json["pieces"].size(), 3u);
  std::set<std::string> seen;
  for (const Json& piece : json["pieces"]) {
    std::vector<int32_t> ids = Integers(piece["symbols"]);
    const std::string bytes = tokenizer.Decode(ids);
    EXPECT_TRUE(seen.insert(bytes).second) << bytes;
    EXPECT_EQ(text.substr(piece["at"].get<size_t>(), bytes.size()), bytes);
    for (const Json& merge : piece["merges"]) {
      const std::vector<int32_t> numbers = Integers(merge);  // place, id, rank
      const auto at = ids.begin() + numbers.at(0);
      *at = numbers.at(1);
      ids.erase(at + 1);
    }
    EXPECT_EQ(ids, tokenizer.EncodeOrdinary(bytes));
  }
}

TEST_F(PageModel, SpansAreTheTokensBytes) {
  Serve();
  const Json json = Post("/api/tokenize", {{"text", "a\xC3\xA9<|endoftext|>b"}}).json();
  EXPECT_EQ(json["ids"], Json::array({97, 0xC3, 0xA9, 256, 98}));
  EXPECT_EQ(json["spans"].dump(), "[[0,1],[1,2],[2,3],[3,16],[16,17]]");
  EXPECT_EQ(json["bytes"], 17);
  EXPECT_EQ(json["pieces"].size(), 0u) << "bytes are not merged";
  EXPECT_EQ(Post("/api/tokenize", {{"text", ""}}).json()["ids"].size(), 0u);
  ErrorOf(Post("/api/tokenize", {{"text", 1}}), 400);
}

// Tokens that a tokenizer puts before texts are seen by the model, shown, and never doubled.
TEST_F(PageModel, TextsBeginAsTheTokenizerSays) {
  OpenedModel opened = SmallModel();
  BpeVocab vocab = ByteVocab();
  vocab.before = {AddSpecial(vocab, "<s>")};
  opened.tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab));
  Serve();
  service_->Add("begun", std::move(opened));
  const auto ask = [&](const char* path, const char* text) {
    return Post(path, {{"model", "begun"}, {"text", text}, {"begin", true}}).json();
  };
  const Json begun = ask("/api/tokenize", "ab");
  EXPECT_EQ(begun["ids"], Json::array({256, 97, 98}));
  EXPECT_EQ(begun["spans"].dump(), "[[0,0],[0,1],[1,2]]");
  EXPECT_EQ(begun["begun"], 1);
  EXPECT_EQ(ask("/api/tokenize", "<s>a")["spans"].dump(), "[[0,3],[3,4]]");
  const Json plain = Post("/api/tokenize", {{"model", "begun"}, {"text", "ab"}}).json();
  EXPECT_EQ(plain["ids"], Json::array({97, 98}));
  for (const char* path : {"/api/score", "/api/trace"}) {
    EXPECT_EQ(ask(path, "ab")["ids"], begun["ids"]) << path;
    EXPECT_EQ(ask(path, "<s>ab")["ids"], begun["ids"]) << path;
    const Json given = Post(path, {{"model", "begun"}, {"ids", {97, 98}}}).json();
    EXPECT_EQ(given["ids"], Json::array({97, 98})) << path;
  }
  EXPECT_EQ(ask("/api/score", "ab")["lp"].size(), 3u);
  // Beyond the context each window begins with it.
  const Json length = ask("/api/score", std::string(700, 'a').c_str());
  EXPECT_EQ(length["lp"].size(), 701u);
  const Json embedded = Post("/v1/embeddings", {{"model", "begun"}, {"input", "ab"}}).json();
  EXPECT_EQ(embedded["usage"]["prompt_tokens"], 3);
}

TEST_F(PageModel, WritesAsTheGeneratorDoes) {
  Serve();
  const auto events = Generate({{"prompt", "abc"},
                                {"max_tokens", 12},
                                {"temperature", 0.7},
                                {"top_k", 30},
                                {"seed", 5},
                                {"logprobs", 3},
                                {"ignore_eos", true}});
  const OpenedModel model = SmallModel();
  Generator generator(*model.backend, *model.weights);
  GenerateOptions wanted{
      .sampling = {.temperature = 0.7, .top_k = 30, .seed = 5}, .max_tokens = 12, .likeliest = 3};
  wanted.usable = IdsWithTokens(*model.tokenizer);
  std::vector<NewToken> tokens;
  generator.Generate(std::vector<int32_t>{97, 98, 99}, wanted, 0, [&](const NewToken& token) {
    tokens.push_back(token);
    return true;
  });
  ASSERT_EQ(events.size(), 14u);
  EXPECT_EQ(events.front().name, "progress");
  EXPECT_EQ(events.front().data["total"], 3);
  std::string text;
  for (size_t i = 0; i < 12; ++i) {
    const PageEvent& event = events[i + 1];
    EXPECT_EQ(event.name, "token");
    EXPECT_EQ(event.data["i"], i);
    EXPECT_EQ(event.data["id"], tokens[i].id);
    EXPECT_NEAR(event.data["lp"].get<double>(), tokens[i].probabilities.log_probability, 1e-4);
    EXPECT_NEAR(event.data["sp"].get<double>(), tokens[i].chance, 1e-5);
    EXPECT_EQ(event.data["rank"], tokens[i].probabilities.rank + 1);
    EXPECT_NEAR(event.data["H"].get<double>(), tokens[i].probabilities.entropy, 1e-4);
    ASSERT_EQ(event.data["top"].size(), 3u);
    EXPECT_EQ(event.data["top"][1][0], tokens[i].probabilities.likeliest[1].id);
    text += event.data["text"].text();
  }
  const Json& done = events.back().data;
  EXPECT_EQ(events.back().name, "done");
  EXPECT_EQ(done["reason"], "length");
  EXPECT_EQ(done["seed"], 5);
  EXPECT_EQ(done["timings"]["prompt_n"], 3);
  EXPECT_EQ(done["timings"]["gen_n"], 12);
  EXPECT_EQ(done["prompt_ids"], Json::array({97, 98, 99}));
  if (done.contains("text")) text += done["text"].text();
  std::vector<int32_t> ids;
  for (const NewToken& token : tokens) ids.push_back(token.id);
  EXPECT_EQ(text, TextOf(*model.tokenizer, ids));
}

std::vector<int32_t> IdsOf(const std::vector<PageEvent>& events) {
  std::vector<int32_t> ids;
  for (const PageEvent& event : events) {
    if (event.name == "token") ids.push_back(event.data["id"].get<int32_t>());
  }
  return ids;
}

TEST_F(PageModel, SamplesAsTheProgramWhereNothingIsSaid) {
  Serve();
  const SamplingOptions sampling{.seed = 5};
  const Json said = Get("/api/info")["sampling"];
  EXPECT_EQ(said["temperature"], sampling.temperature);
  EXPECT_EQ(said["top_k"], sampling.top_k);
  EXPECT_EQ(said["top_p"], sampling.top_p);
  EXPECT_EQ(said["min_p"], sampling.min_p);
  EXPECT_EQ(said["repetition_penalty"], sampling.penalties.repetition);
  EXPECT_EQ(said["max_tokens"], GenerateOptions{}.max_tokens);
  const OpenedModel model = SmallModel();
  Generator generator(*model.backend, *model.weights);
  GenerateOptions wanted{.sampling = sampling};
  wanted.usable = IdsWithTokens(*model.tokenizer);
  std::vector<int32_t> ids;
  generator.Generate(std::vector<int32_t>{97}, wanted, 0, [&](const NewToken& token) {
    ids.push_back(token.id);
    return true;
  });
  EXPECT_EQ(IdsOf(Generate({{"prompt", "a"}, {"seed", 5}, {"ignore_eos", true}})), ids);
}

TEST_F(PageModel, AnEmptyPromptBeginsAsTheProgramDoes) {
  Serve();
  const Json begin = Get("/api/info")["model"]["begin"];
  EXPECT_EQ(begin, Json(PromptTokens(*SmallModel().tokenizer, "")));
  const Json fields{{"max_tokens", 8}, {"seed", 5}, {"ignore_eos", true}};
  Json empty = fields, ids = fields;
  empty["prompt"] = "";
  ids["ids"] = begin;
  const auto events = Generate(empty);
  EXPECT_EQ(events.back().data["prompt_ids"], begin);
  EXPECT_EQ(IdsOf(events), IdsOf(Generate(ids)));
}

TEST_F(PageModel, GivesTheSeedThatItDrew) {
  Serve();
  const Json fields{{"ids", Json::array({1, 2})}, {"max_tokens", 8}};
  const Json first = Generate(fields).back().data;
  Json again = fields;
  again["seed"] = first["seed"];
  EXPECT_LT(first["seed"].get<double>(), 4294967296.0);
  EXPECT_EQ(IdsOf(Generate(again)), IdsOf(Generate(again)));
}

TEST_F(PageModel, SaysWhyATextEnded) {
  Serve();
  const Json greedy{{"prompt", "q"}, {"temperature", 0}, {"max_tokens", 4}, {"ignore_eos", true}};
  const auto events = Generate(greedy);
  Json stopped = greedy;
  const std::string first = events[1].data["text"].text() + events[2].data["text"].text();
  if (!first.empty()) {
    stopped["stop"] = first;
    EXPECT_EQ(Generate(stopped).back().data["reason"], "stop");
  }
  Json ended = greedy;
  ended["stop_token_ids"] = Json::array({events[1].data["id"]});
  EXPECT_EQ(Generate(ended).back().data["reason"], "eos");
  Json full = greedy;
  full["prompt"] = std::string(298, 'x');
  full["max_tokens"] = 100;
  EXPECT_EQ(Generate(full).back().data["reason"], "context");
}

// Each token that was written is checked by what the model sees then.
TEST_F(PageModel, ATextGoesOnBeyondTheContextAndTellsWhatWasSeen) {
  Serve();
  Json ids = Json::array();
  for (int i = 0; i < 290; ++i) ids.push_back(i % 200);
  const auto events = Generate({{"ids", ids},
                                {"max_tokens", 400},
                                {"seed", 2},
                                {"ignore_eos", true},
                                {"when_full", "slide"}});
  EXPECT_EQ(events.back().data["reason"], "length");
  const OpenedModel model = SmallModel();
  Decoder decoder(*model.backend, *model.weights);
  std::vector<int32_t> text = Integers(ids);
  std::set<size_t> windows;
  for (const PageEvent& event : events) {
    if (event.name != "token") continue;
    const auto seen = event.data["seen"].get<size_t>();
    windows.insert(text.size() - seen);
    EXPECT_LE(seen, 300u);
    const auto id = static_cast<int32_t>(event.data["id"].get<int64_t>());
    if (text.size() % 50 == 1) {
      CachedSequence sequence(decoder.cache());
      const Tensor row = decoder.Append(sequence, std::span(text).last(seen));
      EXPECT_NEAR(event.data["lp"].get<double>(),
                  ProbabilitiesOf(Elements<float>(row), id, 1).log_probability, 1e-4)
          << text.size();
    }
    text.push_back(id);
  }
  EXPECT_EQ(text.size(), 690u);
  EXPECT_EQ(windows, (std::set<size_t>{0, 150, 300, 450}));

  // More of it: what is too long is seen in part, if that is wanted.
  Json more{{"ids", text}, {"max_tokens", 3}, {"when_full", "slide"}};
  EXPECT_EQ(Post("/api/generate", more).json()["error"]["code"], "context_length_exceeded");
  more["truncate"] = true;
  const auto on = Generate(more);
  EXPECT_EQ(on[0].data["total"], 150);
  EXPECT_EQ(on.back().data["prompt_ids"].size(), text.size());
}

TEST_F(PageModel, ConversationsAreThoseOfAChatSession) {
  Serve();
  const auto turn = [](const char* role, const std::string& content) {
    return Json{{"role", role}, {"content", content}};
  };
  Json messages = Json::array({turn("user", "Who?")});
  Json fields{{"model", "talker"}, {"messages", messages}, {"max_tokens", 20}, {"seed", 3}};
  const OpenedModel model = SmallModel(/*chat=*/true);
  ChatSession session(*model.tokenizer, FindChatFormat(*model.tokenizer).value(), 300);
  const auto prompt_of = [&](const std::vector<PageEvent>& events) {
    return Integers(events.back().data["prompt_ids"]);
  };
  auto events = Generate(fields);
  EXPECT_EQ(prompt_of(events), session.Ask("Who?", 20).ids);
  EXPECT_EQ(events[0].data["forgotten"], 0);
  // Until the oldest turns have no room any more.
  int64_t forgotten = 0, told = 0;
  for (int i = 0; i < 6; ++i) {
    const std::string answer(60, 'a'), question(40, 'q');
    session.Answered(model.tokenizer->EncodeOrdinary(answer));
    messages.push_back(turn("assistant", answer));
    messages.push_back(turn("user", question));
    fields["messages"] = messages;
    const ChatSession::Question asked = session.Ask(question, 20);
    forgotten += asked.forgotten;
    events = Generate(fields);
    EXPECT_EQ(prompt_of(events), asked.ids) << i;
    told = events[0].data["forgotten"].get<int64_t>();
    EXPECT_EQ(events[0].data["prompt_ids"], events.back().data["prompt_ids"]);
    EXPECT_EQ(told, forgotten) << i;
  }
  EXPECT_GT(told, 2);
  const auto refused = [&](const Json& bad) {
    fields["messages"] = bad;
    return Post("/api/generate", fields).json()["error"]["param"];
  };
  EXPECT_EQ(refused(Json::array()), "messages");
  EXPECT_EQ(refused(Json::array({turn("assistant", "x")})), "messages");
  EXPECT_EQ(refused(Json::array({turn("user", "x"), turn("user", "y")})), "messages");
  EXPECT_EQ(refused(Json::array({turn("user", "x"), turn("assistant", "y")})), "messages");
  EXPECT_EQ(refused(Json::array({turn("system", "x")})), "messages");
  EXPECT_EQ(refused(Json::array({turn("user", "x"), turn("system", "y")})), "messages");
  EXPECT_EQ(refused(Json::array({turn("user", std::string(400, 'x'))})), "messages");
  // One of the system stands before all of them.
  ChatSession told_how(*model.tokenizer, FindChatFormat(*model.tokenizer).value(), 300);
  told_how.SetSystem("Be brief.");
  fields["messages"] = Json::array({turn("system", "Be brief."), turn("user", "Who?")});
  EXPECT_EQ(prompt_of(Generate(fields)), told_how.Ask("Who?", 20).ids);
  fields["model"] = "small";
  fields["messages"] = Json::array({turn("user", "x")});
  EXPECT_EQ(Post("/api/generate", fields).json()["error"]["code"], "no_chat_template");
}

TEST_F(PageModel, ALongPromptSaysHowFarItIs) {
  Serve();
  const auto events = Generate({{"prompt", std::string(290, 'x')}, {"max_tokens", 1}});
  std::vector<int64_t> done;
  for (const PageEvent& event : events) {
    if (event.name == "progress") done.push_back(event.data["done"].get<int64_t>());
  }
  EXPECT_EQ(done, (std::vector<int64_t>{0, 128, 256, 290}));
}

TEST_F(PageModel, WhatCannotBeWrittenIsRefusedBeforeItBegins) {
  Serve();
  ErrorOf(Post("/api/generate", {{"prompt", std::string(301, 'x')}}), 400);
  ErrorOf(Post("/api/generate", {{"ids", Json::array({257})}}), 400);
  ErrorOf(Post("/api/generate", {{"ids", Json::array()}}), 400);
  ErrorOf(Post("/api/generate", {{"prompt", "x"}, {"temperature", -1}}), 400);
  ErrorOf(Post("/api/generate", {{"prompt", "x"}, {"logprobs", 51}}), 400);
  EXPECT_EQ(Generate({{"prompt", ""}, {"max_tokens", 0}}).back().data["prompt_ids"],
            Json::array({256}));
}

TEST_F(PageModel, AGenerationEndsWhenItsReaderHangsUp) {
  ServiceOptions options;
  options.scheduler = {.slots = 1, .queue = 1};
  Serve(options);
  const std::string body = Json{{"prompt", "a"}, {"max_tokens", 290}, {"ignore_eos", true}}.dump();
  for (int i = 0; i < 6; ++i) {
    NewClient().Ask("POST", "/api/generate", body, {}, [](std::string_view) { return false; });
  }
  const Json small{{"prompt", "b"}, {"max_tokens", 2}};
  while (Post("/api/generate", small).status == 429) std::this_thread::yield();
  EXPECT_LT(service_->metrics().new_tokens, 6 * 290);
}

TEST_F(PageModel, ScoresAreInspects) {
  Serve();
  for (const size_t length : {2u, 40u, 700u}) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i * i % 17);
    const Json json = Post("/api/score", {{"text", text}, {"top", 4}}).json();
    const OpenedModel model = SmallModel();
    const TokenScores scores =
        ScoreTokens(model, {.name = "", .ids = model.tokenizer->Encode(text)}, 4);
    ASSERT_EQ(json["lp"].size(), length);
    EXPECT_TRUE(json["lp"][0u].is_null());
    EXPECT_EQ(json["top"][0u].size(), 0u);
    for (size_t i = 1; i < length; ++i) {
      const TokenScore& score = scores.tokens[i - 1];
      EXPECT_NEAR(json["lp"][i].get<double>(), -score.surprise, 1e-5 * (1 + score.surprise));
      EXPECT_EQ(json["rank"][i], score.rank + 1);
      EXPECT_NEAR(json["H"][i].get<double>(), score.entropy, 1e-4);
      EXPECT_EQ(json["top"][i][3][0u], score.top[3].id);
    }
    EXPECT_NEAR(json["bits_per_byte"].get<double>(), scores.bits_per_byte, 1e-4);
    EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(scores.surprise),
                1e-4 * std::exp(scores.surprise));
  }
  EXPECT_TRUE(Post("/api/score", {{"text", "a"}}).json()["perplexity"].is_null());
  ErrorOf(Post("/api/score", {{"text", ""}}), 400);
  ErrorOf(Post("/api/score", {{"text", std::string(5000, 'a')}}), 400);
}

// A model of rows of whole blocks.
OpenedModel ModelOfBlocks() {
  OpenedModel model = SmallModel();
  GptConfig config = model.weights->config();
  config.n_embd = 32;
  config.n_inner = 64;
  model.weights = std::make_unique<GptWeights>(config);
  Scatter(*model.weights, 1);
  return model;
}

// An inspected model has the numbers that the served model computes with, as float32.
TEST(PageOfStoredModels, IsLookedIntoThroughAFloatCopy) {
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    SCOPED_TRACE(DtypeName(dtype));
    const OpenedModel source = ModelOfBlocks();  // where the vectors stay
    OpenedModel model = ModelOfBlocks();
    model.weights = MapWeights(AsStored(*source.weights), {.dtype = dtype});
    const auto floats = MapWeights(AsStored(*model.weights));
    Service service({}, {});
    service.Add("stored", std::move(model));
    const auto ask = [&](const std::string& method, const std::string& path,
                         const Json& body = Json::object()) {
      const HttpReply reply = service.Answer(LocalRequest(method, path, body.dump()));
      EXPECT_EQ(reply.status, 200) << path << reply.body;
      return reply.body;
    };
    const auto info = [&] { return ParseJson(ask("GET", "/api/info"), "info"); };
    EXPECT_EQ(info()["features"], Json::array({"generate", "score", "trace", "embed"}));
    const Json before = info()["model"]["float_copy"];
    EXPECT_GT(before["bytes"].get<int64_t>(), 4 * 257 * 32);
    EXPECT_EQ(before["ready"], false);
    const Json scores = ParseJson(ask("POST", "/api/score", {{"text", "abcabc"}}), "scores");
    const auto wanted =
        ScoreTokens(*source.backend, *floats, source.tokenizer.get(),
                    {.name = "text", .ids = source.tokenizer->Encode("abcabc", "text")}, 3);
    for (size_t i = 1; i < 6; ++i) {
      EXPECT_NEAR(scores["lp"][i].get<double>(), -wanted.tokens[i - 1].surprise, 1e-4);
    }
    EXPECT_EQ(info()["model"]["float_copy"]["ready"], true);
    const std::string trace =
        ParseJson(ask("POST", "/api/trace", {{"text", "ab"}}), "t")["trace"].text();
    ask("GET", "/api/trace/" + trace + "/scores");
    ask("GET", "/api/embed/pca");
    ask("GET", "/api/wpe");
  }
}

class PageEmbeddingsTest : public PageTest {
 protected:
  PageEmbeddingsTest() { Serve(); }

  // The value of a byte of a frame.
  static double ValueOf(const ReadNumbers& frame, uint8_t byte) {
    return frame.about["offset"].get<double>() + frame.about["scale"].get<double>() * byte;
  }

  OpenedModel model_ = SmallModel();
  const Tensor& wte_ = model_.weights->params().wte;
};

TEST_F(PageEmbeddingsTest, TokensAreProjectedAsInspectDoes) {
  const ReadNumbers frame = Numbers("/api/embed/pca");
  EXPECT_EQ(frame.tensors["numbers"]["dtype"], "I16");
  EXPECT_EQ(frame.shape(), Json::array({257, 3}));
  const auto numbers = frame.Of<int16_t>();
  const Projection wanted = ProjectRows(*model_.backend, wte_, 2);
  const double scale = frame.about["scale"].get<double>();
  EXPECT_NEAR(frame.about["explained"][size_t{0}].get<double>(), wanted.explained[0], 1e-6);
  EXPECT_NEAR(frame.about["explained"][1].get<double>(), wanted.explained[1], 1e-6);
  for (size_t id = 0; id < 257; ++id) {
    EXPECT_NEAR(scale * numbers[3 * id], wanted.along[0][id], 0.02) << id;
    EXPECT_NEAR(scale * numbers[3 * id + 1], wanted.along[1][id], 0.02) << id;
  }
}

TEST_F(PageEmbeddingsTest, TheirTagSavesTheSecondTime) {
  const auto first = client_->Get("/api/embed/pca");
  const std::string tag = first.header("ETag");
  EXPECT_EQ(client_->Get("/api/embed/pca", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(client_->Get("/api/embed/pca").body, first.body);
}

TEST_F(PageEmbeddingsTest, NeighboursAreInspects) {
  const Json json = Get("/api/embed/nn?id=97&k=5");
  const std::vector<Neighbour> wanted = NearestRows(wte_, Row(wte_, 97), 5, 97);
  ASSERT_EQ(json["nearest"].size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(json["nearest"][i][size_t{0}], wanted[i].row);
    EXPECT_NEAR(json["nearest"][i][1].get<double>(), wanted[i].cosine, 1e-6);
  }
  EXPECT_EQ(Get("/api/embed/nn?id=0")["nearest"].size(), 20u);
}

TEST_F(PageEmbeddingsTest, PositionsAreEvenlyChosen) {
  std::vector<float> table = PositionTable(*model_.weights);
  const Tensor positions(table.data(), {300, 16});
  const std::vector<float> cosines = CosineSimilarity(positions, 300);
  const ReadNumbers sim = Numbers("/api/wpe?view=sim&size=30");
  EXPECT_EQ(sim.shape(), Json::array({30, 30}));
  EXPECT_EQ(sim.about["positions"][3], 30);
  const auto bytes = sim.Of<uint8_t>();
  for (size_t i = 0; i < 30; ++i) {
    for (size_t j = 0; j < 30; ++j) {
      EXPECT_NEAR(ValueOf(sim, bytes[30 * i + j]), cosines[3000 * i + 10 * j], 1 / 254.0);
    }
  }
  const ReadNumbers values = Numbers("/api/wpe?view=values&size=100");
  EXPECT_EQ(values.shape(), Json::array({100, 16}));
  const double half = values.about["scale"].get<double>() / 2;
  const auto steps = values.Of<uint8_t>();
  for (int64_t i = 0; i < 100; ++i) {
    for (size_t c = 0; c < 16; ++c) {
      const size_t at = static_cast<size_t>(i) * 16 + c;
      EXPECT_NEAR(ValueOf(values, steps[at]), Row(positions, 3 * i)[c], 1.01 * half);
    }
  }
  const auto curves = Numbers("/api/wpe?view=curves&dims=15,2").Of();
  ASSERT_EQ(curves.size(), 600u);
  EXPECT_EQ(curves[7], Row(positions, 7)[15]);
  EXPECT_EQ(curves[300 + 299], Row(positions, 299)[2]);
}

// Positions of a model that turns queries and keys: in windows by angles of their own, and not in
// every third layer.
TEST(PageOfTurningModels, PositionsAreHands) {
  OpenedModel model = SmallModel();
  GptConfig config = model.weights->config();
  config.n_layer = 3;
  config.position_embedding = PositionKind::kRotary;
  config.rotary_dim = 6;
  config.no_rope_every = 3;
  config.sliding_window = 4;
  config.layer_kinds = LayerKindsOf("wf");
  config.rope_window_theta = 100;
  model.weights = std::make_unique<GptWeights>(config);
  Scatter(*model.weights, 1);
  Service service({}, {});
  service.Add("turning", std::move(model));
  const auto ask = [&](const std::string& path, const std::map<std::string, std::string>& query) {
    return service.Answer(LocalRequest("GET", path, "", query));
  };
  const Json info = ParseJson(ask("/api/info", {}).body, "info");
  EXPECT_EQ(info["model"]["block"]["position_channels"], 6);
  for (const auto& [layer, theta] : {std::pair{"0", 100.0}, {"1", 10000.0}}) {
    const ReadNumbers curves = NumbersIn(
        ask("/api/wpe", {{"view", "curves"}, {"dims", "1,4"}, {"layer", layer}, {"to", "50"}})
            .body);
    EXPECT_EQ(curves.about["layers"].dump(), fmt::format("[{}]", layer));
    const double step = std::pow(theta, -2.0 / 6);
    EXPECT_NEAR(curves.about["wavelengths"][1].get<double>(), 2 * std::numbers::pi / step, 1e-3);
    const auto numbers = curves.Of();
    ASSERT_EQ(numbers.size(), 100u);
    for (size_t p = 0; p < 50; ++p) {
      EXPECT_NEAR(numbers[p], std::cos(double(p) * step), 1e-5) << p;
      EXPECT_NEAR(numbers[50 + p], std::sin(double(p) * step), 1e-5) << p;
    }
  }
  EXPECT_EQ(ask("/api/wpe", {{"layer", "2"}}).status, 400);
  EXPECT_EQ(ask("/api/wpe", {{"view", "curves"}, {"dims", "6"}}).status, 400);
  EXPECT_EQ(NumbersIn(ask("/api/wpe", {{"size", "20"}}).body).shape(), Json::array({20, 20}));
}

TEST_F(PageEmbeddingsTest, WhatIsNotThereIsRefused) {
  for (const char* path :
       {"/api/embed/nn", "/api/embed/nn?id=257", "/api/embed/nn?id=-1", "/api/embed/nn?id=1&k=0",
        "/api/embed/nn?id=1&k=201", "/api/wpe?view=what", "/api/wpe?size=7", "/api/wpe?size=513",
        "/api/wpe?view=curves&dims=16"}) {
    ErrorOf(Ask("GET", path), 400);
  }
  ErrorOf(Ask("GET", "/api/embed/what"), 404);
}

}  // namespace

}  // namespace folio
