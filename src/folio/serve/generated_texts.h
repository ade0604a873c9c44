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
#include "folio/serve/access_log.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/scheduler.h"

namespace folio {

// TextJob holds the texts that a request wants written.
struct TextJob {
  std::vector<std::vector<int32_t>> prompts;  // not empty, nor is any of them
  int64_t each = 1;                           // texts of each prompt
  GenerateOptions options = {};  // stop_tokens and usable as ForTokens makes them; stop_strings too
  bool prompt_probabilities = false;  // with options.likeliest
  bool reading = false;               // a delta tells how much of a long prompt is read
  // TextRequest::on_norm of each text; may live longer than whoever asked.
  std::function<void(size_t text, int64_t first, const Tensor& norm)> on_norm = {};
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
  // A new piece of one text.
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

// The texts of a job on their way to a client: when all of them have ended (`waits`) or as events
// while they come. What takes longer than the limits let it ends with an error.
class TextsStream : public HttpStream {
 public:
  // Throws as GeneratedTexts. `memory` is kept until the answer was sent.
  TextsStream(const Call& call, const TextJob& job, MemoryBudget::Share memory, bool waits);

  // The reply that has `stream`.
  static HttpReply ReplyOf(std::shared_ptr<TextsStream> stream);

  void Begin(const std::function<void()>& news) final { texts_.OnNews(news); }
  Part Next() final;

 protected:
  const GeneratedTexts& texts() const { return texts_; }

 private:
  // Events for a delta; may be none.
  virtual std::string Events(const GeneratedTexts::Delta& /*delta*/) { return ""; }
  // These events come before all of them, and behind.
  virtual std::string FirstEvents() { return ""; }
  virtual std::string LastEvents() { return ""; }
  virtual std::string ErrorEvent(const ApiError& /*error*/) const { return ""; }
  // Returns the body of an answer that waits, when the texts have ended.
  virtual std::string Whole() { return ""; }

  GeneratedTexts texts_;
  std::shared_ptr<MemoryBudget::Share> memory_;
  const bool waits_;
  double most_seconds_, end_, said_;
  bool begun_ = false;
};

// An answer of OpenAI's interface. It, and each chunk of a stream, begins with the same members and
// has choices.
class OpenAiAnswer : public TextsStream {
 public:
  struct Form {
    std::string id, object;
    bool stream = false, usage = false;  // `usage`: told behind a stream
  };
  OpenAiAnswer(const Call& call, const TextJob& job, MemoryBudget::Share memory, Form form);

 private:
  // The choices of a stream for a delta, each for a chunk of its own; may be none.
  virtual std::vector<Json> Choices(const GeneratedTexts::Delta& delta) = 0;
  // The choices of all texts, which have ended.
  virtual Json AllChoices() = 0;

  std::string Events(const GeneratedTexts::Delta& delta) final;
  std::string LastEvents() final;
  std::string ErrorEvent(const ApiError& error) const final;
  std::string Whole() final;
  Json With(Json choices) const;
  Json Usage() const;

  Form form_;
  std::string model_;
  int64_t created_;
  size_t each_;  // texts of a prompt
};

}  // namespace folio
