#include <memory>

#include "folio/commands/commands.h"

namespace folio {

std::unique_ptr<Command> NewTokenizerEncodeCommand();
std::unique_ptr<Command> NewTokenizerDecodeCommand();
std::unique_ptr<Command> NewTokenizerCountCommand();
std::unique_ptr<Command> NewTokenizerInfoCommand();
std::unique_ptr<Command> NewTokenizerTrainCommand();
std::unique_ptr<Command> NewTokenizerFetchCommand();

CommandList TokenizerCommands() {
  CommandList list;
  for (std::unique_ptr<Command> (*const make)() :
       {NewTokenizerEncodeCommand, NewTokenizerDecodeCommand, NewTokenizerCountCommand,
        NewTokenizerInfoCommand, NewTokenizerTrainCommand, NewTokenizerFetchCommand}) {
    list.push_back(make());
  }
  return list;
}

}  // namespace folio
