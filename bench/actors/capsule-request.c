#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

// Messages of 64 bytes to another process over a socket and back.
struct message {
  int64_t method, argument, rest[6];
};

static void receive(int socket, int64_t n) {
  struct message m;
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    if (read(socket, &m, sizeof m) != sizeof m) _exit(1);
    sum = add(sum, m.argument);
    m.argument = sum;
    if (write(socket, &m, sizeof m) != sizeof m) _exit(1);
  }
}

static int64_t run(int64_t n) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) fail("no sockets");
  pid_t child = fork();
  if (child < 0) fail("no process");
  if (child == 0) {
    receive(sockets[1], n);
    _exit(0);
  }
  struct message m = {1, 0, {0}};
  int64_t last = 0;
  for (int64_t i = 1; i <= n; i++) {
    m.argument = add(last, i) & 7;
    if (write(sockets[0], &m, sizeof m) != sizeof m || read(sockets[0], &m, sizeof m) != sizeof m)
      fail("the other process is gone");
    last = m.argument;
  }
  waitpid(child, NULL, 0);
  close(sockets[0]);
  close(sockets[1]);
  return last;
}
