#pragma once

#include <sys/socket.h>

namespace folio {

// A stream socket of `family`, and the next client of one that listens: neither waits, nor do
// programs that are started have it. -1 and errno.
int OpenSocket(int family);
int AcceptSocket(int listening, sockaddr* address, socklen_t* size);

}  // namespace folio
