#pragma once

#include <string>
#include <vector>

#include "tests/torture/process.h"

namespace folio::torture {

// A command that writes, and how one goes on after whatever became of it. Commands are arguments of
// folio, run beside the directory `root`, in which everything is that they write; `../input` holds
// what they read.
struct Workload {
  std::string name;
  std::vector<Words> before = {};  // make what is there when it begins
  Words command;
  // A run is gone on with by `resume`, and begun by `again` where there is nothing to go on with;
  // else `again` is what somebody types who sees it failed.
  Words resume = {};
  Words again;
};

// The names of trained models etc. in `../input`, and the commands that make them.
std::vector<Words> InputCommands();
std::vector<Workload> Workloads();

// The text that everything is made of.
std::string InputText();

}  // namespace folio::torture
