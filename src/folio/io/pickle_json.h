#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "folio/io/json.h"
#include "folio/io/pickle.h"

namespace folio {

// Takes a value that may be something else than a plain one, and says whether it was. `name` is
// made of the keys that lead to it, "optimizer/state/0/exp_avg".
using TakeOther = std::function<bool(const PickleValue& value, const std::string& name)>;

// The plain values of a pickle: None, booleans, numbers, texts, names of globals, lists, tuples,
// torch.Size and dictionaries whose keys are texts or integers. What `take_other` takes is left out
// of dictionaries, and null in lists. Throws a kInput Error, `mistake`, for anything else, for a
// key that is there twice, and for what is too deep or, with values that are shared, too much.
Json PlainValues(const Pickle& pickle, const std::string& mistake,
                 const TakeOther& take_other = {});

// The values of a file that pickle.dump has written.
Json ReadPlainPickle(const std::filesystem::path& path);

}  // namespace folio
