#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

namespace folio {

// Returns the output of a child process that runs f(), a std::string or a literal; "stopped by
// signal 14" if it takes more than a minute.
template <class F>
std::string InForkedChild(F&& f) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::string said;
    try {
      said = f();
    } catch (const std::exception& error) {
      said = error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char bytes[256];
  for (ssize_t got; (got = read(ends[0], bytes, sizeof(bytes))) > 0;) {
    said.append(bytes, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "stopped by signal " + std::to_string(WTERMSIG(status)) : said;
}

// ThreadSanitizer ends a child process that starts threads.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FOLIO_CHILDREN_HAVE_NO_THREADS
#endif
#endif
#if defined(FOLIO_CHILDREN_HAVE_NO_THREADS) || defined(__SANITIZE_THREAD__)
inline constexpr bool kChildrenHaveThreads = false;
#else
inline constexpr bool kChildrenHaveThreads = true;
#endif

}  // namespace folio
