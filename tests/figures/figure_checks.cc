#include "tests/figures/figure_checks.h"

#include <fmt/format.h>
#include <png.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

namespace folio {
namespace {

// Deleted with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    path_ = std::filesystem::temp_directory_path() / "folio-figure-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Picture ReadPng(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Picture picture;
  bool read = png_image_begin_read_from_file(&image, path.c_str()) != 0;
  if (read) {
    image.format = PNG_FORMAT_RGB;
    picture.width = image.width;
    picture.height = image.height;
    picture.pixels.resize(PNG_IMAGE_SIZE(image));
    read = png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) != 0;
  }
  const std::string message = image.message;
  png_image_free(&image);
  if (!read) throw std::runtime_error(path + ": " + message);
  return picture;
}

// Black text at half opacity is this dark; where two texts overlap it is much darker.
constexpr int kDarkestText = 127, kTolerance = 30;
constexpr int kFewPixels = 3;  // edges may be antialiased differently
constexpr double kZoom = 2;
constexpr int64_t kOutside = 100;  // pixels of the surroundings that are checked

using Xml = pugi::xml_node;

// Returns true if the document can be parsed and has no document type. rsvg-convert, whose strict
// parser runs later, refuses other malformed documents.
bool Read(std::string_view svg, pugi::xml_document& document) {
  const auto result = document.load_buffer(
      svg.data(), svg.size(), pugi::parse_default | pugi::parse_doctype | pugi::parse_ws_pcdata);
  const auto is_doctype = [](Xml node) { return node.type() == pugi::node_doctype; };
  return result && !document.find_child(is_doctype);
}

pugi::xml_document Copy(Xml root) {
  pugi::xml_document copy;
  copy.append_copy(root);
  return copy;
}

std::string Written(const pugi::xml_document& document) {
  std::ostringstream text;
  document.save(text, "", pugi::format_raw | pugi::format_no_declaration);
  return text.str();
}

// Removes everything but groups and texts, and whatever would hide or paint these otherwise.
void KeepTexts(Xml node) {
  static const std::set<std::string_view> kKept = {"svg", "g", "text", "tspan", "style", ""};
  for (const char* name : {"mask", "clip-path", "filter", "opacity"}) node.remove_attribute(name);
  for (Xml child = node.first_child(), next; child; child = next) {
    next = child.next_sibling();
    if (kKept.contains(child.name())) {
      KeepTexts(child);
    } else {
      node.remove_child(child);
    }
  }
}

std::string BlackTexts(Xml root) {
  const pugi::xml_document copy = Copy(root);
  KeepTexts(copy.document_element());
  copy.document_element().append_child("style").text() =
      "text{fill:#000!important;fill-opacity:.5!important;stroke:none!important;"
      "opacity:1!important}";
  return Written(copy);
}

std::string WithSurroundings(Xml root, double width, double height) {
  const pugi::xml_document copy = Copy(root);
  const auto more = static_cast<double>(2 * kOutside);
  const std::string w = fmt::format("{}", width + more), h = fmt::format("{}", height + more);
  copy.document_element().attribute("viewBox") =
      fmt::format("-{0} -{0} {1} {2}", kOutside, w, h).c_str();
  copy.document_element().attribute("width") = w.c_str();
  copy.document_element().attribute("height") = h.c_str();
  return Written(copy);
}

std::string AllText(Xml node) {
  std::string text = node.value();
  for (const Xml child : node) text += AllText(child);
  return text;
}

void CheckReferences(Xml root, std::vector<std::string>& faults) {
  std::set<std::string> ids, references;
  const auto visit = [&](const auto& self, Xml node) -> void {
    for (const pugi::xml_attribute attribute : node.attributes()) {
      const std::string name = attribute.name(), value = attribute.value();
      if (name == "id" && !ids.insert(value).second) faults.push_back("id '" + value + "' twice");
      if (value.starts_with("url(#")) references.insert(value.substr(5, value.size() - 6));
      if (name.ends_with("href") && value.starts_with("#")) references.insert(value.substr(1));
      const bool outside = name.ends_with("href") && !value.starts_with("#");
      if (outside && !value.starts_with("data:")) faults.push_back("needs the file " + value);
    }
    for (const Xml child : node) self(self, child);
  };
  visit(visit, root);
  for (const std::string& reference : references) {
    if (!ids.contains(reference)) faults.push_back("no element '" + reference + "'");
  }
}

void CheckLabels(Xml root, const std::vector<std::string>& labels,
                 std::vector<std::string>& faults) {
  std::string all;  // a title may go over several lines
  for (const auto& text : root.select_nodes("descendant-or-self::text"))
    all += AllText(text.node()) + " ";
  for (const std::string& label : labels) {
    if (all.find(label) == std::string::npos) faults.push_back("no text '" + label + "'");
  }
}

// The corner pixel has the page's colour.
void CheckInk(const Picture& picture, const char* mode, std::vector<std::string>& faults) {
  const uint32_t page = picture.Colour(0, 0);
  int64_t ink = 0;
  for (int64_t y = 0; y < picture.height; ++y) {
    for (int64_t x = 0; x < picture.width; ++x) ink += picture.Colour(x, y) != page;
  }
  if (ink < 20) faults.push_back(fmt::format("blank in {} mode", mode));
}

void CheckOverlap(Xml root, std::vector<std::string>& faults) {
  const Picture texts = Render(BlackTexts(root), kZoom);
  int64_t dark = 0, at_x = 0, at_y = 0;
  for (int64_t y = 0; y < texts.height; ++y) {
    for (int64_t x = 0; x < texts.width; ++x) {
      if (texts.At(x, y)[0] >= kDarkestText - kTolerance) continue;
      if (dark++ > 0) continue;
      at_x = x;
      at_y = y;
    }
  }
  if (dark > kFewPixels) {
    faults.push_back(fmt::format("texts overlap at {} {} ({} pixels)",
                                 static_cast<double>(at_x) / kZoom,
                                 static_cast<double>(at_y) / kZoom, dark));
  }
}

void CheckBorder(Xml root, double width, double height, std::vector<std::string>& faults) {
  const Picture picture = Render(WithSurroundings(root, width, height));
  const auto right = kOutside + std::llround(width), bottom = kOutside + std::llround(height);
  int64_t ink = 0, at_x = 0, at_y = 0;
  for (int64_t y = 0; y < picture.height; ++y) {
    for (int64_t x = 0; x < picture.width; ++x) {
      // Half a pixel of a line along the border is allowed.
      const bool inside = x >= kOutside - 1 && x <= right && y >= kOutside - 1 && y <= bottom;
      if (inside || picture.Colour(x, y) == 0xFFFFFF) continue;
      if (ink++ > 0) continue;
      at_x = x - kOutside;
      at_y = y - kOutside;
    }
  }
  if (ink > 0) {
    faults.push_back(fmt::format("drawn beyond the border at {} {} ({} pixels)", at_x, at_y, ink));
  }
}

void CheckDrawing(std::string_view svg, Xml root, std::vector<std::string>& faults) {
  const double width = std::atof(root.attribute("width").value());
  const double height = std::atof(root.attribute("height").value());
  if (width <= 0 || height <= 0) {
    faults.push_back("declares no size");
    return;
  }
  if (root.attribute("viewBox").value() !=
      fmt::format("0 0 {} {}", root.attribute("width").value(), root.attribute("height").value())) {
    faults.push_back("the view box is not of the declared size");
  }
  const Picture picture = Render(svg);
  if (std::abs(static_cast<double>(picture.width) - width) >= 1 ||
      std::abs(static_cast<double>(picture.height) - height) >= 1) {
    faults.push_back(fmt::format("declared as {} x {}, drawn as {} x {}", width, height,
                                 picture.width, picture.height));
  }
  CheckInk(picture, "light", faults);
  if (svg.find("prefers-color-scheme:dark") == std::string_view::npos) {
    faults.push_back("knows no dark mode");
  } else {
    CheckInk(Render(InDarkMode(svg)), "dark", faults);
  }
  CheckOverlap(root, faults);
  CheckBorder(root, width, height, faults);
}

// Sorted.
std::vector<std::string> AllIds(std::string_view html) {
  static constexpr std::string_view kBegin = " id=\"";
  std::vector<std::string> ids;
  for (size_t at = 0; (at = html.find(kBegin, at)) != std::string_view::npos;) {
    at += kBegin.size();
    ids.emplace_back(html.substr(at, html.find('"', at) - at));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

const uint8_t* Picture::At(int64_t x, int64_t y) const {
  if (x < 0 || y < 0 || x >= width || y >= height) throw std::out_of_range("outside of a picture");
  return pixels.data() + 3 * (y * width + x);
}

uint32_t Picture::Colour(int64_t x, int64_t y) const {
  const uint8_t* rgb = At(x, y);
  return static_cast<uint32_t>(rgb[0] << 16 | rgb[1] << 8 | rgb[2]);
}

std::string WhyNoRenderer() {
#if defined(FOLIO_SANITIZE)
  return "figures are looked at in the build without sanitizers: rsvg-convert is not under test";
#else
  static const bool found = std::system("rsvg-convert --version >/dev/null 2>&1") == 0;
  return found ? "" : "rsvg-convert is not installed (Debian: librsvg2-bin)";
#endif
}

Picture Render(std::string_view svg, double zoom) {
  const ScratchDirectory scratch;
  const std::string input = scratch.path() + "/figure.svg", output = scratch.path() + "/figure.png";
  std::ofstream(input, std::ios::binary) << svg;
  const std::string command = fmt::format(
      "rsvg-convert --background-color=white --zoom={} '{}' -o '{}'", zoom, input, output);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("rsvg-convert failed");
  return ReadPng(output);
}

std::string InDarkMode(std::string_view svg) {
  static constexpr std::string_view kQuery = "@media (prefers-color-scheme:dark){";
  std::string result(svg);
  const size_t begin = result.find(kQuery);
  if (begin == std::string::npos) throw std::runtime_error("the figure has no dark mode");
  size_t end = begin + kQuery.size();
  for (int open = 1; open > 0; ++end) {
    if (end == result.size()) throw std::runtime_error("a media query does not end");
    open += result[end] == '{' ? 1 : result[end] == '}' ? -1 : 0;
  }
  result.erase(end - 1, 1);
  return result.erase(begin, kQuery.size());
}

std::string CheckFigure(std::string_view svg, const std::vector<std::string>& labels) {
  std::vector<std::string> faults;
  try {
    pugi::xml_document document;
    if (!Read(svg, document)) faults.push_back("not well-formed");
    const Xml root = document.document_element();
    if (root.name() != std::string_view("svg")) return "the root is not an svg element\\n";
    CheckReferences(root, faults);
    CheckLabels(root, labels, faults);
    CheckDrawing(svg, root, faults);
  } catch (const std::exception& error) {
    faults.push_back(error.what());
  }
  std::string lines;
  for (const std::string& fault : faults) lines += fault + "\n";
  return lines;
}

std::vector<std::string> FiguresOf(std::string_view html) {
  static constexpr std::string_view kEnd = "</svg>";
  std::vector<std::string> figures;
  for (size_t at = 0; (at = html.find("<svg", at)) != std::string_view::npos;) {
    const size_t end = html.find(kEnd, at);
    if (end == std::string_view::npos) break;
    figures.emplace_back(html.substr(at, end + kEnd.size() - at));
    at = end;
  }
  return figures;
}

std::string CheckPage(std::string_view html, const std::vector<std::string>& labels) {
  const std::vector<std::string> figures = FiguresOf(html);
  std::string faults = figures.empty() ? "the page has no figure\n" : "";
  std::set<std::string> missing(labels.begin(), labels.end());
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::string own = CheckFigure(figures[i], {});
    if (!own.empty()) faults += fmt::format("figure {}: {}", i + 1, own);
    for (auto label = missing.begin(); label != missing.end();) {
      std::vector<std::string> none;
      pugi::xml_document document;
      Read(figures[i], document);
      CheckLabels(document.document_element(), {*label}, none);
      label = none.empty() ? missing.erase(label) : std::next(label);
    }
  }
  const std::vector<std::string> ids = AllIds(html);
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] == ids[i - 1]) faults += "id '" + ids[i] + "' twice in the page\n";
  }
  for (const std::string& label : missing) faults += "no text '" + label + "' in any figure\n";
  return faults;
}

}  // namespace folio
