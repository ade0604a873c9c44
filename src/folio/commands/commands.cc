#include "folio/commands/commands.h"

#include <utility>

namespace folio {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(NewTrainCommand());
  commands.push_back(NewGenerateCommand());
  commands.push_back(NewPlotCommand());
  commands.push_back(NewDataPrepareCommand());
  commands.push_back(NewDataInfoCommand());
  commands.push_back(NewStoriesCommand());
  commands.push_back(NewTokenizerEncodeCommand());
  commands.push_back(NewTokenizerDecodeCommand());
  commands.push_back(NewTokenizerCountCommand());
  commands.push_back(NewTokenizerInfoCommand());
  commands.push_back(NewTokenizerTrainCommand());
  commands.push_back(NewTokenizerFetchCommand());
  for (std::unique_ptr<Command>& topic : NewExplainCommands()) {
    commands.push_back(std::move(topic));
  }
  commands.push_back(NewInspectAttentionCommand());
  commands.push_back(NewInspectLensCommand());
  commands.push_back(NewInspectEmbeddingsCommand());
  commands.push_back(NewInspectActivationsCommand());
  commands.push_back(NewInspectProbabilitiesCommand());
  commands.push_back(NewInspectModelCommand());
  commands.push_back(NewInspectPlanCommand());
  commands.push_back(NewInspectDumpCommand());
  commands.push_back(NewBenchTrainCommand());
  commands.push_back(NewBenchMatmulCommand());
  commands.push_back(NewBenchAttentionCommand());
  commands.push_back(NewBenchOptimizerCommand());
  commands.push_back(NewBenchTokenizerCommand());
  commands.push_back(NewConfigShowCommand());
  commands.push_back(NewDoctorCommand());
  commands.push_back(NewCompletionCommand());
  commands.push_back(NewHelpCommand());
  commands.push_back(NewVersionCommand());
  commands.push_back(NewCompleteCommand());
  return commands;
}

}  // namespace folio
