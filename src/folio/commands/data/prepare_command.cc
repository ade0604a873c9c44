#include <fmt/format.h>

#include <string>
#include <utility>

#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/corpus/describe_dataset.h"
#include "folio/corpus/piece_ranks.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/run/run_config.h"
#include "folio/term/signals.h"

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
            "Writes train.bin, val.bin, dataset.json and the tokenizer. Files are read\n"
            "in order, as one text, of which blocks spread over it are held out for evaluation\n"
            "(--val-split tail: its end); of directories all texts below them; - is standard\n"
            "input. Each file is a document, and so is each object of JSON lines, or of a JSON\n"
            "array: its \"text\", or the member that --field names. A tokenizer that has an\n"
            "end-of-text puts it between documents.\n"
            "\n"
            "What a file is follows from its contents: gzip, bzip2, xz and zstd streams and\n"
            "UTF-16 with a byte order mark are unpacked beside --out for as long as it takes.\n"
            "What is no text (archives, Parquet, PDF, images, models) is an error that says\n"
            "what to do, and is left out of directories; --tokenizer bytes --raw takes any\n"
            "bytes as they are.\n"
            "\n"
            "Stopped, or killed, the same command goes on where it was. Under mpirun or srun the\n"
            "ranks share the work, where they see the same files.",
        .examples = {"folio data prepare input.txt --tokenizer char --out data/input",
                     "folio data prepare a.txt b.jsonl.zst --tokenizer gpt2 --out data/both",
                     "folio data prepare crawl/ --field content --tokenizer gpt2 --out data/web",
                     "folio data prepare big.txt --tokenizer gpt2 --special allow "
                     "--shard-tokens 100000000 --out data/big",
                     "mpirun -n 8 folio data prepare crawl/ --tokenizer gpt2 --out data/web"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &options_.files,
                      "texts, JSON lines, or directories of such; - for standard input",
                      {.required = true});
    flags.Value(Field{"out", &options_.out, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Switch("--overwrite", &options_.overwrite, "replace the data set that is there");
    flags.Value(Field{"special", &options_.special,
                      "what the text of a special token in a document is: that token, an error, or "
                      "ordinary text"}
                    .Choices({"allow", "raise", "ordinary"}));
    flags.Value(Field{"shard-tokens", &options_.shard_tokens,
                      "cut the data into files of so many tokens; 0 for one file", 0, 1e15});
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
    options_.raw = settings_.config.data.raw;
    TextFiles found = FindTextFiles(options_.files, {.field = options_.field, .raw = options_.raw});
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    options_.files = std::move(found.files);
    DatasetInfo made;
    try {
      made = PrepareWithProgress(options_, context.console, context.progress_mode);
    } catch (const Stopped&) {
      context.console.Note("stopped; the same command goes on from what was kept");
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

}  // namespace

std::unique_ptr<Command> NewDataPrepareCommand() {
  return std::make_unique<DataPrepareCommand>();
}

}  // namespace folio
