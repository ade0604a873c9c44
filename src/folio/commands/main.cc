#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"

int main(int argc, char** argv) {
  folio::ReportMappedFaults();
  return folio::RunProgram({argv + (argc > 0 ? 1 : 0), argv + argc}, folio::AllCommands);
}
