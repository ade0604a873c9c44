#include "folio/base/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace folio {
namespace {

static_assert(std::atomic<int>::is_always_lock_free);  // safe in a signal handler
std::atomic<int> g_stop = 0;
std::atomic<int> g_checkpoint = 0;
std::atomic<int> g_reload = 0;
int g_terminal = -1;  // a standard stream that is a terminal

extern "C" void OnStop(int signal) {
  int none = 0;
  if (g_stop.compare_exchange_strong(none, signal)) return;
  // A closing terminal sends its signal twice: from the shell, and from the kernel when the shell
  // has ended. The kernel sends SIGXCPU every second until the hard limit.
  if (signal != SIGHUP && signal != SIGXCPU) _exit(SignalExitStatus(signal));
}

extern "C" void OnCheckpoint(int) {
  g_checkpoint = 1;
}

extern "C" void OnReload(int) {
  g_reload = 1;
}

void Catch(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void CatchSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGXCPU}) Catch(signal, OnStop);
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) Catch(SIGHUP, OnStop);
  for (const int signal : {SIGUSR1, SIGUSR2}) Catch(signal, OnCheckpoint);
}

void CatchReload() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (isatty(fd) == 1) g_terminal = fd;
  }
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) Catch(SIGHUP, OnReload);
}

bool TakeReloadRequest() {
  if (g_reload.exchange(0) == 0) return false;
  if (g_terminal < 0 || isatty(g_terminal) == 1) return true;
  OnStop(SIGHUP);
  return false;
}

int StopRequested() {
  return g_stop;
}

bool TakeInterrupt() {
  int interrupt = SIGINT;
  return g_stop.compare_exchange_strong(interrupt, 0);
}

bool TakeCheckpointRequest() {
  return g_checkpoint.exchange(0) != 0;
}

void ThrowIfStopRequested() {
  if (const int signal = StopRequested()) throw Stopped{signal};
}

int SignalExitStatus(int signal) {
  return 128 + signal;
}

}  // namespace folio
