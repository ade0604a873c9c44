// Every kind of file that commands read, replaced by something that never ends or never begins: a
// pipe without a writer, a device, a socket, a hole of a terabyte, a directory. The command must
// end soon, with an error that names the file, and without memory for nonexistent contents.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "tests/flags/children.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A file, by its place among the inputs, and a call that reads it.
struct Reading {
  std::string file;
  std::string words;
};

// The tiny settings of a model that trains for a moment.
constexpr char kTiny[] =
    " --batch 1 --max-steps 1 --set model.n_layer=1 model.n_head=1 model.n_embd=8"
    " model.n_positions=16 train.eval_batches=1";

std::vector<Reading> WholeFiles() {
  const std::string tiny = kTiny;
  return {
      {"settings.toml", "train --data text.txt --out new --config settings.toml" + tiny},
      {"keys", "serve --model run --port 0 --api-key-file keys"},
      {"mask.json", "inspect attention --model run --text a --mask mask.json"},
      {"vectors.txt", "explain attention --vectors vectors.txt"},
      {"batch.safetensors", "inspect dump --model run --batch batch.safetensors --out new"},
      {"prompts", "bench serve --model run --clients 1 --seconds 0.1 --prompts prompts"},
      {"bench.txt", "bench tokenizer --tokenizer bytes --bytes 1000 --merges 2 --file bench.txt"},
      {"tinyshakespeare.txt", "data fetch tinyshakespeare --from tinyshakespeare.txt"},
      {"run/best/config.json", "generate --model run a --max-tokens 1"},
      {"run/best/generation_config.json", "generate --model run a --max-tokens 1"},
      {"run/best/SHA256SUMS", "generate --model run a --max-tokens 1"},
      {"run/best/model.safetensors", "generate --model run a --max-tokens 1"},
      {"run/last/tokenizer.json", "tokenizer info --tokenizer run/last"},
      {"run/last/train_state/state.json", "train --resume --out run"},
      {"run/last/train_state/optimizer.safetensors", "train --resume --out run"},
      {"run/config.toml", "train --resume --out run"},
      {"run/config.toml", "plot run --out new.svg"},
      {"run/metrics.jsonl", "train --resume --out run --set train.max_steps=4"},
      {"run/metrics.jsonl", "plot run --out new.svg"},
      {"run/samples.jsonl", "train --resume --out run --set train.max_steps=4"},
      {"run/data.fingerprint", "train --resume --out run --set train.max_steps=4"},
      {"run/data/dataset.json", "data info run/data"},
      {"run/data/tokenizer.json", "train --data run/data --out new" + tiny},
      {"run/data/train.bin", "data info run/data"},
      {"run/data/val.bin", "train --data run/data --out new" + tiny},
      {"plain/config.json", "generate --model plain --ids 0 --max-tokens 1"},
      {"plain/model.safetensors", "inspect model plain"},
      {"torch/pytorch_model.bin", "inspect model torch"},
      {"sharded/model.safetensors.index.json", "inspect model sharded"},
      {"pair/vocab.json", "tokenizer info --tokenizer pair"},
      {"pair/merges.txt", "tokenizer info --tokenizer pair"},
      {"pair/added_tokens.json", "tokenizer info --tokenizer pair"},
      {"pair/tokenizer_config.json", "tokenizer info --tokenizer pair"},
      {"gpt2.tiktoken", "tokenizer info --tokenizer gpt2.tiktoken"},
      {"meta.pkl", "tokenizer info --tokenizer meta.pkl"},
      {"one.json", "tokenizer info --tokenizer one.json"},
      {"model.gguf", "inspect model model.gguf"},
      {"nano/ckpt.pt", "inspect model nano/ckpt.pt"},
      {"llmc/model.bin", "inspect model llmc/model.bin"},
      {"llmc/gpt2_tokenizer.bin", "generate --model llmc/model.bin a --max-tokens 1"},
      {"openai/hparams.json", "inspect model openai"},
      {"openai/checkpoint", "inspect model openai"},
      {"openai/model.ckpt.index", "inspect model openai"},
      {"openai/model.ckpt.data-00000-of-00001", "inspect model openai"},
      {"adapter/adapter_config.json",
       "generate --model tuned --ids 0 --max-tokens 1 --adapter adapter"},
      {"adapter/adapter_model.safetensors",
       "generate --model tuned --ids 0 --max-tokens 1 --adapter adapter"},
      {"gpt2files/vocab.bpe", "tokenizer fetch gpt2 --from gpt2files"},
  };
}

// Streamed inputs: a pipe works like a file.
std::vector<Reading> Streams() {
  return {
      {"text.txt", "data prepare text.txt --out new"},
      {"text.txt", "train --data text.txt --out new" + std::string(kTiny)},
      {"text.txt", "tokenizer train text.txt --out new --vocab-size 270"},
      {"text.txt", "tokenizer encode text.txt --tokenizer bytes --out new"},
      {"text.txt", "tokenizer count text.txt --tokenizer bytes"},
      {"lines.jsonl", "tokenizer encode --jsonl lines.jsonl --tokenizer bytes --out new"},
      {"lines.jsonl", "tokenizer decode --jsonl lines.jsonl --tokenizer bytes --out new"},
      {"ids.txt", "tokenizer decode ids.txt --tokenizer bytes --out new"},
      {"short.txt", "eval perplexity short.txt --model run"},
      {"short.txt", "eval compare run run short.txt"},
      {"items.jsonl", "eval cloze items.jsonl --model run"},
      {"short.txt", "generate --model run --max-tokens 1 --file short.txt"},
      {"short.txt", "generate --model run --max-tokens 1 --prompts short.txt"},
      {"short.txt", "inspect lens --model run --file short.txt"},
  };
}

// A call with one input that is no regular file.
struct HostileCall : Child {
  Reading reading;
  std::string kind;
};

class HostileFiles : public Children {
 protected:
  static void SetUpTestSuite() {
    MakeInputs("folio_files_");
    const fs::path in = root_ / "in";
    const ProgramRun run =
        RunShell(in, "$F tokenizer train text.txt --out trained --vocab-size 260");
    ASSERT_EQ(run.status, 0) << run.err;
    fs::copy(Fixture("gpt2-tiny"), in / "plain");
    fs::copy(Fixture("torch-tiny"), in / "torch");
    fs::copy(Fixture("nanogpt-tiny"), in / "nano");
    fs::copy(Fixture("llmc-tiny"), in / "llmc");
    fs::copy(Fixture("openai-tiny"), in / "openai");
    fs::copy(Fixture("fine-tuning") / "adapter", in / "adapter");
    fs::copy(Fixture("fine-tuning") / "model", in / "tuned");
    fs::copy(Fixture("gpt2-tiny") / "config.json",
             (fs::create_directories(in / "sharded"), in / "sharded/config.json"));
    fs::create_directories(in / "pair");
    fs::create_directories(in / "gpt2files");
    // Only need to exist: these are replaced, or read before the replaced one.
    for (const char* file : {"pair/vocab.json", "pair/merges.txt"}) {
      WriteFileAtomically(in / file, std::string(file).ends_with("json") ? "{\"a\": 0}" : "");
    }
  }
  static void Put(const fs::path& at, const std::string& kind) {
    fs::create_directories(at.parent_path());
    fs::remove_all(at);
    if (kind == "pipe") {
      ASSERT_EQ(mkfifo(at.c_str(), 0600), 0);
    } else if (kind == "device") {
      fs::create_symlink("/dev/zero", at);
    } else if (kind == "directory") {
      fs::create_directory(at);
    } else if (kind == "hole") {
      std::ofstream{at};
      fs::resize_file(at, uintmax_t{1} << 40);
    } else if (kind == "socket") {
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un name = {};
      name.sun_family = AF_UNIX;
      const fs::path before = fs::current_path();
      fs::current_path(at.parent_path());  // whole paths are too long for the name of a socket
      std::string(at.filename()).copy(name.sun_path, sizeof(name.sun_path) - 1);
      const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
      fs::current_path(before);
      close(fd);
      ASSERT_EQ(bound, 0) << at;
    }
  }

  // Runs the program in a copy of the inputs with one replaced.
  static void Start(HostileCall& one) {
    const auto prepare = [&](const fs::path& dir) {
      fs::copy(root_ / "in", dir, fs::copy_options::recursive);
      Put(dir / one.reading.file, one.kind);
    };
    Children::Start(one, std::chrono::seconds(kSanitized ? 120 : 30), prepare, [&] {
      std::vector<std::string> words = Split(one.reading.words, ' ');
      std::vector<char*> arguments = {const_cast<char*>("folio")};
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      return execv(ProgramPath().c_str(), arguments.data());
    });
  }
};

TEST_F(HostileFiles, EndACommandSoonAndAreNamed) {
  static constexpr long kMostMemory = 1 << 20;  // KiB
  std::vector<HostileCall> all;
  // A hole is a text of zeros for commands that accept every byte, and a directory may contain
  // texts.
  const auto taken = [](const std::string& kind, const std::string& words) {
    return kind == "hole" ? words.starts_with("tokenizer encode") || words.starts_with("bench")
                          : kind == "directory" && (words.starts_with("data prepare") ||
                                                    words.starts_with("train --data text.txt"));
  };
  for (const char* kind : {"pipe", "device", "directory", "socket", "hole"}) {
    std::vector<Reading> readings = WholeFiles();
    if (kind != std::string("pipe")) {
      for (const Reading& stream : Streams()) readings.push_back(stream);
    }
    for (const Reading& reading : readings) {
      const bool as_it_is = reading.file.ends_with(".txt") && taken(kind, reading.words);
      if (!as_it_is) all.push_back({{}, reading, kind});
    }
  }
  RunAll(all, std::chrono::seconds(1), Start,
         [](const HostileCall& one, int status, const rusage& used) {
           const std::string said = Said(one);
           const std::string call = one.reading.file + " as a " + one.kind + ": folio " +
                                    one.reading.words + "\n" + said.substr(0, 1500);
           EXPECT_TRUE(WIFEXITED(status) && one.signals == 0) << call;
           EXPECT_GE(WEXITSTATUS(status), 1) << call;
           EXPECT_LE(WEXITSTATUS(status), 4) << call;
           EXPECT_TRUE(Contains(said, fs::path(one.reading.file).filename().string())) << call;
           if (!kSanitized) {
             EXPECT_LE(used.ru_maxrss, kMostMemory) << call;
           }
         });
}

TEST_F(HostileFiles, AStreamThatIsWaitedForIsLeftOnASignal) {
  std::vector<HostileCall> running;
  for (const Reading& reading : Streams()) running.push_back({{}, reading, "pipe"});
  for (HostileCall& child : running) Start(child);
  // Until they wait: their CPU time stops growing.
  const auto times = [&] {
    std::vector<std::string> used;
    for (const HostileCall& child : running) {
      std::string line;
      std::getline(std::ifstream("/proc/" + std::to_string(child.pid) + "/stat"), line);
      const std::vector<std::string> fields = Split(line, ' ');
      used.push_back(fields.size() > 14 ? fields[13] + " " + fields[14] : "gone");
    }
    return used;
  };
  std::vector<std::string> before, now;
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    now = times();
  } while (now != before && Clock::now() < running.front().end);
  for (HostileCall& child : running) {
    int status = 0;
    EXPECT_EQ(waitpid(child.pid, &status, WNOHANG), 0) << "does not wait: " << Said(child);
    kill(child.pid, SIGTERM);
    while (waitpid(child.pid, &status, WNOHANG) == 0 && Clock::now() < child.end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (Clock::now() >= child.end) kill(child.pid, SIGKILL);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM)
        << child.reading.words << "\n"
        << Said(child);
    fs::remove_all(child.dir);
  }
}

}  // namespace
}  // namespace folio
