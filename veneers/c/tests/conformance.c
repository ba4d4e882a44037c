/* The cases of crates/cli/tests/conformance.rs, in C: one name is one case, without a name all are run.
 *
 * Each case has a session of its own. BIFROST_URL is a server of cases/programs/conformance.theta. */

#include "check.h"

#include "bifrost_stubs.h"

static bf_session *open_session(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "no session: %s\n", bf_error_text(NULL));
    exit(1);
  }
  return s;
}

static void values_come_back_as_they_went(bf_session *s, Probe p) {
  static const int64_t ints[] = {0, 1, -1, INT64_MIN, INT64_MAX};
  static const double reals[] = {0.0, -0.0, 0.1, 2.2250738585072014e-308, 1.7976931348623157e308};
  static const uint32_t chars[] = {0, 'x', 0x20ac, 0xd7ff, 0x10ffff};
  static const char *const texts[] = {"", "a", "1234567", "12345678", "\xc3\xa4\xc3\x9f\xe2\x82\xac\n\""};
  bf_int int_promises[5];
  bf_real real_promises[5];
  bf_char char_promises[5];
  bf_str text_promises[5];
  for (int i = 0; i < 5; i++) {
    int_promises[i] = Probe_same_int(p, bf_i(ints[i]));
    real_promises[i] = Probe_same_real(p, bf_r(reals[i]));
    char_promises[i] = Probe_same_char(p, bf_c(chars[i]));
    text_promises[i] = Probe_same_string(p, bf_s(texts[i]));
  }
  bf_bool yes = Probe_same_bool(p, bf_b(true)), no = Probe_same_bool(p, bf_b(false));
  static char many[100000];
  memset(many, 1, sizeof many);
  bf_bytes long_bytes = Probe_same_bytes(p, bf_by(many, sizeof many));
  bf_str zero = Probe_same_string(p, bf_s_n("a\0b", 3));
  bf_nil null = bf_at_Probe_same_null(p, bf_n(), BF_HERE), nothing = bf_at_Probe_nothing(p, BF_HERE);
  for (int i = 0; i < 5; i++) {
    double real;
    uint32_t c;
    IS_INT(s, int_promises[i], ints[i]);
    OK(s, BF_CLAIM(real_promises[i], &real));
    CHECK(memcmp(&real, &reals[i], sizeof real) == 0);
    OK(s, BF_CLAIM(char_promises[i], &c));
    CHECK(c == chars[i]);
    IS_STR(s, text_promises[i], texts[i]);
  }
  IS_BOOL(s, yes, true);
  IS_BOOL(s, no, false);
  bf_bytes joined = bf_bytes_concat(bf_bytes_stub(s, "\1\2", 2), bf_by("\3", 1));
  IS_INT(s, bf_bytes_length(joined), 3);
  IS_INT(s, bf_bytes_fetch(bf_bytes_slice(joined, bf_i(2), bf_i(2)), bf_i(2)), 3);
  IS_STR(s, bf_bytes_to_string(bf_bytes_stub(s, "text", 4)), "text");
  bf_text bytes, text;
  OK(s, BF_CLAIM(long_bytes, &bytes));
  CHECK(bytes.length == sizeof many && memcmp(bytes.data, many, sizeof many) == 0);
  OK(s, BF_CLAIM_TEXT(zero, &text));
  CHECK(text.length == 3 && memcmp(text.data, "a\0b", 4) == 0);
  OK(s, BF_CLAIM_NIL(null));
  OK(s, BF_CLAIM_NIL(nothing));
  CHECK(crossings(s) <= 5);
  /* What is no text is not sent. */
  bf_str bad = Probe_same_string(p, bf_s("\xff"));
  const char *none;
  IS(s, BF_CLAIM(bad, &none), BF_E_NOT_TEXT);
  uint32_t c;
  IS(s, BF_CLAIM(Probe_same_char(p, bf_c(0xd800)), &c), BF_E_NOT_TEXT);
  /* A claim of another kind. */
  double real;
  IS(s, bf_claim_real(bf_ref_bf_int(int_promises[0]), &real, BF_HERE), BF_E_WRONG_KIND);
}

static void results_of_all_shapes(bf_session *s, Probe p) {
  Probe_divide_results parts = Probe_divide(p, bf_i(17), bf_i(5));
  Probe_item_and_length_results made = Probe_item_and_length(p, bf_s("gr\xc3\xbc\xc3\x9f"
                                                                     "e"));
  bf_str name = Item_name(made.r1);
  bf_str text = Probe_all(p, bf_b(true), bf_int_add(parts.r1, bf_i(1)), bf_r(0.5), bf_c(0xdf),
                          bf_str_concat(name, bf_s("!")), made.r1);
  IS_INT(s, parts.r1, 3);
  IS_INT(s, parts.r2, 2);
  IS_INT(s, made.r2, 5);
  IS_STR(s, text,
         "true 4 0.5 \xc3\x9f gr\xc3\xbc\xc3\x9f"
         "e! gr\xc3\xbc\xc3\x9f"
         "e");
  CHECK(crossings(s) == 1);
  /* A failed call fails all its results. */
  Probe_divide_results failed = Probe_divide(p, bf_i(1), bf_i(0));
  SIGNALS(s, BF_CLAIM_INT(failed.r1, NULL), "zero");
  SIGNALS(s, BF_CLAIM_INT(failed.r2, NULL), "zero");
  CHECK(crossings(s) == 2);
}

static void a_subtype_passes_for_its_supertype(bf_session *s, Probe p) {
  Counter counter = Counter_lookup(s, "counter");
  Item item = Counter_to_Item(counter);
  bf_str before = Probe_name_of(p, item);
  Item_rename(item, bf_s("other"));
  Probe_add_item(p, item);
  bf_str after = Probe_name_of(p, item);
  IS_STR(s, before, "counter");
  IS_STR(s, after, "other");
  CHECK(crossings(s) == 1);
  /* The server says that an object is what the stub says, or refuses it. */
  Counter wrong = Counter_lookup(s, "probe");
  IS(s, BF_CLAIM_INT(Counter_value(wrong), NULL), BF_E_REFUSED);
  CHECK(bf_error_number(bf_error_root(bf_error_last(s))) == 8);
}

static void records_oneofs_and_anys_are_stubs(bf_session *s, Probe p) {
  Tagged t = Probe_tagged(p);
  Point point = Tagged_point(t, bf_i(3), bf_i(4));
  Point_set_x(point, bf_i(5));
  StructOfNameStringAndAtPointRef labelled = Tagged_labelled(t, point, bf_s("here"));
  bf_str name =
      StructOfNameStringAndAtPointRef_name(StructOfNameStringAndAtPointRef_replace_name(labelled, bf_s("there")));
  bf_int x = Point_x(StructOfNameStringAndAtPointRef_at(labelled));
  AnswerRef number = Tagged_answer(t, bf_i(3)), text = Tagged_answer(t, bf_i(12)), nothing = Tagged_answer(t, bf_i(0));
  bf_int value = AnswerRef_value_number(number);
  bf_str wrong = AnswerRef_value_text(number);
  bf_bool is_text = AnswerRef_is_text(text);
  bf_str shown = AnswerRef_unparse(text);
  bf_nil nil = bf_at_AnswerRef_value_nothing(nothing, BF_HERE);
  bf_int sum = Tagged_sum(t, Tagged_found(t, bf_i(2))), none = Tagged_sum(t, Tagged_found(t, bf_i(0)));
  bf_int other = Point_y(MaybeOfPoint_value_or(Tagged_found(t, bf_i(0)), point));
  bf_int_cell total = bf_int_cell_new(s, bf_i(0));
  BF_FOREACH(s, AnswerRef, answer, Tagged_answers(t, bf_i(4))) {
    bf_int_cell_put(total, bf_int_add(bf_int_cell_get(total), AnswerRef_value_number(answer)));
  }
  bf_str what[3];
  static const int64_t ns[] = {0, 7, 12};
  for (int i = 0; i < 3; i++) what[i] = Tagged_what(t, Tagged_thing(t, bf_i(ns[i])));
  IS_STR(s, name, "there");
  IS_INT(s, x, 5);
  IS_BOOL(s, is_text, true);
  IS_INT(s, value, 3);
  SIGNALS(s, BF_CLAIM_STR(wrong, NULL), "wrong_tag");
  IS_STR(s, shown, "{text: \"12\"}");
  OK(s, BF_CLAIM_NIL(nil));
  IS_INT(s, sum, 4);
  IS_INT(s, none, 0);
  IS_INT(s, other, 4);
  IS_INT(s, bf_int_cell_get(total), 10);
  IS_STR(s, what[0], "nil");
  IS_STR(s, what[1], "7");
  IS_STR(s, what[2], "{x: 12, y: 12}");
  CHECK(crossings(s) == 2);
}

static void say(bf_str_cell out, bf_str text) {
  bf_str_cell_put(out, bf_str_concat(bf_str_concat(bf_str_cell_get(out), text), bf_s(" ")));
}

static void iterators_of_methods_routines_and_values(bf_session *s, Probe p) {
  bf_str_cell out = bf_str_cell_new(s, bf_s(""));
  BF_FOREACH(s, bf_int, n, Probe_numbers(p, bf_i(3))) say(out, bf_int_unparse(n));
  BF_FOREACH2(s, bf_int, n, bf_str, text, Probe_pairs(p, bf_i(2))) say(out, bf_str_concat(text, bf_int_unparse(n)));
  BF_FOREACH(s, Item, item, Probe_items(p)) say(out, Item_name(item));
  BF_FOREACH(s, bf_int, n, stubs_squares(s, bf_i(3))) say(out, bf_int_unparse(n));
  BF_FOREACH(s, bf_int, n, bf_int_to(bf_int_stub(s, 8), bf_i(9))) say(out, bf_int_unparse(n));
  BF_FOREACH(s, bf_int, n, Probe_numbers(p, bf_i(0))) say(out, bf_int_unparse(n));
  IS_STR(s, bf_str_cell_get(out), "1 2 3 11 22 a b c counter 1 4 9 8 9 ");
  CHECK(crossings(s) == 1);
}

static void signals_carry_their_values(bf_session *s, Probe p) {
  bf_int everything = Probe_choose(p, bf_i(6)), fine = Probe_choose(p, bf_i(4));
  Item missing = Probe_item(p, bf_s("zo\xc3\xab"));
  SIGNALS(s, BF_CLAIM_INT(everything, NULL), "everything");
  bf_values values = bf_error_values(bf_error_last(s));
  CHECK(values.count == 5 && bf_value_bool(values.items[0]) && bf_value_int(values.items[1]) == 6);
  CHECK(bf_value_real(values.items[2]) == 0.5 && bf_value_char(values.items[3]) == 'x');
  CHECK(strcmp(bf_value_str(values.items[4]), "\xc3\x9f") == 0);
  SIGNALS(s, Item_claim(missing), "not_found");
  values = bf_error_values(bf_error_last(s));
  CHECK(values.count == 2 && strcmp(bf_value_str(values.items[0]), "zo\xc3\xab") == 0);
  CHECK(bf_value_int(values.items[1]) == 4);
  bf_place place = bf_error_place(bf_error_last(s));
  CHECK(strstr(place.file, "conformance.c") && place.line > 100);
  CHECK(strcmp(bf_error_call(bf_error_last(s)), "Probe.item") == 0);
  IS_INT(s, fine, 4);
  CHECK(crossings(s) == 1);
}

#define CHECK_CELL(C, one, two, compare)                                                                               \
  do {                                                                                                                 \
    C cell = BF_CELL(s, C);                                                                                            \
    bf_bool before = C##_full(cell);                                                                                   \
    bf_ref empty = bf_cell_get(cell.ref, bf_type_##C.element, BF_HERE);                                                \
    C##_put(cell, one);                                                                                                \
    __typeof__(C##_get(cell)) first = C##_get(cell);                                                                   \
    C##_put(cell, two);                                                                                                \
    bf_bool after = C##_full(cell);                                                                                    \
    __typeof__(C##_get(cell)) second = C##_get(cell);                                                                  \
    IS_BOOL(s, before, false);                                                                                         \
    IS_BOOL(s, after, true);                                                                                           \
    SIGNALS(s, bf_claim(empty, BF_HERE), "not_possible");                                                              \
    compare;                                                                                                           \
  } while (0)

static void cells_of_everything(bf_session *s, Probe p) {
  double real;
  uint32_t c;
  CHECK_CELL(bf_bool_cell, bf_b(true), bf_b(false), IS_BOOL(s, first, true); IS_BOOL(s, second, false));
  CHECK_CELL(bf_int_cell, bf_i(1), bf_i(INT64_MIN), IS_INT(s, first, 1); IS_INT(s, second, INT64_MIN));
  CHECK_CELL(bf_real_cell, bf_r(0.5), bf_r(-0.5), OK(s, BF_CLAIM(first, &real)); CHECK(real == 0.5);
             OK(s, BF_CLAIM(second, &real)); CHECK(real == -0.5));
  CHECK_CELL(bf_char_cell, bf_c('x'), bf_c(0x10ffff), OK(s, BF_CLAIM(first, &c)); CHECK(c == 'x');
             OK(s, BF_CLAIM(second, &c)); CHECK(c == 0x10ffff));
  CHECK_CELL(bf_str_cell, bf_s(""), bf_s("\xc3\xa4"), IS_STR(s, first, ""); IS_STR(s, second, "\xc3\xa4"));
  CHECK_CELL(bf_nil_cell, bf_n(), bf_n(), OK(s, BF_CLAIM_NIL(first)); OK(s, BF_CLAIM_NIL(second)));
  CHECK(crossings(s) == 6);
  Item_cell item = BF_CELL(s, Item_cell);
  Counter_cell counter = BF_CELL(s, Counter_cell);
  Probe_cell probe = BF_CELL(s, Probe_cell);
  Probe_cell_put(probe, p);
  Counter_cell_put(counter, Probe_counter(Probe_cell_get(probe)));
  Item_cell_put(item, Counter_to_Item(Counter_cell_get(counter)));
  IS_STR(s, Item_name(Item_cell_get(item)), "counter");
  CHECK(crossings(s) == 7);
  /* A cell outlives its batch. */
  Item_cell_put(item, Probe_item(Probe_cell_get(probe), bf_s("a")));
  IS_STR(s, Item_name(Item_cell_get(item)), "a");
  CHECK(crossings(s) == 8);
}

static void straight_futures_take_one_crossing(bf_session *s, Probe p) {
  Probe last = Probe_itself(p);
  for (int i = 0; i < 5000; i++) {
    Probe next = Probe_itself(last);
    Probe_release(last);
    last = next;
  }
  bf_str name = Counter_name(Probe_counter(last));
  CHECK(crossings(s) == 0);
  IS_STR(s, name, "counter");
  bf_counts counts;
  bf_counters(s, &counts);
  /* A lookup, 5001 times `itself`, two more. */
  CHECK(counts.crossings == 1 && counts.calls == 5004);
}

static void a_claim_flushes_once_for_all_promises(bf_session *s, Probe p) {
  bf_int promises[100], sum = bf_int_stub(s, 0);
  for (int i = 0; i < 100; i++) promises[i] = Probe_same_int(p, bf_i(i));
  for (int i = 0; i < 100; i++) sum = bf_int_add(sum, promises[i]);
  IS(s, bf_peek(bf_ref_bf_int(promises[7]), BF_HERE), BF_PENDING);
  IS_INT(s, promises[50], 50);
  for (int i = 0; i < 100; i++) OK(s, bf_peek(bf_ref_bf_int(promises[i]), BF_HERE));
  IS_INT(s, sum, 4950);
  CHECK(crossings(s) == 1);
  /* A promise that is kept goes as a value. */
  IS_INT(s, Probe_same_int(p, promises[50]), 50);
  OK(s, BF_FLUSH(s));
  CHECK(crossings(s) == 2);
}

static void the_same_object_is_the_same_handle(bf_session *s, Probe p) {
  Counter a = Probe_counter(p), b = Probe_counter(p);
  Item other = Probe_fresh(p), another = Probe_fresh(p);
  OK(s, BF_FLUSH(s));
  Counter c = Counter_lookup(s, "counter");
  OK(s, BF_FLUSH(s));
  CHECK(bf_same(a.ref, b.ref) && bf_same(a.ref, c.ref));
  CHECK(!bf_same(a.ref, other.ref) && !bf_same(other.ref, another.ref));
  Counter_release(a);
  Counter_release(b);
  OK(s, BF_FLUSH(s));
  IS_STR(s, Counter_name(c), "counter");
  Counter_release(c);
  OK(s, BF_FLUSH(s));
  IS_STR(s, Counter_name(Probe_counter(p)), "counter");
}

static void structures_nest(bf_session *s, Probe p) {
  char expected[256] = "";
  for (int i = 1; i <= 5; i++) {
    if (i == 4) break;
    for (int j = 1; j <= 10; j++) {
      char one[32] = "";
      if (j % 2 == 0) continue;
      if (j > i + 3) break;
      if (i == 2)
        strcpy(one, "two ");
      else
        snprintf(one, sizeof one, "%d:%d ", i, j);
      strcat(expected, one);
    }
  }
  bf_str_cell out = bf_str_cell_new(s, bf_s(""));
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(5))) {
    BF_IF(s, bf_int_equal(i, bf_i(4))) BF_BREAK(s);
    bf_int_cell j = bf_int_cell_new(s, bf_i(0));
    BF_WHILE(s, bf_int_lt(bf_int_cell_get(j), bf_i(10))) {
      bf_int_cell_put(j, bf_int_add(bf_int_cell_get(j), bf_i(1)));
      BF_IF(s, bf_int_equal(bf_int_mod(bf_int_cell_get(j), bf_i(2)), bf_i(0))) BF_CONTINUE(s);
      BF_IF(s, bf_int_gt(bf_int_cell_get(j), bf_int_add(i, bf_i(3)))) BF_BREAK(s);
      BF_ELSE(s) {
        BF_IF(s, bf_int_equal(i, bf_i(2))) bf_str_cell_put(out, bf_str_concat(bf_str_cell_get(out), bf_s("two ")));
        BF_ELSE(s) {
          say(out, bf_str_concat(bf_str_concat(bf_int_unparse(i), bf_s(":")), bf_int_unparse(bf_int_cell_get(j))));
        }
      }
    }
  }
  bf_bool yes = bf_bool_stub(s, true), no = bf_bool_stub(s, false);
  bf_bool_cell logic[4];
  for (int i = 0; i < 4; i++) logic[i] = BF_CELL(s, bf_bool_cell);
  BF_AND(s, logic[0], yes, no);
  BF_OR(s, logic[1], yes, (Probe_endless(p), yes));
  BF_AND(s, logic[2], no, (Probe_endless(p), yes));
  BF_OR(s, logic[3], no, yes);
  bf_bool results[4];
  for (int i = 0; i < 4; i++) results[i] = bf_bool_cell_get(logic[i]);
  IS_STR(s, bf_str_cell_get(out), expected);
  for (int i = 0; i < 4; i++) IS_BOOL(s, results[i], i % 2 == 1);
  CHECK(crossings(s) == 1);
  CHECK(bf_exceptions(s) == 0);
}

static void handlers_get_names_and_values(bf_session *s, Probe p) {
  bf_str_cell out = bf_str_cell_new(s, bf_s(""));
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(8))) {
    BF_EXCEPT(s) {
      BF_IF(s, bf_int_equal(i, bf_i(8))) Probe_item(p, bf_s("zoe"));
      say(out, bf_int_unparse(Probe_choose(p, i)));
    }
    BF_WHEN(s, third, none) say(out, Probe_same_string(p, bf_s("third")));
    BF_WHEN(s, odd, values) say(out, bf_str_concat(bf_int_unparse(values.v1), bf_s("!")));
    BF_WHEN(s, everything, v) say(out, Probe_all(p, v.v1, v.v2, v.v3, v.v4, v.v5, Probe_item(p, bf_s("a"))));
    BF_OTHERS_NAMED(s, name) say(out, name);
  }
  IS_STR(s, bf_str_cell_get(out), "1! 2 third 4 5! true 6 0.5 x \xc3\x9f a 7! not_found ");
  CHECK(crossings(s) == 1);
  CHECK(bf_exceptions(s) == 0);
  /* What no handler names goes on to the structure around it. */
  bf_int_cell seen = bf_int_cell_new(s, bf_i(0));
  BF_EXCEPT(s) {
    BF_EXCEPT(s) {
      Probe_choose(p, bf_i(3));
      bf_int_cell_put(seen, bf_i(1));
    }
    BF_WHEN(s, odd, values) bf_int_cell_put(seen, bf_i(2));
    bf_int_cell_put(seen, bf_i(3));
  }
  BF_OTHERS(s) bf_int_cell_put(seen, bf_int_add(bf_int_cell_get(seen), bf_i(10)));
  IS_INT(s, bf_int_cell_get(seen), 10);
}

static void exceptions_in_loops_say_the_round(bf_session *s, Probe p) {
  /* An exception that nothing handles ends the structure, and the batch goes on behind it. */
  bf_int_cell cell = bf_int_cell_new(s, bf_i(0));
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(4))) {
    bf_int_cell_put(cell, i);
    Probe_choose(p, bf_int_add(i, bf_i(1)));
    Counter_add(Probe_counter(p), bf_i(1));
  }
  bf_int begun = bf_int_cell_get(cell), ended = Counter_value(Probe_counter(p));
  /* No stub of the loop is left, so the claim behind it tells, once. */
  IS(s, BF_CLAIM_INT(begun, NULL), BF_E_UNSEEN);
  CHECK(bf_error_parts(bf_error_last(s)) == 1);
  CHECK(strcmp(bf_error_name(bf_error_root(bf_error_part(bf_error_last(s), 0))), "third") == 0);
  IS_INT(s, begun, 2);
  IS_INT(s, ended, 1);
  size_t rounds;
  CHECK(bf_exceptions(s) == 1);
  const uint32_t *round = bf_error_rounds(bf_exception(s, 0), &rounds);
  CHECK(rounds == 1 && round[0] == 2);
  bf_exceptions_clear(s, BF_HERE);
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(4))) {
    BF_FOREACH(s, bf_int, j, Probe_numbers(p, bf_i(2))) {
      Probe_choose(p, bf_int_add(bf_int_mul(bf_int_mul(i, i), bf_i(2)), bf_int_mul(bf_int_sub(j, bf_i(1)), bf_i(2))));
    }
  }
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_exceptions(s) == 1);
  round = bf_error_rounds(bf_exception(s, 0), &rounds);
  CHECK(rounds == 2 && round[0] == 3 && round[1] == 1);
  const char *text = bf_error_message(bf_exception(s, 0));
  CHECK(strstr(text, "Probe.choose at ") && strstr(text, "conformance.c:") && strstr(text, "rounds [3, 1]"));
  CHECK(crossings(s) == 2);
}

static void what_depends_on_a_failure_says_why(bf_session *s, Probe p) {
  Item zoe = Probe_item(p, bf_s("zoe"));
  bf_str name = Item_name(zoe), passed = Probe_name_of(p, zoe);
  bf_int further = bf_int_add(bf_str_length(Probe_same_string(p, name)), bf_i(1));
  bf_int fine = Probe_same_int(p, bf_i(1));
  SIGNALS(s, BF_CLAIM_STR(name, NULL), "not_found");
  CHECK(bf_error_kind(bf_error_last(s)) == BF_E_UNHANDLED && bf_error_number(bf_error_last(s)) == 0);
  SIGNALS(s, BF_CLAIM_STR(passed, NULL), "not_found");
  CHECK(bf_error_number(bf_error_last(s)) == 1);
  SIGNALS(s, BF_CLAIM_INT(further, NULL), "not_found");
  CHECK(bf_error_kind(bf_error_last(s)) == BF_E_UNHANDLED);
  IS_INT(s, fine, 1);
  CHECK(crossings(s) == 1);
  /* In a later batch the failed stub is the error-handle. */
  SIGNALS(s, BF_CLAIM_STR(Item_name(zoe), NULL), "not_found");
  CHECK(crossings(s) == 2);
}

static void leave_by_return(bf_session *s, Probe p, bf_int_cell count) {
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(3))) {
    bf_int_cell_put(count, i);
    return;
  }
}

static void misuse_is_a_value_and_the_session_goes_on(bf_session *s, Probe p) {
  /* A claim where the batch cannot end. */
  bf_int before = Probe_same_int(p, bf_i(1));
  bf_int_cell total = bf_int_cell_new(s, bf_i(0));
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(3))) {
    IS(s, BF_CLAIM_INT(before, NULL), BF_E_OPEN_STRUCTURE);
    IS(s, BF_FLUSH(s), BF_E_OPEN_STRUCTURE);
    bf_int_cell_put(total, bf_int_add(bf_int_cell_get(total), i));
  }
  IS_INT(s, bf_int_cell_get(total), 6);
  IS_INT(s, before, 1);
  CHECK(crossings(s) == 1);
  /* A stub that is used after its structure. */
  Item inside = {{NULL, 0, 0}};
  BF_FOREACH(s, Item, item, Probe_items(p)) inside = item;
  bf_str late = Item_name(inside);
  IS(s, BF_CLAIM_STR(late, NULL), BF_E_OUT_OF_SCOPE);
  IS_INT(s, Probe_same_int(p, bf_i(2)), 2);
  /* Outside of loops and procedures. */
  BF_BREAK(s);
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_NO_LOOP);
  OK(s, BF_FLUSH(s));
  /* A block that is left by `break`: its structure is not sent, and says where it began. */
  bf_int_cell count = bf_int_cell_new(s, bf_i(0));
  uint32_t line = 0;
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(3))) {
    line = __LINE__ - 1;
    bf_int_cell_put(count, i);
    break;
  }
  bf_int counted = bf_int_cell_get(count);
  IS(s, BF_CLAIM_INT(counted, NULL), BF_E_UNSEEN);
  const bf_error *left = bf_error_part(bf_error_last(s), 0);
  CHECK(bf_error_status(left) == BF_E_LEFT_OPEN);
  /* It is named once. */
  const char *said = strstr(bf_error_text(s), "was not sent");
  CHECK(said && !strstr(said + 1, "was not sent"));
  bf_place place = bf_error_place(left);
  CHECK(strstr(place.file, "conformance.c") && place.line == line);
  IS_INT(s, counted, 0);
  /* The same by `return`. */
  leave_by_return(s, p, count);
  counted = bf_int_cell_get(count);
  IS(s, BF_CLAIM_INT(counted, NULL), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_LEFT_OPEN);
  IS_INT(s, counted, 0);
  /* A stub that was released, and no stub. */
  Item fresh = Probe_fresh(p);
  Item_release(fresh);
  IS(s, BF_CLAIM_STR(Item_name(fresh), NULL), BF_E_RELEASED);
  IS(s, Item_claim(fresh), BF_E_RELEASED);
  Item_release(fresh);
  Item none = {{NULL, 0, 0}};
  IS(s, Item_claim(none), BF_E_NO_SESSION);
  /* What no session has recorded is no value: neither to be claimed, nor as an argument. */
  int64_t kept = 7;
  bf_int nothing = bf_int_add(bf_i(1), bf_i(2));
  CHECK(BF_CLAIM(nothing, &kept) == BF_E_NO_SESSION && kept == 7);
  bool truth = true;
  CHECK(BF_CLAIM(bf_int_gt(bf_i(0), bf_i(1)), &truth) == BF_E_NO_SESSION && truth);
  const char *text = "kept";
  CHECK(BF_CLAIM(Item_name(none), &text) == BF_E_NO_SESSION && !strcmp(text, "kept"));
  CHECK(BF_CLAIM(Probe_same_int(p, nothing), &kept) == BF_E_OTHER_SESSION && kept == 7);
  /* An else that belongs to nothing. */
  BF_IF(s, bf_bool_stub(s, true)) bf_int_cell_put(count, bf_i(1));
  bf_int_cell_put(count, bf_i(2));
  BF_ELSE(s) bf_int_cell_put(count, bf_i(3));
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_NOT_ADJACENT);
  IS_INT(s, bf_int_cell_get(count), 2);
  /* An iterator with more arguments than there are. */
  bf_iter_bf_int wide = Probe_numbers(p, bf_i(3));
  wide.call.count = 9;
  BF_FOREACH(s, bf_int, i, wide) bf_int_cell_put(count, i);
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_TOO_LONG);
  /* A handler with less room than values: the results behind it are right all the same. */
  bf_ref room[1];
  BF_EXCEPT(s) Probe_choose(p, bf_i(1));
  bf_when(s, "odd", BF_TYPES(BF_TYPE(bf_int)), bf_refs_(room, 0), BF_HERE);
  bf_int_cell_put(count, bf_i(77));
  bf_end(s);
  IS_INT(s, bf_int_cell_get(count), 77);
  /* Of another session. */
  bf_session *other = open_session();
  Item foreign = Probe_fresh(Probe_lookup(other, "probe"));
  IS(s, BF_CLAIM_STR(Probe_name_of(p, foreign), NULL), BF_E_OTHER_SESSION);
  bf_close(other);
}

static void procedures_are_kept_by_the_session(bf_session *s, Probe p) {
  bf_ref given[3];
  bf_types types = BF_TYPES(BF_TYPE(bf_str), BF_TYPE(bf_int), BF_TYPE(Item));
  uint32_t label = bf_procedure(s, "label", types, BF_TYPE(bf_str), bf_refs_(given, 3), BF_HERE);
  bf_value negative = bf_arg_bf_str(bf_s("negative"));
  bf_int n = bf_of_bf_int(given[1]);
  BF_IF(s, bf_int_lt(n, bf_i(0))) bf_return(s, &negative, BF_HERE);
  bf_str text =
      bf_str_concat(bf_str_concat(bf_of_bf_str(given[0]), bf_int_unparse(n)), Item_name(bf_of_Item(given[2])));
  bf_value result = bf_arg_bf_str(text);
  bf_procedure_end(s, label, &result, BF_HERE);
  bf_str one = bf_of_bf_str(
      BF_CALL(s, label, bf_arg_bf_str(bf_s("x")), bf_arg_bf_int(bf_i(1)), bf_arg_Item(Probe_item(p, bf_s("a")))));
  bf_str two = bf_of_bf_str(BF_CALL(s, label, bf_arg_bf_str(Probe_same_string(p, bf_s("y"))), bf_arg_bf_int(bf_i(-2)),
                                    bf_arg_Counter(Probe_counter(p))));
  IS_STR(s, one, "x1a");
  IS_STR(s, two, "negative");
  CHECK(crossings(s) == 1);
  /* By name, in a later batch and in a loop. */
  CHECK(bf_procedure_find(s, "label", BF_TYPES(BF_TYPE(bf_int)), BF_TYPE(bf_int)) == BF_NO_PROCEDURE);
  uint32_t found = bf_procedure_find(s, "label", types, BF_TYPE(bf_str));
  CHECK(found != BF_NO_PROCEDURE);
  bf_str_cell out = bf_str_cell_new(s, bf_s(""));
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(3))) {
    bf_str more = bf_of_bf_str(
        BF_CALL(s, found, bf_arg_bf_str(bf_s(":")), bf_arg_bf_int(i), bf_arg_Item(Probe_item(p, bf_s("b")))));
    bf_str_cell_put(out, bf_str_concat(bf_str_cell_get(out), more));
  }
  IS_STR(s, bf_str_cell_get(out), ":1b:2b:3b");
  CHECK(crossings(s) == 2);
  /* Recursion. */
  bf_ref number[1];
  uint32_t factorial =
      bf_procedure(s, "factorial", BF_TYPES(BF_TYPE(bf_int)), BF_TYPE(bf_int), bf_refs_(number, 1), BF_HERE);
  bf_int of = bf_of_bf_int(number[0]);
  bf_value unit = bf_arg_bf_int(bf_i(1));
  BF_IF(s, bf_int_le(of, bf_i(1))) bf_return(s, &unit, BF_HERE);
  bf_int less = bf_of_bf_int(BF_CALL(s, factorial, bf_arg_bf_int(bf_int_sub(of, bf_i(1)))));
  result = bf_arg_bf_int(bf_int_mul(less, of));
  bf_procedure_end(s, factorial, &result, BF_HERE);
  bf_int small = bf_of_bf_int(BF_CALL(s, factorial, bf_arg_bf_int(bf_i(10))));
  bf_int large = bf_of_bf_int(BF_CALL(s, factorial, bf_arg_bf_int(bf_i(21))));
  IS_INT(s, small, 3628800);
  SIGNALS(s, BF_CLAIM_INT(large, NULL), "overflow");
  CHECK(crossings(s) == 3);
  /* Without result, and without parameters. */
  uint32_t touch = bf_procedure(s, "touch", BF_NO_TYPES, NULL, bf_refs_(NULL, 0), BF_HERE);
  Counter_add(Probe_counter(p), bf_i(5));
  bf_procedure_end(s, touch, NULL, BF_HERE);
  bf_release(bf_procedure_call(s, touch, bf_no_values_(), BF_HERE));
  OK(s, bf_claim(bf_procedure_call(s, touch, bf_no_values_(), BF_HERE), BF_HERE));
  IS_INT(s, Counter_value(Probe_counter(p)), 10);
}

static void numbers_signal_what_has_no_result(bf_session *s, Probe p) {
  (void)p;
  bf_int least = bf_int_stub(s, INT64_MIN), most = bf_int_stub(s, INT64_MAX), one = bf_int_stub(s, 1);
  bf_int overflows[] = {bf_int_add(most, bf_i(1)), bf_int_sub(least, bf_i(1)), bf_int_mul(most, bf_i(2)),
                        bf_int_div(least, bf_i(-1)), bf_int_negate(least)};
  bf_int zeros[] = {bf_int_div(one, bf_i(0)), bf_int_mod(one, bf_i(0))};
  for (int i = 0; i < 5; i++) SIGNALS(s, BF_CLAIM_INT(overflows[i], NULL), "overflow");
  for (int i = 0; i < 2; i++) SIGNALS(s, BF_CLAIM_INT(zeros[i], NULL), "zero");
  double real;
  OK(s, BF_CLAIM(bf_real_div(bf_real_stub(s, 1.0), bf_r(0.0)), &real));
  CHECK(real > 1e308);
  /* A value on the left. */
  IS_INT(s, bf_int_sub(bf_i(5), one), 4);
  CHECK(crossings(s) == 3);
}

static void messages_name_objects_by_the_calls_that_they_came_from(bf_session *s, Probe p) {
  (void)p;
  Counter counter = Counter_lookup(s, "counter");
  char name[300];
  snprintf(name, sizeof name, "`Counter` (the result of `lookup` at %s:%d)", __FILE__, __LINE__ - 2);
  IS_INT(s, Counter_value(counter), 0);
  bf_session *other = open_session();
  Counter_add(Counter_lookup(other, "counter"), bf_i(5));
  OK(other, BF_CLAIM_NIL(BF_COMMIT(other)));
  bf_close(other);
  Counter_add(counter, bf_i(1));
  IS(s, BF_CLAIM_NIL(BF_COMMIT(s)), BF_E_REFUSED);
  CHECK(bf_error_number(bf_error_last(s)) == 26);
  CHECK(strstr(bf_error_text(s), name));
  /* As it was. */
  Counter_add(counter, bf_i(-5));
  OK(s, BF_CLAIM_NIL(BF_COMMIT(s)));
}

static void a_table_is_one_crossing(bf_session *s, Probe p) {
  bf_table pairs = BF_ROWS(s, BF_TYPE(bf_int), BF_TYPE(bf_str), BF_TYPE(bf_int));
  BF_FOREACH2(s, bf_int, n, bf_str, text, Probe_pairs(p, bf_i(3))) {
    BF_PUSH(pairs, bf_arg_bf_int(n), bf_arg_bf_str(text), bf_arg_bf_int(bf_int_add(n, bf_i(1))));
  }
  CHECK(crossings(s) == 0);
  const bf_items *rows;
  OK(s, BF_CLAIM_TABLE(pairs, &rows));
  CHECK(bf_items_rows(rows) == 3 && bf_items_columns(rows) == 3);
  for (size_t i = 0; i < 3; i++) {
    CHECK(bf_value_int(bf_table_cell(rows, i, 2)) == bf_value_int(bf_table_cell(rows, i, 0)) + 1);
    CHECK(strlen(bf_value_str(bf_table_cell(rows, i, 1))) == 1);
  }
  bf_items_free(s, (bf_items *)rows);
  CHECK(crossings(s) == 1);
  /* Objects are stubs, one for each cell. */
  Probe_add_item(p, Counter_to_Item(Probe_counter(p)));
  bf_table items = BF_ROWS(s, BF_TYPE(Item), BF_TYPE(bf_str), BF_TYPE(bf_bool));
  BF_FOREACH(s, Item, item, Probe_items(p)) {
    BF_PUSH(items, bf_arg_Item(item), bf_arg_bf_str(Item_name(item)), bf_arg_bf_bool(BF_IS(Counter, item)));
  }
  OK(s, BF_CLAIM_TABLE(items, &rows));
  CHECK(crossings(s) == 2);
  bool is_counter = false;
  for (size_t i = 0; i < bf_items_rows(rows); i++) {
    Item item = bf_of_Item(bf_value_ref(bf_table_cell(rows, i, 0)));
    IS_STR(s, Item_name(item), bf_value_str(bf_table_cell(rows, i, 1)));
    is_counter |= bf_value_bool(bf_table_cell(rows, i, 2));
  }
  CHECK(is_counter);
  /* Retained, it outlives the table. */
  Item kept = Item_retain(bf_of_Item(bf_value_ref(bf_table_cell(rows, 0, 0))));
  Item lost = bf_of_Item(bf_value_ref(bf_table_cell(rows, 1, 0)));
  bf_items_free(s, (bf_items *)rows);
  IS_STR(s, Item_name(kept), "a");
  IS(s, Item_claim(lost), BF_E_RELEASED);
}

static void rows_come_from_structures_and_procedures(bf_session *s, Probe p) {
  bf_table table = BF_ROWS(s, BF_TYPE(bf_int), BF_TYPE(bf_bool));
  BF_PUSH(table, bf_arg_bf_int(bf_i(0)), bf_arg_bf_bool(bf_b(true)));
  bf_ref n[1];
  uint32_t odd = bf_procedure(s, "odd", BF_TYPES(BF_TYPE(bf_int)), NULL, bf_refs_(n, 1), BF_HERE);
  BF_PUSH(table, bf_stub_value_(n[0]), bf_arg_bf_bool(bf_b(false)));
  bf_procedure_end(s, odd, NULL, BF_HERE);
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(4))) {
    BF_IF(s, bf_int_equal(bf_int_mod(i, bf_i(2)), bf_i(0))) {
      BF_PUSH(table, bf_arg_bf_int(bf_int_mul(i, bf_i(10))), bf_arg_bf_bool(bf_b(true)));
    }
    BF_ELSE(s) BF_CALL(s, odd, bf_arg_bf_int(i));
  }
  const bf_items *rows;
  OK(s, BF_CLAIM_TABLE(table, &rows));
  CHECK(bf_items_rows(rows) == 5);
  for (size_t i = 0; i < 5; i++) {
    CHECK((bf_value_int(bf_table_cell(rows, i, 0)) % 2 == 0) == bf_value_bool(bf_table_cell(rows, i, 1)));
  }
  bf_items_free(s, (bf_items *)rows);
  CHECK(crossings(s) == 1);
  /* The table is gone, and a procedure that adds to it too. */
  IS(s, bf_claim(BF_CALL(s, odd, bf_arg_bf_int(bf_i(7))), BF_HERE), BF_E_REFUSED);
  CHECK(bf_error_number(bf_error_last(s)) == 5);
}

static void a_table_of_an_earlier_batch_takes_no_rows(bf_session *s, Probe p) {
  (void)p;
  const bf_items *rows;
  bf_table table = BF_ROWS(s, BF_TYPE(bf_int));
  BF_PUSH(table, bf_arg_bf_int(bf_i(1)));
  OK(s, BF_CLAIM_TABLE(table, &rows));
  bf_items_free(s, (bf_items *)rows);
  BF_PUSH(table, bf_arg_bf_int(bf_i(2)));
  /* Nobody can claim the row, so the next flush tells it. */
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_ENDED_TABLE);
  OK(s, BF_CLAIM_TABLE(table, &rows));
  CHECK(bf_items_rows(rows) == 1 && bf_value_int(bf_table_cell(rows, 0, 0)) == 1);
  bf_items_free(s, (bf_items *)rows);
}

static void a_row_that_fails_is_told(bf_session *s, Probe p) {
  const bf_items *rows;
  bf_table table = BF_ROWS(s, BF_TYPE(bf_int));
  BF_FOREACH(s, bf_int, n, Probe_numbers(p, bf_i(6))) BF_PUSH(table, bf_arg_bf_int(Probe_choose(p, n)));
  IS(s, BF_CLAIM_TABLE(table, &rows), BF_E_UNSEEN);
  CHECK(rows == NULL && bf_error_parts(bf_error_last(s)) == 1);
  /* Told once, what was there before is there. */
  OK(s, BF_CLAIM_TABLE(table, &rows));
  bf_items_free(s, (bf_items *)rows);
}

static void types_at_run_time(bf_session *s, Probe p) {
  Tagged tagged = Probe_tagged(p);
  bf_any number = Tagged_thing(tagged, bf_i(1));
  bf_int one = BF_AS(bf_int, number);
  bf_bool is_int = BF_IS(bf_int, number), is_item = BF_IS(Item, number);
  Item item = Counter_to_Item(Probe_counter(p));
  bf_int value = Counter_value(BF_AS(Counter, item));
  bf_int wrong = Counter_value(BF_AS(Counter, Probe_fresh(p)));
  CHECK(crossings(s) == 0);
  IS_INT(s, one, 1);
  IS_BOOL(s, is_int, true);
  IS_BOOL(s, is_item, false);
  OK(s, BF_CLAIM_INT(value, NULL));
  SIGNALS(s, BF_CLAIM_INT(wrong, NULL), "wrong_type");
  CHECK(crossings(s) == 1);
  /* In a loop, with a handler. */
  Probe_add_item(p, item);
  const bf_items *rows;
  bf_table values = BF_ROWS(s, BF_TYPE(bf_str), BF_TYPE(bf_int));
  BF_FOREACH(s, Item, each, Probe_items(p)) {
    BF_EXCEPT(s) {
      BF_PUSH(values, bf_arg_bf_str(Item_name(each)), bf_arg_bf_int(Counter_value(BF_AS(Counter, each))));
    }
    BF_WHEN(s, wrong_type, none) BF_PUSH(values, bf_arg_bf_str(Item_name(each)), bf_arg_bf_int(bf_i(-1)));
  }
  OK(s, BF_CLAIM_TABLE(values, &rows));
  bool counters = false;
  for (size_t i = 0; i < bf_items_rows(rows); i++) counters |= bf_value_int(bf_table_cell(rows, i, 1)) >= 0;
  CHECK(counters && bf_items_rows(rows) >= 5);
  bf_items_free(s, (bf_items *)rows);
}

static void compounds_cross_by_value(bf_session *s, Probe p) {
  Values v = Probe_values(p);
  bf_int n = bf_int_stub(s, 4);
  static const int64_t three[] = {1, 2, 3};
  bf_value mixed[] = {bf_arg_bf_int(n), bf_arg_bf_int(bf_int_add(n, bf_i(1)))};
  bf_value parts[] = {bf_arg_Numbers(Numbers_of_ints(three, 2)), bf_arg_Numbers(Numbers_of_ints(NULL, 0)),
                      bf_arg_Numbers(Numbers_of_ints(three + 2, 1))};
  bf_int sums[] = {Values_total(v, Numbers_of_ints(three, 3)), Values_total(v, Numbers_of_ints(NULL, 0)),
                   Values_total(v, Numbers_of(mixed, 2)), Values_nested(v, SequenceOfNumbers_of(parts, 3))};
  Numbers twice = Values_twice(v, Numbers_of_ints(three, 2));
  bf_int again = Values_total(v, twice);
  bf_contents contents = Numbers_get(twice);
  bf_int distance =
      Values_distance(v, LineRef_of(bf_s("ab"), SpotRef_of(bf_i(1), bf_i(2)), SpotRef_of(bf_i(5), bf_i(9))));
  bf_str areas[] = {Values_area(v, ShapeRef_of_circle(bf_r(2.5))), Values_area(v, ShapeRef_of_nothing()),
                    Values_area(v, ShapeRef_of_dot(SpotRef_of(bf_i(1), bf_i(2)))),
                    Values_area(v, Values_shape(v, bf_i(1)))};
  bf_str named[] = {Values_named(v, MaybeOfString_of_none()), Values_named(v, MaybeOfString_of_some(bf_s("ann"))),
                    Values_named(v, Values_name(v, bf_i(5)))};
  bf_contents family = FamilyRef_get(Values_family(v, bf_i(3)));
  const bf_items *items;
  OK(s, BF_CLAIM(contents, &items));
  bf_values got = bf_items_values(items);
  CHECK(got.count == 2 && bf_value_int(got.items[0]) == 2 && bf_value_int(got.items[1]) == 4);
  bf_items_free(s, (bf_items *)items);
  IS_INT(s, again, 6);
  IS_INT(s, sums[0], 6);
  IS_INT(s, sums[1], 0);
  IS_INT(s, sums[2], 9);
  IS_INT(s, sums[3], 6);
  IS_INT(s, distance, 211);
  IS_STR(s, areas[0], "{circle: 2.5}");
  IS_STR(s, areas[1], "{nothing: nil}");
  IS_STR(s, areas[2], "{dot: {x: 1, y: 2}}");
  IS_STR(s, areas[3], "{circle: 0.5}");
  IS_STR(s, named[0], "nobody");
  IS_STR(s, named[1], "ann");
  IS_STR(s, named[2], "5");
  OK(s, BF_CLAIM(family, &items));
  got = bf_items_values(items);
  CHECK(got.count == 2 && got.items[1].tag == BF_VALUE_ITEMS && got.items[1].items.count == 3);
  IS_STR(s, Item_name(bf_of_Item(bf_value_ref(got.items[0]))), "head");
  /* What came is an argument again. */
  FamilyRef same = bf_items_FamilyRef_(got.items, got.count);
  IS_STR(s, Values_members(v, same), "head,1,2,3");
  bf_items_free(s, (bf_items *)items);
  /* The objects of an exception are stubs. */
  Item item = Probe_fresh(p);
  bf_nil rejected = bf_at_Values_reject(v, item, bf_i(3), BF_HERE);
  SIGNALS(s, BF_CLAIM_NIL(rejected), "rejected");
  items = bf_signal_items(rejected.ref);
  got = bf_items_values(items);
  CHECK(got.count == 3 && bf_value_int(got.items[1]) == 3);
  CHECK(bf_same(bf_value_ref(got.items[0]), item.ref));
  bf_items_free(s, (bf_items *)items);
}

static void batches_overlap(bf_session *s, Probe p) {
  bf_int one = Probe_same_int(p, bf_i(1));
  OK(s, bf_flush_start(s, BF_HERE));
  /* A result that is not there yet is an operand of the next batch. */
  bf_int two = bf_int_add(one, bf_i(1));
  OK(s, bf_flush_start(s, BF_HERE));
  bf_status status;
  while ((status = bf_flush_poll(s, BF_HERE)) == BF_PENDING) {
  }
  OK(s, status);
  OK(s, bf_peek(bf_ref_bf_int(one), BF_HERE));
  IS_INT(s, two, 2);
  CHECK(crossings(s) == 2);
}

static void scopes_release_stubs(bf_session *s, Probe p) {
  size_t before = bf_stubs_alive(s);
  Item kept = {{NULL, 0, 0}}, lost = {{NULL, 0, 0}};
  BF_SCOPE(s) {
    kept = Item_retain(Probe_fresh(p));
    lost = Probe_fresh(p);
    for (int i = 0; i < 100; i++) Probe_fresh(p);
    BF_SCOPE(s) Probe_fresh(p);
    CHECK(bf_stubs_alive(s) == before + 102);
  }
  CHECK(bf_stubs_alive(s) == before + 1);
  IS_STR(s, Item_name(kept), "fresh");
  IS(s, Item_claim(lost), BF_E_RELEASED);
}

static void transactions_commit_or_tell(bf_session *s, Probe p) {
  bf_status status;
  Counter counter = Counter_lookup(s, "counter");
  bf_int value = bf_i(0);
  BF_TRANSACTION(s, NULL, &status) {
    value = Counter_add(counter, bf_i(7));
    IS(s, BF_CLAIM_INT(value, NULL), BF_E_IN_TRANSACTION);
  }
  /* The claim that was refused in it is one of its failures. */
  IS(s, status, BF_E_UNSEEN);
  BF_TRANSACTION(s, NULL, &status) value = Counter_add(counter, bf_i(7));
  OK(s, status);
  IS_INT(s, value, 7);
  BF_TRANSACTION(s, NULL, &status) Probe_choose(p, bf_i(3));
  IS(s, status, BF_E_UNSEEN);
  CHECK(strcmp(bf_error_name(bf_error_part(bf_error_last(s), 0)), "third") == 0);
  /* A failure that nobody was told of prevents the commit. */
  Probe_choose(p, bf_i(1));
  bf_nil commit = BF_COMMIT(s);
  IS(s, BF_CLAIM_NIL(commit), BF_E_UNSEEN);
  CHECK(strcmp(bf_error_name(bf_error_part(bf_error_last(s), 0)), "odd") == 0);
  Counter_add(counter, bf_i(-7));
  OK(s, BF_CLAIM_NIL(BF_COMMIT(s)));
}

static void live_batches_see_changes(bf_session *s, Probe p) {
  (void)p;
  bf_session *other = open_session();
  Counter counter = Counter_lookup(s, "counter"), theirs = Counter_lookup(other, "counter");
  bf_live_batch *live = bf_live();
  for (int64_t round = 0; round < 3; round++) {
    bf_status status;
    bf_int value;
    do {
      OK(s, bf_live_begin(live, s, BF_HERE));
      value = Counter_value(counter);
      bf_ref results[] = {bf_ref_bf_int(value)};
      status = bf_live_end(live, s, bf_refs_(results, 1), BF_HERE);
    } while (status == BF_SAME);
    OK(s, status);
    IS_INT(s, value, round);
    Counter_add(theirs, bf_i(1));
    OK(other, BF_CLAIM_NIL(BF_COMMIT(other)));
  }
  bf_live_free(live, s);
  Counter_add(theirs, bf_i(-3));
  OK(other, BF_CLAIM_NIL(BF_COMMIT(other)));
  bf_close(other);
}

static void signals_carry_objects_and_compounds(bf_session *s, Probe p) {
  Item item = Probe_fresh(p);
  bf_nil rejected = bf_at_Values_reject(Probe_values(p), item, bf_i(3), BF_HERE);
  bf_nil nothing = bf_at_Values_reject(Probe_values(p), item, bf_i(0), BF_HERE);
  SIGNALS(s, BF_CLAIM_NIL(rejected), "rejected");
  const bf_items *items = bf_signal_items(rejected.ref);
  bf_values got = bf_items_values(items);
  CHECK(got.count == 3 && bf_value_int(got.items[1]) == 3);
  CHECK(bf_same(bf_value_ref(got.items[0]), item.ref));
  IS_INT(s, SpotRef_x(bf_of_SpotRef(bf_value_ref(got.items[2]))), 3);
  bf_items_free(s, (bf_items *)items);
  SIGNALS(s, BF_CLAIM_NIL(nothing), "nothing");
  CHECK(bf_error_values(bf_error_last(s)).count == 0);
}

static void names_of_the_root_directory(bf_session *s, Probe p) {
  bf_directory root = stubs_root(s);
  bf_str name = Counter_name(BF_AS(Counter, bf_directory_lookup(root, bf_s("counter"))));
  bf_any gone = bf_directory_lookup(root, bf_s("again"));
  bf_str_cell all = bf_str_cell_new(s, bf_s(""));
  BF_FOREACH(s, bf_str, n, bf_directory_names(root)) say(all, n);
  bf_nil refused = bf_at_directory_insert(root, bf_s("again"), Probe_counter(p).ref, BF_HERE);
  IS_STR(s, bf_str_cell_get(all), "counter probe ");
  IS_STR(s, name, "counter");
  SIGNALS(s, bf_claim(gone.ref, BF_HERE), "not_found");
  IS(s, BF_CLAIM_NIL(refused), BF_E_REFUSED);
}

static void and_by_a_cell_live(bf_session *s, Probe p) {
  bf_bool_cell both = BF_CELL(s, bf_bool_cell);
  BF_AND(s, both, bf_bool_stub(s, false), (Probe_choose(p, bf_i(3)), bf_b(true)));
  IS_BOOL(s, bf_bool_cell_get(both), false);
  CHECK(bf_exceptions(s) == 0);
}

static void commands_are_sent_early(bf_session *s, Probe p) {
  for (int i = 0; i < 300; i++) Probe_nothing(p);
  IS_INT(s, Probe_same_int(p, bf_i(1)), 1);
  bf_counts counts;
  bf_counters(s, &counts);
  CHECK(counts.crossings == 1 && counts.calls == 302);
}

static void a_session_is_left(bf_session *s, Probe p) {
  Probe_nothing(p);
  OK(s, bf_finish(s, BF_HERE));
  IS(s, BF_CLAIM_INT(Probe_same_int(p, bf_i(1)), NULL), BF_E_CLOSED);
}

static void batches_are_explained(bf_session *s, Probe p) {
  bf_int one = Probe_same_int(p, bf_i(7));
  CHECK(strstr(bf_explain(s), "same_int(7)"));
  IS_INT(s, one, 7);
  CHECK(strstr(bf_explain_last(s), "same_int(7)") && strstr(bf_explain_last(s), "conformance.c:"));
  CHECK(!strstr(bf_explain(s), "same_int"));
  CHECK(!strstr(bf_explain_last(s), "at the server"));
  /* Profiles have the time, the fuel and the fetches of each command. */
  OK(s, bf_profile(s, true, BF_HERE));
  IS_INT(s, Probe_same_int(p, bf_i(8)), 8);
  const char *last = bf_explain_last(s);
  CHECK(strstr(last, ", at the server ") && strstr(last, "profile on"));
  const char *call = strstr(last, "same_int(8)  # ");
  CHECK(call && strstr(call, " us, 1 calls, fuel 1"));
  /* Where the batch cannot have one, nothing changes. */
  BF_IF(s, bf_b(true)) {
    IS(s, bf_profile(s, false, BF_HERE), BF_E_OPEN_STRUCTURE);
  }
  OK(s, bf_profile(s, false, BF_HERE));
  OK(s, BF_FLUSH(s));
  CHECK(!strstr(bf_explain_last(s), "at the server"));
  const char *first = strstr(bf_explain_batches(s), "batch 1: ");
  CHECK(first && strstr(first, "answered in ") && strstr(first, "; sent by the claim at "));
  /* A batch that is a transaction has the place of its head. */
  bf_status status;
  unsigned line = __LINE__ + 1;
  BF_TRANSACTION(s, NULL, &status) one = Probe_same_int(p, bf_i(9));
  OK(s, status);
  char sent[4200];
  snprintf(sent, sizeof sent, "; sent by the call at %s:%u\n", __FILE__, line);
  CHECK(strstr(bf_explain_batches(s), sent));
  /* Claims that force a crossing again and again are named. */
  for (int i = 0; i < 4; i++) IS_INT(s, Probe_same_int(p, bf_i(i)), i);
  CHECK(strstr(bf_advice(s), "record the calls of all rounds before the first claim"));
}

/* Cases of servers with limits of their own. */

static void only_what_is_kept_gets_a_handle(bf_session *s, Probe p) { /* limits.handles_max=8 */
  for (int i = 0; i < 1000; i++) Item_release(Probe_fresh(p));
  OK(s, BF_FLUSH(s));
  /* Together with `p` these are all, again and again, for a stub that is released is given back. */
  for (int round = 0; round < 5; round++) {
    BF_SCOPE(s) {
      Item kept[7];
      for (int i = 0; i < 7; i++) kept[i] = Probe_fresh(p);
      OK(s, BF_FLUSH(s));
      for (int i = 0; i < 7; i++) OK(s, Item_claim(kept[i]));
    }
    OK(s, BF_FLUSH(s));
  }
  CHECK(crossings(s) == 11);
  BF_SCOPE(s) {
    /* The same object again takes no other one. */
    Counter same[100];
    for (int i = 0; i < 100; i++) same[i] = Probe_counter(p);
    OK(s, BF_FLUSH(s));
    for (int i = 0; i < 100; i++) OK(s, Counter_claim(same[i]));
  }
  BF_SCOPE(s) {
    Item many[9];
    for (int i = 0; i < 9; i++) many[i] = Probe_fresh(p);
    bf_flush(s, BF_HERE);
    int failed = 0;
    for (int i = 0; i < 9; i++) failed += Item_claim(many[i]) != BF_OK;
    CHECK(failed > 0);
  }
  IS_INT(s, Probe_same_int(p, bf_i(1)), 1);
}

/** The kilobytes of memory that the process has. */
static long resident(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long pages = 0, all = 0;
  CHECK(file && fscanf(file, "%ld %ld", &all, &pages) == 2);
  fclose(file);
  return pages * 4;
}

static void a_million_dropped_stubs_leave_nothing(bf_session *s, Probe p) { /* limits.handles_max=8 */
  long before = 0;
  for (int i = 0; i < 1000000; i++) {
    Item_release(Probe_fresh(p));
    if (i == 200000) before = resident();
  }
  OK(s, BF_FLUSH(s));
  CHECK(bf_stubs_alive(s) == 1);
  long grown = resident() - before;
  if (grown > 2000) fprintf(stderr, "grown by %ld kB\n", grown);
  CHECK(grown <= 2000);
  IS_STR(s, Item_name(Probe_fresh(p)), "fresh");
}

static void many_results_are_mapped_again(bf_session *s, Probe p) {
  enum { MANY = 16400 };
  static Item items[MANY];
  static bf_str names[MANY];
  OK(s, BF_FLUSH(s));
  uint64_t before = crossings(s);
  for (int i = 0; i < MANY; i++) items[i] = Probe_fresh(p);
  CHECK(crossings(s) == before + 1);
  for (int i = 0; i < MANY; i++) names[i] = Item_name(items[i]);
  CHECK(crossings(s) == before + 2);
  for (int i = 0; i < MANY; i++) IS_STR(s, names[i], "fresh");
  CHECK(crossings(s) == before + 3);
  for (int i = 0; i < MANY; i++) {
    Item_release(items[i]);
    bf_release(bf_ref_bf_str(names[i]));
  }
  OK(s, BF_FLUSH(s));
  CHECK(bf_stubs_alive(s) == 1);
  IS_INT(s, Probe_same_int(p, bf_i(1)), 1);
}

static void nest(bf_session *s, int depth, bf_int_cell count, int64_t n) {
  if (depth == 0) {
    bf_int_cell_put(count, bf_i(n));
    return;
  }
  BF_IF(s, bf_bool_stub(s, true)) nest(s, depth - 1, count, n);
}

static void misused(bf_session *s, bf_status wanted) {
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  IS(s, bf_error_status(bf_error_part(bf_error_last(s), 0)), wanted);
}

/* limits.batch_commands_max=200, limits.depth_max=4, limits.frame_bytes_max=65536 */
static void what_is_too_long_is_not_sent(bf_session *s, Probe p) {
  static char text[65537];
  OK(s, BF_FLUSH(s));
  memset(text, 'x', 65536);
  IS(s, BF_CLAIM_STR(Probe_same_string(p, bf_s(text)), NULL), BF_E_TOO_LONG);
  bf_int_cell count = bf_int_cell_new(s, bf_i(0));
  OK(s, BF_FLUSH(s));
  uint64_t before = crossings(s);
  BF_FOREACH(s, bf_int, i, Probe_numbers(p, bf_i(1))) {
    for (int n = 0; n < 3000; n++) bf_int_cell_put(count, i);
  }
  misused(s, BF_E_TOO_LONG);
  CHECK(crossings(s) == before);
  /* Deeper than the server wants. */
  nest(s, 5, count, 2);
  misused(s, BF_E_TOO_DEEP);
  IS_INT(s, bf_int_cell_get(count), 0);
  nest(s, 4, count, 2);
  IS_INT(s, bf_int_cell_get(count), 2);
  /* A straight batch goes in parts instead. */
  before = crossings(s);
  bf_int last = bf_i(0);
  for (int i = 0; i < 1000; i++) last = Probe_same_int(p, bf_i(i));
  IS_INT(s, last, 999);
  CHECK(crossings(s) - before >= 5 && crossings(s) - before <= 12);
  CHECK(bf_exceptions(s) == 3);
}

/* limits.futures_max=50 */
static void futures_are_mapped_again_live(bf_session *s, Probe p) {
  (void)p;
  bf_int_cell total = bf_int_cell_new(s, bf_i(0));
  for (int i = 0; i < 40; i++) bf_int_cell_put(total, bf_int_add(bf_int_cell_get(total), bf_i(1)));
  IS_INT(s, bf_int_cell_get(total), 40);
  CHECK(crossings(s) == 3);
}

/* limits.fuel_max=10000, limits.batch_time_ms_max=60000 */
static void endless_batches_are_ended(bf_session *s, Probe p) {
  BF_WHILE(s, bf_bool_equal(bf_bool_stub(s, true), bf_b(true))) Probe_nothing(p);
  /* OutOfFuel ended the batch. */
  IS(s, BF_CLAIM_INT(Probe_same_int(p, bf_i(1)), NULL), BF_E_REFUSED);
  CHECK(bf_error_kind(bf_error_last(s)) == BF_E_NOT_REACHED);
  CHECK(bf_error_number(bf_error_root(bf_error_last(s))) == 21);
  IS_INT(s, Probe_same_int(p, bf_i(2)), 2);
  /* Half of it is not stored. */
  bf_exceptions_clear(s, BF_HERE);
  IS(s, BF_CLAIM_NIL(BF_COMMIT(s)), BF_E_REFUSED);
  bf_exceptions_clear(s, BF_HERE);
  OK(s, BF_CLAIM_NIL(BF_ABORT(s)));
  OK(s, BF_CLAIM_NIL(BF_COMMIT(s)));
}

typedef struct test {
  const char *name;
  void (*run)(bf_session *, Probe);
} test;

#define TEST(name)                                                                                                     \
  { #name, name }

static const test TESTS[] = {
    TEST(values_come_back_as_they_went),
    TEST(results_of_all_shapes),
    TEST(a_subtype_passes_for_its_supertype),
    TEST(records_oneofs_and_anys_are_stubs),
    TEST(iterators_of_methods_routines_and_values),
    TEST(signals_carry_their_values),
    TEST(cells_of_everything),
    TEST(straight_futures_take_one_crossing),
    TEST(a_claim_flushes_once_for_all_promises),
    TEST(the_same_object_is_the_same_handle),
    TEST(structures_nest),
    TEST(handlers_get_names_and_values),
    TEST(exceptions_in_loops_say_the_round),
    TEST(what_depends_on_a_failure_says_why),
    TEST(misuse_is_a_value_and_the_session_goes_on),
    TEST(procedures_are_kept_by_the_session),
    TEST(numbers_signal_what_has_no_result),
    TEST(messages_name_objects_by_the_calls_that_they_came_from),
    TEST(a_table_is_one_crossing),
    TEST(rows_come_from_structures_and_procedures),
    TEST(a_table_of_an_earlier_batch_takes_no_rows),
    TEST(a_row_that_fails_is_told),
    TEST(types_at_run_time),
    TEST(compounds_cross_by_value),
    TEST(batches_overlap),
    TEST(scopes_release_stubs),
    TEST(transactions_commit_or_tell),
    TEST(live_batches_see_changes),
    TEST(batches_are_explained),
    TEST(signals_carry_objects_and_compounds),
    TEST(names_of_the_root_directory),
    TEST(and_by_a_cell_live),
    TEST(commands_are_sent_early),
    TEST(a_session_is_left),
};

/* Run by their names only: long ones, and those against servers with the limits of their comments. */
static const test LIMITED[] = {
    TEST(only_what_is_kept_gets_a_handle), TEST(a_million_dropped_stubs_leave_nothing),
    TEST(what_is_too_long_is_not_sent),    TEST(futures_are_mapped_again_live),
    TEST(endless_batches_are_ended),       TEST(many_results_are_mapped_again),
};

static void run_one(const test *t) {
  bf_session *s = open_session();
  t->run(s, Probe_lookup(s, "probe"));
  bf_close(s);
  printf("case %s ok\n", t->name);
}

int main(int argc, char **argv) {
  size_t run = 0;
  for (size_t i = 0; i < sizeof TESTS / sizeof TESTS[0]; i++) {
    if (argc > 1 && strcmp(argv[1], TESTS[i].name) != 0) continue;
    run_one(&TESTS[i]);
    run++;
  }
  for (size_t i = 0; i < sizeof LIMITED / sizeof LIMITED[0]; i++) {
    if (argc < 2 || strcmp(argv[1], LIMITED[i].name) != 0) continue;
    run_one(&LIMITED[i]);
    run++;
  }
  printf("%zu cases\n", run);
  return run == 0;
}
