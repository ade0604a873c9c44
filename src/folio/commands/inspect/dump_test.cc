#include "folio/run/dump.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

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
  DumpOptions Options(const std::filesystem::path& batch) const {
    return {.model = kTinyDirectory,
            .adapter = {},
            .batch = batch,
            .out = At("out.safetensors"),
            .backend = "reference"};
  }
};

// As part of the largest magnitude of the tensor.
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

  DumpOptions options = Options(model / "expected.safetensors");
  options.model = model;
  options.backend = backend;
  options.adamw_steps = 8;
  const DumpResult result = WriteDump(options);
  const SafetensorsFile found(options.out), expected(model / "expected.safetensors");
  EXPECT_EQ(result.tensors, found.tensors().size());
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
  const DumpOptions options = Options(WriteTokens("tokens", {1, 2}, 96));
  const DumpResult result = WriteDump(options);
  const SafetensorsFile found(options.out);
  EXPECT_EQ(found.Find("losses"), nullptr);
  found.Require("logits", {1, 1, 97});
  found.Require("trace.attn.1", {1, 2, 1, 1});
  EXPECT_EQ(found.ReadAs<float>("trace.attn.1"), (std::vector<float>{1, 1}));
  EXPECT_EQ(found.ReadAs<double>("loss")[0], result.loss);
}

TEST_F(Dump, GradientsAreThoseBeforeTheSteps) {
  DumpOptions options = Options(kTinyDirectory / "expected.safetensors");
  WriteDump(options);
  const std::vector<float> alone =
      SafetensorsFile(options.out).ReadAs<float>("grad.transformer.wte.weight");
  options.adamw_steps = 2;
  options.lr = 0;
  options.optimizer.weight_decay = 0;
  WriteDump(options);
  const SafetensorsFile found(options.out);
  EXPECT_EQ(found.ReadAs<float>("grad.transformer.wte.weight"), alone);
  EXPECT_EQ(found.ReadAs<float>("after.transformer.wte.weight"),
            SafetensorsFile(kTinyDirectory / "model.safetensors")
                .ReadAs<float>("transformer.wte.weight"));  // a step of length 0
}

TEST_F(Dump, FilesThatDoNotFitAreRefusedAndNothingIsWritten) {
  const auto problem = [&](const std::string& name, Shape shape, int64_t token) {
    return ErrorOf([&] { WriteDump(Options(WriteTokens(name, shape, token))); });
  };
  EXPECT_TRUE(Contains(problem("tokens", {2, 5}, 97), "outside the vocabulary", "97"));
  EXPECT_TRUE(Contains(problem("tokens", {2, 5}, -1), "outside the vocabulary", "-1"));
  EXPECT_TRUE(Contains(problem("tokens", {1, 26}, 0), "T is 25, n_positions is 24"));
  EXPECT_TRUE(Contains(problem("tokens", {2, 1}, 0), "wrong shape", "(2, 1)"));
  EXPECT_TRUE(Contains(problem("tokens", {1, 2, 3}, 0), "wrong shape"));
  EXPECT_TRUE(Contains(problem("batches", {2, 3}, 0), "wrong shape", "(K, B, T+1)"));
  EXPECT_TRUE(Contains(problem("others", {2, 3}, 0), "no tensor 'batches' or 'tokens'"));
  EXPECT_EQ(Names(), Strings{"tokens.safetensors"});
}

TEST_F(Dump, MoreStepsThanBatchesIsAUsageError) {
  DumpOptions options = Options(WriteTokens("batches", {3, 1, 5}, 0));
  options.adamw_steps = 4;
  EXPECT_TRUE(
      Contains(ErrorOf([&] { WriteDump(options); }, ErrorKind::kUsage), "4 steps, 3 batches"));
}

TEST_F(Dump, TheCommandTakesTheOptimizersSettings) {
  const std::string batch = (kTinyDirectory / "expected.safetensors").string();
  const std::string common =
      "inspect dump --model " + kTinyDirectory.string() + " --batch " + batch;
  const std::string out = " --out " + At("out.safetensors").string();
  const ProgramRun run = RunFolio(common + out +
                                  " --adamw-steps 1 --lr 0.25 --beta1 0 --beta2 0 --eps 0 "
                                  "--weight-decay 0 --clip 0 --threads 1 --json");
  ASSERT_EQ(run.status, 0);
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json.at("losses").size(), 1);
  EXPECT_EQ(json.at("loss"), json.at("losses").at(0));
  // Without memory AdamW moves every weight by lr against the sign of its gradient.
  const SafetensorsFile found(At("out.safetensors"));
  const std::string name = "transformer.ln_f.weight";
  const std::vector<float> before =
      SafetensorsFile(kTinyDirectory / "model.safetensors").ReadAs<float>(name);
  const std::vector<float> after = found.ReadAs<float>("after." + name);
  const std::vector<float> grad = found.ReadAs<float>("grad." + name);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], before[i] - std::copysign(0.25f, grad[i]), 1e-5) << i;
  }
  EXPECT_EQ(RunFolio(common).status, 2);
  EXPECT_EQ(RunFolio(common + " --out " + At("no/out.safetensors").string()).status, 1);
  EXPECT_EQ(RunFolio("inspect dump --model /nowhere --batch " + batch + out).status, 3);
}

}  // namespace
}  // namespace folio
