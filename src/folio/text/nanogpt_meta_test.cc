#include "folio/text/nanogpt_meta.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/text/encodings.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

constexpr char kAlphabet[] = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::filesystem::path Meta(int protocol) {
  return SourceDir() / fmt::format("tests/fixtures/nanogpt-chars/meta-{}.pkl", protocol);
}

class NanoGptMeta : public InTemporaryDirectory {
 protected:
  std::string Refusal(const std::string& value) {
    WriteFileAtomically(At("meta.pkl"), WholePickle(value));
    return ErrorAndHelp([&] { ReadNanoGptMeta(At("meta.pkl")); });
  }
};

TEST_F(NanoGptMeta, IsReadInEveryProtocolOfPython3) {
  for (const int protocol : {2, 3, 4, 5}) {
    const auto tokenizer = ReadNanoGptMeta(Meta(protocol));
    EXPECT_EQ(tokenizer->vocab_size(), 65);
    const std::vector<int32_t> ids = tokenizer->EncodeOrdinary(kAlphabet);
    for (int32_t id = 0; id < 65; ++id) ASSERT_EQ(ids.at(static_cast<size_t>(id)), id) << protocol;
  }
}

TEST_F(NanoGptMeta, ItsDirectoryIsATokenizerAsOthersAre) {
  std::filesystem::copy_file(Meta(4), At("meta.pkl"));
  for (const auto& place : {At(""), At("meta.pkl")}) {
    EXPECT_EQ(OpenTokenizer(place.string())->hash(), ReadNanoGptMeta(Meta(2))->hash()) << place;
  }
  // A tokenizer that was made of it before comes first.
  CharTokenizer({U'x'}).Save(At("").string());
  EXPECT_EQ(LoadTokenizer(At("").string())->vocab_size(), 1);
}

TEST_F(NanoGptMeta, ThatSaysSomethingElseIsRefused) {
  const auto itos = [](const std::string& first, const std::string& second) {
    return "}(" + PickleInt(0) + PickleText(first) + PickleInt(1) + PickleText(second) + "u";
  };
  const auto meta = [](int64_t size, const std::string& characters) {
    return PickleDict({{"vocab_size", PickleInt(size)}, {"itos", characters}});
  };
  WriteFileAtomically(At("good.pkl"), WholePickle(meta(2, itos("a", "b"))));
  EXPECT_EQ(ReadNanoGptMeta(At("good.pkl"))->vocab_size(), 2);
  EXPECT_TRUE(
      Contains(Refusal(meta(3, itos("a", "b"))), "vocab_size is 3", "2 characters", "--tokenizer"));
  EXPECT_TRUE(Contains(Refusal(PickleDict({{"itos", itos("a", "b")}})), "vocab_size is not there"));
  for (const auto& wrong :
       {itos("b", "a"), itos("a", "a"), itos("a", "bc"), itos("a", ""), itos("a", "\xFF"),
        std::string("}"), std::string("]"), std::string("N")}) {
    EXPECT_TRUE(Contains(Refusal(meta(2, wrong)), "expected itos")) << wrong;
  }
  EXPECT_TRUE(Contains(Refusal("]"), "expected a dictionary"));
  EXPECT_TRUE(Contains(Refusal("cos\nsystem\n" + PickleText("true") + "\x85R"), "os.system",
                       "nothing of it was executed"));
}

TEST_F(NanoGptMeta, ThatIsCutOrDamagedIsAnErrorOrStillOne) {
  const std::string whole = ReadFile(Meta(4));
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFileAtomically(At("meta.pkl"), whole.substr(0, size));
    ErrorOf([&] { ReadNanoGptMeta(At("meta.pkl")); });
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char with : {'\x00', '\xFF', 'c', 'R'}) {
      std::string damaged = whole;
      damaged[at] = with;
      WriteFileAtomically(At("meta.pkl"), damaged);
      try {
        EXPECT_LE(ReadNanoGptMeta(At("meta.pkl"))->vocab_size(), 65);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      }
    }
  }
  WriteFileAtomically(At("meta.pkl"), "(dp0\nVvocab_size\np1\nI65\ns.");  // protocol 0
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNanoGptMeta(At("meta.pkl")); }), "Python 3"));
}

}  // namespace
}  // namespace folio
