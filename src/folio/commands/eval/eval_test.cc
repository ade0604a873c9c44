// `folio eval perplexity, cloze, compare`, through the real program.
#include <gtest/gtest.h>

#include <cmath>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
class Eval : public TrainTest {
 protected:
  Eval() {
    GptConfig config;
    config.vocab_size = 257;
    config.n_positions = 13;
    config.n_embd = 12;
    config.n_layer = 2;
    config.n_head = 3;
    Save("model", config, 7);
    Save("other", config, 8);
    config.vocab_size = 258;
    Save("larger", config, 7);
  }
  void Save(const std::string& name, const GptConfig& config, uint64_t seed) const {
    const GptWeights weights(config);
    Scatter(weights, seed);
    fs::create_directories(At(name));
    SaveModel(At(name), weights);
    ByteTokenizer().Save(At(name).string());
  }
  std::string Put(const std::string& name, const std::string& contents) const {
    WriteFileAtomically(At(name), contents);
    return At(name).string();
  }
  static std::string SomeWords(size_t bytes) {
    std::string text;
    for (size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * i % 977) + ' ';
    return text;
  }
  std::string Path(const std::string& name) const { return At(name).string(); }
  std::string Perplexity(const std::string& more) const {
    return "eval perplexity --model " + Path("model") + " " + more;
  }
};

// Over the whole held-out set in windows of the context the result is that of training after its
// last step.
TEST_F(Eval, PerplexityIsThatOfTrainingWhereWindowsCoincide) {
  Well(Train("--set train.eval_batches=0 train.eval_stride=16"));
  double val_loss = 0;
  for (const nlohmann::json& step : JsonLines(ReadFile(At("run/metrics.jsonl")))) {
    if (step.contains("val_loss")) val_loss = step.at("val_loss");
  }
  const nlohmann::json found = Answer("eval perplexity --model " + Path("run/last") + " " +
                                      Path("run/data") + " --stride 16");
  ASSERT_GT(val_loss, 0);
  EXPECT_NEAR(found.at("total").at("nats_per_token"), val_loss, 1e-6 * val_loss);
  EXPECT_EQ(found.at("context"), 16);
}

TEST_F(Eval, PerplexityOfTextsHasATableAndAnObject) {
  const std::string a = Put("a.txt", "some words to predict\n"), b = Put("b.txt", "more of them");
  const nlohmann::json json = Answer(Perplexity(a + " " + b));
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("context"), 13);
  EXPECT_EQ(json.at("stride"), 6);
  const nlohmann::json& first = json.at("texts").at(0);
  EXPECT_EQ(first.at("file"), a);
  EXPECT_EQ(first.at("tokens"), 21);
  EXPECT_EQ(first.at("bytes"), 21);
  EXPECT_EQ(first.at("words"), 5);  // the last one, behind the line break, is empty
  const double nats = first.at("nats_per_token");
  EXPECT_NEAR(first.at("perplexity"), std::exp(nats), 1e-9 * std::exp(nats));
  EXPECT_NEAR(first.at("bits_per_byte"), nats / std::log(2.0), 1e-9);
  EXPECT_NEAR(first.at("word_perplexity").get<double>() / std::exp(nats * 21 / 5), 1, 1e-9);
  EXPECT_EQ(json.at("total").at("tokens"), 32);
  EXPECT_TRUE(Contains(RunFolio(Perplexity(a + " " + b)).out, "nats/token", "bits/byte", "a.txt",
                       "b.txt", "total"));
  Well(RunFolio(Perplexity("- < " + a)));
  // The same text window by window.
  const nlohmann::json seen =
      Answer("inspect probabilities --model " + Path("model") + " --file " + a);
  EXPECT_EQ(seen.at("tokens"), 22);
  EXPECT_EQ(seen.at("left_out"), 0);
  ASSERT_EQ(seen.at("scores").size(), 21);
  EXPECT_NEAR(seen.at("perplexity").get<double>() / first.at("perplexity").get<double>(), 1, 1e-6);
  EXPECT_NEAR(seen.at("bits_per_byte"), first.at("bits_per_byte"), 1e-6);
  // And token by token.
  Well(RunFolio(Perplexity(a + " --csv " + Path("t.csv"))));
  const std::vector<std::string> rows = Split(ReadFile(At("t.csv")), '\n');
  for (size_t i = 0; i < 21; ++i) {
    const std::vector<std::string> cells = Split(rows[i + 1], ',');
    const nlohmann::json& score = seen.at("scores").at(i);
    EXPECT_EQ(score.at("position"), std::stoi(cells[1]));
    EXPECT_NEAR(score.at("surprise"), std::stod(cells[5]), 1e-5);
    EXPECT_EQ(score.at("rank"), std::stoi(cells[6]));
  }
}

TEST_F(Eval, ALongTextMayBeCutAndSaysSo) {
  const std::string a = Put("a.txt", SomeWords(6000000));
  const std::string compare = "eval compare " + Path("model") + " " + Path("other") + " " + a;
  EXPECT_EQ(Answer(compare + " --max-tokens 50").at("tokens"), 49);
  EXPECT_EQ(Answer(Perplexity(a + " --max-tokens 50")).at("total").at("tokens"), 49);
  ExpectError(2, compare + " --max-tokens 1", "nothing to predict");
  // Reading it all with a stride of one token takes minutes, which is reported within seconds.
  const ProgramRun run = Ended(
      130, RunShell(At(""), "$F " + compare +
                                " --stride 1 --threads 1 --backend reference 2>told & "
                                "p=$!\n" +
                                Awaited("grep -q 'this takes about' told") +
                                "sleep 0.3; kill -INT $p; wait $p; s=$?; cat told >&2; exit $s"));
  EXPECT_EQ(Count(run.err, "this takes about"), 1u) << run.err;
  EXPECT_TRUE(Contains(run.err, "; --max-tokens ", "in about a minute"));
}

// After a kill at any time, the next call gives the result of one without interruption.
TEST_F(Eval, AKilledCallIsGoneOnWith) {
  std::string text;
  for (int i = 0; i < (kSanitized ? 10000 : 30000); ++i) {
    text += std::to_string(i * i % 977) + ' ';
  }
  Put("a.txt", text);
  const std::string call = "exec $F " + Perplexity("a.txt --stride 5 --batch 2 --csv t.csv --json");
  const ProgramRun whole = Well(RunShell(At(""), call));
  const std::string csv = ReadFile(At("t.csv"));
  fs::remove(At("t.csv"));
  for (const char* signal : {"KILL", "INT", "KILL"}) {
    const ProgramRun run =
        RunShell(At(""), "n=$(cat .t.csv.*.part 2>/dev/null | wc -c); (" + call +
                             ") >/dev/null & p=$!; for i in $(seq 1000); do "
                             "s=$(cat .t.csv.*.part 2>/dev/null | wc -c); "
                             "[ $s -gt $((n + 100000)) ] && break; sleep 0.01; done; kill -" +
                             signal + " $p; wait $p");
    EXPECT_EQ(run.status, std::string(signal) == "KILL" ? 137 : 130) << run.err;
    EXPECT_FALSE(fs::exists(At("t.csv")));
  }
  const ProgramRun last = RunShell(At(""), call);
  EXPECT_EQ(last.out, whole.out);
  EXPECT_EQ(ReadFile(At("t.csv")), csv);
  EXPECT_EQ(Count(last.err, "measured again"), 0u) << last.err;
}

TEST_F(Eval, ClozeTellsThreeAccuracies) {
  const std::string file = Put("a.jsonl",
                               "{\"ctx\":\"One\",\"endings\":[\"day\",\"fox\"],\"label\":0}\n"
                               "{\"ctx\":\"One\",\"endings\":[\"day\",\"fox\"],\"label\":1}\n");
  const std::string call = "eval cloze --model " + Path("model") + " " + file;
  const nlohmann::json json = Answer(call + " --out " + Path("items.jsonl"));
  EXPECT_EQ(json.at("items"), 2);
  for (const char* acc : {"acc", "acc_norm", "acc_token"}) {
    EXPECT_EQ(json.at(acc), 0.5);
    EXPECT_NEAR(json.at(std::string(acc) + "_stderr"), 0.5, 1e-12);
  }
  EXPECT_EQ(Count(ReadFile(At("items.jsonl")), "\n"), 2u);
  EXPECT_TRUE(Contains(RunFolio(call).out, "acc_norm", "50.00%", "1 of 2"));
  ExpectError(3,
              "eval cloze --model " + Path("model") + " " +
                  Put("b.jsonl", "{\"ctx\":\"One\",\"endings\":[\"day\",\"fox\"],\"label\":4}\n"),
              "b.jsonl:1", "label");
  ExpectError(3, call + " --text hellaswag", "activity_label");
}

TEST_F(Eval, CompareTellsHowFarModelsAre) {
  const std::string a = Put("a.txt", "some words to predict\n");
  const auto call = [&](const std::string& b) {
    return "eval compare " + Path("model") + " " + Path(b) + " " + a;
  };
  const nlohmann::json same = Answer(call("model"));
  EXPECT_EQ(same.at("kl").at("max"), 0);
  EXPECT_EQ(same.at("same_top"), 1);
  EXPECT_EQ(same.at("perplexity_ratio"), 1);
  const nlohmann::json other = Answer(call("other"));
  EXPECT_GT(other.at("kl").at("mean"), 0.1);
  EXPECT_LT(other.at("same_top"), 1);
  EXPECT_EQ(other.at("perplexity_a"), same.at("perplexity_a"));
  EXPECT_TRUE(Contains(RunFolio(call("other")).out, "KL(A||B)", "ratio"));
  ExpectError(3, call("larger"), "cannot be compared", "the vocabularies have 257 and 258 tokens");
  // The two dtypes of one model are compared.
  const nlohmann::json rounded = Answer(call("model") + " --dtype fp32 --dtype-b bf16");
  EXPECT_EQ(rounded.at("perplexity_a"), same.at("perplexity_a"));
  EXPECT_GT(rounded.at("kl").at("max"), 0);
  EXPECT_LT(rounded.at("kl").at("max"), 1e-2);
  ExpectError(2, call("model") + " --dtype-b int8", "cannot run as Q8_0", "bf16");
}

TEST_F(Eval, WrongInputIsNamed) {
  const std::string text = Put("a.txt", "some words");
  ExpectError(3, Perplexity(Put("empty.txt", "")), "empty.txt: empty");
  ExpectError(3, Perplexity(Put("one.txt", "x")), "one.txt: nothing to predict");
  ExpectError(3, Perplexity(Path("none.txt")), "none.txt");
  ExpectError(2, Perplexity(""), "FILE");
  ExpectError(2, Perplexity(text + " --csv -"), "--csv -");
  ExpectError(2, Perplexity(text + " --csv " + Path("model")), "is a directory");
  ExpectError(2, Perplexity(text + " --context 14"), "--context 14", "13 tokens");
  ExpectError(2, Perplexity(text + " --context 5 --stride 6"), "--stride 6");
  fs::remove(At("model/tokenizer.json"));
  for (const char* file : {"tokenizer_config.json", "vocab.json", "merges.txt"}) {
    fs::remove(At("model") / file);
  }
  ExpectError(3, Perplexity(text), "no tokenizer", "--tokenizer");
  ExpectError(3, "eval cloze --model " + Path("model") + " " + text, "no tokenizer");
  Well(RunFolio(Perplexity(text + " --tokenizer bytes")));
  ExpectError(2, "eval nothing", "eval");
}

TEST_F(Eval, AModelThatIsNotFiniteIsRefused) {
  const GptWeights weights(LoadModelConfig(At("model")));
  Scatter(weights, 7);
  weights.params().h[1].attn.c_attn.weight.data<float>()[36 * 2 + 5] = NAN;
  SaveModel(At("model"), weights);
  for (const std::string call :
       {"generate --prompt a", "inspect probabilities --text abc", "eval perplexity a.txt"}) {
    ExpectError(3, call + " --model " + Path("model"), "model.safetensors",
                "h.1.attn.c_attn.weight", "[2,5] is nan");
  }
}

// Every weight is finite, but their products are not.
TEST_F(Eval, LogitsThatAreNotFiniteAreNoResult) {
  const GptWeights weights(LoadModelConfig(At("model")));
  Scatter(weights, 7);
  for (float& x : Elements<float>(weights.params().ln_f.weight)) x = 3e38F;
  for (float& x : Elements<float>(weights.params().wte)) x *= 100;
  SaveModel(At("model"), weights);
  const std::string text = Put("a.txt", "some words of a text");
  const std::string items =
      Put("items.jsonl", R"({"ctx":"ab","endings":["c","d","e","f"],"label":0})");
  const std::string model = " --model " + Path("model");
  for (const std::string& call : std::vector<std::string>{
           "eval perplexity " + text, "eval perplexity --csv " + Path("rows.csv") + " " + text,
           "eval perplexity --dtype bf16 " + text, "eval perplexity --backend reference " + text,
           "eval cloze " + items, "eval cloze --out " + Path("lines") + " " + items,
           "inspect probabilities --text abc", "inspect lens --text abc",
           "explain block --text abc", "explain sampling --text abc"}) {
    ExpectError(5, call + model, "the logits of the model are not finite",
                "help: the weights are too large or damaged");
  }
  for (const std::string more : {"", " --temperature 0", " --beams 2"}) {
    EXPECT_TRUE(
        Contains(Ended(5, RunFolio("generate --prompt a --max-tokens 2" + model + more)).err,
                 "error: the logits of the model are not finite"))
        << more;
  }
  EXPECT_FALSE(fs::exists(At("rows.csv")));
  for (const auto& [a, b] : {std::pair("model", "other"), std::pair("other", "model")}) {
    ExpectError(5, "eval compare " + Path(a) + " " + Path(b) + " " + text, "not finite",
                "token 1 of document 0");
  }
}

}  // namespace
}  // namespace folio
