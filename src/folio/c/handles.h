#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "folio/api/batch_trainer.h"
#include "folio/api/model.h"
#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/steady_threads.h"
#include "folio/c/folio.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampling_fields.h"
#include "folio/io/json.h"
#include "folio/io/memory_files.h"
#include "folio/model/params.h"
#include "folio/run/run_config.h"
#include "folio/tensor/memory_plan.h"
#include "folio/tensor/tensor.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The host's copies of tensors that lie in a backend's memory, for callers who keep pointers.
class HostTensors {
 public:
  // Returns `x` itself if it lies in the host's memory, else its copy: for each name one, which
  // stays where it is as long as this. One that `changes` is read anew.
  Tensor Get(const std::string& name, const Tensor& x, bool changes) {
    if (x.on_host()) return x;
    const std::lock_guard lock(mutex_);
    const auto [copy, made] = copies_.try_emplace(name, x);
    if (changes && !made) copy->second.mirror().Fetch();
    return copy->second.tensor();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, HostEdit> copies_;
};

}  // namespace folio

// The types behind the handles of folio.h.

struct folio_error {
  folio_status status = FOLIO_INTERNAL;
  std::string message, cause = {}, help = {};
};

struct folio_buffer {
  std::vector<char> bytes = {0};  // ends with a zero
  std::vector<int32_t> ids;       // instead of bytes, ends with a zero; or empty

  // Takes over the memory of old ids, without the ids: the buffer is empty afterwards.
  std::vector<int32_t> TakeIds() {
    std::vector<int32_t> memory = std::move(ids);
    memory.clear();
    Set({});
    return memory;
  }
  void SetIds(std::vector<int32_t> numbers) {
    numbers.push_back(0);
    ids = std::move(numbers);
  }
  void Set(const void* data, size_t size) {
    ids.clear();
    bytes.resize(size + 1);
    if (size > 0) std::copy_n(static_cast<const char*>(data), size, bytes.data());
    bytes[size] = 0;
  }
  void Set(std::string_view text) { Set(text.data(), text.size()); }
  template <class T>
  void Set(const std::vector<T>& numbers) {
    Set(numbers.data(), numbers.size() * sizeof(T));
  }
};

struct folio_cancel {
  std::atomic<bool> requested = false;
  static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may set it
};

struct folio_files {
  folio::MemoryFiles impl = {};
};

// Options of the kind `kind`; members of other kinds are not used.
struct folio_options {
  enum class Kind { kOpen, kGenerate, kTrain, kPrepare, kTokenizer };

  struct Training {
    std::string preset = {};
    bool resume = false, overwrite = false;
    std::vector<std::pair<std::string, std::string>> settings = {};  // by RunConfig's names
  };

  explicit folio_options(Kind wanted) : kind(wanted) {}

  Kind kind;
  folio::OpenOptions open = {};
  std::string dtype = "auto", template_variables = {};
  folio::GenerateOptions generate = {};
  std::string when_full = "slide", defaults = "plain";
  std::vector<std::pair<std::string, std::string>> given = {};  // set options of "generate"
  std::optional<int64_t> seed = {};
  Training train = {};
  folio::PrepareOptions prepare = {};
  folio::TrainTokenizerOptions tokenizer = {};
  std::string pattern = "gpt2";
  bool own_special_tokens = false;  // true if some were given

  // The single-valued fields of its kind, except settings of training. They point into this object.
  std::vector<folio::Field> Fields();
  // Sets an option from text. Throws a kUsage Error for an unknown name or a value out of range.
  void Set(const std::string& name, const std::string& value);
};

struct folio_tokenizer {
  std::shared_ptr<const folio::Tokenizer> impl;
};

struct folio_model {
  std::shared_ptr<const folio::Model> impl;
  folio_tokenizer tokenizer;  // impl is null where it has none
  mutable folio::HostTensors tensors = {};
};

// Training on the caller's batches.
struct folio_trainer {
  folio::RunSettings settings = {};
  std::unique_ptr<folio::BatchTrainer> impl = {};
  folio::HostTensors tensors = {};
};

namespace folio {

inline bool IsRequested(const folio_cancel* cancel) {
  return cancel != nullptr && cancel->requested.load(std::memory_order_relaxed);
}

// Runs the body of a function of folio.h, and returns the status for whatever it throws.
template <class F>
folio_status Guarded(folio_error** error, F&& body) noexcept {
  const auto fail = [error](folio_status status, auto... texts) {
    if (error != nullptr) *error = new (std::nothrow) folio_error{status, std::move(texts)...};
    return status;
  };
  try {
    const SteadyThreads steady;
    body();
    return FOLIO_OK;
  } catch (const CallStopped&) {
    return fail(FOLIO_CANCELLED, std::string("stopped by the caller"));
  } catch (const Error& e) {
    return fail(static_cast<folio_status>(e.kind()), std::string(e.what()), e.cause(), e.help());
  } catch (const std::bad_alloc&) {
    return fail(FOLIO_RESOURCE, std::string("out of memory"));
  } catch (const std::filesystem::filesystem_error& e) {
    return fail(FOLIO_RUNTIME, "cannot change or read " + e.path1().string(), e.code().message());
  } catch (const std::exception& e) {
    return fail(FOLIO_INTERNAL, std::string(e.what()));
  } catch (...) {
    return fail(FOLIO_INTERNAL, std::string("an unknown exception"));
  }
}

// Throws a kUsage Error if an argument is NULL.
inline void RequireArgument(const void* argument, std::string_view name) {
  if (argument == nullptr) {
    throw UsageError(std::string(name) + ": NULL", "must not be NULL");
  }
}

inline void RequireArguments(
    std::initializer_list<std::pair<const void*, std::string_view>> arguments) {
  for (const auto& [argument, name] : arguments) RequireArgument(argument, name);
}

// Throws a kUsage Error if the member `size` of a caller's struct is below `least`.
void RequireSize(size_t size, size_t least, std::string_view argument, std::string_view type);

// Throws a kUsage Error unless `argument` can point to `count` elements of `size` bytes each: for
// NULL, for more than an address space holds, and for memory that is not mapped.
void RequireArray(const void* argument, size_t count, size_t size, std::string_view name);

// A caller's text or ids, checked by RequireArray.
inline std::string_view TextArgument(const char* text, size_t length,
                                     std::string_view name = "text") {
  RequireArray(text, length, 1, name);
  return {text, length};
}
inline std::span<const int32_t> IdsArgument(const int32_t* ids, size_t count,
                                            std::string_view name = "ids") {
  RequireArray(ids, count, sizeof(*ids), name);
  return {ids, count};
}
// One or more ids of a text.
inline std::span<const int32_t> TextIdsArgument(const int32_t* ids, size_t count) {
  if (count == 0) {
    throw UsageError("ids: none", "expected one token or more",
                     "folio_model_prompt gives ids of any text");
  }
  return IdsArgument(ids, count);
}
// The name of a file or directory; throws a kUsage Error for NULL, for "" and for one longer than
// the system's limit.
const char* PathArgument(const char* path, std::string_view name);

inline StopRequest StopOf(const folio_cancel* cancel) {
  if (cancel == nullptr) return {};
  return [cancel] { return IsRequested(cancel); };
}

// The members of the caller's version of the struct, and null for the others.
folio_watch WatchArgument(const folio_watch* watch);
// Reports progress; throws CallStopped if the callback returns something other than 0.
void Tell(const folio_watch& watch, int64_t done, int64_t total);

// A folio_watch adapted for calls that read a text; must outlive them.
class Watcher {
 public:
  explicit Watcher(const folio_watch* watch) : watch_(WatchArgument(watch)) {}

  // Returns true if the call should continue.
  bool Hear(int64_t done, int64_t total) {
    if (watch_.progress != nullptr && watch_.progress(watch_.user, done, total) != 0) ended_ = true;
    return !ended_ && !IsRequested(watch_.cancel);
  }
  StopRequest stop() {
    return [this] { return ended_ || IsRequested(watch_.cancel); };
  }
  ReadProgress on_read() {
    return [this](int64_t done, int64_t total) { Hear(done, total); };
  }

 private:
  folio_watch watch_;
  bool ended_ = false;
};
// Several paths, each a PathArgument.
std::vector<std::string> PathsArgument(const char* const* paths, size_t count,
                                       std::string_view name);
// The same for texts, one or more.
std::vector<std::string> TextsArgument(const char* const* texts, size_t count);
// Describes `tensor` in the caller's version of the struct.
void SetTensor(folio_tensor* out, const Tensor& tensor);
// The settings of a model as JSON, and the names of its parameters.
Json ConfigJson(GptConfig config);
Json ParameterNames(const ParamTable& table);
// Makes a handle for a model.
folio_model* NewModel(std::shared_ptr<const Model> model);
// Applies the options of "train" to the settings.
void Apply(const folio_options& options, RunSettings& settings);

// The options of "generate" for a model, with a seed drawn if none was given.
GenerateOptions GenerateArgument(const OpenedModel& model, const folio_options* options);

// Options of this kind, or the defaults for null. Throws a kUsage Error for another kind.
folio_options OptionsArgument(const folio_options* options, folio_options::Kind kind);

}  // namespace folio
