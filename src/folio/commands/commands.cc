#include "folio/commands/commands.h"

#include "folio/lesson/lessons.h"

namespace folio {

std::vector<std::unique_ptr<Command>> AllCommands() {
  using New = std::unique_ptr<Command> (*)();
  std::vector<std::unique_ptr<Command>> commands;
  for (const New make : {NewTrainCommand,
                         NewGenerateCommand,
                         NewChatCommand,
                         NewServeCommand,
                         NewConvertCommand,
                         NewFetchCommand,
                         NewPlotCommand,
                         NewEvalPerplexityCommand,
                         NewEvalClozeCommand,
                         NewEvalCompareCommand,
                         NewDataPrepareCommand,
                         NewDataInfoCommand,
                         NewStoriesCommand,
                         NewDataFetchCommand,
                         NewTokenizerEncodeCommand,
                         NewTokenizerDecodeCommand,
                         NewTokenizerCountCommand,
                         NewTokenizerInfoCommand,
                         NewTokenizerTrainCommand,
                         NewTokenizerFetchCommand}) {
    commands.push_back(make());
  }
  for (const Lesson& lesson : Lessons()) commands.push_back(NewExplainCommand(lesson));
  for (const New make : {NewInspectAttentionCommand,
                         NewInspectLensCommand,
                         NewInspectEmbeddingsCommand,
                         NewInspectActivationsCommand,
                         NewInspectProbabilitiesCommand,
                         NewInspectModelCommand,
                         NewInspectPlanCommand,
                         NewInspectDumpCommand,
                         NewBenchTrainCommand,
                         NewBenchMatmulCommand,
                         NewBenchAttentionCommand,
                         NewBenchGenerateCommand,
                         NewBenchOptimizerCommand,
                         NewBenchServeCommand,
                         NewBenchTokenizerCommand,
                         NewConfigShowCommand,
                         NewDoctorCommand,
                         NewPlanCommand,
                         NewCompletionCommand,
                         NewHelpCommand,
                         NewVersionCommand,
                         NewCompleteCommand}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace folio
