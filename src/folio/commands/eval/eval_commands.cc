#include <memory>

#include "folio/commands/commands.h"

namespace folio {

std::unique_ptr<Command> NewEvalPerplexityCommand();
std::unique_ptr<Command> NewEvalClozeCommand();
std::unique_ptr<Command> NewEvalCompareCommand();

CommandList EvalCommands() {
  CommandList list;
  for (std::unique_ptr<Command> (*const make)() :
       {NewEvalPerplexityCommand, NewEvalClozeCommand, NewEvalCompareCommand}) {
    list.push_back(make());
  }
  return list;
}

}  // namespace folio
