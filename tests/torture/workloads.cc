#include "tests/torture/workloads.h"

namespace folio::torture {
namespace {

Words Split(const std::string& text) {
  return Parts(text, ' ');
}

// A run with everything: dropout, accumulation, shuffling, evaluations, samples, checkpoints.
Words Train(const std::string& out, const std::string& more) {
  return Split("train --data ../input/text.txt --out " + out +
               " --no-config --batch 2 --tokenizer char --set model.n_layer=1 model.n_head=2"
               " model.n_embd=8 model.n_positions=16 model.resid_pdrop=0.1 model.attn_pdrop=0.1"
               " train.grad_accumulation=2 train.order=epochs train.eval_every=4"
               " train.eval_batches=2 train.checkpoint_every=3 log.sample_every=3"
               " log.sample_tokens=8 train.threads=1 " +
               more);
}

}  // namespace

std::string InputText() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "a small text to learn from, number " + std::to_string(i % 10) + "\n";
  }
  return text;
}

std::vector<Words> InputCommands() {
  return {Train("../input/model", "train.max_steps=6"),
          Split("data prepare ../input/text.txt --out ../input/data --no-config")};
}

std::vector<Workload> Workloads() {
  const std::string steps = "train.max_steps=12";
  const Words resume = Split("train --resume --out root/run --no-config --max-steps 12");
  const auto with = [](Words words, const std::string& more) {
    for (const std::string& word : Split(more)) words.push_back(word);
    return words;
  };
  std::vector<Workload> all;
  const Words train = Train("root/run", steps);
  all.push_back(
      {.name = "train", .command = train, .resume = resume, .again = with(train, "--overwrite")});
  all.push_back({.name = "resume",
                 .before = {Train("root/run", "train.max_steps=7 train.decay_steps=12")},
                 .command = resume,
                 .resume = resume,
                 .again = {}});
  const Words other = Train("root/run", steps + " train.seed=3 --overwrite");
  all.push_back(
      {.name = "overwrite", .before = {train}, .command = other, .resume = resume, .again = other});
  const Words lora = Split(
      "train --init ../input/model --data ../input/text.txt --out root/run"
      " --no-config --batch 2 --set lora.rank=2 train.max_steps=12"
      " train.eval_every=4 train.eval_batches=2 train.checkpoint_every=3"
      " train.threads=1");
  all.push_back(
      {.name = "lora", .command = lora, .resume = resume, .again = with(lora, "--overwrite")});
  const auto writer = [&](const std::string& name, const std::string& command,
                          const std::string& overwrite, bool replaces) {
    const Words plain = Split(command + " --no-config"), over = with(plain, overwrite);
    all.push_back({.name = name, .command = plain, .again = over});
    if (replaces) {
      Words before = plain;  // of something else
      for (std::string& word : before) {
        if (word == "../input/text.txt") word = "../input/other.txt";
      }
      all.push_back({.name = name + "-over", .before = {before}, .command = over, .again = over});
    }
  };
  writer("prepare", "data prepare ../input/text.txt --out root/new/data --shard-tokens 5000",
         "--overwrite", true);
  writer("prepare-llmc",
         "data prepare ../input/text.txt --out root/data --format llmc"
         " --tokenizer bytes",
         "--overwrite", false);
  writer("tokenizer",
         "tokenizer train ../input/text.txt --out root/tok --vocab-size 270"
         " --threads 1",
         "--overwrite", true);
  writer("stories", "data stories --out root/stories.txt --bytes 300000", "--overwrite", false);
  writer("convert-hf", "convert ../input/model root/hf --to hf --threads 1", "--overwrite", false);
  writer("convert-gguf", "convert ../input/model root/model.gguf --to gguf --threads 1",
         "--overwrite", false);
  writer("encode",
         "tokenizer encode ../input/text.txt --tokenizer ../input/data"
         " --out root/ids.txt",
         "", false);
  writer("perplexity",
         "eval perplexity --model ../input/model --csv root/tokens.csv"
         " ../input/text.txt --threads 1",
         "", false);
  writer("plot", "plot ../input/model --out root/plot.svg", "", false);
  return all;
}

}  // namespace folio::torture
