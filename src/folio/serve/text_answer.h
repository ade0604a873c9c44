#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/http.h"
#include "folio/serve/written_texts.h"

namespace folio {

// An endpoint's way to make JSON of the texts that a model writes for it.
class TextAnswer {
 public:
  virtual ~TextAnswer() = default;

  // The events of a stream for a piece; may be none.
  virtual std::vector<Json> Chunks(const WrittenTexts& texts, const WrittenTexts::Piece& piece) = 0;
  // Those behind the last piece.
  virtual std::vector<Json> LastChunks(const WrittenTexts& texts) = 0;
  // Instead of a stream, when all have ended.
  virtual Json Whole(const WrittenTexts& texts) = 0;
};

// Waits for the texts or, with `stream`, hands them on as events while they come. Where the client
// is gone they end, and an answer that takes longer than `most_seconds` is an error.
HttpReply Reply(const std::shared_ptr<WrittenTexts>& texts,
                const std::shared_ptr<TextAnswer>& answer, bool stream, const HttpRequest& request,
                double most_seconds);

// What was used, as OpenAI counts: prompts once, every text that was written.
Json UsageOf(const WrittenTexts& texts, size_t texts_of_a_prompt);

// Members that every answer and chunk begins with.
struct AnswerHead {
  std::string id, object, model;
  int64_t created = 0;

  Json json() const;
};

}  // namespace folio
