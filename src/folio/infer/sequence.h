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

enum class SequenceState {
  kWaiting,   // has no part in passes yet
  kPrefill,   // the model reads its prompt
  kDecoding,  // its first token was given out
  kFinished,  // on_end was called, and the cache holds nothing of it
};

// A text of a DecodeBatch (decode_batch.h), from pass to pass: it says what the model has to see,
// and takes what the model makes of it.
class Sequence {
 public:
  // `decoder` must outlive it. Throws what CheckGeneration throws.
  Sequence(TextRequest request, Decoder& decoder);
  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  SequenceState state() const { return state_; }
  bool finished() const { return state_ == SequenceState::kFinished; }
  int64_t most_pages() const { return most_pages_; }  // that it will ever have
  // Pages that it may still take.
  int64_t missing_pages() const { return most_pages_ - std::ssize(cached_.pages()); }

  // Begins, with what the cache knows of its prompt.
  void Join();
  // Waits again: the pages that Join found are given back.
  void Leave();

  // Ends the sequence if it is at its end, and slides where the context is full. `alone`: the next
  // pass is its own, so that it may guess.
  void Prepare(bool alone);
  // The tokens that the model has to see before the next one is chosen: at least one token, behind
  // which, if they are guesses, all logits are wanted.
  SequencePiece pending();
  // Chooses what follows pending(), by the logits that are wanted, of a pass that took so long.
  // Several sequences may each do so on a thread of their own; HandOut throws what this would
  // throw.
  void Choose(const Tensor& logits, double pass_seconds);
  // Gives out what was chosen, up to the end of the sequence.
  void HandOut();
  // The prompt is read by itself, for Observe to show what came of the last pass.
  bool observed() const {
    return state_ < SequenceState::kDecoding &&
           (request_.on_norm != nullptr || request_.on_logits != nullptr);
  }
  void Observe(Decoder& decoder) const;
  // Tells that the last pass has read a part of the prompt.
  void ReportRead() const;

  // Why the sequence is at its end, or nothing where it goes on. Nothing else decides that but for
  // stop strings, which TextStreamer::Finish finds in the text.
  std::optional<FinishReason> EndReason() const;
  void Cancel();
  // REQUIRES: EndReason().
  void End();

 private:
  void Slide();
  void Guess();
  void ChooseAll(const Tensor& logits);
  bool decoding() const { return state_ == SequenceState::kDecoding; }
  bool wants_tokens() const { return written_ < request_.options.max_tokens; }
  double seconds() const;  // since it began

  TextRequest request_;
  Sampler sampler_;
  CachedSequence cached_;
  SequenceState state_ = SequenceState::kWaiting;
  bool cancelled_ = false;
  bool stopped_ = false;  // a stop token was chosen
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
