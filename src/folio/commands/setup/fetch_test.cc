#include <gtest/gtest.h>

#include <filesystem>

#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Fetch : public InTemporaryDirectory {
 protected:
  // Without a network.
  ProgramRun Shell(const std::string& text) const {
    return RunShell(At(""), "export https_proxy=http://127.0.0.1:1 FOLIO_HOME=home; " + text);
  }
};

TEST_F(Fetch, EveryFileIsPinned) {
  for (const PublishedModel& model : PublishedModels()) {
    const std::string site = "https://huggingface.co/";
    EXPECT_EQ(model.files.front().name, "config.json");
    EXPECT_EQ(model.files.back().name, "model.safetensors");
    for (const PublishedFile& file : model.files) {
      EXPECT_TRUE(file.url.starts_with(site) && file.url.ends_with(file.name)) << file.url;
      EXPECT_EQ(file.sha256.size(), 64u);
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), file.sha256.npos);
      EXPECT_GT(file.bytes, 0);
    }
    // The page is that of the weights' repository, whose commits are named in full.
    const std::string_view url = model.files.back().url;
    const size_t at = url.find("/resolve/");
    EXPECT_TRUE(model.page.starts_with(std::string(url.substr(0, at)) + "/tree/")) << model.page;
    EXPECT_EQ(url.substr(at + 9).find('/'), 40u) << url;
  }
}

TEST_F(Fetch, WithoutANetworkOneLineSaysWhatToPutWhere) {
  EXPECT_TRUE(
      Contains(Ended(1, Shell("$F fetch gpt2-medium -q")).err,
               "download config.json, generation_config.json, tokenizer.json, "
               "tokenizer_config.json, vocab.json, merges.txt, model.safetensors from "
               "https://huggingface.co/openai-community/gpt2-medium/tree/main elsewhere and "
               "put them in home/models/gpt2-medium"));
  EXPECT_TRUE(fs::is_empty(At("home/models/gpt2-medium")));
  EXPECT_TRUE(
      Contains(Ended(1, Shell("$F fetch qwen2.5-0.5b -q")).err,
               "download config.json, generation_config.json, tokenizer.json, "
               "tokenizer_config.json, model.safetensors from "
               "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct/tree/7ae557604adf67be50417f59c"));
}

TEST_F(Fetch, OtherFilesAreNotTakenForThePublishedOnes) {
  fs::create_directories(At("mine"));
  WriteFileAtomically(At("mine/config.json"), "{}");
  EXPECT_TRUE(Contains(Ended(3, Shell("$F fetch gpt2 --from mine")).err,
                       "mine/config.json is not the published file", "665"));
  EXPECT_FALSE(fs::exists(At("home/models/gpt2/config.json")));
}

TEST_F(Fetch, KnowsItsModels) {
  EXPECT_TRUE(Contains(Ended(2, Shell("$F fetch gpt2-medum")).err, "gpt2-large",
                       "did you mean 'gpt2-medium'?"));
  const ProgramRun list = Shell("$F fetch --list");
  EXPECT_TRUE(Contains(list.out, "gpt2-xl", "1558M parameters"));
  EXPECT_TRUE(Contains(list.out, "smollm2-360m", "qwen3-0.6b", "Apache 2.0"));
  EXPECT_TRUE(Contains(Shell("$F fetch --list --json").out, R"("name":"gpt2-large")"));
  Ended(2, Shell("$F fetch"));
}

TEST_F(Fetch, ANameIsAFetchedModelUnlessThereIsSuchAPath) {
  const std::string generate = "$F generate --model gpt2 --ids 1,2 --max-tokens 1 --seed 1 -q";
  EXPECT_TRUE(Contains(Ended(3, Shell(generate)).err, "the model gpt2 is not on this machine",
                       "folio fetch gpt2"));
  // A file that lies there is not hashed again.
  const std::string fixture = Fixture("gpt2-tiny").string();
  const std::string there =
      "cp " + fixture + "/config.json " + fixture + "/model.safetensors home/models/gpt2; ";
  EXPECT_TRUE(Contains(Shell("mkdir -p home/models/gpt2; cd home/models/gpt2; touch "
                             "generation_config.json vocab.json merges.txt; cd ../../..; " +
                             there + generate)
                           .err,
                       "tokenizer.json, tokenizer_config.json not in"));
  Well(Shell("cp -r " + fixture + " gpt2; " + generate));
}

}  // namespace
}  // namespace folio
