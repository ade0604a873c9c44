#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio {

class CommandLine;
struct Place;

// What people of llama.cpp, ollama, transformers and nanoGPT type, and what folio has for it. Each
// answer is for a help line and names only commands and flags that there are; "" where nothing is
// known of the word.

// `name` is that of a command that folio lacks: "run", or "eval ppl".
std::string HelpForForeignCommand(const CommandLine& line, const std::string& name);

// `given` is a flag that the command at `place` lacks, with its dashes: "--n-predict", "-ngl".
std::string HelpForForeignFlag(const CommandLine& line, const Place& place,
                               const std::string& given);

// Returns whether a word of several letters behind one dash is such a flag, and not one letter with
// its value: "-ngl".
bool IsForeignShortFlag(std::string_view word);

// All answers that may be given.
std::vector<std::string> ForeignWordAnswers(const CommandLine& line);

}  // namespace folio
