#pragma once

namespace folio {

// Seconds from anywhere, never backwards: for measuring how long something takes.
double SteadySeconds();

}  // namespace folio
