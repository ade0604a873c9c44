#pragma once

#include <filesystem>
#include <string>

namespace folio {

// The root of the project's sources.
std::filesystem::path SourceDir();

// The `folio` of this build.
std::string ProgramPath();

// A directory with a checkpoint, and in its expected.safetensors the numbers that an independent
// implementation computed for it in float64: in tests/fixtures, or in a collection that is not part
// of the project; "" if it does not exist here.
std::filesystem::path Fixture(const std::string& name);

// The path of a vocabulary or text that is not part of the project, relative to its collection
// ("gpt2/vocab.bpe"), or "" if it does not exist here.
std::string TestData(const std::string& name);

// The same for expected results ("tokenizer/golden_public.jsonl").
std::string GoldenFile(const std::string& name);

}  // namespace folio
