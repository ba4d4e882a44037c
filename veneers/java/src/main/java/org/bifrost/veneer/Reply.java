package org.bifrost.veneer;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A reply of the server. No byte of one is trusted: lengths, tags, counts, padding and UTF-8 are
 * checked. {@link #decode} is the method to read first.
 */
sealed interface Reply {
  /** The answer to {@code hello}: the server's description of itself. */
  record Welcome(int version, long session, byte[] digest, String server, List<LimitValue> limits)
      implements Reply {}

  /** The value of a limit, by the number of the limit. */
  record LimitValue(int number, long value) {}

  /**
   * The answer to {@code flush}. An outcome is a value or an object, or has one of these tags:
   * {@code TAG_EXCEPTION} with the place in the list of exceptions as its word, {@code TAG_ABSENT},
   * {@code TAG_ROWS}.
   */
  record Flushed(
      List<Value> outcomes,
      List<Thrown> exceptions,
      int omitted,
      int calls,
      int fuel,
      @Nullable Profile profile)
      implements Reply {}

  /** The answer to {@code describe}. */
  record Described(byte[] json) implements Reply {}

  /** The answer to {@code history}. */
  record History(List<HistoryException> entries, long omitted) implements Reply {}

  /** An exception of the history, with the number of its batch. */
  record HistoryException(long batch, Thrown exception) {}

  /** The answer to {@code bye}. */
  record Farewell() implements Reply {}

  /** The end of the session. */
  record Broken(int number, long position, String text) implements Reply {}

  /**
   * An exception of a batch: the position of its call, the rounds of the loops around it, and its
   * parts.
   */
  record Thrown(int call, int[] rounds, Parts parts) {}

  /** The parts of an exception. */
  sealed interface Parts {}

  /** The parts of a signal. */
  record Signalled(String name, List<Value> values, List<Place> places, long morePlaces)
      implements Parts {}

  /**
   * The parts of a call that was not run: the argument that failed, the batches back to the call
   * whose result it is, and the position of that call.
   */
  record NotRun(int argument, int back, int cause) implements Parts {}

  /** The parts of a call that was refused. */
  record Refused(int number, String text) implements Parts {}

  /** A reply, and its length. */
  record Decoded(Reply reply, int length) {}

  /**
   * Reads the reply at the front of bytes.
   *
   * @param bytesMax the longest reply that is read
   */
  static Decoded decode(byte[] data, int length, int bytesMax)
      throws MalformedException, IncompleteException {
    Reader stream = new Reader(data, 0, length, bytesMax);
    long word = stream.word();
    int code = (int) word & 0xff;
    int flags = (int) (word >>> 8) & 0xffffff;
    boolean isProfiled = code == Tables.OP_FLUSHED && flags == Tables.FLUSHED_PROFILED;
    boolean isReply = code >= Tables.OP_WELCOME && code <= Tables.OP_ERROR;
    stream.check(isReply && (flags == 0 || isProfiled), "the code of a reply");
    long bodyLength = stream.word();
    stream.check(bodyLength % 8 == 0, "a length in whole words");
    stream.skip(bodyLength);
    int end = stream.at;
    Reader reader = new Reader(data, 16, end, end);
    Reply reply;
    try {
      reply = new ReplyReader(reader).reply(code, (int) (word >>> 32), isProfiled);
    } catch (IncompleteException isShort) {
      throw reader.wrong(Tables.ERROR_BAD_WORD, "a reply of the length in its header");
    }
    reader.check(reader.at == end, "a reply no longer than its parts");
    return new Decoded(reply, end);
  }

  /** The reader of the parts of replies. */
  final class ReplyReader {
    private final Reader r;

    ReplyReader(Reader reader) {
      r = reader;
    }

    Reply reply(int code, int number, boolean isProfiled)
        throws MalformedException, IncompleteException {
      switch (code) {
        case Tables.OP_FLUSHED:
          return flushed(number, isProfiled);
        case Tables.OP_WELCOME:
          return welcome(number);
        case Tables.OP_INTERFACE:
          r.check(number == 0, "zeros after the code");
          return new Described(r.bytes());
        case Tables.OP_EXCEPTIONS:
          long omitted = r.word();
          List<HistoryException> entries = new ArrayList<>();
          for (long index = 0; index < unsigned(number); index++) {
            long batch = r.word();
            entries.add(new HistoryException(batch, exception()));
          }
          return new History(entries, omitted);
        case Tables.OP_FAREWELL:
          r.check(number == 0, "zeros after the code");
          return new Farewell();
        default:
          return new Broken(number, r.word(), r.text());
      }
    }

    private static long unsigned(int number) {
      return number & 0xffffffffL;
    }

    private Welcome welcome(int version) throws MalformedException, IncompleteException {
      long session = r.word();
      byte[] digest = new byte[32];
      System.arraycopy(r.data, r.skip(32), digest, 0, 32);
      String server = r.text();
      long count = r.word();
      if (count < 0 || count > Integer.MAX_VALUE) {
        throw r.wrong(Tables.ERROR_FRAME_TOO_LONG, "a command within the length limit");
      }
      List<LimitValue> limits = new ArrayList<>();
      for (long index = 0; index < count; index++) {
        int limit = (int) r.word();
        limits.add(new LimitValue(limit, r.word()));
      }
      return new Welcome(version, session, digest, server, limits);
    }

    private Flushed flushed(int count, boolean isProfiled)
        throws MalformedException, IncompleteException {
      long counts = r.word();
      long cost = r.word();
      int listed = (int) counts;
      // An outcome has a word at least, and most have two.
      List<Value> outcomes = new ArrayList<>((int) Math.min(unsigned(count), (r.end - r.at) / 8));
      for (long index = 0; index < unsigned(count); index++) {
        Value outcome = outcome();
        if (outcome.tag == Tables.TAG_EXCEPTION) {
          r.check(outcome.word < unsigned(listed), "an exception of the list");
        }
        outcomes.add(outcome);
      }
      List<Thrown> exceptions = new ArrayList<>();
      for (long index = 0; index < unsigned(listed); index++) {
        exceptions.add(exception());
      }
      Profile profile = isProfiled ? profile() : null;
      return new Flushed(
          outcomes, exceptions, (int) (counts >>> 32), (int) cost, (int) (cost >>> 32), profile);
    }

    private Profile profile() throws MalformedException, IncompleteException {
      long nanoseconds = r.word();
      long fetched = r.word();
      long runs = r.word();
      long counts = r.word();
      r.check(runs >>> 32 == 0, "zeros behind the number of runs");
      List<Profile.Entry> entries = new ArrayList<>();
      for (long index = 0; index < unsigned((int) counts); index++) {
        long word = r.word();
        r.check(word >>> 32 != 0, "the position of a call");
        int kind = (int) word;
        boolean isStructure = kind == Tables.PROFILE_STRUCTURE;
        r.check(isStructure || kind == Tables.PROFILE_COMMAND, "the kind of an entry");
        entries.add(new Profile.Entry((int) (word >>> 32), isStructure, cost()));
      }
      int omitted = (int) (counts >>> 32);
      Profile.Cost rest = null;
      if (omitted != 0) {
        r.check(r.word() == Tables.PROFILE_REST, "the rest of a profile");
        rest = cost();
      }
      return new Profile(
          nanoseconds, (int) fetched, (int) (fetched >>> 32), (int) runs, entries, omitted, rest);
    }

    private Profile.Cost cost() throws IncompleteException {
      long nanoseconds = r.word();
      long ran = r.word();
      long fetched = r.word();
      return new Profile.Cost(
          nanoseconds, (int) ran, (int) (ran >>> 32), (int) fetched, (int) (fetched >>> 32));
    }

    /** Reads the number of a handle, which is above zero. */
    private Value handle(int type) throws MalformedException, IncompleteException {
      long number = r.word();
      r.check(number > 0, "a handle");
      return Value.object(number, type);
    }

    /** Reads a value in which all references are handles. */
    private Value value(int tag) throws MalformedException, IncompleteException {
      Value value = r.value(tag, 1);
      boolean[] isGood = {true};
      value.eachReference(handle -> isGood[0] &= handle > 0);
      r.check(isGood[0], "a handle");
      return value;
    }

    private Value outcome() throws MalformedException, IncompleteException {
      long word = r.word();
      int tag = (int) word & 0xff;
      int number = (int) (word >>> 32);
      r.check((word >>> 8 & 0xffffff) == 0, "zeros after a tag");
      switch (tag) {
        case Tables.TAG_REF:
          return handle(number);
        case Tables.TAG_EXCEPTION:
          return Value.ofWord(tag, unsigned(number));
        case Tables.TAG_ROWS:
          return Value.ofData(tag, table(number));
        default:
          r.check(number == 0, "zeros after a tag");
          return tag == Tables.TAG_ABSENT ? Value.ofWord(tag, 0) : value(tag);
      }
    }

    private Value.Table table(int count) throws MalformedException, IncompleteException {
      long length = r.word();
      r.check(length % 8 == 0, "a length in whole words");
      int start = r.skip(length);
      Reader inner = new Reader(r.data, start, r.at, r.at);
      Value.Table table;
      try {
        table = new ReplyReader(inner).tableParts(count);
      } catch (IncompleteException isShort) {
        throw r.wrong(Tables.ERROR_BAD_WORD, "a table of the length in its header");
      }
      r.check(inner.at == r.at, "a table no longer than its cells");
      return table;
    }

    private Value.Table tableParts(int count) throws MalformedException, IncompleteException {
      long width = r.word();
      r.check(width >= 1 && width <= Tables.ARGUMENTS_MAX, "a count of columns");
      List<Value.Column> columns = new ArrayList<>();
      for (long index = 0; index < width; index++) {
        long word = r.word();
        int tag = (int) word & 0xff;
        boolean isColumn =
            tag <= Tables.TAG_STRING || tag == Tables.TAG_BYTES || tag == Tables.TAG_COMPOUND;
        r.check(
            isColumn && (word >>> 8 & 0xffffff) == 0, "the tag of a column, and zeros after it");
        columns.add(new Value.Column(tag, (int) (word >>> 32)));
      }
      List<Value> cells = new ArrayList<>();
      for (long row = 0; row < unsigned(count); row++) {
        for (Value.Column column : columns) {
          cells.add(column.tag() == Tables.TAG_REF ? handle(column.type()) : value(column.tag()));
        }
      }
      return new Value.Table(count, columns, cells);
    }

    private Thrown exception() throws MalformedException, IncompleteException {
      long word = r.word();
      int kind = (int) word & 0xff;
      int values = (int) (word >>> 8) & 0xff;
      int places = (int) (word >>> 24) & 0xff;
      boolean isSignal = kind == Tables.EXCEPTION_SIGNAL;
      r.check(isSignal || values == 0 && places == 0, "zeros for the counts");
      int[] rounds = new int[(int) (word >>> 16) & 0xff];
      for (int index = 0; index < rounds.length; index++) {
        long round = r.word();
        r.check(round >>> 32 == 0, "the number of a round");
        rounds[index] = (int) round;
      }
      return new Thrown((int) (word >>> 32), rounds, parts(kind, values, places));
    }

    private Parts parts(int kind, int values, int places)
        throws MalformedException, IncompleteException {
      switch (kind) {
        case Tables.EXCEPTION_SIGNAL:
          return signal(values, places);
        case Tables.EXCEPTION_UNHANDLED:
          long cause = r.word();
          return new NotRun(
              (int) cause & 0xffffff, (int) (cause >>> 24) & 0xff, (int) (cause >>> 32));
        case Tables.EXCEPTION_REFUSED:
          long number = r.word();
          r.check(number >>> 32 == 0, "the number of an error");
          return new Refused((int) number, r.text());
        default:
          throw r.wrong(Tables.ERROR_BAD_WORD, "the kind of an exception");
      }
    }

    private Signalled signal(int count, int placeCount)
        throws MalformedException, IncompleteException {
      String name = r.text();
      List<Value> values = new ArrayList<>(count);
      for (int index = 0; index < count; index++) {
        Value value = outcome();
        boolean isValue =
            value.tag != Tables.TAG_EXCEPTION
                && value.tag != Tables.TAG_ABSENT
                && value.tag != Tables.TAG_ROWS;
        r.check(isValue, "a value of an exception");
        values.add(value);
      }
      if (placeCount == 0) {
        return new Signalled(name, values, List.of(), 0);
      }
      r.check(placeCount <= Tables.PLACES_MAX, "a count of places");
      long more = r.word();
      List<Place> places = new ArrayList<>(placeCount);
      for (int index = 0; index < placeCount; index++) {
        long line = r.word();
        r.check(line >>> 32 == 0, "the number of a line");
        byte[] routine = placeName();
        byte[] file = placeName();
        places.add(new Place(text(routine), text(file), (int) line));
      }
      return new Signalled(name, values, places, more);
    }

    private byte[] placeName() throws MalformedException, IncompleteException {
      byte[] name = r.bytes();
      r.check(name.length <= Tables.PLACE_BYTES_MAX, "a name of a place no longer than its limit");
      return name;
    }

    private String text(byte[] bytes) throws MalformedException {
      try {
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
      } catch (CharacterCodingException bad) {
        throw r.wrong(Tables.ERROR_BAD_TEXT, "a string in UTF-8");
      }
    }
  }
}
