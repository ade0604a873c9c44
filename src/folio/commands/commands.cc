#include "folio/commands/commands.h"

#include <iterator>

namespace folio {

CommandList AllCommands() {
  CommandList all;
  for (CommandList (*const commands)() :
       {TrainCommands, GenerateCommands, ChatCommands, ServeCommands, ConvertCommands,
        FetchCommands, PlotCommands, EvalCommands, DataCommands, TokenizerCommands, ExplainCommands,
        InspectCommands, BenchCommands, ConfigCommands, PlanCommands, SetUpCommands}) {
    CommandList some = commands();
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace folio
