#include "folio/run/prepared_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/settings.h"
#include "folio/run/run_config.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::string Told(const RunConfig& before, const RunConfig& now) {
  return Join(ChangedSettings(before, now, 40), "\n");
}

TEST(ResumedSettings, ThatAreTheSameAreNotTold) {
  EXPECT_EQ(Told({}, {}), "");
}

TEST(ResumedSettings, ThatChangeNoNumberAreToldAsSuch) {
  RunConfig now;
  now.train.threads = 3;
  now.train.eval_every = 7;
  now.log.sample_every = 5;
  const std::string told = Told({}, now);
  EXPECT_EQ(Count(told, "this does not change the results"), 3u) << told;
  EXPECT_TRUE(Contains(told, "train.threads changed from 0 to 3"));
  EXPECT_FALSE(Contains(told, "not what it would have been"));
}

TEST(ResumedSettings, ThatMakeAnotherRunSayFromWhere) {
  RunConfig now;
  now.train.learning_rate = 0.5;
  now.model.attn_pdrop = 0.25;
  EXPECT_TRUE(
      Contains(Told({}, now), "model.attn_pdrop changed from 0 to 0.25 from step 40 on (dropout",
               "train.learning_rate changed from 0.001 to 0.5: the learning rate of step 40 is "));
}

// More steps are another learning rate where it falls until the last of them.
TEST(ResumedSettings, MoreStepsAreAnotherDecayUnlessThatWasSaid) {
  RunConfig before, now;
  before.train.max_steps = 40;
  before.train.warmup_steps = now.train.warmup_steps = 0;
  now.train.max_steps = 80;
  EXPECT_EQ(
      Told(before, now),
      "train.max_steps changed from 40 to 80: the learning rate of step 40 is 0.00055, not 0.0001, "
      "then cosine decay to 0.0001 at step 80");
  before.train.decay_steps = now.train.decay_steps = 30;
  EXPECT_EQ(Told(before, now),
            "train.max_steps changed from 40 to 80; this does not change the results");
  before.train.decay_steps = now.train.decay_steps = 0;
  before.train.schedule = now.train.schedule = "constant";
  EXPECT_FALSE(Contains(Told(before, now), "the learning rate"));
}

// However many settings have changed it.
TEST(ResumedSettings, AnotherLearningRateIsOneLine) {
  RunConfig now;
  now.train.learning_rate = 0.5;
  now.train.max_steps = 3000;
  now.train.schedule = "wsd";
  const std::string told = Told({}, now);
  EXPECT_EQ(Count(told, "\n"), 0u) << told;
  EXPECT_TRUE(Contains(told, "train.max_steps changed from 2000 to 3000; ",
                       "train.schedule changed from cosine to wsd: the learning rate of step 40 is",
                       "from step 2,400 on linear decay to"));
}

TEST(ResumedSettings, ThatCannotChangeAreRefused) {
  RunConfig now;
  now.model.n_layer += 1;
  EXPECT_TRUE(Contains(ErrorOf([&] { Told({}, now); }, ErrorKind::kUsage),
                       "model.n_layer cannot change", "changed from 12 to 13"));
  now = {};
  now.train.rng = "torch";
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Told({}, now); }, ErrorKind::kUsage), "train.rng cannot change"));
}

namespace fs = std::filesystem;

class SettingsTest : public InTemporaryDirectory {
 protected:
  SettingsTest() {
    fs::create_directories(At("home/folio"));
    fs::create_directories(At("project/deep/er"));
    sources_.directory = At("project/deep/er");
    sources_.environment = {"XDG_CONFIG_HOME=" + At("home").string()};
  }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(At(name)) << text;
    return At(name).string();
  }

  void Read(Settings& settings) {
    settings.ReadSources(sources_);
    settings.Resolve();
  }

  ConfigSources sources_;
  RunConfig config_;
  Settings settings_{config_.Fields()};
};

std::string Failure(const std::function<void()>& f) {
  return ErrorAndHelp(f, ErrorKind::kUsage);
}

TEST_F(SettingsTest, EachLayerBeatsTheOnesBelow) {
  const std::string user = At("home/folio/config.toml").string();
  const std::string project = At("project/folio.toml").string();
  const std::string file = At("file.toml").string();
  // One step for each layer, weakest first: give the seed there, and the origin that is expected.
  const std::vector<std::pair<std::function<void()>, std::string>> layers = {
      {[] {}, "built-in"},
      {[&] {
         const std::vector<std::pair<std::string, std::string>> preset = {{"train.seed", "1"}};
         settings_.UsePreset("tiny", preset);
       },
       "preset tiny"},
      {[&] { Write("home/folio/config.toml", "[train]\nseed = 2\n"); }, user + ":2:8"},
      {[&] { Write("project/folio.toml", "\n[train]\n  seed = 3\n"); }, project + ":3:10"},
      {[&] { sources_.file = Write("file.toml", "train.seed = 4\n"); }, file + ":1:14"},
      {[&] { sources_.environment.push_back("FOLIO_TRAIN_SEED=5"); }, "FOLIO_TRAIN_SEED"},
      {[&] { sources_.sets.push_back("train.seed=6"); }, "--set"},
      {[&] { settings_.Set(Layer::kFlag, "train.seed", "7", "--seed"); }, "--seed"},
  };
  for (size_t strongest = 0; strongest < layers.size(); ++strongest) {
    layers[strongest].first();
    Settings settings = settings_;  // with the presets and flags given so far
    Read(settings);
    EXPECT_EQ(settings.origin("train.seed"), layers[strongest].second);
    EXPECT_EQ(settings.layer("train.seed"), static_cast<Layer>(strongest));
    EXPECT_EQ(config_.train.seed, strongest == 0 ? 1337 : static_cast<int64_t>(strongest));
    EXPECT_EQ(settings.origin("train.eps"), "built-in");
  }
}

TEST_F(SettingsTest, ConfigFileReplacesDiscoveryAndNoConfigTurnsItOff) {
  Write("home/folio/config.toml", "[train]\nmax_steps = 2\n");
  Write("project/folio.toml", "[train]\nbatch_size = 3\n");
  {
    Settings settings = settings_;
    Read(settings);
    EXPECT_EQ(config_.train.max_steps, 2);
    EXPECT_EQ(config_.train.batch_size, 3);
  }
  for (const bool with_file : {true, false}) {
    Settings settings = settings_;
    sources_.file = with_file ? Write("file.toml", "[train]\nseed = 4\n") : "";
    sources_.discover = with_file;
    Read(settings);
    EXPECT_EQ(config_.train.max_steps, 2000);
    EXPECT_EQ(config_.train.batch_size, 12);
    EXPECT_EQ(config_.train.seed, with_file ? 4 : 1337);
  }
}

TEST_F(SettingsTest, TheNearestParentHasTheOnlyProjectFile) {
  Write("project/folio.toml", "[train]\nseed = 1\neps = 0.5\n");
  Write("project/deep/folio.toml", "[train]\nseed = 2\n");
  Read(settings_);
  EXPECT_EQ(config_.train.seed, 2);
  EXPECT_EQ(config_.train.eps, 1e-8);
}

TEST_F(SettingsTest, HomeIsUsedWithoutXdg) {
  fs::create_directories(At(".config/folio"));
  Write(".config/folio/config.toml", "[train]\nseed = 9\n");
  sources_.environment = {"XDG_CONFIG_HOME=", "HOME=" + At("").string()};
  Read(settings_);
  EXPECT_EQ(config_.train.seed, 9);
}

TEST_F(SettingsTest, EveryTypeIsReadFromToml) {
  settings_.ReadToml(
      Layer::kFile,
      "[model]\nbias = false\nn_inner = 7\nmlp_bias = true\neos_token_id = \"null\"\n"
      "[train]\nlearning_rate = 1\nmin_lr = 2.5e-05\nschedule = \"linear\"\n"
      "[log]\nsample_prompt = \"a\\nb\"\n",
      "f.toml");
  settings_.Resolve();
  EXPECT_FALSE(config_.model.bias);
  EXPECT_EQ(config_.model.n_inner, 7);
  EXPECT_EQ(config_.model.mlp_bias, true);
  EXPECT_EQ(config_.model.eos_token_id, std::nullopt);
  EXPECT_EQ(config_.train.learning_rate, 1);
  EXPECT_EQ(config_.train.min_lr, 2.5e-5);
  EXPECT_EQ(config_.train.schedule, "linear");
  EXPECT_EQ(config_.log.sample_prompt, "a\nb");
}

TEST_F(SettingsTest, ATruthThatMayBeAWordTooIsEitherInToml) {
  const auto read = [&](const std::string& value) {
    settings_.ReadToml(Layer::kFile, "[model]\ninit_scaled_residuals = " + value, "f.toml");
    settings_.Resolve();
    return config_.model.init_scaled_residuals;
  };
  EXPECT_EQ(read("false"), ScaledResiduals::kNone);
  EXPECT_TRUE(Contains(settings_.ToToml(), "\ninit_scaled_residuals = false\n"));
  EXPECT_EQ(read("\"mlp\""), ScaledResiduals::kMlp);
  EXPECT_TRUE(Contains(settings_.ToToml(), "\ninit_scaled_residuals = \"mlp\"\n"));
  EXPECT_TRUE(Contains(Failure([&] { read("1"); }), "expected true|false|mlp"));
}

TEST_F(SettingsTest, TheSavedTomlRepeatsEveryValue) {
  settings_.Set(Layer::kFlag, "train.learning_rate", "0.00035", "--lr");
  settings_.Set(Layer::kFlag, "train.beta2", "0.9999999", "--set");
  settings_.Set(Layer::kFlag, "model.n_inner", "513", "--set");
  settings_.Set(Layer::kFlag, "model.attention_bias", "false", "--set");
  settings_.Set(Layer::kFlag, "log.sample_prompt", "say \"hi\" \\ \t\n\x7f ü", "--set");
  settings_.Resolve();
  const std::string saved = settings_.ToToml();

  RunConfig other;
  other.model.bos_token_id = 5;  // must become null again
  Settings again(other.Fields());
  again.ReadToml(Layer::kFile, saved, "config.toml");
  again.Resolve();
  const std::vector<Field> before = config_.Fields(), after = other.Fields();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(FieldText(after[i]), FieldText(before[i])) << before[i].key;
    EXPECT_EQ(again.layer(before[i].key), Layer::kFile) << before[i].key;
  }
  EXPECT_EQ(again.ToToml(), saved);
}

TEST_F(SettingsTest, MistakesInAFileAreToldWithTheirPosition) {
  const auto failure = [&](const std::string& toml) {
    return Failure([&] {
      Settings settings = settings_;
      settings.ReadToml(Layer::kFile, toml, "train.toml");
      settings.Resolve();
    });
  };
  EXPECT_EQ(failure("\n[train]\n      lerning_rate = 1\n"),
            "train.toml:3:7: unknown key 'lerning_rate', did you mean 'learning_rate'? |  | ");
  EXPECT_EQ(failure("[train]\nlr = 1\n"),
            "train.toml:2:1: unknown key 'lr', did you mean 'learning_rate'? |  | ");
  EXPECT_EQ(failure("seed = 1\n"),
            "train.toml:1:1: unknown key 'seed', did you mean 'train.seed'? |  | ");
  EXPECT_EQ(failure("[data]\nzzzzzzzz = 1\n"),
            "train.toml:2:1: unknown key 'zzzzzzzz' |  | available keys: data.tokenizer, "
            "data.add_tokens, data.chat_template, data.val_fraction, data.val_split, data.field, "
            "data.raw");
  EXPECT_EQ(failure("[trian]\nseed = 1\n"),
            "train.toml:1:2: unknown section [trian] |  | did you mean [train]?");
  EXPECT_EQ(failure("[train]\nseed = \"1\"\n"),
            "train.toml:2:8: wrong type for train.seed | expected integer, found a TOML string | "
            "train.seed: seed of all random numbers of the run");
  EXPECT_EQ(failure("[train]\nbatch_size = 1.5\n"),
            "train.toml:2:14: wrong type for train.batch_size | expected integer, found a TOML "
            "floating-point | train.batch_size: sequences in a micro-batch");
  EXPECT_EQ(failure("[train]\nbatch_size = 0\n"),
            "train.toml:2:14: '0' is not a value of train.batch_size | expected an integer from 1 "
            "to 16777216 | train.batch_size: sequences in a micro-batch");
  EXPECT_EQ(failure("[train]\nschedule = \"cosin\"\n"),
            "train.toml:2:12: 'cosin' is not a value of train.schedule | expected one of cosine, "
            "linear, constant, wsd | did you mean 'cosine'?");
  EXPECT_TRUE(failure("[train\n").starts_with("train.toml:1:7: not valid TOML | "))
      << failure("[train\n");
}

TEST_F(SettingsTest, MistakesElsewhereNameTheirOrigin) {
  const auto read = [&](const Strings& environment, const Strings& sets) {
    Settings settings = settings_;
    settings.ReadSources(
        {.discover = false, .sets = sets, .environment = environment, .directory = At("")});
    settings.Resolve();
  };
  const auto failure = [&](const Strings& environment, const Strings& sets) {
    return Failure([&] { read(environment, sets); });
  };
  EXPECT_EQ(failure({"FOLIO_TRAIN_LERNING_RATE=1"}, {}),
            "unknown environment variable FOLIO_TRAIN_LERNING_RATE |  | did you mean "
            "FOLIO_TRAIN_LEARNING_RATE?");
  EXPECT_EQ(failure({"FOLIO_TRAIN_SEED=x"}, {}),
            "FOLIO_TRAIN_SEED: 'x' is not a value of train.seed | expected an integer from 0 to "
            "9000000000000000 | train.seed: seed of all random numbers of the run");
  EXPECT_EQ(failure({}, {"train.sed=1"}),
            "--set: unknown key 'train.sed', did you mean 'train.seed'? |  | ");
  EXPECT_EQ(failure({}, {"train.seed"}),
            "--set: 'train.seed' is not key=value |  | for example --set train.learning_rate=3e-4");
  read({"FOLIO_HOME=x", "FOLIO_TRAIN_SEED=", "TRAIN_SEED=x"}, {});
}

TEST_F(SettingsTest, AValueThatIsOverriddenIsCheckedToo) {
  settings_.Set(Layer::kSet, "train.seed", "x", "--set");
  settings_.Set(Layer::kFlag, "train.seed", "1", "--seed");
  EXPECT_TRUE(Failure([&] { settings_.Resolve(); }).starts_with("--set: 'x' is not a value"));
}

TEST_F(SettingsTest, AMissingConfigFileIsAnInputError) {
  sources_.file = At("none.toml").string();
  EXPECT_TRUE(Contains(ErrorOf([&] { settings_.ReadSources(sources_); }), "none.toml"));
}

TEST(RunSettingsTest, WhatNobodySetFollowsWhatSomebodyDid) {
  const auto min_lr = [](const std::vector<std::pair<std::string, std::string>>& set) {
    RunSettings settings;
    settings.UsePreset("char-cpu");
    for (const auto& [key, value] : set) settings.Set(key, value);
    settings.Resolve();
    settings.Resolve();  // changes nothing more
    EXPECT_NO_THROW(settings.config.train.Validate("settings"));
    return settings.config.train.min_lr;
  };
  EXPECT_DOUBLE_EQ(min_lr({}), 1e-4);
  EXPECT_DOUBLE_EQ(min_lr({{"train.learning_rate", "5e-5"}}), 5e-6);
  EXPECT_DOUBLE_EQ(min_lr({{"train.learning_rate", "0.3"}}), 0.03);
  EXPECT_DOUBLE_EQ(min_lr({{"train.learning_rate", "5e-5"}, {"train.min_lr", "2e-5"}}), 2e-5);
  RunSettings settings;
  settings.UsePreset("char-cpu");
  settings.Resolve();
  EXPECT_EQ(settings.config.train.decay_steps, 0);
  EXPECT_EQ(settings.config.data.val_split, "spread");
  settings.Set("train.rng", "torch");
  settings.Resolve();
  EXPECT_EQ(settings.config.data.val_split, "tail");
}

}  // namespace
}  // namespace folio
