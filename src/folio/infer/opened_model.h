#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/formats/suggested_sampling.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model_files/stored_model.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A model that is ready to run.
struct OpenedModel {
  std::filesystem::path path = {};  // the file or directory that it was read from
  std::unique_ptr<Backend> backend = {};
  std::unique_ptr<GptWeights> weights = {};         // only to be read, in the backend's memory
  std::shared_ptr<const Tokenizer> tokenizer = {};  // null where it came without one
  std::string tokenizer_help = {};                  // then: how to get it, where more is known
  std::string note = {};  // parts of the file that are ignored or kept as another type; "" for none
  std::optional<ChatEncoder> chat = {};  // by a template; FindChat also finds tokens of roles
  std::string chat_help = {};       // the reason why there is none although there is a template
  SuggestedSampling sampling = {};  // the source of DefaultSampling

  // Throws a kInput Error if there is none; `or_else` is added to its help.
  const Tokenizer& RequireTokenizer(const std::string& or_else = "") const;
  // The encoder of conversations for the model; nothing if it was trained on none.
  std::optional<ChatEncoder> FindChat() const;
  // The reason why FindChat finds nothing, for people.
  std::string WhyNoChat() const;
};

struct OpenOptions {
  std::string backend = "cpu";
  std::string tokenizer = {};  // (text/encodings.h) for a model that came without its own
  std::string adapter = {};    // the directory of one to add to the weights, or ""
  Loading loading = Loading::kMap;
  std::string chat_template = {};  // the name or file of one to take instead of the model's own
  Json template_variables = Json::object();  // of the template, for all conversations
  MatrixDtype matrices = {};  // what only decodes takes any, the rest of folio float32
  // Called with the parameters that are read and their number. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Called before each operation of the model's backend, of which a pass over a text has hundreds.
  // May throw to stop.
  std::function<void()> before_operation = {};
};

// "auto" (as stored), "fp32", "bf16", "int8" (Q8_0) and "int4" (Q4_0). Throws a kUsage Error for
// any other name.
MatrixDtype MatrixDtypeNamed(std::string_view name);
// Returns the names that MatrixDtypeNamed takes.
std::vector<std::string> MatrixDtypeNames();
// The name of the dtype that the matrices of a model are kept as, or "mixed".
std::string_view MatrixDtypeOf(const GptWeights& weights);

// Opens what `path` names, in any format (formats/model_formats.h). Throws a kInput Error where
// there is none, or where model and tokenizer do not fit.
OpenedModel OpenModel(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace folio
