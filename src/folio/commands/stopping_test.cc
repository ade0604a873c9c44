// Commands that are asked to stop during a long computation or output, through the real program.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "folio/commands/train/test_train.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Stopping : public TrainTest {
 protected:
  // Runs the program, and sends it a signal when `begun`, a shell test, succeeds. Returns how many
  // seconds it took to end, with the signal's status and nothing left in the directory.
  double Stopped(const std::string& call, const std::string& begun, const char* name, int number) {
    const Strings before = Names();
    const ProgramRun run = RunShell(
        At(""), "$F " + call + " >/dev/null & p=$!\n" + Awaited(begun) + "a=$(date +%s%N); kill -" +
                    name + " $p; wait $p; s=$?\necho $(($(date +%s%N) - a)); exit $s");
    EXPECT_EQ(run.status, 128 + number) << call << "\n" << run.err;
    EXPECT_EQ(Names(), before) << call;
    return run.out.empty() ? 0 : 1e-9 * std::stod(run.out);
  }
};

// A pass over one text of this model takes a quarter of a minute or more on one thread; the signal
// comes while it is in its layers.
TEST_F(Stopping, APassThatTakesLongIsLeft) {
  if (kSanitized) GTEST_SKIP() << "a pass takes minutes";
  GptConfig config;
  config.vocab_size = 257;
  config.n_positions = 4096;
  config.n_embd = 64;
  config.n_layer = 300;
  config.n_head = 4;
  const GptWeights weights(config);
  Scatter(weights, 7);
  fs::create_directories(At("model"));
  SaveModel(At("model"), weights);
  ByteTokenizer().Save(At("model").string());
  PutFile("text.txt", std::string(4090, 'a'));
  for (const char* call :
       {"eval perplexity --model model text.txt", "eval compare model model text.txt",
        "generate --model model --file text.txt -n 2",
        "inspect probabilities --model model --file text.txt"}) {
    // The weights are mapped before: the sleep is long enough for that and shorter than the pass.
    const double seconds = Stopped(std::string(call) + " --threads 1", "sleep 2", "TERM", SIGTERM);
    EXPECT_LT(seconds, 6) << call;
  }
}

TEST_F(Stopping, WhatIsWrittenLeavesNoTemporaryFile) {
  const std::string grows = "[ -n \"$(find . -name '.*' -type f -size +100k)\" ]";
  for (const auto& [name, number] : {std::pair("TERM", SIGTERM), std::pair("INT", SIGINT)}) {
    Stopped("data stories --bytes 1000000000000 --out stories.txt", grows, name, number);
    Stopped("data stories --questions --bytes 1000000000000 --out stories.jsonl", grows, name,
            number);
  }
}

}  // namespace
}  // namespace folio
