#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/program.h"

namespace folio {

inline constexpr int32_t kSmallEnd = 70'000;  // more than 16 bits

// For tests: bytes, a few merges ("hello" is 259, " wo" 261, the last one begins a character) and
// two special tokens; one can be cut inside.
inline BpeVocab HelloVocab() {
  BpeVocab vocab = ByteVocab();
  const int32_t ll = AddMerge(vocab, 'l', 'l');
  const int32_t he = AddMerge(vocab, 'h', 'e');
  AddMerge(vocab, AddMerge(vocab, he, ll), 'o');
  AddMerge(vocab, AddMerge(vocab, ' ', 'w'), 'o');
  AddMerge(vocab, 'x', 0xC3);
  while (vocab.tokens.size() < kSmallEnd - 1) AddToken(vocab, "");
  for (const char* special : {"<|a_longer_one|>", "<|end|>"}) AddSpecial(vocab, special);
  return vocab;
}

// Runs `folio tokenizer` in a directory that holds the tokenizers bpe/ (HelloVocab) and char/ (line
// break, space, a, b, é).
class TokenizerCommandTest : public InTemporaryDirectory {
 protected:
  TokenizerCommandTest() {
    for (const char* name : {"bpe", "char"}) std::filesystem::create_directories(At(name));
    BpeTokenizer(HelloVocab()).Save(At("bpe").string());
    CharTokenizer({'\n', ' ', 'a', 'b', U'é'}).Save(At("char").string());
  }

  // Runs shell text in the directory; $T is `folio tokenizer`.
  ProgramRun Shell(const std::string& text) const {
    return RunShell(At(""), "T=\"$F tokenizer\"\n" + text);
  }
  std::string Out(const std::string& text) {
    const ProgramRun run = Shell(text);
    EXPECT_EQ(run.status, 0) << text << "\n" << run.err;
    return run.out;
  }
  // The standard error of a run that must end with `status` and print nothing else.
  std::string Wrong(const std::string& text, int status) {
    const ProgramRun run = Shell(text);
    EXPECT_EQ(run.status, status) << text << "\n" << run.err;
    EXPECT_EQ(run.out, "") << text;
    EXPECT_TRUE(run.err.starts_with("error: ")) << run.err;
    return run.err;
  }

  void Write(const std::string& name, std::string_view bytes) {
    WriteFileAtomically(At(name), bytes);
  }
  std::string Read(const std::string& name) { return ReadFile(At(name)); }
};

}  // namespace folio
