#include "folio/formats/fetched_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/published_models.h"
#include "folio/io/file.h"
#include "folio/model/params.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::vector<HubFile> Files(const Strings& paths) {
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back({.path = path, .bytes = 1});
  return files;
}

Strings Chosen(const Strings& paths, const std::string& which = "") {
  Strings chosen;
  for (const HubFile& file : FilesOfModel({"some/model", which}, Files(paths))) {
    chosen.push_back(file.path);
  }
  return chosen;
}

std::string Refusal(const Strings& paths, ErrorKind kind, const std::string& which = "") {
  return ErrorOf([&] { Chosen(paths, which); }, kind);
}

TEST(FilesOfModel, OfADirectoryAreThoseThatFolioReads) {
  EXPECT_EQ(Chosen({"README.md", "config.json", "model.safetensors", "onnx/model.onnx",
                    "pytorch_model.bin", "tokenizer.json", "picture.png", "original/config.json",
                    "additional_chat_templates/tool_use.jinja", "chat_template.jinja",
                    "consolidated.safetensors", "generation_config.json"}),
            (Strings{"config.json", "tokenizer.json", "additional_chat_templates/tool_use.jinja",
                     "chat_template.jinja", "generation_config.json", "model.safetensors"}));
}

TEST(FilesOfModel, ShardsComeBeforeTheirIndex) {
  const Strings parts = {"model.safetensors.index.json", "model-00001-of-00002.safetensors",
                         "model-00002-of-00002.safetensors", "config.json"};
  EXPECT_EQ(Chosen(parts),
            (Strings{"config.json", "model-00002-of-00002.safetensors",
                     "model-00001-of-00002.safetensors", "model.safetensors.index.json"}));
  EXPECT_TRUE(Contains(Refusal({parts[0], parts[1], parts[3]}, ErrorKind::kInput), "is incomplete",
                       "1 of its 2 parts"));
}

TEST(FilesOfModel, OfAnAdapterAreItsTwo) {
  EXPECT_EQ(Chosen({"adapter_config.json", "adapter_model.safetensors", "training_args.bin"}),
            (Strings{"adapter_config.json", "adapter_model.safetensors"}));
}

const Strings kGgufs = {"m-Q4_K_S.gguf",
                        "m-Q4_K_M.gguf",
                        "m.Q8_0.gguf",
                        "m-f16.gguf",
                        "mmproj-m.gguf",
                        "m.imatrix.gguf",
                        "bf/m-BF16-00001-of-00002.gguf",
                        "bf/m-BF16-00002-of-00002.gguf"};

TEST(FilesOfModel, OfSeveralGgufFilesOneIsChosen) {
  EXPECT_EQ(Chosen(kGgufs), Strings{"m-Q4_K_M.gguf"});
  EXPECT_EQ(Chosen({"only.gguf", "README.md"}), Strings{"only.gguf"});
  for (const auto& [which, file] :
       {std::pair{"Q8_0", "m.Q8_0.gguf"}, std::pair{"q8_0", "m.Q8_0.gguf"},
        std::pair{"F16", "m-f16.gguf"}, std::pair{"m-f16", "m-f16.gguf"},
        std::pair{"m-Q4_K_S.gguf", "m-Q4_K_S.gguf"}}) {
    EXPECT_EQ(Chosen(kGgufs, which), Strings{file}) << which;
  }
  EXPECT_EQ(Chosen(kGgufs, "BF16"),
            (Strings{"bf/m-BF16-00002-of-00002.gguf", "bf/m-BF16-00001-of-00002.gguf"}));
}

TEST(FilesOfModel, WhereNoneOrSeveralAreMeantAllAreListed) {
  for (const char* which : {"Q5_K_M", "Q4_K", "", "m"}) {
    Strings files = kGgufs;
    if (*which == '\0') std::erase(files, "m-Q4_K_M.gguf");
    EXPECT_TRUE(Contains(Refusal(files, ErrorKind::kUsage, which), "m.Q8_0.gguf", "m-f16.gguf"))
        << which;
  }
  EXPECT_TRUE(Contains(Refusal({"config.json", "model.safetensors"}, ErrorKind::kUsage, "Q8_0"),
                       "no GGUF file 'Q8_0'"));
  Strings split = kGgufs;
  split.pop_back();
  EXPECT_TRUE(Contains(Refusal(split, ErrorKind::kInput, "BF16"), "1 of its 2 parts"));
}

TEST(FilesOfModel, WhatFolioDoesNotReadIsNamed) {
  EXPECT_TRUE(Contains(Refusal({"config.json", "pytorch_model.bin"}, ErrorKind::kInput),
                       "it has pytorch_model.bin"));
  EXPECT_TRUE(Contains(Refusal({"README.md"}, ErrorKind::kInput), "neither safetensors nor GGUF"));
}

// A home with models as if they had been fetched.
class FetchedHomeTest : public InTemporaryDirectory {
 protected:
  FetchedHomeTest() { setenv("FOLIO_HOME", At("").c_str(), 1); }
  ~FetchedHomeTest() override { unsetenv("FOLIO_HOME"); }
  void Put(const std::string& path, const std::string& bytes = "x") const {
    CreateParentOf(At("models/" + path));
    WriteFileAtomically(At("models/" + path), bytes);
  }
  static Strings Listed() {
    Strings names;
    for (const FetchedModel& model : FetchedModels()) {
      names.push_back(fmt::format("{} {} {}", model.name, model.kind, model.bytes));
    }
    return names;
  }
};

TEST_F(FetchedHomeTest, ModelsAreListedFoundAndRemoved) {
  EXPECT_EQ(Listed(), Strings{});
  Put("a/whole/config.json");
  Put("a/whole/model.safetensors", "123");
  Put("a/ggufs/m-Q8_0.gguf");
  Put("a/ggufs/s/m-F16-00001-of-00002.gguf");
  Put("a/ggufs/s/m-F16-00002-of-00002.gguf");
  Put("a/one/m.gguf");
  Put("a/begun/.arriving/.m.gguf.0123.part", "12345");
  Put("gpt2/config.json");
  Put("gpt2/model.safetensors");
  Put("elsewhere.txt");
  EXPECT_EQ(Listed(), (Strings{"a/begun incomplete 5", "a/ggufs:m-Q8_0.gguf GGUF 1",
                               "a/ggufs:s/m-F16-00001-of-00002.gguf GGUF 2", "a/one GGUF 1",
                               "a/whole safetensors 4", "gpt2 safetensors 2"}));
  EXPECT_EQ(FindFetchedModel("a/whole"), At("models/a/whole"));
  EXPECT_EQ(FindFetchedModel("a/one"), At("models/a/one/m.gguf"));
  EXPECT_EQ(FindFetchedModel("a/ggufs:f16"), At("models/a/ggufs/s/m-F16-00001-of-00002.gguf"));
  EXPECT_EQ(FindFetchedModel("a/begun"), "");
  EXPECT_EQ(FindFetchedModel("a/none"), "");
  EXPECT_EQ(FindFetchedModel("../models/a"), "");
  EXPECT_TRUE(Contains(ErrorOf([] { FindFetchedModel("a/ggufs"); }, ErrorKind::kUsage), "several",
                       "m-Q8_0.gguf"));
  EXPECT_EQ(RemoveFetchedModel("a/ggufs:F16"), 2u);
  EXPECT_EQ(RemoveFetchedModel("a/ggufs"), 1u);
  EXPECT_EQ(RemoveFetchedModel("a/begun"), 5u);
  EXPECT_EQ(RemoveFetchedModel("gpt2"), 2u);
  EXPECT_EQ(Listed(), (Strings{"a/one GGUF 1", "a/whole safetensors 4"}));
  for (const char* name : {"gpt2", "a/none", "..", "../models", "", "a"}) {
    Refused([&] { RemoveFetchedModel(name); }, ErrorKind::kInput);
  }
  EXPECT_TRUE(IsFile(At("models/elsewhere.txt")));
}

// The published files hold so many numbers, and little else: of GPT-2 the masks of its attention,
// of Qwen 3 its head, which is that of its embeddings once more.
TEST(PublishedSizes, AreThoseOfTheFiles) {
  for (const PublishedModel& model : PublishedModels()) {
    const GptConfig config = SizesOf(model);
    const int64_t parameters = ParamTable(config).parameters();
    const bool gpt2 = model.name.starts_with("gpt2");
    const int64_t width = gpt2 ? 4 : 2;
    const int64_t masks = gpt2 ? config.n_layer * config.n_positions * config.n_positions : 0;
    const int64_t head = model.name == "qwen3-0.6b" ? config.vocab_size * config.n_embd : 0;
    const int64_t rest = model.files.back().bytes - width * (parameters + masks + head);
    EXPECT_GE(rest, 0) << model.name;
    EXPECT_LT(rest, 200'000) << model.name;
  }
}

}  // namespace
}  // namespace folio
