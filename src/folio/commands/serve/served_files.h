#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace folio {

// Where the files lie that are read to open a model, an adapter or a tokenizer: of a directory all
// that is beneath it, with what links in it lead to, of a file all that is beside it, of a name
// what was fetched. A checkpoint that a crash left aside is put back in its place.
std::vector<std::filesystem::path> FilesToOpen(const std::string& model);

}  // namespace folio
