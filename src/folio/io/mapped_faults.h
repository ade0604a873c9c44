#pragma once

#include <cstddef>
#include <filesystem>

namespace folio {

// Somebody may shorten a file while it is mapped; who then looks at what is gone gets SIGBUS. From
// this call on the process ends with a message that names the file and exit status 3 instead, and
// leaves no half-written files (those that appear whole or not at all have not appeared). For
// programs: it takes the signal's handler. Other causes of SIGBUS end the process as before.
void ReportMappedFaults();

// For MappedFile: the bytes of a file, from when they are mapped until they are not.
void AddMappedBytes(const std::byte* begin, size_t size, const std::filesystem::path& path);
void RemoveMappedBytes(const std::byte* begin);

}  // namespace folio
