#include <gtest/gtest.h>

#include <bit>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/test_attention.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

class TorchAttention : public InTemporaryDirectory {
 protected:
  static constexpr int64_t C = 6, H = 2;

  // A tensor whose elements are its number and their place: all of them exact in bfloat16.
  void Put(const std::string& name, const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(arrays_.size()) + static_cast<double>(i % 128) / 128;
    }
    arrays_.erase(name);
    arrays_.emplace(name, Array(shape, Dtype::kF64, values));
  }
  void PutPacked(const std::string& prefix = "", bool bias = true) {
    Put(prefix + "in_proj_weight", {3 * C, C});
    Put(prefix + "out_proj.weight", {C, C});
    if (!bias) return;
    Put(prefix + "in_proj_bias", {3 * C});
    Put(prefix + "out_proj.bias", {C});
  }
  void PutSeparate(int64_t kdim, int64_t vdim) {
    PutPacked();
    arrays_.erase("in_proj_weight");
    Put("q_proj_weight", {C, C});
    Put("k_proj_weight", {C, kdim});
    Put("v_proj_weight", {C, vdim});
  }
  std::filesystem::path Write() const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, array] : arrays_) tensors.push_back({name, array});
    WriteSafetensors(At("mha.safetensors"), tensors);
    return At("mha.safetensors");
  }
  AttentionWeights Load(const std::string& prefix = "", Dtype dtype = Dtype::kF64) const {
    return LoadTorchAttention(Write(), prefix, H, dtype);
  }
  std::string Refusal(const std::string& prefix = "") const {
    return ErrorOf([&] { Load(prefix); }, ErrorKind::kInput);
  }

  // Rows [begin, begin + out) of a stored (out,in) matrix, transposed.
  std::vector<double> Transposed(const std::string& name, int64_t begin, int64_t out) const {
    const Tensor& x = arrays_.at(name);
    return folio::Transposed(Values(x.Slice(begin, begin + out)), x.dim(1), out);
  }
  std::vector<double> Part(const std::string& name, int64_t begin) const {
    const Tensor& x = arrays_.at(name);
    return Values(x.Slice(begin, begin + C));
  }

  std::map<std::string, Array> arrays_;
};

TEST_F(TorchAttention, PackedRowsAreQueriesThenKeysThenValues) {
  PutPacked("block.attn.");
  Put("block.mlp.weight", {2, 2});  // not behind the prefix
  const AttentionWeights weights = Load("block.attn.");
  EXPECT_EQ(weights.dtype(), Dtype::kF64);
  const AttentionSizes& sizes = weights.sizes();
  EXPECT_EQ(sizes.d_in, C);
  EXPECT_EQ(sizes.kv_in(), C);
  EXPECT_EQ(sizes.d_out, C);
  EXPECT_EQ(sizes.H, H);
  EXPECT_TRUE(sizes.bias && sizes.out_proj);
  const AttentionParams& p = weights.params();
  EXPECT_EQ(Values(p.q.weight), Transposed("block.attn.in_proj_weight", 0, C));
  EXPECT_EQ(Values(p.k.weight), Transposed("block.attn.in_proj_weight", C, C));
  EXPECT_EQ(Values(p.v.weight), Transposed("block.attn.in_proj_weight", 2 * C, C));
  EXPECT_EQ(Values(p.out.weight), Transposed("block.attn.out_proj.weight", 0, C));
  EXPECT_EQ(Values(p.q.bias), Part("block.attn.in_proj_bias", 0));
  EXPECT_EQ(Values(p.k.bias), Part("block.attn.in_proj_bias", C));
  EXPECT_EQ(Values(p.v.bias), Part("block.attn.in_proj_bias", 2 * C));
  EXPECT_EQ(Values(p.out.bias), Part("block.attn.out_proj.bias", 0));
}

TEST_F(TorchAttention, SeparateMatricesMayTakeKeysOfAnotherSize) {
  for (const int64_t kdim : {int64_t{4}, C}) {
    PutSeparate(kdim, kdim);
    const AttentionWeights weights = Load("", Dtype::kF32);
    EXPECT_EQ(weights.dtype(), Dtype::kF32);
    EXPECT_EQ(weights.sizes().kv_in(), kdim);
    EXPECT_EQ(Values(weights.params().q.weight), Transposed("q_proj_weight", 0, C));
    EXPECT_EQ(Values(weights.params().k.weight), Transposed("k_proj_weight", 0, C));
    EXPECT_EQ(Values(weights.params().v.weight), Transposed("v_proj_weight", 0, C));
    EXPECT_EQ(Values(weights.params().k.bias), Part("in_proj_bias", C));
  }
  PutSeparate(4, 5);
  EXPECT_TRUE(Contains(Refusal(), "kdim is 4, vdim is 5"));
}

TEST_F(TorchAttention, BiasesAreBothThereOrNeither) {
  PutPacked("", false);
  const AttentionWeights weights = Load();
  EXPECT_FALSE(weights.sizes().bias);
  EXPECT_FALSE(weights.params().q.bias);
  EXPECT_FALSE(weights.params().out.bias);
  Put("in_proj_bias", {3 * C});
  EXPECT_TRUE(Contains(Refusal(), "out_proj.bias"));
  PutPacked();
  arrays_.erase("in_proj_bias");
  EXPECT_TRUE(Contains(Refusal(), "in_proj_bias"));
}

TEST_F(TorchAttention, RefusesWhatIsMissingOrMisshapen) {
  for (const char* name : {"in_proj_weight", "out_proj.weight"}) {
    PutPacked();
    arrays_.erase(name);
    EXPECT_TRUE(Contains(Refusal(), name)) << name;
  }
  PutPacked();
  EXPECT_TRUE(Contains(Refusal("other."), "other.out_proj.weight"));
  const auto misshapen = [&](const char* name, const Shape& shape) {
    PutPacked();
    Put(name, shape);
    EXPECT_TRUE(Contains(Refusal(), name, shape.ToString())) << name << shape.ToString();
  };
  misshapen("in_proj_weight", {2 * C, C});
  misshapen("in_proj_weight", {3 * C * C});
  misshapen("in_proj_bias", {C});
  misshapen("out_proj.weight", {C, C + 1});
  misshapen("out_proj.weight", {C * C});
  misshapen("out_proj.bias", {1, C});
  PutSeparate(4, 4);
  Put("k_proj_weight", {C + 1, 4});
  EXPECT_TRUE(Contains(Refusal(), "k_proj_weight", "of 6 rows"));
  PutSeparate(4, 4);
  arrays_.erase("v_proj_weight");
  EXPECT_TRUE(Contains(Refusal(), "v_proj_weight"));
}

TEST_F(TorchAttention, RefusesALayerWithoutElements) {
  const std::string header =
      R"({"out_proj.weight":{"dtype":"F32","shape":[0,0],"data_offsets":[0,0]},)"
      R"("in_proj_weight":{"dtype":"F32","shape":[0,0],"data_offsets":[0,0]}})";
  WriteFileAtomically(At("empty.safetensors"), SafetensorsBytes(header, ""));
  EXPECT_TRUE(Contains(
      ErrorOf([&] { LoadTorchAttention(At("empty.safetensors"), "", 1); }, ErrorKind::kInput),
      "out_proj.weight", "(0, 0)"));
}

TEST_F(TorchAttention, RefusesWhatItHasNoPlaceFor) {
  PutPacked();
  Put("bias_k", {1, 1, C});
  EXPECT_TRUE(Contains(Refusal(), "\"bias_k\"", "add_bias_kv=True"));
  arrays_.clear();
  PutPacked();
  Put("linear1.weight", {C, C});
  EXPECT_TRUE(Contains(Refusal(), "\"linear1.weight\""));
  arrays_.clear();
  PutSeparate(C, C);
  Put("in_proj_weight", {3 * C, C});
  EXPECT_TRUE(Contains(Refusal(), "_proj_weight\" has no place"));
}

TEST_F(TorchAttention, HeadsMustDivideItsSize) {
  PutPacked();
  const std::filesystem::path file = Write();
  for (const int64_t heads : {4, 0, -1}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { LoadTorchAttention(file, "", heads); }, ErrorKind::kUsage),
                         "number of heads is " + std::to_string(heads)));
  }
}

// Every floating dtype holds the same numbers.
TEST_F(TorchAttention, ReadsEveryFloatingDtypeAndNoOther) {
  PutPacked();
  const std::vector<double> expected = Values(Load().params().k.weight);
  const auto file_of = [&](const char* dtype, size_t size, auto&& encode) {
    std::string header, data;
    for (const auto& [name, array] : arrays_) {
      const std::string shape = static_cast<const Tensor&>(array).shape().ToString();
      header += (header.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + dtype +
                R"(","shape":[)" + shape.substr(1, shape.find_last_not_of(",)")) +
                R"(],"data_offsets":[)" + std::to_string(data.size());
      for (const double value : array.values()) {
        const uint64_t bits = encode(value);
        data.append(reinterpret_cast<const char*>(&bits), size);
      }
      header += "," + std::to_string(data.size()) + "]}";
    }
    WriteFileAtomically(At(dtype), SafetensorsBytes(header + "}", data));
    return At(dtype);
  };
  const auto bits_of = [](double value) { return std::bit_cast<uint64_t>(value); };
  const auto f32 = [](double value) -> uint64_t {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  };
  const auto bf16 = [&](double value) { return f32(value) >> 16; };
  // Zero, or normal: 5 bits of exponent, 10 of fraction.
  const auto f16 = [&](double value) -> uint64_t {
    const uint64_t bits = f32(value);
    return bits == 0 ? 0 : ((bits >> 23) - 127 + 15) << 10 | (bits >> 13 & 1023);
  };
  for (const auto& file : {file_of("F64", 8, bits_of), file_of("F32", 4, f32),
                           file_of("BF16", 2, bf16), file_of("F16", 2, f16)}) {
    EXPECT_EQ(Values(LoadTorchAttention(file, "", H).params().k.weight), expected) << file;
    EXPECT_EQ(Values(LoadTorchAttention(file, "", H, Dtype::kF64).params().k.weight), expected)
        << file;
  }
  const auto integers = file_of("I32", 4, [](double) { return uint64_t{1}; });
  EXPECT_TRUE(Contains(ErrorOf([&] { LoadTorchAttention(integers, "", H); }, ErrorKind::kInput),
                       "wrong dtype"));
}

}  // namespace
}  // namespace folio
