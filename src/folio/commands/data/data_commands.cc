#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/fetch_command.h"
#include "folio/commands/prepare_progress.h"
#include "folio/corpus/fetch_published.h"
#include "folio/corpus/pieces.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/data/dataset.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/run/run_config.h"

namespace folio {
namespace {

class DataPrepareCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data prepare",
        .summary = "turn text files into the tokens that training reads",
        .group = "data",
        .details =
            "Writes train.bin, val.bin, dataset.json and the tokenizer. Files are read in order, "
            "as one text; blocks spread over it are held out for evaluation (--val-split tail: its "
            "end). Directories are searched for texts; - is standard input. Each file is a "
            "document, and so is each object of JSON lines or of a JSON array: its \"text\", or "
            "the member that --field names. If the tokenizer has an end-of-text token, it is put "
            "between documents.\n\nTables (.csv, .tsv) have a header with the names of their "
            "columns; a row is a document: its column \"text\", or the one that --text-column "
            "names. Rows and JSON objects that are conversations (messages, conversations, prompt "
            "and completion, instruction and output, question and answer) become a data set of "
            "conversations, of which training learns the assistant's answers.\n\nThe type of a "
            "file is detected from its contents. gzip, bzip2, xz and zstd streams and UTF-16 with "
            "a byte order mark are converted temporarily beside --out. Other data (archives, "
            "Parquet, PDF, images, models) is refused with a hint, and skipped in directories; "
            "--tokenizer bytes --raw accepts any bytes.\n\nIf the command is stopped or killed, "
            "the same command continues. Under mpirun or srun the ranks share the work; they must "
            "see the same files.",
        .examples = {"folio data prepare input.txt --tokenizer char --out data/input",
                     "folio data prepare a.txt b.jsonl.zst --tokenizer gpt2 --out data/both",
                     "folio data prepare crawl/ --field content --tokenizer gpt2 --out data/web",
                     "folio data prepare big.txt --tokenizer gpt2 --special allow "
                     "--shard-tokens 100000000 --out data/big",
                     "mpirun -n 8 folio data prepare crawl/ --tokenizer gpt2 --out data/web"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &options_.files,
                      "texts, JSON lines, tables, or directories of such; - for standard input",
                      {.required = true});
    flags.Value(Field{"out", &options_.out, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Switch("--overwrite", &options_.overwrite, "replace an existing data set");
    flags.Value(Field{
        "special", &options_.special,
        "meaning of a special token's text in a document: that token, an error, or ordinary text"}
                    .Choices({"allow", "raise", "ordinary"}));
    flags.Value(Field{"shard-tokens", &options_.shard_tokens,
                      "split the data into files of this many tokens; 0: one file", 0, 1e15});
    flags.Value(
        Field{"format", &options_.format,
              "folio: plain tokens, as nanoGPT reads them; llmc: with llm.c's header, version 1, "
              "or 7 where the vocabulary needs uint32"}
            .Choices({"folio", "llmc"}));
    flags.Settings(&settings_.layers, {"data"});
  }

  int Run(const Context& context) override {
    settings_.layers.ReadSources(context.sources);
    settings_.layers.Resolve();
    CatchSignals();
    Group& group = JoinRanks(context.console, "folio data prepare");
    if (!group.first()) {
      PrepareAsWorker(group);
      return 0;
    }
    Workers workers(&group);
    options_.workers = &workers;
    options_.tokenizer = settings_.config.data.tokenizer;
    options_.val_fraction = settings_.config.data.val_fraction;
    options_.val_split = settings_.config.data.val_split;
    options_.field = settings_.config.data.field;
    options_.chat_template = settings_.config.data.chat_template;
    options_.raw = settings_.config.data.raw;
    TextFiles found = FindTextFiles(options_.files, {.field = options_.field, .raw = options_.raw});
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    options_.files = std::move(found.files);
    DatasetInfo made;
    try {
      made = PrepareWithProgress(options_, context.console, context.progress_mode);
    } catch (const Stopped&) {
      context.console.Note("stopped; run the same command again to continue");
      throw;
    }
    const std::string& out = options_.out;
    context.console.Result(DescribeDataset(out, made, context.console.json()));
    context.console.Note(fmt::format("next: folio train --data {} --out RUN", out));
    return 0;
  }

 private:
  PrepareOptions options_;
  RunSettings settings_;
};

class DataInfoCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data info",
        .summary = "describe a prepared data directory",
        .group = "data",
        .examples = {"folio data info data/shakespeare", "folio data info --json data/shakespeare",
                     "folio data info --verify data/shakespeare"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"DIR", &dir_, "directory that folio data prepare wrote"},
                     {.required = true});
    flags.Switch("--verify", &verify_, "read all tokens and compare their hashes");
  }

  int Run(const Context& context) override {
    const Dataset data(dir_);
    if (verify_ && !data.Verify()) {
      throw InputError(fmt::format("{}: there are no hashes to verify with", dir_),
                       "the data was prepared without hashes",
                       "prepare it again with this version of folio");
    }
    if (verify_) context.console.Note("all tokens match their hashes");
    if (const std::string note = data.BareNote(); !note.empty()) context.console.Note(note);
    context.console.Result(DescribeDataset(dir_, data.info(), context.console.json()));
    return 0;
  }

 private:
  std::string dir_;
  bool verify_ = false;
};

constexpr size_t kStoryBytes = 1 << 20;

// Writes stories, or conversations about them in lines of JSON (`questions`), until there are this
// many bytes: in pieces of at least kStoryBytes.
template <class Write>
void TellStories(uint64_t seed, int64_t bytes, bool questions, const Write& write) {
  std::string piece;
  const auto add = [&](std::string_view text) {
    piece += text;
    if (piece.size() < kStoryBytes) return;
    write(piece);
    piece.clear();
  };
  if (!questions) GenerateStories(seed, bytes, add);
  int64_t written = 0;
  for (uint64_t index = 0; questions && written < bytes; ++index) {
    const StoryQuestion asked = AskAboutStory(seed, index);
    const Json line = {
        {"messages",
         Json::array({{{"role", "user"}, {"content", asked.passage + "\n" + asked.question}},
                      {{"role", "assistant"}, {"content", asked.answer}}})}};
    const std::string text = line.dump() + "\n";
    written += std::ssize(text);
    add(text);
  }
  write(piece);
}

class StoriesCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data stories",
            .summary = "write the built-in corpus: small made-up English stories",
            .group = "data",
            .details =
                "The same seed and size give the same bytes on every machine. With --questions, "
                "writes conversations for training a model to answer: a line of a story, a "
                "question about it, and the answer.",
            .examples = {"folio data stories --out stories.txt",
                         "folio data stories --questions --seed 2 --out questions.jsonl",
                         "folio data stories --bytes 2000 --out -"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"out", &out_, "file to write; - for standard output"},
                {.placeholder = "FILE", .required = true});
    flags.Switch("--overwrite", &overwrite_, "replace an existing file");
    flags.Value(
        Field{"bytes", &bytes_, "length of the text; the last story is completed", 1, 1e12});
    flags.Value(Field{"seed", &seed_, "seed of the stories", 0, 9e15});
    flags.Switch("--questions", &questions_,
                 "write questions and answers about stories, as JSON lines");
  }

  int Run(const Context& context) override {
    CatchSignals();
    const auto tell = [&](const auto& write) {
      TellStories(static_cast<uint64_t>(seed_), bytes_, questions_, [&](const std::string& text) {
        ThrowIfStopRequested();
        write(text);
      });
    };
    if (out_ == "-") {
      tell([&](const std::string& text) { context.console.Result(text); });
      return 0;
    }
    CheckNewFile(out_, overwrite_);
    AtomicFile file(out_);
    tell([&](const std::string& text) { file.Write(text); });
    file.Commit();
    context.console.Note(fmt::format("wrote {} ({})", out_, HumanBytes(file.written())));
    return 0;
  }

 private:
  std::string out_;
  int64_t bytes_ = 4'000'000;
  int64_t seed_ = 1;
  bool overwrite_ = false;
  bool questions_ = false;
};

class DataFetchCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data fetch",
            .summary = "download a published text for training",
            .group = "data",
            .details =
                "Knows tinyshakespeare: 1.1 MB of Shakespeare, the text of nanoGPT's first "
                "example. The file is kept only if its hash is that of the published file.",
            .examples = {"folio data fetch tinyshakespeare",
                         "folio data fetch tinyshakespeare --out data/shakespeare.txt",
                         "folio data fetch tinyshakespeare --from ~/Downloads/input.txt"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"NAME", &name_, "the text to fetch"}, {.required = true});
    flags.Value(Field{"out", &out_, "file to write; NAME.txt if not given"},
                {.placeholder = "FILE"});
    flags.Value(Field{"from", &from_, "take the text from this file instead of the network"},
                {.placeholder = "FILE"});
    flags.Switch("--overwrite", &overwrite_, "replace an existing file");
  }

  int Run(const Context& context) override {
    CatchSignals();
    const PublishedFile& text = PublishedText(name_);
    const std::string out = out_.empty() ? name_ + ".txt" : out_;
    FetchText(text, out, from_, overwrite_, ShowFetching(context));
    if (context.console.json()) {
      context.console.Result(Json{{"schema", 1}, {"name", name_}, {"path", out}}.dump() + "\n");
      return 0;
    }
    context.console.Note(fmt::format("next: folio train --data {} --out RUN", ShellWord(out)));
    return 0;
  }

 private:
  std::string name_, out_, from_;
  bool overwrite_ = false;
};

}  // namespace

CommandList DataCommands() {
  return CommandsOf<DataPrepareCommand, DataInfoCommand, StoriesCommand, DataFetchCommand>();
}

}  // namespace folio
