package org.bifrost.veneer;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The reason why a stub has no result. A failure is one object, by whose identity the account of
 * told failures knows it; {@link BifrostException}s are made of it.
 */
public abstract sealed class Failure {
  /** The number of stubs that have this failure. */
  int holders;

  private Failure() {}

  /** Returns the failure that this one follows from; null if there is none. */
  public @Nullable Failure cause() {
    return null;
  }

  /** Returns the name of the call that failed; null if there is none. */
  public @Nullable CallName call() {
    return null;
  }

  /** Returns the failure that started this one; of several unseen failures the oldest. */
  public final Failure root() {
    Failure one = this;
    for (Failure cause = cause(); cause != null; cause = cause.cause()) {
      one = cause;
    }
    return one;
  }

  /** Returns the calls between this one and the one that failed first, nearest first. */
  final List<CallName> via() {
    List<CallName> calls = new ArrayList<>();
    if (this instanceof Unseen) {
      return calls;
    }
    for (Failure one = this; one != null && one.cause() != null; one = one.cause()) {
      CallName call = one.call();
      if (call != null) {
        calls.add(call);
      }
    }
    return calls;
  }

  /** Returns the sentence that tells the failure and its causes. */
  @Override
  public abstract String toString();

  /**
   * Returns the failure as the cause of another: beyond a depth the root stands for all between.
   */
  final Failure asCause() {
    int depth = 0;
    for (Failure one = this; one != null; one = one.cause()) {
      if (depth == Tables.CAUSES_MAX) {
        return root();
      }
      depth++;
    }
    return this;
  }

  /** Returns the name of an error of the server. */
  static String errorName(int number) {
    for (Tables.ErrorRow row : Tables.ERRORS) {
      if (row.number() == number) {
        return row.name();
      }
    }
    return "error " + Integer.toUnsignedString(number);
  }

  /** Returns true if an error of the server ends its batch. */
  static boolean endsBatch(int number) {
    for (Tables.ErrorRow row : Tables.ERRORS) {
      if (row.number() == number) {
        return row.scope().equals("batch");
      }
    }
    return false;
  }

  private static String because(String text, @Nullable Failure cause) {
    return cause == null ? text : text + ": " + cause;
  }

  /**
   * A call, for messages.
   *
   * @param name as {@code DataBase.fetch}; {@code ?} for a call that is not known
   * @param number the position of the call in its batch, from 1; 0 if it was not sent
   * @param rounds the rounds of the loops around the call, outermost first
   * @param source the place in the program that made the call; null if it is not known
   */
  public record CallName(String name, int number, List<Integer> rounds, @Nullable Object source) {
    /** Returns the call as messages show it. */
    @Override
    public String toString() {
      String text = source == null ? name : name + " at " + source;
      return switch (rounds.size()) {
        case 0 -> text;
        case 1 -> text + ", round " + Integer.toUnsignedString(rounds.get(0));
        default -> text + ", rounds " + rounds;
      };
    }

    static CallName unsent(String name, @Nullable Object source) {
      return new CallName(name, 0, List.of(), source);
    }
  }

  /** A call that signalled an exception. */
  public static final class Signal extends Failure {
    private final String name;
    private final List<Value> values;
    private final List<Place> places;
    private final long morePlaces;
    private final CallName call;

    Signal(String name, List<Value> values, List<Place> places, long morePlaces, CallName call) {
      this.name = name;
      this.values = values;
      this.places = places;
      this.morePlaces = morePlaces;
      this.call = call;
    }

    /** Returns the exception's name. */
    public String name() {
      return name;
    }

    /** Returns the exception's values. */
    public List<Value> values() {
      return values;
    }

    /** Returns the places of a failure in the server's program; none if they are not shown. */
    public List<Place> places() {
      return places;
    }

    /** Returns the number of places that are not listed. */
    public long morePlaces() {
      return morePlaces;
    }

    @Override
    public CallName call() {
      return call;
    }

    @Override
    public String toString() {
      String text = call + " signalled " + name;
      if (values.isEmpty()) {
        return text;
      }
      List<String> shown = new ArrayList<>();
      values.forEach(value -> shown.add(value.toString()));
      return text + "(" + String.join(", ", shown) + ")";
    }
  }

  /** A call that was not run, because an argument is the result of a call that failed. */
  public static final class Unhandled extends Failure {
    private final int argument;
    private final @Nullable Failure reason;
    private final CallName call;

    Unhandled(int argument, @Nullable Failure reason, CallName call) {
      this.argument = argument;
      this.reason = reason;
      this.call = call;
    }

    /** Returns the position of the argument: 0 is the receiver, the arguments count from 1. */
    public int argument() {
      return argument;
    }

    @Override
    public @Nullable Failure cause() {
      return reason;
    }

    @Override
    public CallName call() {
      return call;
    }

    @Override
    public String toString() {
      String part = argument == 0 ? "receiver" : "argument " + argument;
      return because(call + " was not run because its " + part + " failed", reason);
    }
  }

  /** A call that the server refused, alone or with the structure around it. */
  public static final class Refused extends Failure {
    private final int number;
    private final String text;
    private final CallName call;

    Refused(int number, String text, CallName call) {
      this.number = number;
      this.text = text;
      this.call = call;
    }

    /** Returns the number of the server's error. */
    public int number() {
      return number;
    }

    /** Returns the server's text. */
    public String text() {
      return text;
    }

    @Override
    public CallName call() {
      return call;
    }

    @Override
    public String toString() {
      String error = errorName(number) + ", " + Integer.toUnsignedString(number);
      return call + " was refused: " + text + " (" + error + ")";
    }
  }

  /** A call behind a failure that ended the batch. */
  public static final class NotReached extends Failure {
    private final @Nullable Failure reason;
    private final CallName call;

    NotReached(@Nullable Failure reason, CallName call) {
      this.reason = reason;
      this.call = call;
    }

    @Override
    public @Nullable Failure cause() {
      return reason;
    }

    @Override
    public CallName call() {
      return call;
    }

    @Override
    public String toString() {
      return because(call + " was not reached", reason);
    }
  }

  /** A call, a marker or a structure that the client refused. Nothing of it was sent. */
  public static final class NotSent extends Failure {
    private final CallName call;
    private final Failure reason;

    NotSent(CallName call, Failure reason) {
      this.call = call;
      this.reason = reason;
    }

    @Override
    public Failure cause() {
      return reason;
    }

    @Override
    public CallName call() {
      return call;
    }

    @Override
    public String toString() {
      return call + " was not sent: " + reason;
    }
  }

  /** Failures that the program was not told of before, oldest first. */
  public static final class Unseen extends Failure {
    private final List<Failure> failures;
    private final long omitted;
    private final @Nullable CallName call;

    Unseen(List<Failure> failures, long omitted, @Nullable CallName call) {
      this.failures = failures;
      this.omitted = omitted;
      this.call = call;
    }

    /** Returns the failures. */
    public List<Failure> failures() {
      return failures;
    }

    /** Returns the number of failures that are not listed. */
    public long omitted() {
      return omitted;
    }

    /** Returns the oldest failure. */
    @Override
    public @Nullable Failure cause() {
      return failures.isEmpty() ? null : failures.get(0);
    }

    /** Returns the commit or transaction that the failures prevented; null at a claim or flush. */
    @Override
    public @Nullable CallName call() {
      return call;
    }

    @Override
    public String toString() {
      StringBuilder text = new StringBuilder();
      if (call != null) {
        text.append(call).append(" was refused, and the transaction is undone: ");
      }
      long count = failures.size() + omitted;
      text.append(count == 1 ? "a failure was not seen" : count + " failures were not seen");
      String separator = ": ";
      for (Failure failure : failures) {
        text.append(separator).append(failure);
        separator = "; ";
      }
      return text.toString();
    }
  }

  /** A stub that was used in a way that makes no sense. */
  public static final class Misused extends Failure {
    private final Misuse misuse;

    Misused(Misuse misuse) {
      this.misuse = misuse;
    }

    /** Returns the misuse. */
    public Misuse misuse() {
      return misuse;
    }

    @Override
    public String toString() {
      return misuse.text();
    }
  }

  /** A call whose method, routine or type the server lacks, or has with another heading. */
  public static final class Missing extends Failure {
    private final String name;

    Missing(String name) {
      this.name = name;
    }

    /** Returns the name of the missing part. */
    public String name() {
      return name;
    }

    @Override
    public String toString() {
      return "the server has no " + name + " with the heading of the stub";
    }
  }

  /** The end of the session: the failure of all its stubs. */
  public static final class Ended extends Failure {
    private final Ending why;

    Ended(Ending why) {
      this.why = why;
    }

    /** Returns the reason of the end. */
    public Ending why() {
      return why;
    }

    @Override
    public String toString() {
      return why.text();
    }
  }

  /** The reason why a session ended. */
  public sealed interface Ending {
    /** Returns the sentence that tells it. */
    String text();
  }

  /** The client closed the session. */
  public record ByClient() implements Ending {
    @Override
    public String text() {
      return "the session was closed";
    }
  }

  /**
   * The connection failed.
   *
   * @param error its error
   */
  public record ByConnection(IOException error) implements Ending {
    @Override
    public String text() {
      return "the connection has ended: " + error.getMessage();
    }
  }

  /**
   * The server ended the session.
   *
   * @param number the number of the error
   * @param position the number of the command that is to blame, or 0
   * @param reason the server's text
   */
  public record ByServer(int number, long position, String reason) implements Ending {
    @Override
    public String text() {
      String error = errorName(number) + ", " + Integer.toUnsignedString(number);
      return "the server ended the session: " + reason + " (" + error + ")";
    }
  }

  /**
   * The server sent bytes that are no reply.
   *
   * @param number the number of the error in them
   * @param reason the sentence that tells it
   */
  public record ByBadReply(int number, String reason) implements Ending {
    @Override
    public String text() {
      return "the server's reply cannot be read: " + reason;
    }
  }

  /**
   * The server sent another reply than the one that was due.
   *
   * @param expected the reply that was due
   */
  public record ByWrongReply(String expected) implements Ending {
    @Override
    public String text() {
      return "the server sent another reply than " + expected;
    }
  }

  /**
   * An entry of the history: a failure, and the number of its batch in the session.
   *
   * @param batch the number
   * @param failure the failure
   */
  public record Entry(long batch, Failure failure) {}

  static List<Integer> boxed(int[] rounds) {
    return Arrays.stream(rounds).boxed().toList();
  }

  static Failure misused(Misuse misuse) {
    return new Misused(misuse);
  }
}
