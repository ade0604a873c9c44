#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "folio/base/error.h"
#include "input.h"

namespace folio {

// A file with changes that `input` says. Each change is where, and other bytes there, or a number
// that overflows when others are added to it or multiplied with it, or the end of the file.
std::string ChangedBytes(std::string file, FuzzInput& input);

// The same of a text: each change is where, how many bytes go, and what comes instead: bytes of the
// input, one of `fragments`, or a part of the text once more.
std::string ChangedText(std::string text, std::span<const std::string_view> fragments,
                        FuzzInput& input);

// Fragments are wrong wherever JSON is read: for ChangedText.
std::span<const std::string_view> JsonFragments();

// Holds where `read` comes to its end, or throws an Error of one of these kinds.
testing::AssertionResult ReadOrRefused(const std::function<void()>& read,
                                       std::initializer_list<ErrorKind> kinds = {
                                           ErrorKind::kInput});

}  // namespace folio
