#pragma once

#include "folio/corpus/fetch_published.h"

namespace folio {

// The published models, which `--model NAME` opens once they are fetched.
const PublishedKind& PublishedModelSets();

}  // namespace folio
