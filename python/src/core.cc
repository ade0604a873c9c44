#include "core.h"

#include <nanobind/stl/pair.h>

#include <chrono>
#include <exception>
#include <limits>
#include <thread>

#include "folio/base/error.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"

namespace folio::python {
namespace {

// A Ctrl-C is heard after so long.
constexpr std::chrono::milliseconds kHeardAfter(50);

}  // namespace

Options OptionsOf(const char* kind, const Named& named) {
  Options options(folio_options_new(kind));
  if (options == nullptr) throw std::bad_alloc();
  for (const auto& option : named) {
    Ask([&](folio_error** error) {
      return folio_options_set(options.get(), option.first.c_str(), option.second.c_str(), error);
    });
  }
  return options;
}

void Errand::RunHere(const Work& work) {
  const Cancel cancel(folio_cancel_new());
  if (cancel == nullptr) throw std::bad_alloc();
  folio_error* error = nullptr;
  folio_status status = FOLIO_OK;
  here_ = true;
  {
    const nb::gil_scoped_release unlocked;
    status = work(cancel.get(), &error);
  }
  if (raised_ != nullptr) {
    folio_error_free(error);
    std::rethrow_exception(std::exchange(raised_, nullptr));
  }
  Check(status, error);
}

void Errand::Run(const Work& work) {
  const Cancel cancel(folio_cancel_new());
  if (cancel == nullptr) throw std::bad_alloc();
  folio_error* error = nullptr;
  folio_status status = FOLIO_OK;
  std::thread worker([&] {
    const folio_status ended = work(cancel.get(), &error);
    const std::lock_guard lock(mutex_);
    status = ended;
    done_ = true;
    changed_.notify_all();
  });
  {
    const nb::gil_scoped_release unlocked;
    std::unique_lock lock(mutex_);
    while (!done_) {
      changed_.wait_for(lock, kHeardAfter, [&] { return done_ || asked_ != nullptr; });
      if (done_) break;
      const std::function<int()>* asked = asked_;
      lock.unlock();
      int answer = 1;
      if (raised_ == nullptr) {
        const nb::gil_scoped_acquire locked;
        try {
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          if (asked != nullptr) answer = (*asked)();
        } catch (...) {
          raised_ = std::current_exception();
          folio_cancel_request(cancel.get());
        }
      }
      lock.lock();
      if (asked == nullptr) continue;
      answer_ = answer;
      asked_ = nullptr;
      changed_.notify_all();
    }
    lock.unlock();
    worker.join();
  }
  if (raised_ != nullptr) {
    folio_error_free(error);
    std::rethrow_exception(std::exchange(raised_, nullptr));
  }
  Check(status, error);
}

int Errand::Poll(const std::function<int()>& f) {
  const auto now = std::chrono::steady_clock::now();
  if (now - polled_ < kHeardAfter) return raised_ == nullptr ? 0 : 1;
  polled_ = now;
  return Call(f);
}

int Errand::Call(const std::function<int()>& f) {
  if (here_) {
    if (raised_ != nullptr) return 1;
    const nb::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return f();
    } catch (...) {
      raised_ = std::current_exception();
      return 1;
    }
  }
  std::unique_lock lock(mutex_);
  asked_ = &f;
  changed_.notify_all();
  changed_.wait(lock, [&] { return asked_ == nullptr; });
  return answer_;
}

nb::object TensorView(const folio_tensor& tensor, nb::handle owner) {
  const std::string_view name = tensor.dtype;
  size_t shape[8];
  for (int32_t i = 0; i < tensor.rank; ++i) shape[i] = static_cast<size_t>(tensor.shape[i]);
  size_t rank = static_cast<size_t>(tensor.rank);
  nb::dlpack::dtype dtype = nb::dtype<uint8_t>();
  if (name == "F32") {
    dtype = nb::dtype<float>();
  } else if (name == "BF16") {
    dtype = nb::dtype<uint16_t>();
  } else if (name == "F16") {
    dtype = {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
  } else {  // blocks
    rank = 1;
    shape[0] = static_cast<size_t>(tensor.bytes);
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(tensor.data, rank, shape, owner, nullptr, dtype));
}

namespace {

int32_t IdOf(long long id) {
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    throw Failure{FOLIO_INPUT, "no token " + std::to_string(id)};
  }
  return static_cast<int32_t>(id);
}

template <class T>
bool AppendArray(nb::handle object, std::vector<int32_t>& ids) {
  nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
  if (!nb::try_cast(object, array, /*convert=*/false)) return false;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const T id = array.data()[i];
    ids.push_back(IdOf(id > T(std::numeric_limits<int32_t>::max())
                           ? std::numeric_limits<long long>::max()
                           : static_cast<long long>(id)));
  }
  return true;
}

}  // namespace

std::vector<int32_t> IdsOf(nb::handle object) {
  std::vector<int32_t> ids;
  const auto append = [&](nb::handle item) {
    const long long id = PyLong_AsLongLong(item.ptr());
    if (id == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    ids.push_back(IdOf(id));
  };
  if (PyList_Check(object.ptr())) {
    const auto list = nb::borrow<nb::list>(object);
    ids.reserve(list.size());
    for (const nb::handle item : list) append(item);
    return ids;
  }
  if (nb::ndarray_check(object) &&
      (AppendArray<uint32_t>(object, ids) || AppendArray<int32_t>(object, ids) ||
       AppendArray<int64_t>(object, ids) || AppendArray<uint16_t>(object, ids))) {
    return ids;
  }
  for (const nb::handle item : nb::iter(object)) append(item);
  return ids;
}

nb::list ListOf(const int32_t* ids, size_t count) {
  auto list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < count; ++i) {
    PyObject* id = PyLong_FromLong(ids[i]);
    if (id == nullptr) throw nb::python_error();
    PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), id);
  }
  return list;
}

namespace {

void Raise(const Failure& failure) {
  try {
    const nb::object error =
        nb::module_::import_("folio._errors")
            .attr("error_of")(failure.status, failure.message, failure.cause, failure.help);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& e) {
    e.restore();
  }
}

void Translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Failure& failure) {
    Raise(failure);
  } catch (const Error& error) {  // of what folio.h has no function for
    Raise({static_cast<folio_status>(error.kind()), error.what(), error.cause(), error.help()});
  }
}

// The program, as main does it.
int Program(const std::vector<std::string>& arguments) {
  const nb::gil_scoped_release unlocked;
  ReportMappedFaults();
  return RunProgram(arguments, AllCommands);
}

std::string Describe(const char* kind) {
  const Buffer json = NewBuffer();
  Ask([&](folio_error** error) { return folio_options_describe(kind, json.get(), error); });
  return std::string(TextOf(json));
}

std::string VersionText() {
  const uint32_t version = folio_version();
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
         std::to_string(version & 255);
}

void SetThreads(int32_t threads) {
  Compute([&](folio_error** error) { return folio_set_threads(threads, error); });
}

// Messages of the library go to this, which lives as long as the process.
nb::object* log_to = nullptr;

void Log(void*, int32_t level, const char* text, size_t length) {
  const nb::gil_scoped_acquire locked;
  try {
    (*log_to)(level, nb::str(text, length));
  } catch (nb::python_error& e) {
    e.discard_as_unraisable("a log function of folio");
  }
}

void SetLog(int32_t level, nb::object to) {
  if (log_to == nullptr) log_to = new nb::object();
  *log_to = std::move(to);
  const bool nowhere = log_to->is_none();
  const nb::gil_scoped_release unlocked;  // whoever writes a message now waits for it
  folio_set_log(level, nowhere ? nullptr : Log, nullptr);
}

}  // namespace
}  // namespace folio::python

NB_MODULE(_core, m) {
  using namespace folio::python;
  m.doc() = "folio.h for Python; folio's own modules are what programs use.";
  nb::set_leak_warnings(false);
  nb::register_exception_translator(Translate);
  m.def("version", VersionText);
  m.def("set_threads", SetThreads, nb::arg("threads"));
  m.def("set_log", SetLog, nb::arg("level"), nb::arg("log").none());
  m.def("program", Program, nb::arg("arguments"));
  m.def("describe", Describe, nb::arg("kind"), "The options of a kind as JSON.");
  BindTokenizer(m);
  BindModel(m);
  BindTraining(m);
  BindPlots(m);
}
