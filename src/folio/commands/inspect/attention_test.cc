// `folio inspect attention`, through the real program.
#include "folio/inspect/attention.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "folio/commands/inspect/test_inspect.h"
#include "folio/plot/heatmap.h"
#include "folio/term/terminal_text.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

using InspectAttention = InspectTest;

// The head's entry in the first text of an answer.
nlohmann::json HeadOf(const nlohmann::json& json, int64_t layer, int64_t head, size_t text = 0) {
  for (const nlohmann::json& entry : json.at("texts").at(text).at("heads")) {
    if (entry.at("layer") == layer && entry.at("head") == head) return entry;
  }
  ADD_FAILURE() << "no head " << head << " of layer " << layer;
  return {};
}

// The rows of its weights, concatenated.
template <class T>
std::vector<T> WeightsOf(const nlohmann::json& head) {
  std::vector<T> weights;
  for (const nlohmann::json& row : head.at("weights")) {
    for (const nlohmann::json& weight : row) weights.push_back(weight.get<T>());
  }
  return weights;
}

TEST_F(InspectAttention, WeightsAreThoseOfAnIndependentImplementation) {
  for (const char* name : {"gpt2-tiny", "gpt2-untied-postnorm", "gpt2-sinusoid-relu"}) {
    const GoldenModel golden(name);
    const int64_t layer = golden.config.n_layer - 1, T = golden.T;
    const nlohmann::json json =
        Answer("inspect attention" + golden.Flags() + " --layer " + std::to_string(layer));
    const std::vector<double> expected =
        golden.expected.ReadAs<double>("trace.attn." + std::to_string(layer));
    for (int64_t head = 0; head < golden.config.n_head; ++head) {
      ExpectNear(WeightsOf<double>(HeadOf(json, layer, head)),
                 {expected.begin() + head * T * T, expected.begin() + (head + 1) * T * T},
                 kFloat32Model);
    }
  }
}

TEST_F(InspectAttention, ScoresAreOfAllHeadsAndThoseOfTheWeights) {
  const nlohmann::json json = Seen("attention", "--text 'abcab' --layer 1");
  EXPECT_EQ(json.at("texts").at(0).at("heads").size(), 2 * 3);
  EXPECT_FALSE(HeadOf(json, 0, 0).contains("weights"));
  for (int64_t h = 0; h < 3; ++h) {
    const nlohmann::json head = HeadOf(json, 1, h);
    const HeadScores scores =
        ScoreHead(WeightsOf<float>(head), std::vector<int32_t>{'a', 'b', 'c', 'a', 'b'});
    const std::pair<const char*, double> expected[] = {
        {"first", scores.first},        {"previous", scores.previous},
        {"self", scores.self},          {"entropy", scores.entropy},
        {"distance", scores.distance},  {"duplicate", scores.duplicate},
        {"induction", scores.induction}};
    for (const auto& [name, score] : expected) EXPECT_NEAR(head.at(name), score, kFloat32Chain);
  }
}

TEST_F(InspectAttention, SortingPutsTheLargestMeanFirst) {
  const nlohmann::json json = Seen("attention", "--text abcdef --text fedcba --sort previous");
  ASSERT_EQ(json.at("texts").size(), 2);
  double last = 2;
  for (size_t i = 0; i < 6; ++i) {
    const nlohmann::json& a = json.at("texts").at(0).at("heads").at(i);
    const nlohmann::json& b = json.at("texts").at(1).at("heads").at(i);
    EXPECT_EQ(a.at("layer"), b.at("layer"));
    EXPECT_EQ(a.at("head"), b.at("head"));
    const double sum = a.at("previous").get<double>() + b.at("previous").get<double>();
    EXPECT_LE(sum, last);
    last = sum;
  }
}

TEST_F(InspectAttention, PrintsATableAndOfOneHeadTheMap) {
  const ProgramRun run = RunFolio(Inspect("attention", "--text 'a b'"));
  EXPECT_EQ(std::ranges::count(run.out, '\n'), 1 + 6);
  EXPECT_TRUE(Contains(run.out, "layer  head  entropy  distance", "induction"));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  const ProgramRun one = RunFolio(Inspect("attention", "--text 'a b' --layer 1 --head 2"));
  EXPECT_EQ(std::ranges::count(one.out, '\n'), 1 + 1 + 1 + 1 + 1 + 3);
  EXPECT_TRUE(Contains(one.out, "     a   ·   b\n0 a  1.0\n1 ·  "));
  const std::string coloured = "--text 'a b' --layer 1 --head 2 --color always";
  EXPECT_TRUE(Contains(RunFolio(Inspect("attention", coloured)).out, "\x1b[48;5;"));
  const nlohmann::json json = Seen("attention", "--text 'a b' --layer 1 --head 2");
  const double weight = HeadOf(json, 1, 2).at("weights").at(2).at(1);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%.2f", weight);
  const std::string row = one.out.substr(one.out.find("\n2 b"));
  EXPECT_EQ(row.substr(10, 3), std::string(digits).substr(1)) << row;
}

TEST_F(InspectAttention, ASingleTokenIsEnough) {
  const nlohmann::json json = Seen("attention", "--text x --layer 0 --head 1");
  EXPECT_EQ(HeadOf(json, 0, 1).at("weights"), nlohmann::json::parse("[[1.0]]"));
  EXPECT_EQ(HeadOf(json, 0, 1).at("previous"), 0);
  ExpectError(3, Inspect("attention", "--text x --first-aside --svg " + At("f.svg").string()),
              "a single token", "at least two");
  EXPECT_FALSE(std::filesystem::exists(At("f.svg")));
}

TEST_F(InspectAttention, PiecesOfCharactersAreShownAsBytes) {
  const nlohmann::json tokens = Seen("attention", "--text 'é'").at("texts").at(0).at("tokens");
  ASSERT_EQ(tokens.size(), 2);
  EXPECT_EQ(tokens.at(0).at("id"), 0xC3);
  EXPECT_EQ(tokens.at(0).at("text"), "\xEF\xBF\xBD");
  EXPECT_EQ(tokens.at(1).at("bytes"), nlohmann::json::parse("[169]"));
  EXPECT_TRUE(Contains(RunFolio(Inspect("attention", "--text 'é' --layer 0 --head 0")).out,
                       "0 <C3>", "1 <A9>"));
  const nlohmann::json beyond = Seen("attention", "--ids 258,65").at("texts").at(0).at("tokens");
  EXPECT_TRUE(beyond.at(0).at("text").is_null());
  EXPECT_EQ(beyond.at(1).at("text"), "A");
}

TEST_F(InspectAttention, FiguresOfAllHeadsOfALayerAndOfOne) {
  ExpectDrawn("attention", "--text 'hello word'", "a.svg",
              {"L0 H0", "L0 H2", "L1 H1", "10 tokens", "masked", "w"});
  ExpectDrawn("attention", "--text 'hello' --layer 1 --sort self", "a.svg",
              {"L1 H0", "L1 H2", "layer 1", "largest self first"});
  ExpectDrawn("attention", "--text 'hex é' --layer 1 --head 0 --scale log", "a.svg",
              {"layer 1, head 0", "h", "x", "<C3>", "query", "key"});
}

TEST_F(InspectAttention, SeveralTextsAreRowsOfOneFigureOrFilesOfADirectory) {
  const std::string texts = "--text abc --text 'defgh' ";
  ExpectDrawn("attention", texts + "--layer 0", "b.svg",
              {"text 1 H0", "text 1 H2", "text 2 H0", "text 2 H2"});
  const std::string dir = "--layer 0 --head 1 --svg " + At("both").string();
  Well(RunFolio(Inspect("attention", texts + dir)));
  ExpectFigure("both/text-1.svg", {"layer 0, head 1", "a", "c"});
  ExpectFigure("both/text-2.svg", {"layer 0, head 1", "d", "h"});
  EXPECT_FALSE(std::filesystem::exists(At("both/text-3.svg")));
}

TEST_F(InspectAttention, TheFirstTokenIsSetAsideAndItsShareStated) {
  const std::string flags = "--text 'abcd' --layer 1 --head 1 --first-aside --svg ";
  const ProgramRun run = RunFolio(Inspect("attention", flags + At("f.svg").string()));
  const auto w = HeadOf(Seen("attention", "--text abcd --layer 1 --head 1"), 1, 1)
                     .at("weights")
                     .get<std::vector<std::vector<double>>>();
  char share[32];
  std::snprintf(share, sizeof share, "%.1f %%", 100 * (w[1][0] + w[2][0] + w[3][0]) / 3);
  EXPECT_TRUE(Contains(run.out, std::string("without the first token, which has ") + share));
  char cell[16];
  std::snprintf(cell, sizeof cell, "%.2f", w[3][2] / (1 - w[3][0]));
  EXPECT_TRUE(
      Contains(ReadFile(At("f.svg")), "without the first token", std::string(">") + cell + "<"));
}

TEST_F(InspectAttention, ResultsDoNotDependOnThreads) {
  const std::string flags = "--text 'some text' --layer 1 --json --threads ";
  EXPECT_EQ(RunFolio(Inspect("attention", flags + "1")).out,
            RunFolio(Inspect("attention", flags + "3")).out);
}

TEST_F(InspectAttention, MistakesOfFlagsAreUsageErrors) {
  ExpectError(2, "inspect attention --text x", "needs MODEL (or --model DIR)");
  ExpectError(2, Inspect("attention", ""), "no text", "--text", "--file");
  ExpectError(2, Inspect("attention", "--text x --head 1"), "--head needs --layer");
  ExpectError(2, Inspect("attention", "--text x --layer 2"), "--layer 2", "0 to 1");
  ExpectError(2, Inspect("attention", "--text x --layer 0 --head 3"), "--head 3", "0 to 2");
  ExpectError(2, Inspect("attention", "--text x --sort size"), "--sort");
  ExpectError(2, Inspect("attention", "--text x --scale cubic"), "--scale");
}

TEST_F(InspectAttention, WhatIsMissingOrDoesNotFitIsAnInputError) {
  ExpectError(3, "inspect attention --model /nowhere --text x", "/nowhere");
  ExpectError(3, Inspect("attention", "--text ''"), "no tokens");
  ExpectError(3, Inspect("attention", "--text 'fourteen bytes'"), "14 tokens", "is 13 tokens",
              "--tail");
  ExpectError(3, Inspect("attention", "--file /nowhere/a.txt"), "/nowhere/a.txt");
  ExpectError(3, Inspect("attention", "--ids 3,260"), "no token 260", "0 to 259");
  ExpectError(3, Inspect("attention", "--ids 3,x"), "--ids");
  ExpectError(3, Inspect("attention", "--text '<|endoftext|>'"), "--special");
  Well(RunFolio(Inspect("attention", "--special allow --text '<|endoftext|>a'")));
  std::filesystem::remove(At("model/tokenizer.json"));
  std::filesystem::remove(At("model/tokenizer_config.json"));
  ExpectError(3, Inspect("attention", "--text x"), "no tokenizer", "--ids");
  EXPECT_TRUE(Contains(RunFolio(Inspect("attention", "--ids 5,7 --layer 0 --head 0")).out, "#7"));
}

TEST_F(InspectAttention, TailTakesTheLastTokensOfFilesAndOfStandardInput) {
  std::ofstream(At("long.txt")) << "0123456789abcdef";
  const nlohmann::json json = Seen("attention", "--tail --file " + At("long.txt").string());
  const nlohmann::json& text = json.at("texts").at(0);
  EXPECT_EQ(text.at("left_out"), 3);
  EXPECT_EQ(text.at("tokens").size(), 13);
  EXPECT_EQ(text.at("tokens").at(0).at("text"), "3");
  const nlohmann::json piped = Seen("attention", "--tail --file - < " + At("long.txt").string());
  EXPECT_EQ(piped.at("texts").at(0).at("heads"), text.at("heads"));
}

}  // namespace
}  // namespace folio
