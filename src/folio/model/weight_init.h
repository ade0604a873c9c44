#pragma once

#include <cstdint>

#include "folio/base/rng.h"
#include "folio/model/params.h"

namespace folio {

// Gives every parameter, or each that is trained, its first value, as ParamInfo::init and the
// configuration say. The value of an element depends on the seed, the parameter's place in the
// table and the element's index in the whole model's parameter alone. Xavier-uniform: X. Glorot, Y.
// Bengio, AISTATS 2010.
void InitWeights(GptWeights& weights, uint64_t seed, ParamPart part = ParamPart::kAll);

// Gives every parameter but adapters' the value that it has in `from`, a model of the same layers
// with adapters or without. The first rows of longer positions are taken; rows of tokens that
// `from` lacks begin as the mean of those it has, so that next to nothing changes for the others:
// J. Hewitt, "Initializing New Word Embeddings for Pretrained Language Models" (2021). REQUIRES: of
// one dtype, at least as many tokens, at most as many positions. A shard gets its share of a
// `from` that is whole.
void InitWeightsFrom(const GptWeights& from, const GptWeights& to);
// The same for one parameter.
void InitParamFrom(const Tensor& from, const Tensor& to);

// How wide the first numbers of a matrix are: the standard deviation of normal ones, the bound of
// uniform ones. REQUIRES: info.init is neither kZero nor kOne, and info is of a whole model.
// `column` is one of the matrix, of which some may count as matrices of their own: q, k and v.
double InitSpread(const GptConfig& config, const ParamInfo& info, int64_t column = 0);

// The same distribution with the draws, and in the order of draws, of nanoGPT's constructor under
// torch.manual_seed: default layer initialisation in module order, then normal draws in module
// order, then, where they are scaled, the residual projections. For positions from zero nothing is
// drawn. REQUIRES: float32 weights, init = normal.
void InitWeightsLikeTorch(GptWeights& weights, TorchRng& rng);

}  // namespace folio
