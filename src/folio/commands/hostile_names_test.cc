// Names and texts from untrusted sources, in every kind of file that commands print, through the
// program: no byte that could control a terminal is printed, on either stream.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>

#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/io/torch_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A command, the bell, DEL, a command of one character (C1), a turned direction, a carriage return.
constexpr char kHostile[] = "n\x1b[2J\a\x7f\u009b31m\u202ex\r";
constexpr char kShown[] = "\\u001b[2J";
// The first ten bytes of a name in a file whose sizes must stay.
constexpr char kTenBytes[] = "\x1b[2J\x7f\u009b\u202e";

// The first harmful thing in a text, with its context, or "".
std::string Harm(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char one = DecodeUtf8(text, at);
    const bool control = (one.code < 0x20 && one.code != '\n' && one.code != '\t') ||
                         (one.code >= 0x7F && one.code < 0xA0);
    const bool turns =
        (one.code >= 0x202A && one.code <= 0x202E) || (one.code >= 0x2066 && one.code <= 0x2069);
    if (control || turns || one.status != Utf8Status::kValid) {
      return QuoteChar(one.code) +
             " behind: " + text.substr(at < 60 ? 0 : at - 60, std::min(at, size_t{60}));
    }
    at += one.length;
  }
  return "";
}

class HostileNames : public InTemporaryDirectory {
 protected:
  // Runs a command, which prints `shown`; if that is "" it prints tokens in its own form, and must
  // do so.
  void Expect(const std::string& command, const std::string& shown = kShown) {
    const ProgramRun run = RunShell(At(""), command);
    EXPECT_EQ(Harm(run.out), "") << command;
    EXPECT_EQ(Harm(run.err), "") << command;
    EXPECT_TRUE(Contains(run.out + run.err, shown)) << command;
    EXPECT_LT(run.status, shown.empty() ? 1 : 128) << command << run.err;
  }
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(At(name).parent_path());
    std::ofstream(At(name), std::ios::binary) << bytes;
  }
  static std::string BytesOf(const fs::path& file) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    return bytes.str();
  }
  // A file of a fixture with the beginning of each `name` in it made hostile; the checksums of a
  // zip file are updated.
  void Patch(const std::string& fixture, const std::string& file, const std::string& name,
             const std::string& to) {
    fs::create_directories(At(to));
    fs::copy(Fixture(fixture), At(to), fs::copy_options::recursive);
    const std::string hostile = kTenBytes + name.substr(std::string(kTenBytes).size());
    size_t count = 0;
    const auto patched = [&](std::string bytes) {
      for (size_t at = 0; (at = bytes.find(name, at)) != bytes.npos; ++count) {
        bytes.replace(at, name.size(), hostile);
      }
      return bytes;
    };
    const std::string bytes = BytesOf(Fixture(fixture) / file);
    if (bytes.starts_with("PK")) {
      AtomicFile out(At(to) / file);
      ZipWriter zip(out);
      for (const ZipEntry& entry : ReadZip(std::as_bytes(std::span(bytes)), file)) {
        const auto* begin = reinterpret_cast<const char*>(entry.bytes.data());
        const std::string now = patched(std::string(begin, entry.bytes.size()));
        zip.Add(entry.name, std::as_bytes(std::span(now)));
      }
      zip.Finish();
      out.Commit();
    } else {
      Write(to + "/" + file, patched(bytes));
    }
    EXPECT_GT(count, 0u) << name;
  }
  static std::string Word(const std::string& text) { return "'" + text + "'"; }
  // A run in `run` on a text full of it, and with that among its characters.
  void Train() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "a small text " + std::string(kHostile) + " to learn, ";
    Write("text.txt", text);
    Well(RunShell(At(""), kTrain));
  }
  static constexpr char kTrain[] =
      "$F train --data text.txt --out run --batch 2 --max-steps 4 --set model.n_layer=1 "
      "model.n_head=1 model.n_embd=8 model.n_positions=32 train.eval_batches=2 "
      "train.eval_every=250 "
      "data.tokenizer=char";

  const std::string hostile_ = kHostile, word_ = Word(kHostile);
};

TEST_F(HostileNames, OfTensorsAndKeysAreShown) {
  const std::string in_json = nlohmann::json(hostile_).dump();
  Write("hf/model.safetensors",
        SafetensorsBytes(R"({"__metadata__":{)" + in_json + ":" + in_json + "}," + in_json +
                             R"(:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                         std::string(4, '\0')));
  Write("hf/config.json", R"({"model_type":)" + in_json + "}");
  Expect("$F inspect model hf");
  Expect("$F inspect model hf --json");
  Expect("$F generate --model hf --prompt a");

  fs::copy(Fixture("gpt2-tiny"), At("activation"));
  nlohmann::json config = nlohmann::json::parse(BytesOf(At("activation/config.json")));
  config["activation_function"] = hostile_;
  Write("activation/config.json", config.dump());
  Expect("$F inspect model activation");
  Expect("$F generate --model activation --prompt a");
  Expect("$F convert --to hf activation converted");

  Patch("gguf-tiny", "model.gguf", "position_embd.weight", "gguf");
  Expect("$F inspect model gguf/model.gguf", "is not printable text");
  Patch("gguf-tiny", "model.gguf", "tokenizer.ggml.model", "keys");
  Expect("$F generate --model keys/model.gguf --prompt a", "is not printable text");
  Patch("torch-tiny", "pytorch_model.bin", "transformer.h.0.ln_1.weight", "torch");
  Expect("$F inspect model torch");
  Expect("$F generate --model torch --prompt a", "no tensor");
  Patch("torch-tiny", "pytorch_model.bin", "_rebuild_tensor_v2", "pickle");
  Expect("$F inspect model pickle");
  Patch("nanogpt-tiny", "ckpt.pt", "_orig_mod.transformer.h.0.ln_1.weight", "nanogpt");
  Expect("$F inspect model nanogpt/ckpt.pt", "no tensor");

  Write("shards/model.safetensors.index.json",
        R"({"weight_map":{)" + in_json + ":" + in_json + "}}");
  Write("shards/config.json", BytesOf(Fixture("gpt2-tiny") / "config.json"));
  Expect("$F inspect model shards");
}

TEST_F(HostileNames, OfRolesMembersAndItemsAreShown) {
  const std::string in_json = nlohmann::json(hostile_).dump();
  Write("roles.jsonl", R"({"messages":[{"role":)" + in_json + R"(,"content":"x"}]})");
  Expect("$F data prepare --out d --tokenizer char roles.jsonl");
  Write("members.jsonl", "{" + in_json + R"(:"x"})");
  Expect("$F data prepare --out d --tokenizer bytes members.jsonl");
  Write("broken.jsonl", hostile_);
  Expect("$F data prepare --out d --tokenizer bytes broken.jsonl", "broken.jsonl");
}

TEST_F(HostileNames, OfSettingsAndArgumentsAreShown) {
  const std::string in_toml = R"("n\u001b[2J\u0007\u007f\u009b31m\u202ex\r")";
  Write("keys.toml", "[train]\n" + in_toml + " = 1\n");
  Write("values.toml", "[train]\ndtype = " + in_toml + "\n");
  Write("text.toml", "[log]\nsample_prompt = " + in_toml + "\n");
  Write("raw.toml", "[train]\ndtype = '" + hostile_ + "'\n");
  Expect("$F config show --config keys.toml");
  Expect("$F config show --config values.toml");
  Expect("$F config show --config text.toml", "u001B");
  Expect("$F config show --config text.toml --json");
  Expect("$F config show --config raw.toml", "raw.toml");
  Expect("$F config show --set train.dtype=" + word_);
  Expect("$F config show --set " + word_ + "=1");
  Expect("FOLIO_TRAIN_DTYPE=" + word_ + " $F config show");
  Expect("$F " + word_);
  Expect("$F train --" + hostile_, "unknown");
  Expect("$F inspect model --preset " + word_);
  Expect("$F tokenizer info --tokenizer " + word_);
  Expect("$F bench matmul --dtype " + word_);
}

TEST_F(HostileNames, OfPathsAreShown) {
  const std::string path = Word(hostile_ + "/x");
  for (const char* command :
       {"generate --prompt a --model", "inspect model", "inspect lens --text a --model",
        "data info", "data prepare --out d --tokenizer bytes", "tokenizer info --tokenizer",
        "tokenizer count --tokenizer bytes", "plot", "serve --port 0 --model",
        "inspect attention --text a --model", "explain block --model"}) {
    Expect("$F " + std::string(command) + " " + path);
    Expect("$F " + std::string(command) + " " + path + " --json");
  }
  // A name with a line break does not create a line.
  const ProgramRun run = RunShell(At(""), "$F generate --prompt a --model './x\nerror: forged'");
  EXPECT_FALSE(Contains(run.err, "\nerror:")) << run.err;
}

TEST_F(HostileNames, OfRunsAndTheirFilesAreShown) {
  Train();
  fs::copy(At("run"), At(hostile_), fs::copy_options::recursive);
  Expect("$F plot run " + word_);
  Expect("$F plot run " + word_ + " --json");
  Expect("$F inspect model " + word_);
  Expect("$F train --resume --max-steps 6 --out " + word_);
  Expect("$F train --out " + word_ + " --data text.txt");  // already exists
  // The log reports the damaged file.
  std::ofstream(At(hostile_) / "metrics.jsonl", std::ios::app) << hostile_ << "\n";
  Expect("$F train --resume --max-steps 8 --out " + word_);
  Expect("cp text.txt " + Word(hostile_ + ".txt") + "; $F eval perplexity --model run " +
         Word(hostile_ + ".txt"));

  std::ofstream(At("run/best/SHA256SUMS"), std::ios::app)
      << std::string(64, 'a') << "  " << hostile_ << "\n";
  Expect("$F inspect model run", "run/best");
}

TEST_F(HostileNames, TokensAndTextsAreShown) {
  Train();
  Expect("$F tokenizer info --tokenizer run", "");
  Expect("$F tokenizer info --tokenizer run --token 1 --token 2 --token 3", "");
  Expect("$F tokenizer encode --tokenizer run --explain --text " + word_, "");
  Expect("$F tokenizer encode --tokenizer run --text " + word_ + "Q", "Q");
  Expect("$F tokenizer encode --tokenizer run --text '\u0081'", "U+0081");
  for (const char* command : {"probabilities", "lens", "attention", "activations"}) {
    Expect("$F inspect " + std::string(command) + " --model run --text " + word_, "");
  }
  Expect("$F explain tokenize --model run --text " + word_, "");
  Expect("$F explain block --model run --text " + word_, "");
  Expect("$F explain sampling --model run --text " + word_, "");
  Expect("$F train --resume --out run --max-steps 6 --set log.sample_every=1 log.sample_prompt=" +
         word_);
  Expect(std::string("$F generate --json --model run --max-tokens 2 --prompt ") + word_);
  // In a pipe the text is the result; on a terminal it is escaped.
  const std::string generate = "$F generate --model run --max-tokens 1 --prompt " + word_;
  EXPECT_TRUE(RunShell(At(""), generate).out.starts_with(hostile_));
  Write("generate.sh", generate);
  if (RunShell(At(""), "command -v script").status != 0) {
    GTEST_SKIP() << "needs the program script (util-linux)";
  }
  for (const char* terminal : {"TERM=xterm", "TERM=dumb"}) {
    const ProgramRun run = RunShell(
        At(""), std::string(terminal) + " NO_COLOR=1 script -qec 'sh generate.sh' /dev/null");
    EXPECT_TRUE(Contains(run.out, kShown)) << terminal;
    for (const char* harm : {"\x1b[2J", "\a", "\x7f", "\u009b", "\u202e", "x\r "}) {
      EXPECT_EQ(run.out.find(harm), std::string::npos) << terminal << " " << Harm(run.out);
    }
  }
}

}  // namespace
}  // namespace folio
