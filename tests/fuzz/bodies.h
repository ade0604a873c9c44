#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace folio {

// Interprets `input` as a vocabulary, an instruction set, places to cut at and a text, and compares
// every way to encode that text with the simplest one: piece after piece, each merged separately.
// The tokenizers live as long as the process: their caches fill up from call to call.
testing::AssertionResult TokenizerAgrees(std::string_view input);

// Interprets `input` as the contents of a tokenizer's files, or as changes to valid files, and
// loads them. They must be refused with a kInput Error, or make a tokenizer that encodes, decodes,
// and is equal to the one read from the files that it writes.
testing::AssertionResult TokenizerFileIsReadOrRefused(std::string_view input);

// Interprets `input` as changes to a chat template, and as texts of users. It must be refused with
// a kInput Error, or produce a text, in whose tokens no special token has a byte of a user's.
testing::AssertionResult ChatTemplateIsRenderedOrRefused(std::string_view input);

// Interprets `input` as a text of some kind and reads it: all of it must be read, or refused with a
// kInput Error.
testing::AssertionResult TextIsReadOrRefused(std::string_view input);

// Interprets `input` as token files and reads them, or gets a kInput Error.
testing::AssertionResult TokensAreReadOrRefused(std::string_view input);

// Interpret `input` as a file of a format, or as changes to a valid one. It must be refused with a
// kInput Error, or be read with all its numbers, and a GGUF file with its tokenizer.
testing::AssertionResult GgufIsReadOrRefused(std::string_view input);
testing::AssertionResult TorchFileIsReadOrRefused(std::string_view input);
testing::AssertionResult LlmcFileIsReadOrRefused(std::string_view input);
testing::AssertionResult TfBundleIsReadOrRefused(std::string_view input);

testing::AssertionResult SafetensorsAreReadOrRefused(std::string_view input);

// Interpret `input` as changes to a file of a directory: a model's, in the layout of Hugging Face
// and OpenAI; the state of a training, a data set, adapters, or nanoGPT's checkpoint and tokenizer.
testing::AssertionResult ModelDirectoryIsReadOrRefused(std::string_view input);
testing::AssertionResult RunFilesAreReadOrRefused(std::string_view input);

// Interprets `input` as JSON or changes to it. A value that was read is written so that it reads
// the same.
testing::AssertionResult JsonIsReadOrRefused(std::string_view input);
// For settings in TOML or on a command line, or a config.json: they are read back from what is
// written.
testing::AssertionResult SettingsAreReadOrRefused(std::string_view input);
// For a metrics.jsonl, which can be read after repair, or a line that may hold a document, a
// conversation or a multiple-choice question.
testing::AssertionResult LinesAreReadOrRefused(std::string_view input);

// Interprets `input` as data of a client for a service, or as changes to a valid request. The
// service must answer or close the connection, never with a failure of its own.
testing::AssertionResult RequestIsAnswered(std::string_view input);

}  // namespace folio
