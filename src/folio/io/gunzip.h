#pragma once

#include <string>

#include "folio/io/decompress.h"

namespace folio {

// Decompress for gzip (RFC 1952), by zlib: libarchive does not look at the checksums of its
// streams.
ReadBytes Gunzip(ReadBytes from, std::string name);

}  // namespace folio
