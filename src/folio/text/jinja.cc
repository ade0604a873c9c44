#include "folio/text/jinja.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "folio/text/jinja_builtins.h"

namespace folio::jinja {
namespace {

// The state of a loop that its body can read.
struct Loop {
  const std::vector<Value>& items;
  size_t at = 0;
};

// The variables of the template, of one turn of a loop, of a call of a macro, or of a block.
struct Scope {
  Scope* outer = nullptr;
  const Loop* loop = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables = {};
};

enum class Flow { kOn, kBreak, kContinue };

class Renderer {
 public:
  Renderer(Variables variables, const std::tm& now, Meter& meter) : meter_(meter), now_(now) {
    top_.variables = {{"namespace", Function::kNamespace},
                      {"range", Function::kRange},
                      {"raise_exception", Function::kRaiseException},
                      {"strftime_now", Function::kStrftimeNow}};
    top_.variables.insert(top_.variables.end(), variables.begin(), variables.end());
  }

  Text Output(const Node& tree) {
    TextBuilder out(meter_);
    Run(tree, top_, out);
    return out.text();
  }

 private:
  // Enters a node for as long as it exists.
  class Deeper {
   public:
    Deeper(Renderer& renderer, const Node& node) : renderer_(renderer) {
      renderer.meter_.line = node.line;
      renderer.meter_.Work(kWorkOfNode);
      if (++renderer.depth_ <= kMostNesting) return;
      --renderer.depth_;
      renderer.meter_.Fail(fmt::format("its calls and blocks nest deeper than {}", kMostNesting));
    }
    Deeper(const Deeper&) = delete;
    ~Deeper() { --renderer_.depth_; }

   private:
    Renderer& renderer_;
  };

  // Statements.

  Flow Run(const Node& node, Scope& scope, TextBuilder& out) {
    const Deeper deeper(*this, node);
    switch (node.kind) {
      case NodeKind::kSequence:
        for (const NodePtr& part : node.parts) {
          if (const Flow flow = Run(*part, scope, out); flow != Flow::kOn) return flow;
        }
        return Flow::kOn;
      case NodeKind::kText:
        out.Add(*TextOf(node.constant));
        return Flow::kOn;
      case NodeKind::kOutput:
        Print(meter_, Evaluate(*node.parts[0], scope), out);
        return Flow::kOn;
      case NodeKind::kIf:
        return RunIf(node, scope, out);
      case NodeKind::kFor:
        return RunFor(node, scope, out);
      case NodeKind::kSet:
        Set(node, scope);
        return Flow::kOn;
      case NodeKind::kMacro:
        Assign(scope, node.name, &node);
        return Flow::kOn;
      case NodeKind::kGeneration: {
        Text text = Captured(*node.parts[0], scope);
        for (Char& c : text) c |= kGenerated;
        out.Add(text);
        return Flow::kOn;
      }
      case NodeKind::kBreak:
        return Flow::kBreak;
      default:
        return Flow::kContinue;
    }
  }

  Flow RunIf(const Node& node, Scope& scope, TextBuilder& out) {
    size_t part = 0;
    for (; part + 1 < node.parts.size(); part += 2) {
      if (IsTrue(Evaluate(*node.parts[part], scope))) return Run(*node.parts[part + 1], scope, out);
    }
    return part < node.parts.size() ? Run(*node.parts[part], scope, out) : Flow::kOn;
  }

  Flow RunFor(const Node& node, Scope& scope, TextBuilder& out) {
    std::vector<Value> items = Elements(meter_, Evaluate(*node.parts[0], scope));
    if (node.parts[1] != nullptr) {
      std::vector<Value> kept;
      for (Value& item : items) {
        Scope of_item{.outer = &scope};
        AssignItem(node, item, of_item);
        if (IsTrue(Evaluate(*node.parts[1], of_item))) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty() && node.parts[3] != nullptr) return Run(*node.parts[3], scope, out);
    Loop loop{.items = items};
    for (; loop.at < items.size(); ++loop.at) {
      meter_.line = node.line;
      Scope turn{.outer = &scope, .loop = &loop};
      AssignItem(node, items[loop.at], turn);
      if (Run(*node.parts[2], turn, out) == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  void AssignItem(const Node& node, const Value& item, Scope& scope) {
    if (node.names.size() == 1) return Assign(scope, node.names[0], item);
    const std::vector<Value> parts = Elements(meter_, item);
    if (parts.size() != node.names.size()) {
      meter_.Fail(fmt::format("{} has {} elements for {} names", Describe(item), parts.size(),
                              node.names.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) Assign(scope, node.names[i], parts[i]);
  }

  void Set(const Node& node, Scope& scope) {
    Value value = node.IsSequence(0) ? MakeText(meter_, Captured(*node.parts[0], scope))
                                     : Evaluate(*node.parts[0], scope);
    if (node.names.empty()) return Assign(scope, node.name, std::move(value));
    const Value* found = Find(scope, node.name);
    const auto* space = found == nullptr ? nullptr : std::get_if<std::shared_ptr<Namespace>>(found);
    if (space == nullptr) meter_.Fail(fmt::format("'{}' is not a namespace", node.name));
    SetAttribute(**space, node.names[0], std::move(value));
  }

  void SetAttribute(Namespace& space, std::string_view name, Value value) {
    if (std::holds_alternative<std::shared_ptr<Namespace>>(value)) {
      meter_.Fail("a namespace cannot contain a namespace");
    }
    space.Set(meter_, name, std::move(value));
  }

  // The output of a block, which has variables of its own.
  Text Captured(const Node& sequence, Scope& scope) {
    Scope inner{.outer = &scope};
    TextBuilder out(meter_);
    Run(sequence, inner, out);
    return out.text();
  }

  // Variables.

  using Variable = std::pair<std::string_view, Value>;

  void Assign(Scope& scope, std::string_view name, Value value) {
    meter_.Look(name, scope.variables.size());
    const auto same = std::ranges::find(scope.variables, name, &Variable::first);
    if (same == scope.variables.end()) {
      scope.variables.emplace_back(name, std::move(value));
    } else {
      same->second = std::move(value);
    }
  }

  const Value* Find(const Scope& scope, std::string_view name) const {
    for (const Scope* one = &scope; one != nullptr; one = one->outer) {
      meter_.Look(name, one->variables.size());
      const auto found = std::ranges::find(one->variables, name, &Variable::first);
      if (found != one->variables.end()) return &found->second;
    }
    return nullptr;
  }

  static const Loop* LoopAround(const Scope& scope) {
    const Scope* one = &scope;
    while (one != nullptr && one->loop == nullptr) one = one->outer;
    return one == nullptr ? nullptr : one->loop;
  }

  // loop.first and the other members of `loop`.
  Value OfLoop(const Scope& scope, std::string_view name) {
    const Loop* loop = LoopAround(scope);
    if (loop == nullptr) meter_.Fail("'loop' is used outside a loop");
    const auto at = static_cast<int64_t>(loop->at);
    const int64_t length = std::ssize(loop->items);
    if (name == "index") return at + 1;
    if (name == "index0") return at;
    if (name == "revindex") return length - at;
    if (name == "revindex0") return length - at - 1;
    if (name == "first") return at == 0;
    if (name == "last") return at == length - 1;
    if (name == "length") return length;
    if (name == "previtem") return at == 0 ? Value(Undefined{}) : loop->items[loop->at - 1];
    if (name == "nextitem") {
      return at == length - 1 ? Value(Undefined{}) : loop->items[loop->at + 1];
    }
    meter_.Fail(fmt::format("`loop.{}` is not supported", name));
  }

  // Expressions.

  Value Evaluate(const Node& node, Scope& scope) {
    const Deeper deeper(*this, node);
    switch (node.kind) {
      case NodeKind::kConstant:
        return node.constant;
      case NodeKind::kName:
        return Named(node, scope);
      case NodeKind::kList:
      case NodeKind::kTuple:
        return MakeList(meter_, All(node, 0, scope),
                        node.kind == NodeKind::kTuple ? ListKind::kTuple : ListKind::kList);
      case NodeKind::kMapping: {
        Members members;
        for (size_t i = 0; i < node.parts.size(); i += 2) {
          Value name = Evaluate(*node.parts[i], scope);
          members.emplace_back(std::move(name), Evaluate(*node.parts[i + 1], scope));
        }
        return MakeMapping(meter_, std::move(members));
      }
      case NodeKind::kAttribute:
        if (IsLoop(*node.parts[0])) return OfLoop(scope, node.name);
        return Attribute(meter_, Evaluate(*node.parts[0], scope), node.name);
      case NodeKind::kItem: {
        const Value index = Evaluate(*node.parts[1], scope);
        if (IsLoop(*node.parts[0])) return OfLoop(scope, ToUtf8(Printed(meter_, index)));
        return Item(meter_, Evaluate(*node.parts[0], scope), index);
      }
      case NodeKind::kSlice: {
        const Value object = Evaluate(*node.parts[0], scope);
        const Value begin = Optional(node, 1, scope), end = Optional(node, 2, scope);
        return Slice(meter_, object, begin, end, Optional(node, 3, scope));
      }
      case NodeKind::kCall:
        return Call(node, scope);
      case NodeKind::kFilter:
      case NodeKind::kTest: {
        const Value subject = Evaluate(*node.parts[0], scope);
        const std::vector<Value> args = All(node, 1, scope);
        meter_.line = node.line;
        const bool filter = node.kind == NodeKind::kFilter;
        const Builtin* builtin = filter ? FindFilter(node.name) : FindTest(node.name);
        if (builtin == nullptr) {
          meter_.Fail(
              fmt::format("the {} `{}` is not supported", filter ? "filter" : "test", node.name));
        }
        return CallBuiltin(meter_, *builtin, subject, args, node.names);
      }
      case NodeKind::kNot:
        return !IsTrue(Evaluate(*node.parts[0], scope));
      case NodeKind::kNegative:
      case NodeKind::kPositive:
        return Signed(node, Evaluate(*node.parts[0], scope));
      case NodeKind::kArithmetic: {
        const Value left = Evaluate(*node.parts[0], scope);
        const Value right = Evaluate(*node.parts[1], scope);
        meter_.line = node.line;
        return Arithmetic(node.name, left, right);
      }
      case NodeKind::kCompare:
        return Compare(node, scope);
      case NodeKind::kAnd:
      case NodeKind::kOr: {
        Value left = Evaluate(*node.parts[0], scope);
        if (IsTrue(left) == (node.kind == NodeKind::kOr)) return left;
        return Evaluate(*node.parts[1], scope);
      }
      default:  // kChoice
        if (IsTrue(Evaluate(*node.parts[0], scope))) return Evaluate(*node.parts[1], scope);
        return Optional(node, 2, scope);
    }
  }

  static bool IsLoop(const Node& node) {
    return node.kind == NodeKind::kName && node.name == "loop";
  }

  Value Named(const Node& node, const Scope& scope) {
    if (const Value* found = Find(scope, node.name)) return *found;
    if (node.name == "loop") meter_.Fail("`loop` can be used only with an attribute");
    return Undefined{node.name};
  }

  Value Optional(const Node& node, size_t part, Scope& scope) {
    return node.parts[part] == nullptr ? Value(Undefined{}) : Evaluate(*node.parts[part], scope);
  }

  std::vector<Value> All(const Node& node, size_t first, Scope& scope) {
    std::vector<Value> values;
    for (size_t i = first; i < node.parts.size(); ++i) {
      values.push_back(Evaluate(*node.parts[i], scope));
    }
    return values;
  }

  Value Signed(const Node& node, const Value& value) {
    const bool negative = node.kind == NodeKind::kNegative;
    if (const double* number = std::get_if<double>(&value)) return negative ? -*number : *number;
    const int64_t integer = IntegerFor(meter_, value, "what has a sign");
    if (negative && integer == INT64_MIN) meter_.Fail("an integer beyond 64 bits");
    return negative ? -integer : integer;
  }

  Value Arithmetic(std::string_view word, const Value& left, const Value& right) {
    if (word == "~") {
      TextBuilder out(meter_);
      Print(meter_, left, out);
      Print(meter_, right, out);
      return out.Take();
    }
    const Text *text = TextOf(left), *other_text = TextOf(right);
    const List *list = ListOf(left), *other_list = ListOf(right);
    if (word == "+" && text != nullptr && other_text != nullptr) {
      return TextBuilder(meter_).Add(*text).Add(*other_text).Take();
    }
    if (word == "+" && list != nullptr && other_list != nullptr && list->kind == other_list->kind &&
        list->kind != ListKind::kIterator) {
      std::vector<Value> items = list->items;
      items.insert(items.end(), other_list->items.begin(), other_list->items.end());
      return MakeList(meter_, std::move(items), list->kind);
    }
    if (word == "*" && (text != nullptr || list != nullptr)) return Repeated(left, right);
    if (word == "*" && (other_text != nullptr || other_list != nullptr)) {
      return Repeated(right, left);
    }
    const auto number = [&](const Value& value) -> double {
      if (const double* one = std::get_if<double>(&value)) return *one;
      if (const int64_t* one = std::get_if<int64_t>(&value)) return static_cast<double>(*one);
      if (const bool* one = std::get_if<bool>(&value)) return *one ? 1 : 0;
      meter_.Fail(fmt::format("{} {} {} is not supported", Describe(left), word, Describe(right)));
    };
    const double a = number(left), b = number(right);
    if (b == 0 && (word == "/" || word == "//" || word == "%")) meter_.Fail("a division by zero");
    const bool floats =
        std::holds_alternative<double>(left) || std::holds_alternative<double>(right);
    if (word == "/") return a / b;
    if (!floats)
      return OfIntegers(word, IntegerFor(meter_, left, ""), IntegerFor(meter_, right, ""));
    if (word == "+") return a + b;
    if (word == "-") return a - b;
    if (word == "*") return a * b;
    // Like Python, whose remainder has the divisor's sign.
    if (word == "//") return std::floor(a / b);
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }

  Value OfIntegers(std::string_view word, int64_t a, int64_t b) {
    int64_t result = 0;
    bool beyond = false;
    if (word == "+") {
      beyond = __builtin_add_overflow(a, b, &result);
    } else if (word == "-") {
      beyond = __builtin_sub_overflow(a, b, &result);
    } else if (word == "*") {
      beyond = __builtin_mul_overflow(a, b, &result);
    } else if (b == -1) {
      beyond = word == "//" && __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      const int64_t rest = a % b;
      const bool down = rest != 0 && (rest < 0) != (b < 0);
      result = word == "//" ? a / b - (down ? 1 : 0) : rest + (down ? b : 0);
    }
    if (beyond) meter_.Fail("an integer beyond 64 bits");
    return result;
  }

  Value Repeated(const Value& value, const Value& times) {
    const int64_t count = std::max<int64_t>(IntegerFor(meter_, times, "how often it comes"), 0);
    if (const Text* text = TextOf(value)) {
      TextBuilder out(meter_);
      for (int64_t i = 0; i < count && !text->empty(); ++i) out.Add(*text);
      return out.Take();
    }
    const List* list = ListOf(value);
    std::vector<Value> items;
    for (int64_t i = 0; i < count && !list->items.empty(); ++i) {
      if (items.size() > kMostCharacters) meter_.Fail("a list is repeated too often");
      items.insert(items.end(), list->items.begin(), list->items.end());
    }
    return MakeList(meter_, std::move(items), list->kind);
  }

  Value Compare(const Node& node, Scope& scope) {
    Value left = Evaluate(*node.parts[0], scope);
    for (size_t i = 0; i < node.names.size(); ++i) {
      Value right = Evaluate(*node.parts[i + 1], scope);
      meter_.line = node.line;
      if (!Holds(node.names[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool Holds(std::string_view word, const Value& left, const Value& right) {
    if (word == "==") return Equal(meter_, left, right);
    if (word == "!=") return !Equal(meter_, left, right);
    if (word == "<") return Less(meter_, left, right);
    if (word == ">") return Less(meter_, right, left);
    // With NaN neither holds.
    if (word == "<=") return Less(meter_, left, right) || Equal(meter_, left, right);
    if (word == ">=") return Less(meter_, right, left) || Equal(meter_, left, right);
    const Value& in = CallBuiltin(meter_, *FindTest("in"), left, {&right, 1});
    return IsTrue(in) == (word == "in");
  }

  // Calls.

  Value Call(const Node& node, Scope& scope) {
    const Node& what = *node.parts[0];
    if (what.kind == NodeKind::kAttribute && !IsLoop(*what.parts[0])) {
      const Value object = Evaluate(*what.parts[0], scope);
      if (const Builtin* method = FindMethod(object, what.name)) {
        const std::vector<Value> args = All(node, 1, scope);
        meter_.line = node.line;
        return CallBuiltin(meter_, *method, object, args, node.names);
      }
      meter_.line = what.line;
      meter_.Fail(
          fmt::format("the method `{}` of {} is not supported", what.name, Describe(object)));
    }
    const Value callee = Evaluate(what, scope);
    const std::vector<Value> args = All(node, 1, scope);
    meter_.line = node.line;
    if (const auto* macro = std::get_if<const Node*>(&callee)) {
      return CallMacro(**macro, args, node.names);
    }
    if (const auto* function = std::get_if<Function>(&callee)) {
      return CallFunction(*function, args, node.names);
    }
    meter_.Fail(Describe(callee) + " cannot be called");
  }

  // A macro sees its parameters and the template's variables.
  Value CallMacro(const Node& macro, std::span<const Value> args,
                  std::span<const std::string> names) {
    Scope scope{.outer = &top_};
    const size_t unnamed = args.size() - names.size();
    const auto bind = [&](const std::string& name, const Value& value) {
      meter_.Look(name, macro.names.size());
      const bool known = std::ranges::find(macro.names, name) != macro.names.end();
      if (!known ||
          std::ranges::find(scope.variables, name, &Variable::first) != scope.variables.end()) {
        meter_.Fail(fmt::format("the macro `{}` has no argument `{}`, or it is given twice",
                                macro.name, name));
      }
      scope.variables.emplace_back(name, value);
    };
    if (unnamed > macro.names.size()) {
      meter_.Fail(
          fmt::format("the macro `{}` takes at most {} arguments", macro.name, macro.names.size()));
    }
    for (size_t i = 0; i < unnamed; ++i) bind(macro.names[i], args[i]);
    for (size_t i = 0; i < names.size(); ++i) bind(names[i], args[unnamed + i]);
    const size_t first_default = macro.names.size() + 1 - macro.parts.size();
    for (size_t i = 0; i < macro.names.size(); ++i) {
      meter_.Look(macro.names[i], scope.variables.size());
      if (std::ranges::find(scope.variables, macro.names[i], &Variable::first) !=
          scope.variables.end()) {
        continue;
      }
      Value value = i < first_default ? Value(Undefined{macro.names[i]})
                                      : Evaluate(*macro.parts[1 + i - first_default], scope);
      scope.variables.emplace_back(macro.names[i], std::move(value));
    }
    TextBuilder out(meter_);
    Run(*macro.parts[0], scope, out);
    return out.Take();
  }

  Value CallFunction(Function function, std::span<const Value> args,
                     std::span<const std::string> names) {
    if (function == Function::kNamespace) {
      if (args.size() != names.size()) meter_.Fail("namespace: its arguments need names");
      auto space = std::make_shared<Namespace>();
      for (size_t i = 0; i < names.size(); ++i) SetAttribute(*space, names[i], args[i]);
      return space;
    }
    if (!names.empty()) meter_.Fail(fmt::format("the function has no argument `{}`", names[0]));
    if (function == Function::kRange) return Range(args);
    if (args.size() != 1) meter_.Fail("the function takes one argument");
    const Text printed = Printed(meter_, args[0]);
    const std::string text = ToUtf8(printed);
    if (function == Function::kStrftimeNow) {
      Char marks = 0;
      for (const Char c : printed) marks |= c & (kGiven | kGenerated);
      return MakeText(meter_, FromUtf8(Date(text), marks));
    }
    throw InputError(fmt::format("{}, line {}: the template rejects this conversation",
                                 meter_.where(), meter_.line),
                     text);
  }

  Value Range(std::span<const Value> args) {
    if (args.empty() || args.size() > 3) meter_.Fail("range: one to three integers");
    int64_t number[3] = {0, 0, 1};
    for (size_t i = 0; i < args.size(); ++i) {
      number[args.size() == 1 ? 1 : i] = IntegerFor(meter_, args[i], "what range is given");
    }
    const auto [begin, end, step] = number;
    if (step == 0) meter_.Fail("range: a step of 0");
    std::vector<Value> items;
    for (int64_t at = begin; step > 0 ? at < end : at > end;) {
      if (std::ssize(items) == kMostRange) {
        meter_.Fail(fmt::format("range: more than {} numbers", kMostRange));
      }
      items.emplace_back(at);
      if (__builtin_add_overflow(at, step, &at)) break;
    }
    return MakeList(meter_, std::move(items));
  }

  // Like strftime in the C locale.
  std::string Date(const std::string& format) {
    constexpr std::string_view kKnown = "aAbBdHIjmMpSyYeFTD%";
    std::string date;
    for (size_t at = 0; at < format.size(); ++at) {
      meter_.Work(format[at] == '%' ? kWorkOfNode : 1);
      if (format[at] != '%') {
        date += format[at];
        continue;
      }
      std::string part = "%";
      if (at + 1 < format.size() && format[at + 1] == '-') part += format[++at];
      const char letter = at + 1 < format.size() ? format[++at] : '\0';
      if (letter == '\0' || kKnown.find(letter) == std::string_view::npos) {
        meter_.Fail(
            fmt::format("strftime_now: `%{}` is not supported", letter == '\0' ? ' ' : letter));
      }
      part += letter;
      char out[64];
      date.append(out, std::strftime(out, sizeof(out), part.c_str(), &now_));
    }
    return date;
  }

  Meter& meter_;
  const std::tm now_;
  Scope top_;
  int depth_ = 0;
};

}  // namespace

Text Render(const Node& tree, Variables variables, const std::tm& now, Meter& meter) {
  return Renderer(variables, now, meter).Output(tree);
}

}  // namespace folio::jinja
