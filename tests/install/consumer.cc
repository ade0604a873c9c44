// Trains a model on a text file's characters, resumes the run, and generates text.
#include <cstdio>

#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/run/training_run.h"

int main(int, char** argv) {  // TEXT RUN
  using namespace folio;
  for (const bool resume : {false, true}) {
    RunSettings settings;
    settings.UsePreset("char-cpu");
    settings.Set("train.max_steps", resume ? "30" : "20");
    TrainingRun run(settings, {.data = {argv[1]}, .out = argv[2], .resume = resume});
    run.Train({.on_evaluation = [](int64_t step, const Evaluation& losses) {
      std::fprintf(stderr, "step %d: held-out loss %.4f\n", int(step), losses.val_loss);
    }});
  }
  const OpenedModel model = OpenModel(argv[2]);
  Generator generator(*model.backend, *model.weights);
  GenerateText(generator, *model.tokenizer, PromptTokens(*model.tokenizer, "The "),
               {.max_tokens = 200}, /*rng_stream=*/0, [](std::string_view text) {
                 return std::printf("%.*s", int(text.size()), text.data()) >= 0;
               });
}
