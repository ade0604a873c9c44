#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace folio {

// Takes `input` for the contents of a tokenizer's files, or for changes to files that are right,
// and loads them. They must be refused with a kInput Error, or make a tokenizer that encodes,
// decodes, and comes back as itself from the files that it writes.
testing::AssertionResult TokenizerFileIsReadOrRefused(std::string_view input);

}  // namespace folio
