#include "folio/io/mapped_faults.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string_view>

#include "folio/base/error.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

// A list that only grows, so that a handler may walk it at any time; entries are used again. Their
// sizes are 0 while they are changed.
struct Entry {
  std::atomic<const std::byte*> begin = nullptr;
  std::atomic<size_t> size = 0;
  char path[1024] = {};  // cut, if it is longer
  Entry* next = nullptr;
};
std::atomic<Entry*> g_entries = nullptr;
std::mutex g_mutex;

void Say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

extern "C" void OnBusError(int signal, siginfo_t* info, void*) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  for (const Entry* entry = g_entries; entry != nullptr; entry = entry->next) {
    const std::byte* const begin = entry->begin;
    if (begin == nullptr || at < begin || at >= begin + entry->size) continue;
    Say("\nerror: ");
    Say(entry->path);
    Say(" became shorter while it was read\n"
        "  somebody else has changed the file in place, or its disk fails\n"
        "  help: restore it; what was saved before is whole, so that a training goes on with "
        "--resume\n");
    _exit(static_cast<int>(ErrorKind::kInput));
  }
  std::signal(signal, SIG_DFL);  // comes again at once
}

}  // namespace

void ReportMappedFaults() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void AddMappedBytes(const std::byte* begin, size_t size, const std::filesystem::path& path) {
  const std::lock_guard lock(g_mutex);
  Entry* entry = g_entries;
  while (entry != nullptr && entry->begin != nullptr) entry = entry->next;
  if (entry == nullptr) {
    entry = new Entry;  // never freed
    entry->next = g_entries;
    g_entries = entry;
  }
  const std::string name = Visible(path.string(), {.lines = false});
  const size_t length = std::min(name.size(), sizeof(entry->path) - 1);
  std::memcpy(entry->path, name.data(), length);
  entry->path[length] = '\0';
  entry->size = size;
  entry->begin = begin;
}

void RemoveMappedBytes(const std::byte* begin) {
  const std::lock_guard lock(g_mutex);
  for (Entry* entry = g_entries; entry != nullptr; entry = entry->next) {
    if (entry->begin != begin) continue;
    entry->begin = nullptr;
    entry->size = 0;
  }
}

}  // namespace folio
