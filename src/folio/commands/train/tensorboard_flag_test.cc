#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "folio/train/test_event_reader.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

using Place = std::pair<std::string, int64_t>;  // tag and step

class TensorBoardFlag : public TrainTest {
 protected:
  ProgramRun Begin(const std::string& more = "--tensorboard") const {
    return Train("train.eval_every=2 log.sample_every=2 log.sample_tokens=20 --max-steps 5 " +
                 more);
  }

  // The event files, by name.
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    if (!fs::exists(At("run/tensorboard"))) return files;
    for (const auto& entry : fs::directory_iterator(At("run/tensorboard"))) {
      files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  std::vector<DecodedEvent> Events(const fs::path& file) const {
    return ParseEvents(DecodeEvents(ReadRecords(file), At("")));
  }

  // Returns what a reader keeps of all files: a restart forgets that step and later ones.
  std::map<Place, double> Scalars() const {
    std::map<Place, double> scalars;
    for (const fs::path& file : Files()) {
      for (const DecodedEvent& event : Events(file)) {
        if (event.session == "START") {
          std::erase_if(scalars, [&](const auto& s) { return s.first.second >= event.step; });
        }
        if (event.tag.empty() || event.tag == "sample") continue;
        EXPECT_TRUE(scalars.emplace(Place{event.tag, event.step}, event.value).second)
            << event.tag << " of step " << event.step << " is there twice";
      }
    }
    return scalars;
  }
  // The same from metrics.jsonl.
  std::map<Place, double> Metrics() const {
    std::map<Place, double> scalars;
    for (const StepMetrics& m : ReadRunLog(At("run"))) {
      const std::pair<const char*, std::optional<double>> values[] = {
          {"loss", m.loss},
          {"lr", m.lr},
          {"grad_norm", m.grad_norm},
          {"tokens_per_second", m.tokens_per_second},
          {"train_eval_loss", m.train_eval_loss},
          {"val_loss", m.val_loss}};
      for (const auto& [tag, value] : values) {
        if (value) scalars[{tag, m.step}] = *value;
      }
    }
    return scalars;
  }
  void ExpectSameAsMetrics() const {
    const std::map<Place, double> scalars = Scalars(), metrics = Metrics();
    ASSERT_EQ(scalars.size(), metrics.size());
    for (const auto& [place, value] : metrics) {
      ASSERT_TRUE(scalars.contains(place)) << place.first << " of step " << place.second;
      EXPECT_EQ(static_cast<float>(scalars.at(place)), static_cast<float>(value)) << place.first;
    }
  }
};

TEST_F(TensorBoardFlag, NothingIsWrittenWithoutIt) {
  ASSERT_EQ(Begin("").status, 0);
  EXPECT_TRUE(Files().empty());
}

TEST_F(TensorBoardFlag, ScalarsAreThoseOfTheRunLog) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  ASSERT_EQ(Begin().status, 0);
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(Metrics().size(), 5u * 4 + 4u * 2);  // evaluations before steps 0, 2, 4 and at the end
  ExpectSameAsMetrics();
  double last = 0;
  for (const DecodedEvent& event : Events(Files()[0])) {
    EXPECT_GE(event.wall_time, last);
    EXPECT_GT(event.wall_time, 1.6e9);
    last = event.wall_time;
  }
}

TEST_F(TensorBoardFlag, SamplesKeepTheirLines) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  ASSERT_EQ(Begin().status, 0);
  std::vector<std::string> found, expected;
  for (const DecodedEvent& event : Events(Files().at(0))) {
    if (event.tag == "sample") found.push_back(std::to_string(event.step) + event.text);
  }
  for (const std::string& line : Split(ReadFile(At("run/samples.jsonl")), '\n')) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line);
    std::string text = "    " + json["text"].get<std::string>();
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
      text.replace(at, 1, "\\n    ");
    }
    expected.push_back(std::to_string(json["step"].get<int64_t>()) + text);
  }
  EXPECT_EQ(expected.size(), 2u);
  EXPECT_EQ(found, expected);
}

TEST_F(TensorBoardFlag, AResumedRunAppendsAFileAndRepeatsNothing) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  ASSERT_EQ(Begin().status, 0);
  const std::string before = ReadFile(Files().at(0));
  ASSERT_EQ(RunFolio(Resumed("--max-steps 9")).status, 0);  // the setting is the run's own
  ASSERT_EQ(Files().size(), 2u);
  EXPECT_EQ(ReadFile(Files()[0]), before);
  for (const DecodedEvent& event : Events(Files()[1])) {
    EXPECT_TRUE(event.tag.empty() || event.step >= 5) << event.tag << " " << event.step;
  }
  ExpectSameAsMetrics();
}

TEST_F(TensorBoardFlag, OverwritingARunRemovesItsEvents) {
  ASSERT_EQ(Begin().status, 0);
  const fs::path old = Files().at(0);
  ASSERT_EQ(Begin("--tensorboard --overwrite").status, 0);
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_FALSE(fs::exists(old));
}

}  // namespace
}  // namespace folio
