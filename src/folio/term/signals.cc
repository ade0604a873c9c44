#include "folio/term/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace folio {
namespace {

static_assert(std::atomic<int>::is_always_lock_free);  // safe in a signal handler
std::atomic<int> g_stop = 0;
std::atomic<int> g_checkpoint = 0;

extern "C" void OnStop(int signal) {
  int none = 0;
  if (!g_stop.compare_exchange_strong(none, signal)) _exit(SignalExitStatus(signal));
}

extern "C" void OnCheckpoint(int) {
  g_checkpoint = 1;
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
  Catch(SIGINT, OnStop);
  Catch(SIGTERM, OnStop);
  Catch(SIGUSR1, OnCheckpoint);
}

int StopRequested() {
  return g_stop;
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
