// `folio inspect dump`, through the real program.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::filesystem::path kTinyDirectory = Fixture("gpt2-tiny");

class Dump : public InTemporaryDirectory {
 protected:
  // A file with integers under `name`.
  std::filesystem::path WriteTokens(const std::string& name, Shape shape, int64_t token) {
    std::vector<int64_t> tokens(static_cast<size_t>(shape.count()), token);
    const NamedTensor tensor{name, Tensor(tokens.data(), shape)};
    WriteSafetensors(At("tokens.safetensors"), std::span(&tensor, 1));
    return At("tokens.safetensors");
  }
  // The output of a dump of a model and its batches into `out.safetensors`.
  nlohmann::json Dumped(const std::filesystem::path& batch, const std::string& more = "",
                        const std::filesystem::path& model = kTinyDirectory) const {
    return Answer(Words(batch, more, model));
  }
  std::string Words(const std::filesystem::path& batch, const std::string& more = "",
                    const std::filesystem::path& model = kTinyDirectory) const {
    return "inspect dump --model " + model.string() + " --batch " + batch.string() + " --out " +
           out_.string() + " --backend reference " + more;
  }
  const std::filesystem::path out_ = At("out.safetensors");
};

// Relative to the largest magnitude of the tensor.
double Bound(const std::string& name) {
  if (name.starts_with("grad.")) return 1e-4;
  if (name.starts_with("losses") || name == "grad_norms") return 1e-4 / 5;
  // AdamW divides each gradient by its own size; that of the keys' biases is only rounding.
  if (name.starts_with("after.")) return name.ends_with("c_attn.bias") ? 5e-3 : 5e-4;
  return 2e-5;
}

class GoldenDump : public Dump,
                   public testing::WithParamInterface<std::tuple<std::string, std::string>> {};

TEST_P(GoldenDump, HasAllTensorsWithinTheirBounds) {
  const auto& [name, backend] = GetParam();
  const std::filesystem::path model = Fixture(name);
  if (!exists(model)) GTEST_SKIP() << model << " is not here";
  const nlohmann::json json =
      Dumped(model / "expected.safetensors", "--adamw-steps 8 --backend " + backend, model);
  const SafetensorsFile found(out_), expected(model / "expected.safetensors");
  EXPECT_EQ(json.at("tensors"), found.tensors().size());
  EXPECT_EQ(found.tensors().size() + 1, expected.tensors().size());  // all but the batches
  EXPECT_EQ(found.Require("loss").dtype, Dtype::kF64);
  EXPECT_EQ(found.Require("losses").dtype, Dtype::kF64);
  for (const TensorInfo& info : expected.tensors()) {
    if (info.name == "batches") continue;
    SCOPED_TRACE(info.name);
    found.Require(info.name, info.shape);
    ExpectClose(found.ReadAs<double>(info.name), expected.ReadAs<double>(info.name),
                Bound(info.name));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenDump,
                         testing::Combine(testing::Values("gpt2-tiny", "gpt2-nobias",
                                                          "gpt2-untied-postnorm",
                                                          "gpt2-sinusoid-relu"),
                                          testing::Values("reference", "cpu")),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(Dump, ASingleBatchNeedsNoSteps) {
  const nlohmann::json json = Dumped(WriteTokens("tokens", {1, 2}, 96));
  const SafetensorsFile found(out_);
  EXPECT_EQ(found.Find("losses"), nullptr);
  found.Require("logits", {1, 1, 97});
  found.Require("trace.attn.1", {1, 2, 1, 1});
  EXPECT_EQ(found.ReadAs<float>("trace.attn.1"), (std::vector<float>{1, 1}));
  EXPECT_EQ(found.ReadAs<double>("loss")[0], json.at("loss"));
}

TEST_F(Dump, GradientsAreThoseBeforeTheSteps) {
  const std::filesystem::path batch = kTinyDirectory / "expected.safetensors";
  Dumped(batch);
  const std::vector<float> alone =
      SafetensorsFile(out_).ReadAs<float>("grad.transformer.wte.weight");
  Dumped(batch, "--adamw-steps 2 --lr 0 --weight-decay 0");
  const SafetensorsFile found(out_);
  EXPECT_EQ(found.ReadAs<float>("grad.transformer.wte.weight"), alone);
  EXPECT_EQ(found.ReadAs<float>("after.transformer.wte.weight"),
            SafetensorsFile(kTinyDirectory / "model.safetensors")
                .ReadAs<float>("transformer.wte.weight"));  // a step of length 0
}

TEST_F(Dump, FilesThatDoNotFitAreRefusedAndNothingIsWritten) {
  const auto refused = [&](const std::string& name, Shape shape, int64_t token, auto... parts) {
    ExpectError(3, Words(WriteTokens(name, shape, token)), parts...);
  };
  refused("tokens", {2, 5}, 97, "outside the vocabulary", "97");
  refused("tokens", {2, 5}, -1, "outside the vocabulary", "-1");
  refused("tokens", {1, 26}, 0, "T is 25, n_positions is 24");
  refused("tokens", {2, 1}, 0, "wrong shape", "(2, 1)");
  refused("tokens", {1, 2, 3}, 0, "wrong shape");
  refused("batches", {2, 3}, 0, "wrong shape", "(K, B, T+1)");
  refused("others", {2, 3}, 0, "no tensor 'batches' or 'tokens'");
  ExpectError(2, Words(WriteTokens("batches", {3, 1, 5}, 0), "--adamw-steps 4"),
              "4 steps, 3 batches");
  EXPECT_EQ(Names(), Strings{"tokens.safetensors"});
}

TEST_F(Dump, TheCommandTakesTheOptimizersSettings) {
  const std::filesystem::path batch = kTinyDirectory / "expected.safetensors";
  const nlohmann::json json =
      Dumped(batch,
             "--backend cpu --adamw-steps 1 --lr 0.25 --beta1 0 --beta2 0 --eps 0 --weight-decay 0 "
             "--clip 0 --threads 1");
  EXPECT_EQ(json.at("losses").size(), 1);
  EXPECT_EQ(json.at("loss"), json.at("losses").at(0));
  // In its first step AdamW moves every weight by lr against the sign of its gradient.
  const SafetensorsFile found(out_);
  const std::string name = "transformer.ln_f.weight";
  const std::vector<float> before =
      SafetensorsFile(kTinyDirectory / "model.safetensors").ReadAs<float>(name);
  const std::vector<float> after = found.ReadAs<float>("after." + name);
  const std::vector<float> grad = found.ReadAs<float>("grad." + name);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], before[i] - std::copysign(0.25f, grad[i]), 1e-5) << i;
  }
  Ended(2, RunFolio("inspect dump --model " + kTinyDirectory.string() + " --batch x"));
  Ended(1, RunFolio(Words(batch, "--out " + At("no/out.safetensors").string())));
  Ended(3, RunFolio(Words(batch, "", "/nowhere")));
}

}  // namespace
}  // namespace folio
