// Every command with every value of each of its flags: the listed ones, those of other flags of the
// kind, and nonsensical numbers, texts and paths. The flags are the program's own
// (cli/command_line.h); listed here is an ordinary call of each command.
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "tests/flags/children.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

// There is no power failure here (tests/torture), and waiting for disks took most of the time: the
// program runs in children of this process, which use these functions instead of the system's.
extern "C" int fsync(int) {
  return 0;
}
extern "C" int fdatasync(int) {
  return 0;
}

namespace folio {
namespace {

namespace fs = std::filesystem;

// A valid call, in which a flag is changed or added.
struct Call {
  Strings positionals;
  Strings flags;
};

// By command name. Inputs are in ../in, the directory of a call is its own.
const std::map<std::string, Call>& Calls() {
  static const Strings kTiny = {"--set", "model.n_layer=1", "model.n_head=1", "model.n_embd=8",
                                "model.n_positions=16"};
  static const auto with = [](Strings flags, const Strings& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  static const Strings kFew = with(kTiny, {"model.vocab_size=300"});
  static const auto lesson = Call{};
  static const std::map<std::string, Call> calls = {
      {"train",
       {{},
        with({"--data", "../in/text.txt", "--out", "run", "--batch", "1", "--max-steps", "1"},
             with(kTiny, {"train.eval_batches=1"}))}},
      {"generate", {{"a small"}, {"--model", "../in/run", "--max-tokens", "2"}}},
      {"chat", {{}, {"--model", "../in/run"}}},
      {"serve", {{}, {"--model", "../in/run", "--port", "0"}}},
      {"convert", {{"../in/run", "made"}, {}}},
      {"fetch", {{"gpt2"}, {}}},
      {"models", {{}, {}}},
      {"models remove", {{"gpt2"}, {}}},
      {"plot", {{"../in/run"}, {"--out", "made.svg"}}},
      {"eval perplexity", {{"../in/short.txt"}, {"--model", "../in/run"}}},
      {"eval cloze", {{"../in/items.jsonl"}, {"--model", "../in/run"}}},
      {"eval compare", {{"../in/run", "../in/run", "../in/short.txt"}, {}}},
      {"data prepare", {{"../in/text.txt"}, {"--out", "made"}}},
      {"data info", {{"../in/run/data"}, {}}},
      {"data stories", {{}, {"--out", "made", "--bytes", "100"}}},
      {"data fetch", {{"tinyshakespeare"}, {}}},
      {"tokenizer encode", {{"../in/short.txt"}, {"--tokenizer", "bytes", "--out", "made"}}},
      {"tokenizer decode", {{"../in/ids.txt"}, {"--tokenizer", "bytes", "--out", "made"}}},
      {"tokenizer count", {{"../in/short.txt"}, {"--tokenizer", "bytes"}}},
      {"tokenizer info", {{}, {"--tokenizer", "../in/run/last"}}},
      {"tokenizer train", {{"../in/text.txt"}, {"--out", "made", "--vocab-size", "270"}}},
      {"tokenizer fetch", {{"gpt2"}, {}}},
      {"inspect attention", {{}, {"--model", "../in/run", "--text", "a small"}}},
      {"inspect lens", {{}, {"--model", "../in/run", "--text", "a small"}}},
      {"inspect embeddings", {{}, {"--model", "../in/run"}}},
      {"inspect activations", {{}, {"--model", "../in/run", "--text", "a small"}}},
      {"inspect probabilities", {{}, {"--model", "../in/run", "--text", "a small"}}},
      {"inspect model", {{"../in/run"}, {}}},
      {"inspect plan", {{}, with({"--batch", "1"}, kTiny)}},
      {"inspect dump",
       {{}, {"--model", "../in/run", "--batch", "../in/batch.safetensors", "--out", "made"}}},
      {"bench train", {{}, with({"--batch", "1", "--steps", "1", "--seconds", "0"}, kFew)}},
      {"bench matmul", {{}, {"--products", "small", "--seconds", "0"}}},
      {"bench attention",
       {{},
        {"--context", "4", "--batch", "1", "--heads", "1", "--head-size", "4", "--seconds", "0"}}},
      {"bench ops", {{}, {"--rows", "2", "--channels", "64", "--hidden", "4", "--seconds", "0"}}},
      {"bench generate", {{}, with({"--prompt-tokens", "2", "--seconds", "0"}, kFew)}},
      {"bench optimizer", {{}, {"--parameters", "100", "--seconds", "0"}}},
      {"bench serve",
       {{}, {"--model", "../in/run", "--clients", "1", "--seconds", "0.1", "--max-tokens", "1"}}},
      {"bench tokenizer", {{}, {"--bytes", "1000", "--merges", "2"}}},
      {"config show", {{}, {}}},
      {"doctor", {{}, {}}},
      {"plan",  // without measuring the machine
       {{},
        with({"--flops-per-second", "1e9", "--memory-rate", "1e9", "--sum-rate", "1e9"}, kTiny)}},
      {"plan fits", {{}, {}}},
      {"completion", {{"bash"}, {}}},
      {"help", {{"train"}, {}}},
      {"version", {{}, {}}},
      {"__complete", {{"tra"}, {}}},
      {"explain attention", lesson},
      {"explain block", {{}, {"--model", "../in/run", "--text", "a"}}},
      {"explain tokenize", lesson},
      {"explain positions", lesson},
      {"explain rotary", lesson},
      {"explain layernorm", lesson},
      {"explain rmsnorm", lesson},
      {"explain gelu", lesson},
      {"explain gated-mlp", lesson},
      {"explain softmax", lesson},
      {"explain sampling", lesson},
  };
  return calls;
}

const Strings kNumbers = {
    "",   "-1", "0", "1", "3", "97", "0.3", "1e-30", "1e30", "2147483648", "9223372036854775807",
    "nan"};
// Also for flags that take numbers, names or JSON in a text; `here` is a file, and `heredir` a
// directory.
const Strings kTexts = {"",         "x",      "-",       "here",  "heredir",       "none/x.svg",
                        "none/x",   "0",      "-1",      "1,,2",  "5,99999999999", "nan",
                        "0.5,1e30", "65=nan", "{\"a\":", "[1,2]", "\xC3\xA9",      "\xFF",
                        "x.html"};

struct Case : Child {
  Strings words;
  Strings added = {};  // to the ordinary call: the last of `words`
};

std::string Shown(const Strings& words) {
  std::string text = "folio";
  for (const std::string& word : words) text += " '" + word.substr(0, 60) + "'";
  return text;
}

class FlagsOf : public Children, public testing::WithParamInterface<std::string> {
 protected:
  static void SetUpTestSuite() {
    MakeInputs("folio_flags_");
    std::vector<int64_t> tokens(2 * 2 * 9, 3);
    const NamedTensor batches{"batches", Tensor(tokens.data(), {2, 2, 9})};
    WriteSafetensors(root_ / "in/batch.safetensors", std::span(&batches, 1));
  }

  static void Start(Case& one);
  static void Finish(const Case& one, int status);
};

constexpr rlim_t kMemory = rlim_t{6} << 30, kFile = rlim_t{64} << 20;

void FlagsOf::Start(Case& one) {
  const auto prepare = [](const fs::path& dir) {
    fs::create_directories(dir / "heredir");
    std::ofstream(dir / "here") << "what was here\n";
    std::ofstream(dir / "heredir/file") << "and here\n";
  };
  // The program, alone in a process without other threads, like main.cc runs it.
  Children::Start(one, std::chrono::milliseconds(500), prepare, [&] {
    const rlimit memory{kMemory, kMemory}, file{kFile, kFile}, core{0, 0};
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_FSIZE, &file);
    setrlimit(RLIMIT_CORE, &core);
    signal(SIGXFSZ, SIG_IGN);  // as on a disk that is full
    // On a processor of its own: threads of many programs would only wait for each other.
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(static_cast<size_t>(getpid()) % std::thread::hardware_concurrency(), &own);
    sched_setaffinity(0, sizeof own, &own);
    const int status = RunProgram(one.words, AllCommands);
    fflush(nullptr);
    return status;
  });
}

// Checks how it ended, what it printed and what it left.
void FlagsOf::Finish(const Case& one, int status) {
  const std::string said = Said(one);
  const std::string call = Shown(one.words) + "\n" + said.substr(0, 1500);
  for (const char* mistake :
       {"bug in folio", "check failed", "terminate called", "runtime error:"}) {
    EXPECT_FALSE(Contains(said, mistake)) << call;
  }
  bool failed = false;
  if (WIFSIGNALED(status)) {
    // A command that takes longer than this test waits may be ended by the signal itself.
    EXPECT_TRUE(one.signals == 1 && WTERMSIG(status) == SIGTERM)
        << "ended by signal " << WTERMSIG(status) << ": " << call;
  } else {
    const int code = WEXITSTATUS(status);
    const bool stopped = one.signals == 1 && code == 128 + SIGTERM;
    failed = code >= 1 && code <= 5;
    EXPECT_TRUE(code == 0 || failed || stopped) << "status " << code << ": " << call;
    if (failed) {
      EXPECT_TRUE(said.find("error") != said.npos || Contains(call, "'-q") ||
                  Contains(call, "--quiet"))
          << "status " << code << " without a word: " << call;
    }
  }
  Strings left;
  for (const auto& entry : fs::recursive_directory_iterator(one.dir)) {
    const std::string name = entry.path().lexically_relative(one.dir);
    const bool before = name == "here" || name == "heredir" || name == "heredir/file";
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (!before && (failed || (hidden && one.signals == 0))) left.push_back(name);
  }
  EXPECT_EQ(left, Strings{}) << call;
  if (failed) {
    EXPECT_EQ(ReadFile(one.dir / "here"), "what was here\n") << call;
    EXPECT_EQ(ReadFile(one.dir / "heredir/file"), "and here\n") << call;
  }
}

bool IsSwitch(const Flag& flag) {
  return flag.placeholder.empty() && !flag.positional;
}

bool IsNumber(const Flag& flag) {
  return flag.placeholder == "N" || flag.placeholder == "X";
}

// All choices of all flags of the program that have a choice in common with this flag, and its own.
Strings ChoicesLike(const CommandLine& line, const Flag& flag) {
  std::set<std::string> all(flag.choices.begin(), flag.choices.end());
  for (const CommandEntry& entry : line.commands()) {
    for (const Flag& other : entry.flags().list()) {
      const bool shared = std::ranges::any_of(other.choices, [&](const std::string& choice) {
        return std::ranges::find(flag.choices, choice) != flag.choices.end();
      });
      if (shared) all.insert(other.choices.begin(), other.choices.end());
    }
  }
  return {all.begin(), all.end()};
}

Strings ValuesOf(const CommandLine& line, const Flag& flag) {
  Strings values = IsNumber(flag) ? kNumbers : kTexts;
  const Strings choices = ChoicesLike(line, flag);
  if (!choices.empty() && flag.placeholder.find('|') != std::string::npos) values = {""};
  values.insert(values.end(), choices.begin(), choices.end());
  return values;
}

// An ordinary call with some more words.
Case CaseOf(const CommandEntry& entry, const Call& call, const Strings& added) {
  Case one;
  one.words = Split(entry.info.name, ' ');
  one.added = added;
  for (const Strings& more : {call.positionals, call.flags, added}) {
    one.words.insert(one.words.end(), more.begin(), more.end());
  }
  return one;
}

// The ordinary call, and every value of every flag.
std::vector<Case> CasesOf(const CommandLine& line, const CommandEntry& entry, const Call& call) {
  std::vector<Case> cases = {CaseOf(entry, call, {})};
  const auto add = [&](const Strings& added) { cases.push_back(CaseOf(entry, call, added)); };
  size_t positional = 0;
  for (const Flag& flag : entry.flags().list()) {
    if (IsSwitch(flag)) {
      add({flag.name});
      add({flag.name + "=x"});
      continue;
    }
    for (const std::string& value : ValuesOf(line, flag)) {
      if (!flag.positional) {
        add({flag.name, value});
        continue;
      }
      // After "--" nothing is a flag.
      Strings behind = {"--"};
      behind.insert(behind.end(), call.positionals.begin(), call.positionals.end());
      behind.resize(std::max(positional + 2, behind.size()));
      behind[positional + 1] = value;
      cases.push_back(CaseOf(entry, {.positionals = {}, .flags = call.flags}, behind));
    }
    positional += flag.positional ? 1 : 0;
  }
  if (entry.info.name != "train") return cases;  // which takes every setting
  for (const Field& field : entry.flags().settings()->fields()) {
    const std::string type = FieldType(field);
    Strings values = type.starts_with("integer") || type.starts_with("number")
                         ? kNumbers
                         : Strings{"", "x", "true", "null"};
    values.insert(values.end(), field.choices.begin(), field.choices.end());
    for (const std::string& value : values) add({"--set", field.key + "=" + value});
  }
  return cases;
}

// Every two values of flags that have choices, from the values in `good`: a call that ends because
// of one value never uses the other.
std::vector<Case> PairsOf(const CommandEntry& entry, const Call& call,
                          const std::set<Strings>& good) {
  const auto few = [&](const Flag& flag) {
    std::vector<Strings> words;
    const bool named =
        flag.placeholder.find('|') != std::string::npos || flag.placeholder == "NAME";
    if (flag.positional || !named) return words;
    for (const std::string& choice : flag.choices) {
      if (good.contains({flag.name, choice})) words.push_back({flag.name, choice});
    }
    return words;
  };
  std::vector<Case> cases;
  const std::vector<Flag>& flags = entry.flags().list();
  for (auto a = flags.begin(); a != flags.end(); ++a) {
    for (auto b = a + 1; b != flags.end(); ++b) {
      for (const Strings& one : few(*a)) {
        for (const Strings& other : few(*b)) {
          cases.push_back(CaseOf(entry, call, {one[0], one[1], other[0], other[1]}));
        }
      }
    }
  }
  return cases;
}

std::vector<std::string> NamesOfAll() {
  std::vector<std::string> names;
  for (const auto& command : AllCommands()) names.push_back(command->info().name);
  return names;
}

TEST(Flags, EveryCommandHasAnOrdinaryCall) {
  std::set<std::string> known;
  for (const auto& [name, call] : Calls()) known.insert(name);
  const std::vector<std::string> all = NamesOfAll();
  EXPECT_EQ(known, std::set<std::string>(all.begin(), all.end()));
}

TEST_P(FlagsOf, NoValueEndsTheProgramByASignal) {
  if (kSanitized) GTEST_SKIP() << "limits of memory do not go with the sanitizers";
  const CommandLine line(AllCommands());
  const CommandEntry* entry = line.Find(GetParam());
  ASSERT_NE(entry, nullptr);
  const auto call = Calls().find(GetParam());
  ASSERT_NE(call, Calls().end());
  const auto before = FilesBelow(root_ / "in");
  std::map<Strings, int> ends;  // by what was added
  const auto finish = [&](const Case& one, int status, const rusage&) {
    Finish(one, status);
    ends[one.added] = status;
  };
  constexpr std::chrono::seconds kMore(20);
  RunAll(CasesOf(line, *entry, call->second), kMore, Start, finish);
  std::set<Strings> good;
  for (const auto& [added, status] : ends) {
    if (status == ends[{}]) good.insert(added);
  }
  RunAll(PairsOf(*entry, call->second, good), kMore, Start, finish);
  EXPECT_EQ(FilesBelow(root_ / "in"), before) << "its inputs are no longer what they were";
}

std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == '-'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Commands, FlagsOf, testing::ValuesIn(NamesOfAll()), NameOf);

}  // namespace
}  // namespace folio
