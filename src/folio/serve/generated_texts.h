#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/serve/api_error.h"
#include "folio/serve/http.h"
#include "folio/serve/scheduler.h"
#include "folio/serve/service_metrics.h"

namespace folio {

// TextJob holds the texts that a request wants written.
struct TextJob {
  std::vector<std::vector<int32_t>> prompts;  // not empty, nor is any of them
  int64_t each = 1;                           // texts of each prompt
  GenerateOptions options = {};  // stop_tokens and usable as ForTokens makes them; stop_strings too
  bool prompt_probabilities = false;  // with options.likeliest
  bool reading = false;               // a delta tells how much of a long prompt is read
};

// The texts of a request, as a model writes them.
class GeneratedTexts {
 public:
  struct Text {
    GeneratedText written = {};  // when it has ended
    GenerateStats stats = {};
    // These are the probabilities of the prompt's tokens from the second on, if the job wants them.
    std::vector<ModelProbabilities> prompt = {};
    bool ended = false;
    bool end_token = false;  // it ended by such a one
  };
  // Something of one text.
  struct Delta {
    size_t text = 0;         // prompt * each + place among its texts
    std::string shown = {};  // of the text; may be empty
    std::vector<NewToken> tokens = {};
    bool ended = false;  // it is its last delta
    int64_t read = 0;    // of the prompt, if that is all there is to tell
  };

  // Throws what CheckGeneration and Scheduler::Submit throw. The model and the metrics of the call
  // must outlive it.
  GeneratedTexts(const Call& call, TextJob job);
  // Cancels the texts that have not ended.
  ~GeneratedTexts();
  GeneratedTexts(const GeneratedTexts&) = delete;

  // Calls `news`, which must be quick, on the scheduler's thread whenever something has come, also
  // for what has come before.
  void OnNews(std::function<void()> news);
  // Returns the deltas that have come since the last call. Throws as SequenceGroup::ThrowIfFailed.
  std::vector<Delta> Take();
  bool ended() const { return left_ == 0; }
  // REQUIRES: its last delta was taken.
  const Text& text(size_t i) const;
  size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::shared_ptr<SequenceGroup> scheduled_;
  size_t left_ = 0;
};

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
