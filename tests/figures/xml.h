#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

struct XmlError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An element, or, where `name` is empty, a piece of text.
struct XmlNode {
  std::string name = {};
  std::map<std::string, std::string> attributes = {};
  std::string text = {};
  std::vector<XmlNode> children = {};

  // The attribute's value, or "".
  std::string Get(const std::string& attribute) const;
  // All text below, in its order.
  std::string AllText() const;
};

// The root element of a document. Strict: throws XmlError on anything that is not well-formed, on
// bytes that are not UTF-8, on document types and on entities other than the five of XML itself.
XmlNode ParseXml(std::string_view document);

// The document again, without the XML declaration.
std::string WriteXml(const XmlNode& node);

}  // namespace folio
