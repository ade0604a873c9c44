#include "folio/apps/data_config.h"

namespace folio {

std::vector<Field> DataConfig::Fields() {
  return {
      Field{"tokenizer", &tokenizer, "how text is cut into tokens"}
          .Choices({"char", "bytes"})
          .WithFlag("--tokenizer"),
      Field{"val_fraction", &val_fraction, "part at the end of the text held out for evaluation", 0,
            0.9}
          .WithFlag("--val-fraction"),
  };
}

}  // namespace folio
