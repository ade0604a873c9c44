#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/jinja_value.h"

namespace folio::jinja {

struct BuiltinCall {
  Meter& meter;
  const Value& subject;
  std::span<const Value> args;  // as many as there are parameters; undefined if not given
};

// A filter, a test or a method: a function of a value and of arguments with the names that Python
// has for them.
struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;
  Value (*run)(const BuiltinCall& call);
  size_t needed = 0;  // of the arguments
};

// These return null where there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(const Value& object, std::string_view name);

// Calls it; the last of the arguments have these names.
Value CallBuiltin(Meter& meter, const Builtin& builtin, const Value& subject,
                  std::span<const Value> args, std::span<const std::string> names = {});

// object.name and object[key], as jinja2 finds them: undefined where there is no such thing. Throws
// where the object is not defined itself. `name` must outlive the rendering.
Value Attribute(Meter& meter, const Value& object, std::string_view name);
Value Item(Meter& meter, const Value& object, const Value& key);

// A character of a text or an element of a list is `index`, from the end if negative; these are
// those from `begin` on by steps, as Python slices. What is undefined or none was not said.
Value Slice(Meter& meter, const Value& object, const Value& begin, const Value& end,
            const Value& step);

// Throws unless it is an integer; `what` is for the error.
int64_t IntegerFor(Meter& meter, const Value& value, std::string_view what);

}  // namespace folio::jinja
