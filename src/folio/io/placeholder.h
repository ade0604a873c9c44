#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace folio {

// Recognises files that replace a download: a pointer of Git LFS, a page of HTML or XML. Throws a
// kInput Error that names it if `text`, the beginning of what was read from `where`, is one.
void RefusePlaceholder(std::string_view text, const std::string& where);

// The same for a binary file, which cannot be text: the message shows its beginning.
void RefuseText(std::string_view bytes, const std::string& where);

// RefuseText for the beginning of a file. Also throws a kInput Error if it cannot be read.
void RefuseTextFile(const std::filesystem::path& path);

}  // namespace folio
