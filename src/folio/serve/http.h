#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio {

// A request of HTTP as its handler sees it; untrusted, but of a bounded size.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query
  std::string body;
  std::string client;             // the address that it comes from
  std::string id = {}, key = {};  // of the request and, its name, of what opens the service to it
  // Of a header, in any case, and of the query, decoded; "" where there is none.
  std::function<std::string(const std::string&name)> header = {}, parameter = {};
  // Whether the client has hung up: nobody wants the answer any more.
  std::function<bool()> gone = [] { return false; };
  // Whether the service is about to end: what has no end of its own ends then.
  std::function<bool()> stopping = [] { return false; };
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<void> held = {};  // what it takes is given back with this, when it was sent

  // Sends a piece of the body; false where the client is gone.
  using Write = std::function<bool(std::string_view)>;
  // Instead of `body`: called once, to write it as it comes.
  std::function<void(const Write& write)> stream = {};
};

}  // namespace folio
