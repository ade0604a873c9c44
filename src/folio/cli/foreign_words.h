#pragma once

#include <string>
#include <string_view>

namespace folio {

class CommandLine;
struct Place;

// Help for words that users of llama.cpp, ollama, transformers and nanoGPT type. Each answer is for
// a help line and names only existing commands and flags; "" for an unknown word.

// `name` is a command that folio lacks: "run", or "eval ppl".
std::string HelpForForeignCommand(const CommandLine& line, const std::string& name);

// `given` is a flag that the command at `place` lacks, with its dashes: "--n-predict", "-ngl".
std::string HelpForForeignFlag(const CommandLine& line, const Place& place,
                               const std::string& given);

// Returns true if a word of several letters after one dash is such a flag, and not one letter with
// its value: "-ngl".
bool IsForeignShortFlag(std::string_view word);

}  // namespace folio
