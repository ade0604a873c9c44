// `folio explain`, through the real program.
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "folio/commands/inspect/test_inspect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class Explain : public InspectTest {
 protected:
  std::string Model() const { return " --model " + At("model").string(); }
  // Makes a Llama-like model; returns its path.
  std::string Llama() const {
    GptConfig config;
    config.vocab_size = 257;
    config.n_positions = 13;
    config.n_embd = 12;
    config.n_layer = 2;
    config.n_head = 6;
    config.n_kv_head = 2;
    config.head_dim = 4;
    config.norm = NormKind::kRms;
    config.mlp = MlpKind::kGated;
    config.activation_function = Activation::kSilu;
    config.position_embedding = PositionKind::kRotary;
    config.bias = false;
    const GptWeights weights(config);
    Scatter(weights, 8);
    const std::filesystem::path dir = At("model") / "llama";
    std::filesystem::create_directories(dir);
    SaveModel(dir, weights);
    ByteTokenizer().Save(dir.string());
    return dir.string();
  }

  static ProgramRun Run(const std::string& flags) { return RunFolio("explain " + flags); }
  // The walk, with all steps checked.
  static nlohmann::json WalkOf(const std::string& flags) {
    const nlohmann::json walk = Answer("explain " + flags);
    EXPECT_EQ(walk.at("schema"), 1);
    EXPECT_FALSE(walk.at("steps").empty()) << flags;
    for (const nlohmann::json& step : walk.at("steps")) ExpectStep(step);
    return walk;
  }
  static void ExpectStep(const nlohmann::json& step) {
    const std::string name = step.at("name");
    for (const char* key : {"name", "formula", "why"}) {
      EXPECT_FALSE(step.at(key).get<std::string>().empty()) << name << ": " << key;
    }
    const nlohmann::json& shape = step.at("shape");
    const bool matrix = shape.size() == 2;
    EXPECT_EQ(step.at("values").size(), shape.at(0)) << name;
    for (const nlohmann::json& row : step.at("values")) {
      EXPECT_EQ(matrix ? row.size() : shape.at(0).get<size_t>(), shape.back()) << name;
    }
    const std::pair<const char*, size_t> labels[] = {
        {"row_labels", matrix ? shape[0].get<size_t>() : 1}, {"column_labels", shape.back()}};
    for (const auto& [key, count] : labels) {
      const size_t found = step.at(key).size();
      EXPECT_TRUE(found == 0 || found == count) << name << ": " << key;
    }
  }

  // Writes the figures of a walk, which must all be sound; returns their number.
  int64_t CheckFigures(const std::string& flags) const {
    const ProgramRun run =
        Well(Run(flags + " --svg " + At("figures/of it").string().insert(0, "'") + "'"));
    EXPECT_EQ(run.out, "") << "the figures were asked for, not the walk";
    int64_t figures = 0;
    for (const auto& entry : std::filesystem::directory_iterator(At("figures/of it"))) {
      EXPECT_TRUE(entry.path().filename().string().ends_with(".svg"));
      const std::string svg = ReadFile(entry.path());
      EXPECT_TRUE(Contains(svg, "</svg>"));
      if (WhyNoRenderer().empty()) {
        EXPECT_EQ(CheckFigure(svg, {}), "") << entry.path();
      }
      ++figures;
    }
    EXPECT_TRUE(Contains(run.err, "wrote " + std::to_string(figures) + " figure"));
    return figures;
  }
};

std::string ByIndex(const testing::TestParamInfo<const char*>& test) {
  return std::to_string(test.index);
}

// Each topic with small flags of its own; MODEL and LLAMA stand for two models.
constexpr const char* kTopics[] = {"attention --form grouped",
                                   "attention MODEL --text 'abcab' --layer 1 --head 2",
                                   "positions --positions 5 --channels 4",
                                   "positions MODEL --positions 7",
                                   "rotary --positions 5 --channels 4",
                                   "rotary LLAMA --text 'abcab' --layer 1 --head 5 --positions 9",
                                   "layernorm --values 1,2,4",
                                   "layernorm MODEL --text 'abc' --layer 1",
                                   "rmsnorm --values 1,2,4",
                                   "rmsnorm LLAMA --text 'abc' --layer 1",
                                   "gelu --values -1,0,1",
                                   "gated-mlp --values -1,0,1",
                                   "gated-mlp LLAMA --text 'abc' --layer 1",
                                   "softmax",
                                   "tokenize --text 'of the'",
                                   "tokenize --tokenizer bytes --text 'é'",
                                   "block MODEL --text 'ab a'",
                                   "block LLAMA --text 'ab a'",
                                   "sampling",
                                   "sampling MODEL --text 'ab' --top-k 3"};

class ExplainTopicTest : public Explain, public testing::WithParamInterface<const char*> {
 protected:
  std::string Flags() const {
    const std::string flags = std::regex_replace(GetParam(), std::regex(" MODEL"), Model());
    return std::regex_replace(flags, std::regex(" LLAMA"), " --model " + Llama());
  }
};
INSTANTIATE_TEST_SUITE_P(All, ExplainTopicTest, testing::ValuesIn(kTopics), ByIndex);

TEST_P(ExplainTopicTest, TextAndJsonTellTheSameWalk) {
  const nlohmann::json walk = WalkOf(Flags());
  const ProgramRun run = Well(Run(Flags()));
  EXPECT_FALSE(Contains(run.out, "\x1b"));
  size_t number = 0, at = 0;
  for (const nlohmann::json& step : walk.at("steps")) {
    at = run.out.find("\n" + std::to_string(++number) + ". ", at);
    ASSERT_NE(at, std::string::npos) << step.at("name");
  }
  EXPECT_EQ(run.out.find("\n" + std::to_string(number + 1) + ". "), std::string::npos);
  for (const char c : run.out) ASSERT_LT(static_cast<unsigned char>(c), 0x80) << run.out;
}

TEST_P(ExplainTopicTest, FiguresAreSound) {
  CheckFigures(Flags());
}

TEST_P(ExplainTopicTest, ThePageNeedsNothingElse) {
  const ProgramRun run = Well(Run(Flags() + " --html " + At("page.html").string()));
  EXPECT_EQ(run.err, "wrote " + At("page.html").string() + "\n");
  EXPECT_EQ(run.out, "") << "the walk is in the page";
  const std::string html = ReadFile(At("page.html"));
  EXPECT_TRUE(Contains(html, "<!DOCTYPE html>", "</html>", "<table>"));
  EXPECT_FALSE(Contains(html, "<script"));
  EXPECT_EQ(Run(Flags() + " --html -").out, html);
  EXPECT_FALSE(std::regex_search(html, std::regex("(src|href)=\"[^#\"d]")));
  EXPECT_EQ(Names(), (Strings{"model", "page.html"}));
}

class ExplainForm : public Explain, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Forms, ExplainForm,
                         testing::Values("no-weights", "single-head", "causal", "stacked", "split",
                                         "cross"),
                         ByIndex);

TEST_P(ExplainForm, FiguresAreSound) {
  EXPECT_GE(CheckFigures(std::string("attention --form ") + GetParam()), 3);
}

nlohmann::json ValuesOf(const nlohmann::json& walk, const std::string& name) {
  for (const nlohmann::json& step : walk.at("steps")) {
    if (step.at("name") == name) return step.at("values");
  }
  ADD_FAILURE() << "no step " << name;
  return {};
}

void ExpectNumbersNear(const nlohmann::json& a, const nlohmann::json& b, double tolerance) {
  if (a.is_array()) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ExpectNumbersNear(a[i], b[i], tolerance);
    return;
  }
  ASSERT_TRUE(a.is_number()) << a;
  EXPECT_NEAR(a.get<double>(), b.get<double>(), tolerance);
}

TEST_F(Explain, AttentionTakesTokensOfOnesOwn) {
  WriteFileAtomically(At("tokens.txt"), "cold 1 0\nwarm 1 1\nhot 0.5 2\n");
  const nlohmann::json walk = WalkOf("attention --vectors " + At("tokens.txt").string());
  const nlohmann::json& first = walk.at("steps").at(0);
  EXPECT_EQ(first.at("shape"), nlohmann::json({3, 2}));
  EXPECT_EQ(first.at("row_labels"), nlohmann::json({"cold", "warm", "hot"}));
  const nlohmann::json one = WalkOf(
      "attention --step context-of-warm --form no-weights --vectors " + At("tokens.txt").string());
  const double cold = std::exp(1), warm = std::exp(2), hot = std::exp(2.5);
  EXPECT_NEAR(one.at("steps").at(0).at("values").at(0).get<double>(),
              (cold + warm + 0.5 * hot) / (cold + warm + hot), kFloat32Chain);
  WriteFileAtomically(At("bad.txt"), "cold 1 0\nwarm 1\n");
  ExpectError(3, "explain attention --vectors " + At("bad.txt").string(), "bad.txt:2",
              "expected 2 numbers, as in the previous lines, found");
  ExpectError(2, "explain attention --text abc", "a text needs a model", "--model DIR",
              "--vectors FILE");
  ExpectError(2, "explain attention --vectors x" + Model(), "--vectors cannot be used here");
}

TEST_F(Explain, TorchDrawsGiveTheNumbersOfPyTorch) {
  const std::string path = GoldenFile("attention/expected.json");
  if (path.empty()) GTEST_SKIP() << "no golden numbers here";
  const nlohmann::json golden = nlohmann::json::parse(ReadFile(path));
  const nlohmann::json usual = WalkOf("attention --rng torch --form single-head");
  ExpectNumbersNear(ValuesOf(usual, "context"), golden["single_head_rand_seed_123"]["context"],
                    kFloat32Row);
  EXPECT_EQ(usual, WalkOf("attention --rng torch --form single-head --seed 123"));
  EXPECT_NE(usual, WalkOf("attention --rng torch --form single-head --seed 124"));
  ExpectNumbersNear(ValuesOf(WalkOf("softmax --values 10,20,30"), "softmax"),
                    golden["softmax_10_20_30"]["plain"], kFloat32Row);
}

TEST_F(Explain, TheReferenceBackendSaysTheSame) {
  const nlohmann::json cpu = WalkOf("attention --form stacked");
  const nlohmann::json reference = WalkOf("attention --form stacked --backend reference");
  ExpectNumbersNear(ValuesOf(cpu, "contexts of both, side by side"),
                    ValuesOf(reference, "contexts of both, side by side"), kFloat32Row);
}

TEST_F(Explain, ColourAndWidthFollowTheTerminal) {
  EXPECT_TRUE(Contains(Run("softmax --color always").out, "\x1b[48;5;"));
  const auto longest = [&](const std::string& environment) {
    const ProgramRun run =
        Well(RunShell(At(""), environment + " $F explain attention --form split --no-config"));
    EXPECT_EQ(Contains(run.out, "omitted"), Contains(environment, "COLUMNS=70"));
    EXPECT_EQ(Contains(run.out, "√"), Contains(environment, "UTF-8"));
    size_t most = 0;
    for (const std::string& line : Split(run.out, '\n')) most = std::max(most, line.size());
    return most;
  };
  EXPECT_LE(longest("COLUMNS=70"), 70);
  EXPECT_GT(longest("COLUMNS=140"), 70);
  EXPECT_GT(longest("COLUMNS=140 LANG=C.UTF-8"), 140);  // bytes
}

TEST_F(Explain, AloneItListsTheTopics) {
  const ProgramRun run = Well(RunFolio("explain"));
  for (const char* topic : {"attention", "positions", "layernorm", "gelu", "softmax", "tokenize",
                            "block", "sampling", "rotary", "rmsnorm", "gated-mlp"}) {
    EXPECT_TRUE(Contains(run.out, std::string("folio explain ") + topic));
  }
}

TEST_F(Explain, MistakesAreNamedWithHelp) {
  const std::string model = Model();
  ExpectError(2, "explain attention --form ring", "ring", "causal");
  ExpectError(2, "explain attention --layer 1", "--layer", "--model DIR");
  ExpectError(2, "explain attention --text hello", "--text", "--model DIR");
  ExpectError(2, "explain attention --form causal" + model, "--form", "--model");
  ExpectError(2, "explain attention --seed 1" + model, "--seed", "--model");
  ExpectError(2, "explain attention --text a --layer 2" + model, "layer 2", "0 to 1");
  ExpectError(2, "explain attention --text a --head 3" + model, "head 3", "0 to 2");
  ExpectError(2, "explain attention --text ''" + model, "empty");
  ExpectError(2, "explain tokenize --text ''", "empty");
  ExpectError(3, "explain block --text 'longer than thirteen'" + model, "20 tokens", "13");
  ExpectError(3, "explain block --model " + At("nothing").string(), "nothing");
  ExpectError(2, "explain block", "needs MODEL (or --model DIR)");
  ExpectError(2, "explain softmax --values 1,b,3", "'b' is not a number", "--values 10,20,30");
  ExpectError(2, "explain softmax --values ''", "'' is not a number");
  ExpectError(2, "explain softmax --values 1,,2", "'' is not a number");
  ExpectError(2, "explain softmax --values inf", "'inf' is not a number");
  ExpectError(2, "explain layernorm --values 1,2 " + model, "--values", "--model");
  ExpectError(2, "explain sampling --top-p 0", "--top-p");
  ExpectError(2, "explain positions --channels 3", "channels", "even");
  ExpectError(2, "explain positions --positions 14" + model, "13");
  ExpectError(2, "explain rotary" + model, "not rotary", "folio explain positions");
  ExpectError(2, "explain rmsnorm --text a" + model, "LayerNorm", "folio explain layernorm");
  ExpectError(2, "explain gated-mlp --text a" + model, "no gate", "folio explain block");
  ExpectError(2, "explain positions --model " + Llama(), "rotary", "folio explain rotary");
  ExpectError(2, "explain rotary --channels 3", "channels", "even");
  ExpectError(2, "explain atention", "did you mean 'folio explain attention'");
}

TEST_F(Explain, OutputsThatCannotBeAreRefusedBeforeAnythingIsWritten) {
  WriteFileAtomically(At("file"), "mine");
  ExpectError(2, "explain gelu --svg " + At("file").string() + " --html " + At("x.html").string(),
              "not a directory");
  ExpectError(2, "explain gelu --html " + At("model").string(), "is a directory");
  Ended(2, RunFolio("explain gelu --html - --json"));
  ExpectError(2, "explain gelu --html " + At("x.svg").string(), "HTML, not svg", ".html");
  ExpectError(2, "explain gelu --svg " + At("x.png").string(), "expected a directory, not a file");
  ExpectError(2, "explain gelu --svg " + At("x.svg").string(), "expected a directory, not a file");
  ExpectError(2, "explain gelu --svg -", "standard output");
  ExpectError(3, "explain layernorm --values 3e38,-3e38", "too far apart");
  ExpectError(2, "explain softmax --values x --svg " + At("new").string(), "not a number");
  EXPECT_EQ(Names(), (Strings{"file", "model"}));
  EXPECT_EQ(ReadFile(At("file")), "mine");
}

}  // namespace
}  // namespace folio
