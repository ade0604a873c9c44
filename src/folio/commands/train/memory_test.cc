#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

// Compares a run's planned peak memory with that of its process.
class PlannedMemory : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
    Well(RunShell(At(""), "$F data stories --out text.txt --bytes 300000 -q"));
  }
  void ExpectAsPlanned(const std::string& flags) const {
    const ProgramRun run =
        Well(RunShell(At(""), "$F train --data text.txt --out run --overwrite --json " + flags));
    const std::vector<nlohmann::json> events = JsonLines(run.out);
    ASSERT_GE(events.size(), 3u);
    const auto planned = events.front().at("process_peak_bytes").get<double>();
    const auto held = events.back().at("peak_memory_bytes").get<double>();
    EXPECT_LT(std::abs(held / planned - 1), 0.15)
        << flags << ": planned " << planned << ", held " << held;
  }
};

TEST_F(PlannedMemory, OfANewModelIsWhatIsHeld) {
  ExpectAsPlanned("--preset debug --max-steps 20");
  ExpectAsPlanned("--preset stories --max-steps 20");
  ExpectAsPlanned("--preset stories --max-steps 20 --batch 32 --set train.eval_batches=1");
}

TEST_F(PlannedMemory, OfARunFromAFileOfBlocksIsWhatIsHeld) {
  const std::filesystem::path model =
      SourceDir() / "../shared/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "no " << model;
  const std::string flags = "--init " + model.string() +
                            " --context 32 --batch 1 --max-steps 2 --set train.eval_batches=1 ";
  ExpectAsPlanned(flags + "--lora 8");
  ExpectAsPlanned(flags);
}

}  // namespace
}  // namespace folio
