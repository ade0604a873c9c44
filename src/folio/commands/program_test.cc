// Runs the real program: exit statuses, and the contents of both streams.
#include "tests/kit/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/cli/foreign_tables.h"
#include "folio/cli/foreign_words.h"
#include "folio/commands/commands.h"
#include "folio/serve/sandbox.h"
#include "tests/kit/directory.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Words after "folio" that are no command.
const std::vector<std::string> kProse = {"computes", "has", "does"};

class ProgramTest : public InTemporaryDirectory {
 protected:
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }

  bool HasScript() { return Shell("command -v script").status == 0; }
};

TEST_F(ProgramTest, AloneItPrintsTwelveLinesWithThreeExamples) {
  const ProgramRun run = Well(Shell("COLUMNS=120 $F"));
  EXPECT_EQ(run.err, "");
  EXPECT_LE(std::ranges::count(run.out, '\n'), 12);
  EXPECT_EQ(Count(run.out, "\n  folio "), 3u);
}

TEST_F(ProgramTest, VersionGoesToStdoutOnly) {
  for (const char* command : {"$F version", "$F --version", "$F -V", "$F version --color=always"}) {
    const ProgramRun run = Well(Shell(command));
    EXPECT_TRUE(run.out.starts_with("folio ") && run.out.ends_with("\n")) << run.out;
    EXPECT_EQ(run.err, "");
  }
  const auto json = nlohmann::json::parse(Shell("$F --json version").out);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_TRUE(json.at("version").is_string());
}

TEST_F(ProgramTest, HelpOfACommandIsTheSameByAllItsNames) {
  const ProgramRun help = Well(Shell("$F help config show"));
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(help.out, Shell("$F config show --help").out);
  EXPECT_EQ(help.out, Shell("$F --help config show").out);
  EXPECT_TRUE(Contains(help.out, "--preset NAME"));
  const ProgramRun brief = Shell("$F config show -h");
  EXPECT_LT(brief.out.size(), help.out.size());
  Ended(2, Shell("$F help nothing"));
}

TEST_F(ProgramTest, AWrongFlagIsAUsageErrorWithNothingOnStdout) {
  const ProgramRun run = Ended(2, Shell("$F config show --lerning-rate 1"));
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err,
            "error: unknown flag '--lerning-rate'\n  help: did you mean '--learning-rate'?\n");
}

TEST_F(ProgramTest, WhatWasMeantIsNamed) {
  const auto help = [&](const std::string& arguments) {
    const ProgramRun run = Ended(2, Shell("$F " + arguments));
    return run.err.substr(std::min(run.err.size(), run.err.find("help: ")));
  };
  EXPECT_EQ(help("train book.txt --out r"), "help: did you mean --data book.txt?\n");
  EXPECT_EQ(help("train -data book.txt --out r"),
            "help: did you mean '--data', with two dashes?\n");
  EXPECT_EQ(help("generate --model r Once upon a"), "help: did you mean --prompt 'Once upon a'?\n");
  EXPECT_EQ(help("generate --model r --prompt Once upon a time"),
            "help: did you mean --prompt 'Once upon a time'?\n");
  EXPECT_EQ(help("generate -model r"), "help: did you mean '--model', with two dashes?\n");
  EXPECT_EQ(help("tokenizer decode 15496 11 995 --tokenizer bytes"),
            "help: did you mean --ids '15496 11 995'?\n");
  EXPECT_EQ(help("tokenizer encode Hello world --tokenizer bytes"),
            "help: did you mean --text 'Hello world'?\n");
  EXPECT_EQ(help("inspect lens --model r the cat"), "help: did you mean --text 'the cat'?\n");
  EXPECT_EQ(help("inspect lens . the cat"), "help: did you mean --text 'the cat'?\n");
  EXPECT_EQ(help("explain attention the cat"), "help: did you mean --text 'the cat'?\n");
  EXPECT_EQ(help("generate Once upon a time"), "help: did you mean --prompt 'Once upon a time'?\n");
}

TEST_F(ProgramTest, EveryCommandOfAModelTakesItFirst) {
  const CommandLine line(AllCommands());
  int with = 0;
  for (const CommandEntry& entry : line.commands()) {
    const Flag* model = entry.flags().Find("--model");
    if (model == nullptr) continue;
    ++with;
    const std::string usage = Help(line, entry.info.name, false, {});
    EXPECT_TRUE(Contains(usage, "usage: folio " + entry.info.name)) << usage;
    const std::string first = usage.substr(usage.find("usage: "), usage.find("\n\n") + 60);
    EXPECT_TRUE(Contains(first, "MODEL")) << entry.info.name << ": " << first;
    if (entry.info.name != "serve") {
      EXPECT_EQ(model->position, "MODEL") << entry.info.name;
    }
  }
  EXPECT_GT(with, 20);
}

TEST_F(ProgramTest, TheCommandsOfOtherProgramsLeadToFoliosOwn) {
  const CommandLine line(AllCommands());
  for (const auto& [word, said] : std::vector<std::pair<std::string, std::string>>{
           {"run", "folio chat MODEL"},
           {"pull", "folio fetch"},
           {"list", "folio "},
           {"ls", "folio "},
           {"rm", "model"},
           {"show", "folio inspect model"},
           {"finetune", "folio train --init MODEL"},
           {"fine-tune", "folio train --init MODEL"},
           {"quantize", "folio convert MODEL OUT.gguf --dtype"},
           {"perplexity", "folio eval perplexity MODEL FILE"},
           {"sample", "folio generate MODEL"},
           {"sample.py", "folio generate MODEL"},
           {"Tokenize", "folio tokenizer encode"},
           {"convert_hf_to_gguf.py", "folio convert MODEL"},
           {"webui", "folio serve MODEL"},
           {"eval ppl", "folio eval perplexity"},
           {"gpu", "no GPU support yet"}}) {
    const std::string help =
        ErrorAndHelp([&line, word = word] { line.ThrowUnknownCommand(word); }, ErrorKind::kUsage);
    EXPECT_TRUE(Contains(help, "unknown command '" + word + "'", said)) << help;
  }
}

TEST_F(ProgramTest, TheFlagsOfOtherProgramsLeadToFoliosOwn) {
  const auto help = [](const std::string& words) {
    CommandLine line(AllCommands());
    return ErrorAndHelp([&] { line.Parse(Split(words, ' ')); }, ErrorKind::kUsage);
  };
  for (const auto& [words, said] : std::vector<std::pair<std::string, std::string>>{
           {"generate m --max-length 5", "did you mean '--max-tokens'?"},
           {"generate m --max_new_tokens=5", "did you mean '--max-tokens'?"},
           {"chat m --n-predict 5", "did you mean '--max-tokens'?"},
           {"generate m --gpu", "no GPU support yet"},
           {"train --device cuda", "no GPU support yet"},
           {"chat m -ngl 99", "no GPU support yet"},
           {"serve m --n-gpu-layers 99", "no GPU support yet"},
           {"generate m --temp 0.5", "did you mean '--temperature'?"},
           {"generate m --repeat-penalty 1.1", "did you mean '--repetition-penalty'?"},
           {"generate m --num_beams 4", "did you mean '--beams'?"},
           {"generate m --num_samples 4", "did you mean '--n'?"},
           {"generate m --start x", "did you mean '--prompt'?"},
           {"chat m --ctx-size 4096", "folio inspect model"},
           {"chat m -c 4096", "folio inspect model"},
           {"train --block_size 256", "did you mean '--context'?"},
           {"train --max_iters 100", "did you mean '--max-steps'?"},
           {"train --num-train-epochs 3", "did you mean '--"},
           {"chat m --epochs 3", "folio train"},
           {"train --output_dir x", "did you mean '--out'?"},
           {"train --per_device_train_batch_size 4", "did you mean '--batch'?"},
           {"train --gradient_accumulation_steps 4", "did you mean '--grad-accumulation'?"},
           {"train --lora_alpha 16", "--set lora.alpha=VALUE"},
           {"train --hidden-size 64", "--set model.n_embd=VALUE"},
           {"train --model gpt2", "did you mean '--init'?"},
           {"generate --model_name_or_path m", "did you mean '--model'?"},
           {"generate m --lora x", "did you mean '--adapter'?"},
           {"serve m --parallel 4", "did you mean '--slots'?"},
           {"serve m -np 4", "did you mean '--slots'?"},
           {"serve m --api-key x", "did you mean '--api-key-file'?"},
           {"convert a b --outtype q8_0", "did you mean '--dtype'?"},
           {"chat m --system-prompt x", "did you mean '--system'?"},
           {"chat m --prompt x", "it is a flag of folio generate"},
           {"doctor --max-tokens 3", "it is a flag of folio generate"},
           {"eval perplexity m f --learning-rate 3", "it is a flag of folio train"}}) {
    EXPECT_TRUE(Contains(help(words), said)) << words << ": " << help(words);
  }
}

// Returns what the program answers to all foreign words.
std::set<std::string> ForeignWordAnswers(const CommandLine& line) {
  std::set<std::string> answers;
  for (const ForeignCommand& row : kForeignCommands) {
    for (const std::string& word : Split(row.words, ' ')) {
      answers.insert(HelpForForeignCommand(line, word));
    }
  }
  for (const CommandEntry& entry : line.commands()) {
    Place place;
    place.command = &entry;
    for (const ForeignFlag& row : kForeignFlags) {
      for (const std::string& word : Split(row.words, ' ')) {
        const std::string given = (word[0] == '-' ? "" : "--") + word;
        if (entry.flags().Find(given) != nullptr) continue;
        answers.insert(HelpForForeignFlag(line, place, given));
      }
    }
  }
  return answers;
}

// An answer that names something that does not exist would be worse than none.
TEST_F(ProgramTest, WhatIsSaidOfForeignWordsIsThere) {
  const CommandLine line(AllCommands());
  std::set<std::string> all;
  for (const CommandEntry& entry : line.commands()) {
    for (const Flag& flag : entry.flags().list()) {
      all.insert({flag.name, flag.opposite});
      all.insert(flag.aliases.begin(), flag.aliases.end());
    }
  }
  for (const Flag& flag : line.global_flags().list()) all.insert(flag.name);
  const std::set<std::string> answers = ForeignWordAnswers(line);
  EXPECT_GT(answers.size(), 80u);
  for (const std::string& answer : answers) {
    for (size_t at = answer.find("folio "); at != answer.npos; at = answer.find("folio ", at + 1)) {
      std::vector<std::string> words = Split(answer.substr(at + 6), ' ');
      words.resize(std::max<size_t>(words.size(), 2));
      for (std::string& word : words) word = word.substr(0, word.find_first_of(",;:.)'"));
      const bool verb = std::isupper(static_cast<unsigned char>(words[0][0])) == 0 &&
                        (line.Find(words[0]) != nullptr || line.HasGroup(words[0]));
      const bool prose = std::ranges::count(kProse, words[0]) > 0;
      EXPECT_TRUE(verb || prose) << answer;
      if (verb && line.Find(words[0]) == nullptr) {
        EXPECT_NE(line.Find(words[0] + " " + words[1]), nullptr) << answer;
      }
    }
    for (size_t at = answer.find("--"); at != answer.npos; at = answer.find("--", at + 2)) {
      const std::string flag = answer.substr(at, answer.find_first_of(" ,;:.)'=?", at) - at);
      EXPECT_TRUE(all.contains(flag)) << flag << " in: " << answer;
    }
  }
}

TEST_F(ProgramTest, ThatThereIsNoGpuIsSaid) {
  EXPECT_TRUE(Contains(Well(Shell("$F --help")).out, "there is no GPU support yet"));
  EXPECT_TRUE(Contains(Well(Shell("$F doctor")).out, "there is no GPU support yet"));
  EXPECT_TRUE(nlohmann::json::parse(Well(Shell("$F doctor --json")).out).at("gpu").is_null());
}

TEST_F(ProgramTest, ANameOfNoModelSaysWhichThereAre) {
  for (const auto& [name, said] : std::vector<std::pair<std::string, std::string>>{
           {"gpt3", "the weights of gpt3 are not published"},
           {"GPT-4o", "the weights of GPT-4o are not published"},
           {"gpt-2", "did you mean gpt2? folio fetch gpt2"},
           {"smollm2", "did you mean smollm2-135m?"},
           {"smollm2:360m", "did you mean smollm2-360m?"},
           {"llama3.2", "folio fetch --list"}}) {
    const ProgramRun run = Ended(3, Shell("$F generate " + name + " --prompt x"));
    EXPECT_TRUE(Contains(run.err, "no model '" + name + "'", said)) << run.err;
  }
  for (const auto& [name, said] : std::vector<std::pair<std::string, std::string>>{
           {"gpt4", "did you mean cl100k_base?"},
           {"gpt-4o-mini", "did you mean o200k_base?"},
           {"gpt-3.5-turbo", "did you mean cl100k_base?"},
           {"gpt3", "did you mean r50k_base?"},
           {"text-davinci-003", "did you mean p50k_base?"},
           {"cl100k_bse", "did you mean cl100k_base?"},
           {"zzzzzz", "give one of these names"}}) {
    const ProgramRun run = Ended(2, Shell("$F tokenizer encode --text x --tokenizer " + name));
    EXPECT_TRUE(Contains(run.err, said)) << run.err;
  }
}

TEST_F(ProgramTest, ErrorsAreJsonIfAskedForWhereverTheFlagStands) {
  for (const char* command : {"$F verison --json", "$F --json verison", "$F --bad --json"}) {
    const ProgramRun run = Ended(2, Shell(command));
    EXPECT_EQ(run.out, "");
    const auto error = nlohmann::json::parse(run.err);
    EXPECT_EQ(error.at("schema"), 1);
    EXPECT_EQ(error.at("error").at("code"), 2);
    EXPECT_EQ(error.at("error").at("kind"), "usage");
  }
  EXPECT_EQ(nlohmann::json::parse(Shell("$F verison --json").err).at("error").at("hint"),
            "did you mean 'folio version'?");
}

TEST_F(ProgramTest, QuietTwiceSilencesEvenErrors) {
  const ProgramRun run = Ended(3, Shell("$F data info nowhere -qq"));
  EXPECT_EQ(run.err, "");
  EXPECT_NE(Shell("$F data info nowhere -q").err, "");
}

TEST_F(ProgramTest, AReaderThatLeavesEarlyIsNoError) {
  const ProgramRun run =
      Shell("{ $F data stories --bytes 9000000 --out -; echo $? >&2; } | head -c1");
  EXPECT_EQ(run.out.size(), 1u);
  EXPECT_EQ(run.err, "0\n");
}

TEST_F(ProgramTest, AnOutputThatCannotBeWrittenIsAnError) {
  const ProgramRun closed = Ended(1, Shell("$F version >&-"));
  EXPECT_TRUE(closed.err.starts_with("error: cannot write to standard output\n")) << closed.err;
  EXPECT_TRUE(Contains(Ended(1, Shell("$F version >/dev/full")).err, "No space left"));
  Well(Shell("$F version 2>&-"));
}

TEST_F(ProgramTest, AFileNeverTakesThePlaceOfAClosedStream) {
  const ProgramRun run = Shell("$F data stories --bytes 100 --out s.txt >&- 2>&- <&-; cat s.txt");
  EXPECT_EQ(run.out, Shell("$F data stories --bytes 100 --out - 2>/dev/null").out);
}

TEST_F(ProgramTest, NoEscapesWithoutATerminal) {
  std::ofstream(At("a.txt")) << "some text to prepare\n";
  const ProgramRun run =
      Shell("$F data prepare a.txt --out d; $F --help; $F bad; TERM=xterm $F bad");
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  EXPECT_EQ((run.out + run.err).find('\r'), std::string::npos);
  EXPECT_EQ(run.err.find('\x1b'), std::string::npos);
  EXPECT_NE(Shell("$F bad --color always").status, 0);
  EXPECT_EQ(Shell("FORCE_COLOR=1 $F bad").err.substr(0, 7), "\x1b[1;31m");
}

TEST_F(ProgramTest, OnATerminalThereIsColorUnlessItIsRefused) {
  if (!HasScript()) GTEST_SKIP() << "needs the program script (util-linux)";
  const auto on_terminal = [&](const std::string& env) {
    return Shell(env + " script -qec \"$F bad\" /dev/null </dev/null").out;
  };
  EXPECT_TRUE(Contains(on_terminal("TERM=xterm"), "\x1b[1;31merror:"));
  EXPECT_EQ(on_terminal("TERM=xterm NO_COLOR=1").find('\x1b'), std::string::npos);
  EXPECT_EQ(on_terminal("TERM=dumb").find('\x1b'), std::string::npos);
}

TEST_F(ProgramTest, OnATerminalTheBarIsDrawnAndTakenAway) {
  if (!HasScript()) GTEST_SKIP() << "needs the program script (util-linux)";
  const ProgramRun run =
      Well(Shell("$F data stories --bytes 3000000 --out s.txt -q\n"
                 "TERM=xterm script -qec \"$F data prepare s.txt --out d\" /dev/null </dev/null"));
  const size_t bar = run.out.find("% ");
  const size_t erased = run.out.rfind("\r\x1b[K");
  ASSERT_NE(bar, std::string::npos) << run.out;
  ASSERT_NE(erased, std::string::npos) << run.out;
  EXPECT_LT(bar, erased);
  EXPECT_LT(erased, run.out.find("vocabulary"));
}

TEST_F(ProgramTest, SettingsShowTheirOrigin) {
  std::ofstream(At("folio.toml")) << "[train]\nseed = 3\n";
  const ProgramRun run =
      Well(Shell("FOLIO_TRAIN_EPS=0.5 $F config show --preset char-cpu --batch 7 --json --set "
                 "model.n_layer=3"));
  const auto settings = nlohmann::json::parse(run.out).at("settings");
  const auto is = [&](const char* key, nlohmann::json value, const std::string& origin) {
    EXPECT_EQ(settings.at(key).at("value"), value) << key;
    EXPECT_EQ(settings.at(key).at("origin"), origin) << key;
  };
  is("train.seed", 3, (fs::canonical(At("")) / "folio.toml").string() + ":2:8");
  is("train.eps", 0.5, "FOLIO_TRAIN_EPS");
  is("train.batch_size", 7, "--batch");
  is("model.n_layer", 3, "--set");
  is("model.n_embd", 128, "preset char-cpu");
  is("model.n_inner", nullptr, "built-in");
  EXPECT_TRUE(Contains(Shell("$F config show --origin").out, "folio.toml:2:8\n"));
}

TEST_F(ProgramTest, ShownSettingsCanBeReadBack) {
  const ProgramRun run = Well(Shell(
      "$F config show --preset gpt2-xl --lr 1e-5 >a.toml && $F config show --config a.toml >b.toml "
      "&& cmp a.toml b.toml && grep -c . a.toml"));
  EXPECT_NE(run.out, "0\n");
}

TEST_F(ProgramTest, DataIsPreparedAndDescribed) {
  std::ofstream(At("a.txt")) << "abcabcabca";
  Well(Shell("$F data prepare a.txt --out d --val-fraction 0.2"));
  const ProgramRun info = Well(Shell("$F data info d --json"));
  const auto json = nlohmann::json::parse(info.out);
  EXPECT_EQ(json.at("vocab_size"), 3);
  EXPECT_EQ(json.at("train_tokens"), 8);
  EXPECT_EQ(json.at("val_tokens"), 2);
  Ended(3, Shell("$F data prepare missing.txt --out e; s=$?; test ! -e e && exit $s"));
}

TEST_F(ProgramTest, TheSameSeedTellsTheSameStories) {
  const std::string first = Shell("$F data stories --bytes 500 --out -").out;
  EXPECT_GE(first.size(), 500u);
  EXPECT_EQ(first, Shell("$F data stories --bytes 500 --out f.txt -q; cat f.txt").out);
  EXPECT_NE(first, Shell("$F data stories --bytes 500 --seed 2 --out -").out);
  Ended(1, Shell("$F data stories --out no/such/dir/f.txt"));
  EXPECT_TRUE(Contains(Ended(2, Shell("$F data stories --bytes 600 --out f.txt")).err,
                       "f.txt already exists", "--overwrite"));
  EXPECT_EQ(Shell("cat f.txt").out, first);
  Well(Shell("$F data stories --bytes 500 --seed 2 --out f.txt --overwrite"));
  EXPECT_NE(Shell("cat f.txt").out, first);
}

TEST_F(ProgramTest, DoctorAnswersInBothForms) {
  EXPECT_TRUE(Contains(Shell("$F doctor").out, "memory", "matrix products at",
                       "sandbox  " + DescribeSandbox(FindSandbox()) + "\n"));
  const auto json = nlohmann::json::parse(Shell("$F doctor --json").out);
  EXPECT_EQ(json.at("landlock"), FindSandbox().landlock);
  EXPECT_EQ(json.at("seccomp"), FindSandbox().seccomp);
  EXPECT_GE(json.at("threads").get<int>(), 1);
  EXPECT_GT(json.at("disk_available_bytes").get<int64_t>(), 0);
  ASSERT_GE(json.at("products").size(), 1);
  for (const auto& product : json.at("products")) {
    EXPECT_GT(product.at("flops_per_second").get<double>(), 0);
    EXPECT_FALSE(product.at("unit").get<std::string>().empty());
  }
  EXPECT_EQ(json.at("products")[0].at("dtype"), "fp32");
}

TEST_F(ProgramTest, TheCompletionScriptAsksTheProgram) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_TRUE(
        Contains(Well(Shell(std::string("$F completion ") + shell)).out, "folio __complete"));
  }
  Ended(2, Shell("$F completion tcsh"));
  EXPECT_EQ(Shell("$F __complete -- conf").out, "config\tmore commands\n");
  EXPECT_EQ(Shell("$F __complete -- config show --preset char-").out, "char-cpu\nchar-gpu\n");
  EXPECT_EQ(Shell("$F __complete -- train --preset d").out, "debug\n");
  EXPECT_EQ(Shell("$F __complete -- doctor --jso | cut -f1").out, "--json\n");
}

// Completes with the shell's own script; `words` are split like the shell does.
TEST_F(ProgramTest, BashCompletesBehindAnEqualsSign) {
  if (Shell("command -v bash").status != 0) GTEST_SKIP() << "there is no bash";
  const auto completed = [this](const std::string& words) {
    return Shell(
               "PATH=\"$(dirname $F):$PATH\" bash -c 'source <(folio completion bash); "
               "COMP_WORDS=(" +
               words +
               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _folio; echo \"${COMPREPLY[*]}\"'")
        .out;
  };
  EXPECT_EQ(completed("folio data pre"), "prepare\n");
  EXPECT_EQ(completed("folio train --preset = char-c"), "char-cpu\n");
  EXPECT_EQ(completed("folio train --preset = gpt2-l"), "gpt2-large\n");
  EXPECT_EQ(completed("folio train --preset gpt2-l"), "gpt2-large\n");
  EXPECT_EQ(completed("folio train --set train.learn"), "train.learning_rate=\n");
  EXPECT_EQ(completed("folio train --set model.norm_position ="), "pre post branch both\n");
  EXPECT_EQ(completed("folio train --set model.norm_position = po"), "post\n");
  EXPECT_EQ(completed("folio tokenizer encode --tokenizer cl"), "cl100k_base\n");
  EXPECT_EQ(completed("folio tokenizer fetch r5"), "r50k_base\n");
}

TEST_F(ProgramTest, FishCompletesSettings) {
  if (Shell("command -v fish").status != 0) GTEST_SKIP() << "there is no fish";
  const auto completed = [this](const std::string& line) {
    return Shell(
               "PATH=\"$(dirname $F):$PATH\" fish --no-config -c 'folio completion fish | source; "
               "complete -C \"" +
               line + "\"' | cut -f1")
        .out;
  };
  EXPECT_EQ(completed("folio train --preset=gpt2-l"), "--preset=gpt2-large\n");
  EXPECT_EQ(completed("folio train --set train.learn"), "train.learning_rate=\n");
  EXPECT_EQ(completed("folio train --set model.norm_position=po"), "model.norm_position=post\n");
}

TEST_F(ProgramTest, UnknownCommandsNameWhatThereIs) {
  ProgramRun run = Shell("$F zebras");
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(Contains(run.err, "the commands of folio are train, generate, ",
                       "folio --help describes them"));
  run = Shell("$F inspect heads");
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(Contains(run.err, "did you mean 'folio inspect attention'?"));
  run = Shell("$F inspect zebras");
  EXPECT_TRUE(Contains(run.err, "the commands of folio inspect are attention, lens, ",
                       "folio inspect --help describes them"));
}

TEST_F(ProgramTest, HelpBreaksNoWordOnNarrowTerminals) {
  std::vector<std::string> commands = {"", "-h", "--help"};
  for (const char* command : {"train", "generate", "plot", "data prepare", "tokenizer encode",
                              "explain attention", "inspect attention", "inspect lens",
                              "bench train", "config show", "completion", "data", "inspect"}) {
    commands.push_back(std::string(command) + " -h");
    commands.push_back(std::string(command) + " --help");
  }
  for (const std::string& command : commands) {
    for (const int width : {40, 80}) {
      const ProgramRun run = Well(Shell("COLUMNS=" + std::to_string(width) + " $F " + command));
      for (const std::string& line : Split(run.out, '\n')) {
        const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos ||
                              line.ends_with(" \\");
        EXPECT_TRUE(one_word || std::cmp_less_equal(line.size(), width))
            << command << " at " << width << ": " << line;
      }
    }
  }
  // An example that is broken is still a command.
  const std::string out = Shell("COLUMNS=40 $F plot --help").out;
  EXPECT_TRUE(Contains(out, "  folio plot runs/* --out compare.html \\\n      --smooth 0.9\n"))
      << out;
}

TEST_F(ProgramTest, SpellingIsAdvisedOnlyOfPathsThatWereTyped) {
  for (const char* typed :
       {"tokenizer count --tokenizer bytes nowhere.txt", "config show --config nowhere.toml",
        "tokenizer info --tokenizer no/where.json"}) {
    const ProgramRun run = Ended(3, Shell(std::string("$F ") + typed));
    EXPECT_TRUE(Contains(run.err, "check the spelling of the path"));
  }
  const ProgramRun run = Ended(
      3, Shell("$F data stories --bytes 30000 --out s.txt -q; $F data prepare s.txt --out d -q; "
               "rm d/val.bin; $F train --data d --preset stories --max-steps 1 --out r -q"));
  EXPECT_TRUE(Contains(run.err, "val.bin"));
  EXPECT_FALSE(Contains(run.err, "spelling")) << run.err;
}

TEST_F(ProgramTest, BeingStoppedHasItsOwnStatus) {
  const std::string bytes = kSanitized ? "10000000" : "60000000";  // so that it is still running
  Ended(143, Shell("$F data stories --bytes " + bytes +
                   " --out s.txt -q\n"
                   "$F data prepare s.txt --out d -q & sleep 0.05; kill -TERM $!; wait $!; s=$?\n"
                   "test ! -e d && exit $s"));
}

}  // namespace
}  // namespace folio
