#include "folio/commands/inspect/inspect_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/io/byte_input.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/text/encode_input.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> Encode(const OpenedModel& model, const std::string& text,
                            const std::string& where, const std::string& special) {
  const Tokenizer& tokenizer = model.RequireTokenizer(", or give tokens as ids: --ids 5,0,12");
  const SpecialRule rule = SpecialRule::Named(special);
  CheckSpecials(SpecialFinder(tokenizer.special_tokens(), rule), text, where);
  std::vector<int32_t> ids = tokenizer.Encode(text, where, rule);
  return ids.empty() ? ids : tokenizer.WithBeginning(std::move(ids));
}

ModelText Checked(const OpenedModel& model, std::string name, std::vector<int32_t> ids, bool tail,
                  bool any_length) {
  const int64_t P = model.weights->config().n_positions;
  const auto T = static_cast<int64_t>(ids.size());
  if (T == 0) throw InputError(fmt::format("{}: no tokens", name), {}, "give a text");
  if (T <= P || (any_length && !tail)) return {std::move(name), std::move(ids)};
  if (!tail) {
    throw InputError(fmt::format("{}: {} tokens are too many", name, T),
                     fmt::format("the context of the model is {} tokens (n_positions)", P),
                     fmt::format("shorten the text, or use its last {} tokens with --tail", P));
  }
  const auto before = model.tokenizer ? model.tokenizer->before() : std::span<const int32_t>();
  const int64_t kept = BeginsWith(ids, before) ? std::min(std::ssize(before), P - 1) : 0;
  ids.erase(ids.begin() + kept, ids.end() - (P - kept));
  return {std::move(name), std::move(ids), T - P};
}

// ".png" for "a.PNG"; "" for a name without an extension.
std::string KindOfFile(const std::string& path) {
  return LowerAscii(fs::path(path).extension().string());
}

// (T,T): a number is added to the score of its query and key, false hides the key.
std::vector<float> ReadMask(const std::string& path, int64_t T) {
  const auto refuse = [&](const std::string& found) {
    throw InputError(fmt::format("--mask {}: the mask does not match the text", path), found,
                     fmt::format("expected {0} arrays of {0} numbers, or of true and false", T));
  };
  constexpr uint64_t kNumberBytes = 32, kAround = 1 << 16;
  const auto most = static_cast<uint64_t>(T * T) * kNumberBytes + kAround;
  const Json rows = ParseJson(ReadFile(path, most), path);
  if (!rows.is_array() || std::ssize(rows) != T) {
    refuse(fmt::format("expected an array of {} rows, one for each token", T));
  }
  std::vector<float> mask;
  for (const Json& row : rows) {
    if (!row.is_array() || std::ssize(row) != T) {
      refuse(fmt::format("row {}: expected an array of {}", std::ssize(mask) / T, T));
    }
    for (const Json& key : row) {
      if (key.is_boolean()) {
        mask.push_back(key.get<bool>() ? 0 : -std::numeric_limits<float>::infinity());
      } else if (key.is_number()) {
        mask.push_back(static_cast<float>(key.get<double>()));
      } else {
        refuse(fmt::format("row {}: {} is neither a number nor true or false", std::ssize(mask) / T,
                           key.dump()));
      }
    }
  }
  return mask;
}

// "--text", or "--text 2" if there are several.
std::string Numbered(const std::string& flag, size_t i, size_t count) {
  return count == 1 ? flag : fmt::format("{} {}", flag, i + 1);
}

// Throws if the directory of figures for --svg `path` is not possible.
void RequireFigureDirectory(const std::string& path) {
  static const std::set<std::string> kFiles = {".svg", ".png", ".jpg", ".pdf", ".html", ".htm"};
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) return;
  const auto refuse = [&](const char* why, const char* help) {
    throw UsageError(fmt::format("--svg {}: {}", path, why), {}, help);
  };
  if (kFiles.contains(KindOfFile(path))) {
    refuse("expected a directory, not a file",
           "give a directory: there is one figure per part; --html FILE writes a single page");
  }
  if (path == "-") refuse("figures cannot be written to standard output", "give a directory");
  if (fs::exists(path, ignored)) {
    refuse("exists and is not a directory", "give a directory: there is one figure per part");
  }
}

}  // namespace

void TextFlags::Add(Flags& flags) {
  flags.List("--text", &texts, "the text", {.placeholder = "TEXT", .meant = " "});
  flags.List("--file", &files, "a file with the text; - for standard input",
             {.placeholder = "FILE"});
  flags.List("--ids", &ids, "the text as token ids: 5,0,12", {.placeholder = "IDS"});
  AddSpecialFlag(flags, &special);
  flags.Switch("--tail", &tail,
               "if the text is too long for the model, use its last tokens (and the token that "
               "begins texts)");
  flags.Value(Field{"mask", &mask,
                    "additional attention mask: JSON, one row per query, with true or false for "
                    "each key, or numbers to add to the scores"},
              {.placeholder = "FILE"});
}

std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags,
                                 TextLength length) {
  // A mask needs a row for each token in one window.
  const bool any_length = length == TextLength::kAny && flags.mask.empty();
  std::vector<ModelText> read;
  const auto add = [&](const std::string& name, std::vector<int32_t> ids) {
    read.push_back(Checked(model, name, std::move(ids), flags.tail, any_length));
  };
  for (size_t i = 0; i < flags.texts.size(); ++i) {
    const std::string name = Numbered("--text", i, flags.texts.size());
    add(name, Encode(model, flags.texts[i], name, flags.special));
  }
  for (const std::string& file : flags.files) {
    ByteInput input(file);
    const std::string name = input.name();
    add(name, Encode(model, ReadAll(std::move(input)), name, flags.special));
  }
  for (size_t i = 0; i < flags.ids.size(); ++i) {
    const std::string name = Numbered("--ids", i, flags.ids.size());
    add(name, ParseIds(flags.ids[i], name, model.weights->config().vocab_size));
  }
  if (read.empty()) {
    throw UsageError("no text given", {},
                     "use --text TEXT, --file FILE (- for standard input) or --ids 5,0");
  }
  if (!flags.mask.empty()) {
    if (read.size() > 1) {
      throw UsageError(fmt::format("--mask takes one text, {} are given", read.size()), {},
                       "remove --text, --file or --ids");
    }
    read[0].mask = ReadMask(flags.mask, std::ssize(read[0].ids));
  }
  return read;
}

ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command,
                      TextLength length) {
  if (flags.count() > 1) {
    throw UsageError(fmt::format("{} takes one text, {} are given", command, flags.count()), {},
                     "remove --text, --file or --ids");
  }
  return std::move(ReadTexts(model, flags, length).front());
}

void OutputFlags::Add(Flags& flags, const std::string& svg_help, const std::string& placeholder) {
  flags.Value(Field{"svg", &svg, svg_help}, {.placeholder = placeholder});
  flags.Value(Field{"html", &html, "write a page with figures and numbers; - for standard output"},
              {.placeholder = "FILE"});
}

void OutputFlags::Check(const Console& console) const {
  const std::string kind = KindOfFile(svg), page_kind = KindOfFile(html);
  if (directory) {
    RequireFigureDirectory(svg);
  } else if (!kind.empty() && kind != ".svg") {
    throw UsageError(
        fmt::format("--svg {}: figures are written as SVG, not {}", svg, kind.substr(1)), {},
        "use a name that ends in .svg; rsvg-convert FILE.svg -o FILE.png converts it to PNG");
  } else {
    RequireFileName("--svg", svg);
  }
  RefuseTogether(html == "-" && console.json(), "--html -", "--json");
  if (!page_kind.empty() && page_kind != ".html" && page_kind != ".htm") {
    throw UsageError(
        fmt::format("--html {}: pages are written as HTML, not {}", html, page_kind.substr(1)), {},
        page_kind == ".svg" ? "use a name that ends in .html, or --svg for figures"
                            : "use a name that ends in .html");
  }
  if (html != "-") RequireFileName("--html", html);
}

void OutputFlags::Show(Console& console, const Report& report) const {
  if (!svg.empty() || !html.empty()) CatchSignals();  // until the files are complete
  // Before stdout, whose reader may close it.
  if (!svg.empty()) {
    const auto figures = ReportFigures(report);
    if (directory) {
      CreateDirectories(svg);
      const GuardedDirectory inside(svg);
      for (const auto& [name, figure] : figures) WriteFileAtomically(fs::path(svg) / name, figure);
      console.Note(fmt::format("wrote {} {} to {}", figures.size(),
                               figures.size() == 1 ? "figure" : "figures", svg));
    } else {
      WriteFileAtomically(svg, figures.at(0).second);
      console.Note(fmt::format("wrote {}", svg));
    }
  }
  if (html == "-") {
    console.Bytes(ReportHtml(report));
  } else if (!html.empty()) {
    WriteFileAtomically(html, ReportHtml(report));
    console.Note(fmt::format("wrote {}", html));
  }
  if (console.json()) {
    console.Result(ReportJson(report));
  } else if (html.empty() && !(svg_alone && !svg.empty())) {
    console.Result(ReportText(report, console.out()));
  }
}

void ViewFlags::Add(Flags& flags) {
  AddModel(flags);
  text.Add(flags);
}

void ViewFlags::AddModel(Flags& flags) {
  model.AddModel(flags);
  model.AddCompute(flags);
}

OpenedModel ViewFlags::Open(Console& console) const {
  CatchSignals();
  output.Check(console);
  return model.Open(console);
}

void CheckIndex(const std::string& what, std::optional<int64_t> index, int64_t count) {
  if (!index || *index < count) return;
  throw UsageError(fmt::format("--{0} {1}: no such {0}", what, *index),
                   fmt::format("the model has {}, 0 to {}", count, count - 1));
}

std::vector<int64_t> ParsePositions(const std::string& list, int64_t T) {
  std::vector<int64_t> positions;
  if (list.empty() || list == "all") {
    const int64_t first = list.empty() ? std::max<int64_t>(T - kDefaultPositions, 0) : 0;
    positions.resize(static_cast<size_t>(T - first));
    std::iota(positions.begin(), positions.end(), first);
    return positions;
  }
  for (const std::string& part : Split(list, ',')) {
    int64_t position = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), position);
    if (problem != std::errc() || end != part.data() + part.size() || position < -T ||
        position >= T) {
      throw UsageError(
          fmt::format("--positions: '{}' is not a position of the text", part),
          fmt::format("it has {} tokens: 0 to {}, or -{} to -1 from the end", T, T - 1, T),
          "give numbers separated by commas, or all");
    }
    if (position < 0) position += T;
    if (std::ranges::find(positions, position) == positions.end()) positions.push_back(position);
  }
  return positions;
}

}  // namespace folio
