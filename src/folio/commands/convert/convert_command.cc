#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/formats/model_formats.h"
#include "folio/io/json.h"

namespace folio {
namespace {

std::vector<std::string> DtypeNames() {
  std::vector<std::string> names;
  for (const Dtype dtype : SavedDtypes()) names.push_back(NameOfSaved(dtype));
  names.push_back(NameOfSaved(Dtype::kQ4_K, /*mixed=*/true));
  return names;
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const ModelFormat& format : ModelFormats()) {
    if (format.save != nullptr) names.emplace_back(format.name);
  }
  return names;
}

class ConvertCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "convert",
            .summary = "write a model in another format",
            .group = "model",
            .details =
                "Reads a model in any supported format, with its tokenizer, and writes it for "
                "other programs: hf is a directory for Hugging Face's libraries, gguf a file for "
                "llama.cpp and programs based on it, llmc a file for llm.c, and nanogpt nanoGPT's "
                "out_dir with ckpt.pt and, for characters, meta.pkl (placed in nanoGPT's "
                "directory, sample.py --out_dir=DST samples from it). Without --to the ending of "
                "DST selects the format: .gguf is gguf, .bin is llmc, and a name without such an "
                "ending is an hf directory.\n\nMatrices are written as --dtype; q4_k_m keeps the "
                "more important ones in more bits. Norms, biases and other small tensors stay f32 "
                "(in hf and llmc all tensors have one dtype). Without --dtype, the name of DST may "
                "end in one (demo-q8_0.gguf); otherwise it is f32.\n\n--adapter merges an adapter "
                "first. The result is read back and compared: every tensor, the tokenizer, and the "
                "logits of a prompt. If they differ, it is removed.",
            .examples = {"folio convert runs/demo demo.gguf",
                         "folio convert runs/demo demo.gguf --dtype q8_0",
                         "folio convert runs/demo demo-q4_k_m.gguf", "folio convert gpt2.gguf gpt2",
                         "folio convert runs/demo out-demo --to nanogpt",
                         "folio convert gpt2 merged --adapter my-adapter"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"SRC", &from_, "a run, a model directory or a model file"},
                     {.required = true});
    flags.Positional(Field{"DST", &to_, "file or directory to write"}, {.required = true});
    flags.Value(Field{"to", &format_, "format to write; default: by the ending of DST"}.Choices(
        FormatNames()));
    flags.Value(Field{"dtype", &dtype_,
                      "number format of the matrices; default: that in the name of DST, or f32"}
                    .Choices(DtypeNames()));
    AddAdapterFlag(flags, &adapter_);
    flags.Switch("--overwrite", &overwrite_, "replace an existing file or directory");
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    if (format_.empty()) format_ = SavedFormatOf(to_).name;
    if (dtype_.empty()) dtype_ = SavedDtypeOf(to_);
    if (dtype_.empty()) dtype_ = NameOfSaved(Dtype::kF32);
    Conversion conversion{
        .from = from_, .to = to_, .format = format_, .adapter = adapter_, .overwrite = overwrite_};
    for (const Dtype dtype : SavedDtypes()) {
      if (NameOfSaved(dtype) == dtype_) conversion.dtype = dtype;
    }
    conversion.mixed = dtype_ == NameOfSaved(Dtype::kQ4_K, /*mixed=*/true);
    if (conversion.mixed) conversion.dtype = Dtype::kQ4_K;
    Progress progress(context.console, context.progress_mode);
    const Converted made = ConvertModel(conversion, [&](int step, std::string_view doing) {
      ThrowIfStopRequested();
      progress.Show({.done = step,
                     .total = kConversionSteps,
                     .fields = {{"doing", std::string(doing), std::string(doing)}}},
                    /*milestone=*/true);
    });
    progress.Finish();
    context.console.Result(context.console.json() ? ResultJson(made) : ResultText(made));
    if (!made.note.empty()) context.console.Note(made.note);
    return 0;
  }

 private:
  std::string ResultText(const Converted& made) const {
    return fmt::format(
        "read         {}, {}\n"
        "wrote        {}, {}, {} in {}\n"
        "parameters   {}\n"
        "compared     {} tensors: each is the source's in its dtype\n"
        "logits       of {} tokens differ by at most {:.2g}, the largest is {:.3g}\n",
        made.from.string(), made.from_format, to_, format_, HumanBytes(made.bytes), dtype_,
        WithCommas(made.parameters), made.tensors, made.prompt, made.logit_difference,
        made.largest_logit);
  }

  std::string ResultJson(const Converted& made) const {
    const Json json = {{"schema", 1},
                       {"from", made.from.string()},
                       {"from_format", made.from_format},
                       {"to", to_},
                       {"format", format_},
                       {"dtype", dtype_},
                       {"bytes", made.bytes},
                       {"parameters", made.parameters},
                       {"tensors_compared", made.tensors},
                       {"prompt_tokens", made.prompt},
                       {"logit_difference", made.logit_difference},
                       {"largest_logit", made.largest_logit},
                       {"note", made.note.empty() ? Json() : Json(made.note)}};
    return json.dump(2) + "\n";
  }

  std::string from_, to_, format_, adapter_, dtype_;
  bool overwrite_ = false;
  ComputeFlags compute_;
};

}  // namespace

CommandList ConvertCommands() {
  return CommandsOf<ConvertCommand>();
}

}  // namespace folio
