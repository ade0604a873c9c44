#include <algorithm>
#include <cstdint>
#include <string>

#include "bodies.h"
#include "changes.h"
#include "folio/formats/llmc.h"
#include "folio/formats/llmc_tokenizer.h"
#include "folio/formats/nanogpt.h"
#include "folio/io/file.h"
#include "folio/io/test_tf_bytes.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/io/tf_bundle.h"
#include "folio/io/torch_file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "input.h"
#include "scratch.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

std::string FixtureBytes(const std::string& name) {
  return ReadFile(Fixture(name.substr(0, name.find('/'))) / name.substr(name.find('/') + 1));
}

// Looks at every number, for the sanitizer to see.
void ReadAll(const TensorFile& file) {
  size_t set = 0;
  for (const TensorInfo& info : file.tensors()) {
    set += static_cast<size_t>(std::count(info.data, info.data + info.bytes, std::byte{1}));
  }
  EXPECT_LT(set, size_t{1} << 60);
}

std::string WithoutZipChecksums(std::string bytes) {
  for (size_t at = 0; (at = bytes.find("PK\x01\x02", at)) != bytes.npos; ++at) {
    bytes.replace(at + 16, 4, 4, '\0');
  }
  return bytes;
}

std::string SmallTorchFile(FuzzInput& input, uint8_t kind) {
  if (kind < 96) {
    const std::string pickle = PickleDict(
        {{"a", PickleTensor("FloatStorage", "0", 6, 1, {2, 2}, {2, 1})},
         {"b", PickleDict({{"c", PickleTensor("HalfStorage", "1", 4, 0, {2, 2}, {1, 2})}})}});
    return TorchBytes(ChangedBytes(pickle, input), {std::string(24, 'x'), std::string(8, 'y')});
  }
  if (kind < 160) return TorchBytes(std::string(input.Rest()), {std::string(24, 'x')});
  const ZipFiles files = {{"x/data.pkl", "\x80\x02}."}, {"x/data/0", "data"}};
  return ChangedBytes(ZipBytes(files, kind % 2 == 0), input);
}

}  // namespace

testing::AssertionResult TorchFileIsReadOrRefused(std::string_view bytes) {
  // Without checksums, so that changes are read and not only noticed.
  static const std::string checkpoint = WithoutZipChecksums(FixtureBytes("nanogpt-tiny/ckpt.pt"));
  FuzzInput input(bytes);
  TheScratch().Clear();
  const uint8_t kind = input.Byte();
  const std::string path =
      TheScratch().Write("x.pt", kind < 16    ? std::string(input.Rest())
                                 : kind < 200 ? SmallTorchFile(input, kind)
                                              : ChangedBytes(checkpoint, input));
  return ReadOrRefused([&] {
    ReadAll(TorchFile(path));
    ReadWeights(OpenNanoGpt(path, Loading::kMap).model);
  });
}

testing::AssertionResult LlmcFileIsReadOrRefused(std::string_view bytes) {
  static const std::string model = FixtureBytes("llmc-tiny/model.bin");
  static const std::string tokens = LlmcTokenizerBytes(BpeTokenizer(LearntVocab(1, 262)));
  FuzzInput input(bytes);
  TheScratch().Clear();
  if (const uint8_t kind = input.Byte(); kind < 64) {
    const std::string path = TheScratch().Write(
        "tokens", kind < 16 ? std::string(input.Rest()) : ChangedBytes(tokens, input));
    return ReadOrRefused([&] {
      const auto tokenizer = ReadLlmcTokenizer(path);
      if (tokenizer != nullptr) tokenizer->DecodeText(tokenizer->EncodeOrdinary("abcab é"));
    });
  }
  const std::string path = TheScratch().Write("x.bin", [&] {
    std::string changed = model;
    if (input.Byte() < 128) return ChangedBytes(changed, input);
    // Where the sizes are.
    return changed.replace(0, 32, ChangedBytes(changed.substr(0, 32), input));
  }());
  return ReadOrRefused([&] { ReadWeights(OpenLlmc(path, Loading::kMap).model); });
}

testing::AssertionResult TfBundleIsReadOrRefused(std::string_view bytes) {
  static const std::string table = FixtureBytes("openai-tiny/model.ckpt.index");
  FuzzInput input(bytes);
  TheScratch().Clear();
  const uint8_t kind = input.Byte();
  const std::string data(64, 'x');
  std::string index;
  if (kind < 64) {
    index = ChangedBytes(table, input);
  } else {
    // Changed before it is sealed, so that the checksums are right.
    const std::string block = TfBlock({{"", kTfHeader}, {"a", TfTensor(1, {2, 3}, 0, 24, data)}});
    index = TfTable({kind < 192 ? ChangedBytes(block, input) : std::string(input.Rest())});
  }
  TheScratch().Write("m.index", index);
  TheScratch().Write("m.data-00000-of-00001", data);
  return ReadOrRefused([&] { ReadAll(TfBundle(TheScratch().dir() + "/m")); });
}

}  // namespace folio
