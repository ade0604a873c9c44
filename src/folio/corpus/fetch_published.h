#pragma once

#include <filesystem>
#include <string>

#include "folio/io/fetch.h"
#include "folio/term/progress.h"
#include "folio/text/encodings.h"

namespace folio {

// Gets a published file to wanted.path: a copy of the file `from`, or where that is "" from the
// network, with a progress line. Throws as FetchFile and CopyFile (io/fetch.h) do; a request to
// stop (term/signals.h) ends it by throwing Stopped.
void FetchPublished(const PublishedFile& file, const WantedFile& wanted,
                    const std::filesystem::path& from, Console& console, ProgressMode mode);

// The published text of that name ("tinyshakespeare"), to learn from. Throws a kUsage Error that
// lists them where there is none.
const PublishedFile& PublishedText(const std::string& name);

// Gets a text to the file `out`, as FetchPublished does; nothing is done where it lies there
// already. Throws a kUsage Error where another file does, unless `overwrite`.
void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, Console& console,
               ProgressMode mode);

// The encoding of that name. Throws a kUsage Error that names the nearest where there is none.
const PublishedEncoding& EncodingNamed(const std::string& name);

// Gets the files of an encoding that are not here yet to where OpenTokenizer looks for them, and
// returns that directory: from the directory `from`, or where that is "" from the network, with a
// progress line. Throws as FetchFile and CopyFile (io/fetch.h), and a kUsage Error where there is
// no place for tokenizers; a request to stop (term/signals.h) ends it by throwing Stopped.
std::filesystem::path FetchEncoding(const PublishedEncoding& encoding,
                                    const std::filesystem::path& from, Console& console,
                                    ProgressMode mode);

// All published encodings, and which of them are here: a table, or one JSON object (`json`).
std::string DescribeEncodings(bool json);

}  // namespace folio
