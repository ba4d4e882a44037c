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
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The server's side of shared memory, which a test plays: it listens, and hands over anything. */
@SuppressWarnings("restricted")
final class ShmPeer implements AutoCloseable {
  static final int RING = 4096;
  static final int TOTAL = ShmRing.HEADER_BYTES + 2 * RING;
  static final int ALL_SEALS = 7;

  private static final int ALLOW_SEALING = 2;
  private static final int ADD_SEALS = 1033;

  final Path folder = Files.createTempDirectory("bifrost-java-");
  final Arena arena = Arena.ofShared();
  private final int listener;

  ShmPeer() throws IOException {
    listener = call("socket", 1, 1, 0);
    MemorySegment address = arena.allocate(110, 2);
    address.set(JAVA_SHORT, 0, (short) 1);
    address.setString(2, path());
    call("bind", listener, address, 110);
    call("listen", listener, 8);
  }

  String path() {
    return folder.resolve("shm").toString();
  }

  /** Calls a function with integers of 32 and 64 bits, and memory. */
  static int call(String name, Object... values) throws IOException {
    MemoryLayout[] layouts = new MemoryLayout[values.length];
    for (int i = 0; i < values.length; i++) {
      layouts[i] =
          values[i] instanceof Integer ? JAVA_INT : values[i] instanceof Long ? JAVA_LONG : ADDRESS;
    }
    Linker linker = Linker.nativeLinker();
    MemorySegment function = linker.defaultLookup().find(name).orElseThrow();
    FunctionDescriptor type = FunctionDescriptor.of(JAVA_INT, layouts);
    MethodHandle handle =
        name.equals("fcntl")
            ? linker.downcallHandle(function, type, Linker.Option.firstVariadicArg(2))
            : linker.downcallHandle(function, type);
    try {
      int result = (int) handle.invokeWithArguments(values);
      if (result < 0) {
        throw new IOException(name + " has failed");
      }
      return result;
    } catch (IOException | RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** The front of the memory, which is the message of the handover as well. */
  static byte[] head(long ring, long version) {
    MemorySegment head = MemorySegment.ofArray(new long[] {0, version, ring});
    MemorySegment.copy(
        "BIFROSTR".getBytes(StandardCharsets.US_ASCII), 0, head, JAVA_BYTE, 0, Long.BYTES);
    return head.toArray(JAVA_BYTE);
  }

  /** Makes a memfd of a size with seals. */
  int memory(long size, int seals) throws IOException {
    int made = call("memfd_create", arena.allocateFrom("bifrost-test"), ALLOW_SEALING);
    call("ftruncate", made, size);
    call("fcntl", made, ADD_SEALS, seals);
    MemorySegment.copy(head(RING, 2), 0, map(made, size), JAVA_BYTE, 0, 24);
    return made;
  }

  MemorySegment map(int descriptor, long size) throws IOException {
    return Libc.map(descriptor, size, arena);
  }

  /** Makes an eventfd. */
  int bell() throws IOException {
    return call("eventfd", 0, 0);
  }

  /** Takes a connection. */
  int accept() throws IOException {
    return call("accept", listener, MemorySegment.NULL, MemorySegment.NULL);
  }

  /** Sends a message with descriptors. */
  void hand(int socket, byte[] message, int... descriptors) throws IOException {
    try (Arena here = Arena.ofConfined()) {
      MemorySegment part = here.allocate(16, 8);
      part.set(ADDRESS, 0, here.allocateFrom(JAVA_BYTE, message));
      part.set(JAVA_LONG, 8, message.length);
      MemorySegment header = here.allocate(56, 8);
      header.set(ADDRESS, 16, part);
      header.set(JAVA_LONG, 24, 1);
      if (descriptors.length > 0) {
        MemorySegment control = here.allocate(16 + 8 * descriptors.length, 8);
        control.set(JAVA_LONG, 0, 16 + 4 * descriptors.length);
        control.set(JAVA_INT, 8, 1);
        control.set(JAVA_INT, 12, 1);
        MemorySegment.copy(descriptors, 0, control, JAVA_INT, 16, descriptors.length);
        header.set(ADDRESS, 32, control);
        header.set(JAVA_LONG, 40, (16 + 4 * descriptors.length + 7) / 8 * 8);
      }
      call("sendmsg", socket, header, 0x4000);
    }
  }

  @Override
  public void close() throws IOException {
    Libc.close(listener);
    arena.close();
    Files.deleteIfExists(Path.of(path()));
    Files.delete(folder);
  }
}
