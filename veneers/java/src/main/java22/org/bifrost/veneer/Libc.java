package org.bifrost.veneer;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;

/**
 * The functions of the C library that shared memory needs, on Linux with 64 bits. A function that
 * has failed returns the negative number of its error.
 */
@SuppressWarnings("restricted")
final class Libc {
  static final int EPERM = 1;
  static final int ENOENT = 2;
  static final int EINTR = 4;
  static final int EAGAIN = 11;
  static final int ENOSYS = 38;
  static final int ECONNREFUSED = 111;

  static final int AF_UNIX = 1;
  static final int FUTEX_PRIVATE = 128;

  private static final int SOCKET_KIND = 1 | 0x80000 | 0x800; // STREAM, CLOEXEC, NONBLOCK
  private static final int RECEIVE_FLAGS = 0x40000000; // MSG_CMSG_CLOEXEC
  private static final int SHUT_BOTH = 2;
  private static final int POLL_IN = 1;
  private static final int GET_FLAGS = 3;
  private static final int SET_FLAGS = 4;
  private static final int GET_SEALS = 1034;
  private static final int NON_BLOCKING = 0x800;
  private static final int FROM_END = 2;
  private static final int READ_AND_WRITE = 3;
  private static final int MAP_SHARED = 1;
  private static final int CLOCK_MONOTONIC = 1;
  private static final int FUTEX_WAIT = 0;
  private static final int FUTEX_WAKE = 1;
  private static final long CALL_FUTEX = futexNumber();
  private static final long CALL_FUTEX_WAITV = 449;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final StructLayout STATE = Linker.Option.captureStateLayout();
  private static final VarHandle ERRNO =
      STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

  private static final MethodHandle SOCKET = function("socket", -1, JAVA_INT, JAVA_INT, JAVA_INT);
  private static final MethodHandle CONNECT = function("connect", -1, JAVA_INT, ADDRESS, JAVA_INT);
  private static final MethodHandle SHUTDOWN = function("shutdown", -1, JAVA_INT, JAVA_INT);
  private static final MethodHandle CLOSE = function("close", -1, JAVA_INT);
  private static final MethodHandle POLL = function("poll", -1, ADDRESS, JAVA_LONG, JAVA_INT);
  private static final MethodHandle FCNTL = function("fcntl", 2, JAVA_INT, JAVA_INT, JAVA_INT);
  private static final MethodHandle MUNMAP = function("munmap", -1, ADDRESS, JAVA_LONG);
  private static final MethodHandle CLOCK = function("clock_gettime", -1, JAVA_INT, ADDRESS);
  private static final MethodHandle RECEIVE =
      longFunction("recvmsg", -1, JAVA_INT, ADDRESS, JAVA_INT);
  private static final MethodHandle WRITE = longFunction("write", -1, JAVA_INT, ADDRESS, JAVA_LONG);
  private static final MethodHandle SEEK = longFunction("lseek", -1, JAVA_INT, JAVA_LONG, JAVA_INT);
  private static final MethodHandle MMAP =
      longFunction("mmap", -1, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG);
  private static final MethodHandle CALL =
      longFunction(
          "syscall", 1, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG);

  private Libc() {}

  private static long futexNumber() {
    return switch (System.getProperty("os.arch")) {
      case "amd64" -> 202;
      case "aarch64" -> 98;
      default -> throw new UnsupportedOperationException("no shared memory on this machine");
    };
  }

  private static MethodHandle function(String name, int fixed, MemoryLayout... parameters) {
    return link(name, fixed, FunctionDescriptor.of(JAVA_INT, parameters));
  }

  private static MethodHandle longFunction(String name, int fixed, MemoryLayout... parameters) {
    return link(name, fixed, FunctionDescriptor.of(JAVA_LONG, parameters));
  }

  /** Links a function; those with a fixed number of parameters before others are variadic. */
  private static MethodHandle link(String name, int fixed, FunctionDescriptor type) {
    MemorySegment address = LINKER.defaultLookup().find(name).orElseThrow();
    Linker.Option state = Linker.Option.captureCallState("errno");
    return fixed < 0
        ? LINKER.downcallHandle(address, type, state)
        : LINKER.downcallHandle(address, type, state, Linker.Option.firstVariadicArg(fixed));
  }

  /** A call of a function. */
  private interface Call {
    long run(MemorySegment state) throws Throwable;
  }

  private static long run(Call call) {
    try (Arena arena = Arena.ofConfined()) {
      return run(arena.allocate(STATE), call);
    }
  }

  private static long run(MemorySegment state, Call call) {
    try {
      long result = call.run(state);
      return result == -1 ? -(long) (int) ERRNO.get(state, 0L) : result;
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** Makes a unix socket that does not block. */
  static int socket() throws IOException {
    return (int)
        good("socket", run(state -> (int) SOCKET.invokeExact(state, AF_UNIX, SOCKET_KIND, 0)));
  }

  /** Throws if a result is an error. */
  static long good(String function, long result) throws IOException {
    if (result < 0) {
      throw new IOException(function + " has failed with error " + -result);
    }
    return result;
  }

  /** Connects a socket to a path. */
  static int connect(int socket, String path) {
    byte[] bytes = path.getBytes(StandardCharsets.UTF_8);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment address = arena.allocate(2 + Address.PATH_BYTES_MAX + 1, 2);
      address.set(JAVA_SHORT, 0, (short) AF_UNIX);
      MemorySegment.copy(bytes, 0, address, JAVA_BYTE, 2, bytes.length);
      int length = (int) address.byteSize();
      return (int) run(state -> (int) CONNECT.invokeExact(state, socket, address, length));
    }
  }

  /** Receives a message into memory of a {@code msghdr}. */
  static long receive(int socket, MemorySegment header) {
    return run(state -> (long) RECEIVE.invokeExact(state, socket, header, RECEIVE_FLAGS));
  }

  /** Waits until a socket can be read or has ended; negative milliseconds wait without end. */
  static long poll(int socket, int millis) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment one = arena.allocate(8, 4);
      one.set(JAVA_INT, 0, socket);
      one.set(JAVA_INT, 4, POLL_IN);
      return run(state -> (int) POLL.invokeExact(state, one, 1L, millis));
    }
  }

  static void shutdown(int socket) {
    run(state -> (int) SHUTDOWN.invokeExact(state, socket, SHUT_BOTH));
  }

  static void close(int descriptor) {
    run(state -> (int) CLOSE.invokeExact(state, descriptor));
  }

  /** Returns the seals of memory. */
  static long seals(int descriptor) {
    return run(state -> (int) FCNTL.invokeExact(state, descriptor, GET_SEALS, 0));
  }

  static void setNonBlocking(int descriptor) throws IOException {
    int flags =
        (int) good("fcntl", run(state -> (int) FCNTL.invokeExact(state, descriptor, GET_FLAGS, 0)));
    good(
        "fcntl",
        run(state -> (int) FCNTL.invokeExact(state, descriptor, SET_FLAGS, flags | NON_BLOCKING)));
  }

  /** Returns the bytes of memory. */
  static long size(int descriptor) {
    return run(state -> (long) SEEK.invokeExact(state, descriptor, 0L, FROM_END));
  }

  /** Maps memory until an arena is closed. */
  static MemorySegment map(int descriptor, long size, Arena arena) throws IOException {
    long address =
        run(
            state ->
                (long)
                    MMAP.invokeExact(
                        state,
                        MemorySegment.NULL,
                        size,
                        READ_AND_WRITE,
                        MAP_SHARED,
                        descriptor,
                        0L));
    // An address of this half of the memory is never negative.
    good("mmap", address);
    return MemorySegment.ofAddress(address).reinterpret(size, arena, Libc::unmap);
  }

  private static void unmap(MemorySegment memory) {
    MemorySegment all = MemorySegment.ofAddress(memory.address());
    long size = memory.byteSize();
    run(state -> (int) MUNMAP.invokeExact(state, all, size));
  }

  /** Adds 1 to an eventfd. */
  static void ring(int bell) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment one = arena.allocateFrom(JAVA_LONG, 1);
      // Fails only if the counter is full: then it was just written.
      run(state -> (long) WRITE.invokeExact(state, bell, one, 8L));
    }
  }

  /** Returns the nanoseconds of the monotonic clock of the kernel. */
  static long now() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment time = arena.allocate(16, 8);
      run(state -> (int) CLOCK.invokeExact(state, CLOCK_MONOTONIC, time));
      return time.get(JAVA_LONG, 0) * 1_000_000_000L + time.get(JAVA_LONG, 8);
    }
  }

  /** Wakes a sleeper on a word. */
  static void wake(MemorySegment word, int flag) {
    run(
        state ->
            (long)
                CALL.invokeExact(
                    state,
                    CALL_FUTEX,
                    word,
                    (long) (FUTEX_WAKE | flag),
                    1L,
                    MemorySegment.NULL,
                    0L,
                    0L));
  }

  /** Sleeps while words have their values, up to a time of the kernel's clock. */
  static long sleep(MemorySegment waiters, int count, MemorySegment until) {
    return run(
        state ->
            (long)
                CALL.invokeExact(
                    state,
                    CALL_FUTEX_WAITV,
                    waiters,
                    (long) count,
                    0L,
                    until,
                    (long) CLOCK_MONOTONIC,
                    0L));
  }

  /** Sleeps while a shared word is 1, for a time. */
  static void sleepOnOne(MemorySegment word, MemorySegment time) {
    run(
        state ->
            (long) CALL.invokeExact(state, CALL_FUTEX, word, (long) FUTEX_WAIT, 1L, time, 0L, 0L));
  }
}
