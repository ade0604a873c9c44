#pragma once

#include "folio/cli/command_line.h"

namespace folio {

// The commands of each folder, in the order of help.
CommandList BenchCommands();
CommandList ChatCommands();
CommandList ConfigCommands();
CommandList ConvertCommands();
CommandList DataCommands();
CommandList EvalCommands();
CommandList ExplainCommands();
CommandList FetchCommands();
CommandList GenerateCommands();
CommandList InspectCommands();
CommandList PlanCommands();
CommandList PlotCommands();
CommandList ServeCommands();
CommandList SetUpCommands();
CommandList TokenizerCommands();
CommandList TrainCommands();

// All commands, in the order of help.
CommandList AllCommands();

}  // namespace folio
