package org.bifrost.veneer;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The bytes of replies, in whatever pieces they come. */
final class Replies {
  /** The room that is kept for the next reply. */
  private static final int KEPT_BYTES_MAX = 1 << 20;

  private final int bytesMax;

  /** The bytes of a reply that is not whole yet, and those behind one that was taken. */
  private byte[] kept = new byte[4096];

  private int start;
  private int end;

  /** The number of bytes that the reply at the front has at least. */
  private int needed;

  Replies(int bytesMax) {
    this.bytesMax = bytesMax;
  }

  /** Returns true if no bytes are kept. */
  boolean isEmpty() {
    return start == end;
  }

  /** Takes further bytes. Returns the reply at the front; null if that is not whole. */
  @Nullable Reply next(byte[] from, int count) throws MalformedException {
    if (end + count > kept.length) {
      System.arraycopy(kept, start, kept, 0, end - start);
      end -= start;
      start = 0;
      if (end + count > kept.length) {
        kept = Arrays.copyOf(kept, Math.max(Math.addExact(end, count), 2 * kept.length));
      }
    }
    System.arraycopy(from, 0, kept, end, count);
    end += count;
    if (isEmpty() || end - start < needed) {
      return null;
    }
    try {
      if (start > 0) {
        System.arraycopy(kept, start, kept, 0, end - start);
        end -= start;
        start = 0;
      }
      Reply.Decoded decoded = Reply.decode(kept, end, bytesMax);
      start = decoded.length();
      needed = 0;
      if (isEmpty()) {
        start = 0;
        end = 0;
        if (kept.length > KEPT_BYTES_MAX) {
          kept = new byte[4096];
        }
      }
      return decoded.reply();
    } catch (IncompleteException more) {
      needed = more.length;
      return null;
    }
  }
}
