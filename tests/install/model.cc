// Uses a model like an embedding program: opens it from memory, generates, scores a text, and
// trains it on batches of its own.
#include "folio/api/model.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/api/batch_trainer.h"
#include "folio/io/file.h"
#include "folio/io/memory_files.h"

int main(int, char** argv) {  // MODEL-DIRECTORY
  folio::MemoryFiles files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = folio::ReadFile(entry.path());
    files.Add(entry.path().filename().string(), std::as_bytes(std::span(bytes)));
  }
  const folio::Model model(files.path(), {.matrices = folio::MatrixDtypeNamed("fp32")});
  const std::vector<int32_t> ids = model.Prompt("The folio");
  model.Write(ids, {.max_tokens = 40}, [](std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  });
  const double before = model.Score(ids).back();

  folio::RunSettings settings;
  settings.Set("train.batch_size", "1");
  settings.Set("train.context", std::to_string(ids.size() - 1));
  settings.Set("train.warmup_steps", "0");
  folio::BatchTrainer trainer(settings, &model);
  for (int step = 0; step < 10; ++step) {
    trainer.Step(std::span(ids).first(ids.size() - 1), std::span(ids).subspan(1));
  }
  const double after = trainer.Snapshot(nullptr)->Score(ids).back();
  std::printf("\n%.2f before, %.2f after\n", before, after);
  return after > before ? 0 : 1;
}
