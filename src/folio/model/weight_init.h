#pragma once

#include <cstdint>

#include "folio/base/torch_rng.h"
#include "folio/model/params.h"

namespace folio {

// Gives every parameter its first value, as ParamInfo::init and the configuration say. The value of
// an element depends on the seed, the parameter's place in the table and the element's index alone.
// Xavier-uniform: X. Glorot, Y. Bengio, AISTATS 2010.
void InitWeights(GptWeights& weights, uint64_t seed);

// How wide the first numbers of a matrix are: the standard deviation of normal ones, the bound of
// Xavier-uniform ones. REQUIRES: info.init is neither kZero nor kOne.
double InitSpread(const GptConfig& config, const ParamInfo& info);

// The same distribution with the draws, and in the order of draws, of nanoGPT's constructor under
// torch.manual_seed: default layer initialisation in module order, then normal draws in module
// order, then, where they are scaled, the residual projections. For positions from zero nothing is
// drawn. REQUIRES: float32 weights, init = normal.
void InitWeightsLikeTorch(GptWeights& weights, TorchRng& rng);

}  // namespace folio
