#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "folio/serve/test_service.h"

// A service whose page asks for data.

namespace folio {

struct PageEvent {
  std::string name, id;
  Json data;
};

// A frame as the page reads it.
struct ReadFrame {
  Json header;
  std::string payload;

  template <class T>
  std::vector<T> Numbers() const {
    std::vector<T> numbers(payload.size() / sizeof(T));
    std::memcpy(numbers.data(), payload.data(), numbers.size() * sizeof(T));
    return numbers;
  }
};

inline ReadFrame FrameOf(const std::string& bytes) {
  ReadFrame frame;
  if (!bytes.starts_with("GVZ1") || bytes.size() < 8) {
    ADD_FAILURE() << "no frame: " << bytes.substr(0, 300);
    return frame;
  }
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 4, 4);
  frame.header = ParseJson(bytes.substr(8, length), "the header");
  frame.payload = bytes.substr((8 + size_t{length} + 7) / 8 * 8);
  return frame;
}

inline std::vector<PageEvent> EventsOf(const std::string& body) {
  std::vector<PageEvent> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "the stream ends within an event";
      break;
    }
    PageEvent event;
    for (size_t line = at; line < end;) {
      const size_t next = std::min(body.find('\n', line), end);
      const std::string text = body.substr(line, next - line);
      if (text.starts_with("event: ")) event.name = text.substr(7);
      if (text.starts_with("id: ")) event.id = text.substr(4);
      if (text.starts_with("data: ")) event.data = ParseJson(text.substr(6), "an event");
      line = next + 1;
    }
    if (!event.name.empty()) events.push_back(std::move(event));
    at = end + 2;
  }
  return events;
}

class PageTest : public ServiceTest {
 protected:
  Json Get(const std::string& path) const {
    const Answer answer = Ask("GET", path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return answer.json();
  }
  ReadFrame Frame(const std::string& path) const {
    const Answer answer = Ask("GET", path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    EXPECT_EQ(answer.type, "application/octet-stream");
    return FrameOf(answer.body);
  }
  std::vector<PageEvent> Generate(const Json& fields) const {
    const Answer answer = Post("/api/generate", fields);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.type.starts_with("text/event-stream"));
    std::vector<PageEvent> events = EventsOf(answer.body);
    EXPECT_FALSE(events.empty());
    if (events.empty()) events.push_back({});
    return events;
  }
};

}  // namespace folio
