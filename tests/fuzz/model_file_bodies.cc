#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bodies.h"
#include "folio/base/error.h"
#include "folio/formats/gguf_model.h"
#include "folio/formats/llmc.h"
#include "folio/formats/nanogpt.h"
#include "folio/io/file.h"
#include "folio/io/test_tf_bytes.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/io/tf_bundle.h"
#include "folio/io/torch_file.h"
#include "folio/tensor/dtype.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/test_vocab.h"
#include "input.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

std::string FixtureBytes(const std::string& name) {
  return ReadFile(Fixture(name.substr(0, name.find('/'))) / name.substr(name.find('/') + 1));
}

// Reads every number, so that the sanitizer checks it.
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

// A valid model with a tokenizer: V 260, P 2, C 2, H 1, L 1, F 2, and with `more` a tensor of
// blocks too.
std::string RightFile(bool more) {
  GgufBytes bytes;
  bytes.String("general.architecture", "gpt2")
      .U32("gpt2.context_length", 2)
      .U32("gpt2.embedding_length", 2)
      .U32("gpt2.block_count", 1)
      .U32("gpt2.feed_forward_length", 2)
      .U32("gpt2.attention.head_count", 1)
      .String("tokenizer.ggml.model", "gpt2");
  std::vector<std::string> tokens;
  std::vector<int32_t> types(260, 1);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    tokens.push_back(ByteNames({&c, 1}));
  }
  for (const char* token : {"ab", "abc", "<|endoftext|>", "[PAD259]"}) tokens.emplace_back(token);
  types[258] = 3;
  types[259] = 5;
  bytes.Strings("tokenizer.ggml.tokens", tokens)
      .I32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", {"a b", "ab c"})
      .U32("tokenizer.ggml.eos_token_id", 258);
  const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
      {"token_embd.weight", {2, 260}},      {"position_embd.weight", {2, 2}},
      {"blk.0.attn_norm.weight", {2}},      {"blk.0.attn_qkv.weight", {2, 6}},
      {"blk.0.attn_output.weight", {2, 2}}, {"blk.0.ffn_norm.weight", {2}},
      {"blk.0.ffn_up.weight", {2, 2}},      {"blk.0.ffn_down.weight", {2, 2}},
      {"output_norm.weight", {2}}};
  for (const auto& [name, dims] : tensors) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    bytes.Tensor(name, dims, 1, std::string(2 * count, '\x3C'));
  }
  if (more) bytes.Tensor("blocks", {32, 1}, 8, std::string(34, '\x3C'));
  return bytes.File();
}

// Another, whose matrices are blocks of one type: V 3, P 2, C 256, H 1, L 1, F 256.
std::string FileOfBlocks(FuzzInput& input) {
  constexpr Dtype kTypes[] = {Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_1,  Dtype::kQ5_0,
                              Dtype::kQ5_1, Dtype::kQ2_K, Dtype::kQ3_K,  Dtype::kQ4_K,
                              Dtype::kQ5_K, Dtype::kQ6_K, Dtype::kIQ4_NL};
  const Dtype dtype = kTypes[input.Byte() % std::size(kTypes)];
  GgufBytes bytes;
  bytes.String("general.architecture", "gpt2")
      .U32("gpt2.context_length", 2)
      .U32("gpt2.embedding_length", 256)
      .U32("gpt2.block_count", 1)
      .U32("gpt2.feed_forward_length", 256)
      .U32("gpt2.attention.head_count", 1);
  const std::pair<const char*, uint64_t> matrices[] = {{"token_embd", 3},
                                                       {"blk.0.attn_qkv", 768},
                                                       {"blk.0.attn_output", 256},
                                                       {"blk.0.ffn_up", 256},
                                                       {"blk.0.ffn_down", 256}};
  for (const auto& [name, rows] : matrices) {
    bytes.Tensor(std::string(name) + ".weight", {256, rows}, *DtypeInGgml(dtype),
                 std::string(DtypeBytes(dtype, static_cast<int64_t>(256 * rows)), '\x3C'));
  }
  const std::pair<const char*, size_t> vectors[] = {
      {"blk.0.attn_norm", 1}, {"blk.0.ffn_norm", 1}, {"output_norm", 1}, {"position_embd", 2}};
  for (const auto& [name, rows] : vectors) {
    std::vector<uint64_t> dims = {256};
    if (rows > 1) dims.push_back(rows);
    bytes.Tensor(std::string(name) + ".weight", dims, 0, std::string(1024 * rows, '\x3C'));
  }
  return bytes.File();
}

// A small model with rotary positions: of Gemma 3 with windows, or of Llama with divisors.
std::string FileOfFamily(bool gemma) {
  const std::string arch = gemma ? "gemma3" : "llama";
  GgufBytes bytes;
  bytes.String("general.architecture", arch);
  const std::pair<const char*, uint32_t> sizes[] = {
      {"context_length", 4},           {"embedding_length", 2},     {"block_count", 1},
      {"feed_forward_length", 2},      {"attention.head_count", 1}, {"attention.key_length", 2},
      {"attention.sliding_window", 2}, {"rope.dimension_count", 2}, {"expert_count", 0}};
  for (const auto& [name, value] : sizes) bytes.U32(arch + "." + name, value);
  bytes.Key(arch + ".attention.layer_norm_rms_epsilon", 6, GgufBytes::Raw(0x3727C5ACu));
  if (gemma) {
    bytes.U32(arch + ".attention.sliding_window_pattern", 2);
    bytes.String(arch + ".rope.scaling.type", "linear").U32(arch + ".rope.scaling.factor", 8);
  }
  std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors = {{"token_embd", {2, 3}},
                                                                        {"output_norm", {2}}};
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensors.push_back({std::string("blk.0.") + name, {2, 2}});
  }
  for (const char* name : {"attn_norm", "ffn_norm"}) {
    tensors.push_back({std::string("blk.0.") + name, {2}});
  }
  if (gemma) {
    for (const char* name :
         {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}) {
      tensors.push_back({std::string("blk.0.") + name, {2}});
    }
  } else {
    tensors.push_back({"rope_freqs", {1}});
  }
  for (const auto& [name, dims] : tensors) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    bytes.Tensor(name + ".weight", dims, 1, std::string(2 * count, '\x3C'));
  }
  return bytes.File();
}

// Changes before the data, where they matter: a place, and a number of any size, or bytes.
std::string ChangedGguf(std::string file, FuzzInput& input) {
  for (int changes = 0; changes < 6 && !input.empty(); ++changes) {
    const size_t at = input.Word() % file.size();
    const uint8_t kind = input.Byte();
    if (kind % 4 == 0) {
      file.resize(at);
      break;
    }
    std::string bytes(input.Take(kind % 4 == 1 ? 1 : 8));
    if (kind % 4 == 3) {
      // Numbers that overflow in products or sums.
      const uint64_t number = ~uint64_t{0} >> (kind / 4);
      bytes = GgufBytes::Raw(number);
    }
    file.replace(at, std::min(bytes.size(), file.size() - at), bytes);
    if (file.empty()) break;
  }
  return file;
}

}  // namespace

testing::AssertionResult TorchFileIsReadOrRefused(std::string_view bytes) {
  // Without checksums, so that changes are read and not only detected.
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
    // Changed before the checksums are computed.
    const std::string block = TfBlock({{"", kTfHeader}, {"a", TfTensor(1, {2, 3}, 0, 24, data)}});
    index = TfTable({kind < 192 ? ChangedBytes(block, input) : std::string(input.Rest())});
  }
  TheScratch().Write("m.index", index);
  TheScratch().Write("m.data-00000-of-00001", data);
  return ReadOrRefused([&] { ReadAll(TfBundle(TheScratch().dir() + "/m")); });
}

testing::AssertionResult GgufIsReadOrRefused(std::string_view bytes) {
  const Scratch& scratch = TheScratch();
  FuzzInput input(bytes);
  scratch.Clear();
  const uint8_t kind = input.Byte();
  const std::string path =
      scratch.Write("x", kind < 32    ? std::string(input.Rest())
                         : kind < 160 ? ChangedGguf(RightFile(kind % 2), input)
                         : kind < 224 ? ChangedGguf(FileOfFamily(kind % 2), input)
                                      : ChangedGguf(FileOfBlocks(input), input));
  const auto listed = ReadOrRefused([&] { ListGgufTensors(path); });
  if (!listed) return listed;
  return ReadOrRefused([&] {
    const FoundModel found = OpenGgufModel(path, Loading::kMap);
    MapWeights(found.model);
    MapWeights(found.model, {.as_stored = true});
    if (found.tokenizer != nullptr) found.tokenizer->EncodeOrdinary("abcab");
  });
}

}  // namespace folio
