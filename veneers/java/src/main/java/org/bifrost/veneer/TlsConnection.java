package org.bifrost.veneer;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLEngineResult.Status;
import javax.net.ssl.SSLException;

/** TLS over a socket. */
final class TlsConnection implements Connection {
  /** The records that are sent at once. */
  private static final int RECORDS = 4;

  /** The longest time that the end of a connection takes. */
  private static final long CLOSE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final SocketConnection socket;
  private final SSLEngine engine;

  /** The bytes that have come: from 0 to {@link #inCount}. */
  private byte[] in;

  private int inCount;

  /** The bytes of the stream that nobody has received yet. */
  private final ByteBuffer plain;

  private final ByteBuffer out;

  /** Connects, with the handshake. */
  TlsConnection(Address address, TlsFiles files, long deadline) throws IOException {
    engine = Tls.context(address, files).createSSLEngine(address.host(), address.port());
    engine.setUseClientMode(true);
    engine.setSSLParameters(Tls.parameters(address));
    in = new byte[engine.getSession().getPacketBufferSize()];
    plain = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize()).limit(0);
    out = ByteBuffer.allocate(RECORDS * engine.getSession().getPacketBufferSize());
    socket = new SocketConnection(address, deadline);
    try {
      engine.beginHandshake();
      handshake(deadline);
      if (!Tls.PROTOCOL.equals(engine.getApplicationProtocol())) {
        throw new SSLException("the server does not speak this protocol (ALPN)");
      }
    } catch (IOException | RuntimeException e) {
      alert();
      socket.close();
      throw e;
    }
  }

  private void handshake(long deadline) throws IOException {
    while (true) {
      switch (engine.getHandshakeStatus()) {
        case NEED_TASK -> runTasks();
        case NEED_WRAP -> wrap(ByteBuffer.allocate(0), deadline);
        case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
          if (unwrap() == Status.BUFFER_UNDERFLOW) {
            fill(deadline);
          }
        }
        case FINISHED, NOT_HANDSHAKING -> {
          return;
        }
      }
    }
  }

  private void runTasks() {
    for (Runnable task = engine.getDelegatedTask();
        task != null;
        task = engine.getDelegatedTask()) {
      task.run();
    }
  }

  /** Seals bytes, at least one record, and sends them. */
  private void wrap(ByteBuffer bytes, long deadline) throws IOException {
    seal(bytes);
    socket.send(out.array(), 0, out.remaining(), deadline);
  }

  private void seal(ByteBuffer bytes) throws IOException {
    out.clear();
    int record = engine.getSession().getPacketBufferSize();
    do {
      if (engine.wrap(bytes, out).getStatus() == Status.CLOSED) {
        throw new SSLException("the server closed the connection");
      }
    } while (bytes.hasRemaining() && out.remaining() >= record);
    out.flip();
  }

  /** Opens a record that has come, if nothing is left of the last one. */
  private Status unwrap() throws IOException {
    plain.clear();
    ByteBuffer came = ByteBuffer.wrap(in, 0, inCount);
    try {
      Status status = engine.unwrap(came, plain).getStatus();
      if (came.position() > 0) {
        inCount = came.remaining();
        System.arraycopy(in, came.position(), in, 0, inCount);
      }
      return status;
    } finally {
      plain.flip();
    }
  }

  /** Waits for bytes of the socket. */
  private void fill(long deadline) throws IOException {
    byte[] more = new byte[in.length];
    int count = socket.receive(more, deadline);
    append(more, count);
  }

  private void append(byte[] more, int count) throws IOException {
    if (count < 0) {
      throw new SSLException("the connection was cut: it has ended without the end of TLS");
    }
    if (inCount + count > in.length) {
      in = Arrays.copyOf(in, Math.max(2 * in.length, inCount + count));
    }
    System.arraycopy(more, 0, in, inCount, count);
    inCount += count;
  }

  /**
   * Opens records until one has bytes of the stream. Returns the reason why there are none: more
   * bytes of the socket are needed, or it is the end; {@code OK} if there are.
   */
  private Status open() throws IOException {
    while (!plain.hasRemaining()) {
      int before = inCount;
      Status status = unwrap();
      if (engine.getHandshakeStatus() == HandshakeStatus.NEED_TASK) {
        runTasks();
      } else if (status != Status.OK) {
        return status;
      } else if (inCount == before && !plain.hasRemaining()) {
        return Status.BUFFER_UNDERFLOW;
      }
    }
    return Status.OK;
  }

  private int take(byte[] buffer) {
    int count = Math.min(buffer.length, plain.remaining());
    plain.get(buffer, 0, count);
    return count;
  }

  @Override
  public int receive(byte[] buffer, long deadline) throws IOException {
    while (true) {
      switch (open()) {
        case OK -> {
          return take(buffer);
        }
        case CLOSED -> {
          return -1;
        }
        default -> {
          answer(deadline);
          fill(deadline);
        }
      }
    }
  }

  /** Sends what the protocol itself has to say, as a change of keys. */
  private void answer(long deadline) throws IOException {
    if (engine.getHandshakeStatus() == HandshakeStatus.NEED_WRAP) {
      wrap(ByteBuffer.allocate(0), deadline);
    }
  }

  @Override
  public int tryReceive(byte[] buffer) throws IOException {
    byte[] more = new byte[in.length];
    while (true) {
      switch (open()) {
        case OK -> {
          return take(buffer);
        }
        case CLOSED -> {
          return -1;
        }
        default -> {
          int count = socket.tryReceive(more);
          if (count == 0) {
            return 0;
          }
          append(more, count);
        }
      }
    }
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline) throws IOException {
    ByteBuffer data = ByteBuffer.wrap(bytes, offset, length);
    while (data.hasRemaining()) {
      wrap(data, deadline);
    }
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline, Taker answers)
      throws IOException {
    ByteBuffer data = ByteBuffer.wrap(bytes, offset, length);
    byte[] received = new byte[plain.capacity()];
    while (data.hasRemaining()) {
      seal(data);
      IOException[] failure = {null};
      Taker opening =
          (came, count) -> {
            try {
              append(came, count);
              while (open() == Status.OK) {
                answers.take(received, take(received));
              }
            } catch (IOException e) {
              failure[0] = e;
            }
          };
      socket.send(out.array(), 0, out.remaining(), deadline, opening);
      if (failure[0] != null) {
        throw failure[0];
      }
    }
  }

  /** Tells the server why the handshake has ended, if it is still there. */
  private void alert() {
    engine.closeOutbound();
    try {
      while (engine.getHandshakeStatus() == HandshakeStatus.NEED_WRAP) {
        seal(ByteBuffer.allocate(0));
        socket.send(out.array(), 0, out.remaining(), System.nanoTime() + CLOSE_NANOS);
      }
    } catch (IOException e) {
      // It is gone.
    }
  }

  @Override
  public void close() {
    alert();
    socket.close();
  }
}
