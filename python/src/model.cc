#include "folio/api/model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core.h"
#include "folio/api/looking.h"
#include "folio/base/fork.h"
#include "folio/base/steady_threads.h"
#include "folio/c/handles.h"
#include "folio/commands/inspect/inspect_reports.h"
#include "folio/report/report.h"

namespace folio::python {
namespace {

using Files = std::unique_ptr<folio_files, Freer<folio_files_free>>;

struct PyModel {
  std::unique_ptr<folio_model, Freer<folio_model_free>> handle;

  template <class F>
  Buffer Computed(nb::handle object, F&& f) const {
    const std::vector<int32_t> ids = IdsOf(object);
    Buffer buffer = NewBuffer();
    Errand().Run([&](const folio_cancel* cancel, folio_error** error) {
      const folio_watch watch = WatchOf(cancel);
      return f(ids, &watch, buffer.get(), error);
    });
    return buffer;
  }
  size_t width() const { return static_cast<size_t>(folio_model_width(handle.get())); }
  size_t vocab_size() const { return static_cast<size_t>(folio_model_vocab_size(handle.get())); }
};

template <class T>
size_t CountOf(const Buffer& buffer) {
  return folio_buffer_size(buffer.get()) / sizeof(T);
}

std::shared_ptr<PyModel> OpenPath(const std::string& path, const Named& named) {
  const Options options = OptionsOf("open", named);
  folio_model* opened = nullptr;
  Errand().Run([&](const folio_cancel* cancel, folio_error** error) {
    const folio_watch watch = WatchOf(cancel);
    return folio_model_open(path.c_str(), options.get(), &watch, &opened, error);
  });
  auto model = std::make_shared<PyModel>();
  model->handle.reset(opened);
  return model;
}

// A model from files in memory: one file, or a directory.
std::shared_ptr<PyModel> OpenFiles(const nb::dict& contents, const std::string& name,
                                   const Named& named) {
  const Files files(folio_files_new());
  if (files == nullptr) throw std::bad_alloc();
  for (const auto [file, bytes] : contents) {
    const std::string as(Utf8(file));
    const auto content = nb::cast<nb::bytes>(bytes);
    Compute([&](folio_error** error) {
      return folio_files_add(files.get(), as.c_str(), content.data(), content.size(), error);
    });
  }
  const std::string path = folio_files_path(files.get());
  return OpenPath(name.empty() ? path : path + "/" + name, named);
}

std::string Info(const PyModel& self) {
  const Buffer json = NewBuffer();
  Ask([&](folio_error** error) { return folio_model_info(self.handle.get(), json.get(), error); });
  return std::string(TextOf(json));
}

nb::object TokenizerOfModel(const PyModel& self) {
  const folio_tokenizer* tokenizer = folio_model_tokenizer(self.handle.get());
  return tokenizer == nullptr ? nb::none() : NewTokenizer(tokenizer);
}

nb::list Prompt(const PyModel& self, const nb::str& text) {
  const std::string_view bytes = Utf8(text);
  const Buffer ids = NewBuffer();
  Compute([&](folio_error** error) {
    return folio_model_prompt(self.handle.get(), bytes.data(), bytes.size(), ids.get(), error);
  });
  return ListOf(static_cast<const int32_t*>(folio_buffer_data(ids.get())), CountOf<int32_t>(ids));
}

nb::list Chat(const PyModel& self, const nb::str& conversation) {
  const std::string_view json = Utf8(conversation);
  const Buffer ids = NewBuffer();
  Compute([&](folio_error** error) {
    return folio_model_chat_json(self.handle.get(), json.data(), json.size(), ids.get(), error);
  });
  return ListOf(static_cast<const int32_t*>(folio_buffer_data(ids.get())), CountOf<int32_t>(ids));
}

Array<float> Logits(const PyModel& self, nb::handle ids, size_t first) {
  Buffer logits = self.Computed(ids, [&](const auto& tokens, auto... rest) {
    return folio_logits(self.handle.get(), tokens.data(), tokens.size(), first, rest...);
  });
  const size_t rows = CountOf<float>(logits) / self.vocab_size();
  return ArrayOf<float>(std::move(logits), {rows, self.vocab_size()});
}

nb::object Embed(const PyModel& self, nb::handle ids, const std::string& pooling) {
  Buffer rows = self.Computed(ids, [&](const auto& tokens, auto... rest) {
    return folio_embed(self.handle.get(), tokens.data(), tokens.size(), pooling.c_str(), rest...);
  });
  const size_t count = CountOf<float>(rows) / self.width();
  if (pooling != "all") return nb::cast(ArrayOf<float>(std::move(rows), {self.width()}));
  return nb::cast(ArrayOf<float>(std::move(rows), {count, self.width()}));
}

Array<float> Attention(const PyModel& self, nb::handle ids, int64_t layer, int64_t head) {
  size_t count = 0;
  Buffer weights = self.Computed(ids, [&](const auto& tokens, const folio_watch*, auto... rest) {
    count = tokens.size();
    return folio_attention(self.handle.get(), tokens.data(), tokens.size(), layer, head, rest...);
  });
  return ArrayOf<float>(std::move(weights), {count, count});
}

Array<float> Inside(const PyModel& self, nb::handle ids, const std::string& point, int64_t layer) {
  size_t count = 0;
  Buffer rows = self.Computed(ids, [&](const auto& tokens, const folio_watch*, auto... rest) {
    count = tokens.size();
    return folio_trace(self.handle.get(), tokens.data(), tokens.size(), point.c_str(), layer,
                       rest...);
  });
  const size_t width = CountOf<float>(rows) / count;
  return ArrayOf<float>(std::move(rows), {count, width});
}

nb::object Parameter(nb::handle self, const std::string& name) {
  folio_tensor tensor{};
  tensor.size = sizeof(tensor);
  Ask([&](folio_error** error) {
    return folio_model_tensor(ModelOf(self), name.c_str(), &tensor, error);
  });
  return TensorView(tensor, self);
}

void Save(const PyModel& self, const std::string& path, const std::string& format,
          const std::string& dtype) {
  Compute([&](folio_error** error) {
    return folio_model_save(self.handle.get(), path.c_str(), format.c_str(), dtype.c_str(), error);
  });
}

// Runs f(whether to stop), which may throw what C++ throws, so that Ctrl-C stops it.
template <class F>
void Look(F&& f) {
  Errand().Run([&](const folio_cancel* cancel, folio_error** error) {
    return Guarded(error, [&] { f(StopOf(cancel)); });
  });
}

std::string FirstFigure(const Report& report) {
  return ReportFigures(report).front().second;
}

std::vector<std::pair<int32_t, double>> Pairs(const std::vector<TokenProbability>& tokens) {
  std::vector<std::pair<int32_t, double>> pairs;
  for (const TokenProbability& token : tokens) pairs.emplace_back(token.id, token.probability);
  return pairs;
}

// The logit lens on a text.
struct PyLens {
  std::shared_ptr<const Model> model;
  LensView view = {};

  PyLens(const PyModel& opened, nb::handle ids, std::vector<int64_t> positions, int64_t top)
      : model(opened.handle->impl) {
    const std::vector<int32_t> text = IdsOf(ids);
    Look([&](const StopRequest& stop) {
      view = LookThroughLens(*model, text, std::move(positions), top, stop);
    });
  }
  // Positions outermost: (likeliest ids and their probabilities, entropy, KL, rank from 1).
  nb::list Cells() const {
    nb::list cells;
    for (const LensCell& cell : view.cells) {
      cells.append(nb::make_tuple(Pairs(cell.top), cell.entropy, cell.kl, cell.final_rank + 1));
    }
    return cells;
  }
  std::string Svg() const {
    return FirstFigure(LensReport(view, TokenNames(model->opened().tokenizer.get())));
  }
};

// How well the tokens of a text were predicted.
struct PyScores {
  std::shared_ptr<const Model> model;
  TokenScores scores = {};

  PyScores(const PyModel& opened, nb::handle ids, int64_t top) : model(opened.handle->impl) {
    const std::vector<int32_t> text = IdsOf(ids);
    Look([&](const StopRequest& stop) { scores = ScoreText(*model, text, top, stop); });
  }
  // A token each from the second on: (ln p, rank from 1, entropy, likeliest ids and their
  // probabilities).
  nb::list Tokens() const {
    nb::list tokens;
    for (const TokenScore& score : scores.tokens) {
      tokens.append(
          nb::make_tuple(-score.surprise, score.rank + 1, score.entropy, Pairs(score.top)));
    }
    return tokens;
  }
  std::string Svg(const std::string& by) const {
    return FirstFigure(TokenScoresReport(scores, by, TokenNames(model->opened().tokenizer.get())));
  }
};

// A text each, and all of them: (name, documents, tokens, bytes, words, nats).
nb::list Perplexity(const PyModel& self, const std::vector<std::string>& paths, int64_t context,
                    int64_t stride, int64_t max_tokens, const std::string& field,
                    const std::string& special, nb::object progress) {
  std::vector<TextPerplexity> measured;
  Errand errand;
  errand.Run([&](const folio_cancel* cancel, folio_error** error) {
    return Guarded(error, [&] {
      const Model& model = *self.handle->impl;
      const ReadingOptions reading{.shape = ChooseWindows(context, stride, model.context()),
                                   .max_tokens = max_tokens,
                                   .text = {.field = field},
                                   .special = SpecialRule::Named(special)};
      MeasureHooks hooks;
      hooks.on_progress = [&](const MeasureProgress& told) {
        const int ended = errand.Call([&] {
          progress(told.done, told.total);
          return 0;
        });
        if (ended != 0 || IsRequested(cancel)) throw CallStopped{};
      };
      measured = MeasureTexts(model, FindMeasuredTexts(paths, reading.text).texts, reading, hooks);
    });
  });
  measured.push_back(TotalPerplexity(measured));
  nb::list texts;
  for (const TextPerplexity& text : measured) {
    texts.append(
        nb::make_tuple(text.name, text.documents, text.tokens, text.bytes, text.words, text.nats));
  }
  return texts;
}

// Texts that are generated together, one token of each per step. Their output is kept until
// Python asks.
class PyTexts {
 public:
  PyTexts(const PyModel& model, int64_t texts)
      : model_(model.handle->impl), texts_(model_, texts) {}

  int64_t Add(nb::handle ids, const Named& named, bool probabilities) {
    const std::vector<int32_t> prompt = IdsOf(ids);
    const Options options = OptionsOf("generate", named);
    GenerateOptions settings = GenerateArgument(model_->opened(), options.get());
    if (probabilities) settings.likeliest = 0;
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(calls_);
    const int64_t number = added_++;
    ids_[number] = texts_.Add(
        prompt, settings,
        [this, number](std::string_view text) {
          pieces_.emplace_back(number, std::string(text));
          return true;
        },
        [this, number](const GeneratedText& text) { ended_.emplace_back(number, text); });
    return number;
  }

  // (whether there is more, what was written of which text, which texts have ended and how)
  nb::tuple Step() {
    return Told([this] { return texts_.Step(); });
  }

  nb::tuple Cancel(int64_t number) {
    return Told([this, number] {
      const auto found = ids_.find(number);
      if (found != ids_.end()) texts_.Cancel(found->second);
      return true;
    });
  }

 private:
  // Collects what `call` writes; it returns true if there is more.
  template <class F>
  nb::tuple Told(F&& call) {
    static constexpr const char* kReasons[] = {"length", "stop", "context", "cancelled"};
    bool more = false;
    std::vector<std::pair<int64_t, std::string>> written;
    std::vector<std::pair<int64_t, GeneratedText>> done;
    {
      const nb::gil_scoped_release unlocked;
      const std::lock_guard lock(calls_);
      const SteadyThreads steady;
      more = call();
      written.swap(pieces_);
      done.swap(ended_);
    }
    nb::list pieces, ended;
    for (const auto& [number, text] : written) pieces.append(nb::make_tuple(number, text));
    for (const auto& [number, text] : done) {
      nb::list probabilities;
      for (const ModelProbabilities& probability : text.probabilities) {
        probabilities.append(probability.log_probability);
      }
      ended.append(nb::make_tuple(number, text.text, ListOf(text.ids.data(), text.ids.size()),
                                  kReasons[static_cast<size_t>(text.reason)], probabilities));
    }
    return nb::make_tuple(more, pieces, ended);
  }

  std::shared_ptr<const Model> model_;
  ForkMutex calls_;  // held by the one call that uses what follows
  Model::Texts texts_;
  int64_t added_ = 0;
  std::map<int64_t, Model::Texts::Id> ids_;
  std::vector<std::pair<int64_t, std::string>> pieces_;
  std::vector<std::pair<int64_t, GeneratedText>> ended_;
};

constexpr const char* kToldType =
    "tuple[bool, list[tuple[int, str]], list[tuple[int, str, list[int], str, list[float]]]]";

}  // namespace

nb::object NewModel(folio_model* handle) {
  auto model = std::make_shared<PyModel>();
  model->handle.reset(handle);
  return nb::cast(std::move(model));
}

const folio_model* ModelOf(nb::handle model) {
  return model.is_none() ? nullptr : nb::cast<const PyModel&>(model).handle.get();
}

void BindModel(nb::module_& m) {
  nb::class_<PyModel>(m, "Model")
      .def_static("open", OpenPath, nb::arg("path"), nb::arg("options"))
      .def_static("open_files", OpenFiles, nb::arg("files"), nb::arg("name"), nb::arg("options"),
                  nb::sig("def open_files(files: dict[str, bytes], name: str, options: "
                          "collections.abc.Sequence[tuple[str, str]]) -> Model"))
      .def("info", Info)
      .def("tokenizer", TokenizerOfModel, nb::sig("def tokenizer(self) -> Tokenizer | None"))
      .def_prop_ro("context",
                   [](const PyModel& self) { return folio_model_context(self.handle.get()); })
      .def("prompt", Prompt, nb::arg("text"), nb::sig("def prompt(self, text: str) -> list[int]"))
      .def("chat", Chat, nb::arg("conversation"),
           nb::sig("def chat(self, conversation: str) -> list[int]"))
      .def("logits", Logits, nb::arg("ids"), nb::arg("first"),
           nb::sig("def logits(self, ids: collections.abc.Iterable[int], first: int) -> "
                   "numpy.typing.NDArray[numpy.float32]"))
      .def("embed", Embed, nb::arg("ids"), nb::arg("pooling"),
           nb::sig("def embed(self, ids: collections.abc.Iterable[int], pooling: str) -> "
                   "numpy.typing.NDArray[numpy.float32]"))
      .def("attention", Attention, nb::arg("ids"), nb::arg("layer"), nb::arg("head"),
           nb::sig(
               "def attention(self, ids: collections.abc.Iterable[int], layer: int, head: int) -> "
               "numpy.typing.NDArray[numpy.float32]"))
      .def(
          "inside", Inside, nb::arg("ids"), nb::arg("point"), nb::arg("layer"),
          nb::sig("def inside(self, ids: collections.abc.Iterable[int], point: str, layer: int) -> "
                  "numpy.typing.NDArray[numpy.float32]"))
      .def("parameter", Parameter, nb::arg("name"),
           nb::sig("def parameter(self, name: str) -> numpy.typing.NDArray[typing.Any]"))
      .def("perplexity", Perplexity, nb::arg("paths"), nb::arg("context"), nb::arg("stride"),
           nb::arg("max_tokens"), nb::arg("field"), nb::arg("special"), nb::arg("progress"),
           nb::sig("def perplexity(self, paths: collections.abc.Sequence[str], context: int, "
                   "stride: int, max_tokens: int, field: str, special: str, "
                   "progress: collections.abc.Callable[[int, int], object]) -> "
                   "list[tuple[str, int, int, int, int, float]]"))
      .def("save", Save, nb::arg("path"), nb::arg("format"), nb::arg("dtype"));
  nb::class_<PyLens>(m, "Lens")
      .def(nb::init<const PyModel&, nb::handle, std::vector<int64_t>, int64_t>(), nb::arg("model"),
           nb::arg("ids"), nb::arg("positions"), nb::arg("top"),
           nb::sig("def __init__(self, model: Model, ids: collections.abc.Iterable[int], "
                   "positions: collections.abc.Sequence[int], top: int) -> None"))
      .def("cells", &PyLens::Cells,
           nb::sig("def cells(self) -> "
                   "list[tuple[list[tuple[int, float]], float, float, int]]"))
      .def("svg", &PyLens::Svg);
  nb::class_<PyScores>(m, "Scores")
      .def(nb::init<const PyModel&, nb::handle, int64_t>(), nb::arg("model"), nb::arg("ids"),
           nb::arg("top"),
           nb::sig("def __init__(self, model: Model, ids: collections.abc.Iterable[int], "
                   "top: int) -> None"))
      .def("tokens", &PyScores::Tokens,
           nb::sig("def tokens(self) -> "
                   "list[tuple[float, int, float, list[tuple[int, float]]]]"))
      .def("svg", &PyScores::Svg, nb::arg("by"));
  const auto told = [](const char* method) { return std::string(method) + kToldType; };
  static const std::string step = told("def step(self) -> ");
  static const std::string cancel = told("def cancel(self, text: int) -> ");
  nb::class_<PyTexts>(m, "Texts")
      .def(nb::init<const PyModel&, int64_t>(), nb::arg("model"), nb::arg("texts"))
      .def("add", &PyTexts::Add, nb::arg("ids"), nb::arg("options"), nb::arg("probabilities"),
           nb::sig("def add(self, ids: collections.abc.Iterable[int], options: "
                   "collections.abc.Sequence[tuple[str, str]], "
                   "probabilities: bool) -> int"))
      .def("step", &PyTexts::Step, nb::sig(step.c_str()))
      .def("cancel", &PyTexts::Cancel, nb::arg("text"), nb::sig(cancel.c_str()));
}

}  // namespace folio::python
