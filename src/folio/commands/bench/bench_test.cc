// These tests check that the benchmarks run and count correctly, not how fast anything is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "folio/backend/decorated_backends.h"
#include "folio/bench/operations.h"
#include "folio/bench/tokenizer_speed.h"
#include "folio/bench/training.h"
#include "folio/io/file.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/train_cost.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::string kBenched = Fixture("gpt2-tiny").string();

// Asks `folio bench train` of the tiny model.
std::string Tiny(const std::string& flags) {
  return "bench train --seconds 0 --dtype fp32 --model " + kBenched + flags;
}

ProgramRun RunTiny(const std::string& flags) {
  return RunFolio(Tiny(flags));
}

int64_t PlannedTiny(const std::string& flags) {
  return Answer("inspect plan --dtype fp32 --model " + kBenched + flags).at("peak_bytes");
}

TEST(BenchTrain, JsonHasAllFigures) {
  const nlohmann::json json = Answer(Tiny(" --batch 3 --context 7 --steps 5 --threads 1"));
  for (const char* key :
       {"tokens_per_second", "seconds_per_step", "seconds_per_step_min", "seconds_per_step_p90",
        "model_flops_per_second", "matmul_flops_per_second", "peak_share", "peak_memory_bytes"}) {
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(json.at("steps"), 5);
  EXPECT_EQ(json.at("batch"), 3);
  EXPECT_EQ(json.at("context"), 7);
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("backend"), "cpu");
  EXPECT_EQ(json.at("dtype"), "fp32");
  EXPECT_EQ(json.at("parameters"), 97 * 32 + 24 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64);
  EXPECT_EQ(json.at("matrix_parameters"), 97 * 32 + 2 * 12 * 32 * 32);
  EXPECT_EQ(json.at("attention_flops_per_token"), 12 * 2 * 7 * 32);
  EXPECT_EQ(json.at("peak_bytes"), PlannedTiny(" --batch 3 --context 7"));
  const double seconds = json.at("seconds_per_step");
  EXPECT_LE(json.at("seconds_per_step_min").get<double>(), seconds);
  EXPECT_GE(json.at("seconds_per_step_p90").get<double>(), seconds);
  EXPECT_NEAR(json.at("tokens_per_second").get<double>() * seconds, 21, 1e-9);
  EXPECT_NEAR(json.at("model_flops_per_second").get<double>() * seconds, json.at("flops_per_step"),
              1);
  EXPECT_EQ(json.at("flops_per_step"), 21 * json.at("flops_per_token").get<double>());
  EXPECT_LT(json.at("last_loss").get<double>(), 7);
}

// A preset's 40 would take minutes instead of seconds.
TEST(BenchTrain, AStepIsOneMicroBatchUnlessToldOtherwise) {
  const auto accumulated = [](const std::string& flags) {
    const ProgramRun run = Well(RunFolio(
        "bench train --seconds 0 --steps 1 --preset gpt2 --batch 1 --context 4 --json --set "
        "model.n_layer=1 model.n_embd=12 model.vocab_size=50 model.bos_token_id=null "
        "model.eos_token_id=null " +
        flags));
    return run.status == 0 ? nlohmann::json::parse(run.out).value("grad_accumulation", 1) : 0;
  };
  EXPECT_EQ(accumulated(""), 1);
  EXPECT_EQ(accumulated("--grad-accumulation 3"), 3);
  EXPECT_EQ(accumulated("train.grad_accumulation=2"), 2);
}

TEST(BenchTrain, OpsCountOnlyTheTimedSteps) {
  const std::string flags = " --batch 1 --context 2 --steps 4 --ops";
  const nlohmann::json json = Answer(Tiny(flags + ""));
  const nlohmann::json& ops = json.at("ops");
  const auto op = std::find_if(ops.begin(), ops.end(), [](const nlohmann::json& one) {
    return one.at("name") == "adamw_update";
  });
  ASSERT_NE(op, ops.end()) << ops;
  const int64_t layers = LoadModelConfig(kBenched).n_layer;
  EXPECT_EQ(op->at("calls"), 4 * (layers + 2));  // embeddings, blocks, what does not decay
  EXPECT_GT(json.at("seconds_outside_ops").get<double>(), 0);
  EXPECT_TRUE(Contains(RunTiny(flags).out, "tokens/s", "adamw_update", "linear_backward",
                       "outside of operations", "per token = 6 x"));
}

TEST(BenchTrain, FlopsAreThoseOfTheFormula) {
  const TrainFlops gpt2(GptConfig{}, 64);
  const double matrices = 50257 * 768 + 12 * 12 * 768.0 * 768;
  EXPECT_DOUBLE_EQ(gpt2.per_step(4 * 64), 4 * 64 * (6 * matrices + 12.0 * 12 * 64 * 768));
  EXPECT_EQ(HumanFlops(999), "999.0 FLOP");
  EXPECT_EQ(HumanFlops(854.66e6), "854.7 MFLOP");
  EXPECT_EQ(HumanFlops(999.96e9), "1.0 TFLOP");
}

TEST(BenchTrain, RecomputationIsMeasuredAgainstDoingWithout) {
  const std::string shape = " --batch 5 --context 23";
  const nlohmann::json json = Answer(Tiny(shape + " --steps 3 --recompute"));
  const nlohmann::json& without = json.at("without_recompute");
  EXPECT_EQ(without.at("peak_bytes"), PlannedTiny(shape));
  EXPECT_EQ(json.at("peak_bytes"), PlannedTiny(shape + " --recompute"));
  EXPECT_GT(without.at("saved_bytes"), 0);
  EXPECT_EQ(without.at("saved_bytes").get<int64_t>() + json.at("peak_bytes").get<int64_t>(),
            without.at("peak_bytes"));
  EXPECT_NEAR((1 + without.at("time_paid").get<double>()) *
                  without.at("seconds_per_step_min").get<double>(),
              json.at("seconds_per_step_min"), 1e-9);
  EXPECT_FALSE(Answer(Tiny(shape + " --steps 1")).contains("without_recompute"));
}

TEST(BenchTrain, AdaptersAreMeasuredBesideFullFineTuning) {
  const std::string shape = " --batch 5 --context 23", lora = " --set lora.targets=c_attn,c_fc";
  const nlohmann::json json = Answer(Tiny(shape + " --steps 3 --lora 2" + lora));
  const nlohmann::json& full = json.at("full_fine_tuning");
  EXPECT_EQ(full.at("peak_bytes"), PlannedTiny(shape));
  EXPECT_EQ(json.at("peak_bytes"), PlannedTiny(shape + " --lora 2" + lora));
  EXPECT_EQ(full.at("saved_bytes").get<int64_t>() + json.at("peak_bytes").get<int64_t>(),
            full.at("peak_bytes"));
  const int64_t adapters = 2 * 2 * ((32 + 96) + (32 + 128)),
                matrices = json.at("matrix_parameters");
  EXPECT_EQ(json.at("trained_matrix_parameters"), adapters);
  EXPECT_EQ(matrices, 97 * 32 + 2 * 12 * 32 * 32 + adapters);
  EXPECT_EQ(json.at("flops_per_token"), 4 * matrices + 2 * adapters + 12 * 2 * 23 * 32);
  EXPECT_TRUE(Contains(RunTiny(shape + " --steps 1 --lora 2").out, "adapters    saves ",
                       "of adapters + 12 x"));
  EXPECT_FALSE(Answer(Tiny(shape + " --steps 1")).contains("full_fine_tuning"));
}

TEST(BenchTrain, GrowthIsRelativeToTheFirstBatch) {
  const nlohmann::json json = Answer(Tiny(" --batches 2,1,5 --context 3 --steps 2"));
  ASSERT_EQ(json.at("batches").size(), 3);
  const double first = json.at("batches")[0].at("seconds_per_token");
  for (size_t i = 0; i < 3; ++i) {
    const nlohmann::json& each = json.at("batches")[i];
    const int64_t B = std::vector<int64_t>{2, 1, 5}[i];
    EXPECT_EQ(each.at("batch"), B);
    EXPECT_EQ(each.at("peak_bytes"), PlannedTiny(" --context 3 --batch " + std::to_string(B)));
    EXPECT_NEAR(each.at("relative_seconds_per_token").get<double>() * first,
                each.at("seconds_per_token"), 1e-12);
  }
  EXPECT_TRUE(Contains(RunTiny(" --batches 1,2 --context 3 --steps 1").out, "us/token", "1.00"));
}

TEST(BenchTrain, BatchSizesArePositiveIntegers) {
  for (const char* wrong : {"0", "-1", "1,,2", "1,2,", "two", "3x", "16777217"}) {
    ExpectError(2, fmt::format("bench train --batches {} --model {}", wrong, kBenched),
                "is not a value of batches", "an integer from 1 to 16777216");
  }
  Ended(2, RunFolio("bench train --batches 1 --batch 3 --model " + kBenched));
}

TEST(BenchTrain, WhatIsTooLargeIsRefusedBeforeItIsAllocated) {
  const ProgramRun run =
      Ended(4, RunFolio("bench train --preset gpt2-xl --batch 65536 --context 1024 --json"));
  EXPECT_TRUE(Contains(run.err, "does not fit in memory"));
  EXPECT_FALSE(Contains(run.err, "--grad-accumulation"));  // which this command does not have
  Ended(2, RunFolio("bench train --context 25 --model " + kBenched));
}

TEST(BenchMatmul, PeakIsTheBestOfItsDtype) {
  const nlohmann::json json = Answer("bench matmul --products small --seconds 0");
  std::map<std::string, double> best;
  for (const nlohmann::json& product : json.at("products")) {
    const double flops = 2.0 * product.at("N").get<double>() * product.at("I").get<double>() *
                         product.at("O").get<double>();
    const double rate = product.at("flops_per_second");
    EXPECT_NEAR(rate * product.at("seconds").get<double>(), flops, flops * 1e-9);
    EXPECT_GE(product.at("flops_per_second_max").get<double>(), rate);
    double& most = best[product.at("dtype")];
    most = std::max(most, rate);
  }
  EXPECT_GT(best.at("fp32"), 0);
  EXPECT_EQ(json.at("peak_flops_per_second"), nlohmann::json(best));
  EXPECT_EQ(json.at("products").size(), best.size() * 3 * SmallMatmuls().size());
}

TEST(BenchMatmul, MeasuresTheDtypeThatIsAskedFor) {
  const nlohmann::json json = Answer("bench matmul --products small --seconds 0 --dtype fp32");
  for (const nlohmann::json& product : json.at("products")) EXPECT_EQ(product.at("dtype"), "fp32");
  EXPECT_EQ(json.at("peak_flops_per_second").size(), 1);
  Ended(2, RunFolio("bench matmul --dtype fp16"));
  Ended(2, RunFolio("bench matmul --products huge"));
}

TEST(BenchMatmul, PeakKeepsToItsTime) {
  TimedBackend backend(MakeReferenceBackend());
  EXPECT_GT(MeasureMatmulPeak(backend, Dtype::kF32, /*seconds=*/0), 0);
  size_t products = 0;
  for (const OpTime& op : backend.Times()) products += op.calls;
  EXPECT_LE(products, 6);  // those of one shape, of six
}

TEST(BenchAttention, MemoryGrowsAsTheContextDoes) {
  AttentionShape shape{.B = 3, .T = 128, .H = 5, .D = 8};
  const auto bytes = [&](int64_t T) {
    shape.T = T;
    return AttentionBytes(shape);
  };
  // All arrays are a multiple of T, except padding for alignment.
  EXPECT_NEAR(static_cast<double>(bytes(4096)), 32.0 * static_cast<double>(bytes(128)), 32 * 700);
  EXPECT_GE(bytes(128), 3 * 128 * (8 * 40 + 5) * 4);
  shape.dtype = Dtype::kBF16;
  EXPECT_LE(bytes(128), 3 * 128 * (8 * 40 * 2 + 5 * 4) + 1000);
}

TEST(BenchAttention, CountsWhatTheMaskLetsThrough) {
  const std::string command =
      "bench attention --batch 2 --context 5 --heads 3 --head-size 7 --dropout 0.25 --seconds 0 "
      "--dtype fp32";
  const nlohmann::json json = Answer(command);
  ASSERT_EQ(json.at("runs").size(), 1);
  const nlohmann::json& run = json.at("runs")[0];
  const double pairs = 2 * 15, C = 21, H = 3;
  EXPECT_EQ(run.at("forward").at("flops"), pairs * (4 * C + 5 * H));
  EXPECT_EQ(run.at("backward").at("flops"), pairs * (10 * C + 6 * H));
  const double seconds = run.at("forward").at("seconds").get<double>() +
                         run.at("backward").at("seconds").get<double>();
  EXPECT_NEAR(run.at("tokens_per_second").get<double>() * seconds, 10, 1e-9);
  EXPECT_EQ(run.at("peak_bytes"), AttentionBytes({.B = 2, .T = 5, .H = 3, .D = 7}));
  EXPECT_TRUE(Contains(RunFolio(command).out, "forward ms", "bytes/token"));
}

TEST(BenchAttention, WhatCannotBeIsRefused) {
  Ended(2, RunFolio("bench attention --heads 0"));
  Ended(2, RunFolio("bench attention --dropout 1"));
  Ended(4, RunFolio("bench attention --batch 1048576 --context 1048576"));
}

TEST(BenchOps, CountsWhatIsReadAndWritten) {
  const nlohmann::json json =
      Answer("bench ops --rows 3 --channels 8 --head-size 4 --hidden 5 --seconds 0 --dtype fp32");
  std::map<std::string, double> bytes;
  for (const nlohmann::json& op : json.at("operations")) bytes[op.at("name")] = op.at("bytes");
  EXPECT_EQ(bytes.at("rmsnorm_forward"), 4 * (2 * 24 + 8 + 3));
  EXPECT_EQ(bytes.at("rotary"), 4 * (2 * 24 + 3 * 4));  // in place
  EXPECT_EQ(bytes.at("gated_backward"), 4 * (2 * 30 + 15));
  EXPECT_EQ(bytes.at("copy"), 4 * 2 * 30);
  ExpectError(2, "bench ops --channels 8 --head-size 3", "even --head-size");
  ExpectError(4, "bench ops --rows 10000000 --channels 1048576 --hidden 1048576", "lower --rows");
}

TEST(BenchOptimizer, BytesAreThoseOfTheArrays) {
  const nlohmann::json json = Answer("bench optimizer --parameters 1009 --seconds 0");
  EXPECT_EQ(json.at("parameters"), 1009);
  std::map<std::string, double> bytes;
  for (const nlohmann::json& pass : json.at("passes")) bytes[pass.at("name")] = pass.at("bytes");
  for (const nlohmann::json& pass : json.at("machine")) bytes[pass.at("name")] = pass.at("bytes");
  EXPECT_EQ(bytes, (std::map<std::string, double>{{"gradient norm", 4 * 1009},
                                                  {"adamw", 28 * 1009},
                                                  {"read", 4 * 1009},
                                                  {"copy", 8 * 1009}}));
  EXPECT_EQ(json.at("bytes_per_step"), 32 * 1009);
  ExpectError(4, "bench optimizer --parameters 1000000000000", "lower --parameters");
}

TEST(BenchOptimizer, TakesTheParametersOfAModel) {
  const std::string tiny = " --seconds 0 --model " + kBenched;
  const nlohmann::json json = Answer("bench optimizer" + tiny);
  EXPECT_GE(json.at("parameters"), 97 * 32 + 24 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64);
  Ended(2, RunFolio("bench optimizer --parameters 10" + tiny));
}

TEST(BenchGenerate, TellsOfEachPosition) {
  for (const char* dtype : {"fp32", "bf16", "int8", "int4"}) {
    const nlohmann::json json = Answer("bench generate --seconds 0 --positions 0,7 --dtype " +
                                       std::string(dtype) + " --model " + kBenched);
    EXPECT_EQ(json.at("dtype"), dtype);
    ASSERT_EQ(json.at("tokens").size(), 2u);
    const nlohmann::json &first = json.at("tokens")[0], &second = json.at("tokens")[1];
    EXPECT_EQ(first.at("bytes"), json.at("weight_bytes"));
    // Keys and values of two layers of 32 channels, in float32.
    EXPECT_EQ(second.at("bytes").get<double>() - first.at("bytes").get<double>(),
              2 * 4 * 2 * 32 * 7);
    for (const nlohmann::json& token : json.at("tokens")) EXPECT_GT(token.at("read_share"), 0);
    EXPECT_GT(json.at("load_seconds"), 0);
  }
  const nlohmann::json preset = Answer("bench generate --seconds 0 --preset debug");
  EXPECT_TRUE(preset.at("load_seconds").is_null());
}

TEST(BenchGenerate, PositionsAreThoseOfTheModel) {
  for (const std::string wrong : {"x", "24"}) {
    ExpectError(2, "bench generate --positions 1," + wrong + " --model " + kBenched,
                "--positions: '" + wrong + "' is not a value", "from 0 to 23");
  }
}

class BenchTokenizerTest : public InTemporaryDirectory {
 protected:
  // 2,345,678 letters, and a multibyte one across the end of the first kilobyte.
  std::string GenerateText() const {
    std::string text(2'345'678, 'a');
    text.replace(999, 3, "日");
    WriteFileAtomically(At("text.txt"), text);
    return At("text.txt").string();
  }
};

TEST_F(BenchTokenizerTest, EveryMeasureCountsTheSameBytesAndTokens) {
  const BenchTokenizerOptions options{
      .tokenizer = "bytes",
      .files = {GenerateText()},
      .measures = {TokenizerMeasure::kLoad, TokenizerMeasure::kFirst, TokenizerMeasure::kEncode,
                   TokenizerMeasure::kDecode, TokenizerMeasure::kTrain},
      .bytes = 1'234'567,
      .merges = 5,
      .seconds = 0};
  std::map<std::string, int> rows;
  BenchTokenizer(options, [&](const TokenizerTiming& timing) {
    ++rows[std::string(TokenizerMeasureName(timing.measure))];
    const bool train = timing.measure == TokenizerMeasure::kTrain;
    ASSERT_EQ(timing.seconds.size(), train ? 1u : 3u);
    EXPECT_GT(timing.median(), 0);
    if (timing.measure == TokenizerMeasure::kLoad) {
      EXPECT_EQ(timing.bytes, 0u);
      return;
    }
    if (train) {
      EXPECT_LT(timing.tokens, static_cast<int64_t>(timing.bytes) / 10);
    } else {
      EXPECT_EQ(timing.tokens, static_cast<int64_t>(timing.bytes));
    }
    if (timing.measure == TokenizerMeasure::kFirst) {
      EXPECT_EQ(timing.bytes, 999u);
      return;
    }
    EXPECT_GT(timing.copy_seconds, 0);
    if (timing.calls == 1) {
      EXPECT_TRUE(timing.bytes == 1'000'000 || timing.bytes == 1'234'567) << timing.bytes;
    } else {
      EXPECT_EQ(timing.calls, 1235);
      EXPECT_EQ(timing.bytes, 1'234'567u);
    }
  });
  // Calls of 1 KB, 1 MB and all, on one thread cold and warm; all and 1 KB on all threads.
  EXPECT_EQ(rows, (std::map<std::string, int>{
                      {"load", 1}, {"first", 1}, {"encode", 9}, {"decode", 1}, {"train", 1}}));
}

TEST_F(BenchTokenizerTest, ShortTextIsMeasuredOnce) {
  WriteFileAtomically(At("short.txt"), "abc");
  std::vector<uint64_t> bytes;
  BenchTokenizer({.tokenizer = "bytes",
                  .files = {At("short.txt").string()},
                  .measures = {TokenizerMeasure::kEncode},
                  .seconds = 0},
                 [&](const TokenizerTiming& timing) { bytes.push_back(timing.bytes); });
  EXPECT_EQ(bytes, (std::vector<uint64_t>{3, 3, 3, 3, 3}));
}

TEST_F(BenchTokenizerTest, JsonHasSpeedsAndShares) {
  const nlohmann::json json = Answer(
      "bench tokenizer --tokenizer bytes --language russian --only encode --only load --bytes "
      "20001 "
      "--threads 1");
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("rows").size(), 8u);
  for (const nlohmann::json& row : json.at("rows")) {
    const double seconds = row.at("seconds");
    EXPECT_LE(row.at("seconds_min").get<double>(), seconds);
    EXPECT_GE(row.at("seconds_max").get<double>(), seconds);
    EXPECT_NEAR(row.at("ns_per_call").get<double>() * row.at("calls").get<double>(), seconds * 1e9,
                seconds);
    if (row.at("what") == "load") {
      EXPECT_FALSE(row.contains("bytes_per_second")) << row;
      continue;
    }
    EXPECT_EQ(row.at("text"), "russian");
    const double bytes = row.at("bytes");
    EXPECT_NEAR(row.at("bytes_per_second").get<double>() * seconds, bytes, bytes * 1e-9);
    EXPECT_EQ(row.at("bytes_per_token"), 1);
    EXPECT_NEAR(row.at("ns_per_token").get<double>() * bytes, seconds * 1e9, seconds);
    const double share = row.at("memcpy_share");
    EXPECT_NEAR(share * row.at("memcpy_bytes_per_second").get<double>(),
                row.at("bytes_per_second").get<double>(),
                row.at("bytes_per_second").get<double>() * 1e-9);
  }
}

TEST_F(BenchTokenizerTest, TableIsForPeople) {
  EXPECT_TRUE(
      Contains(Well(RunFolio("bench tokenizer --tokenizer bytes --only decode --bytes 5000")).out,
               "MB/s", "of memcpy", "english", "code", "chinese", "japanese", "russian", "decode"));
}

TEST_F(BenchTokenizerTest, MistakesAreRefused) {
  Ended(2, RunFolio("bench tokenizer --tokenizer bytes --only speed"));
  Ended(2, RunFolio("bench tokenizer --tokenizer bytes --language klingon"));
  Ended(3, RunFolio("bench tokenizer --tokenizer bytes --file " + At("none").string()));
  WriteFileAtomically(At("empty.txt"), "");
  Ended(3, RunFolio("bench tokenizer --tokenizer bytes --file " + At("empty.txt").string()));
}

}  // namespace
}  // namespace folio
