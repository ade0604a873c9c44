#include "folio/infer/opened_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "folio/backend/decorated_backends.h"
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
        "the tokenizer.json of the model is missing",
        (tokenizer_help.empty() ? "add the model's tokenizer" : tokenizer_help) + or_else);
  }
  return *tokenizer;
}

std::optional<ChatEncoder> OpenedModel::FindChat() const {
  if (chat || tokenizer == nullptr) return chat;
  const std::optional<ChatFormat> format = FindChatFormat(*tokenizer);
  return format ? std::optional(ChatEncoder(*format)) : std::nullopt;
}

std::string OpenedModel::WhyNoChat() const {
  if (!chat_help.empty()) return chat_help;
  return "it has no chat template, and its tokenizer has no <|user|>, <|assistant|>, <|system|> "
         "and <|end|>";
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
    model.chat_help = fmt::format("its chat template is not supported: {}{}{}", error.what(),
                                  error.cause().empty() ? "" : ": ", error.cause());
  }
}

// Throws a kInput Error for variables that nobody looks at.
void SetTemplateVariables(OpenedModel& model, const Json& variables) {
  if (variables.empty()) return;
  if (std::optional<ChatEncoder> chat = model.FindChat()) {
    chat->SetVariables(variables);
    model.chat = std::move(chat);
    return;
  }
  throw InputError(fmt::format("{}: there is no chat template with variables", model.path.string()),
                   model.WhyNoChat(), "remove them, or give a template");
}

constexpr std::string_view kAsStored = "auto";
constexpr Dtype kMatrixDtypes[] = {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0};

// A tokenizer that came with the model may have more tokens (FoundModel).
void RequireFit(const OpenedModel& model) {
  const int64_t V = model.weights->config().vocab_size, tokens = model.tokenizer->known_tokens();
  if (tokens <= V) return;
  throw InputError(fmt::format("{}: the tokenizer does not match the model", model.path.string()),
                   fmt::format("the tokenizer has {} tokens, the model {}", tokens, V));
}

// Nothing else than the model's own, if it has one, would make sense of its tokens.
void TakeTokenizer(OpenedModel& model, std::unique_ptr<Tokenizer> tokenizer) {
  if (model.tokenizer != nullptr && model.tokenizer->hash() != tokenizer->hash()) {
    throw UsageError(fmt::format("{}: the model has a different tokenizer", model.path.string()),
                     fmt::format("the model's tokenizer has hash {}, the given one {}",
                                 model.tokenizer->hash(), tokenizer->hash()),
                     "remove --tokenizer");
  }
  if (model.tokenizer != nullptr) tokenizer->set_known_tokens(model.tokenizer->known_tokens());
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
  return fmt::format("{}{}weights of type {} are converted to {} for computation", model.note,
                     model.note.empty() ? "" : "; ", fmt::join(types, ", "),
                     DtypeName(Dtype::kQ8_0));
}

}  // namespace

MatrixDtype MatrixDtypeNamed(std::string_view name) {
  if (name == kAsStored) return {.as_stored = true};
  const auto* const found = std::ranges::find(kMatrixDtypes, name, DtypeSetting);
  if (found != std::end(kMatrixDtypes)) return {.dtype = *found};
  throw UsageError(fmt::format("unknown weight dtype '{}'", name),
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
  OpenedModel model{.path = found.path, .backend = MakeBackend(options.backend)};
  model.weights =
      MapWeights(found.model, options.matrices, options.progress, model.backend->memory());
  model.note = NoteOf(found.model, *model.weights, options.matrices);
  model.tokenizer = std::move(found.tokenizer);
  model.tokenizer_help = std::move(found.tokenizer_help);
  model.sampling = std::move(found.sampling);
  if (!options.tokenizer.empty()) TakeTokenizer(model, OpenTokenizer(options.tokenizer));
  TakeTemplate(model, options.chat_template);
  SetTemplateVariables(model, options.template_variables);
  if (options.before_operation) {
    auto watched = std::make_unique<WatchedBackend>(std::move(model.backend));
    watched->Watch(options.before_operation);
    model.backend = std::move(watched);
  }
  return model;
}

}  // namespace folio
