#pragma once

#include <filesystem>
#include <string>

#include "folio/formats/published_models.h"
#include "folio/term/progress.h"

namespace folio {

// The published model of that name. Throws a kUsage Error that names the nearest where there is
// none.
const PublishedModel& PublishedModelNamed(const std::string& name);

// Gets the files of a model that are not here yet to where `--model NAME` looks for them, and
// returns that directory: from the directory `from`, or where that is "" from the network, with a
// progress line; what an earlier call left of one is gone on from. Throws as FetchFile and CopyFile
// (io/fetch.h), and a kUsage Error where there is no place for models; a request to stop
// (term/signals.h) ends it by throwing Stopped.
std::filesystem::path FetchModel(const PublishedModel& model, const std::filesystem::path& from,
                                 Console& console, ProgressMode mode);

// All published models, and which of them are here: a table, or one JSON object (`json`).
std::string DescribeModels(bool json);

}  // namespace folio
