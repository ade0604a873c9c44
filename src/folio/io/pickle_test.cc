#include "folio/io/pickle.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "folio/io/file.h"
#include "folio/io/test_zip_bytes.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using namespace std::string_literals;

constexpr std::array<std::string_view, 3> kGlobals = {"collections.OrderedDict", "torch.Size",
                                                      "torch.float32"};

std::string JsonOf(const std::string& bytes) {
  const Pickle pickle(std::as_bytes(std::span(bytes)), "x.pkl", kGlobals);
  return PlainValues(pickle, "x.pkl").dump();
}
std::string PickleRefusal(const std::string& bytes) {
  return ErrorAndHelp([&] { JsonOf(bytes); });
}
// The refusal of the value that these opcodes of protocol 2 make.
std::string ValueRefusal(const std::string& value) {
  return PickleRefusal(WholePickle(value));
}

TEST(Pickle, PlainValuesOfProtocolTwo) {
  const std::string all = PickleDict({{"none", "N"},
                                      {"yes", "\x88"},
                                      {"no", "\x89"},
                                      {"byte", "K\xff"},
                                      {"two", "M\xff\xff"},
                                      {"four", "J\xfe\xff\xff\xff"},
                                      {"long", "\x8a\x05" + Little(uint64_t{1} << 38, 5)},
                                      {"negative", "\x8a\x01\x80"},
                                      {"zero", "\x8a\x00"s},
                                      {"half", "G\x3f\xe0\x00\x00\x00\x00\x00\x00"s},
                                      {"old",
                                       "U\x02"
                                       "ab"},
                                      {"list",
                                       "](K\x01K\x02"
                                       "eK\x03"
                                       "a"},
                                      {"tuples", "))\x85K\x01K\x02\x86N\x86"},
                                      {"ordered",
                                       "ccollections\nOrderedDict\n)RX\x01\x00\x00\x00"
                                       "kK\x01s}K\x05K\x06sb"s},
                                      {"size", "ctorch\nSize\n(K\x02K\x03t\x85R"},
                                      {"dtype", "ctorch\nfloat32\n"}});
  const std::string two_values = PickleDict({{"tuples", ")\x85K\x01K\x02\x86\x86"}});
  EXPECT_EQ(JsonOf(WholePickle(two_values)), R"({"tuples":[[[]],[1,2]]})");
  EXPECT_EQ(JsonOf(WholePickle(Replaced(all, "))\x85K\x01K\x02\x86N\x86", ")\x85"))),
            R"({"none":null,"yes":true,"no":false,"byte":255,"two":65535,"four":-2,)"
            R"("long":274877906944,"negative":-128,"zero":0,"half":0.5,"old":"ab",)"
            R"("list":[1,2,3],"tuples":[[]],"ordered":{"k":1},"size":[2,3],)"
            R"("dtype":"torch.float32"})");
}

TEST(Pickle, OpcodesOfLaterProtocolsAndTheMemo) {
  EXPECT_EQ(JsonOf("\x80\x04\x95" + Little(99, 8) +
                   "}\x94(\x8c\x01"
                   "a\x94\x8d\x01\x00\x00\x00\x00\x00\x00\x00"
                   "b\x94"
                   "C\x01"
                   "ch\x01"
                   "B\x00\x00\x00\x00j\x02\x00\x00\x00u."s),
            R"({"a":"b","c":"a","":"b"})");
}

TEST(Pickle, WhatIsNeitherPlainNorKnownIsRefusedByName) {
  // os.system("echo") as an attacker writes it, by both opcodes.
  EXPECT_TRUE(Contains(ValueRefusal("cos\nsystem\n" + PickleText("echo") + "\x85R"),
                       "x.pkl is not allowed", "os.system", "state_dict"));
  EXPECT_TRUE(Contains(
      ValueRefusal("X\x05\0\0\0posixX\x06\0\0\0system\x93"s + PickleText("echo") + "\x85R"),
      "posix.system"));
  EXPECT_TRUE(Contains(ValueRefusal("cbuiltins\neval\n"), "builtins.eval"));
  // A known name with its dot in another place.
  EXPECT_TRUE(Contains(ValueRefusal("ccollections.OrderedDict\n\n"), "not allowed"));
  EXPECT_TRUE(Contains(ValueRefusal("c" + std::string(5000, 'm') + "\nf\n"), "mmm.f"));
  for (const char opcode :
       {'0', '2', 'F', 'I', 'L',    'S',    'V',    'P',    'p',    'g',    'i',
        'o', 'l', 'd', '1', '\x92', '\x82', '\x8b', '\x8e', '\x8f', '\x96', '\x97'}) {
    EXPECT_TRUE(Contains(ValueRefusal("N)"s + opcode + "N"), "opcode")) << int(opcode);
  }
  EXPECT_TRUE(Contains(ValueRefusal("N)\x81"s), "an object without a type"));
  EXPECT_TRUE(Contains(ValueRefusal("cos\nsystem\n)\x81"s), "os.system"));
  EXPECT_TRUE(Contains(ValueRefusal("NQ"), "neither a tensor nor a plain value"));
}

TEST(Pickle, AValueThatIsMissingIsAnError) {
  for (const std::string& bad : {""s, "\x80"s, "\x80\x02"s, "\x80\x01N."s, "\x80\x06N."s, "N."s,
                                 WholePickle("ctorch\nSize")}) {
    EXPECT_TRUE(Contains(PickleRefusal(bad), "x.pkl")) << testing::PrintToString(bad);
  }
  for (const std::string& value : {""s,
                                   "NN"s,
                                   "(N"s,
                                   "t"s,
                                   "N\x86"s,
                                   "N(\x85"s,
                                   "a"s,
                                   "Na"s,
                                   "NNa"s,
                                   "](a"s,
                                   "](Na"s,
                                   "}NNNu"s,
                                   "}(Nu"s,
                                   "]NNs"s,
                                   "}(NNs"s,
                                   "}e"s,
                                   "h\0"s,
                                   "Nq\5h\4"s,
                                   "q\0N"s,
                                   "Nr\xff\xff\xff\xff"s,
                                   "Nj\xff\xff\xff\xff"s,
                                   "R"s,
                                   "N)R"s,
                                   "ccollections\nOrderedDict\nNR"s,
                                   "Nb"s,
                                   "NNb"s,
                                   "Q"s,
                                   "X\xff\xff\xff\xff..."s,
                                   "\x8d\xff\xff\xff\xff\xff\xff\xff\xff..."s,
                                   "\x8a\t123456789"s,
                                   "NN\x93"s,
                                   "ctorch\nSize\n)R"s,
                                   "}NK\1s"s,
                                   "}}K\1s"s}) {
    EXPECT_TRUE(Contains(ValueRefusal(value), "x.pkl")) << testing::PrintToString(value);
  }
  EXPECT_TRUE(Contains(ValueRefusal("}(K\1NK\1Nu"), "\"1\" appears twice"));
}

// Each level contains the level below twice: 2^40 values in 200 bytes.
TEST(Pickle, SharedValuesAreNotMultiplied) {
  std::string bomb = "\x80\x02)q\x00"s;
  for (int i = 0; i < 40; ++i) bomb += "h"s + char(i) + "h" + char(i) + "\x86q" + char(i + 1);
  // A tuple remains below for each.
  std::string lists = "\x80\x02]q\x00"s;
  for (int i = 1; i < 12; ++i) {
    lists += "](";
    for (int j = 0; j < 9; ++j) lists += "h"s + char(i - 1);
    lists += "eq"s + char(i) + "\x86";
  }
  EXPECT_TRUE(Contains(PickleRefusal(lists + "."), "too many"));
  EXPECT_TRUE(Contains(PickleRefusal(bomb + "."), "x.pkl"));
  std::string many = "\x80\x02Nq\x00]("s;
  for (int i = 0; i < 140000; ++i) many += "h\x00"s;
  EXPECT_TRUE(Contains(PickleRefusal(many + "e."), "values are left over"));
  EXPECT_TRUE(
      Contains(PickleRefusal("\x80\x02](Nq\x00"s + many.substr(7) + "e."), "too many values"));
  std::string text = "\x80\x02](X" + Little(1 << 20, 4) + std::string(1 << 20, 'a') + "q\x00"s;
  for (int i = 0; i < 1000; ++i) text += "h\x00"s;
  EXPECT_TRUE(Contains(PickleRefusal(text + "e."), "too much text"));
}

TEST(Pickle, DepthAndCyclesEnd) {
  EXPECT_TRUE(Contains(ValueRefusal("]q\0h\0a"s), "deep"));
  std::string deep = "\x80\x02)";
  for (int i = 0; i < 100000; ++i) deep += '\x85';
  EXPECT_TRUE(Contains(PickleRefusal(deep + "."), "deep"));
  EXPECT_TRUE(Contains(ValueRefusal(std::string(300000, 'N')), "more than"));
  EXPECT_TRUE(Contains(ValueRefusal(std::string(3000000, '(')), "bytes"));
}

class PickleFile : public InTemporaryDirectory {};

TEST_F(PickleFile, IsReadFromAFile) {
  WriteFileAtomically(At("meta.pkl"), WholePickle(PickleDict({{"a", "K\x01"}})));
  EXPECT_EQ(ReadPlainPickle(At("meta.pkl")).dump(), R"({"a":1})");
  WriteFileAtomically(At("bad.pkl"), WholePickle("ctorch\nSize\n)\x85R"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadPlainPickle(At("bad.pkl")); }), "bad.pkl", "torch.Size"));
}

// Each with the result of Python's pickle.loads.
TEST(PickleWriter, WhatIsWrittenIsRead) {
  const Json json = {{"none", nullptr},
                     {"yes", true},
                     {"no", false},
                     {"ints", {0, -1, 255, INT64_MAX, INT64_MIN}},
                     {"number", 0.1},
                     {"text", "é\n\"😀"},
                     {"empty", Json::object()},
                     {"list", Json::array()}};
  const std::string bytes = PickleOf(Pickled(json));
  const Pickle pickle(std::as_bytes(std::span(bytes)), "x", {});
  EXPECT_EQ(PlainValues(pickle, "x").dump(), json.dump());
}

}  // namespace
}  // namespace folio
