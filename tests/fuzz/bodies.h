#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace folio {

// Takes `input` for a vocabulary, an instruction set, places to cut at and a text, and compares
// what every way to encode that text makes of it with the plainest: piece after piece, each merged
// by itself. The tokenizers live as long as the process: their caches fill up from call to call.
testing::AssertionResult TokenizerAgrees(std::string_view input);

// Takes `input` for the contents of a tokenizer's files, or for changes to files that are right,
// and loads them. They must be refused with a kInput Error, or make a tokenizer that encodes,
// decodes, and comes back as itself from the files that it writes.
testing::AssertionResult TokenizerFileIsReadOrRefused(std::string_view input);

// Takes `input` for changes to a chat template, and for what users write. It must be refused with a
// kInput Error, or make a text, in whose tokens no special token has a byte of a user's.
testing::AssertionResult ChatTemplateIsRenderedOrRefused(std::string_view input);

// Takes `input` for a text of some kind and reads it: all of it must come, or a kInput Error.
testing::AssertionResult TextIsReadOrRefused(std::string_view input);

// Takes `input` for files of tokens and reads them, or gets a kInput Error.
testing::AssertionResult TokensAreReadOrRefused(std::string_view input);

// Take `input` for a file of a format, or for changes to one that is right. It must be refused with
// a kInput Error, or be read with all its numbers, and a GGUF file with its tokenizer.
testing::AssertionResult GgufIsReadOrRefused(std::string_view input);
testing::AssertionResult TorchFileIsReadOrRefused(std::string_view input);
testing::AssertionResult LlmcFileIsReadOrRefused(std::string_view input);
testing::AssertionResult TfBundleIsReadOrRefused(std::string_view input);

testing::AssertionResult SafetensorsAreReadOrRefused(std::string_view input);

// Take `input` for changes to a file of a directory: a model's, as Hugging Face and OpenAI lay it
// out; the state of a training, a data set, adapters, or nanoGPT's checkpoint and tokenizer.
testing::AssertionResult ModelDirectoryIsReadOrRefused(std::string_view input);
testing::AssertionResult RunFilesAreReadOrRefused(std::string_view input);

// Takes `input` for JSON or changes to it. What is read is written so that it reads the same.
testing::AssertionResult JsonIsReadOrRefused(std::string_view input);
// For settings in TOML or on a command line, or a config.json: they come back from what is written.
testing::AssertionResult SettingsAreReadOrRefused(std::string_view input);
// For a metrics.jsonl, which can be read when it is mended, or a line that may hold a document, a
// conversation or a question of multiple choice.
testing::AssertionResult LinesAreReadOrRefused(std::string_view input);

// Takes `input` for what a client sends to a service, or for changes to a request that is right.
// The service must answer or hang up, never with a failure of its own.
testing::AssertionResult RequestIsAnswered(std::string_view input);

}  // namespace folio
