#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/io/safetensors.h"
#include "folio/model/decoder.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"

namespace folio {

// Returns the numbers that make.py keeps of a gradient or a weight.
inline std::vector<double> Kept(std::span<const float> x) {
  std::vector<double> kept(3 + 8);
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]), at = static_cast<double>(i);
    squares += value * value;
    kept[1] += value * std::cos(at);
    kept[2] += value * std::sin(1.7 * at);
    if (i < 8) kept[3 + i] = value;
  }
  kept[0] = std::sqrt(squares);
  return kept;
}

inline double LargestOf(std::span<const double> x) {
  double largest = 0;
  for (const double value : x) largest = std::max(largest, std::abs(value));
  return largest;
}

// Keeps the stream behind each layer, as Hugging Face's hidden states.
class HiddenStates : public TraceSink {
 public:
  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    if (point == TracePoint::kEmbedded) states_[0] = Copied<float>(x);
    if (point == TracePoint::kOutput) states_[layer + 1] = Copied<float>(x);
    if (point == TracePoint::kFinal) final_ = Copied<float>(x);
  }
  // The last is that of the final norm.
  std::vector<float> At(int64_t i, int64_t L) const { return i == L ? final_ : states_.at(i); }

 private:
  std::map<int64_t, std::vector<float>> states_;
  std::vector<float> final_;
};

// A tiny model of another program, and what that computed of it: the expected.safetensors that a
// make.py of tests/fixtures writes.
class GoldenDecoder {
 public:
  // `format` is that of the names there.
  GoldenDecoder(StoredModel model, const std::filesystem::path& expected, const Family& family,
                FileFormat format)
      : model_(std::move(model)), expected_(expected), family_(family), format_(format) {}

  void ExpectNumbersForwardAndBackward() const {
    const auto weights = ReadWeights(model_);
    for (const char* name : {"reference", "cpu"}) {
      SCOPED_TRACE(name);
      const auto backend = MakeBackend(name);
      GptPass pass(*backend, config_, 1, T_, PassKind::kTraining);
      HiddenStates hidden;
      pass.set_trace(&hidden);
      pass.Forward(weights->params(), ids_);
      for (int64_t i = 0; i <= L_; ++i) {
        ExpectClose(hidden.At(i, L_), "hidden." + std::to_string(i), 2e-5);
      }
      std::vector<float> logits(static_cast<size_t>(T_ * V_));
      pass.Logits(weights->params(), 0, T_, Tensor(logits.data(), {T_, V_}));
      ExpectClose(logits, "logits", 2e-5);
      const auto rows = static_cast<double>(T_ - 1);
      const GptWeights grads(config_);
      const double loss =
          pass.LossAndBackward(weights->params(), Targets(), 1 / rows, grads.params(), false) /
          rows;
      EXPECT_NEAR(loss, expected_.ReadAs<double>("loss")[0], 2e-5);
      ExpectKept(grads, "grad", 1e-4);
    }
  }

  void ExpectTheSameTraining() const {
    const auto weights = ReadWeights(model_);
    const auto backend = MakeBackend("cpu");
    GptPass pass(*backend, config_, 1, T_, PassKind::kTraining);
    const GptWeights grads(config_), m(config_), v(config_);
    const auto rows = static_cast<double>(T_ - 1);
    std::vector<float> losses;
    for (int64_t step = 1; step <= 3; ++step) {
      pass.Forward(weights->params(), ids_);
      const double sum =
          pass.LossAndBackward(weights->params(), Targets(), 1 / rows, grads.params(), false);
      losses.push_back(static_cast<float>(sum / rows));
      backend->Run(AdamWUpdate{.param = weights->flat(),
                               .grad = grads.flat(),
                               .m = m.flat(),
                               .v = v.flat(),
                               .lr = 1e-2,
                               .eps = 1e-4,
                               .step = step});
    }
    ExpectClose(losses, "losses", 1e-4);
    ExpectKept(*weights, "trained", 1e-4);
  }

  void ExpectTheSameDecoding() const {
    const auto weights = ReadWeights(model_);
    const auto backend = MakeBackend("cpu");
    Decoder decoder(*backend, *weights);
    CachedSequence sequence(decoder.cache());
    const auto theirs = expected_.ReadAs<double>("logits");
    const double bound = 2e-5 * LargestOf(theirs);
    const int64_t first = T_ - std::ssize(theirs) / V_;
    for (int64_t t = 0; t < T_; ++t) {
      const Tensor logits = decoder.Append(sequence, {&ids_[static_cast<size_t>(t)], 1});
      if (t < first) continue;
      for (int64_t i = 0; i < V_; ++i) {
        ASSERT_NEAR(static_cast<double>(logits.data<float>()[i]),
                    theirs[static_cast<size_t>((t - first) * V_ + i)], bound)
            << t;
      }
    }
    // Greedily, after the first five.
    const auto greedy = expected_.ReadAs<int32_t>("greedy");
    sequence.Clear();
    std::vector<int32_t> written(greedy.begin(), greedy.begin() + 5);
    Tensor logits = decoder.Append(sequence, written);
    while (written.size() < greedy.size()) {
      const auto row = Elements<float>(logits);
      written.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
      logits = decoder.Append(sequence, {&written.back(), 1});
    }
    EXPECT_EQ(written, greedy);
  }

 private:
  std::vector<int32_t> Targets() const {
    std::vector<int32_t> targets(ids_.begin() + 1, ids_.end());
    targets.push_back(CrossEntropy::kIgnore);
    return targets;
  }

  // Expects numbers, of which the file may have the last alone, to be those of that name, but for a
  // part of the largest.
  void ExpectClose(std::span<const float> found, const std::string& name, double part) const {
    const auto theirs = expected_.ReadAs<double>(name);
    ASSERT_GE(found.size(), theirs.size()) << name;
    found = found.last(theirs.size());
    const double bound = part * LargestOf(theirs);
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(found[i]), theirs[i], bound) << name << " " << i;
    }
  }

  // Expects parameters, or their gradients, to be those of the other program, each but for a part
  // of its norm.
  void ExpectKept(const GptWeights& weights, const std::string& kind, double part) const {
    int64_t compared = 0;
    for (const TensorToWrite& tensor :
         TensorsToWrite(weights, config_, family_, format_, Dtype::kF32)) {
      std::vector<float> numbers(static_cast<size_t>(tensor.shape.count()));
      tensor.read(0, numbers);
      const auto theirs = expected_.ReadAs<double>(kind + "." + tensor.name);
      const std::vector<double> ours = Kept(numbers);
      for (size_t i = 0; i < ours.size(); ++i) {
        ASSERT_NEAR(ours[i], theirs[i], part * theirs[0]) << kind << " " << tensor.name << " " << i;
      }
      ++compared;
    }
    const auto of_kind = std::ranges::count_if(expected_.tensors(), [&](const TensorInfo& info) {
      return info.name.starts_with(kind + ".");
    });
    EXPECT_EQ(compared, of_kind);
  }

  StoredModel model_;
  SafetensorsFile expected_;
  const Family& family_;
  FileFormat format_;
  const GptConfig& config_ = model_.config;
  const std::vector<int32_t> ids_ = expected_.ReadAs<int32_t>("ids");
  const int64_t T_ = std::ssize(ids_), V_ = config_.vocab_size, L_ = config_.n_layer;
};

}  // namespace folio
