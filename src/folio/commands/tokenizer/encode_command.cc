#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/lesson/explain_tokens.h"
#include "folio/term/signals.h"
#include "folio/term/token_streams.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

// Explanations are read by people.
constexpr size_t kLongestExplained = size_t{1} << 26;

class TokenizerEncodeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "tokenizer encode",
        .summary = "turn text into token ids",
        .group = "tokenizer",
        .details =
            "Reads a file, standard input or --text, and writes the ids in one line. Any\n"
            "size works in little memory. Text that contains a special token is an error\n"
            "before anything is written (in a pipe: within the first 32 MiB; after that\n"
            "where it is met) unless --special says what it means.\n"
            "\n"
            "--jsonl maps each line {\"text\":...}, or {\"hex\":...} for any bytes, to a line\n"
            "{\"ids\":[...]}. --format u16 and u32 write little-endian numbers without a\n"
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
    flags.Value(Field{"format", &format_, "how the ids are written"}.Choices(
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
      throw InputError(input.name() + ": too long to be explained",
                       "explanations are for texts of at most 64 MiB", "leave --explain out");
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

}  // namespace

std::unique_ptr<Command> NewTokenizerEncodeCommand() {
  return std::make_unique<TokenizerEncodeCommand>();
}

}  // namespace folio
