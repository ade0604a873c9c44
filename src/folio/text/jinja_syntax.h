#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/jinja_value.h"

namespace folio::jinja {

enum class NodeKind {
  // Expressions. [] lists the node's parts; `name` and `names` are members of Node.
  kConstant,    // `constant`
  kName,        // `name`
  kList,        // [items]
  kTuple,       // [items]
  kMapping,     // [name, value, name, value...]
  kAttribute,   // [object], `name`
  kItem,        // [object, index]
  kSlice,       // [object, begin or null, end or null, step or null]
  kCall,        // [what, arguments]; the last names.size() arguments are those of `names`
  kFilter,      // [subject, arguments], `name`, `names` as for a call
  kTest,        // the same
  kNot,         // [operand]
  kNegative,    // [operand]
  kPositive,    // [operand]
  kArithmetic,  // [left, right], `name` is + - ~ * / // %
  kCompare,     // [first, second, third...], `names` are the operators between them
  kAnd,         // [left, right]
  kOr,          // [left, right]
  kChoice,      // [condition, one, other or null]
  // Statements.
  kSequence,  // [statements]
  kText,      // `constant`
  kOutput,    // [expression]
  kIf,        // [condition, sequence, condition, sequence..., sequence of else]
  kFor,    // [elements, filter or null, sequence, sequence of else or null], `names` of variables
  kSet,    // [expression or sequence]: `name`, or the attribute names[0] of that namespace
  kMacro,  // [sequence, defaults]: `name`, parameters `names`, the last of which have defaults
  kGeneration,  // [sequence]
  kBreak,
  kContinue,
};

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Node {
  NodeKind kind;
  int line;
  int depth;  // of the tree below
  std::string name = {};
  std::vector<std::string> names = {};
  Value constant = None{};
  std::vector<NodePtr> parts = {};

  bool IsSequence(size_t part) const { return parts[part]->kind == NodeKind::kSequence; }
};

// The tree of a template, a kSequence, with blanks around tags removed like jinja2's trim_blocks
// and lstrip_blocks do. Throws a kInput Error, with `where` and the line, for text that is no
// template, and for statements and operators that no known template uses. Filters and tests are
// looked up during rendering, like in jinja2.
NodePtr ParseTemplate(std::string_view source, const std::string& where);

}  // namespace folio::jinja
