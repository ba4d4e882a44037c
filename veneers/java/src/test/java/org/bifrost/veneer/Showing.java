package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.tree;
import static org.bifrost.veneer.Trees.unsigned;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** Values, replies and failures as the vectors have them. */
final class Showing {
  private Showing() {}

  static Object value(Value value) {
    return switch (value.tag) {
      case Tables.TAG_REF -> tree("ref", value.word);
      case Tables.TAG_NIL -> tree("nil", null);
      case Tables.TAG_BOOL -> tree("bool", value.word == 1);
      case Tables.TAG_INT -> tree("int", Long.toString(value.word));
      case Tables.TAG_REAL -> tree("real", Explainer.real(value.real()));
      case Tables.TAG_CHAR -> tree("char", Character.toString((int) value.word));
      case Tables.TAG_STRING -> tree("string", value.string());
      case Tables.TAG_BYTES -> tree("bytes", HexFormat.of().formatHex(value.raw()));
      default -> {
        List<Object> items = new ArrayList<>();
        value.items().forEach(item -> items.add(value(item)));
        yield tree("compound", tree("type", optional(value.compoundType()), "items", items));
      }
    };
  }

  /** Returns a number, or null for none. */
  static Object optional(int number) {
    return number == Tables.NO_NUMBER ? null : (Object) unsigned(number);
  }

  static Object reply(Reply reply) {
    if (reply instanceof Reply.Welcome w) {
      List<Object> limits = new ArrayList<>();
      w.limits().forEach(one -> limits.add(List.of(unsigned(one.number()), unsigned(one.value()))));
      return tree(
          "welcome",
          tree(
              "version", unsigned(w.version()),
              "session", unsigned(w.session()),
              "server", w.server(),
              "digest", HexFormat.of().formatHex(w.digest()),
              "limits", limits));
    } else if (reply instanceof Reply.Flushed f) {
      List<Object> outcomes = new ArrayList<>();
      f.outcomes().forEach(one -> outcomes.add(outcome(one)));
      List<Object> exceptions = new ArrayList<>();
      f.exceptions().forEach(one -> exceptions.add(exception(one)));
      Map<String, Object> parts =
          tree(
              "outcomes", outcomes,
              "exceptions", exceptions,
              "omitted", unsigned(f.omitted()),
              "calls", unsigned(f.calls()),
              "fuel", unsigned(f.fuel()));
      if (f.profile() != null) {
        parts.put("profile", profile(f.profile()));
      }
      return tree("flushed", parts);
    } else if (reply instanceof Reply.Described d) {
      return tree("interface", new String(d.json(), java.nio.charset.StandardCharsets.UTF_8));
    } else if (reply instanceof Reply.History h) {
      List<Object> entries = new ArrayList<>();
      h.entries()
          .forEach(one -> entries.add(List.of(unsigned(one.batch()), exception(one.exception()))));
      return tree("exceptions", tree("list", entries, "omitted", unsigned(h.omitted())));
    } else if (reply instanceof Reply.Broken e) {
      return tree(
          "error",
          tree(
              "number", unsigned(e.number()),
              "position", unsigned(e.position()),
              "text", e.text()));
    }
    return "farewell";
  }

  private static Object outcome(Value value) {
    return switch (value.tag) {
      case Tables.TAG_REF -> tree("handle", value.word, "type", unsigned(value.type));
      case Tables.TAG_EXCEPTION -> tree("exception", value.word);
      case Tables.TAG_ABSENT -> "absent";
      case Tables.TAG_ROWS -> {
        List<Object> columns = new ArrayList<>();
        value
            .table()
            .columns()
            .forEach(one -> columns.add(List.of(one.tag(), unsigned(one.type()))));
        List<Object> cells = new ArrayList<>();
        value.table().cells().forEach(cell -> cells.add(outcome(cell)));
        yield tree("rows", tree("columns", columns, "cells", cells));
      }
      default -> value(value);
    };
  }

  private static List<Object> places(List<Place> places) {
    List<Object> shown = new ArrayList<>();
    places.forEach(
        one ->
            shown.add(
                tree("routine", one.routine(), "file", one.file(), "line", unsigned(one.line()))));
    return shown;
  }

  private static Object exception(Reply.Thrown thrown) {
    List<Object> rounds = new ArrayList<>();
    for (int round : thrown.rounds()) {
      rounds.add(unsigned(round));
    }
    Map<String, Object> shown = tree("call", unsigned(thrown.call()), "iterations", rounds);
    if (thrown.parts() instanceof Reply.Signalled s) {
      List<Object> values = new ArrayList<>();
      s.values().forEach(one -> values.add(outcome(one)));
      Map<String, Object> signal = tree("name", s.name(), "values", values);
      if (!s.places().isEmpty()) {
        signal.put("places", places(s.places()));
        signal.put("more_places", unsigned(s.morePlaces()));
      }
      shown.put("signal", signal);
    } else if (thrown.parts() instanceof Reply.NotRun n) {
      Map<String, Object> unhandled = tree("argument", n.argument(), "cause", unsigned(n.cause()));
      if (n.back() > 0) {
        unhandled.put("back", n.back());
      }
      shown.put("unhandled", unhandled);
    } else if (thrown.parts() instanceof Reply.Refused r) {
      shown.put("refused", tree("number", unsigned(r.number()), "text", r.text()));
    }
    return shown;
  }

  private static Map<String, Object> cost(Profile.Cost cost, Map<String, Object> with) {
    with.put("nanoseconds", unsigned(cost.nanoseconds()));
    with.put("calls", unsigned(cost.calls()));
    with.put("fuel", unsigned(cost.fuel()));
    with.put("fetches", unsigned(cost.fetches()));
    with.put("objects", unsigned(cost.objects()));
    return with;
  }

  static Object profile(Profile profile) {
    List<Object> entries = new ArrayList<>();
    for (Profile.Entry entry : profile.entries()) {
      Map<String, Object> with = tree("call", unsigned(entry.call()));
      if (entry.isStructure()) {
        with.put("structure", true);
      }
      entries.add(cost(entry.cost(), with));
    }
    Map<String, Object> shown =
        tree(
            "nanoseconds", unsigned(profile.nanoseconds()),
            "fetches", unsigned(profile.fetches()),
            "objects", unsigned(profile.objects()),
            "runs", unsigned(profile.runs()),
            "entries", entries);
    if (profile.rest() != null) {
      shown.put("rest", cost(profile.rest(), tree("omitted", unsigned(profile.omitted()))));
    }
    return shown;
  }

  // Failures.

  /**
   * Returns a failure: its own parts; if it follows from others, the first of them and those in
   * between.
   */
  static Object failure(Failure failure) {
    Map<String, Object> shown = alone(failure);
    if (failure instanceof Failure.Unseen || failure.cause() == null) {
      return shown;
    }
    List<Object> via = new ArrayList<>();
    Failure cause = failure.cause();
    while (cause.cause() != null) {
      via.add(alone(cause));
      cause = cause.cause();
    }
    shown.put("via", via);
    shown.put("root", alone(cause));
    return shown;
  }

  private static Object call(Failure.CallName call) {
    if (call == null) {
      return null;
    }
    List<Object> rounds = new ArrayList<>();
    call.rounds().forEach(round -> rounds.add(unsigned(round)));
    return tree(
        "name", call.name(),
        "number", unsigned(call.number()),
        "rounds", rounds,
        "place", call.source());
  }

  private static Map<String, Object> alone(Failure failure) {
    if (failure instanceof Failure.Signal f) {
      List<Object> values = new ArrayList<>();
      for (Value value : f.values()) {
        values.add(
            value.tag == Tables.TAG_REF
                ? "object"
                : value.tag == Tables.TAG_BYTES
                    ? tree("bytes", Trees.hexed(value.raw()))
                    : value(value));
      }
      Map<String, Object> shown =
          tree("kind", "signal", "name", f.name(), "values", values, "call", call(f.call()));
      if (!f.places().isEmpty()) {
        shown.put("places", places(f.places()));
        shown.put("more_places", unsigned(f.morePlaces()));
      }
      return shown;
    } else if (failure instanceof Failure.Unhandled f) {
      return tree("kind", "unhandled", "argument", f.argument(), "call", call(f.call()));
    } else if (failure instanceof Failure.Refused f) {
      return tree(
          "kind", "refused",
          "number", unsigned(f.number()),
          "text", f.text(),
          "call", call(f.call()));
    } else if (failure instanceof Failure.NotReached f) {
      return tree("kind", "not_reached", "call", call(f.call()));
    } else if (failure instanceof Failure.NotSent f) {
      return tree("kind", "not_sent", "call", call(f.call()));
    } else if (failure instanceof Failure.Unseen f) {
      List<Object> failures = new ArrayList<>();
      f.failures().forEach(one -> failures.add(failure(one)));
      return tree(
          "kind", "unseen", "failures", failures, "omitted", f.omitted(), "call", call(f.call()));
    } else if (failure instanceof Failure.Misused f) {
      return tree("kind", "misuse", "misuse", f.misuse().wireName());
    } else if (failure instanceof Failure.Missing f) {
      return tree("kind", "missing", "name", f.name());
    }
    return closed(((Failure.Ended) failure).why());
  }

  private static Map<String, Object> closed(Failure.Ending why) {
    Map<String, Object> shown = tree("kind", "closed");
    if (why instanceof Failure.ByClient) {
      shown.put("by", "client");
    } else if (why instanceof Failure.ByConnection) {
      shown.put("by", "connection");
    } else if (why instanceof Failure.ByServer s) {
      shown.put("by", "server");
      shown.put("number", unsigned(s.number()));
      shown.put("position", unsigned(s.position()));
      shown.put("text", s.reason());
    } else if (why instanceof Failure.ByBadReply b) {
      shown.put("by", "bad_reply");
      shown.put("error", Failure.errorName(b.number()));
    } else {
      shown.put("by", "wrong_reply");
    }
    return shown;
  }
}
