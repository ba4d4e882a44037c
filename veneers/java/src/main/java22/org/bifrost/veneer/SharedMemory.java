package org.bifrost.veneer;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The handover of shared memory, as {@code docs/spec/transport.md} has it. */
final class SharedMemory {
  private static final long MAGIC =
      MemorySegment.ofArray("BIFROSTR".getBytes(StandardCharsets.US_ASCII))
          .get(JAVA_LONG_UNALIGNED, 0);
  private static final long VERSION = 2;
  private static final int MESSAGE_BYTES = 24;
  private static final long RING_BYTES_MIN = 4096;
  private static final long RING_BYTES_MAX = 1L << 30;
  private static final long SEALED_AGAINST_SHRINKING = 2;

  private static final int SOL_SOCKET = 1;
  private static final int SCM_RIGHTS = 1;
  private static final int CONTROL_HEAD_BYTES = 16;

  /** The bytes for control messages: more descriptors than two are closed. */
  private static final int CONTROL_BYTES = 256;

  private static final long RETRY_MILLIS = 5;

  private SharedMemory() {}

  /** Connects to the unix socket at a path, and maps the memory that the server hands over. */
  static Connection connect(String path, long deadline) throws IOException {
    if (!System.getProperty("os.name").equals("Linux")) {
      throw new IOException("shared memory is on Linux only: connect to `unix:///path`");
    }
    try {
      return open(path, deadline);
    } catch (LinkageError | IllegalCallerException e) {
      throw new IOException(
          "shared memory needs functions of the system: start Java with"
              + " `--enable-native-access=ALL-UNNAMED`, on amd64 or aarch64",
          e);
    }
  }

  private static Connection open(String path, long deadline) throws IOException {
    ShmHandles handles = new ShmHandles(Libc.socket());
    boolean isOpen = false;
    try {
      connect(handles.socket(), path, deadline);
      handles.await(deadline);
      ShmConnection made = new ShmConnection(handles, receive(handles));
      handles.watch();
      isOpen = true;
      return made;
    } finally {
      if (!isOpen) {
        handles.free();
      }
    }
  }

  private static void connect(int socket, String path, long deadline) throws IOException {
    long wrong = Libc.connect(socket, path);
    // A listener whose queue is full.
    while (wrong == -Libc.EAGAIN || wrong == -Libc.EINTR) {
      if (deadline - System.nanoTime() <= 0) {
        throw new SocketTimeoutException("the server did not answer in time");
      }
      try {
        Thread.sleep(RETRY_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("the thread was interrupted while the session waited");
      }
      wrong = Libc.connect(socket, path);
    }
    if (wrong == -Libc.ENOENT) {
      throw new IOException("there is no socket at " + path);
    }
    if (wrong == -Libc.ECONNREFUSED) {
      throw new IOException("no server listens at " + path);
    }
    Libc.good("connect", wrong);
  }

  /** Takes the message with the memory and the bell. */
  private static MemorySegment receive(ShmHandles handles) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment message = arena.allocate(MESSAGE_BYTES, 8);
      MemorySegment control = arena.allocate(CONTROL_BYTES, 8);
      MemorySegment part = arena.allocate(16, 8);
      part.set(ADDRESS, 0, message);
      part.set(JAVA_LONG, 8, MESSAGE_BYTES);
      // The fields of `msghdr` with 64 bits: those of the name stay empty.
      MemorySegment header = arena.allocate(56, 8);
      header.set(ADDRESS, 16, part);
      header.set(JAVA_LONG, 24, 1);
      header.set(ADDRESS, 32, control);
      header.set(JAVA_LONG, 40, CONTROL_BYTES);
      long count = Libc.good("recvmsg", Libc.receive(handles.socket(), header));
      List<Integer> descriptors =
          descriptors(control.asSlice(0, Math.min(header.get(JAVA_LONG, 40), CONTROL_BYTES)));
      try {
        if (count == 0) {
          throw new IOException("the server has closed the connection");
        }
        return take(handles, message, count, descriptors);
      } finally {
        // The memory stays mapped without its descriptor.
        descriptors.forEach(Libc::close);
      }
    }
  }

  /** Returns the descriptors that are attached to a message. */
  private static List<Integer> descriptors(MemorySegment control) {
    List<Integer> all = new ArrayList<>();
    long at = 0;
    while (at + CONTROL_HEAD_BYTES <= control.byteSize()) {
      long length = Math.min(control.get(JAVA_LONG, at), control.byteSize() - at);
      if (length < CONTROL_HEAD_BYTES) {
        break;
      }
      if (control.get(JAVA_INT, at + 8) == SOL_SOCKET
          && control.get(JAVA_INT, at + 12) == SCM_RIGHTS) {
        for (long one = CONTROL_HEAD_BYTES; one + 4 <= length; one += 4) {
          all.add(control.get(JAVA_INT, at + one));
        }
      }
      at += (length + 7) & ~7L;
    }
    return all;
  }

  /** Checks the handover, and maps its memory. Takes the bell out of the descriptors. */
  private static MemorySegment take(
      ShmHandles handles, MemorySegment message, long count, List<Integer> descriptors)
      throws IOException {
    if (count != MESSAGE_BYTES || message.get(JAVA_LONG, 0) != MAGIC) {
      throw new IOException("the server's answer is not that of a listener of shared memory");
    }
    if (message.get(JAVA_LONG, 8) != VERSION) {
      throw new IOException("the server has another version of the layout of shared memory");
    }
    if (descriptors.size() < 2) {
      throw new IOException("the server sent no memory, or no bell");
    }
    long ring = message.get(JAVA_LONG, 16);
    if (ring < RING_BYTES_MIN || ring > RING_BYTES_MAX || (ring & (ring - 1)) != 0) {
      throw new IOException("the size of the server's rings is invalid");
    }
    int descriptor = descriptors.get(0);
    long seals = Libc.seals(descriptor);
    if (seals < 0 || (seals & SEALED_AGAINST_SHRINKING) == 0) {
      throw new IOException("the server's memory is not sealed against shrinking");
    }
    // A sealed size stays, so it is looked at behind the seals.
    long total = ShmRing.HEADER_BYTES + 2 * ring;
    if (Libc.size(descriptor) != total) {
      throw new IOException("the size of the server's memory is not that of its rings");
    }
    Libc.setNonBlocking(descriptors.get(1));
    MemorySegment memory = handles.map(descriptor, total);
    byte[] head = memory.asSlice(0, MESSAGE_BYTES).toArray(JAVA_BYTE);
    if (MemorySegment.ofArray(head).mismatch(message) != -1) {
      throw new IOException("the header of the server's memory is another one");
    }
    handles.takeBell(descriptors.remove(1));
    return memory;
  }
}
