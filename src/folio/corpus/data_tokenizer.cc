#include "folio/corpus/data_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"
#include "folio/text/chat_template.h"
#include "folio/text/published_encodings.h"
#include "folio/text/tokenizer_file.h"

namespace folio {

std::vector<Field> DataConfig::Fields() {
  std::vector<std::string> known = PublishedEncodingNames();
  known.insert(known.begin(), {"char", "bytes"});
  return {
      Field{"tokenizer", &tokenizer, "the tokenizer: a name, a directory, or a file"}
          .Suggestions(std::move(known))
          .WithFlag("--tokenizer"),
      Field{"add_tokens", &add_tokens,
            "special tokens to add to the tokenizer, separated by commas; they are recognised in "
            "texts, and in conversations where the chat template writes them"}
          .WithFlag("--add-tokens"),
      Field{"chat_template", &chat_template,
            fmt::format("chat template for conversations, instead of the tokenizer's own: {}, or a "
                        "file with a template in Jinja",
                        Join(BuiltinChatTemplates(), ", "))}
          .WithFlag("--chat-template"),
      Field{"val_fraction", &val_fraction, "fraction of the text that is held out for evaluation",
            0, 0.9}
          .WithFlag("--val-fraction"),
      Field{"val_split", &val_split,
            "which part is held out: documents or blocks spread over the text, or its end, as in "
            "nanoGPT"}
          .Choices({"spread", "tail"})
          .WithFlag("--val-split"),
      Field{"field", &field,
            "of JSON lines and tables: the member or column that holds the text; \"text\" if none "
            "is named and they are no conversations; --text-column is the same"}
          .WithFlag("--field,--text-column"),
      Field{"raw", &raw,
            "with --tokenizer bytes: read all files as bytes, also those that are not text"}
          .WithFlag("--raw"),
  };
}

std::unique_ptr<Tokenizer> LoadDataTokenizer(const Dataset& data) {
  if (data.info().tokenizer_kind.empty()) return nullptr;
  std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(data.TokenizerPlace());
  const std::string& hash = data.info().tokenizer_hash;
  if (hash.empty() || tokenizer->hash() == hash) return tokenizer;
  throw InputError(
      fmt::format("{}: {} is not the tokenizer of the data", data.dir(), kTokenizerFile),
      fmt::format("{} has hash {}, this tokenizer has {}", kDatasetFile, data.info().tokenizer_hash,
                  tokenizer->hash()),
      "restore the tokenizer, or prepare the data again");
}

void RequireSameTokenizer(const std::filesystem::path& checkpoint, const Dataset& data,
                          const Tokenizer& tokenizer) {
  if (!std::filesystem::exists(checkpoint / kTokenizerFile)) return;
  const std::string theirs = LoadTokenizer(checkpoint.string())->hash();
  if (theirs == tokenizer.hash()) return;
  throw InputError(
      fmt::format("{}: the data was prepared with a different tokenizer than the model's",
                  data.dir()),
      fmt::format("the tokenizer of {} has hash {}, that of the data {}", checkpoint.string(),
                  theirs, tokenizer.hash()),
      fmt::format("prepare the text again with --tokenizer {}", checkpoint.string()));
}

}  // namespace folio
