#include "folio/eval/result_file.h"

#include "folio/base/check.h"
#include "folio/base/hash.h"
#include "folio/model/config.h"

namespace folio {

ResultFile::ResultFile(const std::filesystem::path& path, const std::string& key)
    : file_(path, HashHex(key), /*worth_keeping=*/1) {
  if (file_.bytes() == 0) return;
  map_ = MappedFile(file_.path());
  before_ = {reinterpret_cast<const char*>(map_.bytes().data()), map_.bytes().size()};
  before_ = before_.substr(0, before_.rfind('\n') + 1);  // npos + 1 is 0
  if (before_.empty()) Stop();
}

std::string_view ResultFile::Next(size_t count) {
  looked_at_ = 0;
  for (; count > 0; --count) {
    const size_t end = before_.find('\n', looked_at_);
    if (end == before_.npos) return {};
    looked_at_ = end + 1;
  }
  return before_.substr(0, looked_at_);
}

void ResultFile::Accept() {
  before_.remove_prefix(looked_at_);
  accepted_ += static_cast<int64_t>(looked_at_);
  looked_at_ = 0;
  if (before_.empty()) Stop();
}

void ResultFile::Stop() {
  before_ = {};
  map_ = {};
  if (accepted_ < file_.bytes()) file_.Clear(accepted_);
}

void ResultFile::Add(std::string_view lines) {
  FOLIO_CHECK(!resuming(), "lines from before are not looked at");
  file_.Add(lines);
}

std::string DamagedNote(const std::filesystem::path& path) {
  return path.string() +
         ": what an earlier call left of it does not fit from some place on; that part is measured "
         "again";
}

std::string ModelFingerprint(const OpenedModel& model) {
  Hasher hasher;
  for (const Tensor& x : model.weights->tensors()) {
    hasher.Add({static_cast<const std::byte*>(x.raw()), static_cast<size_t>(x.bytes())});
  }
  return GptConfigToJson(model.weights->config()) + hasher.Hex() +
         (model.tokenizer ? model.tokenizer->hash() : "") +
         std::string(model.backend->description());
}

}  // namespace folio
