// `folio inspect lens, embeddings, activations, probabilities`, through the real program.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "folio/commands/inspect/inspect_input.h"
#include "folio/commands/inspect/test_inspect.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/probabilities.h"
#include "folio/model/transformer.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

using InspectInside = InspectTest;

// The ids by falling probability, among equals the lower id first.
std::vector<int32_t> Ranked(const std::vector<double>& log_probabilities) {
  std::vector<int32_t> ids(log_probabilities.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) {
    return log_probabilities[static_cast<size_t>(a)] > log_probabilities[static_cast<size_t>(b)];
  });
  return ids;
}

TEST_F(InspectInside, LensEndsInTheModelsPrediction) {
  for (const char* name : {"gpt2-tiny", "gpt2-sinusoid-relu"}) {
    const GoldenModel golden(name);
    const nlohmann::json json = Answer("inspect lens --top 3" + golden.Flags());
    EXPECT_EQ(json.at("schema"), 1);
    ASSERT_EQ(json.at("positions").size(), golden.T);
    for (int64_t t = 0; t < golden.T; ++t) {
      const nlohmann::json& position = json.at("positions").at(static_cast<size_t>(t));
      EXPECT_EQ(position.at("position"), t);
      ASSERT_EQ(position.at("layers").size(), golden.config.n_layer + 1);
      const nlohmann::json& last = position.at("layers").back();
      const std::vector<double> expected = golden.LogProbabilities(t);
      const std::vector<int32_t> ranked = Ranked(expected);
      ASSERT_EQ(last.at("top").size(), 3);
      EXPECT_EQ(last.at("top").at(0).at("id"), ranked[0]);
      for (const nlohmann::json& one : last.at("top")) {
        EXPECT_NEAR(one.at("probability"), std::exp(expected[one.at("id").get<size_t>()]),
                    kFloat32Chain);
      }
      EXPECT_NEAR(last.at("kl"), 0, 1e-9);
      EXPECT_EQ(last.at("final_rank"), 1);
      EXPECT_GE(position.at("layers").at(0).at("kl").get<double>(), 0);
      EXPECT_GE(position.at("layers").at(0).at("final_rank").get<int>(), 1);
    }
  }
}

TEST_F(InspectInside, LensShowsATableAndOfOnePositionTheDetails) {
  const std::string table = RunFolio(Inspect("lens", "--text 'abcdefgh'")).out;
  EXPECT_TRUE(Contains(table, "embedding", "block 0", "block 1", "in the text"));
  EXPECT_EQ(std::ranges::count(table, '\n'), 2 * 6 + 1);  // two tables in 80 columns
  const std::string detail = RunFolio(Inspect("lens", "--text abcd --positions 1 --top 2")).out;
  EXPECT_TRUE(Contains(detail, "position 1, token b, the text continues with c", "KL to final"));
  EXPECT_EQ(RunFolio(Inspect("lens", "--text abcd --positions=-3 --top 2")).out, detail);
  const nlohmann::json some = Seen("lens", "--text abcd --positions 3,0,3");
  ASSERT_EQ(some.at("positions").size(), 2);
  EXPECT_EQ(some.at("positions").at(0).at("position"), 3);
  EXPECT_EQ(some.at("positions").at(1).at("position"), 0);
  EXPECT_EQ(Seen("lens", "--text x").at("positions").size(), 1);
}

TEST_F(InspectInside, LensFigureHasTokensLayersAndProbabilities) {
  ExpectDrawn("lens", "--text 'ab é'", "lens.svg",
              {"Logit lens", "embedding", "block 1", "position", "<A9>"});
  ExpectDrawn("lens", "--text a", "one.svg", {"block 0", "All 1 positions of the text."});
  ExpectDrawn("lens", "--text abcdefg --positions 2,3,4", "some.svg",
              {"3 of the text's 7 positions, 2 to 4."});
  ExpectDrawn("lens", "--text abcdefg --positions 2,6", "two.svg",
              {"2 of the text's 7 positions."});
}

TEST(ParsePositions, TakesNumbersFromBothEndsAndAll) {
  EXPECT_EQ(ParsePositions("all", 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(ParsePositions("2,-3,1", 3), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(ParsePositions("", 100).size(), kDefaultPositions);
  EXPECT_EQ(ParsePositions("", 100).back(), 99);
  for (const char* wrong : {"3", "-4", "1,", "x", "1 2", "1;2"}) {
    EXPECT_THROW(ParsePositions(wrong, 3), Error) << wrong;
  }
}

TEST_F(InspectInside, ProbabilitiesAreThoseOfAnIndependentImplementation) {
  const GoldenModel golden("gpt2-untied-postnorm");
  const nlohmann::json json = Answer("inspect probabilities --top 4" + golden.Flags());
  ASSERT_EQ(json.at("scores").size(), golden.T - 1);
  EXPECT_EQ(json.at("first").at("id"), golden.tokens[0]);
  double sum = 0, entropies = 0;
  int64_t likeliest = 0;
  for (int64_t t = 1; t < golden.T; ++t) {
    const nlohmann::json& score = json.at("scores").at(static_cast<size_t>(t - 1));
    const std::vector<double> expected = golden.LogProbabilities(t - 1);
    const int32_t id = golden.tokens[static_cast<size_t>(t)];
    EXPECT_EQ(score.at("position"), t);
    EXPECT_EQ(score.at("id"), id);
    EXPECT_NEAR(score.at("surprise"), -expected[static_cast<size_t>(id)], 1e-4);
    EXPECT_NEAR(score.at("probability"), std::exp(expected[static_cast<size_t>(id)]),
                kFloat32Chain);
    const std::vector<int32_t> ranked = Ranked(expected);
    const auto rank = std::ranges::find(ranked, id) - ranked.begin() + 1;
    EXPECT_EQ(score.at("rank"), rank);
    likeliest += rank == 1;
    EXPECT_EQ(score.at("top").at(0).at("id"), ranked[0]);
    double entropy = 0;
    for (const double log_p : expected) entropy -= log_p * std::exp(log_p);
    EXPECT_NEAR(score.at("entropy"), entropy, 1e-4);
    sum += score.at("surprise").get<double>();
    entropies += score.at("entropy").get<double>();
  }
  const auto count = static_cast<double>(golden.T - 1);
  EXPECT_NEAR(json.at("perplexity"), std::exp(sum / count), 1e-9);
  EXPECT_NEAR(json.at("entropy"), entropies / count, 1e-9);
  EXPECT_EQ(json.at("ranks").at("1"), likeliest);
  EXPECT_TRUE(json.at("bits_per_byte").is_null());
}

TEST_F(InspectInside, ProbabilitiesOfBytesHaveBitsPerByteAndColours) {
  const nlohmann::json json = Seen("probabilities", "--text 'a text.'");
  EXPECT_NEAR(json.at("bits_per_byte"), json.at("surprise").get<double>() / std::log(2.0), 1e-9);
  const std::string plain = RunFolio(Inspect("probabilities", "--text 'a text.'")).out;
  EXPECT_TRUE(Contains(plain, "perplexity", "bits/byte", "ranks", "likeliest"));
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  for (const char* by : {"rank", "probability", "entropy"}) {
    const std::string flags = std::string("--text 'a text.' --by ") + by;
    EXPECT_TRUE(Contains(RunFolio(Inspect("probabilities", flags + " --color always")).out,
                         std::string(by) == "rank" ? "38;5;16;48;5;71m" : "\x1b[48;5;", "11-100",
                         "perplexity"));
    Well(RunFolio(Inspect("probabilities", flags + Svg("p.svg"))));
    EXPECT_TRUE(Contains(ReadFile(At("p.svg")), "perplexity", "colour: "));
  }
  ExpectFigure("p.svg", {"perplexity", "colour", "x", "%"});
}

TEST(RankClass, HasTheBoundsOfGltr) {
  const std::pair<int64_t, int> classes[] = {{0, 0},  {1, 1},   {9, 1},   {10, 2},
                                             {99, 2}, {100, 3}, {999, 3}, {1000, 4}};
  for (const auto& [rank, expected] : classes) EXPECT_EQ(RankClass(rank), expected) << rank;
  EXPECT_EQ(RankClassName(0), "1");
  EXPECT_EQ(RankClassName(1), "2-10");
  EXPECT_EQ(RankClassName(4), "1001-");
}

TEST_F(InspectInside, ActivationsAreOfEveryPointAndAgreeWithThemselves) {
  const nlohmann::json json = Seen("activations", "--text 'abc def'");
  ASSERT_EQ(json.at("points").size(), 1 + 2 * 10 + 1);
  EXPECT_EQ(json.at("points").at(0).at("point"), "embedded");
  EXPECT_TRUE(json.at("points").at(0).at("layer").is_null());
  EXPECT_EQ(json.at("points").at(10).at("point"), "output");
  EXPECT_EQ(json.at("points").at(10).at("layer"), 0);
  EXPECT_EQ(json.at("points").back().at("point"), "final");
  for (const nlohmann::json& point : json.at("points")) {
    const double mean = point.at("mean"), std = point.at("std"), rms = point.at("rms");
    EXPECT_NEAR(rms * rms, mean * mean + std * std, 1e-6 * rms * rms) << point;
    EXPECT_LE(point.at("norm_median").get<double>(), point.at("norm_max").get<double>());
    EXPECT_EQ(point.contains("dead"), point.at("point") == "activated");
    EXPECT_EQ(point.at("width"), point.at("point") == "qkv" ? 36
                                 : point.at("point") == "up" || point.at("point") == "activated"
                                     ? 48
                                     : 12);
  }
  const nlohmann::json one = Seen("activations", "--text 'abc def' --layer 1");
  ASSERT_EQ(one.at("points").size(), 10);
  EXPECT_EQ(one.at("points").at(0), json.at("points").at(11));
}

TEST_F(InspectInside, ActivationsAsTableAndFigures) {
  const std::string text = RunFolio(Inspect("activations", "--text 'abc def'")).out;
  EXPECT_TRUE(Contains(text, "layer  point", "rms", "kurt", "dead", "embedded", "activated"));
  ExpectDrawn("activations", "--text abc", "n.svg", {"layer", "stream after the block", "L2 norm"});
  ExpectDrawn("activations", "--text a --layer 0", "b.svg", {"layer 0", "ln_1", "mlp", "output"});
}

TEST_F(InspectInside, NearestTokensAreThoseOfAllCosines) {
  const auto weights = LoadModel(At("model"));
  const Tensor& wte = weights->params().wte;
  const auto row = [&](int64_t id) { return Elements<float>(wte).subspan(size_t(id * 12), 12); };
  const std::vector<Neighbour> expected = NearestRows(wte, row('e'), 5, 'e');
  const nlohmann::json json = Seen("embeddings", "--token e --top 5");
  ASSERT_EQ(json.at("nearest").size(), 5);
  for (size_t i = 0; i < 5; ++i) {
    const nlohmann::json& found = json.at("nearest").at(i);
    const auto values = row(expected[i].row);
    EXPECT_EQ(found.at("id"), expected[i].row);
    EXPECT_NEAR(found.at("cosine"), expected[i].cosine, kFloat32Row);
    EXPECT_NEAR(found.at("norm"),
                std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0)),
                kFloat32Chain);
  }
  EXPECT_EQ(Seen("embeddings", "--id 101 --top 5"), json);
  EXPECT_EQ(json.at("vocab_size"), 260);
  EXPECT_EQ(json.at("projection").at("points").size(), 260);
  const nlohmann::json some = Seen("embeddings", "--points 5").at("projection").at("points");
  ASSERT_EQ(some.size(), 5);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(some.at(i), json.at("projection").at("points").at(52 * i));
}

TEST_F(InspectInside, EmbeddingsAsTextAndFigures) {
  const std::string run = RunFolio(Inspect("embeddings", "--top 3" + Svg("all"))).out;
  EXPECT_TRUE(Contains(run, "260, 12 channels", "13, learned", "of the variance", "longest"));
  EXPECT_FALSE(std::filesystem::exists(At("all/neighbours.svg")));
  ExpectFigure("all/tokens.svg", {"first component", "letter", "digit", "punctuation"});
  // no token of bytes is
  EXPECT_FALSE(Contains(ReadFile(At("all/tokens.svg")), "space and letter"));
  Well(RunFolio(Inspect("embeddings", "--points 5" + Svg("some"))));
  ExpectFigure("some/tokens.svg", {"Token embeddings: 5 of 260, and the density of all", "4", "h"});
  ExpectFigure("all/positions.svg", {"position", "cosine", "0", "12"});
  ExpectFigure("all/norms.svg", {"tokens", "positions"});
  const std::string near = RunFolio(Inspect("embeddings", "--token ' '" + Svg("near"))).out;
  EXPECT_TRUE(Contains(near, "nearest to · (id 32)", "cosine"));
  ExpectFigure("near/neighbours.svg", {"Nearest to ·"});
}

TEST_F(InspectInside, SinusoidalPositionsAreLookedAtToo) {
  const GoldenModel golden("gpt2-sinusoid-relu");
  const nlohmann::json json = Answer("inspect embeddings --model " + golden.dir.string());
  EXPECT_EQ(json.at("position_embedding"), "sinusoidal");
  EXPECT_NEAR(json.at("position_norms").at("min"), std::sqrt(8.0), kFloat32Chain);
  EXPECT_NEAR(json.at("position_norms").at("max"), std::sqrt(8.0), kFloat32Chain);
}

TEST(KindOf, SaysWhatATokenLooksLike) {
  const std::pair<std::string, TokenKind> kinds[] = {
      {"the", TokenKind::kLetter},     {" the", TokenKind::kSpaceLetter},
      {"é", TokenKind::kLetter},       {"19", TokenKind::kDigit},
      {" 7", TokenKind::kDigit},       {".", TokenKind::kPunctuation},
      {" (", TokenKind::kPunctuation}, {"\n", TokenKind::kOther},
      {"  ", TokenKind::kOther},       {"\xC3", TokenKind::kOther},
      {"", TokenKind::kOther},         {"\x01", TokenKind::kOther}};
  for (const auto& [bytes, kind] : kinds) EXPECT_EQ(KindOf(bytes), kind) << bytes;
}

TEST_F(InspectInside, MistakesHaveTheirExitStatus) {
  ExpectError(2, Inspect("lens", "--text a --text b"), "one text, 2 are given");
  ExpectError(2, Inspect("lens", "--text abc --positions 3"), "'3'", "0 to 2");
  ExpectError(2, Inspect("lens", "--text abc --top 0"), "--top");
  ExpectError(2, Inspect("activations", "--text abc --layer 2"), "--layer 2", "0 to 1");
  ExpectError(2, Inspect("probabilities", "--text abc --by size"), "--by");
  ExpectError(3, Inspect("probabilities", "--text a"), "a single token", "at least two");
  ExpectError(2, Inspect("embeddings", "--token e --id 5"), "--token", "--id");
  ExpectError(2, Inspect("embeddings", "--token ab"), "2 tokens, not one", "they are a b");
  ExpectError(2, Inspect("embeddings", "--token ''"), "is empty");
  ExpectError(2, Inspect("embeddings", "--id 260"), "0 to 259");
  ExpectError(3, "inspect embeddings --model /nowhere", "/nowhere");
  for (const char* what : {"lens", "activations", "probabilities"}) {
    ExpectError(2, std::string("inspect ") + what + " --text x", "--model");
    ExpectError(2, Inspect(what, ""), "no text");
    const bool any_length = std::string(what) == "probabilities";
    ExpectError(
        3,
        Inspect(what, std::string(any_length ? "--mask m.json " : "") + "--text 'fourteen bytes'"),
        "14 tokens", "--tail");
  }
}

// Windows of 13 that begin every 6 tokens: each adds the same scores as it has by itself.
TEST_F(InspectInside, ProbabilitiesOfALongTextAreThoseOfItsWindows) {
  const std::string text = "a text of forty bytes, or a little more";
  const nlohmann::json json = Seen("probabilities", "--text '" + text + "'");
  ASSERT_EQ(json.at("scores").size(), text.size() - 1);
  EXPECT_EQ(json.at("left_out"), 0);
  size_t next = 1;
  for (size_t begin = 0; next < text.size(); begin += 6) {
    const nlohmann::json part = Seen("probabilities", "--text '" + text.substr(begin, 13) + "'");
    for (; next < std::min(begin + 13, text.size()); ++next) {
      const nlohmann::json& score = json.at("scores").at(next - 1);
      EXPECT_EQ(score.at("position"), next);
      EXPECT_EQ(score.at("text"), text.substr(next, 1));
      if (next == begin + 13) continue;
      EXPECT_NEAR(score.at("surprise"), part.at("scores").at(next - begin - 1).at("surprise"),
                  1e-5);
    }
    // The window's last row predicts one more token, which a text of 13 does not have.
    if (next < text.size()) ++next;
  }
  EXPECT_EQ(Seen("probabilities", "--tail --text '" + text + "'").at("left_out"), text.size() - 13);
  ExpectDrawn("probabilities", "--text '" + text + "'", "long.svg", {"39 tokens, perplexity"});
}

// Refused before the model is read: it does not exist.
TEST_F(InspectInside, PlacesThatAreNotThereAreRefusedBeforeTheWork) {
  const std::string none = At("none/x").string();
  for (const std::string what :
       {"attention --text a --svg ", "lens --text a --svg ", "probabilities --text a --svg ",
        "activations --text a --svg ", "attention --text a --html ", "embeddings --html "}) {
    const std::string kind = what.find("--svg") == what.npos ? ".html" : ".svg";
    ExpectError(1, "inspect " + what + none + kind + " --model nowhere", "cannot write",
                "none is not an existing directory", "mkdir -p");
  }
  ExpectError(1, "explain softmax --html " + none + ".html", "none is not an existing directory");
  ExpectError(1, "plot nowhere --out " + none + ".svg", "none is not an existing directory");
  ExpectError(1, "eval perplexity nowhere --model nowhere --csv " + none,
              "none is not an existing directory");
  EXPECT_FALSE(std::filesystem::exists(At("none")));
}

TEST_F(InspectInside, AWideLensGoesOnBelow) {
  ExpectDrawn("lens", "--text abcdefghijklm", "lens.svg",
              {"embedding", "block 1", "0", "11", "12", "a", "m"});
  const std::string svg = ReadFile(At("lens.svg"));
  const std::string label = "in the text";
  EXPECT_NE(svg.find(label), svg.rfind(label));
  Well(RunFolio(Inspect("lens", "--text abcdefghijkl" + Svg("lens.svg"))));
  const std::string one = ReadFile(At("lens.svg"));
  EXPECT_EQ(one.find(label), one.rfind(label));
}

TEST_F(InspectInside, FiguresAreWrittenAlsoWhereNobodyReadsTheResult) {
  for (const std::string what : {"lens", "probabilities", "attention", "activations"}) {
    const std::string svg = what + ".svg";
    Ended(1, RunFolio(Inspect(what, "--ids 5,0" + Svg(svg) + " >/dev/full")));
    EXPECT_TRUE(std::filesystem::exists(At(svg))) << what;
  }
  Ended(1, RunFolio(Inspect("embeddings", Svg("e") + " >/dev/full")));
  EXPECT_TRUE(std::filesystem::exists(At("e/tokens.svg")));
}

TEST_F(InspectInside, PagesHaveTheFigureAndItsNumbers) {
  const std::vector<std::array<std::string, 4>> pages = {
      {"lens", "--ids 5,0,7", "<h1 id=\"logit-lens\">", "KL to final"},
      {"probabilities", "--ids 5,0,7", "predicts each token</h1>", "surprise"},
      {"attention", "--ids 5,0,7", "<h1 id=\"attention\">", "induction"},
      {"attention", "--ids 5,0,7 --layer 1 --head 2", "Attention of layer 1, head 2", "induction"},
      {"attention", "--ids 5,0 --ids 5,1,2", "Text 2: --ids 2", "induction"},
      {"activations", "--ids 5,0,7", "<h1 id=\"activations\">", "kurt"},
      {"activations", "--ids 5,0,7 --layer 1", "activations of layer 1", "kurt"},
      {"embeddings", "--id 5", "nearest to", "cosine"},
      {"embeddings", "", "longest tokens</h2>", "shortest"}};
  for (const auto& [what, flags, heading, column] : pages) {
    const std::string path = At(what + ".html").string();
    const ProgramRun run = Well(RunFolio(Inspect(what, flags + " --html " + path)));
    EXPECT_EQ(run.out, "") << what;
    EXPECT_EQ(run.err, "wrote " + path + "\n");
    const std::string html = ReadFile(path);
    EXPECT_TRUE(Contains(html, "<!DOCTYPE html>", "<figure>", "<table>", heading, column)) << what;
    EXPECT_EQ(RunFolio(Inspect(what, flags + " --html -")).out, html) << what;
    EXPECT_TRUE(RunFolio(Inspect(what, flags + " --json --html " + path)).out.starts_with("{"));
  }
}

TEST_F(InspectInside, AMaskHidesKeysFromQueries) {
  const std::string mask = At("mask.json").string();
  const auto weights = [&](const std::string& more) {
    return Seen("attention", "--text abc --layer 0 --head 0" + more).dump();
  };
  const std::string plain = weights("");
  WriteFileAtomically(mask, "[[0,0,0],[0,0,0],[0,0,0]]");
  EXPECT_EQ(weights(" --mask " + mask), plain);
  WriteFileAtomically(mask, "[[true,true,true],[false,true,true],[true,true,true]]");
  const nlohmann::json masked = Seen("attention", "--text abc --layer 0 --head 0 --mask " + mask);
  const std::string all = masked.dump();
  EXPECT_TRUE(Contains(all, "[1.0,0.0,0.0],[0.0,1.0,0.0],")) << all;
  EXPECT_NE(Seen("probabilities", "--text abc --mask " + mask),
            Seen("probabilities", "--text abc"));
  EXPECT_NE(Seen("lens", "--text abc --mask " + mask), Seen("lens", "--text abc"));
  EXPECT_NE(Seen("activations", "--text abc --mask " + mask), Seen("activations", "--text abc"));
  ExpectError(3, Inspect("lens", "--text ab --mask " + mask), "expected an array of 2 rows");
  ExpectError(2, Inspect("attention", "--text abc --text abc --mask " + mask),
              "--mask takes one text,");
  WriteFileAtomically(mask, "[[0,0],[0,\"x\"]]");
  ExpectError(3, Inspect("lens", "--text ab --mask " + mask), "row 1: \"x\" is neither");
  WriteFileAtomically(mask, "[[0,0],[0]]");
  ExpectError(3, Inspect("lens", "--text ab --mask " + mask), "row 1: expected an array of 2");
}

TEST_F(InspectInside, NamesOfOtherKindsOfFilesAreRefused) {
  for (const char* what : {"lens", "probabilities", "attention", "activations"}) {
    ExpectError(2, Inspect(what, "--ids 5,0 --svg " + At("x.PNG").string()), "SVG, not png",
                "rsvg-convert");
    ExpectError(2, Inspect(what, "--ids 5,0 --html " + At("x.svg").string()), "HTML, not svg",
                "--svg");
  }
  ExpectError(2, Inspect("embeddings", "--svg " + At("x.png").string()),
              "expected a directory, not a file");
  EXPECT_EQ(Names(), (Strings{"model"}));
}

TEST_F(InspectInside, PlacesThatAreNoFigureAreRefusedBeforeTheWork) {
  std::filesystem::create_directories(At("dir"));
  WriteFileAtomically(At("file"), "x");
  const std::string dir = " --svg " + At("dir").string(), file = " --svg " + At("file").string();
  for (const char* what : {"lens", "probabilities", "attention", "activations"}) {
    ExpectError(2, Inspect(what, "--ids 5,0" + dir), "is a directory", "help: give a file");
    ExpectError(2, Inspect(what, "--ids 5,0 --svg -"), "standard output");
  }
  ExpectError(2, Inspect("attention", "--ids 5,0 --ids 5,1" + file), "not a directory");
  ExpectError(2, Inspect("attention", "--ids 5,0 --ids 5,1 --layer 0" + dir), "is a directory");
  ExpectError(2, Inspect("embeddings", file), "not a directory");
  EXPECT_EQ(ReadFile(At("file")), "x");
}

}  // namespace
}  // namespace folio
