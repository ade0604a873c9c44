#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "bodies.h"
#include "folio/base/error.h"
#include "folio/formats/llmc.h"
#include "folio/formats/nanogpt.h"
#include "folio/io/file.h"
#include "folio/io/test_tf_bytes.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/io/tf_bundle.h"
#include "folio/io/torch_file.h"
#include "input.h"
#include "scratch.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const Scratch& TheScratch() {
  static const Scratch scratch;
  return scratch;
}

std::string FixtureBytes(const std::string& name) {
  return ReadFile(Fixture(name.substr(0, name.find('/'))) / name.substr(name.find('/') + 1));
}

// Each change is where, and other bytes there, or a number that overflows when others are added to
// it or multiplied with it, or the end of the file.
std::string ChangedBytes(std::string file, FuzzInput& input) {
  for (int changes = 0; changes < 6 && !input.empty() && !file.empty(); ++changes) {
    const size_t at = (input.Word() | size_t{input.Byte()} << 16) % file.size();
    const uint8_t kind = input.Byte();
    if (kind % 8 == 0) {
      file.resize(at);
    } else {
      const std::string other = kind % 8 < 3   ? Little(~uint64_t{0} >> (kind / 8), 8)
                                : kind % 8 < 5 ? Little(~uint64_t{0} >> (kind / 8), 4)
                                               : std::string(input.Take(kind / 32));
      file.replace(at, std::min(other.size(), file.size() - at), other);
    }
  }
  return file;
}

testing::AssertionResult ReadOrRefused(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "not a kInput Error: " << error.what();
  }
  return testing::AssertionSuccess();
}

// Looks at every number, for the sanitizer to see.
void ReadAll(const TensorFile& file) {
  size_t set = 0;
  for (const TensorInfo& info : file.tensors()) {
    set += static_cast<size_t>(std::count(info.data, info.data + info.bytes, std::byte{1}));
  }
  EXPECT_LT(set, size_t{1} << 60);
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
  static const std::string checkpoint = FixtureBytes("nanogpt-tiny/ckpt.pt");
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
  FuzzInput input(bytes);
  TheScratch().Clear();
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
  std::string index;
  if (kind < 64) {
    index = ChangedBytes(table, input);
  } else {
    // Changed before it is sealed, so that the checksums are right.
    const std::string block = TfBlock({{"", kTfHeader}, {"a", TfTensor(1, {2, 3}, 0, 24)}});
    index = TfTable({kind < 192 ? ChangedBytes(block, input) : std::string(input.Rest())});
  }
  TheScratch().Write("m.index", index);
  TheScratch().Write("m.data-00000-of-00001", std::string(64, 'x'));
  return ReadOrRefused([&] { ReadAll(TfBundle(TheScratch().dir() + "/m")); });
}

}  // namespace folio
