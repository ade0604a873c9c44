#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/corpus/json_documents.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/io/json.h"
#include "folio/term/encode_input.h"
#include "folio/term/signals.h"
#include "folio/term/table.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

struct TextCount {
  std::string name;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t characters = 0;  // bytes that do not continue a UTF-8 character

  double bytes_per_token() const {
    return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
  }
};

// Counts the tokens of all documents of a text (text_stream.h), "-" for standard input; tokens and
// errors are those of EncodeInput (term/encode_input.h).
TextCount CountText(const Tokenizer& tokenizer, const std::string& file, const SpecialRule& rule,
                    const TextOptions& options);

// The texts and what they have together: a table, or one JSON object (`json`).
std::string DescribeCounts(std::vector<TextCount> counts, bool json);

Json ToJson(const TextCount& count) {
  return {{"tokens", count.tokens},
          {"bytes", count.bytes},
          {"characters", count.characters},
          {"bytes_per_token", count.bytes_per_token()}};
}

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
    ForJsonDocuments(stream, file, options.field,
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
                "For each file, or for standard input: tokens, bytes, characters and bytes per\n"
                "token. Each text is counted by itself. What is a text is what folio data prepare\n"
                "takes for one: of JSON lines, the documents.",
            .examples = {"folio tokenizer count chapters/*.txt --tokenizer o200k_base",
                         "folio data stories --out - | folio tokenizer count --tokenizer gpt2"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("TEXT-FILE", &files_, "texts, or directories of such; - for standard input");
    AddTokenizerFlag(flags, &tokenizer_);
    AddSpecialFlag(flags, &special_);
    flags.Value(Field{"field", &texts_.field, "of JSON lines: the member that holds the text"});
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

}  // namespace

std::unique_ptr<Command> NewTokenizerCountCommand() {
  return std::make_unique<TokenizerCountCommand>();
}

}  // namespace folio
