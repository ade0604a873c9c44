#include <memory>

#include "folio/commands/commands.h"

namespace folio {

std::unique_ptr<Command> NewInspectAttentionCommand();
std::unique_ptr<Command> NewInspectLensCommand();
std::unique_ptr<Command> NewInspectEmbeddingsCommand();
std::unique_ptr<Command> NewInspectActivationsCommand();
std::unique_ptr<Command> NewInspectProbabilitiesCommand();
std::unique_ptr<Command> NewInspectModelCommand();
std::unique_ptr<Command> NewInspectPlanCommand();
std::unique_ptr<Command> NewInspectDumpCommand();

CommandList InspectCommands() {
  CommandList list;
  for (std::unique_ptr<Command> (*const make)() :
       {NewInspectAttentionCommand, NewInspectLensCommand, NewInspectEmbeddingsCommand,
        NewInspectActivationsCommand, NewInspectProbabilitiesCommand, NewInspectModelCommand,
        NewInspectPlanCommand, NewInspectDumpCommand}) {
    list.push_back(make());
  }
  return list;
}

}  // namespace folio
