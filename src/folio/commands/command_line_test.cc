#include "folio/cli/command_line.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/cli/completion.h"
#include "folio/run/run_config.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Taken holds what the commands of a test took.
struct Taken {
  std::vector<std::string> files;
  std::vector<std::string> stops;
  std::string out;
  std::string mode = "fast";
  std::string again;
  int64_t max_tokens = 100;
  bool greedy = false;
  bool stream = true;
  RunConfig config;
  Settings settings{config.Fields()};
};

class WriteCommand final : public Command {
 public:
  explicit WriteCommand(Taken* taken) : taken_(taken) {}
  CommandInfo info() const override { return {"text write", "write", "text"}; }
  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &taken_->files, "input");
    flags.Value(Field{"out", &taken_->out, "output"}.WithFlag("-o,--out"), {.required = true});
    flags.Value(Field{"max-tokens", &taken_->max_tokens, "how many", 1, 1000});
    flags.Value(Field{"mode", &taken_->mode, "how"}.Choices({"fast", "slow"}));
    flags.Value(Field{"stream", &taken_->stream, "as it comes"});
    flags.SwitchOr("--again", &taken_->again, "once more", {"auto", "never"});
    flags.Switch("--greedy", &taken_->greedy, "no chance");
    flags.List("--stop", &taken_->stops, "where to end", {.placeholder = "TEXT"});
    flags.Settings(&taken_->settings, {"train"});
  }
  int Run(const Context&) override { return 0; }

 private:
  Taken* taken_;
};

class PlainCommand final : public Command {
 public:
  CommandInfo info() const override { return {"plain", "plain", "text"}; }
  void AddFlags(Flags&) override {}
  int Run(const Context&) override { return 0; }
};

std::vector<std::unique_ptr<Command>> Commands(Taken* taken) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<WriteCommand>(taken));
  commands.push_back(std::make_unique<PlainCommand>());
  return commands;
}

class CommandLineTest : public testing::Test {
 protected:
  // Parses and takes the flags. A CommandLine parses once.
  std::string Take(const std::vector<std::string>& arguments) {
    line_ = std::make_unique<CommandLine>(Commands(&taken_));
    CommandEntry* entry = line_->Parse(arguments);
    if (entry == nullptr) return "";
    entry->flags->Take("folio " + entry->info.name);
    return entry->info.name;
  }

  std::string Failure(const std::vector<std::string>& arguments) {
    return ErrorAndHelp([&] { Take(arguments); }, ErrorKind::kUsage);
  }

  std::vector<std::string> Completed(const std::vector<std::string>& words) {
    line_ = std::make_unique<CommandLine>(Commands(&taken_));
    std::vector<std::string> found;
    for (const Completion& candidate : Complete(*line_, words)) found.push_back(candidate.word);
    return found;
  }

  Taken taken_;
  std::unique_ptr<CommandLine> line_;
};

using Texts = std::vector<std::string>;

TEST_F(CommandLineTest, TakesFlagsOfEveryKind) {
  EXPECT_EQ(Take({"text", "write", "a", "-o", "x", "--max-tokens=7", "b", "--stop", "p", "c",
                  "--stop", "[q,r]", "--greedy", "--no-stream", "--mode", "slow"}),
            "text write");
  EXPECT_EQ(taken_.files, (Texts{"a", "b", "c"}));
  EXPECT_EQ(taken_.stops, (Texts{"p", "[q,r]"}));
  EXPECT_EQ(taken_.out, "x");
  EXPECT_EQ(taken_.max_tokens, 7);
  EXPECT_EQ(taken_.mode, "slow");
  EXPECT_TRUE(taken_.greedy);
  EXPECT_FALSE(taken_.stream);
}

TEST_F(CommandLineTest, ValuesMayLookLikeFlagsAndMayBeEmpty) {
  Take({"text", "write", "--out", "--json", "--stop", "-5", "--stop", "", "--", "--file"});
  EXPECT_EQ(taken_.out, "--json");
  EXPECT_FALSE(line_->globals().json);
  EXPECT_EQ(taken_.stops, (Texts{"-5", ""}));
  EXPECT_EQ(taken_.files, (Texts{"--file"}));
  Take({"text", "write", "a", "--stop", "--", "--out", "x", "--", "-o", "--"});
  EXPECT_EQ(taken_.stops, Texts{"--"});
  EXPECT_EQ(taken_.files, (Texts{"a", "-o", "--"}));
  EXPECT_EQ(Failure({"plain", "--", "x"}),
            "unexpected argument 'x' |  | folio plain --help shows what it takes");
}

TEST_F(CommandLineTest, AWordMayFollowASwitch) {
  const auto again = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"text", "write"});
    taken_.again.clear();
    Take(words);
    EXPECT_EQ(taken_.out, "x");
    return taken_.again;
  };
  EXPECT_EQ(again({"--out", "x"}), "");
  EXPECT_EQ(again({"--again", "--out", "x"}), "yes");
  EXPECT_EQ(again({"--out", "x", "--again"}), "yes");
  EXPECT_EQ(again({"--again", "auto", "--out", "x"}), "auto");
  EXPECT_EQ(again({"--again=never", "--out", "x"}), "never");
  EXPECT_EQ(again({"--out", "x", "--again", "--", "auto"}), "yes");
  EXPECT_TRUE(Contains(Failure({"text", "write", "--out", "x", "--again", "now"}), "--again",
                       "'now'", "auto", "never"));
  EXPECT_EQ(Completed({"text", "write", "--again", ""}), (Texts{"auto", "never"}));
  EXPECT_EQ(Completed({"text", "write", "--again", "--mo"}), Texts{"--mode"});
  EXPECT_EQ(Completed({"text", "write", "--again", "--mode", "s"}), Texts{"slow"});
  EXPECT_EQ(Completed({"text", "write", "--again", "--greedy", ""}), Texts{});
}

TEST_F(CommandLineTest, UnderscoresAndTheLastOfRepeatedValuesCount) {
  Take({"text", "write", "--out", "x", "--max_tokens", "3", "--max-tokens", "4"});
  EXPECT_EQ(taken_.max_tokens, 4);
}

TEST_F(CommandLineTest, SettingsMayFollowOneSet) {
  EXPECT_EQ(Take({"plain", "--set", "a.b=1", "c.d=x/y", "--set=e.f=2", "g.h=3", "-v"}), "plain");
  EXPECT_EQ(line_->globals().sets, (Texts{"a.b=1", "c.d=x/y", "e.f=2", "g.h=3"}));
  EXPECT_EQ(line_->globals().verbose, 1);
}

TEST_F(CommandLineTest, GlobalFlagsStandBeforeOrAfterTheCommand) {
  EXPECT_EQ(
      Take({"-qq", "--json", "plain", "-v", "--set", "a=1", "--color", "never", "--set", "b=2"}),
      "plain");
  EXPECT_EQ(line_->globals().quiet, 2);
  EXPECT_EQ(line_->globals().verbose, 1);
  EXPECT_TRUE(line_->globals().json);
  EXPECT_EQ(line_->globals().sets, (Texts{"a=1", "b=2"}));
  EXPECT_EQ(line_->globals().color, "never");
}

TEST_F(CommandLineTest, SettingsHaveTheirFlagAndTheirKeyAsNames) {
  Take({"text", "write", "--out", "x", "--lr", "0.5", "--batch_size", "3"});
  taken_.settings.Resolve();
  EXPECT_EQ(taken_.config.train.learning_rate, 0.5);
  EXPECT_EQ(taken_.config.train.batch_size, 3);
  EXPECT_EQ(taken_.settings.origin("train.learning_rate"), "--lr");
  EXPECT_EQ(taken_.settings.layer("train.batch_size"), Layer::kFlag);
}

TEST_F(CommandLineTest, UnknownFlagsNameTheNearest) {
  EXPECT_EQ(Failure({"text", "write", "--lerning-rate", "3"}),
            "unknown flag '--lerning-rate' |  | did you mean '--learning-rate'?");
  EXPECT_EQ(Failure({"text", "write", "--max_tokes=3"}),
            "unknown flag '--max_tokes' |  | did you mean '--max-tokens'?");
  EXPECT_EQ(Failure({"--jsn", "plain"}), "unknown flag '--jsn' |  | did you mean '--json'?");
  EXPECT_EQ(Failure({"text", "write", "--n_layer", "3"}),
            "unknown flag '--n_layer' |  | it is a setting: --set model.n_layer=VALUE");
  EXPECT_EQ(Failure({"plain", "--zzzzz"}),
            "unknown flag '--zzzzz' |  | folio plain --help lists its flags");
  EXPECT_EQ(Failure({"plain", "-x"}), "unknown flag '-x' |  | folio plain --help lists its flags");
}

TEST_F(CommandLineTest, ALongNameBehindOneDashIsNoShortOne) {
  EXPECT_EQ(Failure({"text", "write", "-out", "x"}),
            "unknown flag '-out' |  | did you mean '--out', with two dashes?");
  EXPECT_EQ(Failure({"text", "write", "-max_tokens=3"}),
            "unknown flag '-max-tokens' |  | did you mean '--max-tokens', with two dashes?");
  EXPECT_EQ(Failure({"plain", "-version"}),
            "unknown flag '-version' |  | did you mean '--version', with two dashes?");
  EXPECT_EQ(Failure({"plain", "-out"}),
            "unknown flag '-out' |  | folio plain --help lists its flags");
  EXPECT_EQ(Take({"text", "write", "--out", "x", "--stop", "-mode", "-vvq", "--", "-mode"}),
            "text write");
  EXPECT_EQ(taken_.stops, Texts{"-mode"});
  EXPECT_EQ(taken_.files, Texts{"-mode"});
}

// By command: which flag its arguments without one are meant for, and how they should be written.
TEST_F(CommandLineTest, ArgumentsWithoutAFlagNameTheOneThatWasMeant) {
  const auto meant = [](const std::string& separator, bool positional, const Texts& arguments) {
    std::vector<std::string> texts;
    std::string text;
    CLI::App app;
    Flags flags(&app);
    if (positional) flags.Positional(Field{"TEXT", &text, ""});
    flags.List("--text", &texts, "", {.placeholder = "TEXT", .meant = separator});
    app.allow_extras();
    app.parse(Texts(arguments.rbegin(), arguments.rend()));
    return flags.Meant(app.remaining());
  };
  EXPECT_EQ(meant("", false, {"book.txt"}), "--text book.txt");
  EXPECT_EQ(meant("", false, {"--text", "a", "b c", "d"}), "--text 'b c' --text d");
  EXPECT_EQ(meant(" ", true, {"Once", "upon"}), "--text 'Once upon'");
  EXPECT_EQ(meant(" ", false, {"--text", "Once", "upon", "a"}), "--text 'Once upon a'");
  EXPECT_EQ(meant(" ", false, {"say", "\"no\""}), "--text 'say \"no\"'");
  CLI::App app;
  EXPECT_EQ(Flags(&app).Meant({"x"}), "");
}

TEST_F(CommandLineTest, UnknownCommandsNameTheNearest) {
  EXPECT_EQ(Failure({"plian", "--whatever", "3"}),
            "unknown command 'plian' |  | did you mean 'folio plain'?");
  EXPECT_EQ(Failure({"text", "wirte"}),
            "unknown command 'text wirte' |  | did you mean 'folio text write'?");
  EXPECT_EQ(Failure({"zzzzzz"}),
            "unknown command 'zzzzzz' | folio has text, plain | folio --help says what each does");
  EXPECT_EQ(
      Failure({"text", "zzzzzz"}),
      "unknown command 'text zzzzzz' | folio text has write | folio text --help says what each "
      "does");
}

TEST_F(CommandLineTest, BadValuesListWhatIsAllowed) {
  EXPECT_EQ(Failure({"text", "write", "--out", "x", "--mode", "fats"}),
            "--mode: 'fats' is not a value of --mode | expected one of fast, slow | did you mean "
            "'fast'?");
  EXPECT_EQ(Failure({"text", "write", "--out", "x", "--max-tokens", "0"}),
            "--max-tokens: '0' is not a value of --max-tokens | expected an integer from 1 to 1000 "
            "| --max-tokens: how many");
  EXPECT_EQ(Failure({"plain", "--color", "blue"}),
            "--color: 'blue' is not a value of --color | expected one of auto, always, never | "
            "--color: colored text; auto: on a terminal");
  EXPECT_EQ(Failure({"text", "write", "--out", "x", "--greedy=maybe"}),
            "--greedy: 'maybe' is not a value of --greedy | expected true or false | --greedy: no "
            "chance");
}

TEST_F(CommandLineTest, MissingThingsAreNamed) {
  EXPECT_EQ(Failure({"text", "write"}),
            "folio text write needs --out TEXT | output | folio text write --help explains it");
  EXPECT_EQ(Failure({"text", "write", "--out"}),
            "flag '--out' needs a value |  | write the value after the flag");
  EXPECT_EQ(Failure({"plain", "extra"}),
            "unexpected argument 'extra' |  | folio plain --help shows what it takes");
}

TEST_F(CommandLineTest, ACommandNameAfterACommandIsAnArgument) {
  EXPECT_EQ(Take({"text", "write", "--out", "x", "plain"}), "text write");
  EXPECT_EQ(taken_.files, Texts{"plain"});
}

TEST_F(CommandLineTest, WithoutACommandTheGroupIsKnown) {
  EXPECT_EQ(Take({}), "");
  EXPECT_EQ(line_->group(), "");
  EXPECT_EQ(Take({"text"}), "");
  EXPECT_EQ(line_->group(), "text");
}

TEST_F(CommandLineTest, HelpIsGivenDespiteOtherMistakes) {
  line_ = std::make_unique<CommandLine>(Commands(&taken_));
  const CommandEntry* entry = line_->Parse({"text", "write", "--bogus", "--help"});
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->info.name, "text write");
  EXPECT_TRUE(line_->globals().full_help);
}

TEST_F(CommandLineTest, CompletesCommandsFlagsAndChoices) {
  EXPECT_EQ(Completed({""}), (Texts{"text", "plain"}));
  EXPECT_EQ(Completed({"te"}), Texts{"text"});
  EXPECT_EQ(Completed({"text", ""}), Texts{"write"});
  EXPECT_EQ(Completed({"text", "write", "--mo"}), Texts{"--mode"});
  EXPECT_EQ(Completed({"text", "write", "--mode", ""}), (Texts{"fast", "slow"}));
  EXPECT_EQ(Completed({"--color", "n"}), Texts{"never"});
  EXPECT_EQ(Completed({"--color", "never", "pl"}), Texts{"plain"});
  EXPECT_EQ(Completed({"plain", "--js"}), Texts{"--json"});
  EXPECT_EQ(Completed({"text", "write", "--out", ""}), Texts{});  // a file name
  EXPECT_EQ(Completed({"text", "write", "some"}), Texts{});
}

TEST_F(CommandLineTest, CompletesWhatFollowsAnEqualsSign) {
  EXPECT_EQ(Completed({"text", "write", "--mode=s"}), Texts{"--mode=slow"});
  EXPECT_EQ(Completed({"--color=n"}), Texts{"--color=never"});
  EXPECT_EQ(Completed({"text", "write", "--out="}), Texts{});
  EXPECT_EQ(Completed({"text", "write", "--bogus=x"}), Texts{});
}

TEST_F(CommandLineTest, CompletesSettingsAndTheirChoices) {
  const Texts keys = Completed({"text", "write", "--set", "train.learn"});
  ASSERT_EQ(keys, Texts{"train.learning_rate="});
  EXPECT_EQ(Completed({"plain", "--set", "model.norm_position="}),
            (Texts{"model.norm_position=pre", "model.norm_position=post"}));
  EXPECT_EQ(Completed({"plain", "--set=model.norm_position=po"}),
            Texts{"--set=model.norm_position=post"});
  EXPECT_EQ(Completed({"plain", "--set", "model.bias=t"}), Texts{"model.bias=true"});
  EXPECT_EQ(Completed({"plain", "--set", "a.b=1", "model.norm_position=po"}),
            Texts{"model.norm_position=post"});
  EXPECT_EQ(Completed({"plain", "--set", "train.eps="}), Texts{});
  EXPECT_EQ(Completed({"plain", "model.norm"}), Texts{});
}

TEST_F(CommandLineTest, EveryFlagOfACommandIsCompleted) {
  const Texts completed = Completed({"text", "write", "--"});
  for (const Flag& flag : line_->Find("text write")->flags->list()) {
    if (flag.positional) continue;
    EXPECT_NE(std::ranges::find(completed, flag.name), completed.end()) << flag.name;
  }
}

}  // namespace
}  // namespace folio
