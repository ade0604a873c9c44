// Ranks started by MPI: the one file that includes MPI. It is a library of its own, built once for
// each implementation of MPI, since their binary interfaces differ, and opened when a run has
// ranks, so that the same program works without MPI.
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "folio/ranks/transport.h"

namespace folio {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiTransport() override {
    // Receives of heartbeats that nobody will send.
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string Name() const override {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string text(version);
    return text.substr(0, text.find_first_of(",\n"));
  }

  // A failed message is never done: a lost rank is detected by its silence.
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const Request place = Place();
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, At(place));
    return place;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    const Request place = Place();
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, At(place));
    return place;
  }
  bool Done(Request request) override {
    int done = 0;
    if (MPI_Test(At(request), &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) return false;
    free_.push_back(request);
    return true;
  }

  // If the network is down, MPI_Abort may never return.
  void Abort(int status) override {
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      _exit(status);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, status);
  }

 private:
  Request Place() {
    if (free_.empty()) {
      requests_.push_back(MPI_REQUEST_NULL);
      return static_cast<Request>(requests_.size() - 1);
    }
    const Request place = free_.back();
    free_.pop_back();
    return place;
  }
  MPI_Request* At(Request request) { return &requests_[static_cast<size_t>(request)]; }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<Request> free_;
};

}  // namespace
}  // namespace folio

extern "C" __attribute__((visibility("default"))) folio::Transport* folio_connect(char* why,
                                                                                  size_t bytes) {
  int provided = 0;
  // Only one thread of this process calls MPI.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    std::snprintf(why, bytes, "MPI_Init_thread failed");
    return nullptr;
  }
  if (provided < MPI_THREAD_FUNNELED) {
    std::snprintf(why, bytes, "this MPI does not support threads: MPI_Init_thread provides %d",
                  provided);
    return nullptr;
  }
  return new folio::MpiTransport();
}
