#include "folio/infer/opened_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/tensor/dtype.h"
#include "folio/text/chat.h"
#include "folio/text/chat_template.h"
#include "folio/text/encodings.h"

namespace folio {

const Tokenizer& OpenedModel::RequireTokenizer(const std::string& or_else) const {
  if (tokenizer == nullptr) {
    throw InputError(
        fmt::format("{}: no tokenizer", path.string()),
        "text becomes tokens by the tokenizer.json that lies beside a model",
        (tokenizer_help.empty() ? "put the model's tokenizer there" : tokenizer_help) + or_else);
  }
  return *tokenizer;
}

std::optional<ChatEncoder> OpenedModel::FindChat() const {
  if (chat || tokenizer == nullptr) return chat;
  const std::optional<ChatFormat> format = FindChatFormat(*tokenizer);
  return format ? std::optional(ChatEncoder(*format)) : std::nullopt;
}

namespace {

// The template that somebody named, or the model's own. Only conversations want it: a model whose
// own is not known to folio still continues texts.
void TakeTemplate(OpenedModel& model, const std::string& named) {
  if (model.tokenizer == nullptr) return;
  if (!named.empty()) {
    model.chat.emplace(*model.tokenizer, OpenChatTemplate(named), model.tokenizer->chat_source());
    return;
  }
  try {
    model.chat = FindChatEncoder(*model.tokenizer);
  } catch (const Error& error) {
    model.chat_help = error.what();
  }
}

constexpr std::string_view kAsStored = "auto";
constexpr Dtype kMatrixDtypes[] = {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0};

void RequireFit(const OpenedModel& model) {
  const int64_t V = model.weights->config().vocab_size;
  if (model.tokenizer->vocab_size() <= V) return;
  throw InputError(
      fmt::format("{}: tokenizer and model do not fit", model.path.string()),
      fmt::format("the tokenizer has {} tokens, the model {}", model.tokenizer->vocab_size(), V));
}

// Nothing else than the model's own, if it has one, would make sense of its tokens.
void TakeTokenizer(OpenedModel& model, std::unique_ptr<Tokenizer> tokenizer) {
  if (model.tokenizer != nullptr && model.tokenizer->hash() != tokenizer->hash()) {
    throw UsageError(fmt::format("{}: the model has another tokenizer", model.path.string()),
                     fmt::format("its own has hash {}, the one given {}", model.tokenizer->hash(),
                                 tokenizer->hash()),
                     "leave out --tokenizer");
  }
  model.tokenizer = std::move(tokenizer);
  RequireFit(model);
}

// Says what of the file is left out, and which types of it are kept as another although all were to
// be kept as they are.
std::string NoteOf(const StoredModel& model, const GptWeights& weights, MatrixDtype matrices) {
  std::set<std::string_view> types;
  for (size_t i = 0; i < model.params.size() && matrices.as_stored; ++i) {
    const Dtype stored = model.params[i].from.dtype, kept = weights.tensors()[i].dtype();
    if (IsBlocked(kept) && kept != stored) types.insert(DtypeName(stored));
  }
  if (types.empty()) return model.note;
  return fmt::format("{}{}weights of the type {} are kept as {} while they are multiplied",
                     model.note, model.note.empty() ? "" : "; ", fmt::join(types, ", "),
                     DtypeName(Dtype::kQ8_0));
}

}  // namespace

MatrixDtype MatrixDtypeNamed(std::string_view name) {
  if (name == kAsStored) return {.as_stored = true};
  const auto* const found = std::ranges::find(kMatrixDtypes, name, DtypeSetting);
  if (found != std::end(kMatrixDtypes)) return {.dtype = *found};
  throw UsageError(fmt::format("unknown dtype '{}' of weights", name),
                   fmt::format("expected one of {}", fmt::join(MatrixDtypeNames(), ", ")));
}

std::vector<std::string> MatrixDtypeNames() {
  std::vector<std::string> names = {std::string(kAsStored)};
  for (const Dtype dtype : kMatrixDtypes) names.emplace_back(DtypeSetting(dtype));
  return names;
}

std::string_view MatrixDtypeOf(const GptWeights& weights) {
  Dtype kept = Dtype::kF32;
  for (const Tensor& tensor : weights.tensors()) {
    if (kept == Dtype::kF32) kept = tensor.dtype();
    if (tensor.dtype() != Dtype::kF32 && tensor.dtype() != kept) return "mixed";
  }
  const std::string_view setting = DtypeSetting(kept);
  return setting.empty() ? DtypeName(kept) : setting;
}

OpenedModel OpenModel(const std::filesystem::path& path, const OpenOptions& options) {
  FoundModel found = FindModel(path, options.loading, options.adapter);
  OpenedModel model{.path = found.path,
                    .weights = MapWeights(found.model, options.matrices, options.progress)};
  model.note = NoteOf(found.model, *model.weights, options.matrices);
  model.tokenizer = std::move(found.tokenizer);
  model.tokenizer_help = std::move(found.tokenizer_help);
  model.sampling = std::move(found.sampling);
  if (model.tokenizer != nullptr) RequireFit(model);
  if (!options.tokenizer.empty()) TakeTokenizer(model, OpenTokenizer(options.tokenizer));
  TakeTemplate(model, options.chat_template);
  model.backend = MakeBackend(options.backend);
  return model;
}

}  // namespace folio
