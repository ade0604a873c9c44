#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "folio/plot/heatmap.h"
#include "folio/term/console.h"

namespace folio {

// Writes a figure where it was asked for, with the directories on the way, and says so on stderr.
void WriteFigure(Console& console, const std::filesystem::path& path, std::string_view svg);

// Throws a kUsage Error where the figure, or the directory of figures, that --svg `path` asks for
// cannot be: to be called before the work. "" asks for none.
void CheckFigureFile(const std::string& path);
void CheckFigureDirectory(const std::string& path);

// How many of a map's cells, each way, one cell of a map of at most `most` rows and columns stands
// for; at least 1.
int64_t PoolingStep(const Heatmap& map, int64_t most);
// The map in cells of step x step, each the largest of what it stands for (masked where all of it
// is), so that single strong cells stay. Labels are left out unless step is 1.
Heatmap Pooled(const Heatmap& map, int64_t step);

}  // namespace folio
