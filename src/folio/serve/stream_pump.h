#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "folio/serve/http.h"

namespace folio {

struct ServerContext;

// Between a stream's threads and its connection's: asks the stream on one of the server's, while it
// has news and the client takes what it said, and hands on what it says.
class StreamPump : public std::enable_shared_from_this<StreamPump> {
 public:
  // Called by the connections' thread with each part, in their order. `last`: the stream is
  // destroyed; there is no part where it failed or was stopped.
  using Take = std::function<void(HttpStream::Part* part, bool last)>;
  // Sends, on a thread of the stream, what the client takes at once; returns how many bytes. Called
  // where all that was handed on before is sent.
  using Send = std::function<size_t(std::string_view bytes)>;

  // `chunked`: parts become chunks.
  StreamPump(ServerContext& context, std::shared_ptr<HttpStream> stream, bool chunked, Send send,
             Take take);

  void Begin();
  // Tells, from any thread, that the stream has news.
  void News();
  // So many bytes that were taken are not sent yet.
  void Unsent(size_t bytes);
  // Nobody wants any more.
  void Stop();

 private:
  template <class Call>
  void Guarded(const Call& call);
  template <class Call>
  void Post(const Call& call);
  void Run();
  bool Full() const;
  void HandOn(HttpStream::Part part, bool any, bool last);

  ServerContext& context_;
  const bool quick_, chunked_;
  std::shared_ptr<HttpStream> stream_;
  const Send send_;
  const Take take_;
  bool failed_ = false;
  double due_ = 0;  // when the connection asks without news
  std::mutex mutex_;
  bool running_ = true, news_ = false, stopped_ = false;
  int parts_on_the_way_ = 0;
  size_t bytes_on_the_way_ = 0, unsent_ = 0;
};

}  // namespace folio
