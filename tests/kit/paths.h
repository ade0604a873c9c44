#pragma once

#include <filesystem>
#include <string>

namespace folio {

// The root of the project's sources.
std::filesystem::path SourceDir();

// The `folio` of this build.
std::string ProgramPath();

// A checkpoint, and in its expected.safetensors the numbers that an independent implementation
// computed of it in float64: a directory of tests/fixtures, or of those that are not part of the
// project; "" if it is not here.
std::filesystem::path Fixture(const std::string& name);

// The path of a vocabulary or text that is not part of the project, relative to its collection
// ("gpt2/vocab.bpe"), or "" if it is not here.
std::string TestData(const std::string& name);

// The same for numbers that must come out ("tokenizer/golden_public.jsonl").
std::string GoldenFile(const std::string& name);

}  // namespace folio
