#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/fetch.h"

namespace folio {

// The service from which repositories of models are downloaded, by its public HTTP interface:
// huggingface.co, or another with the same.
struct Hub {
  std::string endpoint = "https://huggingface.co";  // no slash at its end
  FetchLimits limits = {};

  // That of HF_ENDPOINT, for whom HF_TOKEN is. Throws a kUsage Error for an address or a token that
  // is none, and where a token would go over the network in the clear.
  static Hub OfEnvironment();
};

// A file of a repository.
struct HubFile {
  std::string path;  // "model.safetensors", "onnx/model.onnx": below the repository, wherever used
  int64_t bytes = 0;
  std::string hash = {};  // as WantedFile has it
};

// Returns whether this can be the name of a repository, "OWNER/NAME".
bool IsRepositoryName(std::string_view name);

// The files of the newest revision of a repository. Throws a kInput Error where there is no such
// repository, it is not open to this user, or a name in it leads out of it, and a kRuntime Error
// where the network fails. REQUIRES: IsRepositoryName.
std::vector<HubFile> ListRepository(const Hub& hub, const std::string& repository);

// The address of a file of that revision.
std::string AddressOf(const Hub& hub, const std::string& repository, const std::string& path);

}  // namespace folio
