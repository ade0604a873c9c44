#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/infer/text_streamer.h"
#include "folio/serve/served_model.h"
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

  // Throws what CheckGeneration and Scheduler::Submit throw. The others must outlive it.
  GeneratedTexts(ServedModel& model, ServiceMetrics& metrics, ClientName client, TextJob job);
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

}  // namespace folio
