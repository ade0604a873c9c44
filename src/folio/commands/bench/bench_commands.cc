#include <memory>

#include "folio/commands/commands.h"

namespace folio {

std::unique_ptr<Command> NewBenchTrainCommand();
std::unique_ptr<Command> NewBenchMatmulCommand();
std::unique_ptr<Command> NewBenchAttentionCommand();
std::unique_ptr<Command> NewBenchGenerateCommand();
std::unique_ptr<Command> NewBenchOptimizerCommand();
std::unique_ptr<Command> NewBenchServeCommand();
std::unique_ptr<Command> NewBenchTokenizerCommand();

CommandList BenchCommands() {
  CommandList list;
  for (std::unique_ptr<Command> (*const make)() :
       {NewBenchTrainCommand, NewBenchMatmulCommand, NewBenchAttentionCommand,
        NewBenchGenerateCommand, NewBenchOptimizerCommand, NewBenchServeCommand,
        NewBenchTokenizerCommand}) {
    list.push_back(make());
  }
  return list;
}

}  // namespace folio
