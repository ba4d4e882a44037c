package org.bifrost.veneer;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * A websocket, of the JDK's client.
 *
 * <p>A binary message is a piece of the stream, and its borders mean nothing. The client's threads
 * put pieces into a queue. They take none beyond {@link #QUEUE_BYTES_MAX} bytes until the user has
 * received some.
 */
final class WebSocketConnection implements Connection {
  /** The name by which the server knows the stream. */
  static final String SUBPROTOCOL = "bifrost.1";

  /** The most bytes of one message. */
  static final int MESSAGE_BYTES_MAX = 1 << 20;

  /** The bytes in the queue from which on no more are taken. */
  static final int QUEUE_BYTES_MAX = 1 << 20;

  /** The time after which a sender looks for bytes that have come. */
  private static final long TURN_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  private final Arrivals arrivals = new Arrivals();
  private final WebSocket socket;

  /** The pieces that have come. */
  private static final class Arrivals implements WebSocket.Listener {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Queue<ByteBuffer> queue = new ArrayDeque<>();
    private int queued;
    private @Nullable WebSocket waiting;
    private boolean isEnded;
    private @Nullable Throwable error;

    @Override
    public void onOpen(WebSocket socket) {
      socket.request(1);
    }

    @Override
    public @Nullable CompletionStage<?> onBinary(
        WebSocket socket, ByteBuffer data, boolean isLast) {
      ByteBuffer copy = ByteBuffer.allocate(data.remaining()).put(data).flip();
      lock.lock();
      try {
        queue.add(copy);
        queued += copy.remaining();
        if (queued < QUEUE_BYTES_MAX) {
          socket.request(1);
        } else {
          waiting = socket;
        }
        changed.signalAll();
      } finally {
        lock.unlock();
      }
      return null;
    }

    @Override
    public @Nullable CompletionStage<?> onText(
        WebSocket socket, CharSequence data, boolean isLast) {
      end(new IOException("the server sent text"));
      socket.abort();
      return null;
    }

    @Override
    public @Nullable CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
      end(null);
      return null;
    }

    @Override
    public void onError(WebSocket socket, Throwable failure) {
      end(failure);
    }

    private void end(@Nullable Throwable failure) {
      lock.lock();
      try {
        if (!isEnded) {
          isEnded = true;
          error = failure;
          changed.signalAll();
        }
      } finally {
        lock.unlock();
      }
    }

    /** Takes bytes. Returns -1 at the end, and 0 if none have come by the deadline. */
    int take(byte[] buffer, long deadline) throws IOException {
      lock.lock();
      try {
        ByteBuffer first;
        while ((first = queue.peek()) == null) {
          if (error != null) {
            throw new IOException("the websocket has failed: " + error.getMessage(), error);
          }
          if (isEnded) {
            return -1;
          }
          long left = deadline - System.nanoTime();
          if (left <= 0) {
            return 0;
          }
          changed.awaitNanos(left);
        }
        int count = Math.min(buffer.length, first.remaining());
        first.get(buffer, 0, count);
        if (!first.hasRemaining()) {
          queue.remove();
        }
        queued -= count;
        WebSocket resumed = waiting;
        if (resumed != null && queued < QUEUE_BYTES_MAX) {
          waiting = null;
          resumed.request(1);
        }
        return count;
      } catch (InterruptedException e) {
        throw interrupted();
      } finally {
        lock.unlock();
      }
    }
  }

  /** Opens a websocket. */
  WebSocketConnection(Address address, TlsFiles files, long deadline) throws IOException {
    HttpClient.Builder client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
    if (address.isTls()) {
      client.sslContext(Tls.context(address, files)).sslParameters(Tls.parameters(address));
    }
    Duration left = Duration.ofNanos(Math.max(1, deadline - System.nanoTime()));
    CompletableFuture<WebSocket> opening =
        client
            .build()
            .newWebSocketBuilder()
            .connectTimeout(left)
            .subprotocols(SUBPROTOCOL)
            .buildAsync(address.uri(), arrivals);
    socket = await(opening, deadline);
    if (!socket.getSubprotocol().equals(SUBPROTOCOL)) {
      socket.abort();
      throw new IOException("the server does not speak `" + SUBPROTOCOL + "`");
    }
  }

  private static InterruptedIOException interrupted() {
    Thread.currentThread().interrupt();
    return new InterruptedIOException("the thread was interrupted while the session waited");
  }

  private static SocketTimeoutException timedOut() {
    return new SocketTimeoutException("the server did not answer in time");
  }

  private static <T> T await(CompletableFuture<T> future, long deadline) throws IOException {
    try {
      return future.get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      future.cancel(true);
      throw timedOut();
    } catch (InterruptedException e) {
      future.cancel(true);
      throw interrupted();
    } catch (ExecutionException e) {
      throw failure(e.getCause() == null ? e : e.getCause());
    }
  }

  private static IOException failure(Throwable cause) {
    if (cause instanceof WebSocketHandshakeException refused) {
      return new IOException(
          "the server opened no websocket: status " + refused.getResponse().statusCode(), cause);
    }
    if (cause instanceof java.net.http.HttpTimeoutException) {
      return timedOut();
    }
    return cause instanceof IOException io ? io : new IOException(cause);
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline) throws IOException {
    for (int sent = 0; sent < length; sent += MESSAGE_BYTES_MAX) {
      int count = Math.min(length - sent, MESSAGE_BYTES_MAX);
      await(socket.sendBinary(ByteBuffer.wrap(bytes, offset + sent, count), true), deadline);
    }
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline, Taker answers)
      throws IOException {
    byte[] came = new byte[MESSAGE_BYTES_MAX];
    for (int sent = 0; sent < length; sent += MESSAGE_BYTES_MAX) {
      int count = Math.min(length - sent, MESSAGE_BYTES_MAX);
      CompletableFuture<WebSocket> sending =
          socket.sendBinary(ByteBuffer.wrap(bytes, offset + sent, count), true);
      while (!sending.isDone()) {
        long now = System.nanoTime();
        if (deadline - now <= 0) {
          throw timedOut();
        }
        int taken = arrivals.take(came, now + TURN_NANOS);
        if (taken < 0) {
          throw new IOException("the server closed the connection");
        }
        if (taken > 0) {
          answers.take(came, taken);
        }
      }
      await(sending, deadline);
    }
  }

  @Override
  public int receive(byte[] buffer, long deadline) throws IOException {
    int count = arrivals.take(buffer, deadline);
    if (count == 0) {
      socket.abort();
      throw timedOut();
    }
    return count;
  }

  @Override
  public int tryReceive(byte[] buffer) throws IOException {
    return arrivals.take(buffer, System.nanoTime());
  }

  @Override
  public void close() {
    var unused =
        socket
            .sendClose(WebSocket.NORMAL_CLOSURE, "")
            .orTimeout(1, TimeUnit.SECONDS)
            .whenComplete((sent, failure) -> socket.abort());
  }
}
