#include "folio/serve/sockets.h"

#include <fcntl.h>
#include <unistd.h>

namespace folio {

#ifdef __linux__

int OpenSocket(int family) {
  return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int AcceptSocket(int listening, sockaddr* address, socklen_t* size) {
  return accept4(listening, address, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

#else

namespace {

int WithoutWaiting(int socket) {
  if (socket < 0) return socket;
  if (fcntl(socket, F_SETFD, FD_CLOEXEC) == 0 && fcntl(socket, F_SETFL, O_NONBLOCK) == 0) {
    return socket;
  }
  close(socket);
  return -1;
}

}  // namespace

int OpenSocket(int family) {
  return WithoutWaiting(socket(family, SOCK_STREAM, 0));
}

int AcceptSocket(int listening, sockaddr* address, socklen_t* size) {
  return WithoutWaiting(accept(listening, address, size));
}

#endif

}  // namespace folio
