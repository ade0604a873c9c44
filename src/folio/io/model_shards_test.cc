#include "folio/io/model_shards.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "folio/io/model_dir.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

constexpr char kOne[] = "model-00001-of-00002.safetensors";
constexpr char kTwo[] = "model-00002-of-00002.safetensors";

class Shards : public InTemporaryDirectory {
 protected:
  void Put(const std::string& name, const std::string& bytes) {
    std::filesystem::remove(At(name));
    std::ofstream(At(name), std::ios::binary) << bytes;
  }
  // A shard of one tensor of bytes.
  void PutShard(const std::string& name, const std::string& tensor, const std::string& data) {
    const std::string size = std::to_string(data.size());
    Put(name, SafetensorsBytes("{\"" + tensor + R"(":{"dtype":"U8","shape":[)" + size +
                                   R"(],"data_offsets":[0,)" + size + "]}}",
                               data));
  }
  void PutIndex(const std::string& weight_map) {
    Put(kWeightsIndexFile, R"({"metadata": {"total_size": 7}, "weight_map": )" + weight_map + "}");
  }
  // Tensor a lies in the first shard, b in the second.
  void PutBoth() {
    PutShard(kOne, "a", "123");
    PutShard(kTwo, "b", "4567");
    PutIndex(std::string(R"({"a": ")") + kOne + R"(", "b": ")" + kTwo + "\"}");
  }
  std::string Refusal() {
    return ErrorOf([&] { ModelShards(At(kWeightsIndexFile)); });
  }
};

TEST_F(Shards, TensorsLieInSeveralFiles) {
  PutBoth();
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const ModelShards file(At(kWeightsIndexFile), loading);
    EXPECT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.ReadAs<int32_t>("a"), (std::vector<int32_t>{'1', '2', '3'}));
    EXPECT_EQ(file.ReadAs<int32_t>("b"), (std::vector<int32_t>{'4', '5', '6', '7'}));
  }
}

TEST_F(Shards, NamesThatLeadElsewhereAreRefused) {
  PutBoth();
  PutShard("c", "c", "1");
  for (const std::string name : {"../x", "/etc/passwd", "sub/x", "..", ".", "", "a\\\\b"}) {
    PutIndex(R"({"a": ")" + name + "\"}");
    EXPECT_TRUE(Contains(Refusal(), kWeightsIndexFile, "is not the name of a file beside it"))
        << name;
  }
  PutIndex(R"({"a": "x\u0000y"})");
  EXPECT_TRUE(Contains(Refusal(), "is not the name of a file"));
}

TEST_F(Shards, AnIndexIsNoShard) {
  PutIndex(std::string(R"({"a": ")") + kWeightsIndexFile + "\"}");
  EXPECT_TRUE(Contains(Refusal(), kWeightsIndexFile, "not a sound safetensors file"));
  std::filesystem::create_directory(At("dir"));
  PutIndex(R"({"a": "dir"})");
  EXPECT_TRUE(Contains(Refusal(), "dir"));
}

TEST_F(Shards, EveryTensorIsWhereTheIndexSaysAndNowhereElse) {
  PutBoth();
  std::filesystem::remove(At(kTwo));
  EXPECT_TRUE(Contains(Refusal(), kTwo, "is missing"));
  PutShard(kTwo, "a", "4567");
  EXPECT_TRUE(Contains(Refusal(), "\"a\"", kOne, kTwo, "holds one too"));
  PutShard(kTwo, "c", "4567");
  EXPECT_TRUE(Contains(Refusal(), "tensor \"c\"", "is not in it"));
  PutBoth();
  PutIndex(std::string(R"({"a": ")") + kOne + R"(", "b": ")" + kTwo + R"(", "c": ")" + kTwo +
           "\"}");
  EXPECT_TRUE(Contains(Refusal(), "tensor \"c\"", "is not in", kTwo));
}

TEST_F(Shards, AnIndexOfAnotherFormIsRefused) {
  PutBoth();
  for (const char* index :
       {"", "[]", "{", "{}", R"({"weight_map": 3})", R"({"weight_map": ["a"]})",
        R"({"weight_map": {"a": 3}})", R"({"weight_map": {"a": "x"}, "weight_map": {}})",
        R"({"weight_map": {"a": "x", "a": "y"}})", R"({"weight_map": {}} z)"}) {
    Put(kWeightsIndexFile, index);
    EXPECT_TRUE(Contains(Refusal(), kWeightsIndexFile)) << index;
  }
  Put(kWeightsIndexFile, std::string((size_t{4} << 20) + 1, ' '));
  EXPECT_TRUE(Contains(Refusal(), "up to 4194304"));
}

TEST_F(Shards, CutShortAtEveryByte) {
  PutBoth();
  for (const char* name : {kWeightsIndexFile, kTwo}) {
    PutBoth();
    const std::string whole = FilesBelow(At("")).at(name);
    for (size_t size = 0; size < whole.size(); ++size) {
      Put(name, whole.substr(0, size));
      EXPECT_TRUE(Contains(Refusal(), name)) << size;
    }
  }
}

TEST_F(Shards, AreFilledInOrderAndNeverCutATensor) {
  std::vector<float> numbers(30, 1.5f);
  const auto tensor = [&](const char* name, int64_t count) {
    return NamedTensor{name, Tensor(numbers.data(), {count}), Dtype::kBF16};
  };
  const std::vector<NamedTensor> tensors = {tensor("big", 30), tensor("a", 2), tensor("b", 3),
                                            tensor("c", 1)};
  WriteSafetensorsShards(At(""), tensors, 10);
  EXPECT_EQ(Names(),
            (Strings{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                     "model-00003-of-00003.safetensors", kWeightsIndexFile}));
  EXPECT_TRUE(Contains(FilesBelow(At("")).at(kWeightsIndexFile), "\"total_size\": 72",
                       R"("b": "model-00002-of-00003.safetensors")",
                       R"("c": "model-00003-of-00003.safetensors")"));
  const ModelShards file(At(kWeightsIndexFile));
  EXPECT_EQ(file.ReadAs<float>("big"), numbers);
}

TEST_F(Shards, OneFileNeedsNoIndex) {
  std::vector<float> numbers(3, 1);
  WriteSafetensorsShards(At(""), std::vector<NamedTensor>{{"a", Tensor(numbers.data(), {3})}}, 1);
  EXPECT_EQ(Names(), Strings{kWeightsFile});
}

}  // namespace
}  // namespace folio
