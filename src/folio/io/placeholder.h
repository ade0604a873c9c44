#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace folio {

// What lies where a file was meant to be downloaded: a pointer of Git LFS, a page of HTML or XML.
// Throws a kInput Error that names it if `text`, the beginning of what was read from `where`, is of
// one.
void RefusePlaceholder(std::string_view text, const std::string& where);

// The same for a file of binary data, which any text is none of: the message shows how it begins.
void RefuseText(std::string_view bytes, const std::string& where);

// RefuseText of the beginning of a file. Throws a kInput Error, too, where it cannot be read.
void RefuseTextFile(const std::filesystem::path& path);

}  // namespace folio
