#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/char_tokenizer.h"

namespace folio {

inline constexpr int32_t kSmallEnd = 70'000;  // more than 16 bits

// For tests: bytes, a few merges ("hello" is 259, " wo" 261, the last one begins a character) and
// two special tokens; one can be cut inside.
inline BpeVocab SmallVocab() {
  BpeVocab vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab.tokens.Add(std::string(1, static_cast<char>(byte)));
  }
  const auto merge = [&](int32_t left, int32_t right) {
    const std::string bytes(std::string(vocab.tokens[static_cast<size_t>(left)]) +
                            std::string(vocab.tokens[static_cast<size_t>(right)]));
    const auto merged = static_cast<int32_t>(vocab.tokens.size());
    vocab.tokens.Add(bytes);
    vocab.merges.push_back({left, right, merged});
    return merged;
  };
  const int32_t ll = merge('l', 'l');
  const int32_t he = merge('h', 'e');
  merge(merge(he, ll), 'o');
  merge(merge(' ', 'w'), 'o');
  merge('x', 0xC3);
  while (vocab.tokens.size() < kSmallEnd - 1) vocab.tokens.Add("");
  for (const char* special : {"<|a_longer_one|>", "<|end|>"}) {
    vocab.specials.push_back({special, static_cast<int32_t>(vocab.tokens.size())});
    vocab.tokens.Add(special);
  }
  return vocab;
}

// What a run printed and how it ended.
struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

// Runs `folio tokenizer` in a directory that holds the tokenizers bpe/ (SmallVocab) and char/ (line
// break, space, a, b, é).
class TokenizerCommandTest : public testing::Test {
 protected:
  TokenizerCommandTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::temp_directory_path() /
           ("folio-tokenizer-" + std::to_string(getpid()) + "-" + test->name());
    std::filesystem::create_directories(dir_ / "bpe");
    std::filesystem::create_directories(dir_ / "char");
    BpeTokenizer(SmallVocab()).Save((dir_ / "bpe").string());
    CharTokenizer({'\n', ' ', 'a', 'b', U'é'}).Save((dir_ / "char").string());
  }
  ~TokenizerCommandTest() override { std::filesystem::remove_all(dir_); }

  // Runs shell text in a directory and an environment of its own; $T is `folio tokenizer`.
  Finished Shell(const std::string& text) {
    Write("script", "cd '" + dir_.string() + "'\n" + text + "\n");
    const std::string command = "env -i PATH=\"$PATH\" HOME='" + dir_.string() + "' T='" +
                                FOLIO_PROGRAM + " tokenizer' sh '" + (dir_ / "script").string() +
                                "' >'" + (dir_ / "out").string() + "' 2>'" +
                                (dir_ / "err").string() + "' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read("out"), Read("err")};
  }
  std::string Out(const std::string& text) {
    const Finished run = Shell(text);
    EXPECT_EQ(run.status, 0) << text << "\n" << run.err;
    return run.out;
  }
  // The standard error of a run that must end with `status` and print nothing else.
  std::string Wrong(const std::string& text, int status) {
    const Finished run = Shell(text);
    EXPECT_EQ(run.status, status) << text << "\n" << run.err;
    EXPECT_EQ(run.out, "") << text;
    EXPECT_TRUE(run.err.starts_with("error: ")) << run.err;
    return run.err;
  }

  void Write(const std::string& name, std::string_view bytes) {
    WriteFileAtomically(dir_ / name, bytes);
  }
  std::string Read(const std::string& name) { return ReadFile(dir_ / name); }

  std::filesystem::path dir_;
};

}  // namespace folio
