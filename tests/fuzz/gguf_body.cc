#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bodies.h"
#include "folio/base/error.h"
#include "folio/formats/gguf_model.h"
#include "folio/text/byte_names.h"
#include "input.h"
#include "scratch.h"
#include "tests/kit/gguf_bytes.h"

namespace folio {
namespace {

// A model with a tokenizer, all of it right: V 260, P 2, C 2, H 1, L 1, F 2, and a tensor of blocks
// beside the others where `more`.
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

// Changes before the data, where they matter: where, and a number of any size, or bytes.
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
      // Numbers that overflow when they are multiplied or added.
      const uint64_t number = ~uint64_t{0} >> (kind / 4);
      bytes = GgufBytes::Raw(number);
    }
    file.replace(at, std::min(bytes.size(), file.size() - at), bytes);
    if (file.empty()) break;
  }
  return file;
}

}  // namespace

testing::AssertionResult GgufIsReadOrRefused(std::string_view bytes) {
  const Scratch& scratch = TheScratch();
  FuzzInput input(bytes);
  scratch.Clear();
  const uint8_t kind = input.Byte();
  const std::string path = scratch.Write(
      "x", kind < 32 ? std::string(input.Rest()) : ChangedGguf(RightFile(kind % 2), input));
  for (const bool open : {false, true}) {
    try {
      if (!open) {
        ListGgufTensors(path);
        continue;
      }
      const FoundModel found = OpenGgufModel(path, Loading::kMap);
      MapWeights(found.model);
      if (found.tokenizer != nullptr) found.tokenizer->EncodeOrdinary("abcab");
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInput) continue;
      return testing::AssertionFailure() << "not a kInput Error: " << error.what();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace folio
