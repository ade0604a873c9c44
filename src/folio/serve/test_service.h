#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "folio/infer/test_small_model.h"
#include "folio/io/json.h"
#include "folio/serve/http_client.h"
#include "folio/serve/http_server.h"
#include "folio/serve/service.h"

// A service in this process, with small models of random weights, and a client.

namespace folio {

class ServiceTest : public testing::Test {
 protected:
  // Begins to serve; "small" and "talker" are the models.
  void Serve(ServiceOptions options = {}, const HttpLimits& limits = {}) {
    service_ = std::make_unique<Service>(std::move(options), [this](const AccessLogEntry& one) {
      const std::lock_guard lock(mutex_);
      log_.push_back(one);
    });
    service_->Add("small", SmallModel());
    service_->Add("talker", SmallModel(/*chat=*/true));
    server_ = std::make_unique<HttpServer>(
        [this](const HttpRequest& request) { return service_->Answer(request); }, limits,
        [this](const std::string& client, int status, const std::string& reason) {
          return service_->Refused(client, status, reason);
        });
    port_ = server_->Bind("127.0.0.1", 0);
    serving_ = std::thread([this] { server_->Serve(); });
    client_.emplace("127.0.0.1", port_);
  }
  ~ServiceTest() override { Stop(); }
  void Stop() {
    client_.reset();
    if (!serving_.joinable()) return;
    server_->Stop();
    serving_.join();
  }

  HttpClient NewClient() const { return {"127.0.0.1", port_}; }

  struct Answer {
    int status = 0;
    std::string body, type;
    Json json() const { return ParseJson(body, "the answer"); }
    // Returns the events of a stream: what stands behind "data: ".
    std::vector<std::string> events() const {
      std::vector<std::string> events;
      for (size_t at = 0; at < body.size();) {
        const size_t end = body.find("\n\n", at);
        if (end == std::string::npos) {
          ADD_FAILURE() << "the stream ends within an event: " << body.substr(at);
          break;
        }
        const std::string event = body.substr(at, end - at);
        if (event.starts_with("data: ")) events.push_back(event.substr(6));
        at = end + 2;
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

  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
  std::optional<HttpClient> client_;
  std::thread serving_;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<AccessLogEntry> log_;
};

}  // namespace folio
