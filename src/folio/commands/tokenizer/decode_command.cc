#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/term/signals.h"
#include "folio/term/token_streams.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

class TokenizerDecodeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "tokenizer decode",
        .summary = "turn token ids back into text",
        .group = "tokenizer",
        .details =
            "Reads ids between white space or commas, or {\"ids\":[...]}, from a file,\n"
            "standard input or --ids, and writes exactly the bytes that they stand for,\n"
            "as they come. --jsonl maps each line {\"ids\":[...]} to a line {\"text\":...}, or\n"
            "{\"hex\":...} where the bytes are not UTF-8.",
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
    flags.Switch("--replace", &replace_, "write UTF-8 always: U+FFFD for what is none");
    flags.Value(
        Field{"format", &format_, "how the ids are stored"}.Choices({"text", "u16", "u32", "bin"}));
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
      throw UsageError("there is no file " + file_, {},
                       fmt::format("did you mean --ids {}?", file_));
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

}  // namespace

std::unique_ptr<Command> NewTokenizerDecodeCommand() {
  return std::make_unique<TokenizerDecodeCommand>();
}

}  // namespace folio
