package org.bifrost.veneer;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * A unix socket, or one of TCP.
 *
 * <p>The channel waits in the kernel, and {@link Deadlines} closes it when the time is over. Only
 * while answers are read between the pieces of a batch, or looked for, it does not wait.
 */
final class SocketConnection implements Connection {
  /** The bytes of the buffers. */
  private static final int BUFFER_BYTES = 64 * 1024;

  private final SocketChannel channel;
  private final Watch watch;
  private final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final ByteBuffer out = ByteBuffer.allocateDirect(BUFFER_BYTES);

  /** The deadline of a channel. */
  private static final class Watch extends Deadlines.Timed {
    private final SocketChannel channel;

    Watch(SocketChannel channel) {
      this.channel = channel;
    }

    @Override
    void stop() {
      try {
        channel.close();
      } catch (IOException e) {
        // It is closed all the same.
      }
    }
  }

  /** Connects to a server. */
  SocketConnection(Address address, long deadline) throws IOException {
    watch = connect(places(address), deadline);
    channel = watch.channel;
    if (!address.scheme().equals("unix")) {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    }
  }

  /** Connects at the first address that takes the connection. */
  private static Watch connect(List<SocketAddress> places, long deadline) throws IOException {
    for (int i = 0; ; i++) {
      boolean isUnix = places.get(i) instanceof UnixDomainSocketAddress;
      Watch watch =
          new Watch(
              isUnix ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open());
      Deadlines.add(watch);
      try {
        watch.begin(deadline);
        watch.channel.connect(places.get(i));
        watch.end();
        return watch;
      } catch (IOException | RuntimeException e) {
        close(watch);
        if (watch.isLate() || i == places.size() - 1) {
          throw failure(watch, e);
        }
      }
    }
  }

  private static List<SocketAddress> places(Address address) throws IOException {
    List<SocketAddress> places = new ArrayList<>();
    if (address.scheme().equals("unix")) {
      places.add(UnixDomainSocketAddress.of(address.path()));
    } else {
      for (InetAddress one : InetAddress.getAllByName(address.host())) {
        places.add(new InetSocketAddress(one, address.port()));
      }
    }
    return places;
  }

  private static IOException timedOut() {
    return new SocketTimeoutException("the server did not answer in time");
  }

  /** Returns the error of an operation: that of the time limit if that has ended it. */
  private static IOException failure(Watch watch, Exception e) {
    if (watch.isLate()) {
      return timedOut();
    }
    if (e instanceof ClosedByInterruptException) {
      return new InterruptedIOException("the thread was interrupted while the session waited");
    }
    if (e instanceof ClosedChannelException) {
      return new IOException("the connection is closed", e);
    }
    return e instanceof IOException io ? io : new IOException(e);
  }

  private void setBlocking(boolean blocking) throws IOException {
    if (channel.isBlocking() != blocking) {
      channel.configureBlocking(blocking);
    }
  }

  @Override
  public int receive(byte[] buffer, long deadline) throws IOException {
    try {
      setBlocking(true);
      return receiveNow(buffer, deadline);
    } catch (IOException e) {
      throw failure(watch, e);
    }
  }

  @Override
  public int tryReceive(byte[] buffer) throws IOException {
    try {
      setBlocking(false);
      return receiveNow(buffer, 0);
    } catch (IOException e) {
      throw failure(watch, e);
    }
  }

  private int receiveNow(byte[] buffer, long deadline) throws IOException {
    in.clear().limit(Math.min(buffer.length, in.capacity()));
    int count;
    if (channel.isBlocking()) {
      watch.begin(deadline);
      count = channel.read(in);
      watch.end();
    } else {
      count = channel.read(in);
    }
    if (count > 0) {
      in.flip().get(buffer, 0, count);
    }
    return count;
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline) throws IOException {
    try {
      setBlocking(true);
      for (int sent = 0; sent < length; sent += out.limit()) {
        out.clear().put(bytes, offset + sent, Math.min(length - sent, out.capacity())).flip();
        watch.begin(deadline);
        channel.write(out);
        watch.end();
      }
    } catch (IOException e) {
      throw failure(watch, e);
    }
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline, Taker answers)
      throws IOException {
    ByteBuffer data = ByteBuffer.wrap(bytes, offset, length);
    try {
      setBlocking(false);
      channel.write(data);
      if (data.hasRemaining()) {
        sendAndTake(data, deadline, answers);
      }
    } catch (IOException e) {
      throw failure(watch, e);
    }
  }

  private void sendAndTake(ByteBuffer data, long deadline, Taker answers) throws IOException {
    byte[] came = new byte[BUFFER_BYTES];
    try (Selector selector = Selector.open()) {
      SelectionKey key = channel.register(selector, SelectionKey.OP_READ | SelectionKey.OP_WRITE);
      while (data.hasRemaining()) {
        long millis = (deadline - System.nanoTime()) / 1_000_000;
        if (millis <= 0) {
          throw timedOut();
        }
        selector.select(millis);
        if (Thread.currentThread().isInterrupted()) {
          throw new ClosedByInterruptException();
        }
        selector.selectedKeys().clear();
        if (key.isReadable()) {
          int count = receiveNow(came, deadline);
          if (count < 0) {
            throw new IOException("the server closed the connection");
          }
          answers.take(came, count);
        }
        if (key.isWritable()) {
          channel.write(data);
        }
      }
    }
  }

  @Override
  public void close() {
    close(watch);
  }

  private static void close(Watch watch) {
    Deadlines.remove(watch);
    watch.stop();
  }
}
