#include "folio/train/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class RunLogs : public InTemporaryDirectory {
 protected:
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const StepMetrics& m : ReadRunLog(At(""))) steps.push_back(m.step);
    return steps;
  }
  void WriteSteps(int64_t first, int64_t count) {
    RunLog log(At(""), first);
    for (int64_t step = first; step < first + count; ++step) {
      log.Write({.step = step, .loss = 1.0 / static_cast<double>(step + 3), .tokens = step * 10});
    }
  }
  void Append(const std::string& text) {
    const auto path = At(kMetricsFile);
    WriteFileAtomically(path, ReadFile(path) + text);
  }
  using Ids = std::vector<int64_t>;
};

TEST_F(RunLogs, EveryFieldReadsBack) {
  RunLog(At(""), 0).Write({.step = 3,
                           .loss = 1.0 / 3,
                           .lr = 1e-3,
                           .grad_norm = 0.7,
                           .tokens = 4000,
                           .tokens_per_second = 123.5,
                           .seconds = 1.25,
                           .time = 1795362208.125,
                           .train_eval_loss = 2.5,
                           .val_loss = 2.75,
                           .skipped = "loss spike",
                           .skipped_parameter = "wte",
                           .ended_by = "patience"});
  const StepMetrics m = ReadRunLog(At("")).at(0);
  EXPECT_EQ(m.step, 3);
  EXPECT_EQ(m.loss, 1.0 / 3);
  EXPECT_EQ(m.lr, 1e-3);
  EXPECT_EQ(m.grad_norm, 0.7);
  EXPECT_EQ(m.tokens, 4000);
  EXPECT_EQ(m.tokens_per_second, 123.5);
  EXPECT_EQ(m.seconds, 1.25);
  EXPECT_EQ(m.time, 1795362208.125);
  EXPECT_EQ(m.train_eval_loss, 2.5);
  EXPECT_EQ(m.val_loss, 2.75);
  EXPECT_EQ(m.skipped, "loss spike");
  EXPECT_EQ(m.skipped_parameter, "wte");
  EXPECT_EQ(m.ended_by, "patience");
}

TEST_F(RunLogs, NumbersThatJsonLacksReadBack) {
  RunLog(At(""), 0).Write({.step = 3,
                           .loss = std::numeric_limits<double>::quiet_NaN(),
                           .lr = INFINITY,
                           .grad_norm = -INFINITY});
  EXPECT_TRUE(Contains(ReadFile(At(kMetricsFile)), "\"loss\":\"nan\""));
  const StepMetrics m = ReadRunLog(At("")).at(0);
  EXPECT_TRUE(m.loss && std::isnan(*m.loss));
  EXPECT_EQ(m.lr, INFINITY);
  EXPECT_EQ(m.grad_norm, -INFINITY);
}

TEST_F(RunLogs, WhatWasNotMeasuredIsNotWritten) {
  RunLog(At(""), 0).Write({.step = 3, .lr = 1});
  const std::string line = ReadFile(At(kMetricsFile));
  for (const char* key : {"val_loss", "skipped", "ended_by"}) EXPECT_FALSE(Contains(line, key));
  EXPECT_FALSE(ReadRunLog(At("")).at(0).loss);
}

TEST_F(RunLogs, EachLineIsOnDiskWhenWriteReturns) {
  RunLog log(At(""), 0);
  log.Write({.step = 0});
  EXPECT_EQ(Steps(), (Ids{0}));
  log.Write({.step = 1});
  EXPECT_EQ(Steps(), (Ids{0, 1}));
}

TEST_F(RunLogs, AResumedRunHasEachStepOnce) {
  WriteSteps(0, 7);
  Append("{\"step\":7,\"lo");  // torn by a crash
  WriteSteps(4, 2);
  EXPECT_EQ(Steps(), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ReadFile(At(kMetricsFile)).find("\"lo\n"), std::string::npos);
  EXPECT_EQ(ReadRunLog(At("")).at(2).loss, 0.2);
}

TEST_F(RunLogs, AFreshRunBeginsAnEmptyLog) {
  WriteSteps(0, 7);
  WriteSteps(0, 2);
  EXPECT_EQ(Steps(), (Ids{0, 1}));
}

TEST_F(RunLogs, DamagedLinesArePutAsideWhereverTheyAre) {
  WriteSteps(0, 2);
  const std::string sound = ReadFile(At(kMetricsFile));
  Append("{\"step\":\n");
  RepairLines(At(kMetricsFile));
  EXPECT_EQ(ReadFile(At(kMetricsFile)), sound);
  WriteFileAtomically(At(kMetricsFile),
                      "edited\n" + sound + "{\"loss\": 3}\n{\"step\":2}\n{\"torn");
  WriteSteps(2, 1);
  EXPECT_EQ(Steps(), (Ids{0, 1, 2}));
  EXPECT_EQ(ReadFile(At("metrics.damaged.jsonl")), "{\"step\":\nedited\n{\"loss\": 3}\n");
  RepairLines(At("none.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(At("none.jsonl")));
}

TEST_F(RunLogs, LinesOfNumbersBeyond64BitsArePutAside) {
  WriteSteps(0, 2);
  const std::string sound = ReadFile(At(kMetricsFile));
  const char* numbers[] = {"9223372036854775808", "18446744073709551615", "18446744073709551616",
                           "-9223372036854775809", "1e400"};
  for (const std::string number : numbers) {
    for (const char* key : {"step", "tokens"}) {
      const std::string before = key == std::string("step") ? "{" : R"({"step": 2, )";
      const std::string line = before + '"' + key + "\": " + number + "}\n";
      WriteFileAtomically(At(kMetricsFile), sound + line);
      try {  // another number of tokens may be a fraction
        EXPECT_EQ(ReadRunLog(At("")).size(), 3u);
      } catch (const Error& error) {
        EXPECT_TRUE(Contains(error.what(), "metrics.jsonl:3"));
      }
      WriteSteps(2, 1);
      EXPECT_EQ(Steps(), (Ids{0, 1, 2})) << line;
    }
  }
}

TEST_F(RunLogs, RefusesWhatItDidNotWrite) {
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadRunLog(At("")); }, ErrorKind::kInput), kMetricsFile));
  WriteSteps(0, 2);
  Append("{\"loss\": 3}\n");
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadRunLog(At("")); }, ErrorKind::kInput), "metrics.jsonl:3"));
}

}  // namespace
}  // namespace folio
