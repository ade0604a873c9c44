#pragma once

namespace folio {

// After this call the first SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGHUP (the terminal is closed) or
// SIGXCPU (the limit of CPU time is reached) only sets a flag, so that work can stop at a good
// place; a second one ends the process at once with SignalExitStatus, except SIGHUP and SIGXCPU,
// which repeat by themselves. An ignored SIGHUP stays ignored, as under nohup. SIGUSR1 and SIGUSR2
// request a checkpoint.
void CatchSignals();

// After CatchSignals: makes SIGHUP request to reload files that may have changed, as is usual for
// services. It still stops the process if the terminal of a standard stream is gone.
void CatchReload();
// True once for each such request.
bool TakeReloadRequest();

// The signal, or 0 if no stop was requested.
int StopRequested();
// Returns true if SIGINT requested a stop, and cancels that: Ctrl-C may end only a part of the
// work.
bool TakeInterrupt();
// True once for each request by SIGUSR1 or SIGUSR2.
bool TakeCheckpointRequest();

// Thrown to leave work that cannot stop by itself; the program ends silently with
// SignalExitStatus(signal). Not derived from std::exception, so that no handler takes it for an
// error.
struct Stopped {
  int signal;
};
void ThrowIfStopRequested();

// 130 for SIGINT, 143 for SIGTERM, 152 for SIGXCPU: the exit status after a requested stop.
int SignalExitStatus(int signal);

}  // namespace folio
