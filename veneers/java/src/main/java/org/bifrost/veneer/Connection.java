package org.bifrost.veneer;

import java.io.IOException;

/**
 * A two-way stream of bytes to a server.
 *
 * <p>One thread at a time uses it. A deadline is a time of {@link System#nanoTime}; an operation
 * that is not over by then throws {@link java.net.SocketTimeoutException}, and the connection has
 * ended.
 */
public interface Connection extends AutoCloseable {
  /** The user of bytes that come while others are sent. */
  @FunctionalInterface
  interface Taker {
    /**
     * Takes bytes.
     *
     * @param bytes an array that begins with them, valid during the call
     * @param count their number
     */
    void take(byte[] bytes, int count);
  }

  /**
   * Sends bytes, all of them. For batches whose answers nobody reads meanwhile: none is under way.
   *
   * @param bytes the array
   * @param offset the position of the first byte
   * @param length the number of bytes
   * @param deadline the end of the wait
   * @throws IOException if the connection has failed
   */
  void send(byte[] bytes, int offset, int length, long deadline) throws IOException;

  /**
   * Sends bytes while answers may be under way. A server that waits until its answers are read
   * takes no more bytes: so they are read meanwhile.
   *
   * @param bytes the array
   * @param offset the position of the first byte
   * @param length the number of bytes
   * @param deadline the end of the wait
   * @param answers the user of bytes that come
   * @throws IOException if the connection has failed
   */
  void send(byte[] bytes, int offset, int length, long deadline, Taker answers) throws IOException;

  /**
   * Receives bytes, and waits for the first.
   *
   * @param buffer the array, from whose beginning they stand
   * @param deadline the end of the wait
   * @return their number, or -1 if the server has closed the connection
   * @throws IOException if the connection has failed
   */
  int receive(byte[] buffer, long deadline) throws IOException;

  /**
   * Receives bytes that have come, without waiting.
   *
   * @param buffer the array, from whose beginning they stand
   * @return their number, 0 if there are none yet, or -1 if the server has closed the connection
   * @throws IOException if the connection has failed
   */
  int tryReceive(byte[] buffer) throws IOException;

  /** Closes the connection, behind the bytes that were sent. */
  @Override
  void close();
}
