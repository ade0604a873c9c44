// Trains as one of the ranks that mpirun started, or alone.
#include <exception>
#include <iostream>

#include "folio/ranks/join.h"
#include "folio/run/training_run.h"

int main(int, char** argv) {  // TEXT RUN
  using namespace folio;
  int status = 0;
  try {
    Group& group = JoinGroup("trainer 1.0");  // ranks of this version
    RunSettings settings;
    settings.UsePreset("char-cpu");
    settings.Set("train.max_steps", "6");
    settings.Set("train.grad_accumulation", "4");
    TrainingRun run(settings, {.data = {argv[1]}, .out = argv[2], .group = &group});
    const TrainResult result = run.Train();
    if (group.first()) std::cout << group.size() << " ranks, step " << result.step << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    status = 1;
    if (Group* group = JoinedGroup()) group->Abort(status);
  }
  LeaveGroup(status);
  return status;
}
