#pragma once

#include <curl/curl.h>

namespace folio {

// The functions of libcurl that folio calls. The library is opened when something is fetched and
// not with the program: it brings thirty more libraries, which take a tenth of the time in which
// the program can otherwise start, read a vocabulary and encode a page.
struct Libcurl {
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_setopt) setopt;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_strerror) strerror;

  // Opened and initialised once. Throws a kRuntime Error if it is not installed.
  static const Libcurl& Get();
};

}  // namespace folio
