// Ranks that share the layers of a model, beside one that has them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "folio/model/config.h"
#include "folio/model/gpt.h"
#include "folio/model/shard_weights.h"
#include "folio/model/tensor_parallel_group.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

struct ParallelCase {
  std::string backend, name;
  Dtype dtype;
  std::function<void(GptConfig&)> edit;
  bool recompute = false, packed = false, ignore_targets = false;
  int64_t B = 2, T = 9;
};

std::vector<ParallelCase> ParallelCases() {
  using C = GptConfig;
  std::vector<ParallelCase> cases;
  for (const auto& [backend, dtype] :
       {std::pair("reference", Dtype::kF64), {"cpu", Dtype::kF32}, {"cpu", Dtype::kBF16}}) {
    const auto add = [&, backend = backend, dtype = dtype](
                         const std::string& name,
                         const std::function<void(C&)>& edit) -> ParallelCase& {
      return cases.emplace_back(ParallelCase{backend, name, dtype, edit});
    };
    add("plain", [](C&) {});
    add("post_norm", [](C& c) { c.norm_position = NormPosition::kPost; });
    add("untied_with_bias", [](C& c) {
      c.tie_word_embeddings = false;
      c.lm_head_bias = true;
    });
    add("sinusoidal", [](C& c) { c.position_embedding = PositionKind::kSinusoidal; });
    add("no_bias", [](C& c) { c.bias = false; });
    add("grouped_heads", [](C& c) {
      c.n_head = 8;
      c.n_kv_head = 4;
      c.head_dim = 10;
      c.attn_pdrop = 0.3;
    });
    add("uneven_vocabulary", [](C& c) { c.vocab_size = 307; });
    add("ignored_targets", [](C&) {}).ignore_targets = true;
    add("packed", [](C&) {}).packed = true;
    // The columns of a part begin anywhere.
    add("attention_dropout", [](C& c) { c.attn_pdrop = 0.3; });
    add("activation_dropout", [](C& c) {
      c.mlp_pdrop = 0.3;
      c.n_inner = 212;
    });
    for (const char* norm : {"pre", "post"}) {
      const auto everything = [norm](C& c) {
        for (double C::*rate : C::DropoutRates()) c.*rate = 0.2;
        c.norm_position = *FromName<NormPosition>(norm);
      };
      add(std::string("dropout_everywhere_") + norm, everything);
      add(std::string("recompute_") + norm, everything).recompute = true;
    }
    // The kinds of models beside GPT-2, in sizes that can be shared.
    std::vector<std::string> kinds = {"gemma3", "gpt_neox", "olmo2", "qwen3"};
    if (dtype != Dtype::kBF16) {
      for (const char* more : {"gemma2", "granite", "llama3", "mistral", "phi", "phi3", "qwen2",
                               "smollm3", "starcoder2", "yarn"}) {
        kinds.emplace_back(more);
      }
    }
    for (const std::string& name : kinds) {
      add(name, [name](C& c) {
        const C sizes = c;
        c = OpenModelDir(Fixture("families") / name).config;
        const bool grouped = c.head_layout().kv_heads < c.n_head;
        c.vocab_size = sizes.vocab_size;
        c.n_positions = sizes.n_positions;
        c.n_embd = sizes.n_embd;
        c.n_head = grouped ? 8 : 4;
        c.n_kv_head = 4;
        c.head_dim = 10;
        if (c.rotary_dim) c.rotary_dim = 4;
        c.n_inner = 60;
        c.n_layer = std::min<int64_t>(c.n_layer, 3);
        c.attn_pdrop = 0.3;
      });
    }
    add("norm_after_rotary", [](C& c) {
      c.norm = NormKind::kRmsNoWeight;
      c.qk_norm = QkNorm::kAfterRotary;
      c.position_embedding = PositionKind::kRotary;
      c.activation_function = Activation::kRelu2;
      c.logit_cap = 15;
    });
    if (dtype != Dtype::kF32) continue;
    // The head takes its rows in three chunks.
    ParallelCase& chunks = add("chunks", [](C& c) {
      c.vocab_size = 2 * 16411;
      c.n_layer = 1;
    });
    chunks.B = 4;
    chunks.T = 129;
  }
  return cases;
}

// A pass's results; the gradient as the whole model's.
struct Left {
  double loss = 0, evaluated = 0;
  std::vector<double> losses, gradient;
};

std::vector<double> Numbers(const Tensor& x) {
  std::vector<double> numbers(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = x.dtype() == Dtype::kF64 ? x.data<double>()[i] : x.data<float>()[i];
  }
  return numbers;
}

class TensorParallel : public testing::TestWithParam<ParallelCase> {
 protected:
  TensorParallel() {
    config_.vocab_size = 300;
    config_.n_positions = std::max<int64_t>(11, GetParam().T);
    config_.n_embd = 48;
    config_.n_head = 4;
    GetParam().edit(config_);
  }

  GptWeights Weights(bool rounded = false) const {
    GptWeights weights(config_, PassOptions{.dtype = GetParam().dtype}.number());
    Scatter(weights, 1);
    // Softmaxes and losses of ordinary size.
    for (int64_t i = 0; i < weights.flat().count(); ++i) {
      if (weights.dtype() == Dtype::kF64) {
        weights.flat().data<double>()[i] *= 0.5;
      } else {
        float& w = weights.flat().data<float>()[i];
        w = rounded ? ToFloat(ToBF16(0.5f * w)) : 0.5f * w;
      }
    }
    return weights;
  }

  // Runs a pass with the weights and gradients that are given, of all of the model or of a shard.
  Left Run(const GptWeights& weights, const GptWeights& grads, Dtype dtype,
           TensorParallelGroup* group) const {
    const ParallelCase& c = GetParam();
    const int64_t B = c.B, T = c.T, V = config_.vocab_size;
    const auto backend = MakeBackend(c.backend);
    GptPass pass(*backend, weights.config(), B, T, PassKind::kTraining,
                 {.dtype = dtype,
                  .recompute = c.recompute,
                  .packed = c.packed,
                  .shard = weights.table().shard()});
    pass.set_group(group);
    std::vector<int32_t> begins;
    for (int64_t n = 0; n < B * T; ++n) begins.push_back(n % T < 4 ? 0 : 4);
    if (c.packed) pass.set_begins(begins);
    std::vector<int32_t> targets = RandomTokens(B * T, V, 3);
    if (c.ignore_targets) targets[1] = targets[7] = CrossEntropy::kIgnore;
    const std::vector<int32_t> ids = RandomTokens(B * T, V, 2);
    const double scale = 1.0 / static_cast<double>(B * T);
    Left left;
    pass.Forward(weights.params(), ids);
    left.evaluated = pass.Loss(weights.params(), targets);
    for (const bool accumulate : {false, true}) {
      pass.Forward(weights.params(), ids,
                   {.on = true, .seed = 4, .step = 5, .first_sequence = accumulate ? 6 : 3});
      left.loss +=
          pass.LossAndBackward(weights.params(), targets, scale, grads.params(), accumulate);
      const std::vector<double> losses = Numbers(pass.losses());
      left.losses.insert(left.losses.end(), losses.begin(), losses.end());
    }
    return left;
  }

  Left RunWhole(Dtype dtype, bool rounded = false) const {
    const GptWeights weights = Weights(rounded), grads(config_, weights.dtype());
    Left left = Run(weights, grads, dtype, nullptr);
    left.gradient = Numbers(grads.flat());
    return left;
  }

  Left RunInShards(int shards) const {
    const GptWeights whole = Weights(), gradient(config_, whole.dtype());
    std::vector<Left> left(static_cast<size_t>(shards));
    std::vector<std::unique_ptr<GptWeights>> grads(static_cast<size_t>(shards));
    RunOnThreads(shards, [&](Group& group) {
      const auto r = static_cast<size_t>(group.rank());
      TensorParallelGroup tensor(TensorCommunicator(&group, shards));
      const ParamTable table(config_, {}, {.index = group.rank(), .count = shards});
      const GptWeights weights(table, whole.dtype());
      TakeShard(whole, weights);
      grads[r] = std::make_unique<GptWeights>(table, whole.dtype());
      left[r] = Run(weights, *grads[r], GetParam().dtype, &tensor);
    });
    for (size_t r = 0; r < left.size(); ++r) {
      EXPECT_EQ(left[r].loss, left[0].loss);
      EXPECT_EQ(left[r].evaluated, left[0].evaluated);
      EXPECT_EQ(left[r].losses, left[0].losses);
      const ParamTable& table = grads[r]->table();
      PutShard(gradient, *grads[r]);
      // Parameters that all shards have are the same for all, to the last bit.
      for (size_t p = 0; p < table.params().size(); ++p) {
        if (!table.params()[p].shared) continue;
        EXPECT_EQ(Numbers(grads[r]->tensors()[p]), Numbers(grads[0]->tensors()[p]))
            << table.params()[p].name;
      }
    }
    left[0].gradient = Numbers(gradient.flat());
    return left[0];
  }

  // |a - b| / |b| over all elements.
  static double Distance(const std::vector<double>& a, const std::vector<double>& b) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      length += b[i] * b[i];
    }
    return std::sqrt(difference / length);
  }

  GptConfig config_ = TinyConfig();
};

TEST_P(TensorParallel, ShardsMakeTheWholeModelsLossesAndGradients) {
  const Left whole = RunWhole(GetParam().dtype);
  double loss_error = 0, gradient_error = 0;
  if (GetParam().dtype == Dtype::kBF16) {
    // How far one rounding of each weight takes the float32 gradient. What each shard gives of
    // a sublayer is rounded too, beside all that one rank rounds.
    const Left wide = RunWhole(Dtype::kF32), rounded = RunWhole(Dtype::kF32, true);
    gradient_error = 3 * Distance(rounded.gradient, wide.gradient);
    loss_error = gradient_error;
  } else {
    loss_error = gradient_error = GetParam().dtype == Dtype::kF64 ? kFloat64Chain : kFloat32Model;
  }
  for (const int shards : {2, 4}) {
    const Left found = RunInShards(shards);
    const double rows = static_cast<double>(whole.losses.size());
    EXPECT_NEAR(found.loss, whole.loss, loss_error * whole.loss) << shards;
    EXPECT_NEAR(found.evaluated, whole.evaluated, loss_error * whole.evaluated) << shards;
    EXPECT_LE(Distance(found.losses, whole.losses), loss_error) << shards << " " << rows;
    EXPECT_LE(Distance(found.gradient, whole.gradient), gradient_error) << shards;
    if (GetParam().dtype == Dtype::kBF16) continue;
    EXPECT_LE(Difference(found.losses, whole.losses), loss_error * Largest(whole.losses)) << shards;
    // Each parameter by its own measure.
    const ParamTable table(config_);
    for (const ParamInfo& info : table.params()) {
      double worst = 0, largest = 0;
      for (int64_t i = info.offset; i < info.offset + info.shape.count(); ++i) {
        const auto at = static_cast<size_t>(i);
        worst = std::max(worst, std::abs(found.gradient[at] - whole.gradient[at]));
        largest = std::max(largest, std::abs(whole.gradient[at]));
      }
      EXPECT_LE(worst, gradient_error * largest) << shards << " " << info.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, testing::ValuesIn(ParallelCases()),
                         [](const auto& tested) {
                           const ParallelCase& c = tested.param;
                           return c.backend + "_" + std::string(DtypeName(c.dtype)) + "_" + c.name;
                         });

TEST(Shards, BeginAsSlicesOfTheWholeModel) {
  for (const char* init : {"normal", "xavier_uniform", "xavier_uniform_split"}) {
    GptConfig config = TinyConfig();
    config.n_embd = 24;
    config.n_head = 4;
    config.init = *FromName<InitMethod>(init);
    config.tie_word_embeddings = false;
    config.lm_head_bias = true;
    GptWeights whole(config), assembled(config);
    InitWeights(whole, 7);
    config.vocab_size += 3;
    GptWeights grown(config);
    InitWeightsFrom(whole, grown);
    config.vocab_size -= 3;
    for (const int64_t count : {2, 4}) {
      for (int64_t index = 0; index < count; ++index) {
        const ParamTable table(config, {}, {index, count});
        GptWeights shard(table), taken(table);
        InitWeights(shard, 7);
        TakeShard(whole, taken);
        EXPECT_EQ(Numbers(shard.flat()), Numbers(taken.flat())) << init;
        PutShard(assembled, shard);
        // From a model, whose vocabulary grows.
        const ParamTable of_grown(grown.config(), {}, {index, count});
        GptWeights from(of_grown), expected(of_grown);
        InitWeightsFrom(whole, from);
        TakeShard(grown, expected);
        EXPECT_EQ(Numbers(from.flat()), Numbers(expected.flat()));
      }
      EXPECT_EQ(Numbers(assembled.flat()), Numbers(whole.flat())) << init;
      for (float& w : Elements<float>(assembled.flat())) w = 0;
    }
  }
}

TEST(Shards, HaveTheirShareOfTheParameters) {
  const GptConfig gpt2;
  const ParamTable whole(gpt2);
  int64_t sum = 0, shared = 0;
  for (const int64_t index : {0, 1, 2, 3}) {
    const ParamTable table(gpt2, {}, {index, 4});
    sum += table.parameters();
    if (index > 0) continue;
    for (const ParamInfo& info : table.params()) shared += info.shared ? info.shape.count() : 0;
  }
  EXPECT_EQ(sum, whole.parameters() + 3 * shared);
  EXPECT_LT(static_cast<double>(shared), 0.01 * static_cast<double>(whole.parameters()));
}

TEST(Shards, ThatDoNotGoIntoTheModelAreRefusedWithTheNearest) {
  GptConfig config = TinyConfig();
  config.n_embd = 24;
  config.n_head = 6;
  LoraConfig lora;
  const auto refusal = [&](int64_t count) {
    return ErrorAndHelp([&] { RequireShards(config, lora, count); }, ErrorKind::kUsage);
  };
  RequireShards(config, lora, 1);
  RequireShards(config, lora, 3);
  EXPECT_TRUE(Contains(refusal(4), "4 ranks cannot share", "n_head", "--tensor-parallel 3 or 6"));
  config.n_inner = 28;
  EXPECT_TRUE(Contains(refusal(3), "n_inner must be divisible by the number of ranks; it is 28",
                       "--tensor-parallel 2 or 4"));
  config.n_inner = 30;
  config.vocab_size = 2;
  EXPECT_TRUE(Contains(refusal(3), "the vocabulary of 2 tokens is too small"));
  config.vocab_size = 11;
  for (bool GptConfig::*extra :
       {&GptConfig::embedding_norm, &GptConfig::smear, &GptConfig::residual_lambdas,
        &GptConfig::value_embeddings, &GptConfig::backout}) {
    config.*extra = true;
    EXPECT_TRUE(Contains(refusal(2), "value_embeddings", "remove --tensor-parallel"));
    config.*extra = false;
  }
  lora.rank = 2;
  EXPECT_TRUE(Contains(refusal(2), "adapters"));
}

}  // namespace
}  // namespace folio
