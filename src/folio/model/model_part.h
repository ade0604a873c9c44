#pragma once

#include <cstdint>

#include "folio/model/params.h"

namespace folio {

// Part `index` of so many of a model, and the model of which a configuration is a part.
GptConfig PartOf(GptConfig whole, int64_t index, int64_t parts);
GptConfig WholeOf(GptConfig part);

// Throws a kUsage Error that names the nearest numbers unless a model can be had in so many parts:
// they divide heads and n_inner, and the vocabulary has a token for each. Of a vocabulary that they
// do not divide, some have a token more than others.
void RequireParts(const GptConfig& whole, int64_t parts);

// Where in a parameter of the whole model what a part has of it lies.
class PlaceInWhole {
 public:
  // `config` is the part's, `info` its parameter, and `whole` the shape of the whole model's.
  PlaceInWhole(const GptConfig& config, const ParamInfo& info, const Shape& whole);

  // Of the part's i-th element.
  int64_t operator()(int64_t i) const {
    const int64_t row = i / width_, column = i % width_;
    return (first_row_ + row) * whole_width_ + column / group_ * whole_group_ + first_column_ +
           column % group_;
  }

 private:
  int64_t width_, group_;  // of a row, and of columns that lie side by side in the whole: q, k or v
  int64_t whole_width_, whole_group_;
  int64_t first_row_ = 0, first_column_ = 0;  // of the latter in each group
};

// Copies what a part has of the whole model's parameters, or what is there of gradients and moments
// laid out like them, to the part or back. Both are float32 or float64.
void TakePart(const GptWeights& whole, const GptWeights& part);
void PutPart(const GptWeights& whole, const GptWeights& part);

}  // namespace folio
