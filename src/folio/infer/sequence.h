#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "folio/infer/decode_batch.h"
#include "folio/infer/draft.h"
#include "folio/infer/sampler.h"
#include "folio/infer/speculation.h"
#include "folio/model/decoder.h"

namespace folio {

// A text of a DecodeBatch (text_batch.h), from pass to pass: it says what the model has to see, and
// takes what the model makes of it.
class Sequence {
 public:
  // `decoder` must outlive it. Throws what CheckGeneration throws.
  Sequence(TextRequest request, Decoder& decoder);
  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  CachedSequence& sequence() { return sequence_; }
  int64_t most_pages() const { return most_pages_; }  // that it will ever have
  // Begins, with what the cache knows of its prompt.
  void Join();

  // Whether it goes on. Where the context is full this is where it slides, or ends. `alone`:
  // whether the next pass is its own, so that it may guess.
  bool Prepare(bool alone);
  // What the model has to see before the next token: at least one token, behind which, if they are
  // guesses, all logits are wanted.
  SequencePiece pending();
  // Chooses what follows pending(), by the logits that are wanted, of a pass that took so long. Of
  // several texts each may do so on a thread of its own; what it throws is thrown by HandOut.
  void Choose(const Tensor& logits, double pass_seconds);
  // Gives out what was chosen. Returns whether the text goes on.
  bool HandOut();
  // Whether somebody looks at what the model makes of the prompt: it is then read by itself, and
  // Look shows what came of the last pass.
  bool looked_at() const {
    return written_ == 0 && (request_.on_norm != nullptr || request_.on_logits != nullptr);
  }
  void Look(Decoder& decoder) const;
  // The last pass has read a part of what stands before the next token.
  void TellRead() const;
  bool wants_tokens() const { return written_ < request_.options.max_tokens; }
  // Ends it.
  void End(FinishReason reason);

 private:
  void Slide();
  void Guess();
  void ChooseAll(const Tensor& logits);
  double seconds() const;  // since it began

  TextRequest request_;
  Sampler sampler_;
  CachedSequence sequence_;
  int64_t P_, most_pages_;
  std::vector<int32_t> tokens_;  // prompt and text, all of it
  size_t window_ = 0;            // the first that the model sees
  int64_t written_ = 0;
  std::vector<int32_t> guesses_ = {}, guessed_ = {};  // and behind the last token
  Speculation speculation_ = {};
  double guess_seconds_ = 0;
  bool alone_ = false;
  std::vector<NewToken> chosen_ = {};
  std::exception_ptr error_ = {};
  double begin_ = 0;
  std::optional<double> slide_begin_ = {};
  GenerateStats stats_;
};

}  // namespace folio
