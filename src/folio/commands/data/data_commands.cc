#include <memory>

#include "folio/commands/commands.h"

namespace folio {

std::unique_ptr<Command> NewDataPrepareCommand();
std::unique_ptr<Command> NewDataInfoCommand();
std::unique_ptr<Command> NewStoriesCommand();
std::unique_ptr<Command> NewDataFetchCommand();

CommandList DataCommands() {
  CommandList list;
  for (std::unique_ptr<Command> (*const make)() :
       {NewDataPrepareCommand, NewDataInfoCommand, NewStoriesCommand, NewDataFetchCommand}) {
    list.push_back(make());
  }
  return list;
}

}  // namespace folio
