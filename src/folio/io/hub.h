#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/fetch.h"

namespace folio {

// A service that hosts repositories of models, by its public HTTP interface: huggingface.co, or
// another one with the same interface.
struct Hub {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  FetchLimits limits = {};

  // The service of HF_ENDPOINT, with HF_TOKEN for its token. Throws a kUsage Error if the address
  // or the token is invalid, or if a token would be sent unencrypted.
  static Hub OfEnvironment();
};

// A file of a repository.
struct HubFile {
  std::string path;  // path below the repository: "model.safetensors", "onnx/model.onnx"
  int64_t bytes = 0;
  std::string hash = {};  // in the form of WantedFile
};

// Returns true if this can be the name of a repository, "OWNER/NAME".
bool IsRepositoryName(std::string_view name);

// The files of the newest revision of a repository. Throws a kInput Error if the repository does
// not exist, is not open to this user, or has a name that leads out of it, and a kRuntime Error if
// the network fails. REQUIRES: IsRepositoryName.
std::vector<HubFile> ListRepository(const Hub& hub, const std::string& repository);

// The address of a file of that revision.
std::string AddressOf(const Hub& hub, const std::string& repository, const std::string& path);

}  // namespace folio
