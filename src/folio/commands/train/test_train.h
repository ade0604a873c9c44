#pragma once

#include <string>

#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/program.h"

namespace folio {

// For the tests of `folio train`: a text, and short runs on it.
class TrainTest : public InTemporaryDirectory {
 protected:
  TrainTest() {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "a small text to learn from, number " + std::to_string(i % 10);
    }
    WriteFileAtomically(data_, text);
  }

  // In `run`, with more settings or flags.
  std::string Words(const std::string& more) const {
    return "train " + (more.find("--data ") == more.npos ? "--data " + data_ : "") + " --out " +
           At("run").string() +
           " --batch 2 --max-steps 4 --set model.n_layer=1 model.n_head=1 model.n_embd=8"
           " model.n_positions=16 train.eval_batches=2 train.eval_every=250 " +
           more;
  }
  ProgramRun Train(const std::string& more = "") const { return RunFolio(Words(more)); }
  std::string Resumed(const std::string& more) const {
    return "train --resume --out " + At("run").string() + " " + more;
  }

  // The value of a key in the run's settings, as written in TOML; "" if there is none.
  std::string Setting(const std::string& key, const std::string& run = "run") const {
    const std::string text = ReadFile(At(run) / "config.toml");
    const size_t at = text.find("\n" + key + " = ");
    if (at == text.npos) return "";
    const size_t begin = at + key.size() + 4;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  std::string data_ = At("text.txt").string();
};

}  // namespace folio
