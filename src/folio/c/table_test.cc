#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/c/test_api.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

// Every function of folio.h with every argument wrong in every way that its type allows. The table
// has all functions of the header, whose declarations give the names of the arguments.
namespace folio {
namespace {

// A count of elements that do not exist. AddressSanitizer maps that much behind every allocation,
// and would stop what RequireArray then cannot refuse.
constexpr size_t kBeyond = size_t{1} << (kSanitized ? 61 : 31);

// A wrong value of an argument.
template <class T>
struct Value {
  std::string way;
  T value;
  std::string shown = {};  // how messages may show it, if not by the argument's name
};

// Texts in larger memory: a wrong length reads no other text.
const char* Padded(std::string text) {
  static auto* const kept = new std::vector<std::unique_ptr<std::string>>;
  text.resize(text.size() + 8192);
  kept->push_back(std::make_unique<std::string>(std::move(text)));
  return kept->back()->c_str();
}

const std::vector<Value<const char*>>& WrongTexts() {
  static const auto* const all = [] {
    std::string deep;
    while (deep.size() < 5000) deep += std::string(49, 'd') + "/";
    return new std::vector<Value<const char*>>{
        {"NULL", nullptr},
        {"empty", Padded(""), "''"},
        {"long", Padded(std::string(300, 'a')), std::string(20, 'a')},
        {"deep", Padded(deep), deep.substr(0, 20)},
        {"zero", Padded(std::string("qz0\0y", 5)), "qz0"},
        {"odd", Padded("\x01\n\xff\xfe'%s"), "%s"},
    };
  }();
  return *all;
}

template <class T>
std::vector<Value<T>> Wrong() {
  if constexpr (std::is_same_v<T, const char*>) {
    return WrongTexts();
  } else if constexpr (std::is_same_v<T, const char* const*>) {
    static auto* const arrays = new std::vector<std::unique_ptr<std::array<const char*, 2>>>;
    std::vector<Value<T>> all = {{"NULL", nullptr}};
    for (const auto& text : WrongTexts()) {
      arrays->push_back(std::make_unique<std::array<const char*, 2>>(
          std::array<const char*, 2>{text.value, text.value}));
      all.push_back({"of " + text.way, arrays->back()->data(), text.shown});
    }
    return all;
  } else if constexpr (std::is_same_v<T, const size_t*>) {
    static const std::array<size_t, 3> kWrong = {kBeyond, size_t{1} << 61, SIZE_MAX};
    return {
        {"NULL", nullptr}, {"of 2^31", &kWrong[0]}, {"of 2^61", &kWrong[1]}, {"of -1", &kWrong[2]}};
  } else if constexpr (std::is_same_v<T, const folio_watch*> || std::is_same_v<T, folio_step*> ||
                       std::is_same_v<T, folio_tensor*>) {
    static std::remove_const_t<std::remove_pointer_t<T>> unsized{};
    unsized.size = 0;
    return {{"NULL", nullptr}, {"of no size", &unsized}};
  } else if constexpr (std::is_pointer_v<T>) {
    return {{"NULL", nullptr}};
  } else {
    std::vector<Value<T>> all = {{"0", 0, "0"}, {"1", 1, "1"}};
    if constexpr (std::is_signed_v<T>) {
      all.push_back({"-1", -1, "-1"});
    } else {
      all.push_back({"2^64-1", static_cast<T>(-1), "18446744073709551615"});
    }
    if constexpr (sizeof(T) == 8) {
      all.push_back({"2^31", static_cast<T>(kBeyond), std::to_string(kBeyond)});
      all.push_back({"2^61", T{1} << 61, "2305843009213693952"});
    } else {
      all.push_back({"2^31-1", std::numeric_limits<T>::max(), "2147483647"});
      all.push_back({"-2^31", std::numeric_limits<T>::min(), "-2147483648"});
    }
    return all;
  }
}

// Ways of being wrong that are an error for every argument, unless the table allows them.
bool IsAlwaysWrong(const std::string& way) {
  static const std::set<std::string> kWays = {
      "NULL",    "empty",   "long",    "deep",  "of NULL", "of empty", "of long",
      "of deep", "of 2^31", "of 2^61", "of -1", "2^61",    "2^64-1",   "of no size"};
  return kWays.contains(way);
}

// The names of the arguments of each function that the header declares.
std::map<std::string, std::vector<std::string>> DeclaredFunctions() {
  std::string header = ReadFile(SourceDir() / "src/folio/c/folio.h");
  header = std::regex_replace(header, std::regex(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)"), "");
  header = std::regex_replace(header, std::regex(R"(\s+)"), " ");
  std::map<std::string, std::vector<std::string>> functions;
  const std::regex declaration(R"(FOLIO_API [^;(]*?(folio_\w+)\(([^;]*)\);)");
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) {
    // A callback's name is in its own parentheses, and its parameters are no arguments.
    const std::string arguments =
        std::regex_replace((*at)[2].str(), std::regex(R"(\(\*(\w+)\)\([^)]*\))"), "$1");
    std::vector<std::string>& names = functions[(*at)[1]];
    std::istringstream list(arguments);
    for (std::string one; std::getline(list, one, ',');) {
      if (one != "void") names.push_back(one.substr(one.find_last_of(" *") + 1));
    }
  }
  return functions;
}

// A function of the header with its arguments.
struct Function {
  std::string name;
  std::function<void(const std::vector<std::string>& names)> call;  // with names of its arguments
};

class CTable : public CApi {
 protected:
  // A function with right arguments, made anew for each call; if it returns a status the last one
  // is a folio_error**. `fine` lists values that are allowed, "watch NULL", and arguments that may
  // be missing.
  template <class R, class... A>
  Function Of(const char* name, R (*function)(A...),
              std::type_identity_t<std::function<std::tuple<A...>()>> right,
              std::set<std::string> fine = {}) {
    return {name, [this, function, right, fine](const std::vector<std::string>& names) {
              ASSERT_EQ(names.size(), sizeof...(A));
              Call(function, right(), {.fine = true});
              [&]<size_t... I>(std::index_sequence<I...>) {
                (CallWrong<I>(function, right, names, fine), ...);
              }
              (std::index_sequence_for<A...>());
            }};
  }

  // A wrong argument, and the expected result of the call.
  struct Mistake {
    bool fine = false;                    // the call succeeds
    bool wrong = false;                   // it does not
    std::vector<std::string> names = {};  // one of these is in the message
    bool no_error = false;                // error is NULL
  };

  // The calls in which argument i is wrong.
  template <size_t i, class R, class... A>
  void CallWrong(R (*function)(A...), const std::function<std::tuple<A...>()>& right,
                 const std::vector<std::string>& names, const std::set<std::string>& fine) {
    using T = std::tuple_element_t<i, std::tuple<A...>>;
    for (const Value<T>& wrong : Wrong<T>()) {
      const std::string way = names[i] + " " + wrong.way;
      SCOPED_TRACE(way);
      Mistake mistake{.names = {names[i]}};
      if (fine.contains(way + "?")) mistake.names = {""};
      mistake.no_error = std::is_same_v<T, folio_error**>;
      mistake.fine = mistake.no_error || fine.contains(way);
      mistake.wrong = !mistake.fine && !fine.contains(way + "?") && IsAlwaysWrong(wrong.way);
      if (!wrong.shown.empty()) mistake.names.push_back(wrong.shown);
      // Arrays come before their counts, which are named after them.
      if constexpr (std::is_same_v<T, size_t> || std::is_same_v<T, const size_t*>) {
        for (size_t k = 1; k <= std::min<size_t>(i, 2); ++k) mistake.names.push_back(names[i - k]);
      }
      std::tuple<A...> arguments;
      if (sizeof...(A) > 1) arguments = right();  // else nobody would free it
      std::get<i>(arguments) = wrong.value;
      Call(function, std::move(arguments), mistake);
    }
  }

  template <class R, class... A>
  void Call(R (*function)(A...), std::tuple<A...> arguments, const Mistake& mistake) {
    if constexpr (std::is_same_v<R, folio_status> && sizeof...(A) > 1) {
      folio_error* made = nullptr;
      std::get<sizeof...(A) - 1>(arguments) = mistake.no_error ? nullptr : &made;
      const folio_status status = std::apply(function, arguments);
      const Handle<folio_error> error(made);
      const std::string told = std::string(folio_error_message(made)) + ": " +
                               folio_error_cause(made) + ": " + folio_error_help(made);
      EXPECT_NE(status, FOLIO_INTERNAL) << told;
      if (mistake.fine) {
        EXPECT_EQ(status, FOLIO_OK) << told;
      } else if (mistake.wrong) {
        EXPECT_NE(status, FOLIO_OK);
      }
      if (status != FOLIO_OK) {
        EXPECT_TRUE(std::ranges::any_of(mistake.names, [&](const std::string& name) {
          return told.find(name) != told.npos;
        })) << told;
      }
    } else if constexpr (std::is_pointer_v<R> && !std::is_const_v<std::remove_pointer_t<R>>) {
      const Handle<std::remove_pointer_t<R>> made(std::apply(function, arguments));
    } else {
      std::apply(function, arguments);
    }
    FreeResults();
  }

  // Frees the results of the last call.
  void FreeResults() {
    folio_tokenizer_free(std::exchange(tokenizer_out_, nullptr));
    folio_model_free(std::exchange(model_out_, nullptr));
    folio_batch_free(std::exchange(batch_out_, nullptr));
    folio_train_free(std::exchange(train_out_, nullptr));
    folio_trainer_free(std::exchange(trainer_out_, nullptr));
  }

  void SetUp() override {
    CApi::SetUp();
    const auto fp32 = Options("open", {{"dtype", "fp32"}});
    fp32_ = Open(At("run"), fp32.get());
    ids_ = Prompt("line");
    PutFile("template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    const auto chat = Options("open", {{"chat_template", At("template").string()}});
    chat_ = Open(At("run"), chat.get());
    texts_ = Padded(At("text.txt").string());
    run_ = Padded(At("run").string());
    saved_ = At("saved").string();
    Do([&](folio_error** e) {
      return folio_trainer_new(train_options_.get(), nullptr, &trainer_out_, e);
    });
    trainer_.reset(std::exchange(trainer_out_, nullptr));
    Do([&](folio_error** e) {
      return folio_trainer_save(trainer_.get(), saved_.c_str(), nullptr, e);
    });
    Do([&](folio_error** e) { return folio_batch_new(model_.get(), 2, &batch_out_, e); });
    batch_.reset(std::exchange(batch_out_, nullptr));
  }

  // A name where nothing exists, a new one each time.
  const char* Fresh() { return Padded(At("made" + std::to_string(made_++)).string()); }
  const folio_tokenizer* tokenizer() { return folio_model_tokenizer(model_.get()); }

  std::vector<Function> Basics();
  std::vector<Function> Tokenizers();
  std::vector<Function> Models();
  std::vector<Function> Training();

  Handle<folio_model> fp32_, chat_;
  Handle<folio_trainer> trainer_;
  Handle<folio_batch> batch_;
  Handle<folio_train> train_;
  Handle<folio_buffer> buffer_ = NewBuffer(), other_ = NewBuffer();
  Handle<folio_files> files_{folio_files_new()};
  Handle<folio_cancel> cancel_{folio_cancel_new()};
  Handle<folio_options> generate_ = Options("generate", {{"max_tokens", "2"}}),
                        tokenizer_ = Options("tokenizer", {{"vocab_size", "260"}}),
                        prepare_ = Options("prepare", {{"tokenizer", "char"}}),
                        train_options_ = Options("train", {{"preset", "debug"},
                                                           {"model.vocab_size", "25"},
                                                           {"train.batch_size", "1"},
                                                           {"train.context", "4"},
                                                           {"train.max_steps", "1"}});
  folio_watch watch_ = Sized<folio_watch>();
  folio_tensor tensor_ = Sized<folio_tensor>();
  folio_step step_ = Sized<folio_step>();
  Ids ids_, batch_ids_ = {1, 2, 3, 4};
  std::string saved_;
  const char* texts_ = nullptr;  // the path of one
  const char* run_ = nullptr;
  const char* json_ = Padded(R"({"messages": [{"role": "user", "content": "line"}]})");
  const char* text_ = Padded("line");
  const char* role_ = "user";
  int made_ = 0;
  int32_t number_ = 0;
  uint64_t id_ = 0;
  double loss_ = 0;
  const char* bytes_ = nullptr;
  size_t length_ = 4, id_length_ = 0;

  folio_tokenizer* tokenizer_out_ = nullptr;
  folio_model* model_out_ = nullptr;
  folio_batch* batch_out_ = nullptr;
  folio_train* train_out_ = nullptr;
  folio_trainer* trainer_out_ = nullptr;
};

// Reads a file of five bytes.
int ReadFive(void*, uint64_t offset, void* bytes, size_t count) {
  if (offset + count > 5) return 1;
  std::memset(bytes, 0, count);
  return 0;
}
void Ended(void*, int32_t) {}
int Shown(void*, const char*, size_t) {
  return 0;
}

// A name of a function, and the function.
#define FN(name) #name, name

std::vector<Function> CTable::Basics() {
  return {
      Of(FN(folio_status_name), [] { return std::make_tuple(FOLIO_OK); }),
      Of(FN(folio_error_message), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_error_cause), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_error_help), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_error_free), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_version), [] { return std::make_tuple(); }),
      Of(FN(folio_set_log), [] { return std::make_tuple(FOLIO_LOG_ERROR, nullptr, nullptr); }),
      Of(FN(folio_set_fatal), [] { return std::make_tuple(nullptr, nullptr); }),
      Of(FN(folio_set_threads), [] { return std::make_tuple(2, nullptr); }),
      Of(FN(folio_buffer_new), [] { return std::make_tuple(); }),
      Of(FN(folio_buffer_data), [this] { return std::make_tuple(buffer_.get()); }),
      Of(FN(folio_buffer_size), [this] { return std::make_tuple(buffer_.get()); }),
      Of(FN(folio_buffer_free), [] { return std::make_tuple(folio_buffer_new()); }),
      Of(FN(folio_options_new), [] { return std::make_tuple("open"); }),
      Of(FN(folio_options_set),
         [this] { return std::make_tuple(generate_.get(), "top_k", "3", nullptr); }),
      Of(FN(folio_options_describe),
         [this] { return std::make_tuple("open", buffer_.get(), nullptr); }),
      Of(FN(folio_options_free), [] { return std::make_tuple(folio_options_new("open")); }),
      Of(FN(folio_cancel_new), [] { return std::make_tuple(); }),
      Of(FN(folio_cancel_request), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_cancel_reset), [this] { return std::make_tuple(cancel_.get()); }),
      Of(FN(folio_cancel_free), [] { return std::make_tuple(folio_cancel_new()); }),
      Of(FN(folio_files_new), [] { return std::make_tuple(); }),
      Of(FN(folio_files_add),
         [this] {
           files_.reset(folio_files_new());
           return std::make_tuple(files_.get(), "a", "bytes", 5, nullptr);
         }),
      Of(FN(folio_files_read),
         [this] {
           files_.reset(folio_files_new());
           return std::make_tuple(files_.get(), "a", 5, ReadFive, nullptr, nullptr);
         },
         {"user NULL"}),
      Of(FN(folio_files_path), [this] { return std::make_tuple(files_.get()); }),
      Of(FN(folio_files_free), [] { return std::make_tuple(folio_files_new()); }),
  };
}

std::vector<Function> CTable::Tokenizers() {
  return {
      Of(FN(folio_tokenizer_open),
         [this] { return std::make_tuple("bytes", &tokenizer_out_, nullptr); }),
      Of(FN(folio_tokenizer_encode),
         [this] {
           return std::make_tuple(tokenizer(), text_, 4, FOLIO_SPECIAL_ORDINARY, &watch_,
                                  buffer_.get(), nullptr);
         },
         {"watch NULL", "text long"}),
      Of(FN(folio_tokenizer_encode_batch),
         [this] {
           return std::make_tuple(tokenizer(), &text_, &length_, 1, &watch_, buffer_.get(),
                                  other_.get(), nullptr);
         },
         {"watch NULL", "texts of long"}),
      Of(FN(folio_tokenizer_decode),
         [this] {
           return std::make_tuple(tokenizer(), ids_.data(), ids_.size(), buffer_.get(), nullptr);
         }),
      Of(FN(folio_tokenizer_token),
         [this] { return std::make_tuple(tokenizer(), 3, &bytes_, &id_length_, nullptr); }),
      Of(FN(folio_tokenizer_info),
         [this] { return std::make_tuple(tokenizer(), buffer_.get(), nullptr); }),
      Of(FN(folio_tokenizer_save),
         [this] {
           const char* const directory = Fresh();
           std::filesystem::create_directory(directory);
           return std::make_tuple(tokenizer(), directory, nullptr);
         }),
      Of(FN(folio_tokenizer_free), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_tokenizer_train),
         [this] {
           return std::make_tuple(&texts_, 1, Fresh(), tokenizer_.get(), &watch_, nullptr);
         },
         {"watch NULL", "options NULL"}),
  };
}

std::vector<Function> CTable::Models() {
  const auto looked = [this](auto... rest) {
    return std::make_tuple(fp32_.get(), ids_.data(), ids_.size(), rest..., nullptr);
  };
  return {
      Of(FN(folio_model_open),
         [this] { return std::make_tuple(run_, nullptr, &watch_, &model_out_, nullptr); },
         {"options NULL", "watch NULL"}),
      Of(FN(folio_model_info),
         [this] { return std::make_tuple(model_.get(), buffer_.get(), nullptr); }),
      Of(FN(folio_model_vocab_size), [this] { return std::make_tuple(model_.get()); }),
      Of(FN(folio_model_width), [this] { return std::make_tuple(model_.get()); }),
      Of(FN(folio_model_context), [this] { return std::make_tuple(model_.get()); }),
      Of(FN(folio_model_tokenizer), [this] { return std::make_tuple(model_.get()); }),
      Of(FN(folio_model_prompt),
         [this] { return std::make_tuple(model_.get(), text_, 4, buffer_.get(), nullptr); },
         {"text long"}),
      Of(FN(folio_model_chat),
         [this] { return std::make_tuple(chat_.get(), &role_, &text_, 1, buffer_.get(), nullptr); },
         {"texts of empty", "texts of long"}),
      Of(FN(folio_model_chat_json),
         [this] {
           return std::make_tuple(chat_.get(), json_, std::strlen(json_), buffer_.get(), nullptr);
         }),
      Of(FN(folio_model_tensor),
         [this] {
           return std::make_tuple(model_.get(), "transformer.wte.weight", &tensor_, nullptr);
         }),
      Of(FN(folio_model_save),
         [this] { return std::make_tuple(fp32_.get(), Fresh(), "hf", "fp32", nullptr); }),
      Of(FN(folio_model_free), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_generate),
         [this] {
           return std::make_tuple(model_.get(), ids_.data(), ids_.size(), generate_.get(), Shown,
                                  nullptr, &watch_, buffer_.get(), &number_, nullptr);
         },
         {"options NULL", "text NULL", "user NULL", "watch NULL", "whole NULL", "end NULL"}),
      Of(FN(folio_batch_new),
         [this] { return std::make_tuple(model_.get(), 1, &batch_out_, nullptr); }),
      Of(FN(folio_batch_add),
         [this] {
           return std::make_tuple(batch_.get(), ids_.data(), ids_.size(), generate_.get(), Shown,
                                  Ended, nullptr, &id_, nullptr);
         },
         {"options NULL", "text NULL", "ended NULL", "user NULL", "id NULL"}),
      Of(FN(folio_batch_step), [this] { return std::make_tuple(batch_.get(), &number_, nullptr); }),
      Of(FN(folio_batch_cancel), [this] { return std::make_tuple(batch_.get(), 0, nullptr); },
         {"id 2^61", "id 2^64-1"}),
      Of(FN(folio_batch_free), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_logits), [this, looked] { return looked(0, &watch_, buffer_.get()); },
         {"watch NULL"}),
      Of(FN(folio_score), [this, looked] { return looked(1, &watch_, buffer_.get()); },
         {"watch NULL"}),
      Of(FN(folio_embed), [this, looked] { return looked("mean", &watch_, buffer_.get()); },
         {"watch NULL"}),
      Of(FN(folio_attention), [this, looked] { return looked(0, 0, buffer_.get()); }),
      Of(FN(folio_trace), [this, looked] { return looked("mlp", 0, buffer_.get()); }),
  };
}

std::vector<Function> CTable::Training() {
  const auto batch = [this](auto... rest) {
    return std::make_tuple(trainer_.get(), batch_ids_.data(), batch_ids_.data(), batch_ids_.size(),
                           rest..., nullptr);
  };
  return {
      Of(FN(folio_data_prepare),
         [this] { return std::make_tuple(&texts_, 1, Fresh(), prepare_.get(), &watch_, nullptr); },
         {"watch NULL", "options NULL"}),
      Of(FN(folio_train_new),
         [this] {
           return std::make_tuple(&texts_, 1, Fresh(), train_options_.get(), &watch_, &train_out_,
                                  nullptr);
         },
         {"watch NULL", "options NULL?"}),
      Of(FN(folio_train_run),
         [this] {
           train_ = Prepare(At("text.txt"), Fresh(), train_options_.get(), nullptr);
           return std::make_tuple(train_.get(), &watch_, buffer_.get(), nullptr);
         },
         {"watch NULL", "json NULL"}),
      Of(FN(folio_train_free), [] { return std::make_tuple(nullptr); }),
      Of(FN(folio_trainer_new),
         [this] { return std::make_tuple(train_options_.get(), nullptr, &trainer_out_, nullptr); },
         {"from NULL"}),
      Of(FN(folio_trainer_info),
         [this] { return std::make_tuple(trainer_.get(), buffer_.get(), nullptr); }),
      Of(FN(folio_trainer_step), [this, batch] { return batch(cancel_.get(), &step_); },
         {"cancel NULL", "out NULL"}),
      Of(FN(folio_trainer_evaluate), [this, batch] { return batch(cancel_.get(), &loss_); },
         {"cancel NULL"}),
      Of(FN(folio_trainer_tensor),
         [this] {
           return std::make_tuple(trainer_.get(), "transformer.wte.weight", 0, &tensor_, nullptr);
         }),
      Of(FN(folio_trainer_save),
         [this] { return std::make_tuple(trainer_.get(), Fresh(), nullptr, nullptr); },
         {"tokenizer NULL"}),
      Of(FN(folio_trainer_resume),
         [this] { return std::make_tuple(trainer_.get(), saved_.c_str(), nullptr); }),
      Of(FN(folio_trainer_model),
         [this] { return std::make_tuple(trainer_.get(), nullptr, &model_out_, nullptr); },
         {"tokenizer NULL"}),
      Of(FN(folio_trainer_free), [] { return std::make_tuple(nullptr); }),
  };
}

#undef FN

TEST_F(CTable, EveryArgumentOfEveryFunctionIsAnsweredOrRefusedByName) {
  const auto declared = DeclaredFunctions();
  EXPECT_GT(declared.size(), 50u);
  std::set<std::string> called;
  for (const auto& part : {Basics(), Tokenizers(), Models(), Training()}) {
    for (const Function& function : part) {
      SCOPED_TRACE(function.name);
      called.insert(function.name);
      const auto found = declared.find(function.name);
      ASSERT_NE(found, declared.end()) << "the header has no such function";
      function.call(found->second);
    }
  }
  for (const auto& [name, arguments] : declared) {
    EXPECT_TRUE(called.contains(name)) << name << " is not in the table";
  }
}

}  // namespace
}  // namespace folio
