#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>

#include "bodies.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/nanogpt.h"
#include "folio/formats/openai.h"
#include "folio/io/safetensors.h"
#include "folio/model/lora.h"
#include "folio/model/test_models.h"
#include "folio/model_files/adapter_files.h"
#include "folio/tensor/dtype.h"
#include "folio/train/train_state.h"
#include "input.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

// Files by name; they are small. Changes bytes, or a text: JSON files, and the header of a
// safetensors file.
std::string Changed(const std::string& name, const std::string& file, bool as_text,
                    FuzzInput& input) {
  if (as_text && name.ends_with(".safetensors") && file.size() > 8) {
    const auto header = static_cast<size_t>(static_cast<uint8_t>(file[0])) |
                        static_cast<size_t>(static_cast<uint8_t>(file[1])) << 8;
    return SafetensorsBytes(ChangedText(file.substr(8, header), JsonFragments(), input),
                            file.substr(8 + header));
  }
  return as_text ? ChangedText(file, JsonFragments(), input) : ChangedBytes(file, input);
}

// Writes the files, one of them changed.
void WriteChanged(const Files& files, FuzzInput& input) {
  TheScratch().Clear();
  const uint8_t which = input.Byte(), how = input.Byte();
  size_t i = 0;
  for (const auto& [name, file] : files) {
    const bool changed = i++ == which % files.size();
    fs::create_directories(fs::path(TheScratch().dir() + "/" + name).parent_path());
    TheScratch().Write(name, !changed   ? file
                             : how < 16 ? std::string(input.Rest())
                                        : Changed(name, file, how < 192, input));
  }
}

Files TrainStateFiles() {
  const auto backend = MakeReferenceBackend();
  const ParamTable table(TinyConfig());
  TheScratch().Clear();
  TorchRng rng(3);
  const Optimizer optimizer(*backend, {}, Dtype::kF32, Shards(BucketsOf(table), 1));
  SaveTrainState(TheScratch().dir(),
                 {.step = 7, .evaluation = Evaluation{1, 2}, .torch = rng.state()}, table,
                 optimizer.State());
  return FilesBelow(TheScratch().dir());
}

Files DatasetFiles() {
  return {{"dataset.json",
           R"({"format_version":2,"dtype":"uint16","format":"folio","vocab_size":9,)"
           R"("tokenizer":{"kind":"bytes","hash":"0123456789abcdef"},"special":"raise",)"
           R"("documents":1,"text_bytes":9,"train_tokens":4,"val_tokens":2,)"
           R"("train_shards":[{"file":"train.bin","tokens":4,"hash":"0"}],)"
           R"("val_shards":[{"file":"val.bin","tokens":2,"hash":"0"}],"sources":[]})"},
          {"train.bin", std::string("\1\0\2\0\3\0\4\0", 8)},
          {"val.bin", std::string("\1\0\2\0", 4)}};
}

}  // namespace

testing::AssertionResult SafetensorsAreReadOrRefused(std::string_view bytes) {
  static const std::string right = SafetensorsBytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
      R"("c":{"dtype":"I64","shape":[],"data_offsets":[22,30]}})",
      std::string(30, 'x'));
  FuzzInput input(bytes);
  TheScratch().Clear();
  const uint8_t kind = input.Byte();
  const std::string path = TheScratch().Write(
      "x.safetensors",
      kind < 16 ? std::string(input.Rest()) : Changed("x.safetensors", right, kind < 160, input));
  return ReadOrRefused([&] {
    SafetensorsFile file(path);
    for (const TensorInfo& info : file.tensors()) {
      IsFloating(info.dtype) ? static_cast<void>(file.ReadAs<float>(info.name))
                             : static_cast<void>(file.ReadAs<int64_t>(info.name));
    }
  });
}

testing::AssertionResult ModelDirectoryIsReadOrRefused(std::string_view bytes) {
  static const Files sharded = FilesBelow(Fixture("transformers") / "sharded"),
                     old = FilesBelow(Fixture("transformers") / "old"),
                     longrope = FilesBelow(Fixture("families") / "phi3_long"),
                     openai = FilesBelow(Fixture("openai-tiny"));
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  WriteChanged(kind < 65 ? sharded : kind < 100 ? longrope : kind < 192 ? old : openai, input);
  return ReadOrRefused([&] {
    const FoundModel found = kind < 192 ? SavedFormat("hf").open(TheScratch().dir(), Loading::kMap)
                                        : OpenOpenAiCheckpoint(TheScratch().dir(), Loading::kMap);
    ReadWeights(found.model);
  });
}

testing::AssertionResult RunFilesAreReadOrRefused(std::string_view bytes) {
  static const Files state = TrainStateFiles(), dataset = DatasetFiles(),
                     adapter = FilesBelow(Fixture("fine-tuning") / "adapter"),
                     nanogpt = FilesBelow(Fixture("nanogpt-tiny"));
  static const auto backend = MakeReferenceBackend();
  static const ParamTable table(TinyConfig());
  static Optimizer optimizer(*backend, {}, Dtype::kF32, Shards(BucketsOf(table), 1));
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte() % 4;
  WriteChanged(kind == 0 ? state : kind == 1 ? dataset : kind == 2 ? adapter : nanogpt, input);
  const std::string dir = TheScratch().dir();
  return ReadOrRefused([&] {
    if (kind == 0) LoadTrainState(dir, table, optimizer);
    if (kind == 1) {
      const Dataset data(dir);
      data.train().Validate(0);
    }
    if (kind == 2) {
      LoadAdapter(dir, GptWeights(ParamTable(TinyConfig(), LoadAdapterConfig(dir, TinyConfig()))));
    }
    if (kind == 3) OpenNanoGpt(dir + "/ckpt.pt", Loading::kMap);
  });
}

testing::AssertionResult TextIsReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  // Each kind of file has a beginning here, so that few inputs are refused by the format check.
  constexpr std::string_view kBegins[] = {"",
                                          "\x1F\x8B\x08",
                                          "BZh91AY&SY",
                                          std::string_view("\xFD\x37zXZ\0", 6),
                                          "\x28\xB5\x2F\xFD",
                                          "\xFF\xFE",
                                          "\xFE\xFF",
                                          "[{\"text\":",
                                          "[\"",
                                          "{\"text\":\"",
                                          "{\n\"text\":",
                                          "a,\"b\"\n1,"};
  const std::string text = std::string(kBegins[kind % std::size(kBegins)]).append(input.Rest());
  const std::string path = TheScratch().Write(kind < 112   ? "t"
                                              : kind < 176 ? "t.jsonl"
                                                           : "t.csv",
                                              text);
  return ReadOrRefused([&] {
    TextStream stream(path, {});
    stream.begins_with_document();
    std::string out;
    while (stream.Read(out, 100) > 0 && out.size() < (size_t{1} << 24)) continue;
  });
}

testing::AssertionResult TokensAreReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const std::string header =
      TokenHeader(input.Byte(), input.Byte() % 2 == 0 ? TokenWidth::k16 : TokenWidth::k32);
  const bool train_header = input.Byte() % 2 == 0, val_header = input.Byte() % 4 == 0;
  const std::string_view val = input.Take(input.Byte());
  const auto table = ReadOrRefused([&] {
    const ConversationTable read = ConversationTable::FromBytes(val, "t", input.Byte());
    if (read.Bytes() != val) throw Error(ErrorKind::kRuntime, "a table does not come back");
  });
  if (!table) return table;
  TheScratch().Write("train.bin", std::string(train_header ? header : "").append(input.Rest()));
  TheScratch().Write("val.bin", std::string(val_header ? header : "").append(val));
  return ReadOrRefused([&] {
    const Dataset data(TheScratch().dir());
    data.train().Validate(0);
    data.val().Validate(0);
  });
}

}  // namespace folio
