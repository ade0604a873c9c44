#include "folio/api/model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <memory>
#include <tuple>

#include "core.h"
#include "folio/c/handles.h"

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

// A model of files in memory: one, or a directory of them.
std::shared_ptr<PyModel> OpenFiles(const nb::dict& contents, const std::string& name,
                                   const Named& named) {
  const Files files(folio_files_new());
  if (files == nullptr) throw std::bad_alloc();
  for (const auto [file, bytes] : contents) {
    const std::string as(Utf8(file));
    const auto of = nb::cast<nb::bytes>(bytes);
    Compute([&](folio_error** error) {
      return folio_files_add(files.get(), as.c_str(), of.data(), of.size(), error);
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
  Buffer logits = self.Computed(ids, [&](const auto& of, auto... rest) {
    return folio_logits(self.handle.get(), of.data(), of.size(), first, rest...);
  });
  const size_t rows = CountOf<float>(logits) / self.vocab_size();
  return ArrayOf<float>(std::move(logits), {rows, self.vocab_size()});
}

Array<double> Score(const PyModel& self, nb::handle ids, size_t first) {
  Buffer scores = self.Computed(ids, [&](const auto& of, auto... rest) {
    return folio_score(self.handle.get(), of.data(), of.size(), first, rest...);
  });
  const size_t count = CountOf<double>(scores);
  return ArrayOf<double>(std::move(scores), {count});
}

nb::object Embed(const PyModel& self, nb::handle ids, const std::string& pooling) {
  Buffer rows = self.Computed(ids, [&](const auto& of, auto... rest) {
    return folio_embed(self.handle.get(), of.data(), of.size(), pooling.c_str(), rest...);
  });
  const size_t count = CountOf<float>(rows) / self.width();
  if (pooling != "all") return nb::cast(ArrayOf<float>(std::move(rows), {self.width()}));
  return nb::cast(ArrayOf<float>(std::move(rows), {count, self.width()}));
}

Array<float> Attention(const PyModel& self, nb::handle ids, int64_t layer, int64_t head) {
  size_t count = 0;
  Buffer weights = self.Computed(ids, [&](const auto& of, const folio_watch*, auto... rest) {
    count = of.size();
    return folio_attention(self.handle.get(), of.data(), of.size(), layer, head, rest...);
  });
  return ArrayOf<float>(std::move(weights), {count, count});
}

Array<float> Inside(const PyModel& self, nb::handle ids, const std::string& point, int64_t layer) {
  size_t count = 0;
  Buffer rows = self.Computed(ids, [&](const auto& of, const folio_watch*, auto... rest) {
    count = of.size();
    return folio_trace(self.handle.get(), of.data(), of.size(), point.c_str(), layer, rest...);
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

// Texts that are written together, a token of each at a step. What has come of them is kept until
// Python asks.
class PyTexts {
 public:
  PyTexts(const PyModel& model, int64_t texts) : texts_(model.handle->of, texts) {}

  int64_t Add(nb::handle ids, const Named& named, bool probabilities) {
    const std::vector<int32_t> prompt = IdsOf(ids);
    const Options options = OptionsOf("generate", named);
    GenerateOptions of = GenerateArgument(options.get());
    if (probabilities) of.likeliest = 0;
    const int64_t number = added_++;
    const nb::gil_scoped_release unlocked;
    ids_[number] = texts_.Add(
        prompt, of,
        [this, number](std::string_view text) {
          pieces_.emplace_back(number, std::string(text));
          return true;
        },
        [this, number](const GeneratedText& text) { ended_.emplace_back(number, text); });
    return number;
  }

  // (whether there is more, what was written of which text, which texts have ended and how)
  nb::tuple Step() {
    bool more = false;
    {
      const nb::gil_scoped_release unlocked;
      more = texts_.Step();
    }
    return Told(more);
  }

  nb::tuple Cancel(int64_t number) {
    const auto found = ids_.find(number);
    if (found != ids_.end()) {
      const nb::gil_scoped_release unlocked;
      texts_.Cancel(found->second);
    }
    return Told(true);
  }

 private:
  nb::tuple Told(bool more) {
    static constexpr const char* kReasons[] = {"length", "stop", "context", "cancelled"};
    nb::list pieces, ended;
    for (const auto& [number, text] : std::exchange(pieces_, {})) {
      pieces.append(nb::make_tuple(number, text));
    }
    for (const auto& [number, text] : std::exchange(ended_, {})) {
      nb::list probabilities;
      for (const ModelProbabilities& of : text.probabilities) {
        probabilities.append(of.log_probability);
      }
      ended.append(nb::make_tuple(number, text.text, ListOf(text.ids.data(), text.ids.size()),
                                  kReasons[static_cast<size_t>(text.reason)], probabilities));
    }
    return nb::make_tuple(more, pieces, ended);
  }

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
      .def("score", Score, nb::arg("ids"), nb::arg("first"),
           nb::sig("def score(self, ids: collections.abc.Iterable[int], first: int) -> "
                   "numpy.typing.NDArray[numpy.float64]"))
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
      .def("save", Save, nb::arg("path"), nb::arg("format"), nb::arg("dtype"));
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
