#include "folio/run/run_config.h"

#include <iterator>
#include <utility>

namespace folio {

std::vector<Field> RunConfig::Fields() {
  std::vector<Field> all;
  for (auto& section : {WithPrefix("model.", model.Fields()), WithPrefix("train.", train.Fields()),
                        WithPrefix("data.", data.Fields()), WithPrefix("log.", log.Fields())}) {
    all.insert(all.end(), section.begin(), section.end());
  }
  return all;
}

}  // namespace folio
