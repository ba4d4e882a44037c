package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.text;
import static org.bifrost.veneer.Trees.tree;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A step of a script. */
final class Steps {
  /** Stands for the result of a step that has none. */
  static final Object NO_RESULT = new Object();

  private static final Object OTHER = new Object();

  private final Machine m;
  private final Map<String, Object> what;
  private final Recorder r;
  private final Object at;

  Steps(Machine machine, Map<String, Object> what) {
    m = machine;
    this.what = what;
    r = machine.r;
    at = machine.step;
  }

  /** Runs the step; returns its result. */
  Object run() {
    for (String key : what.keySet()) {
      Object result = calls(key, what.get(key));
      result = result == OTHER ? structures(key, what.get(key)) : result;
      result = result == OTHER ? crossings(key, what.get(key)) : result;
      result = result == OTHER ? transactions(key, what.get(key)) : result;
      if (result != OTHER) {
        return result;
      }
    }
    throw new IllegalArgumentException("a step without an operation: " + what);
  }

  private static Object outcome(Failure failure) {
    return failure == null ? "ok" : tree("error", Showing.failure(failure));
  }

  /** Takes the stubs of a call's results; without names one, which is dropped. */
  private Object results(Failure refused) {
    List<Object> names = Machine.names(what.get("as"));
    names.forEach(name -> m.name(name, r.result(new Slot(r), refused, at)));
    if (names.isEmpty()) {
      r.result(new Slot(r), refused, at).drop();
    }
    return NO_RESULT;
  }

  private Object variables() {
    Machine.names(what.get("as"))
        .forEach(name -> m.name(name, r.structures.variable(new Slot(r), at)));
    return NO_RESULT;
  }

  /** Adds the arguments of the call that was begun, and ends it. */
  private Failure arguments(List<Object> args) {
    args.forEach(r.calls::operand);
    return r.calls.end();
  }

  private Object method(int code, Object name) {
    List<Object> args = m.operands(what.get("args"));
    Failure admitted = m.admit();
    Slot on = m.slot(what.get("on"));
    r.calls.begin(code, admitted, on, m.client.method(name), args.size(), at);
    return results(arguments(args));
  }

  private Object calls(String key, Object part) {
    switch (key) {
      case "lookup":
        int type = m.client.type(what.get("type"));
        return results(
            r.calls.lookup(
                m.admit(), m.client.stubs(), text(part), type, text(what.get("type")), at));
      case "call", "operator":
        return method(Tables.OP_CALL, part);
      case "send":
        return method(Tables.OP_SEND, part);
      case "routine":
        List<Object> args = m.operands(what.get("args"));
        int routine = m.client.routine(part);
        r.calls.beginRoutine(m.admit(), m.client.stubs(), routine, args.size(), at);
        return results(arguments(args));
      case "call_procedure":
        List<Object> given = m.operands(what.get("args"));
        Failure refused = m.refusedProcedures.get(part);
        r.calls.beginProcedure(m.admit(), m.procedures.get(part), refused, given.size(), at);
        return results(arguments(given));
      case "value":
        m.name(what.get("as"), r.value(new Slot(r), Encoding.value(part)));
        return NO_RESULT;
      case "cell":
        return results(r.calls.cell(m.admit(), m.client.type(part), text(part), at));
      case "rows":
        List<Calls.ColumnType> columns = new ArrayList<>();
        Machine.names(part)
            .forEach(name -> columns.add(new Calls.ColumnType(m.client.type(name), text(name))));
        return results(r.calls.rows(m.admit(), columns, at));
      case "emit":
        List<Object> cells = m.operands(what.get("args"));
        r.calls.beginEmit(m.admit(), m.slot(part), cells.size(), at);
        return results(arguments(cells));
      case "read_rows":
        return m.readRows(what, m.slot(part));
      case "get":
        return results(r.calls.get(m.admit(), m.slot(part), at));
      case "cast":
        Failure castAdmitted = m.admit();
        return results(
            r.calls.cast(
                castAdmitted, m.slot(what.get("on")), m.client.type(part), text(part), at));
      case "test_type":
        Failure testAdmitted = m.admit();
        return results(
            r.calls.testType(
                testAdmitted, m.slot(what.get("on")), m.client.type(part), text(part), at));
      case "drop":
        for (Object name : Machine.names(part)) {
          m.slot(name).drop();
          m.stubs.remove(name);
        }
        return NO_RESULT;
      case "clone":
        m.name(what.get("as"), m.slot(part).retain());
        return NO_RESULT;
      case "is_same":
        return m.slot(list(part).get(0)).hasSameResult(m.slot(list(part).get(1)));
      default:
        return OTHER;
    }
  }

  private static Structure structure(Object name) {
    for (Structure one : Structure.values()) {
      if (one.wireName.equals(name)) {
        return one;
      }
    }
    throw new IllegalArgumentException("no structure: " + name);
  }

  private Object structures(String key, Object part) {
    switch (key) {
      case "open":
        r.structures.open(m.admit(), structure(part), at);
        return NO_RESULT;
      case "condition":
        r.structures.condition(m.operand(part), at);
        return NO_RESULT;
      case "foreach":
        Failure admitted = m.admit();
        Object on = m.operand(what.get("on"));
        int iterator = on == null ? m.client.routine(part) : m.client.method(part);
        List<Object> args = m.operands(what.get("args"));
        r.structures.beginForeach(admitted, on, iterator, m.client.stubs(), args.size(), at);
        return results(arguments(args));
      case "jump":
        if (part.equals("break")) {
          r.structures.breakLoop(at);
        } else {
          r.structures.continueLoop(at);
        }
        return NO_RESULT;
      case "end":
        Structures.Ended ended = r.structures.end();
        if (what.containsKey("as")) {
          m.ended.put(what.get("as"), ended);
        }
        return NO_RESULT;
      case "reopen":
        r.structures.reopen(m.ended.get(what.get("of")), block(part), at);
        return variables();
      case "abandon":
        r.structures.abandon();
        return NO_RESULT;
      case "procedure":
        int number = r.structures.openProcedure(m.admit(), text(part), m.heading(what), at);
        m.procedures.put(part, number);
        m.refusedProcedures.remove(part);
        return variables();
      case "return":
        r.structures.returns(m.operand(part), at);
        return NO_RESULT;
      case "end_procedure":
        m.refusedProcedures.put(part, r.structures.closeProcedure());
        return NO_RESULT;
      case "find_procedure":
        return r.structures.findProcedure(text(part), m.heading(what));
      default:
        return OTHER;
    }
  }

  private Structures.Block block(Object name) {
    return switch (text(name)) {
      case "else" -> new Structures.Else();
      case "when" -> new Structures.When(text(what.get("name")), m.types(what.get("types")));
      default -> new Structures.Others(what.containsKey("as"));
    };
  }

  private Object crossings(String key, Object part) {
    switch (key) {
      case "reply":
        m.replies.add(Encoding.reply(part));
        return NO_RESULT;
      case "lose":
        m.replies.add(new byte[0]);
        return NO_RESULT;
      case "flush":
        Failure flushed = m.synchronize("flush");
        return outcome(flushed == null ? r.account.surface(true) : flushed);
      case "begin_flush":
        return outcome(r.crossing.beginFlushFor("flush", "kept".equals(part), at));
      case "finish_flush":
        Failure answered = m.answer();
        return outcome(answered == null ? r.account.surface(true) : answered);
      case "transmit":
        m.send(true);
        return NO_RESULT;
      case "claim":
        Slot slot = m.slot(part);
        Failure wrong = know(slot);
        wrong = wrong == null ? claim(slot) : wrong;
        return wrong == null ? m.known(slot) : outcome(wrong);
      case "exceptions":
        List<Object> listed = new ArrayList<>();
        r.account.exceptions().forEach(one -> listed.add(Showing.failure(one.failure())));
        return listed;
      case "clear_exceptions":
        if (r.account.clearExceptions(at)) {
          r.account.clearServer(m.admit());
        }
        return NO_RESULT;
      case "profile":
        boolean on = Boolean.TRUE.equals(part);
        Failure refused = r.ends.profileRefusal();
        if (refused == null && r.ends.isProfileDue(on)) {
          refused = r.ends.profile(m.admit(), on);
        }
        return outcome(refused);
      case "read_profile":
        return r.crossing.profile == null ? null : Showing.profile(r.crossing.profile);
      case "leave":
        if (r.crossing.leave()) {
          m.send(false);
          r.crossing.close(new Failure.ByClient());
        }
        return NO_RESULT;
      default:
        return OTHER;
    }
  }

  /** Waits until the result of a stub is known. */
  private Failure know(Slot slot) {
    if (slot.state == Slot.State.FUTURE) {
      return m.synchronize("claim");
    }
    while (slot.state == Slot.State.UNDER_WAY && r.crossing.isUnanswered(slot.batch)) {
      Failure wrong = m.answer();
      if (wrong != null) {
        return wrong;
      }
    }
    return null;
  }

  /** Returns the failure with which a stub is claimed whose result is known. */
  private Failure claim(Slot slot) {
    if (slot.state == Slot.State.FAILED) {
      r.account.tell(slot.failure());
      return slot.failure();
    }
    return r.account.surface(false);
  }

  private Object transactions(String key, Object part) {
    switch (key) {
      case "commit":
        Failure admitted = m.admit();
        if (admitted == null && r.ends.refusal() == null && r.ends.commitNeedsFlush()) {
          admitted = m.flush();
        }
        return results(r.ends.commit(admitted, at));
      case "abort":
        return results(r.ends.abort(m.admit(), at));
      case "wait":
        return results(r.ends.wait(m.admit(), number(part), at));
      case "wait_ms":
        return r.crossing.waitMs();
      case "transaction_ends":
        return r.ends.count;
      case "transaction":
        return outcome(begin(map(part)));
      case "end_transaction":
        Slot slot = m.stubs.get(part);
        // There is no stub if the begin was refused.
        return slot == null ? NO_RESULT : outcome(end(slot));
      case "ship":
        m.refusals = r.ends.endTransactionBatch();
        m.isShipped = true;
        if (r.crossing.beginFlush(false) != null) {
          throw new IllegalStateException("a transaction that cannot be shipped");
        }
        m.send(true);
        return NO_RESULT;
      case "abandon_transaction":
        r.ends.abandonTransaction();
        Failure wrong = m.flush();
        r.ends.tellTransaction();
        return outcome(wrong);
      default:
        return OTHER;
    }
  }

  private Failure begin(Map<String, Object> part) {
    Failure wrong = m.synchronize("transaction");
    if (wrong != null) {
      return wrong;
    }
    Ends.BatchName name = part.get("batch") == null ? null : Encoding.batchName(part.get("batch"));
    Slot slot = new Slot(r);
    wrong = r.ends.beginTransaction(slot, (int) number(part.get("tries")), name, at);
    if (wrong == null) {
      m.name(what.get("as"), slot);
    }
    return wrong;
  }

  private Failure end(Slot slot) {
    if (!m.isShipped) {
      m.refusals = r.ends.endTransactionBatch();
      Failure wrong = r.crossing.beginFlush(false);
      if (wrong != null) {
        return wrong;
      }
    }
    List<Failure> refusals = m.refusals;
    m.refusals = List.of();
    m.isShipped = false;
    Failure wrong = m.answerAll();
    return wrong == null ? r.ends.finishTransaction(claim(slot), refusals, at) : wrong;
  }
}
