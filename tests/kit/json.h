#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/kit/program.h"

namespace folio {

// The output of `folio ARGUMENTS --json`, which must succeed.
inline nlohmann::json Answer(const std::string& arguments) {
  return nlohmann::json::parse(Well(RunFolio(arguments + " --json")).out);
}

// The objects of a text that has one in a line; other lines are left out.
inline std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('{')) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

}  // namespace folio
