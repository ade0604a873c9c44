#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
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

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/c/folio.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampling_fields.h"
#include "folio/text/tokenizer.h"

// What is behind the handles of folio.h.

struct folio_error {
  folio_status status = FOLIO_INTERNAL;
  std::string message, cause = {}, help = {};
};

struct folio_buffer {
  std::vector<char> bytes = {0};  // and a zero

  void Set(const void* data, size_t size) {
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

// Of the three kinds of options the one that `kind` names; all know their fields.
struct folio_options {
  enum class Kind { kOpen, kGenerate, kTrain };

  struct Training {
    std::string preset = {};
    bool resume = false, overwrite = false;
    std::vector<std::pair<std::string, std::string>> settings = {};  // by RunConfig's names
  };

  explicit folio_options(Kind of) : kind(of) {}

  Kind kind;
  folio::OpenOptions open = {};
  std::string dtype = "auto";
  folio::GenerateOptions generate = {};
  std::string when_full = "slide";
  std::optional<int64_t> seed = {};
  Training train = {};

  // The fields of one value of its kind but for settings of training. They point into this object.
  std::vector<folio::Field> Fields();
};

struct folio_tokenizer {
  std::shared_ptr<const folio::Tokenizer> of;
};

namespace folio {

// An opened model, which whatever works with it holds.
struct SharedModel {
  explicit SharedModel(OpenedModel of) : opened(std::move(of)) {}

  OpenedModel opened;
  std::mutex computing = {};                       // of Computing
  std::atomic<std::thread::id> computing_by = {};  // the thread that holds it
  std::unique_ptr<DecodeBatch> texts = {};         // of one at a time, once somebody asked

  const GptConfig& config() const { return opened.weights->config(); }
  // Runs a text to its end, or until it is asked to stop. Throws what DecodeBatch throws.
  FinishReason Run(TextRequest request, const folio_cancel* cancel);
};

// Keeps a model to the thread that computes with it. Throws a kUsage Error where that thread does
// so already: a callback would wait for itself.
class Computing {
 public:
  explicit Computing(SharedModel& model) : model_(model) {
    if (model.computing_by == std::this_thread::get_id()) {
      throw UsageError("a callback computes with the model that called it", {},
                       "do it when the call has returned");
    }
    model.computing.lock();
    model.computing_by = std::this_thread::get_id();
  }
  ~Computing() {
    model_.computing_by = std::thread::id();
    model_.computing.unlock();
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  SharedModel& model_;
};

}  // namespace folio

struct folio_model {
  std::shared_ptr<folio::SharedModel> of;
  folio_tokenizer tokenizer;  // of null where it has none
};

namespace folio {

// Thrown to leave what somebody asked to stop.
struct CallCancelled {};

inline bool IsRequested(const folio_cancel* cancel) {
  return cancel != nullptr && cancel->requested.load(std::memory_order_relaxed);
}

// Runs the body of a function of folio.h, and makes a status of whatever it throws.
template <class F>
folio_status Guarded(folio_error** error, F&& body) noexcept {
  const auto fail = [error](folio_status status, auto... texts) {
    if (error != nullptr) *error = new (std::nothrow) folio_error{status, std::move(texts)...};
    return status;
  };
  try {
    body();
    return FOLIO_OK;
  } catch (const CallCancelled&) {
    return fail(FOLIO_CANCELLED, std::string("stopped as asked"));
  } catch (const Error& e) {
    return fail(static_cast<folio_status>(e.kind()), std::string(e.what()), e.cause(), e.help());
  } catch (const std::bad_alloc&) {
    return fail(FOLIO_RESOURCE, std::string("out of memory"));
  } catch (const std::exception& e) {
    return fail(FOLIO_INTERNAL, std::string(e.what()));
  } catch (...) {
    return fail(FOLIO_INTERNAL, std::string("an unknown exception"));
  }
}

// Throws a kUsage Error for an argument that is missing.
inline void RequireArgument(const void* argument, std::string_view name) {
  if (argument == nullptr) {
    throw UsageError(std::string(name) + ": NULL", "expected something that is there");
  }
}

// A text or ids that a caller gives; throws a kUsage Error for NULL with a length.
inline std::string_view TextArgument(const char* text, size_t length) {
  if (length > 0) RequireArgument(text, "text");
  return {text, length};
}
inline std::span<const int32_t> IdsArgument(const int32_t* ids, size_t count) {
  if (count > 0) RequireArgument(ids, "ids");
  return {ids, count};
}

// Options of this kind, or the usual ones for null. Throws a kUsage Error for another kind.
folio_options OptionsArgument(const folio_options* options, folio_options::Kind kind);

}  // namespace folio
