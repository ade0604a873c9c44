// The library refuses a program's wrong arguments with an Error, and the program continues.
#include <cstdio>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/data/dataset.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/inspect/trace.h"
#include "folio/io/file.h"
#include "folio/plot/heatmap.h"

using namespace folio;

int g_mistakes = 0;

template <class F>
void Refused(const char* what, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInput) return;
  }
  std::fprintf(stderr, "not refused: %s\n", what);
  ++g_mistakes;
}

void GiveWrong(const OpenedModel& model, Generator& generator, const std::string& run) {
  const GptConfig& config = model.weights->config();
  const auto P = static_cast<size_t>(config.n_positions);
  const auto V = static_cast<int32_t>(config.vocab_size);
  const auto write = [&](std::vector<int32_t> prompt, const GenerateOptions& options) {
    generator.Generate(prompt, options, 0, [](const NewToken&) { return true; });
  };
  Refused("an empty prompt", [&] { write({}, {}); });
  Refused("an id below 0", [&] { write({-1}, {}); });
  Refused("an id behind the vocabulary", [&] { write({0, V}, {}); });
  Refused("a prompt that is too long", [&] { write(std::vector<int32_t>(P + 1), {}); });
  Refused("a temperature below 0", [&] { write({0}, {.sampling = {.temperature = -1}}); });
  Refused("a ban of no token", [&] { write({0}, {.sampling = {.banned = {V}}}); });
  Refused("a batch of no texts",
          [&] { DecodeBatch(*model.backend, *model.weights, {.texts = 0}); });
  Refused("ids that no token has", [&] { model.tokenizer->Decode(std::vector<int32_t>{V}); });

  const std::vector<int32_t> ids(3);
  const std::vector<float> mask(4);
  Refused("a mask of another size",
          [&] { Trace(*model.backend, *model.weights, ids, Trace::AllPoints(), mask); });
  GptPass pass(*model.backend, config, 1, 3, PassKind::kForward);
  Refused("too few tokens",
          [&] { pass.Forward(model.weights->params(), std::vector<int32_t>(2)); });
  Refused("targets that are no tokens", [&] {
    pass.Forward(model.weights->params(), ids);
    pass.Loss(model.weights->params(), std::vector<int32_t>(3, V));
  });
  std::vector<unsigned char> keys(4);
  Refused("a mask of other keys", [&] { pass.set_key_mask(Tensor(keys.data(), {1, 4})); });
  Refused("a pass longer than the context",
          [&] { GptPass(*model.backend, config, 1, config.n_positions + 1, PassKind::kForward); });

  const Dataset data(run + "/data");
  std::vector<int32_t> tokens(2);
  Refused("tokens behind the end", [&] { data.val().Read(data.val().size() - 1, tokens); });
  AtomicFile file(run + "/../closed");
  file.Commit();
  Refused("a closed file", [&] { file.Write("more"); });
  Refused("no threads", [] { SetThreads(0); });
  Refused("a map with holes", [] { HeatmapSvg({.rows = 2, .columns = 2, .values = {1}}, {}); });
}

int main(int, char** argv) {  // RUN
  const OpenedModel model = OpenModel(argv[1]);
  Generator generator(*model.backend, *model.weights);
  GiveWrong(model, generator, argv[1]);
  return g_mistakes;
}
