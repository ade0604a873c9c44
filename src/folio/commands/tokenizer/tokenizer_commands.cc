#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/commands/commands.h"
#include "folio/commands/fetch_command.h"
#include "folio/commands/model_flags.h"
#include "folio/corpus/fetch_published.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/io/byte_input.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/lesson/explain_tokens.h"
#include "folio/report/report.h"
#include "folio/term/console.h"
#include "folio/term/streams.h"
#include "folio/term/terminal_text.h"
#include "folio/text/encode_input.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

// Longer texts are not explained: people read the output.
constexpr size_t kLongestExplained = size_t{1} << 26;

class TokenizerEncodeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "tokenizer encode",
        .summary = "turn text into token ids",
        .group = "tokenizer",
        .details =
            "Reads a file, standard input or --text, and writes the ids in one line. Memory use "
            "does not depend on the size. A special token in the text is an error before anything "
            "is written (in a pipe, if it occurs in the first 32 MiB) unless --special gives its "
            "meaning.\n\n--jsonl maps each line {\"text\":...}, or {\"hex\":...} for any bytes, to "
            "a line {\"ids\":[...]}. --format u16 and u32 write little-endian numbers without a "
            "header; bin is u16 where the vocabulary fits and else u32.",
        .examples = {"folio tokenizer encode book.txt --tokenizer gpt2 --format bin --out b.bin",
                     "folio tokenizer encode --text 'Hello, world' --tokenizer gpt2 --explain",
                     "folio tokenizer encode --jsonl --tokenizer cl100k_base <texts.jsonl"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"TEXT-FILE", &file_, "text to read; - for standard input"});
    AddTokenizerFlag(flags, &tokenizer_);
    flags.List("--text", &texts_, "encode this instead of a file",
               {.placeholder = "STRING", .meant = " "});
    AddSpecialFlag(flags, &special_);
    flags.Switch("--jsonl", &jsonl_, "read and write a JSON object in each line");
    flags.Switch("--explain", &explain_, "show how each piece of the text becomes its tokens");
    flags.Value(Field{"format", &format_, "output format of the ids"}.Choices(
        {"text", "u16", "u32", "bin"}));
    flags.Value(Field{"out", &out_, "file to write; - for standard output"},
                {.placeholder = "FILE"});
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    const bool json = context.console.json();
    CheckFlags(json);
    CatchSignals();
    compute_.Use();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    const IdFormat format = json ? IdFormat::kJson : IdFormatNamed(format_, *tokenizer);
    ByteInput input = texts_.empty() ? ByteInput(file_.empty() ? "-" : file_)
                                     : ByteInput::FromText(texts_.back(), "--text");
    ByteOutput out(context.console, out_);
    const SpecialRule rule = SpecialRule::Named(special_);
    if (jsonl_) {
      MapLines(input, out, EncodeJsonLine(*tokenizer, rule, input.name()));
    } else if (explain_) {
      Explain(*tokenizer, input, out, context.console);
    } else {
      IdWriter writer(out, format);
      EncodeInput(*tokenizer, input, rule,
                  [&](std::string_view /*text*/, std::span<const int32_t> ids) {
                    writer.Write(ids);
                    if (!input.again()) out.Flush();
                  });
      writer.Finish();
    }
    out.Finish();
    return 0;
  }

 private:
  void CheckFlags(bool json) const {
    RefuseTogether(!texts_.empty() && !file_.empty(), "--text", "a file");
    RefuseTogether(jsonl_ && explain_, "--jsonl", "--explain");
    const bool raw = format_ != "text";
    RefuseTogether(raw && jsonl_, "--format " + format_, "--jsonl");
    RefuseTogether(raw && explain_, "--format " + format_, "--explain");
    RefuseTogether(raw && json, "--format " + format_, "--json");
  }

  void Explain(const Tokenizer& tokenizer, ByteInput& input, ByteOutput& out,
               Console& console) const {
    std::string text;
    while (input.Read(text, kLongestExplained) > 0) {
      if (text.size() <= kLongestExplained) continue;
      throw InputError(input.name() + ": too long to explain",
                       "explanations are limited to texts of 64 MiB", "remove --explain");
    }
    const SpecialRule rule = SpecialRule::Named(special_);
    CheckSpecials(SpecialFinder(tokenizer.special_tokens(), rule), text, input.name());
    const bool json = console.json();
    const Terminal terminal = out_.empty() || out_ == "-" ? console.out() : Terminal{.utf8 = true};
    if (json) out.Write("{\"pieces\":[");
    bool first = true;
    ExplainText(tokenizer, text, rule, input.name(), [&](const ExplainedPretoken& pretoken) {
      if (json && !first) out.Write(",");
      first = false;
      out.Write(json ? PretokenJson(pretoken) : RenderPretoken(tokenizer, pretoken, terminal));
    });
    if (json) out.Write("]}\n");
  }

  std::string file_, tokenizer_, special_ = "raise", format_ = "text", out_;
  std::vector<std::string> texts_;
  bool jsonl_ = false, explain_ = false;
  ComputeFlags compute_;
};

class TokenizerDecodeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer decode",
            .summary = "turn token ids back into text",
            .group = "tokenizer",
            .details =
                "Reads ids separated by white space or commas, or {\"ids\":[...]}, from a file, "
                "standard input or --ids, and writes their bytes as a stream. --jsonl maps each "
                "line {\"ids\":[...]} to a line {\"text\":...}, or {\"hex\":...} where the bytes "
                "are not UTF-8.",
            .examples = {"folio tokenizer decode --ids '15496 11 995' --tokenizer gpt2",
                         "folio tokenizer decode train.bin --format bin --tokenizer gpt2 | less"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"IDS-FILE", &file_, "ids to read; - for standard input"});
    AddTokenizerFlag(flags, &tokenizer_);
    flags.List("--ids", &ids_, "decode these instead of a file",
               {.placeholder = "IDS", .meant = " "});
    flags.Switch("--jsonl", &jsonl_, "read and write a JSON object in each line");
    flags.Switch("--hex", &hex_, "write bytes as hexadecimal digits");
    flags.Switch("--replace", &replace_,
                 "always write valid UTF-8: replace invalid bytes by U+FFFD");
    flags.Value(Field{"format", &format_, "input format of the ids"}.Choices(
        {"text", "u16", "u32", "bin"}));
    flags.Value(Field{"out", &out_, "file to write; - for standard output"},
                {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    const bool json = context.console.json();
    CheckFlags();
    CatchSignals();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    const IdFormat format = IdFormatNamed(format_, *tokenizer);
    ByteInput input = ids_.empty() ? ByteInput(file_.empty() ? "-" : file_)
                                   : ByteInput::FromText(ids_.back(), "--ids");
    ByteOutput out(context.console, out_);
    if (jsonl_) {
      MapLines(input, out, DecodeJsonLine(*tokenizer, How(), input.name()));
    } else if (json) {
      std::string bytes;
      ReadIds(input, format,
              [&](std::span<const int32_t> ids) { bytes += tokenizer->Decode(ids); });
      out.Write(BytesJson(bytes, How()) + "\n");
    } else if (hex_) {
      ReadIds(input, format,
              [&](std::span<const int32_t> ids) { out.Write(HexDigits(tokenizer->Decode(ids))); });
      out.Write("\n");
    } else {
      BytesWriter writer(out, *tokenizer, replace_);
      ReadIds(input, format, [&](std::span<const int32_t> ids) {
        writer.Write(ids);
        if (!input.again()) out.Flush();
      });
      writer.Finish();
    }
    out.Finish();
    return 0;
  }

 private:
  void CheckFlags() const {
    RefuseTogether(!ids_.empty() && !file_.empty(), "--ids", "a file");
    RefuseTogether(hex_ && replace_, "--hex", "--replace");
    RefuseTogether(format_ != "text" && jsonl_, "--format " + format_, "--jsonl");
    RefuseTogether(format_ != "text" && !ids_.empty(), "--format " + format_, "--ids");
    const bool digits = !file_.empty() && file_.find_first_not_of("0123456789,") == file_.npos;
    std::error_code ignored;
    if (digits && !std::filesystem::exists(file_, ignored)) {
      throw UsageError("no such file: " + file_, {}, fmt::format("did you mean --ids {}?", file_));
    }
  }

  JsonBytes How() const {
    if (hex_) return JsonBytes::kHex;
    return replace_ ? JsonBytes::kReplace : JsonBytes::kTextIfUtf8;
  }

  std::string file_, tokenizer_, format_ = "text", out_;
  std::vector<std::string> ids_;
  bool jsonl_ = false, hex_ = false, replace_ = false;
};

struct TextCount {
  std::string name;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t characters = 0;  // bytes that do not continue a UTF-8 character

  double bytes_per_token() const {
    return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
  }
};

Json ToJson(const TextCount& count) {
  return {{"tokens", count.tokens},
          {"bytes", count.bytes},
          {"characters", count.characters},
          {"bytes_per_token", count.bytes_per_token()}};
}

// Counts the tokens of all documents of a text (text_stream.h), "-" for standard input.
TextCount CountText(const Tokenizer& tokenizer, const std::string& file, const SpecialRule& rule,
                    const TextOptions& options) {
  TextStream stream(file, options);
  TextCount count{.name = file};
  const OnEncoded add = [&](std::string_view text, std::span<const int32_t> ids) {
    count.tokens += std::ssize(ids);
    count.bytes += std::ssize(text);
    count.characters += CountCharacters(text);
  };
  if (stream.form().json_lines) {
    ForJsonDocuments(stream, file, options.document(),
                     [&](const std::string& text, const std::string& where) {
                       ByteInput input = ByteInput::FromText(text, where);
                       EncodeInput(tokenizer, input, rule, add);
                     });
  } else {
    ByteInput input = stream.AsInput();
    EncodeInput(tokenizer, input, rule, add);
  }
  return count;
}

// The texts and their totals: a table, or one JSON object (`json`).
std::string DescribeCounts(std::vector<TextCount> counts, bool json) {
  TextCount total{.name = "total"};
  for (const TextCount& count : counts) {
    total.tokens += count.tokens;
    total.bytes += count.bytes;
    total.characters += count.characters;
  }
  if (json) {
    Json all = {{"schema", 1}};
    for (const TextCount& count : counts) {
      Json one = {{"file", count.name}};
      one.update(ToJson(count));
      all["files"].push_back(std::move(one));
    }
    all["total"] = ToJson(total);
    return all.dump() + "\n";
  }
  if (counts.size() > 1) counts.push_back(total);
  std::vector<std::vector<std::string>> rows;
  for (const TextCount& count : counts) {
    rows.push_back({WithCommas(count.tokens), WithCommas(count.bytes), WithCommas(count.characters),
                    fmt::format("{:.3f}", count.bytes_per_token()), count.name});
  }
  return RenderTable({">tokens", ">bytes", ">characters", ">bytes/token", "text"}, rows);
}

class TokenizerCountCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer count",
            .summary = "count the tokens of texts",
            .group = "tokenizer",
            .details =
                "Prints for each file, or for standard input: tokens, bytes, characters and bytes "
                "per token. Files are read as by folio data prepare: in JSON lines, the documents "
                "are counted.",
            .examples = {"folio tokenizer count chapters/*.txt --tokenizer o200k_base",
                         "folio data stories --out - | folio tokenizer count --tokenizer gpt2"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("TEXT-FILE", &files_, "texts, or directories of such; - for standard input");
    AddTokenizerFlag(flags, &tokenizer_);
    AddSpecialFlag(flags, &special_);
    flags.Value(Field{"field", &texts_.field, "member that contains the text, in JSON lines"});
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    if (files_.empty()) files_ = {"-"};
    std::vector<TextCount> counts;
    const TextFiles found = FindTextFiles(files_, texts_);
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    for (const std::string& file : found.files) {
      counts.push_back(CountText(*tokenizer, file, SpecialRule::Named(special_), texts_));
    }
    context.console.Result(DescribeCounts(std::move(counts), context.console.json()));
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string tokenizer_, special_ = "raise";
  TextOptions texts_;
  ComputeFlags compute_;
};

class TokenizerInfoCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer info",
            .summary = "describe a tokenizer, or show single tokens",
            .group = "tokenizer",
            .examples = {"folio tokenizer info --tokenizer gpt2",
                         "folio tokenizer info --tokenizer cl100k_base --token 100 --token 9906"}};
  }

  void AddFlags(Flags& flags) override {
    AddTokenizerFlag(flags, &tokenizer_);
    flags.List("--token", &tokens_, "show only this token; may be repeated", {.placeholder = "ID"});
  }

  int Run(const Context& context) override {
    std::vector<int32_t> ids;
    for (const std::string& token : tokens_) {
      int64_t id = 0;
      SetField(Field{"token", &id, "", 0, 0x7FFFFFFF}, token, "--token");
      ids.push_back(static_cast<int32_t>(id));
    }
    const auto tokenizer = OpenTokenizer(tokenizer_);
    const bool ascii = AsciiOnly(context.console.out());
    if (ids.empty()) {
      ShowReport(context.console, DescribeTokenizer(*tokenizer, tokenizer_, ascii));
    } else {
      context.console.Result(DescribeTokens(*tokenizer, ids, context.console.json(), ascii));
    }
    return 0;
  }

 private:
  std::string tokenizer_;
  std::vector<std::string> tokens_;
};

// Shows the progress of one phase, and throws Stopped on request.
class Phase {
 public:
  Phase(const Context& context, std::string unit)
      : progress_(context.console, context.progress_mode), unit_(std::move(unit)) {}

  // `total` is 0 if unknown.
  void Show(int64_t done, int64_t total) {
    ThrowIfStopRequested();
    if (!progress_.Due()) return;
    const double now = SteadySeconds();
    rate_.Add(static_cast<double>(done - done_), now - seconds_);
    done_ = done;
    seconds_ = now;
    std::vector<ProgressField> fields;
    if (total > 0) fields.push_back(rate_.EtaField(static_cast<double>(total - done)));
    progress_.Show({unit_, done, total, fields});
  }

 private:
  Progress progress_;
  std::string unit_;
  RateMeter rate_{/*warm_up=*/0};
  int64_t done_ = 0;
  double seconds_ = SteadySeconds();
};

class TokenizerTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "tokenizer train",
        .summary = "make a byte-level BPE tokenizer from texts",
        .group = "tokenizer",
        .details =
            "Splits the texts into pieces with --pattern and repeatedly merges the most frequent "
            "pair of neighbours (of equally frequent pairs the one with the smallest ids), until "
            "there are --vocab-size tokens. Writes tokenizer.json, tokenizer_config.json, "
            "vocab.json and merges.txt, which Hugging Face's libraries can read. Files are read as "
            "by folio data prepare; each file and each document of JSON lines is a separate text. "
            "Bytes that are not UTF-8 are treated like all others.",
        .examples = {"folio tokenizer train books/*.txt --vocab-size 32000 --out tokenizers/b",
                     "folio tokenizer train - --vocab-size 1024 --pattern o200k --out t1k"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &options_.files,
                      "texts to learn from, or directories of such; - for standard input",
                      {.required = true});
    flags.Value(Field{"out", &options_.out, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Value(Field{"vocab-size", &options_.trainer.vocab_size,
                      "number of tokens, including bytes and special tokens", 256, 1 << 21});
    flags.Value(
        Field{"pattern", &pattern_, "pattern that splits text into pieces before merging"}.Choices(
            {"gpt2", "cl100k", "o200k"}));
    flags.Value(Field{"specials", &specials_, "special tokens, separated by commas"});
    flags.Switch("--specials-first", &options_.trainer.specials_first,
                 "give special tokens the first ids, not the last");
    flags.Value(
        Field{"min-count", &options_.trainer.min_count, "minimum count of a pair to be merged", 1});
    flags.Value(
        Field{"field", &options_.texts.field, "member that contains the text, in JSON lines"});
    compute_.Add(flags);
    flags.Switch("--overwrite", &options_.overwrite, "replace an existing tokenizer");
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    BpeTrainerOptions& trainer = options_.trainer;
    trainer.pattern = *FindSplitPattern(pattern_);
    trainer.specials = specials_.empty() ? std::vector<std::string>{} : Split(specials_, ',');
    std::optional<Phase> phase;
    const auto show = [&](const char* unit) {
      return [&phase, &context, unit, begun = false](int64_t done, int64_t total) mutable {
        if (!std::exchange(begun, true)) phase.emplace(context, unit);
        phase->Show(done, total);
      };
    };
    const std::string text = options_.files.front() == "-" ? "FILE" : options_.files.front();
    TextFiles found = FindTextFiles(options_.files, options_.texts);
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    options_.files = std::move(found.files);
    const TrainedTokenizer made =
        TrainTokenizer(options_, {.counting = show("bytes"), .merging = show("merge")});
    phase.reset();
    if (made.vocab_size < trainer.vocab_size) {
      context.console.Note(
          fmt::format("the texts have no more pairs to merge: {} tokens instead of {}",
                      WithCommas(made.vocab_size), WithCommas(trainer.vocab_size)));
    }
    context.console.Result(DescribeTrained(options_, made, context.console.json()));
    context.console.Note(
        fmt::format("next: folio data prepare {} --tokenizer {} --out DATA", text, options_.out));
    return 0;
  }

 private:
  TrainTokenizerOptions options_;
  std::string pattern_ = "gpt2", specials_ = "<|endoftext|>";
  ComputeFlags compute_;
};

class TokenizerFetchCommand final : public FetchPublishedCommand {
 public:
  TokenizerFetchCommand() : FetchPublishedCommand(PublishedVocabularies()) {}

  CommandInfo info() const override {
    return {
        .name = "tokenizer fetch",
        .summary = "download the files of a published tokenizer",
        .group = "tokenizer",
        .details =
            "Downloads them to the directory where --tokenizer NAME looks for them: "
            "$FOLIO_HOME/tokenizers, or ~/.cache/folio/tokenizers. A file is kept only if its hash "
            "is that of the published file. Only the fetch commands of folio use the network.",
        .examples = {"folio tokenizer fetch gpt2", "folio tokenizer fetch --list",
                     "folio tokenizer fetch gpt2 --from ~/Downloads"}};
  }
};

}  // namespace

CommandList TokenizerCommands() {
  return CommandsOf<TokenizerEncodeCommand, TokenizerDecodeCommand, TokenizerCountCommand,
                    TokenizerInfoCommand, TokenizerTrainCommand, TokenizerFetchCommand>();
}

}  // namespace folio
