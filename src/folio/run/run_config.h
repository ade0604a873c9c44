#pragma once

#include <vector>

#include "folio/base/fields.h"
#include "folio/corpus/data_config.h"
#include "folio/model/config.h"
#include "folio/train/config.h"

namespace folio {

// Everything that can be set: sections model, train, data and log.
struct RunConfig {
  GptConfig model;
  TrainConfig train;
  DataConfig data;
  LogConfig log;

  // Keys "model.n_layer", "train.batch_size", ... The fields point into this object.
  std::vector<Field> Fields();
};

}  // namespace folio
