#include "folio/corpus/prepare_conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/corpus/json_documents.h"
#include "folio/data/shard_writer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

using Messages = std::vector<ChatMessage>;

// Calls f(messages, where) with each conversation, in order.
template <class F>
void ForConversations(std::span<const TextInput> inputs, F&& f) {
  for (const TextInput& input : inputs) {
    TextStream stream(input.file, {}, input.path);
    ForJsonLines(stream, input.path, [&](std::string_view line, const auto& where) {
      const std::string name = where();
      f(ReadConversation(ParseJson(line, name), name), name);
    });
  }
}

int64_t TextBytes(const Messages& messages) {
  int64_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += std::ssize(message.content);
  return bytes;
}

// The first reading counts conversations and makes the tokenizer that knows their marks.
struct Found {
  int64_t conversations = 0;
  int64_t text_bytes = 0;  // of the messages
  std::unique_ptr<Tokenizer> tokenizer;
};

Found ReadAll(const PrepareOptions& options, std::span<const TextInput> inputs,
              const PrepareHooks& hooks) {
  Found found;
  CharSetBuilder characters;
  const bool collect = options.tokenizer == "char";
  ForConversations(inputs, [&](const Messages& messages, const std::string& where) {
    found.text_bytes += TextBytes(messages);
    ++found.conversations;
    if (hooks.converting) hooks.converting(inputs[0].path, found.text_bytes);
    if (!collect) return;
    characters.BeginText(where);
    for (const ChatMessage& message : messages) characters.Add(message.content);
    characters.EndText();
  });
  const std::unique_ptr<Tokenizer> plain =
      collect ? characters.Build() : OpenTokenizer(options.tokenizer);
  found.tokenizer = WithChatTokens(*plain);
  return found;
}

}  // namespace

DatasetInfo TokensInfo(const PrepareOptions& options, const Tokenizer& tokenizer) {
  DatasetInfo info;
  info.width = WidthForVocab(tokenizer.vocab_size());
  info.format = *FindTokenFormat(options.format);
  info.vocab_size = tokenizer.vocab_size();
  info.tokenizer_kind = tokenizer.kind();
  info.tokenizer_hash = tokenizer.hash();
  info.special = options.special;
  return info;
}

ShardLayout LayoutOf(const char* part, const PrepareOptions& options, const Tokenizer& tokenizer) {
  return {part, WidthForVocab(tokenizer.vocab_size()), *FindTokenFormat(options.format),
          options.shard_tokens};
}

void FinishParts(ShardWriter& train, ShardWriter& val, DatasetInfo& info) {
  info.train_shards = train.Finish();
  info.val_shards = val.Finish();
  for (const TokenShard& shard : info.train_shards) info.train_tokens += shard.tokens;
  for (const TokenShard& shard : info.val_shards) info.val_tokens += shard.tokens;
}

bool AreConversations(std::span<const TextInput> inputs) {
  const auto conversations = [](const TextInput& input) { return input.form.conversations; };
  const auto some = std::ranges::find_if(inputs, conversations);
  const auto text = std::ranges::find_if_not(inputs, conversations);
  if (some == inputs.end() || text == inputs.end()) return some != inputs.end();
  throw InputError("conversations and texts do not go together",
                   fmt::format("{} holds conversations, {} does not", some->path, text->path),
                   "prepare them as two data sets");
}

DatasetInfo PrepareConversations(const PrepareOptions& options, std::span<const TextInput> inputs,
                                 const PrepareHooks& hooks) {
  if (options.special != "ordinary") {
    throw UsageError(fmt::format("--special {} is not for conversations", options.special),
                     "what messages say is ordinary text", "leave --special out");
  }
  const Found found = ReadAll(options, inputs, hooks);
  const Tokenizer& tokenizer = *found.tokenizer;
  const ChatFormat format = FindChatFormat(tokenizer).value();
  const int32_t border = tokenizer.end_of_text().value();
  const int64_t all = found.conversations;
  const int64_t held_out =
      all - static_cast<int64_t>((1 - options.val_fraction) * static_cast<double>(all));
  const auto is_held_out = [&](int64_t i) {
    if (options.val_split == "tail") return i >= all - held_out;
    return (i + 1) * held_out / all > i * held_out / all;  // every so many of them, the last too
  };

  DatasetInfo info = TokensInfo(options, tokenizer);
  info.chat = ChatTokens{.border = border, .answer = format.assistant, .end = format.end};
  info.documents = found.conversations;
  info.text_bytes = found.text_bytes;
  info.val_blocks = options.val_split == "tail" ? std::min<int64_t>(held_out, 1) : held_out;
  for (const TextInput& input : inputs) info.sources.push_back({input.path, input.bytes});

  AtomicDirectory directory(options.out);
  ShardWriter train(directory.path(), LayoutOf("train", options, tokenizer));
  ShardWriter val(directory.path(), LayoutOf("val", options, tokenizer));
  int64_t conversation = 0, done = 0;
  std::vector<int32_t> ids;
  std::vector<std::byte> bytes;
  ForConversations(inputs, [&](const Messages& messages, const std::string& where) {
    ids.clear();
    EncodeChat(tokenizer, format, messages, /*ask=*/false, where, ids);
    ids.push_back(border);
    bytes.clear();
    AppendTokenBytes(ids, info.width, bytes);
    (is_held_out(conversation++) ? val : train).Append(bytes);
    done += TextBytes(messages);
    if (hooks.progress) hooks.progress(done, found.text_bytes);
  });
  if (conversation != found.conversations) {
    throw InputError(fmt::format("{}: changed while it was read", inputs[0].path), "",
                     "try again when nothing writes to it");
  }
  FinishParts(train, val, info);
  tokenizer.Save(directory.path().string());
  WriteDatasetInfo(directory.path().string(), info);
  directory.Commit();
  return info;
}

}  // namespace folio
