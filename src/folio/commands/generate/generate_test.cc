#include <gtest/gtest.h>

#include <algorithm>

#include "folio/commands/train/test_train.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
// A run of characters, and a model in `bare` that is the same without its tokenizer.
class Generate : public TrainTest {
 protected:
  void SetUp() override {
    Well(Train());
    fs::create_directory(At("bare"));
    fs::copy_file(At("run/best/model.safetensors"), At("bare/model.safetensors"));
    WriteFileAtomically(At("bare/config.json"), Replaced(ReadFile(At("run/best/config.json")),
                                                         ",\n  \"checksums\": \"SHA256SUMS\"", ""));
  }

  std::string Words(const std::string& more) const {
    return "generate --seed 3 --max-tokens 8 --model " + At("run").string() + " " + more;
  }
  // Returns the text that is added to a prompt, which does not depend on the way it was given.
  std::string Text(const std::string& more) const {
    const ProgramRun run = Well(RunFolio(Words(more)));
    return run.out;
  }
};

TEST_F(Generate, WeightsMayBeReadAtOnceAndKeptAndCachedInAnotherDtype) {
  EXPECT_EQ(Text("--load read 'a small'"), Text("--load map 'a small'"));
  EXPECT_TRUE(Text("--bf16-cache 'a small'").starts_with("a small"));
  EXPECT_EQ(Text("--dtype auto 'a small'"), Text("--dtype fp32 'a small'"));
  EXPECT_TRUE(Text("--dtype bf16 'a small'").starts_with("a small"));
  const ProgramRun blocks = Ended(2, RunFolio(Words("--dtype int8 x")));
  EXPECT_TRUE(Contains(blocks.err, "Q8_0 stores blocks of 32 numbers"));
  Ended(2, RunFolio(Words("--dtype int3 x")));
}

TEST_F(Generate, APromptMayComeInAnyWay) {
  const std::string expected = Text("--prompt 'a small'");
  EXPECT_TRUE(expected.starts_with("a small")) << expected;
  EXPECT_EQ(Text("'a small'"), expected);
  WriteFileAtomically(At("prompt.txt"), "a small\n");
  const std::string file = At("prompt.txt").string();
  EXPECT_EQ(Text("--file " + file), expected);
  EXPECT_EQ(Text("--file - < " + file), expected);
  EXPECT_EQ(Text("- < " + file), expected);
  EXPECT_EQ(Text("< " + file), expected);
  const ProgramRun piped = RunShell(At(""), "cat prompt.txt | $F " + Words("--no-config"));
  EXPECT_EQ(piped.out, expected) << piped.err;
  const nlohmann::json line = JsonLines(Text("--json 'a small'")).at(0);
  std::string ids;
  for (const nlohmann::json& id : line.at("prompt_ids"))
    ids += (ids.empty() ? "" : ",") + id.dump();
  EXPECT_EQ(Text("--ids " + ids), expected);
}

TEST_F(Generate, EveryPromptOfAFileIsContinuedByItself) {
  WriteFileAtomically(At("lines.txt"), "a small\n\ntext\r\n");
  WriteFileAtomically(At("lines.jsonl"),
                      "{\"prompt\":\"a small\"}\n{\"prompt\":\"text\",\"n\":1}\n");
  for (const char* file : {"lines.txt", "lines.jsonl"}) {
    const std::string out = Text("--n 2 --json --prompts " + At(file).string());
    const std::vector<nlohmann::json> lines = JsonLines(out);
    ASSERT_EQ(lines.size(), 4u) << file;
    for (size_t i = 0; i < 4; ++i) {
      const std::string prompt = i < 2 ? "a small" : "text";
      EXPECT_EQ(lines[i].at("prompt"), prompt);
      EXPECT_EQ(lines[i].at("prompt_index"), i / 2);
      EXPECT_EQ(lines[i].at("index"), i % 2);
      const nlohmann::json alone =
          JsonLines(Text("--n 2 --json --prompt '" + prompt + "'")).at(i % 2);
      EXPECT_EQ(lines[i].at("ids"), alone.at("ids")) << "neighbours change nothing";
    }
    EXPECT_EQ(Text("--prompts " + At(file).string()),
              Text("--prompt 'a small'") + "\n" + Text("--prompt text"));
  }
}

TEST_F(Generate, WhatCannotBeAPromptIsRefused) {
  const auto refused = [&](const char* name, const std::string& text, const auto&... parts) {
    WriteFileAtomically(At(name), text);
    ExpectError(3, Words("--prompts " + At(name).string()), parts...);
  };
  refused("a.jsonl", "{\"prompt\":\"a\"}\n{\"text\":\"b\"}\n", "a.jsonl:2", "\"prompt\"");
  refused("b.txt", "a small\nЖ\n", "b.txt:2", "U+0416");
  refused("c.txt", "\n\n", "no prompts");
  ExpectError(3, Words("--ids 1,99"), "--ids: the model has no token 99",
              "the token ids are 0 to ");
  ExpectError(3, Words("--ids 1,-2"), "--ids", "'-2'");
  ExpectError(3, Words("--ids ''"), "--ids: no token ids");
  ExpectError(3, "generate --model '' --prompt a", "no model is named", "a model directory");
}

TEST_F(Generate, AModelWithoutATokenizerTakesAndPrintsIds) {
  const std::string words = "generate --seed 3 --max-tokens 4 --model " + At("bare").string() + " ";
  const ProgramRun text = Well(RunFolio(words + "--ids 1,2"));
  const nlohmann::json line = JsonLines(RunFolio(words + "--ids 1,2 --json").out).at(0);
  EXPECT_FALSE(line.contains("text"));
  ASSERT_EQ(line.at("ids").size(), 4u);
  std::string expected = "1 2";
  for (const nlohmann::json& id : line.at("ids")) expected += " " + id.dump();
  EXPECT_EQ(text.out, expected + "\n");
  ExpectError(3, words + "--prompt a", "no tokenizer", "--tokenizer", "--ids 5,0,12");
  ExpectError(3, words, "no tokenizer", "--ids");
  // One may be named for it.
  const std::string named = "generate --seed 3 --max-tokens 8 --prompt 'a small' --model " +
                            At("bare").string() + " --tokenizer ";
  EXPECT_EQ(RunFolio(named + At("run").string()).out, Text("--prompt 'a small'"));
  ExpectError(3, named + "bytes", "the tokenizer does not match the model", "257 tokens");
  ExpectError(2, Words("--prompt a --tokenizer bytes"), ": the model has a different tokenizer");
  EXPECT_EQ(Text("--prompt 'a small' --tokenizer " + At("run/last").string()),
            Text("--prompt 'a small'"));
}

TEST_F(Generate, AModelThatIsCopiedWithoutItsChecksumsSaysWhatToDo) {
  fs::copy_file(At("run/best/config.json"), At("bare/config.json"),
                fs::copy_options::overwrite_existing);
  ExpectError(3, "generate --model " + At("bare").string() + " --ids 1",
              "bare/SHA256SUMS is missing", "according to config.json",
              "copy it too; if it was removed on purpose, remove \"checksums\" from");
}

TEST_F(Generate, ADamagedCheckpointIsNoticed) {
  std::string bytes = ReadFile(At("run/best/model.safetensors"));
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 1);
  WriteFileAtomically(At("run/best/model.safetensors"), bytes);
  ExpectError(3, Words("x"), "run/best/model.safetensors is damaged", "SHA256SUMS",
              "run/last is the newest checkpoint",
              "folio train --resume --out " + At("run").string());
  ExpectError(3, "eval perplexity --model " + At("run").string() + " " + data_, "is damaged");
  Well(RunFolio(Words("x --model " + At("run/last").string())));
  // As the help says.
  Well(RunFolio(Resumed("")));
  Well(RunFolio(Words("x")));
  WriteFileAtomically(At("run/last/model.safetensors"), bytes.substr(0, 900));
  ExpectError(3, Words("x --model " + At("run/last").string()), "is damaged", "take another");
  fs::remove(At("run/best/tokenizer.json"));
  ExpectError(3, Words("x"), "run/best/tokenizer.json is missing");
  // The files for resuming a run are not needed by a model.
  fs::remove_all(At("run/last/train_state"));
  WriteFileAtomically(At("run/last/model.safetensors"), ReadFile(At("run/best/model.safetensors")));
  Well(RunFolio(Words("x --model " + At("run/last").string())));
}

TEST_F(Generate, AFullContextIsToldOnceAndMayEndTheText) {
  const ProgramRun fits = RunFolio(Words("--prompt 'a small'"));  // 7 + 8 of 16
  EXPECT_EQ(Count(fits.err, "tokens is full: "), 0u) << fits.err;
  const ProgramRun slides = RunFolio(Words("--prompt 'a small' --max-tokens 12 --n 3"));
  EXPECT_EQ(Count(slides.err, "tokens is full: "), 1u) << slides.err;
  EXPECT_TRUE(Contains(slides.err, "the context of 16 tokens is full: the oldest",
                       "tokens is full: the oldest 8 are dropped and the other",
                       "per 8 tokens (see --stride and --when-full stop)"));
  EXPECT_TRUE(Contains(
      RunFolio(Words("--prompt 'a small' --max-tokens 12 --stride 3")).err,
      "tokens is full: the oldest 3 are dropped and the other 13 processed again, which takes"));
  const std::string words = "--json --prompt 'a small' --max-tokens 12 ";
  const nlohmann::json slid = JsonLines(Text(words)).at(0),
                       ended = JsonLines(Text(words + "--when-full stop")).at(0);
  EXPECT_EQ(slid.at("finish_reason"), "length");
  EXPECT_EQ(slid.at("ids").size(), 12u);
  EXPECT_EQ(ended.at("finish_reason"), "context");
  EXPECT_EQ(ended.at("ids").size(), 10u) << "what follows 7 to 16 tokens";
}

TEST_F(Generate, APromptThatIsTooLongIsRefusedOrCut) {
  const std::string words = Words("--prompt 'a small text to learn'");
  ExpectError(2, words, "the prompt is longer than the context", "21 tokens of at most 16",
              "--truncate uses its last 8 tokens");
  const ProgramRun cut = Well(RunFolio(words + " --truncate --stride 6 --greedy"));
  EXPECT_TRUE(Contains(
      cut.err,
      "the prompt is longer than the context: only the last 10 of its 21 tokens are used"));
  EXPECT_EQ(cut.out, "a small tex" + Text("--prompt 't to learn' --greedy"))
      << "as if the rest had never been there";
  WriteFileAtomically(At("two.txt"), "a small\na small text to learn\n");
  ExpectError(2, Words("--prompts " + At("two.txt").string()), "prompt 2 is longer");
}

TEST_F(Generate, SeveralTextsAtOnceAreToldInTheirOrder) {
  WriteFileAtomically(At("three.txt"), "a small\nto\na small text\n");
  const std::string words = "--n 2 --prompts " + At("three.txt").string();
  const std::string one = Text(words + " --batch 1");
  for (const char* batch : {" --batch 2", " --batch 5", " --batch 6 --threads 1"}) {
    EXPECT_EQ(Text(words + batch), one) << batch;
  }
  const auto ids = [&](const std::string& more) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : JsonLines(RunFolio(Words(words + " --json" + more)).out)) {
      found.push_back({line.at("prompt_index"), line.at("index"), line.at("ids")});
    }
    return found;
  };
  EXPECT_EQ(ids(" --batch 1"), ids(" --batch 4"));
  EXPECT_EQ(ids("").size(), 6u);
}

TEST_F(Generate, GuessesChangeNothing) {
  const std::string words = "--max-tokens 30 'a small' ";
  for (const char* how : {"", "--greedy "}) {
    const std::string expected = Text(words + how);
    EXPECT_EQ(Text(words + how + "--draft ngram"), expected);
    EXPECT_EQ(Text(words + how + "--draft " + At("run").string()), expected);
  }
  const ProgramRun run = RunFolio(Words(words + "--greedy -v --draft " + At("run").string()));
  EXPECT_TRUE(Contains(run.err, "draft tokens accepted,", "passes"));
}

TEST_F(Generate, BeamsFindTheLikeliestTexts) {
  const std::string plain = "generate 'a small' --max-tokens 5 --model " + At("run").string() + " ";
  const std::string words = plain + "--json ";
  const auto beams = JsonLines(RunFolio(words + "--beams 4 --n 3").out);
  ASSERT_EQ(beams.size(), 3u);
  const nlohmann::json greedy = JsonLines(RunFolio(words + "--greedy").out).at(0);
  EXPECT_EQ(JsonLines(RunFolio(words + "--beams 1").out).at(0).at("text"), greedy.at("text"));
  for (size_t i = 1; i < 3; ++i) EXPECT_LE(beams[i].at("score"), beams[i - 1].at("score"));
  EXPECT_NEAR(beams[0].at("score").get<double>(), beams[0].at("log_probability").get<double>() / 5,
              1e-12);
  const ProgramRun shown = RunFolio(plain + "--beams 4 --n 2");
  EXPECT_EQ(shown.out, "a small" + beams[0].at("text").get<std::string>() + "\n\na small" +
                           beams[1].at("text").get<std::string>() + "\n");
  ExpectError(2, plain + "--beams 2 --n 3", "2 beams cannot give 3 texts");
  ExpectError(2, plain + "--beams 2 --top-k 3", "--beams");
  ExpectError(2, plain + "--beams 2 --draft ngram", "--beams", "--draft");
}

TEST_F(Generate, SpeedIsToldAtTheEnd) {
  const ProgramRun usual = RunFolio(Words("--prompt 'a small' --n 2"));
  EXPECT_EQ(Count(usual.err, "16 tokens in "), 1u) << usual.err;
  EXPECT_EQ(Count(usual.err, "tokens/s"), 1u) << usual.err;
  EXPECT_EQ(RunFolio(Words("--prompt 'a small' --quiet")).err, "");
  const ProgramRun json = RunFolio(Words("--prompt 'a small' --json"));
  EXPECT_EQ(Count(json.err, "tokens/s"), 0u);
  const nlohmann::json line = JsonLines(json.out).at(0);
  EXPECT_EQ(line.at("prompt_tokens"), 7);
  EXPECT_EQ(line.at("tokens"), 8);
  EXPECT_EQ(line.at("ids").size(), 8u);
  EXPECT_GT(line.at("prompt_seconds").get<double>(), 0);
  EXPECT_GT(line.at("seconds").get<double>(), 0);
  EXPECT_TRUE(Contains(RunFolio(Words("--prompt 'a small' -v")).err, "prompt: 7 tokens in ",
                       "generation: 8 tokens in ", "tokens/s"));
  for (const int64_t tokens : {1, 2, 8}) {
    const std::string most = " --max-tokens " + std::to_string(tokens);
    const std::string alone = RunFolio(Words("--prompt 'a small'" + most)).err;
    EXPECT_TRUE(Contains(alone, std::to_string(tokens) + " tokens in ")) << alone;
    EXPECT_EQ(JsonLines(Text("--json --prompt 'a small'" + most)).at(0).at("tokens"), tokens);
  }
}

// Every id but a few is made impossible, or one of them certain.
TEST_F(Generate, FlagsSayWhatIsChosen) {
  const auto ids = [&](const std::string& more) {
    return JsonLines(Text("--json --ids 1,2 " + more)).at(0).at("ids").get<std::vector<int>>();
  };
  const auto in = [](const std::vector<int>& some, int id) {
    return std::ranges::find(some, id) != some.end();
  };
  EXPECT_EQ(ids("--logit-bias 3=900"), std::vector<int>(8, 3));
  EXPECT_EQ(ids("--logit-bias 3=900,4=950 --greedy"), std::vector<int>(8, 4));
  EXPECT_EQ(ids("--force 5,6,5,7 --force 8 --max-tokens 5"), (std::vector<int>{5, 6, 5, 7, 8}));
  const std::vector<int> usual = ids("--temperature 3");
  EXPECT_FALSE(in(ids("--temperature 3 --ban " + std::to_string(usual[0])), usual[0]));
  std::vector<int> once = ids("--no-repeat-ngram 1 --max-tokens 6");
  std::ranges::sort(once);
  EXPECT_EQ(std::ranges::adjacent_find(once), once.end());
  EXPECT_FALSE(in(once, 1)) << "nor what is in the prompt";
  const std::vector<int> greedy = ids("--greedy");
  for (const char* cut : {"--top-k 1", "--top-p 1e-9", "--min-p 1", "--temperature 1e-9"}) {
    EXPECT_EQ(ids(cut), greedy) << cut;
  }
  EXPECT_NE(ids("--typical 0.2 --temperature 3"), usual);
  // 3 and 4 are far ahead: their penalties decide between them.
  EXPECT_EQ(ids("--greedy --logit-bias 3=90,4=85 --presence-penalty 20"),
            (std::vector<int>{3, 4, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(ids("--greedy --logit-bias 3=90,4=75 --frequency-penalty 20"),
            (std::vector<int>{3, 4, 3, 4, 3, 4, 3, 4}));
  EXPECT_EQ(ids("--greedy --logit-bias 3=90,4=80 --repetition-penalty 3 --max-tokens 2"),
            (std::vector<int>{3, 4}));
}

TEST_F(Generate, StopTextsEndATextAndAreNotShown) {
  const nlohmann::json whole = JsonLines(Text("--json --greedy 'a small'")).at(0);
  const std::string text = whole.at("text");
  ASSERT_EQ(text.size(), 8u);
  const std::string stop = text.substr(3, 2);
  const size_t at = text.find(stop);
  const nlohmann::json ended =
      JsonLines(Text("--json --greedy 'a small' --stop zzz --stop '" + stop + "'")).at(0);
  EXPECT_EQ(ended.at("text"), text.substr(0, at));
  EXPECT_EQ(ended.at("finish_reason"), "stop");
  EXPECT_EQ(Text("--greedy 'a small' --stop '" + stop + "'"),
            "a small" + text.substr(0, at) + "\n");
  ExpectError(3, "generate --model " + At("bare").string() + " --ids 1 --stop a", "no tokenizer",
              ", or remove --stop");
}

TEST_F(Generate, ProbabilitiesAreInTheLines) {
  const nlohmann::json line = JsonLines(Text("--json --greedy 'a small' --probabilities 2")).at(0);
  const nlohmann::json& all = line.at("probabilities");
  ASSERT_EQ(all.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(all[i].at("id"), line.at("ids")[i]);
    EXPECT_EQ(all[i].at("likeliest").size(), 2u);
    EXPECT_EQ(all[i].at("likeliest")[0].at("id"), all[i].at("id"));
    EXPECT_EQ(all[i].at("likeliest")[0].at("log_probability"), all[i].at("log_probability"));
    EXPECT_TRUE(all[i].at("text").is_string());
  }
  // The model's own, whatever the sampling options.
  const nlohmann::json biased =
      JsonLines(Text("--json 'a small' --probabilities 1 --logit-bias 3=900 --max-tokens 1")).at(0);
  EXPECT_EQ(biased.at("probabilities")[0].at("likeliest")[0], all[0].at("likeliest")[0]);
  EXPECT_LT(biased.at("probabilities")[0].at("log_probability").get<double>(), 0);
  ExpectError(2, Words("a --probabilities 2"), "--probabilities needs --json");
}

TEST_F(Generate, WrongValuesAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--min-p 1.1", "--min-p"},
      {"--min-p -1", "--min-p"},
      {"--typical 0", "--typical"},
      {"--typical 2", "--typical"},
      {"--top-p 0", "--top-p"},
      {"--top-k -1", "--top-k"},
      {"--temperature -1", "--temperature"},
      {"--repetition-penalty 0", "--repetition-penalty"},
      {"--presence-penalty 101", "--presence-penalty"},
      {"--frequency-penalty x", "--frequency-penalty"},
      {"--no-repeat-ngram -1", "--no-repeat-ngram"},
      {"--min-tokens -1", "--min-tokens"},
      {"--logit-bias 3", "'3' is not ID=NUMBER"},
      {"--logit-bias x=1", "--logit-bias"},
      {"--logit-bias 3=1001", "--logit-bias"},
      {"--logit-bias 999=1", "logit bias: the model has no token 999"},
      {"--stop ''", "a stop string is empty"},
      {"--stop \"$(printf '\\303')\"", "is not UTF-8"},
      {"--when-full wait", "--when-full"},
      {"--stride 0", "0 is not between 1 and 15"},
      {"--stride 16", "16 is not between 1 and 15"},
      {"--probabilities -1", "--probabilities"},
      {"--interactive", "--interactive and a prompt cannot be used together"},
  };
  for (const auto& [flag, said] : wrong) ExpectError(2, Words(std::string("a ") + flag), said);
  ExpectError(2, Words("--interactive -n 2"), "--interactive and --n cannot be used together");
  ExpectError(3, Words("a --ban 999"), "--ban: the model has no token 999");
  ExpectError(3, Words("a --force 1,x"), "--force", "'x'");
}

TEST_F(Generate, LinesOfInputAreContinuedOneByOne) {
  const ProgramRun run = Well(
      RunShell(At(""), "printf 'a small\\n\\ntext' | $F " + Words("--interactive --no-config")));
  EXPECT_EQ(run.out, Text("--prompt 'a small'") + Text("--prompt text"));
  const ProgramRun nothing = Well(RunFolio(Words("--interactive")));
  EXPECT_EQ(nothing.out, "");
  ExpectError(3, Words("--interactive --chat"), ": the model has no chat template");
}

// A model that was trained to answer.
class Conversations : public TrainTest {
 protected:
  void SetUp() override {
    std::string chats;
    for (int i = 0; i < 60; ++i) {
      chats += "{\"prompt\":\"Who?\",\"completion\":\"I am number " + std::to_string(i) + ".\"}\n";
    }
    WriteFileAtomically(At("chats.jsonl"), chats);
    Well(Train("model.n_positions=40 --tokenizer bytes --max-steps 2 --data " +
               At("chats.jsonl").string()));
  }
  // One line of JSON for each answer.
  std::vector<nlohmann::json> Answers(const std::string& lines, const std::string& more,
                                      std::string* err) {
    const ProgramRun run =
        Well(RunShell(At(""), "printf '" + lines +
                                  "' | $F generate --no-config --model run --greedy --chat "
                                  "--interactive --json --max-tokens 4 " +
                                  more));
    if (err != nullptr) *err = run.err;
    return JsonLines(run.out);
  }
};

TEST_F(Conversations, EveryAnswerKnowsTheTurnsBefore) {
  const std::vector<nlohmann::json> answers = Answers("Who?\\nWhy?\\n", "", nullptr);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].at("prompt"), "Who?");
  EXPECT_EQ(answers[1].at("prompt"), "Why?");
  std::vector<int> ids = answers[0].at("prompt_ids");
  for (const nlohmann::json& id : answers[0].at("ids")) ids.push_back(id);
  const std::vector<int> second = answers[1].at("prompt_ids");
  ASSERT_GT(second.size(), ids.size());
  EXPECT_EQ(std::vector<int>(second.begin(), second.begin() + std::ssize(ids)), ids);
  const nlohmann::json alone = Answers("Who?", "", nullptr).at(0);
  EXPECT_EQ(alone.at("ids"), answers[0].at("ids"));
}

TEST_F(Conversations, ASystemMessageComesFirst) {
  const auto ids = [&](const std::string& words) {
    const ProgramRun run = Well(
        RunShell(At(""), "$F generate run --no-config --greedy --max-tokens 1 --json " + words));
    return JsonLines(run.out).at(0).at("prompt_ids").get<std::vector<int>>();
  };
  const std::vector<int> without = ids("--chat 'Who?'"), with = ids("--chat --system Hm 'Who?'");
  ASSERT_EQ(with.size(), without.size() + 4) << "its role, two bytes, and its end";
  EXPECT_EQ(std::vector<int>(with.end() - std::ssize(without), with.end()), without);
  EXPECT_EQ(with[1], 'H');
  const std::vector<nlohmann::json> answers = Answers("Who?\\nWhy?\\n", "--system Hm", nullptr);
  EXPECT_EQ(answers.at(0).at("prompt_ids"), with);
  const std::vector<int> second = answers.at(1).at("prompt_ids");
  EXPECT_EQ(std::vector<int>(second.begin(), second.begin() + std::ssize(with)), with);
  EXPECT_EQ(std::ranges::count(second, with[0]), 1);
  ExpectError(2, "generate " + At("run").string() + " --system Hm x", "--system needs --chat");
}

TEST_F(Conversations, AnswersAreChosenMoreCarefullyThanTexts) {
  const auto run = [&](const std::string& words) {
    return Well(RunShell(At(""), "$F generate run --no-config --seed 3 --max-tokens 6 " + words));
  };
  EXPECT_TRUE(
      Contains(run("--chat 'Who?'").err, "sampling: temperature 0.3", "default for answers"));
  EXPECT_FALSE(Contains(run("'Who?'").err, "sampling:"));
  EXPECT_EQ(run("--chat 'Who?'").out,
            run("--chat 'Who?' --temperature 0.3 --top-k 40 --top-p 0.9 --min-p 0.05").out);
  EXPECT_EQ(run("'Who?'").out, run("'Who?' --temperature 1").out);
  const std::string hot = "--chat 'Who?' --temperature 3 --top-k 0 --top-p 1 --min-p 0";
  EXPECT_NE(run("--chat 'Who?'").out, run(hot).out);
  EXPECT_FALSE(Contains(run(hot).err, "sampling:")) << "nothing is left to the default";
}

TEST_F(Conversations, AModelMaySayHowItIsToBeSampled) {
  WriteFileAtomically(At("run/best/generation_config.json"),
                      R"({"do_sample": false, "repetition_penalty": 1.5})");
  WriteFileAtomically(
      At("run/best/config.json"),
      Replaced(ReadFile(At("run/best/config.json")), ",\n  \"checksums\": \"SHA256SUMS\"", ""));
  fs::remove(At("run/best/SHA256SUMS"));
  const auto run = [&](const std::string& words) {
    return Well(RunShell(At(""), "$F generate run --no-config --seed 3 --max-tokens 6 " + words));
  };
  for (const std::string what : {"'Who?'", "--chat 'Who?'"}) {
    const ProgramRun plain = run(what);
    EXPECT_TRUE(Contains(plain.err,
                         "sampling: temperature 0, repetition-penalty 1.5 (from "
                         "generation_config.json)"));
    EXPECT_EQ(plain.out, run(what + " --greedy --repetition-penalty 1.5").out);
    EXPECT_EQ(run(what + " --temperature 2 --repetition-penalty 1").out,
              run(what + " --temperature 2 --repetition-penalty 1 --top-p 1").out);
  }
}

TEST_F(Conversations, TheOldestTurnsAreForgottenAndThatIsSaid) {
  std::string err;  // a turn has at most 4 + 4 + 4 tokens, a question 7; 36 are left for the
                    // question
  const std::vector<nlohmann::json> answers =
      Answers("1234\\n1234\\n1234\\n1234\\n", "--ban 256", &err);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(
      Count(err, "the conversation exceeds the context: from now on its oldest turns are dropped"),
      1u)
      << err;
  for (const nlohmann::json& answer : answers) EXPECT_LE(answer.at("prompt_tokens"), 36);
}

}  // namespace
}  // namespace folio
