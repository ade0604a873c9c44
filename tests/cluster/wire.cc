// The network between the machines of hosts.sh: a switch with a separate link to each of them, with
// delays.
//   folio_wire MBIT_PER_SECOND ROUND_TRIP_MILLISECONDS PID...
// Gives the network namespace of each PID a device eth0, whose hardware address ends in the index
// of the PID, from 1, and forwards packets between them until it is killed. It replaces the
// kernel's netem, which not every kernel has.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast, std::chrono::nanoseconds;

// A link drops packets that would wait longer.
constexpr nanoseconds kLongestQueue = std::chrono::milliseconds(200);

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The kernel puts a header before a packet, virtio_net_hdr: it passes on up to 64 KB that a real
// device would divide into segments.
struct Header {
  uint8_t flags, segmented;
  uint16_t headers, segment, checksum_start, checksum_offset;
};

// The device in the network namespace of a process.
int OpenDevice(const std::string& pid) {
  const int space = open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) Fail("the network of process " + pid);
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  std::strcpy(request.ifr_name, "eth0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0 ||
      ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
    Fail("a device for process " + pid);
  }
  return device;
}

struct Packet {
  Clock::time_point due;
  std::vector<char> bytes;
};

struct Machine {
  int device;
  Clock::time_point sent{}, received{};  // its link is busy until then, in each direction
  std::deque<Packet> queue = {};         // to it, in the order of `due`
};

class Switch {
 public:
  Switch(double mbit_per_second, double round_trip_ms)
      : nanoseconds_per_byte_(8000 / mbit_per_second),
        delay_(static_cast<int64_t>(round_trip_ms * 1e6 / 2)) {}

  void Add(int device) { machines_.push_back({device}); }

  [[noreturn]] void Run() {
    for (;;) {
      WaitForPacket();
      for (Machine& machine : machines_) Receive(machine);
      for (Machine& machine : machines_) Deliver(machine);
    }
  }

 private:
  void WaitForPacket() {
    std::vector<pollfd> devices;
    auto next = Clock::time_point::max();
    for (const Machine& machine : machines_) {
      devices.push_back({machine.device, POLLIN, 0});
      if (!machine.queue.empty()) next = std::min(next, machine.queue.front().due);
    }
    const auto wait = std::max<nanoseconds>(next - Clock::now(), nanoseconds(0)).count();
    const timespec time = {wait / 1'000'000'000, wait % 1'000'000'000};
    const bool forever = next == Clock::time_point::max();
    if (ppoll(devices.data(), devices.size(), forever ? nullptr : &time, nullptr) < 0)
      Fail("ppoll");
  }

  // At most a few, so that due packets do not wait for a machine that sends much.
  void Receive(Machine& from) {
    char buffer[80'000];
    for (int i = 0; i < 16; ++i) {
      const ssize_t size = read(from.device, buffer, sizeof buffer);
      if (size < 0 && errno == EBADFD) from.device = -1;  // its namespace is gone
      if (size < static_cast<ssize_t>(sizeof(Header) + 14)) return;
      const char* address = buffer + sizeof(Header);
      const auto to = static_cast<size_t>(address[5]) - 1;
      for (size_t m = 0; m < machines_.size(); ++m) {
        const bool wanted = (address[0] & 1) != 0 ? &machines_[m] != &from : m == to;
        if (wanted) Send(from, machines_[m], {buffer, buffer + size});
      }
    }
  }

  void Send(Machine& from, Machine& to, std::vector<char> bytes) const {
    // Each segment has its headers, and on Ethernet 24 bytes more.
    constexpr int64_t kHeaders = 66, kFrame = 24;
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto size = static_cast<int64_t>(bytes.size() - sizeof header);
    const int64_t segments =
        header.segmented == 0
            ? 1
            : std::max<int64_t>(1, (size - kHeaders + header.segment - 1) / header.segment);
    const double on_wire =
        static_cast<double>(size + (segments - 1) * kHeaders + segments * kFrame);
    const nanoseconds time(static_cast<int64_t>(on_wire * nanoseconds_per_byte_));

    const auto now = Clock::now();
    const auto at_switch = std::max(now, from.sent) + time;
    const auto due = std::max(at_switch - time, to.received) + time;
    if (due - now > kLongestQueue) return;
    from.sent = at_switch;
    to.received = due;
    to.queue.push_back({due + delay_, std::move(bytes)});
  }

  static void Deliver(Machine& to) {
    const auto now = Clock::now();
    while (!to.queue.empty() && to.queue.front().due <= now) {
      const std::vector<char>& bytes = to.queue.front().bytes;
      // A device that is down receives nothing, like an unplugged cable.
      [[maybe_unused]] const ssize_t size = write(to.device, bytes.data(), bytes.size());
      to.queue.pop_front();
    }
  }

  double nanoseconds_per_byte_;
  nanoseconds delay_;
  std::vector<Machine> machines_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4)
    throw std::runtime_error("usage: folio_wire MBIT_PER_SECOND ROUND_TRIP_MILLISECONDS PID...");
  prctl(PR_SET_TIMERSLACK, 1);
  Switch network(std::stod(argv[1]), std::stod(argv[2]));
  for (int i = 3; i < argc; ++i) network.Add(OpenDevice(argv[i]));
  network.Run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "folio_wire: %s\n", error.what());
  return 1;
}
