#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/tokenizer/tokenizer_input.h"
#include "folio/io/json.h"
#include "folio/term/encode_input.h"
#include "folio/term/signals.h"
#include "folio/term/table.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

struct TextCount {
  std::string name;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t characters = 0;  // bytes that do not continue a UTF-8 character

  void Add(const TextCount& other) {
    tokens += other.tokens;
    bytes += other.bytes;
    characters += other.characters;
  }
  double BytesPerToken() const {
    return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
  }
};

Json CountJson(const TextCount& count) {
  return {{"tokens", count.tokens},
          {"bytes", count.bytes},
          {"characters", count.characters},
          {"bytes_per_token", count.BytesPerToken()}};
}

class TokenizerCountCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer count",
            .summary = "count the tokens of texts",
            .group = "tokenizer",
            .details =
                "For each file, or for standard input: tokens, bytes, characters and bytes per\n"
                "token. Each text is counted by itself.",
            .examples = {"folio tokenizer count chapters/*.txt --tokenizer o200k_base",
                         "folio data stories --out - | folio tokenizer count --tokenizer gpt2"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("TEXT-FILE", &files_, "texts to count; - for standard input");
    AddTokenizerFlag(flags, &tokenizer_);
    AddSpecialFlag(flags, &special_);
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    if (files_.empty()) files_ = {"-"};
    std::vector<TextCount> counts;
    TextCount total{.name = "total"};
    for (const std::string& file : files_) {
      ByteInput input(file);
      TextCount count{.name = file};
      EncodeInput(*tokenizer, input, SpecialRule::Named(special_),
                  [&](std::string_view text, std::span<const int32_t> ids) {
                    count.tokens += static_cast<int64_t>(ids.size());
                    count.bytes += static_cast<int64_t>(text.size());
                    count.characters += CountCharacters(text);
                  });
      total.Add(count);
      counts.push_back(std::move(count));
    }
    context.console.Result(context.console.json() ? JsonText(counts, total) : Table(counts, total));
    return 0;
  }

 private:
  static std::string JsonText(const std::vector<TextCount>& counts, const TextCount& total) {
    Json json = {{"schema", 1}};
    for (const TextCount& count : counts) {
      Json one = {{"file", count.name}};
      one.update(CountJson(count));
      json["files"].push_back(std::move(one));
    }
    json["total"] = CountJson(total);
    return json.dump() + "\n";
  }

  static std::string Table(std::vector<TextCount> counts, const TextCount& total) {
    if (counts.size() > 1) counts.push_back(total);
    std::vector<std::vector<std::string>> rows;
    for (const TextCount& count : counts) {
      rows.push_back({WithCommas(count.tokens), WithCommas(count.bytes),
                      WithCommas(count.characters), fmt::format("{:.3f}", count.BytesPerToken()),
                      count.name});
    }
    return RenderTable({">tokens", ">bytes", ">characters", ">bytes/token", "text"}, rows);
  }

  std::vector<std::string> files_;
  std::string tokenizer_, special_ = "raise";
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerCountCommand() {
  return std::make_unique<TokenizerCountCommand>();
}

}  // namespace folio
