#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

// Messages to another process over a socket, written 4 KiB at a time.
struct message {
  int64_t method, argument;
};
enum { SIZE = 4096 / sizeof(struct message) };

static void transfer(ssize_t (*by)(int, void *, size_t), int socket, void *bytes, size_t count) {
  while (count > 0) {
    ssize_t done = by(socket, bytes, count);
    if (done <= 0) fail("the other process is gone");
    bytes = (char *)bytes + done;
    count -= (size_t)done;
  }
}

static ssize_t put(int socket, void *bytes, size_t count) { return write(socket, bytes, count); }

static void receive(int socket, int64_t n) {
  struct message batch[SIZE];
  int64_t sum = 0;
  for (int64_t at = 0; at < n; at += SIZE) {
    int64_t count = n - at < SIZE ? n - at : SIZE;
    transfer(read, socket, batch, (size_t)count * sizeof *batch);
    for (int64_t i = 0; i < count; i++) sum = add(sum, batch[i].argument);
  }
  transfer(put, socket, &sum, sizeof sum);
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
  struct message batch[SIZE];
  int64_t count = 0, sum;
  for (int64_t i = 1; i <= n; i++) {
    batch[count++] = (struct message){1, i & 7};
    if (count == SIZE || i == n) {
      transfer(put, sockets[0], batch, (size_t)count * sizeof *batch);
      count = 0;
    }
  }
  transfer(read, sockets[0], &sum, sizeof sum);
  waitpid(child, NULL, 0);
  close(sockets[0]);
  close(sockets[1]);
  return sum;
}
