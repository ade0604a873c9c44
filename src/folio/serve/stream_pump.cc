#include "folio/serve/stream_pump.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/clock.h"
#include "folio/base/log.h"
#include "folio/serve/server_context.h"

namespace folio {
namespace {

constexpr size_t kMostUnsent = 256 << 10;  // bytes that the client has not taken

}  // namespace

StreamPump::StreamPump(ServerContext& context, std::shared_ptr<HttpStream> stream, bool chunked,
                       Send send, Take take)
    : context_(context),
      quick_(stream->quick()),
      chunked_(chunked),
      stream_(std::move(stream)),
      send_(std::move(send)),
      take_(std::move(take)) {}

template <class Call>
void StreamPump::Post(const Call& call) {
  PostTo(quick_ ? *context_.writers : *context_.handlers, call);
}

void StreamPump::Begin() {
  Post([self = shared_from_this()] {
    // Whoever has news may live longer than the answer.
    self->Guarded([&] {
      self->stream_->Begin([weak = std::weak_ptr(self)] {
        if (const auto pump = weak.lock()) pump->News();
      });
    });
    self->Run();
  });
}

void StreamPump::News() {
  {
    const std::lock_guard lock(mutex_);
    news_ = true;
    if (running_ || Full()) return;
    running_ = true;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::Unsent(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    unsent_ = bytes;
    if (running_ || !news_ || Full()) return;
    running_ = true;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (std::exchange(running_, true)) return;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

template <class Call>
void StreamPump::Guarded(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    LogWarning(fmt::format("an answer on its way failed: {}", error.what()));
    failed_ = true;
  }
}

bool StreamPump::Full() const {
  return bytes_on_the_way_ + unsent_ > kMostUnsent;
}

// `running_` is set, so that no other thread does this.
void StreamPump::Run() {
  bool at_once = false;
  {
    const std::lock_guard lock(mutex_);
    news_ = false;
    failed_ = failed_ || stopped_;
    at_once = parts_on_the_way_ == 0 && unsent_ == 0;
  }
  HttpStream::Part part;
  if (!failed_) {
    Guarded([&] {
      part = stream_->Next();
      if (chunked_ && !part.bytes.empty()) {
        part.bytes = fmt::format("{:x}\r\n", part.bytes.size()).append(part.bytes) + "\r\n";
      }
      if (chunked_ && part.ended) part.bytes += "0\r\n\r\n";
    });
  }
  const bool last = failed_ || part.ended || part.whole;
  if (last) stream_.reset();
  if (at_once && !last && !part.bytes.empty()) part.bytes.erase(0, send_(part.bytes));
  const double now = SteadySeconds(), due = now + part.seconds;
  constexpr double kNear = 0.01;  // seconds
  const bool asked_later = due < due_ - kNear || due_ <= now;
  if (asked_later) due_ = due;
  if (last || asked_later || !part.bytes.empty()) HandOn(std::move(part), !failed_, last);
  if (last) return;  // `running_` stays set
  {
    const std::lock_guard lock(mutex_);
    running_ = stopped_ || (news_ && !Full());
    if (!running_) return;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::HandOn(HttpStream::Part part, bool any, bool last) {
  const size_t bytes = part.bytes.size();
  {
    const std::lock_guard lock(mutex_);
    ++parts_on_the_way_;
    bytes_on_the_way_ += bytes;
  }
  const auto on_its_way = std::make_shared<HttpStream::Part>(std::move(part));
  PostTo(context_.io, [self = shared_from_this(), on_its_way, bytes, any, last] {
    {
      const std::lock_guard lock(self->mutex_);
      --self->parts_on_the_way_;
      self->bytes_on_the_way_ -= bytes;
      self->unsent_ += bytes;
    }
    self->take_(any ? on_its_way.get() : nullptr, last);
  });
}

}  // namespace folio
