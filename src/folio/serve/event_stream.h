#pragma once

#include <string>

#include "folio/io/json.h"

namespace folio {

// An event of text/event-stream.
inline std::string EventOf(const Json& json) {
  return "data: " + json.dump() + "\n\n";
}

// One with a name and, if it is not empty, an id.
inline std::string NamedEvent(const std::string& name, const Json& json,
                              const std::string& id = {}) {
  return (id.empty() ? "" : "id: " + id + "\n") + "event: " + name + "\n" + EventOf(json);
}

// This event ends a stream of OpenAI's.
inline constexpr char kLastEvent[] = "data: [DONE]\n\n";
// A comment: keeps the connection, and finds out that nobody is there.
inline constexpr char kHeartbeat[] = ": still writing\n\n";
// A heartbeat comes after so many seconds of silence.
inline constexpr double kHeartbeatSeconds = 15;

}  // namespace folio
