#include "folio/train/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

std::optional<double> NumberOf(const Json& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return kInfinity;
  if (json == "-inf") return -kInfinity;
  return std::nullopt;
}

Json Numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(MetricJson(value));
  return json;
}

std::vector<double> NumbersOf(const Json& line, const char* key) {
  std::vector<double> values;
  if (!line.contains(key) || !line[key].is_array()) return values;
  for (const Json& value : line[key]) values.push_back(NumberOf(value).value_or(0));
  return values;
}

std::string ToLine(const StepMetrics& m) {
  Json json;
  json["step"] = m.step;
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = MetricJson(*value);
  };
  put("loss", m.loss);
  put("lr", m.lr);
  put("grad_norm", m.grad_norm);
  json["tokens"] = m.tokens;
  put("tokens_per_second", m.tokens_per_second);
  json["seconds"] = m.seconds;
  put("time", m.time);
  put("train_eval_loss", m.train_eval_loss);
  put("val_loss", m.val_loss);
  if (m.layer_norms) {
    json["grad_norms"] = Numbers(m.layer_norms->grad);
    json["update_norms"] = Numbers(m.layer_norms->update);
    json["weight_norms"] = Numbers(m.layer_norms->weight);
  }
  if (!m.rank_seconds.empty()) json["rank_seconds"] = Numbers(m.rank_seconds);
  const auto put_text = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  put_text("skipped", m.skipped);
  put_text("skipped_parameter", m.skipped_parameter);
  put_text("rolled_back", m.rolled_back);
  put_text("ended_by", m.ended_by);
  return json.dump() + "\n";
}

StepMetrics FromJson(const Json& json, const std::string& where) {
  StepMetrics m;
  const auto get = [&](const char* key) -> std::optional<double> {
    if (!json.contains(key)) return std::nullopt;
    return NumberOf(json[key]);
  };
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) {
    throw InputError(where + ": not a line of metrics", "it has no integer \"step\"");
  }
  m.step = json["step"].get<int64_t>();
  m.loss = get("loss");
  m.lr = get("lr");
  m.grad_norm = get("grad_norm");
  m.tokens = json.contains("tokens") && json["tokens"].is_number_integer()
                 ? json["tokens"].get<int64_t>()
                 : 0;
  m.tokens_per_second = get("tokens_per_second");
  m.seconds = get("seconds").value_or(0);
  m.time = get("time");
  m.train_eval_loss = get("train_eval_loss");
  m.val_loss = get("val_loss");
  if (json.contains("grad_norms")) {
    m.layer_norms = {.grad = NumbersOf(json, "grad_norms"),
                     .update = NumbersOf(json, "update_norms"),
                     .weight = NumbersOf(json, "weight_norms")};
  }
  if (json.contains("rank_seconds")) m.rank_seconds = NumbersOf(json, "rank_seconds");
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  m.skipped = text("skipped");
  m.skipped_parameter = text("skipped_parameter");
  m.rolled_back = text("rolled_back");
  m.ended_by = text("ended_by");
  return m;
}

StepMetrics FromLine(const std::string& line, const std::string& where) {
  const Json json = ParseJson(line, where);
  try {
    return FromJson(json, where);
  } catch (const JsonError& error) {  // of a number beyond 64 bits
    throw InputError(where + ": not a line of metrics", error.what());
  }
}

std::filesystem::path DirectoryOf(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// Reads a file that will be replaced, and so must not be a symbolic link.
std::string ReadOwn(const std::filesystem::path& file) {
  struct stat info = {};
  if (internal::HeldName(file).Stat(info) == 0 && S_ISLNK(info.st_mode)) {
    internal::ThrowCannotWrite(file, ELOOP);
  }
  return ReadFile(file, kMostLogBytes);
}

// Calls visit(line, where) for each complete line, with its line break, until it returns false.
template <class Visit>
void ForLines(const std::filesystem::path& path, const std::string& text, const Visit& visit) {
  size_t begin = 0;
  for (int64_t line = 1; begin < text.size(); ++line) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) return;
    const std::string where = fmt::format("{}:{}", path.string(), line);
    if (!visit(text.substr(begin, end + 1 - begin), where)) return;
    begin = end + 1;
  }
}

}  // namespace

Json MetricJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::vector<StepMetrics> ReadRunLog(const std::filesystem::path& run) {
  const std::filesystem::path path = run / kMetricsFile;
  std::vector<StepMetrics> all;
  ForLines(path, ReadFile(path, kMostLogBytes),
           [&](const std::string& line, const std::string& where) {
             all.push_back(FromLine(line, where));
             return true;
           });
  return all;
}

void RepairLines(const std::filesystem::path& file) {
  const GuardedDirectory inside(DirectoryOf(file));
  if (!internal::IsThere(file)) return;
  const std::filesystem::path aside =
      file.parent_path() / (file.stem().string() + ".damaged" + file.extension().string());
  const std::string text = ReadOwn(file);
  std::string sound, damaged;
  ForLines(file, text, [&](const std::string& line, const std::string& where) {
    try {
      FromLine(line, where);
      sound += line;
    } catch (const Error& error) {
      LogWarning(fmt::format("{}: damaged line, moved to {}", where, aside.filename().string()));
      damaged += line;
    }
    return true;
  });
  if (damaged.empty()) return;
  const bool before = internal::IsThere(aside);
  WriteFileAtomically(aside, (before ? ReadOwn(aside) : "") + damaged);
  WriteFileAtomically(file, sound + text.substr(sound.size() + damaged.size()));
}

void CutLines(const std::filesystem::path& file, int64_t end) {
  const GuardedDirectory inside(DirectoryOf(file));
  if (!internal::IsThere(file)) return;
  RepairLines(file);
  const std::string text = ReadOwn(file);
  size_t kept = 0;
  ForLines(file, text, [&](const std::string& line, const std::string& where) {
    const bool before = FromLine(line, where).step < end;
    if (before) kept += line.size();
    return before;
  });
  if (kept == text.size()) return;
  const internal::FileDescriptor fd(internal::OpenFile(file, O_WRONLY));
  if (fd.get() < 0 || ftruncate(fd.get(), static_cast<off_t>(kept)) != 0) {
    internal::ThrowCannotWrite(file, errno);
  }
}

RunLog::RunLog(const std::filesystem::path& run, int64_t first_step) {
  const GuardedDirectory inside(run);
  const std::filesystem::path path = run / kMetricsFile;
  if (first_step == 0) {
    WriteFileAtomically(path, "");
  } else {
    CutLines(path, first_step);
  }
  file_ = std::make_unique<LineFile>(path);
}

RunLog::~RunLog() = default;

void RunLog::Write(const StepMetrics& metrics) {
  file_->Write(ToLine(metrics));
}

void RunLog::Sync() {
  file_->Sync();
}

void RunLog::Finish() {
  file_->Finish();
}

}  // namespace folio
