#include <fmt/format.h>

#include <algorithm>

#include "folio/c/handles.h"
#include "folio/corpus/text_files.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/encodings.h"
#include "folio/text/split.h"

using folio::Guarded;
using folio::IdsArgument;
using folio::Json;
using folio::PathArgument;
using folio::RequireArgument;
using folio::RequireArguments;
using folio::RequireArray;
using folio::TextArgument;

namespace {

folio::SpecialRule RuleOf(int32_t special) {
  switch (special) {
    case FOLIO_SPECIAL_ORDINARY:
      return folio::SpecialRule::Ordinary();
    case FOLIO_SPECIAL_ALLOW:
      return folio::SpecialRule::Allow();
    case FOLIO_SPECIAL_RAISE:
      return folio::SpecialRule::Raise();
    default:
      throw folio::UsageError("special: invalid value",
                              "expected FOLIO_SPECIAL_ORDINARY, _ALLOW or _RAISE");
  }
}

// Bytes of texts between two checks for a request to stop.
constexpr int64_t kPiece = int64_t{32} << 20;

}  // namespace

folio_status folio_tokenizer_open(const char* spec, folio_tokenizer** out, folio_error** error) {
  return Guarded(error, [&] {
    PathArgument(spec, "spec");
    RequireArgument(out, "out");
    *out = new folio_tokenizer{folio::OpenTokenizer(spec)};
  });
}

folio_status folio_tokenizer_encode(const folio_tokenizer* tokenizer, const char* text,
                                    size_t length, int32_t special, const folio_watch* watch,
                                    folio_buffer* ids, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{tokenizer, "tokenizer"}, {ids, "ids"}});
    const std::string_view all = TextArgument(text, length);
    const folio::SpecialRule rule = RuleOf(special);
    folio::Watcher watcher(watch);
    const auto total = static_cast<int64_t>(length);
    const auto hear = [&](size_t done) { return watcher.Hear(static_cast<int64_t>(done), total); };
    std::vector<int32_t> found = ids->TakeIds();
    if (special != FOLIO_SPECIAL_ORDINARY) {
      found = tokenizer->impl->Encode(all, "text", rule);
    } else if (!EncodeParallel(*tokenizer->impl, all, "text", found, hear)) {
      throw folio::CallStopped{};
    }
    ids->SetIds(std::move(found));
  });
}

folio_status folio_tokenizer_encode_batch(const folio_tokenizer* tokenizer,
                                          const char* const* texts, const size_t* lengths,
                                          size_t count, const folio_watch* watch, folio_buffer* ids,
                                          folio_buffer* offsets, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{tokenizer, "tokenizer"}, {ids, "ids"}, {offsets, "offsets"}});
    RequireArray(texts, count, sizeof(*texts), "texts");
    RequireArray(lengths, count, sizeof(*lengths), "lengths");
    const folio_watch watching = folio::WatchArgument(watch);
    std::vector<std::string_view> views(count);
    int64_t done = 0, total = 0;
    for (size_t i = 0; i < count; ++i) {
      views[i] = TextArgument(texts[i], lengths[i], "texts");
      total += ssize(views[i]);
    }
    std::vector<int64_t> begins = {0};
    std::vector<int32_t> all = ids->TakeIds();
    for (size_t first = 0, last = 0; first < count; first = last) {
      folio::Tell(watching, done, total);
      int64_t bytes = 0;
      for (; last < count && bytes < kPiece; ++last) bytes += ssize(views[last]);
      done += bytes;
      const auto some = std::span(views).subspan(first, last - first);
      for (const std::vector<int32_t>& one : EncodeBatch(*tokenizer->impl, some)) {
        begins.push_back(begins.back() + ssize(one));
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    ids->SetIds(std::move(all));
    offsets->Set(begins);
  });
}

folio_status folio_tokenizer_decode(const folio_tokenizer* tokenizer, const int32_t* ids,
                                    size_t count, folio_buffer* bytes, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{tokenizer, "tokenizer"}, {bytes, "bytes"}});
    bytes->Set(tokenizer->impl->Decode(IdsArgument(ids, count)));
  });
}

folio_status folio_tokenizer_token(const folio_tokenizer* tokenizer, int32_t id, const char** bytes,
                                   size_t* length, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{tokenizer, "tokenizer"}, {bytes, "bytes"}, {length, "length"}});
    const std::string_view token = tokenizer->impl->TokenBytes(id);
    *bytes = token.data();
    *length = token.size();
  });
}

folio_status folio_tokenizer_info(const folio_tokenizer* tokenizer, folio_buffer* json,
                                  folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{tokenizer, "tokenizer"}, {json, "json"}});
    const folio::Tokenizer& shown = *tokenizer->impl;
    Json specials = Json::array();
    for (const folio::SpecialToken& token : shown.special_tokens()) {
      specials.push_back({{"text", token.text}, {"id", token.id}});
    }
    json->Set(Json{{"kind", shown.kind()},
                   {"vocab_size", shown.vocab_size()},
                   {"end_of_text", shown.end_of_text()},
                   {"special_tokens", std::move(specials)},
                   {"hash", shown.hash()}}
                  .dump());
  });
}

folio_status folio_tokenizer_save(const folio_tokenizer* tokenizer, const char* directory,
                                  folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(tokenizer, "tokenizer");
    PathArgument(directory, "directory");
    tokenizer->impl->Save(directory);
  });
}

folio_status folio_tokenizer_train(const char* const* texts, size_t count, const char* directory,
                                   const folio_options* options, const folio_watch* watch,
                                   folio_error** error) {
  return Guarded(error, [&] {
    PathArgument(directory, "directory");
    const folio_watch watching = folio::WatchArgument(watch);
    folio_options named = folio::OptionsArgument(options, folio_options::Kind::kTokenizer);
    folio::TrainTokenizerOptions& train = named.tokenizer;
    train.files = folio::FindTextFiles(folio::TextsArgument(texts, count), train.texts).files;
    train.out = directory;
    train.trainer.pattern = *folio::FindSplitPattern(named.pattern);
    const auto tell = [&](int64_t done, int64_t total) { folio::Tell(watching, done, total); };
    folio::TrainTokenizer(train, {.counting = tell, .merging = tell});
  });
}

void folio_tokenizer_free(folio_tokenizer* tokenizer) {
  delete tokenizer;
}
