#include "tests/figures/xml.h"

#include <fmt/format.h>

#include <cstdint>

namespace folio {
namespace {

bool NameStart(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || byte >= 0x80;
}

bool NameCharacter(char c) {
  return NameStart(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

bool Space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool Allowed(uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return !(code >= 0xD800 && code < 0xE000) && code != 0xFFFE && code != 0xFFFF && code <= 0x10FFFF;
}

std::string Utf8(uint32_t code) {
  std::string bytes;
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static constexpr int kLead[] = {0, 0xC0, 0xE0, 0xF0};
  bytes += static_cast<char>(kLead[more] | static_cast<int>(code >> 6 * more));
  for (int i = more - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
  return bytes;
}

void CheckCharacters(std::string_view document) {
  for (size_t at = 0; at < document.size();) {
    const auto lead = static_cast<unsigned char>(document[at]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
    bool valid = lead < 0x80 || (lead >= 0xC2 && lead < 0xF5 && at + bytes <= document.size());
    for (size_t i = 1; valid && i < bytes; ++i) {
      const auto next = static_cast<unsigned char>(document[at + i]);
      valid = (next & 0xC0) == 0x80;
      code = code << 6 | (next & 0x3F);
    }
    static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!valid || code < kSmallest[bytes] || !Allowed(code)) {
      throw XmlError(fmt::format("byte {}: no character of XML", at));
    }
    at += bytes;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view document) : text_(document) {}

  XmlNode Document() {
    CheckCharacters(text_);
    if (Take("<?xml")) {
      at_ = Find("?>") + 2;
    }
    SkipMisc();
    XmlNode root = Element();
    SkipMisc();
    if (at_ != text_.size()) Fail("something after the root element");
    return root;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw XmlError(fmt::format("byte {}: {}", at_, what));
  }
  bool Take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void Expect(std::string_view token) {
    if (!Take(token)) Fail(fmt::format("'{}' expected", token));
  }
  size_t Find(std::string_view token) const {
    const size_t found = text_.find(token, at_);
    if (found == std::string_view::npos) Fail(fmt::format("no '{}'", token));
    return found;
  }
  bool SkipSpace() {
    const size_t begin = at_;
    while (at_ < text_.size() && Space(text_[at_])) ++at_;
    return at_ > begin;
  }
  bool SkipComment() {
    if (!Take("<!--")) return false;
    at_ = Find("--");
    Expect("-->");
    return true;
  }
  void SkipMisc() {
    while (SkipSpace() || SkipComment()) {
    }
  }

  std::string Name() {
    const size_t begin = at_;
    if (at_ == text_.size() || !NameStart(text_[at_])) Fail("a name expected");
    while (at_ < text_.size() && NameCharacter(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string Reference() {
    static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
        {"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", "\""}, {"apos;", "'"}};
    for (const auto& [entity, character] : kEntities) {
      if (Take(entity)) return std::string(character);
    }
    Expect("#");
    const uint32_t base = Take("x") ? 16 : 10;
    uint32_t code = 0;
    const size_t end = Find(";");
    if (end == at_ || end - at_ > 7) Fail("no character's number");
    for (; at_ < end; ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      if (digit >= static_cast<int>(base)) Fail("no digit");
      code = code * base + static_cast<uint32_t>(digit);
    }
    Expect(";");
    if (!Allowed(code) || code == 0) Fail("no character of XML");
    return Utf8(code);
  }

  std::string Characters(std::string_view ends) {
    std::string result;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] == '<') Fail("'<' in a value");
      if (text_.substr(at_).starts_with("]]>")) Fail("']]>' in text");
      if (Take("&")) {
        result += Reference();
      } else {
        result += text_[at_++];
      }
    }
    if (at_ == text_.size()) Fail("the document ends too early");
    return result;
  }

  XmlNode Element() {
    if (++depth_ > 200) Fail("nested too deeply");
    Expect("<");
    XmlNode node;
    node.name = Name();
    while (true) {
      const bool space = SkipSpace();
      if (Take("/>")) break;
      if (Take(">")) {
        Content(node);
        break;
      }
      if (!space) Fail("a space before an attribute expected");
      const std::string name = Name();
      Expect("=");
      const std::string quote = Take("'") ? "'" : "\"";
      if (quote == "\"") Expect("\"");
      if (!node.attributes.emplace(name, Characters(quote)).second) {
        Fail(fmt::format("attribute '{}' twice", name));
      }
      Expect(quote);
    }
    --depth_;
    return node;
  }

  void Content(XmlNode& node) {
    while (true) {
      if (SkipComment()) continue;
      if (Take("</")) {
        if (const std::string name = Name(); name != node.name) {
          Fail(fmt::format("'{}' closed as '{}'", node.name, name));
        }
        SkipSpace();
        return Expect(">");
      }
      if (text_.substr(at_).starts_with("<")) {
        node.children.push_back(Element());
      } else {
        node.children.push_back({.text = Characters("<")});
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string Escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

std::string XmlNode::Get(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? "" : found->second;
}

std::string XmlNode::AllText() const {
  std::string all = text;
  for (const XmlNode& child : children) all += child.AllText();
  return all;
}

XmlNode ParseXml(std::string_view document) {
  return Parser(document).Document();
}

std::string WriteXml(const XmlNode& node) {
  if (node.name.empty()) return Escaped(node.text);
  std::string result = "<" + node.name;
  for (const auto& [name, value] : node.attributes) {
    result += fmt::format(" {}=\"{}\"", name, Escaped(value));
  }
  result += ">";
  for (const XmlNode& child : node.children) result += WriteXml(child);
  return result + "</" + node.name + ">";
}

}  // namespace folio
