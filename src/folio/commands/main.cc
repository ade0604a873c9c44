#include "folio/cli/program.h"
#include "folio/commands/commands.h"

int main(int argc, char** argv) {
  return folio::RunProgram({argv + (argc > 0 ? 1 : 0), argv + argc}, folio::AllCommands);
}
