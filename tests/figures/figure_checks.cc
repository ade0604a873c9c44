#include "tests/figures/figure_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "tests/figures/xml.h"

namespace folio {
namespace {

// Black text of half opacity is as dark as this; where two texts meet it is darker by far.
constexpr int kDarkestText = 127, kTolerance = 30;
constexpr int kFewPixels = 3;  // of what may be an edge smoothed differently
constexpr double kZoom = 2;
constexpr int64_t kOutside = 100;  // pixels of the surroundings that are looked at

// Everything but groups and texts goes, and so does what would hide or paint these otherwise.
XmlNode TextsOnly(const XmlNode& node) {
  static const std::set<std::string> kKept = {"svg", "g", "text", "tspan", "style", ""};
  static const std::set<std::string> kDropped = {"mask", "clip-path", "filter", "opacity"};
  XmlNode copy = node;
  copy.children.clear();
  for (const std::string& attribute : kDropped) copy.attributes.erase(attribute);
  for (const XmlNode& child : node.children) {
    if (kKept.contains(child.name)) copy.children.push_back(TextsOnly(child));
  }
  return copy;
}

std::string BlackTexts(const XmlNode& root) {
  XmlNode copy = TextsOnly(root);
  XmlNode style{.name = "style"};
  style.children.push_back(
      {.text = "text{fill:#000!important;fill-opacity:.5!important;stroke:none!important;"
               "opacity:1!important}"});
  copy.children.push_back(style);
  return WriteXml(copy);
}

std::string WithSurroundings(const XmlNode& root, double width, double height) {
  XmlNode copy = root;
  const auto more = static_cast<double>(2 * kOutside);
  copy.attributes["viewBox"] =
      fmt::format("-{0} -{0} {1} {2}", kOutside, width + more, height + more);
  copy.attributes["width"] = fmt::format("{}", width + more);
  copy.attributes["height"] = fmt::format("{}", height + more);
  return WriteXml(copy);
}

void Collect(const XmlNode& node, const std::string& name, std::vector<std::string>& texts) {
  if (node.name == name) texts.push_back(node.AllText());
  for (const XmlNode& child : node.children) Collect(child, name, texts);
}

void CheckReferences(const XmlNode& root, std::vector<std::string>& faults) {
  std::set<std::string> ids, references;
  const auto visit = [&](const auto& self, const XmlNode& node) -> void {
    for (const auto& [name, value] : node.attributes) {
      if (name == "id" && !ids.insert(value).second) faults.push_back("id '" + value + "' twice");
      if (value.starts_with("url(#")) references.insert(value.substr(5, value.size() - 6));
      if (name.ends_with("href") && value.starts_with("#")) references.insert(value.substr(1));
      const bool outside = name.ends_with("href") && !value.starts_with("#");
      if (outside && !value.starts_with("data:")) faults.push_back("needs the file " + value);
    }
    for (const XmlNode& child : node.children) self(self, child);
  };
  visit(visit, root);
  for (const std::string& reference : references) {
    if (!ids.contains(reference)) faults.push_back("no element '" + reference + "'");
  }
}

void CheckLabels(const XmlNode& root, const std::vector<std::string>& labels,
                 std::vector<std::string>& faults) {
  std::vector<std::string> texts;
  Collect(root, "text", texts);
  std::string all;  // a title may go over several lines
  for (const std::string& text : texts) all += text + " ";
  for (const std::string& label : labels) {
    if (all.find(label) == std::string::npos) faults.push_back("no text '" + label + "'");
  }
}

// The pixel in the corner is of the page's colour.
void CheckInk(const Picture& picture, const char* mode, std::vector<std::string>& faults) {
  const uint32_t page = picture.Colour(0, 0);
  int64_t ink = 0;
  for (int64_t y = 0; y < picture.height; ++y) {
    for (int64_t x = 0; x < picture.width; ++x) ink += picture.Colour(x, y) != page;
  }
  if (ink < 20) faults.push_back(fmt::format("blank in {} mode", mode));
}

void CheckOverlap(const XmlNode& root, std::vector<std::string>& faults) {
  const Picture texts = Render(BlackTexts(root), kZoom);
  int64_t dark = 0, at_x = 0, at_y = 0;
  for (int64_t y = 0; y < texts.height; ++y) {
    for (int64_t x = 0; x < texts.width; ++x) {
      if (texts.At(x, y)[0] >= kDarkestText - kTolerance) continue;
      if (dark++ == 0) at_x = x, at_y = y;
    }
  }
  if (dark > kFewPixels) {
    faults.push_back(fmt::format("texts overlap at {} {} ({} pixels)",
                                 static_cast<double>(at_x) / kZoom,
                                 static_cast<double>(at_y) / kZoom, dark));
  }
}

void CheckBorder(const XmlNode& root, double width, double height,
                 std::vector<std::string>& faults) {
  const Picture picture = Render(WithSurroundings(root, width, height));
  const auto right = kOutside + std::llround(width), bottom = kOutside + std::llround(height);
  int64_t ink = 0, at_x = 0, at_y = 0;
  for (int64_t y = 0; y < picture.height; ++y) {
    for (int64_t x = 0; x < picture.width; ++x) {
      // Half a pixel of a line along the border is no fault.
      const bool inside = x >= kOutside - 1 && x <= right && y >= kOutside - 1 && y <= bottom;
      if (inside || picture.Colour(x, y) == 0xFFFFFF) continue;
      if (ink++ == 0) at_x = x - kOutside, at_y = y - kOutside;
    }
  }
  if (ink > 0) {
    faults.push_back(fmt::format("drawn beyond the border at {} {} ({} pixels)", at_x, at_y, ink));
  }
}

void CheckDrawing(std::string_view svg, const XmlNode& root, std::vector<std::string>& faults) {
  const double width = std::atof(root.Get("width").c_str());
  const double height = std::atof(root.Get("height").c_str());
  if (width <= 0 || height <= 0) {
    faults.push_back("declares no size");
    return;
  }
  if (root.Get("viewBox") != "0 0 " + root.Get("width") + " " + root.Get("height")) {
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

std::string CheckFigure(std::string_view svg, const std::vector<std::string>& labels) {
  std::vector<std::string> faults;
  try {
    const XmlNode root = ParseXml(svg);
    if (root.name != "svg") return "the root is not an svg element\n";
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
      try {
        CheckLabels(ParseXml(figures[i]), {*label}, none);
      } catch (const XmlError&) {
        none.push_back("unreadable");
      }
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
