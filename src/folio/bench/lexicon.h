#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "folio/bench/draws.h"

namespace folio {

// The words between the spaces of `text`; "-" stands for an empty one. They lie in `text`.
std::vector<std::string_view> SplitWords(std::string_view text);
// The characters of `text`, which is UTF-8.
std::vector<std::string_view> SplitCharacters(std::string_view text);

// Makes the letter at out[at] (ASCII or Russian) upper case.
void UpperAt(std::string& out, size_t at);

// Words in the order of their keys. Fill it, Sort, then read.
class Lexicon {
 public:
  // About where among all words `word` stands; the smallest key counts of one that is added again.
  void Add(double key, std::string word);
  void Sort();

  size_t size() const { return words_.size(); }
  std::string_view operator[](size_t rank) const { return words_[rank].word; }

 private:
  struct Entry {
    double key;
    std::string word;
  };
  std::vector<Entry> words_;
};

// A language of words: how the word of each rank is spelt. Ranks have no end: those beyond the
// lexicon are invented from parts, each always in the same way.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual const ZipfRanks& ranks() const = 0;
  virtual void AppendWord(uint64_t rank, std::string& out) const = 0;
};

}  // namespace folio
