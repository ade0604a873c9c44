#pragma once

#include "folio/dist/group.h"
#include "folio/dist/shards.h"
#include "folio/model/params.h"

namespace folio {

// The form in which a rank has its share of a float32 array that is laid out as a model's
// parameters.
enum class PartHeld {
  kAll,     // all of its shard of the model
  kPieces,  // of that its pieces alone (dist/shards.h), one after the other
};

// Brings what the ranks have of such an array to the first, where `whole` gets the whole model's;
// the others' is null. `table` is of the rank's shard, of which everything is trained. All ranks
// call it.
void GatherParts(Group& group, const ParamTable& table, const Tensor& mine, PartHeld held,
                 const GptWeights* whole);

// Brings an array of which each rank has its pieces (F32) to the first: into `whole`, which is
// empty elsewhere.
void GatherPieces(Group& group, const Shards& shards, const Tensor& mine, const Tensor& whole);

}  // namespace folio
