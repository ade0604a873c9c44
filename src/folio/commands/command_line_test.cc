#include "folio/cli/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/program.h"
#include "folio/run/run_config.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// The values that the commands of a test have taken.
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

CommandList Commands(Taken* taken) {
  CommandList commands;
  commands.push_back(std::make_unique<WriteCommand>(taken));
  commands.push_back(std::make_unique<PlainCommand>());
  return commands;
}

class CommandLineTest : public testing::Test {
 protected:
  // Parses and takes the flags. A CommandLine parses once.
  std::string Take(const std::vector<std::string>& arguments) {
    line_ = std::make_unique<CommandLine>(Commands(&taken_));
    const Place place = line_->Parse(arguments);
    if (place.command == nullptr) return "";
    place.command->flags().Take("folio " + place.named, place.positionals);
    return place.command->info.name;
  }

  std::string Failure(const std::string& words) {
    return ErrorAndHelp([&] { Take(Split(words, ' ')); }, ErrorKind::kUsage);
  }

  std::vector<std::string> Completed(const std::string& words) {
    line_ = std::make_unique<CommandLine>(Commands(&taken_));
    std::vector<std::string> found;
    for (const Completion& candidate : Complete(*line_, Split(words, ' ')))
      found.push_back(candidate.word);
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
  EXPECT_TRUE(
      Contains(Failure("text write --out x --again now"), "--again", "'now'", "auto", "never"));
  EXPECT_EQ(Completed("text write --again "), (Texts{"auto", "never"}));
  EXPECT_EQ(Completed("text write --again --mo"), Texts{"--mode"});
  EXPECT_EQ(Completed("text write --again --mode s"), Texts{"slow"});
  EXPECT_EQ(Completed("text write --again --greedy "), Texts{});
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

TEST_F(CommandLineTest, MistakesNameWhatWasMeant) {
  for (const auto& [words, said] : std::vector<std::pair<std::string, std::string>>{
           {"text write --lerning-rate 3",
            "unknown flag '--lerning-rate' |  | did you mean '--learning-rate'?"},
           {"text write --max_tokes=3",
            "unknown flag '--max_tokes' |  | did you mean '--max-tokens'?"},
           {"--jsn plain", "unknown flag '--jsn' |  | did you mean '--json'?"},
           {"text write --n_layer 3",
            "unknown flag '--n_layer' |  | it is a setting: --set model.n_layer=VALUE"},
           {"plain --zzzzz", "unknown flag '--zzzzz' |  | folio plain --help lists its flags"},
           {"plain -x", "unknown flag '-x' |  | folio plain --help lists its flags"},
           {"text write -out x", "unknown flag '-out' |  | did you mean '--out', with two dashes?"},
           {"text write -max_tokens=3",
            "unknown flag '-max_tokens' |  | did you mean '--max_tokens', with two dashes?"},
           {"plain -version",
            "unknown flag '-version' |  | did you mean '--version', with two dashes?"},
           {"plain -out", "unknown flag '-out' |  | folio plain --help lists its flags"},
           {"plian --whatever 3", "unknown command 'plian' |  | did you mean 'folio plain'?"},
           {"text wirte", "unknown command 'text wirte' |  | did you mean 'folio text write'?"},
           {"zzzzzz",
            "unknown command 'zzzzzz' | the commands of folio are text, plain | folio --help "
            "describes them"},
           {"text zzzzzz",
            "unknown command 'text zzzzzz' | the commands of folio text are write | folio text "
            "--help "
            "describes them"},
           {"text write --out x --mode fats",
            "--mode: 'fats' is not a value of --mode | expected one of fast, slow | did you mean "
            "'fast'?"},
           {"text write --out x --max-tokens 0",
            "--max-tokens: '0' is not a value of --max-tokens | expected an integer from 1 to 1000 "
            "| --max-tokens: how many"},
           {"plain --color blue",
            "--color: 'blue' is not a value of --color | expected one of auto, always, never | "
            "--color: colored text; auto: on a terminal"},
           {"text write --out x --greedy=maybe",
            "--greedy: 'maybe' is not a value of --greedy | expected true or false | --greedy: no "
            "chance"},
           {"text write",
            "folio text write needs --out TEXT | output | folio text write --help explains it"},
           {"text write --out",
            "flag '--out' requires a value |  | write the value after the flag"},
           {"plain extra",
            "unexpected argument 'extra' |  | folio plain --help shows its arguments"},
           {"plain -- x", "unexpected argument 'x' |  | folio plain --help shows its arguments"}}) {
    EXPECT_EQ(Failure(words), said);
  }
}

TEST_F(CommandLineTest, ALongNameBehindOneDashIsNoShortOne) {
  EXPECT_EQ(Take({"text", "write", "--out", "x", "--stop", "-mode", "-vvq", "--", "-mode"}),
            "text write");
  EXPECT_EQ(taken_.stops, Texts{"-mode"});
  EXPECT_EQ(taken_.files, Texts{"-mode"});
}

// By command: which flag its arguments without one are meant for, and the corrected command line.
TEST_F(CommandLineTest, ArgumentsWithoutAFlagNameTheOneThatWasMeant) {
  const auto meant = [](const std::string& separator, bool positional, const Texts& arguments) {
    std::string text;
    std::vector<std::string> texts;
    Flags flags;
    if (positional) flags.Positional(Field{"TEXT", &text, ""});
    flags.List("--text", &texts, "", {.placeholder = "TEXT", .meant = separator});
    Texts words = arguments;
    if (words.front() == "--text") {
      flags.Find("--text")->given = {words[1]};
      words.erase(words.begin(), words.begin() + 2);
    }
    return ErrorAndHelp([&] { flags.Take("folio", words); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(meant("", false, {"book.txt"}), "did you mean --text book.txt?"));
  EXPECT_TRUE(Contains(meant("", false, {"--text", "a", "b c", "d"}),
                       "did you mean --text 'b c' --text d?"));
  EXPECT_TRUE(Contains(meant(" ", true, {"Once", "upon"}), "did you mean --text 'Once upon'?"));
  EXPECT_TRUE(Contains(meant(" ", false, {"--text", "Once", "upon", "a"}),
                       "did you mean --text 'Once upon a'?"));
  EXPECT_TRUE(Contains(meant(" ", false, {"say", "\"no\""}), "did you mean --text 'say \"no\"'?"));
}

TEST_F(CommandLineTest, AFlagWithAPositionMayStandFirstWithoutItsName) {
  std::string model, text;
  const auto take = [&](const Texts& by_flag, const Texts& arguments) {
    model = text = "";
    Flags flags;
    flags.Value(Field{"model", &model, "which"},
                {.placeholder = "DIR", .required = true, .position = "MODEL"});
    flags.Positional(Field{"TEXT", &text, "what"});
    flags.Find("--model")->given = by_flag;
    flags.Take("folio write", arguments);
  };
  take({}, {"m"});
  EXPECT_EQ(model + "|" + text, "m|");
  take({}, {"m", "t"});
  EXPECT_EQ(model + "|" + text, "m|t");
  take({"m"}, {"t"});
  EXPECT_EQ(model + "|" + text, "m|t");
  take({"m"}, {});
  EXPECT_EQ(model + "|" + text, "m|");
  const auto refused = [&](const Texts& by_flag, const Texts& arguments) {
    return ErrorAndHelp([&] { take(by_flag, arguments); }, ErrorKind::kUsage);
  };
  EXPECT_EQ(refused({}, {}),
            "folio write needs MODEL (or --model DIR) | which | folio write --help explains it");
  EXPECT_EQ(refused({"m"}, {"t", "u"}),
            "unexpected argument 'u' | --model is already 'm' | folio write --help shows its "
            "arguments");
}

TEST_F(CommandLineTest, ACommandNameAfterACommandIsAnArgument) {
  EXPECT_EQ(Take({"text", "write", "--out", "x", "plain"}), "text write");
  EXPECT_EQ(taken_.files, Texts{"plain"});
}

TEST_F(CommandLineTest, WithoutACommandTheGroupIsKnown) {
  EXPECT_EQ(Take({"text"}), "");
  EXPECT_EQ(line_->Parse({"text"}).named, "text");
  EXPECT_EQ(line_->Parse({}).named, "");
}

TEST_F(CommandLineTest, HelpIsGivenDespiteOtherMistakes) {
  line_ = std::make_unique<CommandLine>(Commands(&taken_));
  EXPECT_EQ(line_->Parse({"text", "write", "--bogus", "--help"}).named, "text write");
  EXPECT_TRUE(line_->globals().full_help);
}

TEST_F(CommandLineTest, CompletesCommandsFlagsAndChoices) {
  EXPECT_EQ(Completed(""), (Texts{"text", "plain"}));
  EXPECT_EQ(Completed("te"), Texts{"text"});
  EXPECT_EQ(Completed("text "), Texts{"write"});
  EXPECT_EQ(Completed("text write --mo"), Texts{"--mode"});
  EXPECT_EQ(Completed("text write --mode "), (Texts{"fast", "slow"}));
  EXPECT_EQ(Completed("--color n"), Texts{"never"});
  EXPECT_EQ(Completed("--color never pl"), Texts{"plain"});
  EXPECT_EQ(Completed("plain --js"), Texts{"--json"});
  EXPECT_EQ(Completed("text write --out "), Texts{});  // a file name
  EXPECT_EQ(Completed("text write some"), Texts{});
}

TEST_F(CommandLineTest, CompletesWhatFollowsAnEqualsSign) {
  EXPECT_EQ(Completed("text write --mode=s"), Texts{"--mode=slow"});
  EXPECT_EQ(Completed("--color=n"), Texts{"--color=never"});
  EXPECT_EQ(Completed("text write --out="), Texts{});
  EXPECT_EQ(Completed("text write --bogus=x"), Texts{});
}

TEST_F(CommandLineTest, CompletesSettingsAndTheirChoices) {
  const Texts keys = Completed("text write --set train.learn");
  ASSERT_EQ(keys, Texts{"train.learning_rate="});
  EXPECT_EQ(Completed("plain --set model.norm_position="),
            (Texts{"model.norm_position=pre", "model.norm_position=post",
                   "model.norm_position=branch", "model.norm_position=both"}));
  EXPECT_EQ(Completed("plain --set=model.norm_position=po"),
            Texts{"--set=model.norm_position=post"});
  EXPECT_EQ(Completed("plain --set model.bias=t"), Texts{"model.bias=true"});
  EXPECT_EQ(Completed("plain --set a.b=1 model.norm_position=po"),
            Texts{"model.norm_position=post"});
  EXPECT_EQ(Completed("plain --set train.eps="), Texts{});
  EXPECT_EQ(Completed("plain model.norm"), Texts{});
}

TEST_F(CommandLineTest, EveryFlagOfACommandIsCompleted) {
  const Texts completed = Completed("text write --");
  for (const Flag& flag : line_->Find("text write")->flags().list()) {
    if (flag.positional) continue;
    EXPECT_NE(std::ranges::find(completed, flag.name), completed.end()) << flag.name;
  }
}

TEST(ErrorReport, HasThreePartsAndLeavesEmptyOnesOut) {
  const Error full = InputError("no model in runs/x", "looked for a\nand for b", "train one");
  EXPECT_EQ(RenderError(full, {}),
            "error: no model in runs/x\n  looked for a\n  and for b\n  help: train one");
  EXPECT_EQ(RenderError(UsageError("bad flag"), {}), "error: bad flag");
  EXPECT_EQ(RenderError(UsageError("w", "c", "h"), {.color = true}),
            "\x1b[1;31merror:\x1b[0m w\n  c\n  \x1b[1;36mhelp:\x1b[0m h");
}

TEST(ErrorReport, EachKindHasItsStatusAndName) {
  const char* const kNames[] = {"runtime", "usage", "input", "resource", "diverged"};
  for (int status = 1; status <= 5; ++status) {
    const Error error(static_cast<ErrorKind>(status), "x");
    EXPECT_EQ(AsError(error).exit_status(), status);
    EXPECT_TRUE(Contains(RenderErrorJson(error), kNames[status - 1]));
  }
  EXPECT_EQ(AsError(std::bad_alloc()).exit_status(), 4);
  EXPECT_EQ(AsError(std::runtime_error("boom")).exit_status(), 1);
  const std::filesystem::filesystem_error full("rename",
                                               std::make_error_code(std::errc::no_space_on_device));
  EXPECT_EQ(AsError(full).exit_status(), 1);
}

TEST(ErrorReport, JsonIsOneLineEvenForBytesThatAreNotText) {
  EXPECT_EQ(RenderErrorJson(InputError("bad \xff", "c\nd", "h")),
            R"({"error":{"cause":"c\nd","code":3,"hint":"h","kind":"input","message":"bad )"
            "\xEF\xBF\xBD"
            R"("},"schema":1})");
}

}  // namespace
}  // namespace folio
