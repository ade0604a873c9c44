#include "folio/serve/page_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "folio/base/hash.h"
#include "folio/base/utf8.h"
#include "folio/infer/text_streamer.h"
#include "folio/inspect/probabilities.h"
#include "folio/io/json.h"
#include "folio/plot/png.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_files.h"
#include "folio/text/bpe_tokenizer.h"

namespace folio {
namespace {

// The first pieces of a text that are put together of several symbols, each once, and how. Only the
// beginning of a long text is looked at.
Json MergedPieces(const Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kMost = 40, kLongest = 64;  // pieces, bytes
  constexpr size_t kBeginning = size_t{1} << 15;
  if (text.size() > kBeginning) text = text.substr(0, tokenizer.FindCut(text, kBeginning));
  std::set<std::string_view> seen;
  Json pieces = Json::array();
  ExplainText(tokenizer, text, SpecialRule::Allow(), "'text'", [&](const ExplainedPretoken& piece) {
    if (pieces.size() == kMost || piece.merges.empty() || piece.bytes.size() > kLongest) return;
    if (!seen.insert(piece.bytes).second) return;
    Json merges = Json::array();
    for (const BpeTokenizer::MergeStep& step : piece.merges) {
      merges.push_back(Json::array({step.at, step.merged, step.rank}));
    }
    pieces.push_back({{"at", piece.bytes.data() - text.data()},
                      {"symbols", piece.merges.front().before},
                      {"merges", merges}});
  });
  return pieces;
}

// The ids that model and tokenizer both know.
int64_t KnownTokens(const ServedModel& model) {
  return std::min(model.config().vocab_size, model.tokenizer().vocab_size());
}

}  // namespace

void RequireFloat32(const ServedModel& model) {
  const std::string_view dtype = MatrixDtypeOf(*model.model.weights);
  if (dtype == "fp32") return;
  throw ApiError(400,
                 fmt::format("the model is kept as {}, and looking inside needs float32: serve it "
                             "with --dtype fp32",
                             dtype),
                 "", "needs_fp32");
}

std::vector<int32_t> ReadPageTokens(const RequestFields& fields, const ServedModel& model,
                                    int64_t most) {
  std::vector<int32_t> ids;
  const Json* given = fields.Find("ids");
  if (given != nullptr) {
    ids = ReadTokenIds(*given, "ids", model.config().vocab_size);
  } else {
    ids = model.tokenizer().Encode(fields.Text("text"), "'text'", SpecialRule::Allow());
  }
  const std::string key = given != nullptr ? "ids" : "text";
  if (ids.empty()) ThrowBadField(key, "of at least one token");
  if (std::ssize(ids) > most) {
    throw ApiError(400,
                   fmt::format("{} tokens are more than the {} that are taken", ids.size(), most),
                   key, "context_length_exceeded");
  }
  return ids;
}

Json TopPairs(const std::vector<TokenProbability>& top) {
  Json pairs = Json::array();
  for (const TokenProbability& one : top) {
    pairs.push_back(Json::array({one.id, ShortNumber(one.log_probability)}));
  }
  return pairs;
}

Json PageModelJson(const ServedModel& model) {
  const ModelSummary summary = model.summary();
  return {{"name", model.name},
          {"id", model.id},
          {"n_layer", summary.layers},
          {"n_head", summary.heads},
          {"n_embd", summary.channels},
          {"n_ctx", summary.context},
          {"n_vocab", summary.vocabulary},
          {"n_inner", summary.feed_forward},
          {"params", summary.parameters()},
          {"dtype", MatrixDtypeOf(*model.model.weights)},
          {"causal", summary.causal},
          {"position_embedding", summary.positions},
          {"tokenizer", std::string(model.tokenizer().kind())},
          {"end_of_text", Json(model.tokenizer().end_of_text())},
          {"begin", PromptTokens(model.tokenizer(), "")}};
}

HttpReply AnswerVocabulary(const ServedModel& model, const HttpRequest& request) {
  const Tokenizer& tokenizer = model.tokenizer();
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("tokens").BeginArray();
  for (int64_t id = 0; id < KnownTokens(model); ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(static_cast<int32_t>(id));
    json.Value(bytes.empty() ? Json() : Json(Base64(bytes)));
  }
  json.EndArray().EndObject();
  return Tagged(std::move(reply), tokenizer.hash(), request);
}

HttpReply AnswerPageTokens(const ServedModel& model, const RequestFields& fields) {
  const Tokenizer& tokenizer = model.tokenizer();
  const std::string text = fields.Text("text");
  const std::vector<int32_t> ids = tokenizer.Encode(text, "'text'", SpecialRule::Allow());
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("ids").Array(std::span(ids)).Key("spans").BeginArray();
  for (size_t i = 0, begin = 0; i < ids.size(); ++i) {
    const size_t end = begin + tokenizer.TokenBytes(ids[i]).size();
    json.BeginArray().Value(begin).Value(end).EndArray();
    begin = end;
  }
  json.EndArray().Key("bytes").Value(text.size());
  json.Key("pieces").Value(MergedPieces(tokenizer, text)).EndObject();
  return reply;
}

HttpReply AnswerScores(ServedModel& model, const RequestFields& fields,
                       const AnswerLimits& limits) {
  constexpr int64_t kMemoryOfScore = 64;  // in `scores`, and as text
  RequireFloat32(model);
  const int64_t top = fields.Integer("top", 10, 0, kMostPageTop);
  ModelText text{.name = "text", .ids = ReadPageTokens(fields, model, kMostScoredTokens)};
  const MemoryBudget::Share memory(limits.memory,
                                   kMemoryOfScore * (top + 4) * std::ssize(text.ids));
  const bool any = text.ids.size() > 1;
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("ids").Array(std::span<const int32_t>(text.ids));
  TokenScores scores;
  if (any) {
    const std::lock_guard lock(model.inspect_mutex);
    scores = ScoreTokens(*model.inspect_backend, *model.model.weights, &model.tokenizer(),
                         std::move(text), top);
  }
  // Nothing foretells the first token.
  const auto column = [&](const char* key, const Json& first, const auto& value_of) {
    json.Key(key).BeginArray().Value(first);
    for (const TokenScore& score : scores.tokens) json.Value(value_of(score));
    json.EndArray();
  };
  column("lp", {}, [](const TokenScore& score) { return ShortNumber(-score.surprise); });
  column("rank", {}, [](const TokenScore& score) { return score.rank + 1; });
  column("H", {}, [](const TokenScore& score) { return ShortNumber(score.entropy); });
  column("top", Json::array(), [](const TokenScore& score) { return TopPairs(score.top); });
  json.Key("nats_per_token").Value(any ? ShortNumber(scores.surprise) : Json());
  json.Key("perplexity").Value(any ? ShortNumber(std::exp(scores.surprise)) : Json());
  const bool bits = any && scores.bits_per_byte > 0;
  json.Key("bits_per_byte").Value(bits ? ShortNumber(scores.bits_per_byte) : Json()).EndObject();
  return reply;
}

}  // namespace folio
