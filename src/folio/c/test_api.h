#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/c/folio.h"
#include "tests/kit/directory.h"

namespace folio {

// Common parts of the tests of folio.h.

struct Freed {
  void operator()(folio_error* handle) const { folio_error_free(handle); }
  void operator()(folio_buffer* handle) const { folio_buffer_free(handle); }
  void operator()(folio_options* handle) const { folio_options_free(handle); }
  void operator()(folio_cancel* handle) const { folio_cancel_free(handle); }
  void operator()(folio_tokenizer* handle) const { folio_tokenizer_free(handle); }
  void operator()(folio_model* handle) const { folio_model_free(handle); }
  void operator()(folio_batch* handle) const { folio_batch_free(handle); }
  void operator()(folio_train* handle) const { folio_train_free(handle); }
  void operator()(folio_trainer* handle) const { folio_trainer_free(handle); }
  void operator()(folio_files* handle) const { folio_files_free(handle); }
};
template <class T>
using Handle = std::unique_ptr<T, Freed>;
using Ids = std::vector<int32_t>;

template <class T>
T Sized() {
  T made{};
  made.size = sizeof(T);
  return made;
}

// Fails the test with the error if a call fails.
inline void Check(folio_status status, folio_error* error) {
  const Handle<folio_error> owned(error);
  ASSERT_EQ(status, FOLIO_OK) << folio_error_message(error) << ": " << folio_error_cause(error);
}
template <class F>
void Do(F&& call) {
  folio_error* error = nullptr;
  const folio_status status = call(&error);
  Check(status, error);
}

// The text of an error of this status.
template <class F>
std::string Fails(folio_status expected, F&& call) {
  folio_error* error = nullptr;
  const folio_status status = call(&error);
  const Handle<folio_error> owned(error);
  EXPECT_EQ(status, expected) << folio_error_message(error);
  if (error == nullptr) return {};
  return std::string(folio_error_message(error)) + ": " + folio_error_cause(error) + ": " +
         folio_error_help(error);
}

template <class T>
std::vector<T> Numbers(const Handle<folio_buffer>& buffer) {
  std::vector<T> numbers(folio_buffer_size(buffer.get()) / sizeof(T));
  std::memcpy(numbers.data(), folio_buffer_data(buffer.get()), numbers.size() * sizeof(T));
  return numbers;
}
inline std::string TextIn(const Handle<folio_buffer>& buffer) {
  return static_cast<const char*>(folio_buffer_data(buffer.get()));
}
inline Handle<folio_buffer> NewBuffer() {
  return Handle<folio_buffer>(folio_buffer_new());
}

inline Handle<folio_options> Options(
    const char* kind, const std::vector<std::pair<std::string, std::string>>& values) {
  Handle<folio_options> options(folio_options_new(kind));
  for (const auto& one : values) {
    Do([&](folio_error** e) {
      return folio_options_set(options.get(), one.first.c_str(), one.second.c_str(), e);
    });
  }
  return options;
}

inline Handle<folio_train> Prepare(const std::filesystem::path& text,
                                   const std::filesystem::path& run, const folio_options* options,
                                   const folio_watch* watch) {
  folio_train* train = nullptr;
  const std::string from = text.string();
  const char* data[] = {from.c_str()};
  Do([&](folio_error** e) {
    return folio_train_new(data, 1, run.string().c_str(), options, watch, &train, e);
  });
  return Handle<folio_train>(train);
}

inline std::string SomeText() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
  return text;
}

inline Handle<folio_model> Open(const std::filesystem::path& path,
                                const folio_options* options = nullptr) {
  folio_model* model = nullptr;
  Do([&](folio_error** e) {
    return folio_model_open(path.string().c_str(), options, nullptr, &model, e);
  });
  return Handle<folio_model>(model);
}

inline folio_watch Watching(const folio_cancel* cancel) {
  folio_watch watch{};
  watch.size = sizeof(watch);
  watch.cancel = cancel;
  return watch;
}

// Trains a model for a second in a directory, which stays for all tests.
class CApi : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    PutFile("text.txt", SomeText());
    const auto options = Options("train", {{"preset", "debug"}, {"train.max_steps", "20"}});
    const Handle<folio_train> train = Prepare(At("text.txt"), At("run"), options.get(), nullptr);
    Do([&](folio_error** e) { return folio_train_run(train.get(), nullptr, nullptr, e); });
    model_ = Open(At("run"));
  }

  Ids Prompt(std::string_view text) {
    const auto ids = NewBuffer();
    Do([&](folio_error** e) {
      return folio_model_prompt(model_.get(), text.data(), text.size(), ids.get(), e);
    });
    return Numbers<int32_t>(ids);
  }

  std::string Write(const Ids& prompt, const folio_options* options,
                    const folio_cancel* cancel = nullptr, int32_t* end = nullptr) {
    const auto whole = NewBuffer();
    const folio_watch watch = Watching(cancel);
    Do([&](folio_error** e) {
      return folio_generate(model_.get(), prompt.data(), prompt.size(), options, nullptr, nullptr,
                            &watch, whole.get(), end, e);
    });
    return TextIn(whole);
  }

  Handle<folio_model> model_;
};

}  // namespace folio
