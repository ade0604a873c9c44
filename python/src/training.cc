#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>

#include "core.h"
#include "folio/base/hash.h"
#include "folio/c/handles.h"
#include "folio/data/dataset.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"

namespace folio::python {
namespace {

// Passes the callbacks of a folio_watch on to Python's functions, which return False to stop.
struct Watched {
  Errand errand = {};
  nb::object progress = nb::none(), step = nb::none(), evaluation = nb::none(), stop = nb::none();

  template <class... Args>
  int Tell(const nb::object& to, Args... args) {
    return errand.Call([&] {
      const nb::object more = to(args...);
      return more.is(Py_False) ? 1 : 0;
    });
  }

  folio_watch Watch(const folio_cancel* cancel) {
    folio_watch watch{};
    watch.size = sizeof(watch);
    watch.user = this;
    watch.cancel = cancel;
    if (!progress.is_none()) {
      watch.progress = [](void* user, int64_t done, int64_t total) {
        auto* watched = static_cast<Watched*>(user);
        return watched->Tell(watched->progress, done, total);
      };
    }
    if (!step.is_none()) {
      watch.step = [](void* user, int64_t number, double loss, double rate, double speed) {
        auto* watched = static_cast<Watched*>(user);
        return watched->Tell(watched->step, number, loss, rate, speed);
      };
    }
    if (!evaluation.is_none()) {
      watch.evaluation = [](void* user, int64_t number, double train, double held_out) {
        auto* watched = static_cast<Watched*>(user);
        return watched->Tell(watched->evaluation, number, train, held_out);
      };
    }
    if (!stop.is_none()) {
      watch.poll = [](void* user) {
        auto* watched = static_cast<Watched*>(user);
        return watched->errand.Poll([watched] { return watched->stop().is(Py_True) ? 1 : 0; });
      };
    }
    return watch;
  }
};

std::vector<const char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

// Describes token files that Python has written, train.bin and val.bin, so that they are a data
// set.
void DescribeDataset(const std::string& directory, const nb::object& tokenizer, int64_t vocab_size,
                     int64_t token_bytes) {
  const folio_tokenizer* from = TokenizerOf(tokenizer);
  const nb::gil_scoped_release unlocked;
  DatasetInfo info;
  info.width = static_cast<TokenWidth>(token_bytes);
  info.vocab_size = vocab_size;
  if (from != nullptr) {
    info.tokenizer_kind = from->impl->kind();
    info.tokenizer_hash = from->impl->hash();
  }
  const auto shard = [&](const char* name, int64_t& tokens) {
    const MappedFile file(directory + "/" + name);
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
    tokens = static_cast<int64_t>(bytes.size()) / token_bytes;
    return std::vector<TokenShard>{{name, tokens, HashHex(bytes)}};
  };
  info.train_shards = shard(kTrainFile, info.train_tokens);
  info.val_shards = shard(kValFile, info.val_tokens);
  WriteDatasetInfo(directory, info);
}

// A run that is prepared, and then trained.
struct PyTrain {
  std::unique_ptr<folio_train, Freer<folio_train_free>> handle;

  PyTrain(const std::vector<std::string>& data, const std::string& run, const Named& named,
          nb::object progress) {
    const Options options = OptionsOf("train", named);
    const std::vector<const char*> paths = Pointers(data);
    folio_train* made = nullptr;
    Watched watched{.progress = std::move(progress)};
    watched.errand.Run([&](const folio_cancel* cancel, folio_error** error) {
      const folio_watch watch = watched.Watch(cancel);
      return folio_train_new(paths.data(), paths.size(), run.c_str(), options.get(), &watch, &made,
                             error);
    });
    handle.reset(made);
  }

  // Returns what folio_train_run tells, as JSON. `stop` is asked some times a second: True ends the
  // run.
  std::string Run(nb::object step, nb::object evaluation, nb::object stop) {
    const Buffer json = NewBuffer();
    Watched watched{
        .step = std::move(step), .evaluation = std::move(evaluation), .stop = std::move(stop)};
    watched.errand.RunHere([&](const folio_cancel* cancel, folio_error** error) {
      const folio_watch watch = watched.Watch(cancel);
      return folio_train_run(handle.get(), &watch, json.get(), error);
    });
    return std::string(TextOf(json));
  }
};

void Prepare(const std::vector<std::string>& texts, const std::string& directory,
             const Named& named, nb::object progress) {
  const Options options = OptionsOf("prepare", named);
  const std::vector<const char*> paths = Pointers(texts);
  Watched watched{.progress = std::move(progress)};
  watched.errand.Run([&](const folio_cancel* cancel, folio_error** error) {
    const folio_watch watch = watched.Watch(cancel);
    return folio_data_prepare(paths.data(), paths.size(), directory.c_str(), options.get(), &watch,
                              error);
  });
}

void TrainTokenizer(const std::vector<std::string>& texts, const std::string& directory,
                    const Named& named, nb::object progress) {
  const Options options = OptionsOf("tokenizer", named);
  const std::vector<const char*> paths = Pointers(texts);
  Watched watched{.progress = std::move(progress)};
  watched.errand.Run([&](const folio_cancel* cancel, folio_error** error) {
    const folio_watch watch = watched.Watch(cancel);
    return folio_tokenizer_train(paths.data(), paths.size(), directory.c_str(), options.get(),
                                 &watch, error);
  });
}

using Batch = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct PyTrainer {
  std::unique_ptr<folio_trainer, Freer<folio_trainer_free>> handle;

  PyTrainer(const Named& named, const nb::object& from) {
    const Options options = OptionsOf("train", named);
    const folio_model* model = ModelOf(from);
    folio_trainer* made = nullptr;
    Compute(
        [&](folio_error** error) { return folio_trainer_new(options.get(), model, &made, error); });
    handle.reset(made);
  }

  std::string Info() const {
    const Buffer json = NewBuffer();
    Ask([&](folio_error** error) { return folio_trainer_info(handle.get(), json.get(), error); });
    return std::string(TextOf(json));
  }

  static void RequireSame(const Batch& inputs, const Batch& targets) {
    if (inputs.shape(0) == targets.shape(0) && inputs.shape(1) == targets.shape(1)) return;
    throw Failure{FOLIO_USAGE, "targets: not of the shape of inputs"};
  }

  // (step, loss, learning rate, norm of the gradient, tokens per second, skipped)
  nb::tuple Step(const Batch& inputs, const Batch& targets) {
    RequireSame(inputs, targets);
    folio_step step{};
    step.size = sizeof(step);
    Errand().Run([&](const folio_cancel* cancel, folio_error** error) {
      return folio_trainer_step(handle.get(), inputs.data(), targets.data(), inputs.size(), cancel,
                                &step, error);
    });
    return nb::make_tuple(step.step, step.loss, step.learning_rate, step.gradient_norm,
                          step.tokens_per_second, step.skipped != 0);
  }

  double Evaluate(const Batch& inputs, const Batch& targets) {
    RequireSame(inputs, targets);
    double loss = 0;
    Errand().Run([&](const folio_cancel* cancel, folio_error** error) {
      return folio_trainer_evaluate(handle.get(), inputs.data(), targets.data(), inputs.size(),
                                    cancel, &loss, error);
    });
    return loss;
  }

  void Save(const std::string& directory, const nb::object& tokenizer) const {
    const folio_tokenizer* from = TokenizerOf(tokenizer);
    Compute([&](folio_error** error) {
      return folio_trainer_save(handle.get(), directory.c_str(), from, error);
    });
  }
  void Resume(const std::string& directory) {
    Compute([&](folio_error** error) {
      return folio_trainer_resume(handle.get(), directory.c_str(), error);
    });
  }
  nb::object Model(const nb::object& tokenizer) const {
    const folio_tokenizer* from = TokenizerOf(tokenizer);
    folio_model* made = nullptr;
    Compute(
        [&](folio_error** error) { return folio_trainer_model(handle.get(), from, &made, error); });
    return NewModel(made);
  }
};

nb::object TensorOf(nb::handle self, const std::string& name, bool gradient) {
  folio_tensor tensor{};
  tensor.size = sizeof(tensor);
  Ask([&](folio_error** error) {
    return folio_trainer_tensor(nb::cast<PyTrainer&>(self).handle.get(), name.c_str(), gradient,
                                &tensor, error);
  });
  return TensorView(tensor, self);
}

}  // namespace

void BindTraining(nb::module_& m) {
  m.def("describe_dataset", DescribeDataset, nb::arg("directory"), nb::arg("tokenizer").none(),
        nb::arg("vocab_size"), nb::arg("token_bytes"),
        nb::sig("def describe_dataset(directory: str, tokenizer: Tokenizer | None, "
                "vocab_size: int, token_bytes: int) -> None"));
  m.def("story", TellStory, nb::arg("seed"), nb::arg("index"), "A story of the built-in corpus.");
  nb::class_<PyTrain>(m, "Train")
      .def(
          nb::init<const std::vector<std::string>&, const std::string&, const Named&, nb::object>(),
          nb::arg("data"), nb::arg("run"), nb::arg("options"), nb::arg("progress").none(),
          nb::sig("def __init__(self, data: collections.abc.Sequence[str], run: str, "
                  "options: collections.abc.Sequence[tuple[str, str]], "
                  "progress: collections.abc.Callable[[int, int], object] | None) -> None"))
      .def("run", &PyTrain::Run, nb::arg("step"), nb::arg("evaluation"), nb::arg("stop"),
           nb::sig("def run(self, "
                   "step: collections.abc.Callable[[int, float, float, float], object], "
                   "evaluation: collections.abc.Callable[[int, float, float], object], "
                   "stop: collections.abc.Callable[[], bool]) -> str"));
  m.def("prepare", Prepare, nb::arg("texts"), nb::arg("directory"), nb::arg("options"),
        nb::arg("progress").none(),
        nb::sig("def prepare(texts: collections.abc.Sequence[str], directory: str, "
                "options: collections.abc.Sequence[tuple[str, str]], "
                "progress: collections.abc.Callable[[int, int], object] | None) -> None"));
  m.def("train_tokenizer", TrainTokenizer, nb::arg("texts"), nb::arg("directory"),
        nb::arg("options"), nb::arg("progress").none(),
        nb::sig("def train_tokenizer(texts: collections.abc.Sequence[str], directory: str, "
                "options: collections.abc.Sequence[tuple[str, str]], "
                "progress: collections.abc.Callable[[int, int], object] | None) -> None"));
  nb::class_<PyTrainer>(m, "Trainer")
      .def(nb::init<const Named&, nb::object>(), nb::arg("options"), nb::arg("from_model").none(),
           nb::sig("def __init__(self, options: collections.abc.Sequence[tuple[str, str]], "
                   "from_model: Model | None) -> None"))
      .def("info", &PyTrainer::Info)
      .def("step", &PyTrainer::Step, nb::arg("inputs"), nb::arg("targets"),
           nb::sig("def step(self, inputs: numpy.typing.NDArray[numpy.int32], targets: "
                   "numpy.typing.NDArray[numpy.int32]) -> "
                   "tuple[int, float, float, float, float, bool]"))
      .def("evaluate", &PyTrainer::Evaluate, nb::arg("inputs"), nb::arg("targets"),
           nb::sig("def evaluate(self, inputs: numpy.typing.NDArray[numpy.int32], "
                   "targets: numpy.typing.NDArray[numpy.int32]) -> float"))
      .def("tensor", TensorOf, nb::arg("name"), nb::arg("gradient"),
           nb::sig(
               "def tensor(self, name: str, gradient: bool) -> numpy.typing.NDArray[typing.Any]"))
      .def("save", &PyTrainer::Save, nb::arg("directory"), nb::arg("tokenizer").none(),
           nb::sig("def save(self, directory: str, tokenizer: Tokenizer | None) -> None"))
      .def("resume", &PyTrainer::Resume, nb::arg("directory"))
      .def("model", &PyTrainer::Model, nb::arg("tokenizer").none(),
           nb::sig("def model(self, tokenizer: Tokenizer | None) -> Model"));
}

}  // namespace folio::python
