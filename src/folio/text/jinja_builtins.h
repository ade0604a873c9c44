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
  std::span<const Value> args;  // one for each parameter; undefined if not given
};

// A filter, a test or a method: a function of a value and of arguments with Python's names.
struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;
  Value (*run)(const BuiltinCall& call);
  size_t needed = 0;  // the number of required arguments
};

// These return null if there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(const Value& object, std::string_view name);

// Calls it; `names` are the names of the last arguments.
Value CallBuiltin(Meter& meter, const Builtin& builtin, const Value& subject,
                  std::span<const Value> args, std::span<const std::string> names = {});

// object.name and object[key], as jinja2 finds them: undefined if missing. Throws if the object
// itself is not defined. `name` must outlive the rendering.
Value Attribute(Meter& meter, const Value& object, std::string_view name);
Value Item(Meter& meter, const Value& object, const Value& key);

// The character of a text or the element of a list at `index`, from the end if negative; Slice
// returns those from `begin` on in steps, like Python's slices. Undefined or none means that the
// value was omitted.
Value Slice(Meter& meter, const Value& object, const Value& begin, const Value& end,
            const Value& step);

// Throws unless it is an integer; the error says `what`.
int64_t IntegerFor(Meter& meter, const Value& value, std::string_view what);

}  // namespace folio::jinja
