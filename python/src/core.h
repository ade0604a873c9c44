#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/c/folio.h"

// Common to the parts of folio._core: folio.h's handles, errors and buffers in Python.
namespace folio::python {

namespace nb = nanobind;

// An error of folio.h, which folio/_errors.py turns into an exception.
struct Failure {
  folio_status status = FOLIO_INTERNAL;
  std::string message = {}, cause = {}, help = {};
};

// Throws the Failure that a call of folio.h returned, if it failed.
inline void Check(folio_status status, folio_error* error) {
  if (status == FOLIO_OK) return;
  Failure failure{status, folio_error_message(error), folio_error_cause(error),
                  folio_error_help(error)};
  folio_error_free(error);
  throw failure;
}

// Calls f(&error) without Python's lock, for work that takes more than a moment.
template <class F>
void Compute(F&& f) {
  folio_error* error = nullptr;
  folio_status status = FOLIO_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = f(&error);
  }
  Check(status, error);
}
// The same with the lock.
template <class F>
void Ask(F&& f) {
  folio_error* error = nullptr;
  const folio_status status = f(&error);
  Check(status, error);
}

// Runs work on a thread of its own, while the calling thread waits and handles signals: Ctrl-C asks
// the work to stop, and is raised when it has stopped. Python code that the work needs runs on the
// calling thread.
class Errand {
 public:
  using Work = std::function<folio_status(const folio_cancel*, folio_error**)>;
  // Runs the work. Throws the exception of Python code that Call ran, KeyboardInterrupt, or the
  // Failure of the work.
  void Run(const Work& work);
  // The same on the calling thread, which handles signals only when the work calls or polls: for
  // work that does so often, since changing threads would cost more than a step of a small model.
  void RunHere(const Work& work);
  // For the work of RunHere: runs f like Call if it has not run for a moment; else returns 0.
  int Poll(const std::function<int()>& f);
  // For the work: runs f, with Python's lock, on the thread that called Run, and returns its
  // result; 1 after an exception.
  int Call(const std::function<int()>& f);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<int()>* asked_ = nullptr;
  int answer_ = 0;
  bool done_ = false, here_ = false;
  std::chrono::steady_clock::time_point polled_ = {};
  std::exception_ptr raised_ = nullptr;
};

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};
using Buffer = std::unique_ptr<folio_buffer, Freer<folio_buffer_free>>;
using Options = std::unique_ptr<folio_options, Freer<folio_options_free>>;
using Cancel = std::unique_ptr<folio_cancel, Freer<folio_cancel_free>>;

inline folio_watch WatchOf(const folio_cancel* cancel) {
  folio_watch watch{};
  watch.size = sizeof(watch);
  watch.cancel = cancel;
  return watch;
}
inline Buffer NewBuffer() {
  Buffer buffer(folio_buffer_new());
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}
inline std::string_view TextOf(const Buffer& buffer) {
  return {static_cast<const char*>(folio_buffer_data(buffer.get())),
          folio_buffer_size(buffer.get())};
}

// Options of a kind from names and values in text.
using Named = std::vector<std::pair<std::string, std::string>>;
Options OptionsOf(const char* kind, const Named& named);

// A NumPy array that owns the buffer.
template <class T>
using Array = nb::ndarray<nb::numpy, T>;
template <class T>
Array<T> ArrayOf(Buffer buffer, std::initializer_list<size_t> shape) {
  void* data = const_cast<void*>(folio_buffer_data(buffer.get()));
  const nb::capsule owner(buffer.get(), [](void* held) noexcept {
    folio_buffer_free(static_cast<folio_buffer*>(held));
  });
  buffer.release();  // is the capsule's
  return Array<T>(data, shape, owner);
}

// The bytes of a str in UTF-8, which live as long as it. Throws UnicodeEncodeError where there is
// half of a surrogate pair.
inline std::string_view Utf8(nb::handle text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<size_t>(size)};
}

// Ids of tokens from a list, a tuple, an array of integers, or what else is iterated.
std::vector<int32_t> IdsOf(nb::handle ids);
nb::list ListOf(const int32_t* ids, size_t count);

// An array over a tensor where it lies, which `owner` keeps: of float32 or float16; of bytes for
// types that NumPy does not know, bfloat16 as uint16.
nb::object TensorView(const folio_tensor& tensor, nb::handle owner);

void BindTokenizer(nb::module_& m);
void BindModel(nb::module_& m);
void BindTraining(nb::module_& m);
void BindPlots(nb::module_& m);

// A tokenizer for Python, and the handle that one is, null for None.
nb::object NewTokenizer(const folio_tokenizer* handle);
const folio_tokenizer* TokenizerOf(nb::handle tokenizer);
// The same of models.
nb::object NewModel(folio_model* handle);
const folio_model* ModelOf(nb::handle model);

}  // namespace folio::python
