#pragma once

namespace folio {

// From here on the first SIGINT or SIGTERM only raises a flag, so that work can stop at a good
// place; a second one ends the process at once with 130 or 143. SIGUSR1 asks for a checkpoint.
void CatchSignals();

// SIGINT, SIGTERM, or 0 while nobody has asked to stop.
int StopRequested();
// True once for each request by SIGUSR1.
bool TakeCheckpointRequest();

// Thrown to leave work that has no place of its own to stop at; the program ends with
// SignalExitStatus(signal) and says nothing. Not a std::exception, so that nothing takes it for an
// error.
struct Stopped {
  int signal;
};
void ThrowIfStopRequested();

// 130 for SIGINT, 143 for SIGTERM: what a command that stopped by request returns.
int SignalExitStatus(int signal);

}  // namespace folio
