#pragma once

#include <memory>
#include <vector>

#include "folio/cli/command.h"

namespace folio {

struct Lesson;

std::unique_ptr<Command> NewBenchAttentionCommand();
std::unique_ptr<Command> NewBenchMatmulCommand();
std::unique_ptr<Command> NewBenchGenerateCommand();
std::unique_ptr<Command> NewBenchOptimizerCommand();
std::unique_ptr<Command> NewBenchServeCommand();
std::unique_ptr<Command> NewBenchTokenizerCommand();
std::unique_ptr<Command> NewBenchTrainCommand();
std::unique_ptr<Command> NewChatCommand();
std::unique_ptr<Command> NewCompleteCommand();
std::unique_ptr<Command> NewCompletionCommand();
std::unique_ptr<Command> NewConfigShowCommand();
std::unique_ptr<Command> NewConvertCommand();
std::unique_ptr<Command> NewDoctorCommand();
std::unique_ptr<Command> NewEvalClozeCommand();
std::unique_ptr<Command> NewEvalCompareCommand();
std::unique_ptr<Command> NewEvalPerplexityCommand();
std::unique_ptr<Command> NewExplainCommand(const Lesson& lesson);
std::unique_ptr<Command> NewFetchCommand();
std::unique_ptr<Command> NewGenerateCommand();
std::unique_ptr<Command> NewHelpCommand();
std::unique_ptr<Command> NewDataPrepareCommand();
std::unique_ptr<Command> NewDataInfoCommand();
std::unique_ptr<Command> NewInspectActivationsCommand();
std::unique_ptr<Command> NewInspectAttentionCommand();
std::unique_ptr<Command> NewInspectDumpCommand();
std::unique_ptr<Command> NewInspectEmbeddingsCommand();
std::unique_ptr<Command> NewInspectLensCommand();
std::unique_ptr<Command> NewInspectModelCommand();
std::unique_ptr<Command> NewInspectPlanCommand();
std::unique_ptr<Command> NewInspectProbabilitiesCommand();
std::unique_ptr<Command> NewPlanCommand();
std::unique_ptr<Command> NewPlotCommand();
std::unique_ptr<Command> NewServeCommand();
std::unique_ptr<Command> NewStoriesCommand();
std::unique_ptr<Command> NewDataFetchCommand();
std::unique_ptr<Command> NewTokenizerCountCommand();
std::unique_ptr<Command> NewTokenizerDecodeCommand();
std::unique_ptr<Command> NewTokenizerEncodeCommand();
std::unique_ptr<Command> NewTokenizerFetchCommand();
std::unique_ptr<Command> NewTokenizerInfoCommand();
std::unique_ptr<Command> NewTokenizerTrainCommand();
std::unique_ptr<Command> NewTrainCommand();
std::unique_ptr<Command> NewVersionCommand();

// All commands, in the order in which help lists them.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace folio
