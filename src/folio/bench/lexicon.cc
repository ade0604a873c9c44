#include "folio/bench/lexicon.h"

#include <algorithm>
#include <unordered_set>

#include "folio/text/utf8.h"

namespace folio {

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    words.push_back(word == "-" ? "" : word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return words;
}

std::vector<std::string_view> SplitCharacters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size(); at += characters.back().size()) {
    characters.push_back(text.substr(at, DecodeUtf8(text, at).length));
  }
  return characters;
}

void UpperAt(std::string& out, size_t at) {
  if (at >= out.size()) return;
  if (out[at] >= 'a' && out[at] <= 'z') {
    out[at] = static_cast<char>(out[at] - 'a' + 'A');
    return;
  }
  if (static_cast<uint8_t>(out[at]) < 0x80) return;
  const Utf8Char c = DecodeUtf8(out, at);
  if (c.code < U'а' || c.code > U'ё') return;
  std::string upper;
  AppendUtf8(c.code == U'ё' ? U'Ё' : c.code - (U'а' - U'А'), upper);
  out.replace(at, c.length, upper);
}

void Lexicon::Add(double key, std::string word) {
  words_.push_back({key, std::move(word)});
}

void Lexicon::Sort() {
  std::ranges::stable_sort(words_, {}, &Entry::key);
  std::unordered_set<std::string> seen;
  std::erase_if(words_, [&](const Entry& entry) { return !seen.insert(entry.word).second; });
}

}  // namespace folio
