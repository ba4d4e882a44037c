package org.bifrost.veneer;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The settings of a session. They are immutable: each {@code with} method returns others. */
public final class Options implements Cloneable {
  /** The time limit of a session that chooses none. */
  static final Duration TIMEOUT = Duration.ofSeconds(30);

  private @Nullable Stubs stubs;
  private String token = "";
  private String name = "";
  private String trace = "";
  private Duration timeout = TIMEOUT;
  private int replyBytesMax = Tables.REPLY_BYTES_MAX;
  private TlsFiles files = TlsFiles.NONE;
  private boolean isDebug = "1".equals(System.getenv("BIFROST_DEBUG"));

  private Options() {}

  /** Returns the default settings. Such a session takes the interface that its server describes. */
  public static Options defaults() {
    return new Options();
  }

  /** Returns the settings of a session with the stubs of generated code. */
  public static Options of(Stubs stubs) {
    Options made = new Options();
    made.stubs = Objects.requireNonNull(stubs);
    return made;
  }

  private Options copy() {
    try {
      return (Options) clone();
    } catch (CloneNotSupportedException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Sets the token that is shown to a server that asks for one. */
  public Options withToken(String text) {
    Options made = copy();
    made.token = checked(text);
    return made;
  }

  /** Sets the client's name, for the server's log. */
  public Options withName(String text) {
    Options made = copy();
    made.name = checked(text);
    return made;
  }

  /** Sets the client's place in a trace, as the traceparent of W3C Trace Context has it. */
  public Options withTrace(String traceparent) {
    Options made = copy();
    made.trace = checked(traceparent);
    return made;
  }

  /**
   * Sets the time limit of connecting, and of the answer to each batch; 30 seconds by default.
   * Batches that wait for changes of others have so much more time.
   */
  public Options withTimeout(Duration limit) {
    if (limit.isNegative() || limit.isZero()) {
      throw new IllegalArgumentException("a time limit is positive");
    }
    Options made = copy();
    made.timeout = limit;
    return made;
  }

  /** Sets the length of the longest reply that is read; 64 MiB by default. */
  public Options withReplyBytesMax(int bytes) {
    if (bytes < 1) {
      throw new IllegalArgumentException("a limit of bytes is positive");
    }
    Options made = copy();
    made.replyBytesMax = bytes;
    return made;
  }

  /**
   * Sets if the places of calls in the program are noted, for messages; a place costs some
   * microseconds. The environment variable {@code BIFROST_DEBUG=1} is the default.
   */
  public Options withDebug(boolean isWanted) {
    Options made = copy();
    made.isDebug = isWanted;
    return made;
  }

  /**
   * Sets the file of the authorities, in PEM, that may sign the certificates of servers. Without it
   * they are those of the file that {@code BIFROST_CA} names, or else of the system.
   */
  public Options withAuthorities(Path file) {
    Options made = copy();
    made.files = new TlsFiles(file, files.certificate(), files.key());
    return made;
  }

  /** Sets the client's own certificate, with those above it, and its key: files in PEM. */
  public Options withCertificate(Path certificate, Path key) {
    Options made = copy();
    made.files = new TlsFiles(files.authorities(), certificate, key);
    return made;
  }

  private static String checked(String text) {
    if (!Words.isText(text)) {
      throw new IllegalArgumentException("a text has half a pair of surrogates");
    }
    return text;
  }

  @Nullable Stubs stubs() {
    return stubs;
  }

  String token() {
    return token;
  }

  String name() {
    return name;
  }

  Duration timeout() {
    return timeout;
  }

  TlsFiles files() {
    return files;
  }

  boolean isDebug() {
    return isDebug;
  }

  Recorder.Settings settings() {
    Recorder.Settings settings = new Recorder.Settings();
    settings.trace = trace;
    settings.replyBytesMax = replyBytesMax;
    return settings;
  }
}
