#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bodies.h"
#include "folio/base/log.h"
#include "folio/corpus/conversation_lines.h"
#include "folio/corpus/text_stream.h"
#include "folio/eval/cloze.h"
#include "folio/io/json.h"
#include "folio/io/settings.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/chat_template.h"
#include "folio/train/config.h"
#include "folio/train/run_log.h"
#include "input.h"

namespace folio {
namespace {

constexpr std::string_view kDocument =
    R"({"a": [1, -2.5e3, true, null, "\u00e9\ud83d\ude00\n"], "b": {"c": {}, "d": []}, "e": 1e-7})";

// A text for each kind of line that is read.
constexpr std::string_view kLines[] = {
    R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},)"
    R"({"role":"assistant","content":"a"}]})",
    R"({"prompt":"p","completion":"c"})",
    R"({"instruction":"i","input":"j","output":"o"})",
    R"({"conversations":[{"from":"human","value":"u"},{"from":"function_call","value":"{}"},)"
    R"({"from":"gpt","value":"a","weight":0}],"tools":"[]","system":"s"})",
    R"([{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":null,)"
    R"("tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"reasoning_content":"r"}])",
    R"({"text":"a document"})",
    R"({"ctx":"c","ctx_a":"a","ctx_b":"b","activity_label":"l","endings":["x","y"],"label":"1"})",
    R"({"query":"q","choices":["x","y","z"],"gold":2})"};

constexpr std::string_view kMetrics =
    R"({"step":0,"loss":4.2,"lr":0.001,"grad_norm":1.5,"tokens":32,"tokens_per_second":100,)"
    R"("seconds":0.5,"time":1700000000.125,"train_eval_loss":4.1,"val_loss":4.3,)"
    R"("layer_norms":{"grad":[1,2],"update":[1,2],"weight":[1,2]}})"
    "\n"
    R"({"step":1,"loss":null,"skipped":"loss","skipped_parameter":"wte","tokens":64,"seconds":1})"
    "\n"
    R"({"step":2,"loss":3.9,"tokens":96,"seconds":1.5,"ended_by":"patience"})"
    "\n";

constexpr std::string_view kToml =
    "# settings\n[model]\nn_layer = 2\nn_embd = 16\nactivation_function = \"gelu_new\"\n"
    "embd_pdrop = 0.1\nbias = true\nattn_window = 3\n\n[train]\nmax_steps = 1_000\nlr = 1e-3\n"
    "seed = 0x10\ndtype = 'auto'\ntext = \"\"\"a\n\\u00e9\"\"\"\nlist = [1, [2, {a.b = 3}]]\n"
    "when = 1979-05-27T07:32:00Z\n[[tables]]\n";

constexpr std::string_view kGpt2Config =
    R"({"model_type":"gpt2","vocab_size":11,"n_positions":5,"n_embd":6,"n_layer":2,"n_head":2,)"
    R"("n_inner":null,"activation_function":"gelu_new","layer_norm_epsilon":1e-05,)"
    R"("resid_pdrop":0.1,"tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":[1,2]})";

std::string ReadSettings(const std::string& text, uint8_t kind) {
  TrainConfig train;
  GptConfig model;
  std::vector<Field> fields;
  const auto add = [&](const char* section, std::vector<Field> more) {
    for (Field& field : more) {
      field.key = std::string(section) + "." + field.key;
      fields.push_back(std::move(field));
    }
  };
  add("train", train.Fields());
  add("model", model.Fields());
  Settings settings(std::move(fields));
  if (kind % 2 == 0) {
    settings.ReadToml(Layer::kFile, text, "x.toml");
  } else {
    const size_t half = text.find('=');
    settings.Set(Layer::kSet, "train." + text.substr(0, half),
                 half == text.npos ? "" : text.substr(half + 1), "--set");
  }
  settings.Resolve();
  return settings.ToToml();
}

}  // namespace

testing::AssertionResult JsonIsReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const std::string text = input.Byte() < 96
                               ? std::string(input.Rest())
                               : ChangedText(std::string(kDocument), JsonFragments(), input);
  std::string once;
  const auto read = ReadOrRefused([&] { once = ParseJson(text, "x").dump(); });
  if (!read) return read;
  const auto skipped = ReadOrRefused([&] {
    JsonReader reader(text, {.name = "x"});
    reader.SkipValue();
    reader.ExpectEnd();
  });
  if (!skipped || once.empty()) return skipped;
  if (ParseJson(once, "again").dump() == once) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not read as it was written: " << once;
}

testing::AssertionResult SettingsAreReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  const bool raw = kind % 8 == 0;
  if (kind < 128) {
    const std::string text =
        raw ? std::string(input.Rest()) : ChangedText(std::string(kToml), JsonFragments(), input);
    std::string toml;
    const auto read = ReadOrRefused([&] { toml = ReadSettings(text, kind); },
                                    {ErrorKind::kInput, ErrorKind::kUsage});
    if (!read || toml.empty()) return read;
    if (ReadSettings(toml, 0) == toml) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "settings do not come back from " << toml;
  }
  const std::string text = raw ? std::string(input.Rest())
                               : ChangedText(std::string(kGpt2Config), JsonFragments(), input);
  return ReadOrRefused([&] {
    GptConfig config = GptConfigFromJson(text, "config.json");
    AddGenerationConfig(text, "generation_config.json", config);
    if (GptConfigFromJson(GptConfigToJson(config), "again") != config) {
      throw Error(ErrorKind::kRuntime, "a configuration does not come back: " + text);
    }
  });
}

testing::AssertionResult LinesAreReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  if (kind < 96) {
    SetLogLevel(LogLevel::kError);  // damaged lines cause warnings
    TheScratch().Clear();
    TheScratch().Write(kMetricsFile,
                       kind < 16 ? std::string(input.Rest())
                                 : ChangedText(std::string(kMetrics), JsonFragments(), input));
    const auto read = ReadOrRefused([&] { ReadRunLog(TheScratch().dir()); });
    if (!read) return read;
    // A mended file can be read.
    CutLines(TheScratch().dir() + "/" + kMetricsFile, kind % 4);
    return ReadOrRefused([&] { ReadRunLog(TheScratch().dir()); });
  }
  const auto where = [] { return std::string("x:1"); };
  const std::string text = kind < 112 ? std::string(input.Rest())
                                      : ChangedText(std::string(kLines[kind % std::size(kLines)]),
                                                    JsonFragments(), input);
  for (const ClozeText as : {ClozeText::kAsIs, ClozeText::kHellaSwag}) {
    const auto read = ReadOrRefused([&] { ParseClozeItem(text, where, as); });
    if (!read) return read;
  }
  const auto document = ReadOrRefused([&] { TextOfJsonLine(text, "text", where); });
  if (!document) return document;
  // A conversation's answers are within its tokens.
  static const std::unique_ptr<Tokenizer> tokenizer =
      ByteTokenizer().WithSpecials(std::vector<std::string>{"<|im_start|>", "<|im_end|>"});
  static const ChatEncoder encoder(*tokenizer, OpenChatTemplate("chatml"), {});
  return ReadOrRefused([&] {
    const EncodedChat chat =
        encoder.EncodeAnswers(*tokenizer, ReadConversation(ParseDataLine(text, "x"), "x:1"), "x:1");
    size_t last = 0;
    for (const TokenRange& range : chat.answers) {
      if (range.begin < last || range.end <= range.begin || range.end > chat.ids.size()) {
        throw Error(ErrorKind::kRuntime, "an answer lies outside of its conversation");
      }
      last = range.end;
    }
  });
}

}  // namespace folio
