// Runs that save only adapters (--save adapter), and opening them, through the real program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/io/model_dir.h"
#include "folio/model/lora.h"
#include "folio/model_files/base_model.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class AdapterRun : public TrainTest {
 protected:
  AdapterRun() {
    Well(Train("model.bias=false"));
    fs::rename(At("run"), At("model"));
  }
  std::string Tune(const std::string& more, const std::string& out = "tuned") const {
    return "train --init " + At("model").string() + " --data " + data_ + " --out " +
           At(out).string() +
           " --lora 3 --batch 2 --max-steps 6 --lr 0.05 --set train.eval_batches=2 "
           "train.eval_every=2 " +
           more;
  }
  std::string Saved(const std::string& more = "", const std::string& out = "tuned") const {
    return Tune("--save adapter " + more, out);
  }
  std::string Answer(const std::string& words, const std::string& run) const {
    const ProgramRun answer = Well(RunFolio(words + " --model " + At(run).string()));
    return Replaced(answer.out + " " + At(run).string(), At(run).string(), "RUN");
  }
};

TEST_F(AdapterRun, HoldsNoModelAndNamesIt) {
  Well(RunFolio(Saved()));
  for (const auto& [name, bytes] : FilesBelow(At("tuned"))) {
    EXPECT_FALSE(name.ends_with("model.safetensors") &&
                 !name.ends_with("adapter_model.safetensors"))
        << name;
  }
  EXPECT_FALSE(fs::exists(At("tuned/base")));
  for (const char* checkpoint : {"best", "last"}) {
    const fs::path dir = At("tuned") / checkpoint;
    EXPECT_TRUE(fs::exists(dir / kAdapterConfigFile));
    EXPECT_TRUE(fs::exists(dir / kAdapterWeightsFile));
    const BaseModel base = LoadBaseModel(dir);
    EXPECT_EQ(base.path, At("model/best").string());
    EXPECT_EQ(base.sha256.size(), 64u);
    EXPECT_TRUE(Contains(ReadFile(dir / kAdapterConfigFile),
                         "\"base_model_name_or_path\": \"" + At("model/best").string() + "\""));
  }
}

TEST_F(AdapterRun, OpensAsTheModelThatItWouldBe) {
  Well(RunFolio(Saved()));
  Well(RunFolio(Tune("", "whole")));
  for (const std::string& words :
       {std::string("generate --prompt small --max-tokens 20 --seed 3"), "eval perplexity " + data_,
        std::string("inspect lens --text small"), std::string("inspect attention --text small")}) {
    EXPECT_EQ(Answer(words, "tuned"), Answer(words, "whole")) << words;
    EXPECT_NE(Answer(words, "tuned"), Answer(words, "model")) << words;
  }
  for (const char* run : {"tuned", "whole"}) {
    Well(RunFolio(fmt::format("convert {} {} --to hf", At(run).string(),
                              At(std::string(run) + "-hf").string())));
  }
  EXPECT_EQ(ReadFile(At("tuned-hf") / kWeightsFile), ReadFile(At("whole-hf") / kWeightsFile));
  Well(RunFolio("inspect model --model " + At("tuned").string()));
  Well(RunFolio("inspect plan --model " + At("tuned").string()));
  Well(RunFolio("train --max-steps 1 --init " + At("tuned").string() + " --data " + data_ +
                " --out " + At("further").string()));
}

TEST_F(AdapterRun, GoesOnToTheSameBytes) {
  const std::string settings = "--set lora.dropout=0.1 train.decay_steps=6 ";
  Well(RunFolio(Saved(settings)));
  Well(RunFolio(Saved(settings + "--max-steps 3", "parts")));
  Well(RunFolio("train --resume --max-steps 6 --out " + At("parts").string()));
  EXPECT_EQ(FilesBelow(At("parts/last")), FilesBelow(At("tuned/last")));
}

TEST_F(AdapterRun, RefusesAModelThatIsGoneOrAnother) {
  Well(RunFolio(Saved()));
  const std::string model = " --model " + At("tuned").string();
  const std::string resume = "train --resume --max-steps 9 --out " + At("tuned").string();
  fs::rename(At("model"), At("gone"));
  for (const std::string& words :
       {"generate --max-tokens 2" + model, "eval perplexity " + data_ + model,
        "inspect model" + model, resume}) {
    ExpectError(3, words, "the model that the adapter is for cannot be opened",
                At("model/best").string(), "put the model back");
  }
  // Its help is right.
  Well(RunFolio("generate --max-tokens 2 --model " + At("gone").string() + " --adapter " +
                At("tuned/best").string()));
  // Another model of the same shape replaces it.
  Well(Train("model.bias=false --seed 5"));
  fs::rename(At("run"), At("model"));
  for (const std::string& words : {"generate --max-tokens 2" + model, resume}) {
    ExpectError(3, words, "is not the model that the adapter was trained for", "SHA-256");
  }
  fs::remove_all(At("model"));
  fs::rename(At("gone"), At("model"));
  Well(RunFolio(resume));
  // A file that refers to itself, or to nothing.
  const fs::path base = At("tuned/best") / kBaseModelFile;
  fs::remove(At("tuned/best/SHA256SUMS"));
  SaveBaseModel(At("tuned/best"), {.path = At("tuned/best").string(), .sha256 = "0"});
  ExpectError(3, "generate --max-tokens 2" + model, "its model is an adapter too");
  for (const char* damaged : {"", "[]", "{\"path\": 3}", "{\"path\": \"x\"}"}) {
    WriteFileAtomically(base, damaged);
    ExpectError(3, "generate --max-tokens 2" + model, "base_model.json");
  }
}

TEST_F(AdapterRun, IsNotForWhatAdaptersCannotHold) {
  ExpectError(2,
              "train --init " + At("model").string() + " --data " + data_ +
                  " --save adapter --out " + At("tuned").string(),
              ": train.save = adapter needs --lora", "--lora RANK");
  Well(RunFolio(Tune("", "whole")));
  ExpectError(3, Saved("--adapter " + At("whole/best/adapter").string()), "convert it first");
  Well(RunFolio(Saved()));
  ExpectError(3,
              "train --init " + At("tuned").string() + " --data " + data_ +
                  " --lora 2 --save adapter --out " + At("again").string(),
              "convert it first");
  ExpectError(2, "train --resume --max-steps 9 --save model --out " + At("tuned").string(),
              "train.save cannot change");
}

}  // namespace
}  // namespace folio
