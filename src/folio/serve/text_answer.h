#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generated_texts.h"
#include "folio/serve/http.h"

namespace folio {

// An endpoint's way to make JSON of the texts that a model writes for it.
class TextAnswer {
 public:
  virtual ~TextAnswer() = default;

  // The events of a stream for a delta; may be none.
  virtual std::vector<Json> Chunks(const GeneratedTexts& texts,
                                   const GeneratedTexts::Delta& delta) = 0;
  // Returns the events behind the last delta.
  virtual std::vector<Json> LastChunks(const GeneratedTexts& texts) = 0;
  // Returns the whole answer, instead of a stream, when all texts have ended.
  virtual Json Whole(const GeneratedTexts& texts) = 0;
};

// Texts on their way to a client. One that takes longer than `most_seconds` ends with an error.
class TextsStream : public HttpStream {
 public:
  TextsStream(std::shared_ptr<GeneratedTexts> texts, double most_seconds);

  void Begin(const std::function<void()>& news) final { texts_->OnNews(news); }
  Part Next() final;

 protected:
  GeneratedTexts& texts() { return *texts_; }
  const GeneratedTexts& texts() const { return *texts_; }

 private:
  // Events for a delta; may be none.
  virtual std::string Events(const GeneratedTexts::Delta& delta) = 0;
  // These events come before all of them, and behind.
  virtual std::string FirstEvents() { return ""; }
  virtual std::string LastEvents() { return ""; }
  virtual std::string ErrorEvent(const ApiError& error) const = 0;
  // Returns the whole reply, instead of events, where the answer waits, when the texts have ended.
  virtual std::optional<HttpReply> Whole() { return {}; }
  virtual bool waits() const { return false; }

  std::shared_ptr<GeneratedTexts> texts_;
  double most_seconds_, end_, said_;
  bool begun_ = false;
};

// The texts when all of them have ended or, with `stream`, as events while they come.
HttpReply Reply(const std::shared_ptr<GeneratedTexts>& texts,
                const std::shared_ptr<TextAnswer>& answer, bool stream, double most_seconds);

// Returns what was used, as OpenAI counts: prompts once, every text that was written.
Json UsageOf(const GeneratedTexts& texts, size_t texts_of_a_prompt);

// Members that every answer and chunk begins with.
struct AnswerHead {
  std::string id, object, model;
  int64_t created = 0;

  Json json() const;
};

}  // namespace folio
