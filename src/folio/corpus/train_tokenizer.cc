#include "folio/corpus/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/corpus/text_files.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/text/bpe_tokenizer.h"

namespace folio {
namespace {

// Bytes of text in memory at once, as long as it can be cut.
constexpr size_t kTrainingWindow = size_t{1} << 25;

// The last place where the beginning of a text can be cut, or one near it; 0 if there is none.
size_t LastCut(std::string_view text) {
  text = text.substr(0, CompleteUtf8Prefix(text));
  for (size_t back = 4096;; back *= 8) {
    const size_t at = text.size() > back ? text.size() - back : 1;
    const size_t cut = at < text.size() ? FindCut(text, at) : text.size();
    if (cut < text.size()) return cut;
    if (at == 1) return 0;
  }
}

// Passes a text that is one document to the trainer in pieces, and returns its number of bytes.
int64_t CountDocument(TextStream& stream, BpeTrainer& trainer,
                      const std::function<void(int64_t bytes)>& progress) {
  int64_t bytes = 0;
  std::string text;
  size_t window = kTrainingWindow;
  for (bool at_end = false; !at_end;) {
    while (text.size() < window && !at_end) {
      const size_t got = stream.Read(text, window - text.size());
      bytes += static_cast<int64_t>(got);
      at_end = got == 0;
    }
    const size_t cut = at_end ? text.size() : LastCut(text);
    trainer.AddText(std::string_view(text).substr(0, cut));
    text.erase(0, cut);
    window = std::max(kTrainingWindow, 2 * text.size());
    progress(bytes);
  }
  return bytes;
}

// The bytes of the files if those are the bytes of their documents, else 0.
int64_t TotalBytes(const std::vector<std::string>& files, const TextOptions& options) {
  int64_t total = 0;
  for (const std::string& file : files) {
    const TextInput input = FindTextInput(file, options);
    if (input.form.converted || input.form.json_lines) return 0;
    total += input.bytes;
  }
  return total;
}

// Passes all documents to the trainer, and returns their number of bytes.
int64_t CountFiles(const std::vector<std::string>& files, const TextOptions& options,
                   BpeTrainer& trainer,
                   const std::function<void(int64_t done, int64_t total)>& progress) {
  const int64_t total = TotalBytes(files, options);
  int64_t bytes = 0;
  for (const std::string& file : files) {
    TextStream stream(file, options);
    const auto show = [&](int64_t of_file) {
      if (progress) progress(bytes + of_file, total);
    };
    if (!stream.form().json_lines) {
      bytes += CountDocument(stream, trainer, show);
      continue;
    }
    ForJsonDocuments(stream, file, options.document(),
                     [&](const std::string& text, const std::string&) {
                       trainer.AddText(text);
                       bytes += std::ssize(text);
                       show(0);
                     });
  }
  return bytes;
}

bool IsTokenizerFile(const std::string& name) {
  return std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}

}  // namespace

TrainedTokenizer TrainTokenizer(const TrainTokenizerOptions& options,
                                const TrainTokenizerHooks& hooks) {
  CheckReplaceable(options.out, "tokenizer", options.overwrite, IsTokenizerFile);
  const MadeParents parents(options.out);
  AtomicDirectory directory(options.out);
  BpeTrainer trainer(options.trainer);
  const double begin = SteadySeconds();
  const int64_t bytes = CountFiles(options.files, options.texts, trainer, hooks.counting);
  if (bytes == 0) {
    throw InputError(fmt::format("{}: empty", options.files.front()), "the texts are empty",
                     "give a text file");
  }
  const double counted = SteadySeconds();
  BpeVocab vocab = trainer.Train(hooks.merging);
  const double merged = SteadySeconds();
  const BpeTokenizer tokenizer(std::move(vocab));
  tokenizer.Save(directory.path().string());
  ThrowIfStopRequested();
  directory.Commit();
  return {.hash = tokenizer.hash(),
          .vocab_size = tokenizer.vocab_size(),
          .merges = std::ssize(tokenizer.vocab().merges),
          .bytes = bytes,
          .pretokens = trainer.pretokens(),
          .distinct_pretokens = trainer.distinct_pretokens(),
          .tokens = trainer.tokens(),
          .count_seconds = counted - begin,
          .merge_seconds = merged - counted};
}

std::string DescribeTrained(const TrainTokenizerOptions& options, const TrainedTokenizer& made,
                            bool json) {
  const std::string_view pattern = SplitPatternName(options.trainer.pattern);
  const double bytes_per_token =
      made.tokens == 0 ? 0 : static_cast<double>(made.bytes) / static_cast<double>(made.tokens);
  if (json) {
    const Json values = {{"schema", 1},
                         {"dir", options.out},
                         {"pattern", pattern},
                         {"tokenizer_hash", made.hash},
                         {"vocab_size", made.vocab_size},
                         {"merges", made.merges},
                         {"bytes", made.bytes},
                         {"pieces", made.pretokens},
                         {"distinct_pieces", made.distinct_pretokens},
                         {"tokens", made.tokens},
                         {"bytes_per_token", bytes_per_token},
                         {"count_seconds", made.count_seconds},
                         {"merge_seconds", made.merge_seconds}};
    return values.dump(2) + "\n";
  }
  return fmt::format(
      "directory    {}\n"
      "vocabulary   {} tokens, {} merges\n"
      "pattern      {}\n"
      "text         {}, {} pieces, {} of them distinct\n"
      "tokens       {}, {:.3f} bytes per token\n"
      "time         {:.2f} s to count, {:.2f} s to merge\n",
      options.out, WithCommas(made.vocab_size), WithCommas(made.merges), pattern,
      HumanBytes(made.bytes), WithCommas(made.pretokens), WithCommas(made.distinct_pretokens),
      WithCommas(made.tokens), bytes_per_token, made.count_seconds, made.merge_seconds);
}

std::unique_ptr<Tokenizer> StoriesTokenizer() {
  BpeTrainer trainer({.vocab_size = 400});
  GenerateStories(/*seed=*/0, /*bytes=*/50'000,
                  [&](std::string_view story) { trainer.AddText(story); });
  return std::make_unique<BpeTokenizer>(trainer.Train());
}

}  // namespace folio
