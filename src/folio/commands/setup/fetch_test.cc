#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "folio/formats/published_models.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"
#include "tests/kit/test_hub.h"

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
    // The page is that of the weights' repository, with full commit names.
    const std::string_view url = model.files.back().url;
    const size_t at = url.find("/resolve/");
    EXPECT_TRUE(model.page.starts_with(std::string(url.substr(0, at)) + "/tree/")) << model.page;
    EXPECT_EQ(url.substr(at + 9).find('/'), 40u) << url;
  }
}

TEST_F(Fetch, WithoutANetworkOneLineSaysWhatToPutWhere) {
  EXPECT_TRUE(Contains(
      Ended(1, Shell("$F fetch gpt2-medium -q")).err,
      "download config.json, generation_config.json, tokenizer.json, "
      "tokenizer_config.json, vocab.json, merges.txt, model.safetensors from "
      "https://huggingface.co/openai-community/gpt2-medium/tree/main on another machine and "
      "put them in home/models/gpt2-medium"));
  EXPECT_TRUE(fs::is_empty(At("home/models/gpt2-medium")));  // not even .arriving
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
                       "mine/config.json differs from the published file", "665"));
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
  // An existing file is not hashed again.
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

// From a hub on this machine.
class FetchRepository : public Fetch {
 protected:
  ProgramRun OfHub(const TestHub& hub, const std::string& text) const {
    return Shell(fmt::format("export HF_ENDPOINT={} no_proxy='*'; {}", hub.url(), text));
  }
  // A model so large that its beginning is kept.
  static std::string Large() {
    std::string bytes;
    while (bytes.size() < 3 << 20) bytes += fmt::format("{},", bytes.size());
    return bytes;
  }
  static constexpr size_t kCut = 2 << 20;
};

TEST_F(FetchRepository, IsOpenedListedAndRemovedByItsName) {
  const fs::path fixture = Fixture("gpt2-tiny");
  const TestHub hub(
      TestHub::Files{{"config.json", {ReadFile(fixture / "config.json")}},
                     {"model.safetensors", {ReadFile(fixture / "model.safetensors"), true}},
                     {"onnx/model.onnx", {"x", true}},
                     {"pytorch_model.bin", {"x", true}},
                     {"README.md", {"x"}}});
  const std::string generate =
      "$F generate --model some/model --ids 1,2 --max-tokens 1 --seed 1 -q";
  EXPECT_TRUE(Contains(Ended(3, Shell(generate)).err, "folio fetch some/model"));
  const ProgramRun fetched = Well(OfHub(hub, "$F fetch some/model"));
  EXPECT_TRUE(Contains(fetched.err, "some/model: downloading 2 of 2 files, ",
                       "folio generate --model some/model"));
  EXPECT_EQ(FilesBelow(At("home/models/some/model")).size(), 2u);
  Well(Shell(generate));
  EXPECT_TRUE(Contains(Well(OfHub(hub, "$F fetch some/model")).err, "already"));
  const nlohmann::json listed = nlohmann::json::parse(Well(Shell("$F models --json")).out);
  ASSERT_EQ(listed.at("models").size(), 1u);
  EXPECT_EQ(listed["models"][0].at("name"), "some/model");
  EXPECT_EQ(listed["models"][0].at("kind"), "safetensors");
  EXPECT_EQ(listed["models"][0].at("bytes"),
            fs::file_size(fixture / "config.json") + fs::file_size(fixture / "model.safetensors"));
  EXPECT_TRUE(Contains(Well(Shell("$F models")).out, "some/model", "safetensors"));
  EXPECT_TRUE(
      Contains(Well(Shell("$F models remove some/model")).err, "removed some/model", "freed"));
  Ended(3, Shell(generate));
  EXPECT_EQ(nlohmann::json::parse(Well(Shell("$F models --json")).out)["models"].size(), 0u);
  Ended(3, Shell("$F models remove some/model"));
}

TEST_F(FetchRepository, ADownloadThatWasCutIsNoModelAndGoesOn) {
  TestHub hub(TestHub::Files{{"config.json", {"{}"}}, {"model.safetensors", {Large(), true}}});
  hub.CutAt(kCut);
  EXPECT_TRUE(Contains(Ended(1, OfHub(hub, "$F fetch some/model -q")).err, "bytes received",
                       "run the command again to continue"));
  EXPECT_FALSE(fs::exists(At("home/models/some/model/config.json")));
  EXPECT_TRUE(Contains(Well(Shell("$F models")).out, "some/model", "incomplete"));
  EXPECT_TRUE(Contains(Ended(3, Shell("$F generate --model some/model --ids 1")).err,
                       "folio fetch some/model"));
  hub.CutAt(std::string::npos);
  Well(OfHub(hub, "$F fetch some/model -q"));
  EXPECT_TRUE(ReadFile(At("home/models/some/model/model.safetensors")) == Large());
  EXPECT_TRUE(Contains(hub.asked_of_store(), fmt::format("Range: bytes={}-", kCut)));
  EXPECT_EQ(FilesBelow(At("home/models/some/model")).size(), 2u);
}

TEST_F(FetchRepository, AFileOfAnotherHashIsNotKept) {
  const TestHub hub(TestHub::Files{{"config.json", {"{}"}},
                                   {"model.safetensors", {Large(), true, std::string(64, 'a')}}});
  EXPECT_TRUE(Contains(Ended(3, OfHub(hub, "$F fetch some/model -q")).err,
                       "differs from the published file", std::string(64, 'a')));
  EXPECT_FALSE(fs::exists(At("home/models/some/model/config.json")));
}

TEST_F(FetchRepository, OfGgufFilesOneComes) {
  const TestHub hub(
      TestHub::Files{{"m-Q4_K_M.gguf", {"four", true}}, {"m-Q8_0.gguf", {"eight", true}}});
  Well(OfHub(hub, "$F fetch some/model -q"));
  EXPECT_EQ(FilesBelow(At("home/models/some/model")).size(), 1u);
  EXPECT_EQ(ReadFile(At("home/models/some/model/m-Q4_K_M.gguf")), "four");
  Well(OfHub(hub, "$F fetch some/model:q8_0 -q"));
  EXPECT_TRUE(Contains(Well(Shell("$F models")).out, "some/model:m-Q8_0.gguf"));
  EXPECT_TRUE(Contains(Ended(2, OfHub(hub, "$F fetch some/model:Q5_0")).err, "m-Q8_0.gguf"));
  EXPECT_TRUE(Contains(Ended(2, Shell("$F generate --model some/model --ids 1")).err,
                       "several GGUF files", "choose one: some/model:"));
}

TEST_F(FetchRepository, WhatHasNoRoomIsNotBegun) {
  TestHub hub(TestHub::Files{{"config.json", {"{}"}}});
  hub.AddEntry(R"({"type":"file","path":"model.safetensors","size":562949953421312})");
  EXPECT_TRUE(Contains(Ended(1, OfHub(hub, "$F fetch some/model")).err, "not enough disk space"));
  EXPECT_EQ(hub.asked_of_hub().find("resolve"), std::string::npos);
}

TEST_F(FetchRepository, ConditionsToAcceptAreSaid) {
  TestHub hub(TestHub::Files{{"config.json", {"{}"}}, {"model.safetensors", {"x", true}}});
  hub.Refuse(403);
  EXPECT_TRUE(Contains(Ended(3, OfHub(hub, "$F fetch some/model -q")).err, "403", "HF_TOKEN"));
  EXPECT_TRUE(Contains(Ended(3, OfHub(hub, "$F fetch other/model -q")).err, "no repository"));
}

TEST_F(FetchRepository, NothingIsWrittenThroughALink) {
  const TestHub hub(TestHub::Files{{"config.json", {"{}"}}, {"model.safetensors", {"x", true}}});
  fs::create_directories(At("home/models/some/model"));
  WriteFileAtomically(At("precious"), "modified since");
  fs::create_symlink(At("precious"), At("home/models/some/model/config.json"));
  Well(OfHub(hub, "$F fetch some/model -q"));
  EXPECT_EQ(ReadFile(At("precious")), "modified since");
  EXPECT_FALSE(fs::is_symlink(At("home/models/some/model/config.json")));
}

}  // namespace
}  // namespace folio
