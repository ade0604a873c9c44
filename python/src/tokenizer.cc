#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core.h"
#include "folio/base/error.h"
#include "folio/c/handles.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/published_encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/tokenizer_json.h"
#include "folio/text/vocab_files.h"

namespace folio::python {
namespace {

// Bytes of text that take less than a moment: nobody stops it.
constexpr size_t kMoment = size_t{4} << 20;

class PyTokenizer {
 public:
  explicit PyTokenizer(std::shared_ptr<const folio::Tokenizer> tokenizer)
      : handle_{std::move(tokenizer)},
        finder_(handle_.impl->special_tokens(), SpecialRule::Raise()) {
    const auto* bpe = dynamic_cast<const BpeTokenizer*>(handle_.impl.get());
    plain_ = bpe == nullptr || bpe->plain();
    for (int32_t id = 0; id < handle_.impl->vocab_size() && !has_unused_; ++id) {
      has_unused_ = handle_.impl->TokenBytes(id).empty();
    }
  }

  // The ids of a text with the special tokens in `allowed`, or, without a value, all of them. With
  // `raise` others are an error.
  Buffer Encode(nb::handle text, const std::optional<std::vector<std::string>>& allowed,
                bool raise) const {
    const std::string_view bytes = Utf8(text);
    Buffer ids = NewBuffer();
    if (allowed && !allowed->empty()) {
      const nb::gil_scoped_release unlocked;
      ids->SetIds(handle_.impl->Encode(bytes, "text", {.allow = *allowed, .disallow_all = raise}));
      return ids;
    }
    int32_t special = !allowed ? FOLIO_SPECIAL_ALLOW
                      : raise  ? FOLIO_SPECIAL_RAISE
                               : FOLIO_SPECIAL_ORDINARY;
    // Where there are none, the text is encoded on all threads.
    if (special != FOLIO_SPECIAL_ORDINARY && plain_ &&
        finder_.NextDisallowed(bytes, 0).token == nullptr) {
      special = FOLIO_SPECIAL_ORDINARY;
    }
    const auto encode = [&](const folio_cancel* cancel, folio_error** error) {
      const folio_watch watch = WatchOf(cancel);
      return folio_tokenizer_encode(&handle_, bytes.data(), bytes.size(), special, &watch,
                                    ids.get(), error);
    };
    if (bytes.size() < kMoment) {
      Compute([&](folio_error** error) { return encode(nullptr, error); });
    } else {
      Errand().Run(encode);
    }
    return ids;
  }

  nb::list EncodeBatch(const nb::list& texts) const {
    std::vector<const char*> begins;
    std::vector<size_t> lengths;
    for (const nb::handle text : texts) {
      const std::string_view bytes = Utf8(text);
      begins.push_back(bytes.data());
      lengths.push_back(bytes.size());
    }
    const Buffer ids = NewBuffer(), offsets = NewBuffer();
    const auto encode = [&](const folio_cancel* cancel, folio_error** error) {
      const folio_watch watch = WatchOf(cancel);
      return folio_tokenizer_encode_batch(&handle_, begins.data(), lengths.data(), begins.size(),
                                          &watch, ids.get(), offsets.get(), error);
    };
    if (std::reduce(lengths.begin(), lengths.end()) < kMoment) {
      Compute([&](folio_error** error) { return encode(nullptr, error); });
    } else {
      Errand().Run(encode);
    }
    const auto* all = static_cast<const int32_t*>(folio_buffer_data(ids.get()));
    const auto* ends = static_cast<const int64_t*>(folio_buffer_data(offsets.get()));
    nb::list lists;
    for (size_t i = 0; i < begins.size(); ++i) {
      lists.append(ListOf(all + ends[i], static_cast<size_t>(ends[i + 1] - ends[i])));
    }
    return lists;
  }

  nb::bytes Decode(nb::handle object) const {
    const std::vector<int32_t> ids = IdsOf(object);
    if (has_unused_) {
      for (const int32_t id : ids) RequireUsed(id);
    }
    const Buffer bytes = NewBuffer();
    Compute([&](folio_error** error) {
      return folio_tokenizer_decode(&handle_, ids.data(), ids.size(), bytes.get(), error);
    });
    return nb::bytes(TextOf(bytes).data(), TextOf(bytes).size());
  }

  nb::bytes Token(int32_t id) const {
    const std::string_view bytes = RequireUsed(id);
    return nb::bytes(bytes.data(), bytes.size());
  }

  // The bytes of each id; None for one that is not used.
  nb::list Tokens() const {
    nb::list tokens;
    for (int32_t id = 0; id < handle_.impl->vocab_size(); ++id) {
      const std::string_view bytes = handle_.impl->TokenBytes(id);
      tokens.append(bytes.empty() ? nb::none() : nb::object(nb::bytes(bytes.data(), bytes.size())));
    }
    return tokens;
  }

  // The pieces of a text that are encoded each by itself, where special tokens are text.
  nb::list Split(nb::handle text) const {
    nb::list pieces;
    ForEachPretoken(*handle_.impl, Utf8(text), SpecialRule::Ordinary(),
                    [&](std::string_view piece, const SpecialToken*) {
                      pieces.append(nb::bytes(piece.data(), piece.size()));
                    });
    return pieces;
  }

  int64_t Count(nb::handle text) const {
    const std::string_view bytes = Utf8(text);
    const nb::gil_scoped_release unlocked;
    return handle_.impl->Count(bytes);
  }

  std::string Info() const {
    const Buffer json = NewBuffer();
    Ask([&](folio_error** error) { return folio_tokenizer_info(&handle_, json.get(), error); });
    return std::string(TextOf(json));
  }

  // The regular expression by which texts are split; "" where there is none.
  std::string_view Pattern() const {
    const auto* bpe = dynamic_cast<const BpeTokenizer*>(handle_.impl.get());
    return bpe == nullptr || !bpe->vocab().byte_tokens.empty()
               ? std::string_view()
               : SplitPatternRegex(bpe->vocab().pattern);
  }

  void Save(const std::string& directory) const {
    Compute([&](folio_error** error) {
      return folio_tokenizer_save(&handle_, directory.c_str(), error);
    });
  }

  std::string FileContents() const { return handle_.impl->FileContents(); }
  const folio_tokenizer* handle() const { return &handle_; }

 private:
  std::string_view RequireUsed(int32_t id) const {
    const std::string_view bytes = handle_.impl->TokenBytes(id);
    if (bytes.empty())
      throw Failure{FOLIO_INPUT, "no token " + std::to_string(id), "the id is not used"};
    return bytes;
  }

  folio_tokenizer handle_;
  SpecialFinder finder_;
  bool plain_ = false, has_unused_ = false;
};

std::shared_ptr<PyTokenizer> Open(const std::string& spec) {
  folio_tokenizer* opened = nullptr;
  Compute([&](folio_error** error) { return folio_tokenizer_open(spec.c_str(), &opened, error); });
  auto tokenizer = std::make_shared<PyTokenizer>(opened->impl);
  folio_tokenizer_free(opened);
  return tokenizer;
}

std::shared_ptr<PyTokenizer> FromContents(const std::string& contents) {
  const nb::gil_scoped_release unlocked;
  return std::make_shared<PyTokenizer>(TokenizerFromJson(contents, "tokenizer.json"));
}

// The validated `ranks` and `specials`.
struct Ranked {
  ByteStrings tokens = {};  // by rank; empty where the rank is not used
  std::vector<SpecialToken> specials = {};
};

Ranked RankedOf(const nb::dict& ranks, const nb::dict& specials) {
  constexpr size_t kLongest = 1024;
  const auto id_of = [](nb::handle id) {
    const long long number = PyLong_AsLongLong(id.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (number < 0 || number >= kMaxVocabIds) {
      throw Failure{FOLIO_USAGE, "a token has the id " + std::to_string(number),
                    "expected 0 to " + std::to_string(kMaxVocabIds - 1)};
    }
    return static_cast<size_t>(number);
  };
  Ranked all;
  std::vector<std::string_view> tokens;
  for (const auto [token, rank] : ranks) {
    char* bytes = nullptr;
    Py_ssize_t length = 0;
    if (PyBytes_AsStringAndSize(token.ptr(), &bytes, &length) != 0) throw nb::python_error();
    const std::string_view text(bytes, static_cast<size_t>(length));
    const size_t id = id_of(rank);
    if (text.empty() || text.size() > kLongest) {
      throw Failure{
          FOLIO_USAGE,
          "the token of rank " + std::to_string(id) + " has " + std::to_string(length) + " bytes",
          "expected 1 to " + std::to_string(kLongest)};
    }
    if (id >= tokens.size()) tokens.resize(id + 1);
    if (!tokens[id].empty())
      throw Failure{FOLIO_USAGE, "two tokens have the rank " + std::to_string(id)};
    tokens[id] = text;
  }
  for (const auto [text, id] : specials) {
    all.specials.push_back({std::string(Utf8(text)), static_cast<int32_t>(id_of(id))});
  }
  std::ranges::stable_sort(all.specials, {}, &SpecialToken::id);
  for (size_t i = 0; i < all.specials.size(); ++i) {
    const SpecialToken& special = all.specials[i];
    const auto id = static_cast<size_t>(special.id);
    if ((i > 0 && all.specials[i - 1].id == special.id) ||
        (id < tokens.size() && !tokens[id].empty())) {
      throw Failure{FOLIO_USAGE, special.text + " has the id " + std::to_string(id) +
                                     ", which another token has"};
    }
  }
  for (const std::string_view token : tokens) all.tokens.Add(token);
  return all;
}

std::shared_ptr<PyTokenizer> FromRanks(const std::string& name, const std::string& regex,
                                       const nb::dict& ranks, const nb::dict& specials) {
  const std::optional<SplitPattern> pattern = FindTiktokenRegex(regex);
  if (!pattern) {
    std::string names;
    for (const SplitPattern known : kSplitPatterns)
      names += " " + std::string(SplitPatternName(known));
    throw Failure{FOLIO_USAGE, "pat_str: a pattern that folio does not have",
                  "it has those of" + names};
  }
  const Ranked all = RankedOf(ranks, specials);
  const nb::gil_scoped_release unlocked;
  return std::make_shared<PyTokenizer>(std::make_unique<BpeTokenizer>(
      VocabOfRanks(all.tokens, {.name = name, .pattern = *pattern, .specials = all.specials},
                   "mergeable_ranks")));
}

}  // namespace

nb::object NewTokenizer(const folio_tokenizer* handle) {
  return nb::cast(std::make_shared<PyTokenizer>(handle->impl));
}

const folio_tokenizer* TokenizerOf(nb::handle tokenizer) {
  return tokenizer.is_none() ? nullptr : nb::cast<const PyTokenizer&>(tokenizer).handle();
}

void BindTokenizer(nb::module_& m) {
  m.def("encoding_names", PublishedEncodingNames);
  nb::class_<PyTokenizer>(m, "Tokenizer")
      .def_static("open", Open, nb::arg("spec"))
      .def_static("from_contents", FromContents, nb::arg("contents"))
      .def_static("from_ranks", FromRanks, nb::arg("name"), nb::arg("pattern"), nb::arg("ranks"),
                  nb::arg("specials"),
                  nb::sig("def from_ranks(name: str, pattern: str, ranks: dict[bytes, int], "
                          "specials: dict[str, int]) -> Tokenizer"))
      .def(
          "encode",
          [](const PyTokenizer& self, const nb::str& text,
             const std::optional<std::vector<std::string>>& allowed, bool raise) {
            const Buffer ids = self.Encode(text, allowed, raise);
            return ListOf(static_cast<const int32_t*>(folio_buffer_data(ids.get())),
                          folio_buffer_size(ids.get()) / sizeof(int32_t));
          },
          nb::arg("text"), nb::arg("allowed").none(), nb::arg("raise_others"),
          nb::sig("def encode(self, text: str, allowed: collections.abc.Sequence[str] | None, "
                  "raise_others: bool) -> list[int]"))
      .def(
          "encode_to_numpy",
          [](const PyTokenizer& self, const nb::str& text,
             const std::optional<std::vector<std::string>>& allowed, bool raise) {
            Buffer ids = self.Encode(text, allowed, raise);
            const size_t count = folio_buffer_size(ids.get()) / sizeof(int32_t);
            return ArrayOf<uint32_t>(std::move(ids), {count});
          },
          nb::arg("text"), nb::arg("allowed").none(), nb::arg("raise_others"))
      .def("encode_batch", &PyTokenizer::EncodeBatch, nb::arg("texts"),
           nb::sig("def encode_batch(self, texts: list[str]) -> list[list[int]]"))
      .def("decode", &PyTokenizer::Decode, nb::arg("ids"),
           nb::sig("def decode(self, ids: collections.abc.Iterable[int]) -> bytes"))
      .def("token", &PyTokenizer::Token, nb::arg("id"))
      .def("tokens", &PyTokenizer::Tokens, nb::sig("def tokens(self) -> list[bytes | None]"))
      .def("split", &PyTokenizer::Split, nb::arg("text"),
           nb::sig("def split(self, text: str) -> list[bytes]"))
      .def("count", &PyTokenizer::Count, nb::arg("text"),
           nb::sig("def count(self, text: str) -> int"))
      .def("info", &PyTokenizer::Info)
      .def("pattern", &PyTokenizer::Pattern)
      .def("save", &PyTokenizer::Save, nb::arg("directory"))
      .def("file_contents", &PyTokenizer::FileContents);
}

}  // namespace folio::python
