#include "folio/plot/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "folio/base/check.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

// The page's colours are those of the figures (svg.cc).
constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1b1b1b;--muted:#5a5a5a;--line:#d6d8dc;
--code:#f4f5f7;--link:#0060a0}
@media (prefers-color-scheme:dark){:root{--page:#16181c;--ink:#ececec;--muted:#a9adb3;
--line:#3a3f47;--code:#1f2329;--link:#6ab7ee}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:54rem;background:var(--page);
color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",
sans-serif;overflow-wrap:break-word}
h1,h2,h3,h4{line-height:1.25;margin:2.2em 0 .6em}
h1{font-size:1.8rem;margin-top:0}h2{font-size:1.35rem}h3{font-size:1.1rem}h4{font-size:1rem}
p{margin:0 0 1em;max-width:44rem}
a{color:var(--link)}
code,pre{font:.875rem/1.5 ui-monospace,"SF Mono",Consolas,"DejaVu Sans Mono",monospace}
pre{margin:0 0 1.2em;padding:.8em 1em;background:var(--code);border-radius:6px;overflow-x:auto}
figure{margin:1.6em 0 1.6em 50%;width:max-content;min-width:100%;max-width:calc(100vw - 3.5rem);
transform:translateX(-50%);overflow-x:auto}
figure svg{display:block}
figcaption{margin-top:.5em;color:var(--muted);font-size:.9rem;max-width:44rem}
.table{width:max-content;max-width:100%;max-height:32rem;overflow:auto;margin:0 0 1.2em}
table{border-collapse:separate;border-spacing:0;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3em .8em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
white-space:nowrap}
th{font-weight:600;background:var(--page)}
th[scope=col]{position:sticky;top:0;z-index:1}th[scope=row]{position:sticky;left:0}
nav{margin:0 0 1.6em;font-size:.9rem}nav ul{margin:0;padding:0;columns:16rem;list-style:none}
nav li{break-inside:avoid;padding-left:1.5rem;text-indent:-1rem}
nav .l2{padding-left:1rem;font-weight:600}
td.number,th.number{text-align:right}
)";

// A slug stands in an address for a heading.
std::string Slug(std::string_view text) {
  std::string slug;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "section" : slug;
}

// The tags of `svg` with `prefix` before every id and every reference to one.
std::string WithPrefixedIds(std::string_view svg, std::string_view prefix) {
  static constexpr std::string_view kPlaces[] = {" id=\"", "url(#", "href=\"#"};
  std::string result;
  bool in_tag = false;
  for (size_t at = 0; at < svg.size();) {
    std::string_view found = svg.substr(at, 1);
    in_tag = found == "<" || (in_tag && found != ">");
    for (const std::string_view place : kPlaces) {
      if (in_tag && svg.substr(at).starts_with(place)) found = place;
    }
    result += found;
    if (found.size() > 1) result += prefix;
    at += found.size();
  }
  return result;
}

}  // namespace

void HtmlPage::Heading(int level, std::string_view text) {
  FOLIO_CHECK(level >= 1 && level <= 4, "no such level of headings");
  const std::string slug = Slug(text);
  std::string anchor = slug;
  const auto taken = [&](const Section& section) { return section.anchor == anchor; };
  for (int i = 2; std::any_of(sections_.begin(), sections_.end(), taken); ++i) {
    anchor = fmt::format("{}-{}", slug, i);
  }
  if (level > 1 && contents_at_ == 0) contents_at_ = body_.size();
  sections_.push_back({level, anchor, std::string(text)});
  body_ += fmt::format("<h{0} id=\"{1}\">{2}</h{0}>\n", level, anchor, XmlEscape(text));
}

void HtmlPage::Paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", XmlEscape(text));
}

void HtmlPage::Code(std::string_view text) {
  // A browser drops one line break after the tag.
  body_ += fmt::format("<pre>\n{}</pre>\n", XmlEscape(text));
}

void HtmlPage::Html(std::string_view markup) {
  body_ += markup;
  body_ += '\n';
}

void HtmlPage::Table(std::span<const std::string> columns,
                     std::span<const std::vector<std::string>> rows) {
  std::vector<const char*> classes;
  body_ += "<div class=\"table\"><table><thead><tr>";
  for (const std::string& column : columns) {
    const bool number = column.starts_with('>');
    classes.push_back(number ? " class=\"number\"" : "");
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", classes.back(),
                         XmlEscape(column.substr(number ? 1 : 0)));
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    FOLIO_CHECK(row.size() == columns.size(), "a row has a cell for each column");
    body_ += fmt::format("<tr><th scope=\"row\"{}>{}</th>", classes[0], XmlEscape(row[0]));
    for (size_t c = 1; c < row.size(); ++c) {
      body_ += fmt::format("<td{}>{}</td>", classes[c], XmlEscape(row[c]));
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::Figure(std::string_view svg, std::string_view caption) {
  const size_t begin = svg.find("<svg");
  FOLIO_CHECK(begin != std::string_view::npos, "a figure is no SVG document");
  ++figures_;
  // No heading's anchor has a point.
  body_ += "<figure>\n" + WithPrefixedIds(svg.substr(begin), fmt::format("figure{}.", figures_));
  if (!caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>\n", XmlEscape(caption));
  body_ += "</figure>\n";
}

std::string HtmlPage::Contents() const {
  constexpr int kFewest = 3;
  int count = 0;
  std::string list;
  for (const Section& section : sections_) {
    if (section.level != 2 && section.level != 3) continue;
    list += fmt::format("<li class=\"l{}\"><a href=\"#{}\">{}</a></li>\n", section.level,
                        section.anchor, XmlEscape(section.text));
    ++count;
  }
  if (count < kFewest) return "";
  return fmt::format("<nav aria-label=\"contents\"><ul>\n{}</ul></nav>\n", list);
}

std::string HtmlPage::Finish() && {
  body_.insert(contents_at_, Contents());
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      XmlEscape(title_), kPageStyle, body_);
}

}  // namespace folio
