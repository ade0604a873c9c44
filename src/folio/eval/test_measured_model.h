#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/directory.h"

namespace folio {

// A small model of bytes, whose predictions are far from equal.
inline GptConfig ByteModelConfig() {
  GptConfig config;
  config.vocab_size = 257;
  config.n_positions = 13;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  return config;
}

inline OpenedModel ByteModel(uint64_t seed, const GptConfig& config = ByteModelConfig()) {
  OpenedModel model{.path = "model", .weights = std::make_unique<GptWeights>(config)};
  Scatter(*model.weights, seed);
  model.backend = MakeBackend("cpu");
  model.tokenizer = std::make_unique<ByteTokenizer>();
  return model;
}

// The same model in the memory of another backend. `source` must outlive it.
inline OpenedModel OnBackend(std::unique_ptr<Backend> backend, const OpenedModel& source) {
  OpenedModel model{.path = source.path, .backend = std::move(backend)};
  model.weights = MapWeights(AsStored(*source.weights), {}, {}, model.backend->memory());
  model.tokenizer = source.tokenizer;
  return model;
}

// ln of the probabilities after the last of `ids`, (V), by a pass of the reference in float64 over
// just these.
inline std::vector<double> PlainLogProbabilities(const GptWeights& weights,
                                                 std::span<const int32_t> ids) {
  const auto reference = MakeBackend("reference");
  const GptWeights wide(weights.config(), Dtype::kF64);
  for (size_t p = 0; p < weights.tensors().size(); ++p) {
    const Tensor& from = weights.tensors()[p];
    std::ranges::copy(Elements<float>(from), Elements<double>(wide.tensors()[p]).begin());
  }
  const int64_t T = std::ssize(ids), V = weights.config().vocab_size;
  GptPass pass(*reference, weights.config(), 1, T, PassKind::kForward, {.dtype = Dtype::kF64});
  pass.Forward(wide.params(), ids);
  std::vector<double> row(static_cast<size_t>(V));
  pass.Logits(wide.params(), T - 1, T, Tensor(row.data(), {1, V}));
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit);
  for (double& logit : row) logit -= std::log(sum);
  return row;
}

// A text of bytes as a test wants it: words, line breaks, and characters of several bytes.
inline std::string SomeText(size_t bytes) {
  static const std::string kWords[] = {"one ", "day, ", "fox\n", "ünd ", "é", "  ", "the ", "€\t"};
  const CounterRng rng(5, 6);
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) text += kWords[rng.Below(i, 8)];
  text.resize(bytes, 'x');
  return text;
}

class MeasureTest : public InTemporaryDirectory {
 protected:
  std::string Put(const std::string& name, const std::string& contents) const {
    WriteFileAtomically(At(name), contents);
    return At(name).string();
  }
};

}  // namespace folio
