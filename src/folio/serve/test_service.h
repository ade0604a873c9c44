#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/strings.h"
#include "folio/infer/test_small_model.h"
#include "folio/io/json.h"
#include "folio/serve/http_client.h"
#include "folio/serve/http_server.h"
#include "folio/serve/service.h"
#include "folio/serve/test_raw_client.h"

// A service in this process, with small models of random weights, and clients: of its interface and
// as its page.

namespace folio {

// A request of this machine that never was on a socket.
inline HttpRequest LocalRequest(const std::string& method, const std::string& path,
                                const std::string& body = "",
                                std::map<std::string, std::string> query = {}) {
  HttpRequest request{.method = method, .path = path, .body = body, .client = "me"};
  request.header = [](const std::string& name) { return name == "Host" ? "localhost" : ""; };
  request.parameter = [query = std::move(query)](const std::string& name) {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  };
  return request;
}

// The events of a stream, each without the empty line behind it.
inline std::vector<std::string> EventTexts(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "the stream ends within an event: " << body.substr(at);
      break;
    }
    events.push_back(body.substr(at, end - at));
    at = end + 2;
  }
  return events;
}

class ServiceTest : public testing::Test {
 protected:
  // Begins to serve; "small" and "talker" are the models.
  void Serve(ServiceOptions options = {}, const HttpLimits& limits = {}) {
    service_ = std::make_unique<Service>(std::move(options), [this](const AccessLogEntry& one) {
      const std::lock_guard lock(mutex_);
      log_.push_back(one);
    });
    service_->Add("small", make_model_(/*chat=*/false));
    service_->Add("talker", make_model_(/*chat=*/true));
    server_.emplace([this](HttpRequest request) { return service_->Answer(std::move(request)); },
                    limits,
                    [this](const std::string& client, int status, const std::string& reason) {
                      return service_->Refused(client, status, reason);
                    });
    port_ = server_->port();
    client_.emplace("127.0.0.1", port_);
  }
  ~ServiceTest() override { Stop(); }
  void Stop() {
    client_.reset();
    server_.reset();
  }

  HttpClient NewClient() const { return {"127.0.0.1", port_}; }

  struct Answer {
    int status = 0;
    std::string body, type;
    Json json() const { return ParseJson(body, "the answer"); }
    // Returns the events of a stream: what stands behind "data: ".
    std::vector<std::string> events() const {
      std::vector<std::string> events;
      for (const std::string& event : EventTexts(body)) {
        if (event.starts_with("data: ")) events.push_back(event.substr(6));
      }
      return events;
    }
  };
  Answer Ask(const std::string& method, const std::string& path, const std::string& body = "",
             const HttpClient::Headers& headers = {}) const {
    const HttpAnswer answer = NewClient().Ask(method, path, body, headers);
    if (!answer) ADD_FAILURE() << method << " " << path << ": " << answer.body;
    return {answer.status, answer.body, answer.header("Content-Type")};
  }
  Answer Post(const std::string& path, const Json& body) const {
    return Ask("POST", path, body.dump());
  }
  // Completes {"model": "small"} with the given fields.
  Json Complete(Json more) const {
    Json body{{"model", "small"}};
    body.update(more);
    const Answer answer = Post("/v1/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  // Expects an error of OpenAI's form, and returns its message.
  static std::string ErrorOf(const Answer& answer, int status) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_TRUE(answer.type.starts_with("application/json")) << answer.type;
    const Json json = answer.json();
    for (const char* key : {"message", "type", "param", "code"}) {
      EXPECT_TRUE(json["error"].contains(key)) << answer.body;
    }
    return json["error"]["message"].text();
  }
  std::string Metrics() const { return Ask("GET", "/metrics").body; }

  std::function<OpenedModel(bool chat)> make_model_ = [](bool chat) { return SmallModel(chat); };
  std::unique_ptr<Service> service_;
  std::optional<RunningServer> server_;
  std::optional<HttpClient> client_;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<AccessLogEntry> log_;
};

struct PageEvent {
  std::string name, id;
  Json data;
};

// A file of numbers as the page reads it.
struct ReadNumbers {
  Json about = Json::object(), tensors = Json::object();
  std::string payload;

  template <class T = float>
  std::vector<T> Of(const std::string& name = "numbers") const {
    const Json& offsets = tensors[name]["data_offsets"];
    const auto begin = offsets[size_t{0}].get<size_t>(), end = offsets[1].get<size_t>();
    std::vector<T> numbers((end - begin) / sizeof(T));
    std::memcpy(numbers.data(), payload.substr(begin, end - begin).data(), end - begin);
    return numbers;
  }
  Json shape() const { return tensors["numbers"]["shape"]; }
};

inline ReadNumbers NumbersIn(const std::string& bytes) {
  ReadNumbers numbers;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), std::min(bytes.size(), sizeof length));
  if (bytes.size() < sizeof length || length > bytes.size() - sizeof length) {
    ADD_FAILURE() << "no numbers: " << bytes.substr(0, 300);
    return numbers;
  }
  numbers.tensors = ParseJson(bytes.substr(sizeof length, length), "the header");
  for (const auto& [key, text] : numbers.tensors["__metadata__"].items()) {
    numbers.about[key] = ParseJson(text.text(), key);
  }
  numbers.payload = bytes.substr(sizeof length + length);
  return numbers;
}

inline std::vector<PageEvent> EventsOf(const std::string& body) {
  std::vector<PageEvent> events;
  for (const std::string& text : EventTexts(body)) {
    PageEvent event;
    for (const std::string& line : Split(text, '\n')) {
      if (line.starts_with("event: ")) event.name = line.substr(7);
      if (line.starts_with("id: ")) event.id = line.substr(4);
      if (line.starts_with("data: ")) event.data = ParseJson(line.substr(6), "an event");
    }
    if (!event.name.empty()) events.push_back(std::move(event));
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
  ReadNumbers Numbers(const std::string& path) const {
    const Answer answer = Ask("GET", path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    EXPECT_EQ(answer.type, "application/octet-stream");
    return NumbersIn(answer.body);
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
