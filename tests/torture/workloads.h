#pragma once

#include <string>
#include <vector>

#include "tests/torture/process.h"

namespace folio::torture {

// A command that writes, and how to continue after any disturbance. Commands are arguments of
// folio, run beside the directory `root`, which holds everything that they write; `../input` holds
// what they read.
struct Workload {
  std::string name;
  std::vector<Words> before = {};  // create the state before it begins
  Words command;
  // A run is continued by `resume`, and started by `again` if there is nothing to continue; else
  // `again` is what a user types after a failure.
  Words resume = {};
  Words again;
};

// The names of trained models etc. in `../input`, and the commands that make them.
std::vector<Words> InputCommands();
std::vector<Workload> Workloads();

// The text from which everything is made.
std::string InputText();

}  // namespace folio::torture
