// Training that starts from a model, through the real program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/io/model_dir.h"
#include "folio/model/lora.h"
#include "folio/model/transformer.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class FineTuningProgram : public TrainTest {
 protected:
  FineTuningProgram() {
    Well(Train("model.bias=false model.attn_pdrop=0.1"));
    fs::rename(At("run"), At("model"));
  }
  std::string Init(const std::string& more, const std::string& out = "tuned") const {
    return "train --init " + At("model").string() + " --data " + data_ + " --out " +
           At(out).string() +
           " --batch 2 --max-steps 3 --set train.eval_batches=2 train.eval_every=1 " + more;
  }
  std::string Chosen(const std::string& key) const { return Setting(key, "tuned"); }
  std::string Bytes(const std::string& dir) const { return ReadFile(At(dir) / kWeightsFile); }
};

TEST_F(FineTuningProgram, GoesOnFromTheModelsParametersSizesAndTokenizer) {
  Well(RunFolio(Init("--max-steps 0")));
  EXPECT_EQ(Bytes("tuned/last"), Bytes("model/best"));
  EXPECT_EQ(ReadFile(At("tuned/last/tokenizer.json")), ReadFile(At("model/best/tokenizer.json")));
  EXPECT_EQ(Chosen("n_embd"), "8");
  EXPECT_EQ(Chosen("bias"), "false");
  EXPECT_EQ(Chosen("attn_pdrop"), "0.1");
  EXPECT_EQ(Chosen("context"), "16");
  // A text with a character for which the model has no token.
  WriteFileAtomically(At("other.txt"), ReadFile(data_) + "\xC3\xA4");
  ExpectError(3, Init("--overwrite --data " + At("other.txt").string()), "no token");
}

TEST_F(FineTuningProgram, SamplesEndWhereTheModelsConfigurationSaysSo) {
  const fs::path file = At("model/best/config.json");
  nlohmann::json config = nlohmann::json::parse(ReadFile(file));
  config.erase("checksums");
  fs::remove(At("model/best/SHA256SUMS"));
  const auto sample = [&](const nlohmann::json& ends) {
    config["eos_token_id"] = ends;
    WriteFileAtomically(file, config.dump());
    Well(RunFolio(Init("--overwrite --sample-every 1 --set log.sample_tokens=300")));
    const auto samples = JsonLines(ReadFile(At("tuned/samples.jsonl")));
    EXPECT_EQ(samples.size(), 3u);
    return samples.at(0).at("text").get<std::string>();
  };
  const std::string whole = sample(nullptr), ended = sample(0);
  EXPECT_EQ(whole.size(), 300u);
  EXPECT_LT(ended.size(), whole.size());
  EXPECT_TRUE(whole.starts_with(ended)) << whole << "\n" << ended;
}

// 4e-5 times a power is 0.00048, not 0.00047834000000000001.
TEST_F(FineTuningProgram, RatesThatAreChosenAreWrittenAsPeopleDo) {
  fs::remove_all(At("model"));
  Well(Train("model.n_embd=128"));
  fs::rename(At("run"), At("model"));
  const ProgramRun run = Well(RunFolio(Init("--max-steps 1")));
  EXPECT_EQ(Chosen("learning_rate"), "0.00048");
  EXPECT_FALSE(std::regex_search(ReadFile(At("tuned/config.toml")) + run.err,
                                 std::regex("[.][0-9]*(00000|99999)[0-9]")));
}

TEST_F(FineTuningProgram, ARunGoesOnByItselfWhenTheModelIsGone) {
  for (const std::string lora :
       {"", "--lora 2 --set lora.targets=c_attn,c_proj lora.dropout=0.1"}) {
    Well(RunFolio(Init(lora)));
    Well(RunFolio(Init("--max-steps 1 " + lora, "parts")));
    fs::rename(At("model"), At("gone"));
    const std::string resume = "train --resume --max-steps 3 --set train.decay_steps=3 --out ";
    Well(RunFolio(resume + At("parts").string()));
    fs::rename(At("gone"), At("model"));
    EXPECT_EQ(FilesBelow(At("parts/last")), FilesBelow(At("tuned/last"))) << lora;
    EXPECT_NE(Bytes("tuned/last"), Bytes("model/best"));
    ExpectError(2, resume + At("parts").string() + " --init " + At("model").string(),
                "--init cannot be used with --resume");
    fs::remove_all(At("tuned"));
    fs::remove_all(At("parts"));
  }
}

TEST_F(FineTuningProgram, AdaptersAreSavedBesideTheMergedModel) {
  EXPECT_TRUE(Contains(Well(RunFolio(Init("--lora 3 --set lora.alpha=6 lora.targets=c_attn"))).err,
                       "of them trained"));
  EXPECT_EQ(Bytes("tuned/base"), Bytes("model/best"));
  EXPECT_EQ(LoadAdapterConfig(At("tuned/last/adapter"), {}), (LoraConfig{.rank = 3, .alpha = 6}));
  EXPECT_TRUE(Contains(ReadFile(At("tuned/last/adapter/adapter_config.json")),
                       "\"base_model_name_or_path\": \"" + At("model/best").string() + "\""));
  Well(RunFolio("generate --max-tokens 5 --model " + At("tuned").string()));
  Well(RunFolio("inspect model --model " + At("tuned").string()));
  ExpectError(2, Words("--lora 2 --overwrite"), "--lora needs --init");
  ExpectError(2, Init("--lora 2 --overwrite --set lora.targets=q_proj"), "no layer 'q_proj'");
}

// For a model whose family separates q, k and v, by the family's names and by the layers' roles.
TEST_F(FineTuningProgram, AdaptersAreOfLayersAsTheFamilyHasThem) {
  fs::remove_all(At("model"));
  Well(
      Train("model.norm=rms model.mlp=gated model.position_embedding=rotary model.bias=false "
            "model.activation_function=silu"));
  fs::rename(At("run"), At("model"));
  const std::string lora = "--lora 2 --set lora.targets=q_proj,v,up_proj,down ";
  Well(RunFolio(Init(lora)));
  EXPECT_EQ(Chosen("targets"), "\"q,v,up,mlp.c_proj\"");
  const std::string config = ReadFile(At("tuned/last/adapter/adapter_config.json"));
  for (const char* name : {"q_proj", "v_proj", "up_proj", "down_proj"}) {
    EXPECT_TRUE(Contains(config, "\"" + std::string(name) + "\"")) << config;
  }
  Well(RunFolio(Init("--max-steps 1 " + lora, "parts")));
  Well(
      RunFolio("train --resume --max-steps 3 --set train.decay_steps=3 --set "
               "lora.targets=q_proj,v,up,down_proj --out " +
               At("parts").string()));
  EXPECT_EQ(FilesBelow(At("parts/last")), FilesBelow(At("tuned/last")));
  const std::string write = "generate --max-tokens 12 --temperature 0 --prompt small --model ";
  EXPECT_EQ(Well(RunFolio(write + At("model").string() + " --adapter " +
                          At("tuned/last/adapter").string()))
                .out,
            Well(RunFolio(write + At("tuned/last").string())).out);
  ExpectError(2, Init("--lora 2 --overwrite --set lora.targets=qkv_proj"), "no layer 'qkv_proj'");
}

TEST_F(FineTuningProgram, AnAdapterIsAddedToTheModelFirst) {
  Well(RunFolio(Init("--lora 3")));
  const std::string adapter = " --adapter " + At("tuned/last/adapter").string();
  const ProgramRun run = Well(RunFolio(Init("--max-steps 0" + adapter, "more")));
  EXPECT_EQ(Bytes("more/last"), Bytes("tuned/last"));
  EXPECT_NE(Bytes("more/last"), Bytes("model/best"));
  // An adapter belongs to the merged model, which the run keeps.
  const ProgramRun again = Well(RunFolio(Init("--lora 2" + adapter, "again")));
  EXPECT_EQ(Bytes("again/base"), Bytes("tuned/last"));
  EXPECT_TRUE(Contains(ReadFile(At("again/last/adapter/adapter_config.json")),
                       "\"base_model_name_or_path\": \"" + At("again/base").string() + "\""));
  fs::rename(At("tuned"), At("gone"));
  Well(RunFolio("train --resume --max-steps 4 --out " + At("again").string()));
  ExpectError(3, Init("--overwrite" + adapter, "more"), "tuned/last/adapter");
  ExpectError(2, Words("--overwrite" + adapter), "--adapter needs --init");
}

TEST_F(FineTuningProgram, TheContextIsCutAndTheVocabularyExtended) {
  Well(RunFolio(Init("--max-steps 0 --set model.n_positions=7 model.vocab_size=60")));
  const auto before = LoadModel(At("model/best")), after = LoadModel(At("tuned/last"));
  const int64_t V = before->config().vocab_size, C = 8;
  EXPECT_EQ(after->config().n_positions, 7);
  EXPECT_EQ(after->config().vocab_size, 60);
  const float *wpe = before->params().wpe.data<float>(), *cut = after->params().wpe.data<float>();
  EXPECT_TRUE(std::equal(cut, cut + 7 * C, wpe));
  const float *wte = before->params().wte.data<float>(), *more = after->params().wte.data<float>();
  EXPECT_TRUE(std::equal(wte, wte + V * C, more));
  for (int64_t c = 0; c < C; ++c) {
    double mean = 0;
    for (int64_t v = 0; v < V; ++v) mean += wte[v * C + c] / static_cast<double>(V);
    EXPECT_NEAR(more[V * C + c], mean, 1e-7);
    EXPECT_EQ(more[59 * C + c], more[V * C + c]);
  }
  Well(RunFolio("generate --max-tokens 5 --model " + At("tuned").string()));
}

TEST_F(FineTuningProgram, SpecialTokensAreAddedWithTheirRows) {
  Well(Train("--tokenizer bytes"));
  fs::remove_all(At("model"));
  fs::rename(At("run"), At("model"));
  WriteFileAtomically(At("said.txt"), "<|user|>Hello<|end|>" + ReadFile(data_) + "<|user|>");
  const std::string said = " --data " + At("said.txt").string();
  const std::string init = "train --init " + At("model").string() + " --out " +
                           At("tuned").string() +
                           " --batch 2 --max-steps 1 --set train.eval_batches=2";
  Well(RunFolio(init + said + " --add-tokens '<|user|>,<|end|>'"));
  EXPECT_EQ(LoadModelConfig(At("tuned/last")).vocab_size, 259);
  const ProgramRun ids = RunFolio("tokenizer encode --special allow --tokenizer " +
                                  At("tuned/last").string() + " --text 'a<|end|><|user|>'");
  EXPECT_TRUE(Contains(ids.out, "97", "258", "257")) << ids.out << ids.err;
  // Data prepared with it fits the model too.
  Ended(2, RunFolio(init + " --overwrite --data " + At("tuned/data").string()));
  fs::copy(At("tuned/data"), At("data"));
  Well(RunFolio(init + " --overwrite --data " + At("data").string()));
  ExpectError(2, init + said + " --overwrite --add-tokens a",
              "choose texts that are not tokens yet");
  ExpectError(2, "train --tokenizer char --out " + At("new").string() + said + " --add-tokens b",
              "kind char takes no special tokens");
}

TEST_F(FineTuningProgram, ShownSettingsAreThoseOfTheRun) {
  Well(RunFolio(Init("")));
  const ProgramRun shown = Well(
      RunFolio("config show --batch 2 --max-steps 3 --set train.init=" + At("model").string()));
  for (const char* key : {"n_embd", "bias", "n_positions", "attn_pdrop", "tokenizer",
                          "learning_rate", "min_lr", "decay_steps"}) {
    EXPECT_NE(Chosen(key), "");
    EXPECT_TRUE(Contains(shown.out, fmt::format("\n{} = {}\n", key, Chosen(key)))) << key;
  }
  ExpectError(3, "config show --set train.init=" + At("nowhere").string(), "nowhere");
}

TEST_F(FineTuningProgram, ASmallTextIsReadAsOftenAsIsSaid) {
  for (const size_t bytes : {300, 2000, 14000}) {
    WriteFileAtomically(At("small.txt"), ReadFile(data_).substr(0, bytes));
    const ProgramRun run =
        Well(RunFolio("train --overwrite --init " + At("model").string() + " --data " +
                      At("small.txt").string() + " --out " + At("tuned").string()));
    // "about N times", before the given text.
    const auto said = [&](const std::string& behind) {
      const size_t end = run.err.find(behind), begin = run.err.rfind("about", end);
      return end == run.err.npos ? "nothing" : run.err.substr(begin, end - begin);
    };
    EXPECT_EQ(said(" over the text"), said("; " + WithCommas(bytes / 10) + " held-out tokens"));
    const std::string often = bytes == 14000 ? "about 2 times" : "about 8 times";
    if (bytes > 300) {
      EXPECT_EQ(said(" over the text"), often) << run.err;
    }
  }
}

TEST_F(FineTuningProgram, WhatWouldMakeItAnotherModelIsRefused) {
  ExpectError(2, Init("--set model.n_embd=16"), ": model.n_embd cannot be used with --init",
              "but 8 in the model");
  ExpectError(2, Init("--set model.n_positions=17"), "positions can be removed, but not added");
  ExpectError(2, Init("--set model.vocab_size=9"), "tokens can be added, but not removed");
  ExpectError(2, Init("--preset debug"), "--preset and --init cannot be used together");
  EXPECT_TRUE(Contains(RunFolio(Init("--rng torch")).err, "use --rng folio with --init"));
  ExpectError(2, Init("--tokenizer bytes"),
              ": the data was prepared with a different tokenizer than the model's");
  ExpectError(3,
              "train --init " + At("nowhere").string() + " --data " + data_ + " --out " +
                  At("tuned").string(),
              "nowhere");
  EXPECT_FALSE(fs::exists(At("tuned")));
}

}  // namespace
}  // namespace folio
