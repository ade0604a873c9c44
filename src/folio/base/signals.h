#pragma once

namespace folio {

// From here on the first SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGHUP (the terminal is gone) or
// SIGXCPU (the limit of CPU time is reached) only raises a flag, so that work can stop at a good
// place; a second one ends the process at once with SignalExitStatus, unless it is a SIGHUP or
// SIGXCPU: these come again by themselves. SIGHUP stays ignored where it was, as under nohup.
// SIGUSR1 and SIGUSR2 ask for a checkpoint.
void CatchSignals();

// After it: SIGHUP asks to read and open anew what may have changed, as services take it. It still
// stops where the terminal that a standard stream is, or was, is gone.
void CatchReload();
// True once for each such request.
bool TakeReloadRequest();

// The signal, or 0 while nobody has asked to stop.
int StopRequested();
// True where SIGINT asked, and takes that back: for work of which a Ctrl-C ends a part alone.
bool TakeInterrupt();
// True once for each request by SIGUSR1 or SIGUSR2.
bool TakeCheckpointRequest();

// Thrown to leave work that has no place of its own to stop at; the program ends with
// SignalExitStatus(signal) and says nothing. Not a std::exception, so that nothing takes it for an
// error.
struct Stopped {
  int signal;
};
void ThrowIfStopRequested();

// 130 for SIGINT, 143 for SIGTERM, 152 for SIGXCPU: what a command that stopped by request returns.
int SignalExitStatus(int signal);

}  // namespace folio
