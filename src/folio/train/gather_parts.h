#pragma once

#include "folio/dist/group.h"
#include "folio/dist/shards.h"
#include "folio/model/params.h"

namespace folio {

// The form in which a rank has its share of a float32 array that is laid out as a model's
// parameters.
enum class PartHeld {
  kAll,     // all of its part of the model (LayerPart)
  kPieces,  // of that its pieces alone (dist/shards.h), one after the other
};

// Brings what the ranks have of such an array to the first, where `whole` gets the whole model's;
// the others' is null. `config` is the rank's part, of which everything is trained. All ranks call
// it.
void GatherParts(Group& group, const GptConfig& config, const Tensor& mine, PartHeld held,
                 const GptWeights* whole);

// Brings an array of which each rank has its pieces (F32) to the first: into `whole`, which is
// empty elsewhere.
void GatherPieces(Group& group, const Shards& shards, const Tensor& mine, const Tensor& whole);

}  // namespace folio
