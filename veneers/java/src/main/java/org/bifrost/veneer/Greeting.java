package org.bifrost.veneer;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A session that is being opened. It becomes a recorder.
 *
 * <pre>
 * hello sent --welcome, the same digest--> the recorder
 * hello sent --welcome, another digest--> describe sent --interface--> the recorder
 * any        --another reply, an error of the server--> a failure
 * </pre>
 */
final class Greeting {
  private final @Nullable Stubs stubs;
  private final Recorder.Settings settings;
  private final Bounds bounds = new Bounds();
  private final Replies replies;
  private final Words questions = new Words(256);

  /** The digest of the server that was asked for its interface. */
  private byte @Nullable [] digest;

  /**
   * Makes the greeting of a session with these stubs. Without stubs it makes those of the interface
   * that the server describes.
   */
  Greeting(@Nullable Stubs stubs, String token, String client, Recorder.Settings settings) {
    this.stubs = stubs;
    this.settings = settings;
    replies = new Replies(settings.replyBytesMax);
    byte[] own = stubs == null ? new byte[Stubs.DIGEST_BYTES] : stubs.digest;
    questions.hello(own, token, client, settings.trace, Tables.VERSION);
  }

  /** Takes the bytes to be sent now. */
  byte[] takeBytes() {
    byte[] bytes = questions.copy();
    questions.length = 0;
    return bytes;
  }

  /**
   * Takes bytes of the server, cut anywhere. Returns the recorder when the server has answered;
   * null if more bytes are to be sent or read.
   *
   * @throws ClosedException if there is no session
   */
  @Nullable Recorder handleBytes(byte[] bytes, int count) {
    Reply came;
    try {
      came = replies.next(bytes, count);
    } catch (MalformedException bad) {
      throw refused(new Failure.ByBadReply(bad.number, String.valueOf(bad.getMessage())));
    }
    if (came == null) {
      return null;
    }
    if (came instanceof Reply.Broken end) {
      throw refused(new Failure.ByServer(end.number(), end.position(), end.text()));
    }
    // Each question is asked alone, so nothing can follow its answer.
    if (!replies.isEmpty()) {
      throw refused(new Failure.ByWrongReply("a single reply"));
    }
    if (came instanceof Reply.Welcome welcome && digest == null) {
      return welcome(welcome);
    }
    if (came instanceof Reply.Described described && digest != null) {
      return describe(described, digest);
    }
    throw refused(new Failure.ByWrongReply(digest == null ? "a welcome" : "an interface"));
  }

  private static ClosedException refused(Failure.Ending why) {
    return new ClosedException(new Failure.Ended(why));
  }

  private @Nullable Recorder welcome(Reply.Welcome welcome) {
    if (welcome.version() != Tables.VERSION) {
      throw refused(
          new Failure.ByWrongReply(
              "a welcome of version "
                  + Tables.VERSION
                  + " of the wire form: it has version "
                  + Integer.toUnsignedString(welcome.version())));
    }
    for (Reply.LimitValue limit : welcome.limits()) {
      bounds.set(limit.number(), limit.value());
    }
    if (stubs != null && Arrays.equals(stubs.digest, welcome.digest())) {
      return recorder(Numbers.same(stubs));
    }
    digest = welcome.digest();
    questions.word(Tables.OP_DESCRIBE);
    return null;
  }

  private Recorder describe(Reply.Described described, byte[] ofServer) {
    Interface server;
    try {
      server = Interface.parse(new String(described.json(), StandardCharsets.UTF_8));
    } catch (IllegalArgumentException bad) {
      throw refused(new Failure.ByWrongReply("an interface: " + bad.getMessage()));
    }
    return recorder(
        stubs == null
            ? Numbers.same(Stubs.of(ofServer, server, List.of()))
            : Numbers.mapped(stubs, server));
  }

  private Recorder recorder(Numbers numbers) {
    return new Recorder(numbers, bounds, settings, replies);
  }
}
