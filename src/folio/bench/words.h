#pragma once

#include <string_view>

namespace folio {

// What the generated texts of the benchmarks are made of: words between single spaces, characters
// without anything between them; by how common they are, roughly, where order has a meaning.

extern const std::string_view kEnglishFunction;
extern const std::string_view kEnglishNouns;
extern const std::string_view kEnglishVerbs;      // regular ones
extern const std::string_view kEnglishIrregular;  // forms of the others
extern const std::string_view kEnglishAdjectives;
extern const std::string_view kEnglishNames;
// Of rare words. A syllable of an invented name is an onset, a nucleus and a coda; "-" is none.
extern const std::string_view kEnglishPrefixes;
extern const std::string_view kEnglishSuffixes;
extern const std::string_view kEnglishOnsets;
extern const std::string_view kEnglishNuclei;
extern const std::string_view kEnglishCodas;

extern const std::string_view kCodeParts;    // of identifiers
extern const std::string_view kCodeCommon;   // names that every file uses
extern const std::string_view kCodeModules;  // of include and import lines

extern const std::string_view kRussianFunction;
// Stems, and the word whose endings they take.
extern const std::string_view kRussianMasculine;   // стол
extern const std::string_view kRussianFeminine;    // работа
extern const std::string_view kRussianNeuter;      // решение
extern const std::string_view kRussianVerbs;       // работать
extern const std::string_view kRussianVerbsI;      // говорить
extern const std::string_view kRussianAdjectives;  // новый
extern const std::string_view kRussianNames;
// Of rare words: prefix, roots, and a suffix with its ending; or syllables.
extern const std::string_view kRussianPrefixes;
extern const std::string_view kRussianRoots;
extern const std::string_view kRussianSuffixes;
extern const std::string_view kRussianSyllables;

extern const std::string_view kChineseCharacters;
extern const std::string_view kChineseWords;
extern const std::string_view kChineseClauseEnds;

extern const std::string_view kJapaneseKanji;
extern const std::string_view kJapaneseWords;
extern const std::string_view kJapaneseStems;  // of verbs and adjectives, which take an ending
extern const std::string_view kJapaneseEndings;
extern const std::string_view kJapaneseParticles;
extern const std::string_view kJapaneseKana;
extern const std::string_view kJapaneseSyllables;  // of loan words
extern const std::string_view kJapaneseLoans;

}  // namespace folio
