#include "folio/io/libcurl.h"

#include <dlfcn.h>

#include "folio/base/error.h"

namespace folio {
namespace {

Error NoLibcurl(const char* cause) {
  return RuntimeError("cannot use the network", cause,
                      "install libcurl (on Debian: apt install libcurl4)");
}

template <class Function>
Function Symbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw NoLibcurl(dlerror());
  return reinterpret_cast<Function>(symbol);
}

Libcurl Open() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) throw NoLibcurl(dlerror());
  const auto start = Symbol<decltype(&curl_global_init)>(library, "curl_global_init");
  if (start(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw NoLibcurl("libcurl does not start");
  return {.init = Symbol<decltype(&curl_easy_init)>(library, "curl_easy_init"),
          .cleanup = Symbol<decltype(&curl_easy_cleanup)>(library, "curl_easy_cleanup"),
          .setopt = Symbol<decltype(&curl_easy_setopt)>(library, "curl_easy_setopt"),
          .perform = Symbol<decltype(&curl_easy_perform)>(library, "curl_easy_perform"),
          .strerror = Symbol<decltype(&curl_easy_strerror)>(library, "curl_easy_strerror")};
}

}  // namespace

const Libcurl& Libcurl::Get() {
  static const Libcurl library = Open();
  return library;
}

}  // namespace folio
