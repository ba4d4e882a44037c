/**
 * @file
 * Bifrost in C: programs record calls of typed objects, and send them in batches.
 *
 * A program includes the header that `bifrost veneer --lang c` has generated, which includes this one.
 *
 *     bf_session *s = bf_connect(url, &database_interface, NULL);
 *     DataBase db = DataBase_lookup(s, "database");
 *     DataElem eve = DataBase_fetch(db, bf_s("eve"));      // recorded: nothing has crossed
 *     DataElem_touch(eve);
 *     int64_t visits;
 *     if (BF_CLAIM(DataElem_visits(eve), &visits)) fprintf(stderr, "%s\n", bf_error_text(s));    // one crossing
 *     bf_close(s);
 *
 * Stubs and promises are structs by value; they live until they are released, until their scope ends (BF_SCOPE), or as
 * long as the session. A call that cannot be recorded makes stubs that say so when they are claimed. Failures that no
 * stub is left to tell are told by the next claim, flush or commit.
 *
 * Functions that end in the place of the call are macros that give it: the function behind `bf_x` is `bf_at_x`.
 */

#ifndef BIFROST_H
#define BIFROST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "abi.h"

/** The version of these headers. The library's functions have the version BIFROST_0. */
#define BIFROST_VERSION "0.1.0"

/** Makes a place of the program. */
static inline bf_place bf_place_(const char *file, int line) {
  bf_place place = {file, (uint32_t)line};
  return place;
}

/** The place where it stands. */
#define BF_HERE bf_place_(__FILE__, __LINE__)

static inline bf_values bf_values_(const bf_value *items, size_t count) {
  bf_values values = {items, count};
  return values;
}

static inline bf_values bf_no_values_(void) { return bf_values_(NULL, 0); }

static inline bf_refs bf_refs_(bf_ref *items, size_t count) {
  bf_refs refs = {items, count};
  return refs;
}

static inline bf_types bf_types_(const bf_type *const *items, size_t count) {
  bf_types types;
  types.items = items;
  types.count = count;
  return types;
}

static inline bf_value bf_stub_value_(bf_ref stub) {
  bf_value value;
  value.tag = BF_VALUE_STUB;
  value.stub = stub;
  return value;
}

/* Promises of values. */

/** Where a promise's stub is, or the value itself. */
#define BF_PROMISE_(name, type)                                                                                        \
  typedef struct name {                                                                                                \
    /** The session of a promise; null for a value. */                                                                 \
    bf_session *session;                                                                                               \
    union {                                                                                                            \
      struct {                                                                                                         \
        uint32_t slot, use_count;                                                                                      \
      } stub;                                                                                                          \
      type value;                                                                                                      \
    } as;                                                                                                              \
  } name;

BF_PROMISE_(bf_bool, bool)
BF_PROMISE_(bf_int, int64_t)
BF_PROMISE_(bf_real, double)
BF_PROMISE_(bf_char, uint32_t)

/** A promise of a text in UTF-8, or a text: pointer and length in bytes. */
typedef struct bf_str {
  bf_session *session;
  union {
    struct {
      uint32_t slot, use_count;
    } stub;
    const char *data;
  } as;
  size_t length;
} bf_str;

/** A promise of bytes, or bytes. */
typedef struct bf_bytes {
  bf_session *session;
  union {
    struct {
      uint32_t slot, use_count;
    } stub;
    const char *data;
  } as;
  size_t length;
} bf_bytes;

/** A promise of nil: of a call without results. */
typedef struct bf_nil {
  bf_ref ref;
} bf_nil;

/** A promise of contents, or of a table: of several values. */
typedef struct bf_contents {
  bf_ref ref;
} bf_contents;

/** A table of rows. */
typedef struct bf_table {
  bf_ref ref;
} bf_table;

/** An object of any type. */
typedef struct bf_any {
  bf_ref ref;
} bf_any;

/** Objects by their names. */
typedef struct bf_directory {
  bf_ref ref;
} bf_directory;

/** Makes an integer an argument. */
static inline bf_int bf_i(int64_t value) {
  bf_int made;
  made.session = NULL;
  made.as.value = value;
  return made;
}

/** Makes a real an argument. */
static inline bf_real bf_r(double value) {
  bf_real made;
  made.session = NULL;
  made.as.value = value;
  return made;
}

/** Makes a truth value an argument. */
static inline bf_bool bf_b(bool value) {
  bf_bool made;
  made.session = NULL;
  made.as.value = value;
  return made;
}

/** Makes a character, a Unicode scalar value, an argument. */
static inline bf_char bf_c(uint32_t value) {
  bf_char made;
  made.session = NULL;
  made.as.value = value;
  return made;
}

/** Makes a text of so many bytes an argument. The bytes stay where they are until the call is recorded. */
static inline bf_str bf_s_n(const char *data, size_t length) {
  bf_str made;
  made.session = NULL;
  made.as.data = data;
  made.length = length;
  return made;
}

/** Makes a text that a zero byte ends an argument. */
static inline bf_str bf_s(const char *text) { return bf_s_n(text, text ? strlen(text) : 0); }

/** Makes bytes an argument. */
static inline bf_bytes bf_by(const void *data, size_t length) {
  bf_bytes made;
  made.session = NULL;
  made.as.data = (const char *)data;
  made.length = length;
  return made;
}

/** Makes nil an argument. */
static inline bf_nil bf_n(void) {
  bf_nil made = {{NULL, 0, 0}};
  return made;
}

/* For each type T of stubs and promises: bf_ref_T, its stub (none for a value), bf_of_T, which makes one of a stub,
 * and bf_arg_T, the argument. Generated headers have them for the types of the program. */

/* The session of a promise that has none, such as that of a call of no stub: null would make it a value. */
#define BF_NO_SESSION_ ((bf_session *)(uintptr_t)1)

#define BF_PROMISE_FUNCTIONS_(name, tag_, field)                                                                       \
  static inline bf_ref bf_ref_##name(name x) {                                                                         \
    bf_ref ref = {NULL, 0, 0};                                                                                         \
    if (x.session && x.session != BF_NO_SESSION_) {                                                                    \
      ref.session = x.session;                                                                                         \
      ref.slot = x.as.stub.slot;                                                                                       \
      ref.use_count = x.as.stub.use_count;                                                                             \
    }                                                                                                                  \
    return ref;                                                                                                        \
  }                                                                                                                    \
  static inline name bf_of_##name(bf_ref ref) {                                                                        \
    name x;                                                                                                            \
    memset(&x, 0, sizeof x);                                                                                           \
    x.session = ref.session ? ref.session : BF_NO_SESSION_;                                                            \
    x.as.stub.slot = ref.slot;                                                                                         \
    x.as.stub.use_count = ref.use_count;                                                                               \
    return x;                                                                                                          \
  }                                                                                                                    \
  static inline bf_value bf_arg_##name(name x) {                                                                       \
    bf_value value;                                                                                                    \
    if (x.session) return bf_stub_value_(bf_ref_##name(x));                                                            \
    value.tag = tag_;                                                                                                  \
    field;                                                                                                             \
    return value;                                                                                                      \
  }

BF_PROMISE_FUNCTIONS_(bf_bool, BF_VALUE_BOOL, value.bool_ = x.as.value)
BF_PROMISE_FUNCTIONS_(bf_int, BF_VALUE_INT, value.int_ = x.as.value)
BF_PROMISE_FUNCTIONS_(bf_real, BF_VALUE_REAL, value.real = x.as.value)
BF_PROMISE_FUNCTIONS_(bf_char, BF_VALUE_CHAR, value.char_ = x.as.value)
BF_PROMISE_FUNCTIONS_(bf_str, BF_VALUE_TEXT, (value.text.data = x.as.data, value.text.length = x.length))
BF_PROMISE_FUNCTIONS_(bf_bytes, BF_VALUE_BYTES, (value.bytes.data = x.as.data, value.bytes.length = x.length))

/** Defines the functions of a type of stubs. Generated headers use it. */
#define BF_STUB_FUNCTIONS_(name)                                                                                       \
  static inline bf_ref bf_ref_##name(name x) { return x.ref; }                                                         \
  static inline name bf_of_##name(bf_ref ref) {                                                                        \
    name x;                                                                                                            \
    x.ref = ref;                                                                                                       \
    return x;                                                                                                          \
  }                                                                                                                    \
  static inline bf_value bf_arg_##name(name x) { return bf_stub_value_(x.ref); }

static inline bf_ref bf_ref_bf_nil(bf_nil x) { return x.ref; }
static inline bf_nil bf_of_bf_nil(bf_ref ref) {
  bf_nil x;
  x.ref = ref;
  return x;
}
static inline bf_value bf_arg_bf_nil(bf_nil x) {
  bf_value value;
  if (x.ref.session) return bf_stub_value_(x.ref);
  value.tag = BF_VALUE_NIL;
  value.int_ = 0;
  return value;
}
BF_STUB_FUNCTIONS_(bf_contents)
BF_STUB_FUNCTIONS_(bf_table)
BF_STUB_FUNCTIONS_(bf_any)
BF_STUB_FUNCTIONS_(bf_directory)

/* Types. */

#define BF_CELLS_NONE_                                                                                                 \
  { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX }

static const bf_type bf_type_bf_nil = {BF_FAMILY_BASIC, 0, BF_CELLS_NONE_, NULL, "null"};
static const bf_type bf_type_bf_bool = {BF_FAMILY_BASIC, 1, BF_CELLS_NONE_, NULL, "bool"};
static const bf_type bf_type_bf_int = {BF_FAMILY_BASIC, 2, BF_CELLS_NONE_, NULL, "int"};
static const bf_type bf_type_bf_real = {BF_FAMILY_BASIC, 3, BF_CELLS_NONE_, NULL, "real"};
static const bf_type bf_type_bf_char = {BF_FAMILY_BASIC, 4, BF_CELLS_NONE_, NULL, "char"};
static const bf_type bf_type_bf_str = {BF_FAMILY_BASIC, 5, BF_CELLS_NONE_, NULL, "string"};
static const bf_type bf_type_bf_any = {BF_FAMILY_BUILTIN, 0, BF_CELLS_NONE_, NULL, "any"};
static const bf_type bf_type_bf_directory = {BF_FAMILY_BUILTIN, 1, BF_CELLS_NONE_, NULL, "directory"};
static const bf_type bf_type_bf_bytes = {BF_FAMILY_BUILTIN, 2, BF_CELLS_NONE_, NULL, "bytes"};

/** The type of a stub, by the name of its struct. */
#define BF_TYPE(T) (&bf_type_##T)

/** Types in a row, for rows and procedures: BF_TYPES(BF_TYPE(bf_int), BF_TYPE(DataElem)). */
#define BF_TYPES(...)                                                                                                  \
  bf_types_((const bf_type *const[]){__VA_ARGS__}, sizeof((const bf_type *const[]){__VA_ARGS__}) / sizeof(bf_type *))

/** No types. */
#define BF_NO_TYPES bf_types_(NULL, 0)

/* The C parts that C++ has in bifrost.hpp. */
#ifndef __cplusplus

/* Sessions. */

/** The text of the last failure, for people. With null that of the last bf_connect. */
static inline const char *bf_error_text(bf_session *session) {
  return bf_error_message(session ? bf_error_last(session) : bf_connect_error());
}

/** Sends what was recorded, and waits until it has run. See bf_flush of abi.h. */
#define BF_FLUSH(session) bf_flush(session, BF_HERE)

/** Records the commit of the transaction; claim it. */
#define BF_COMMIT(session) bf_of_bf_nil(bf_commit(session, BF_HERE))

/** Records the abort of the transaction; claim it. */
#define BF_ABORT(session) bf_of_bf_nil(bf_abort(session, BF_HERE))

/** Looks an object up: BF_LOOKUP(session, DataBase, &database_interface, "database"). */
#define BF_LOOKUP(session, T, interface, name) bf_of_##T(bf_lookup(session, interface, name, BF_TYPE(T), BF_HERE))

/** The same object as one of another type; wrong_type is signalled if it is none. */
#define BF_AS(T, stub) bf_of_##T(bf_as((stub).ref, BF_TYPE(T), BF_HERE))

/** True if the object has a type: a promise. */
#define BF_IS(T, stub) bf_of_bf_bool(bf_is((stub).ref, BF_TYPE(T), BF_HERE))

/* Claims. */

/** Claims a promise: bf_claim_x of the type of the promise. */
static inline bf_status bf_at_claim_bool(bf_bool x, bool *value, bf_place place) {
  if (x.session) return bf_claim_bool(bf_ref_bf_bool(x), value, place);
  if (value) *value = x.as.value;
  return BF_OK;
}
static inline bf_status bf_at_claim_int(bf_int x, int64_t *value, bf_place place) {
  if (x.session) return bf_claim_int(bf_ref_bf_int(x), value, place);
  if (value) *value = x.as.value;
  return BF_OK;
}
static inline bf_status bf_at_claim_real(bf_real x, double *value, bf_place place) {
  if (x.session) return bf_claim_real(bf_ref_bf_real(x), value, place);
  if (value) *value = x.as.value;
  return BF_OK;
}
static inline bf_status bf_at_claim_char(bf_char x, uint32_t *value, bf_place place) {
  if (x.session) return bf_claim_char(bf_ref_bf_char(x), value, place);
  if (value) *value = x.as.value;
  return BF_OK;
}
static inline bf_status bf_at_claim_str(bf_str x, const char **value, bf_place place) {
  bf_text text = {x.as.data, x.length};
  bf_status status = x.session ? bf_claim_text(bf_ref_bf_str(x), &text, place) : BF_OK;
  if (status == BF_OK && value) *value = text.data;
  return status;
}
static inline bf_status bf_at_claim_text(bf_str x, bf_text *value, bf_place place) {
  bf_text text = {x.as.data, x.length};
  bf_status status = x.session ? bf_claim_text(bf_ref_bf_str(x), &text, place) : BF_OK;
  if (status == BF_OK && value) *value = text;
  return status;
}
static inline bf_status bf_at_claim_bytes(bf_bytes x, bf_text *value, bf_place place) {
  bf_text bytes = {x.as.data, x.length};
  bf_status status = x.session ? bf_claim_bytes(bf_ref_bf_bytes(x), &bytes, place) : BF_OK;
  if (status == BF_OK && value) *value = bytes;
  return status;
}
static inline bf_status bf_at_claim_nil(bf_nil x, bf_place place) { return bf_claim(x.ref, place); }
static inline bf_status bf_at_claim_items(bf_contents x, const bf_items **items, bf_place place) {
  return bf_claim_items(x.ref, items, place);
}

/** Claims a bool. */
#define BF_CLAIM_BOOL(promise, value) bf_at_claim_bool(promise, value, BF_HERE)
/** Claims an int. */
#define BF_CLAIM_INT(promise, value) bf_at_claim_int(promise, value, BF_HERE)
/** Claims a real. */
#define BF_CLAIM_REAL(promise, value) bf_at_claim_real(promise, value, BF_HERE)
/** Claims a character. */
#define BF_CLAIM_CHAR(promise, value) bf_at_claim_char(promise, value, BF_HERE)
/** Claims a text as a `const char *` that a zero byte ends. It lives as long as its stub. */
#define BF_CLAIM_STR(promise, value) bf_at_claim_str(promise, value, BF_HERE)
/** Claims a text with its length, which may have zero bytes inside. */
#define BF_CLAIM_TEXT(promise, value) bf_at_claim_text(promise, value, BF_HERE)
/** Claims bytes. */
#define BF_CLAIM_BYTES(promise, value) bf_at_claim_bytes(promise, value, BF_HERE)
/** Claims a call without results: waits for it. */
#define BF_CLAIM_NIL(promise) bf_at_claim_nil(promise, BF_HERE)
/** Claims contents: `const bf_items *`, to be given to bf_items_free. */
#define BF_CLAIM_ITEMS(promise, items) bf_at_claim_items(promise, items, BF_HERE)
/** Claims a table: `const bf_items *`, to be given to bf_items_free. */
#define BF_CLAIM_TABLE(table, items) bf_claim_items((table).ref, items, BF_HERE)

/** Claims a promise of a basic value, whatever its kind: BF_CLAIM(promise, &value). */
#define BF_CLAIM(promise, value)                                                                                       \
  _Generic((promise), bf_bool                                                                                          \
           : bf_at_claim_bool, bf_int                                                                                  \
           : bf_at_claim_int, bf_real                                                                                  \
           : bf_at_claim_real, bf_char                                                                                 \
           : bf_at_claim_char, bf_str                                                                                  \
           : bf_at_claim_str, bf_bytes                                                                                 \
           : bf_at_claim_bytes, bf_contents                                                                            \
           : bf_at_claim_items)(promise, value, BF_HERE)

/** A stub for a value, so that it can be a receiver or a claimed promise: bf_int_stub(session, 3). */
static inline bf_int bf_int_stub(bf_session *session, int64_t value) {
  return bf_of_bf_int(bf_value_stub(session, bf_arg_bf_int(bf_i(value))));
}
static inline bf_real bf_real_stub(bf_session *session, double value) {
  return bf_of_bf_real(bf_value_stub(session, bf_arg_bf_real(bf_r(value))));
}
static inline bf_bool bf_bool_stub(bf_session *session, bool value) {
  return bf_of_bf_bool(bf_value_stub(session, bf_arg_bf_bool(bf_b(value))));
}
static inline bf_char bf_char_stub(bf_session *session, uint32_t value) {
  return bf_of_bf_char(bf_value_stub(session, bf_arg_bf_char(bf_c(value))));
}
static inline bf_str bf_str_stub(bf_session *session, const char *value) {
  return bf_of_bf_str(bf_value_stub(session, bf_arg_bf_str(bf_s(value))));
}
static inline bf_bytes bf_bytes_stub(bf_session *session, const void *data, size_t length) {
  return bf_of_bf_bytes(bf_value_stub(session, bf_arg_bf_bytes(bf_by(data, length))));
}

/* Iterators. */

/** A call of an iterator that yields one value of a type at each step. Generated headers have more. */
#define BF_ITERATOR_(T)                                                                                                \
  typedef struct bf_iter_##T {                                                                                         \
    bf_iterator call;                                                                                                  \
  } bf_iter_##T;

BF_ITERATOR_(bf_nil)
BF_ITERATOR_(bf_bool)
BF_ITERATOR_(bf_int)
BF_ITERATOR_(bf_real)
BF_ITERATOR_(bf_char)
BF_ITERATOR_(bf_str)
BF_ITERATOR_(bf_bytes)
BF_ITERATOR_(bf_any)

/** A call of an iterator that yields two strings at each step. */
#define bf_iter_bf_str_bf_str_defined_
typedef struct bf_iter_bf_str_bf_str {
  bf_iterator call;
} bf_iter_bf_str_bf_str;

/** Makes the call of an iterator of an object. */
static inline bf_iterator bf_iterator_(bf_ref on, uint32_t number, uint32_t count, bf_place place) {
  bf_iterator call;
  memset(&call, 0, sizeof call);
  call.on = on;
  call.number = number;
  call.count = count;
  call.place = place;
  return call;
}

/** Makes the call of an iterator behind an operator. */
static inline bf_iterator bf_iterate_(bf_ref on, uint32_t operator_, uint32_t count, bf_place place) {
  return bf_iterator_(on, bf_operator_method(on.session, operator_), count, place);
}

/** Makes the call of an iterator that is a routine. */
static inline bf_iterator bf_routine_iterator_(bf_session *session, const bf_interface *interface, uint32_t number,
                                               uint32_t count, bf_place place) {
  bf_ref none = {NULL, 0, 0};
  bf_iterator call = bf_iterator_(none, number, count, place);
  call.session = session;
  call.interface = interface;
  return call;
}

#endif /* __cplusplus */

#include "operators.h"

#ifndef __cplusplus

/* Cells: values that loops change. */

/** Releases the promise of a call without results. The function behind its macro, bf_at_x, gives the promise. */
static inline void bf_drop_(bf_nil x) { bf_release(x.ref); }

/** Defines the cells of a type. Generated headers use it. */
#define BF_CELL_FUNCTIONS_(T, C)                                                                                       \
  typedef struct C {                                                                                                   \
    bf_ref ref;                                                                                                        \
  } C;                                                                                                                 \
  static const bf_type bf_type_##C = {BF_FAMILY_CELL, 0, BF_CELLS_NONE_, &bf_type_##T, "cell"};                        \
  BF_STUB_FUNCTIONS_(C)                                                                                                \
  static inline C bf_at_##C##_empty(bf_session *session, bf_place place) {                                             \
    return bf_of_##C(bf_cell(session, &bf_type_##T, place));                                                           \
  }                                                                                                                    \
  static inline bf_nil bf_at_##C##_put(C cell, T value, bf_place place) {                                              \
    return bf_of_bf_nil(bf_cell_put(cell.ref, &bf_type_##T, bf_arg_##T(value), place));                                \
  }                                                                                                                    \
  static inline C bf_at_##C##_new(bf_session *session, T value, bf_place place) {                                      \
    C cell = bf_at_##C##_empty(session, place);                                                                        \
    bf_release(bf_at_##C##_put(cell, value, place).ref);                                                               \
    return cell;                                                                                                       \
  }                                                                                                                    \
  static inline T bf_at_##C##_get(C cell, bf_place place) {                                                            \
    return bf_of_##T(bf_cell_get(cell.ref, &bf_type_##T, place));                                                      \
  }                                                                                                                    \
  static inline bf_bool bf_at_##C##_full(C cell, bf_place place) {                                                     \
    return bf_of_bf_bool(bf_cell_full(cell.ref, &bf_type_##T, place));                                                 \
  }

BF_CELL_FUNCTIONS_(bf_nil, bf_nil_cell)
BF_CELL_FUNCTIONS_(bf_bool, bf_bool_cell)
BF_CELL_FUNCTIONS_(bf_int, bf_int_cell)
BF_CELL_FUNCTIONS_(bf_real, bf_real_cell)
BF_CELL_FUNCTIONS_(bf_char, bf_char_cell)
BF_CELL_FUNCTIONS_(bf_str, bf_str_cell)
BF_CELL_FUNCTIONS_(bf_bytes, bf_bytes_cell)

/** Makes an empty cell: BF_CELL(session, bf_int_cell). */
#define BF_CELL(session, C) bf_at_##C##_empty(session, BF_HERE)
/** Makes a cell with its first value: BF_CELL_WITH(session, bf_int_cell, bf_i(0)). */
#define BF_CELL_WITH(session, C, value) bf_at_##C##_new(session, value, BF_HERE)

#define bf_nil_cell_new(session, value) bf_at_bf_nil_cell_new(session, value, BF_HERE)
#define bf_nil_cell_put(cell, value) bf_drop_(bf_at_bf_nil_cell_put(cell, value, BF_HERE))
#define bf_nil_cell_get(cell) bf_at_bf_nil_cell_get(cell, BF_HERE)
#define bf_nil_cell_full(cell) bf_at_bf_nil_cell_full(cell, BF_HERE)
#define bf_bool_cell_new(session, value) bf_at_bf_bool_cell_new(session, value, BF_HERE)
#define bf_bool_cell_put(cell, value) bf_drop_(bf_at_bf_bool_cell_put(cell, value, BF_HERE))
#define bf_bool_cell_get(cell) bf_at_bf_bool_cell_get(cell, BF_HERE)
#define bf_bool_cell_full(cell) bf_at_bf_bool_cell_full(cell, BF_HERE)
#define bf_int_cell_new(session, value) bf_at_bf_int_cell_new(session, value, BF_HERE)
#define bf_int_cell_put(cell, value) bf_drop_(bf_at_bf_int_cell_put(cell, value, BF_HERE))
#define bf_int_cell_get(cell) bf_at_bf_int_cell_get(cell, BF_HERE)
#define bf_int_cell_full(cell) bf_at_bf_int_cell_full(cell, BF_HERE)
#define bf_real_cell_new(session, value) bf_at_bf_real_cell_new(session, value, BF_HERE)
#define bf_real_cell_put(cell, value) bf_drop_(bf_at_bf_real_cell_put(cell, value, BF_HERE))
#define bf_real_cell_get(cell) bf_at_bf_real_cell_get(cell, BF_HERE)
#define bf_real_cell_full(cell) bf_at_bf_real_cell_full(cell, BF_HERE)
#define bf_char_cell_new(session, value) bf_at_bf_char_cell_new(session, value, BF_HERE)
#define bf_char_cell_put(cell, value) bf_drop_(bf_at_bf_char_cell_put(cell, value, BF_HERE))
#define bf_char_cell_get(cell) bf_at_bf_char_cell_get(cell, BF_HERE)
#define bf_char_cell_full(cell) bf_at_bf_char_cell_full(cell, BF_HERE)
#define bf_str_cell_new(session, value) bf_at_bf_str_cell_new(session, value, BF_HERE)
#define bf_str_cell_put(cell, value) bf_drop_(bf_at_bf_str_cell_put(cell, value, BF_HERE))
#define bf_str_cell_get(cell) bf_at_bf_str_cell_get(cell, BF_HERE)
#define bf_str_cell_full(cell) bf_at_bf_str_cell_full(cell, BF_HERE)
#define bf_bytes_cell_new(session, value) bf_at_bf_bytes_cell_new(session, value, BF_HERE)
#define bf_bytes_cell_put(cell, value) bf_drop_(bf_at_bf_bytes_cell_put(cell, value, BF_HERE))
#define bf_bytes_cell_get(cell) bf_at_bf_bytes_cell_get(cell, BF_HERE)
#define bf_bytes_cell_full(cell) bf_at_bf_bytes_cell_full(cell, BF_HERE)

/* Built-in types. */

static inline bf_ref bf_builtin_(bf_ref on, uint32_t row, uint32_t method, bf_values arguments, bf_place place) {
  return bf_call(on, bf_builtin_method(on.session, row, method), arguments, place);
}

static inline bf_any bf_at_directory_lookup(bf_directory on, bf_str name, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(name)};
  return bf_of_bf_any(bf_builtin_(on.ref, 1, 0, bf_values_(arguments, 1), place));
}
static inline bf_nil bf_at_directory_insert(bf_directory on, bf_str name, bf_ref object, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(name), bf_stub_value_(object)};
  return bf_of_bf_nil(bf_builtin_(on.ref, 1, 1, bf_values_(arguments, 2), place));
}
static inline bf_nil bf_at_directory_remove(bf_directory on, bf_str name, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(name)};
  return bf_of_bf_nil(bf_builtin_(on.ref, 1, 2, bf_values_(arguments, 1), place));
}
static inline bf_iter_bf_str bf_at_directory_names(bf_directory on, bf_place place) {
  bf_iter_bf_str iter;
  iter.call = bf_iterator_(on.ref, bf_builtin_method(on.ref.session, 1, 3), 0, place);
  return iter;
}
static inline bf_iter_bf_str_bf_str bf_at_directory_list(bf_directory on, bf_place place) {
  bf_iter_bf_str_bf_str iter;
  iter.call = bf_iterator_(on.ref, bf_builtin_method(on.ref.session, 1, 4), 0, place);
  return iter;
}
static inline bf_int bf_at_bytes_length(bf_bytes on, bf_place place) {
  return bf_of_bf_int(bf_builtin_(bf_ref_bf_bytes(on), 2, 0, bf_no_values_(), place));
}
static inline bf_int bf_at_bytes_fetch(bf_bytes on, bf_int i, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(i)};
  return bf_of_bf_int(bf_builtin_(bf_ref_bf_bytes(on), 2, 1, bf_values_(arguments, 1), place));
}
static inline bf_bytes bf_at_bytes_concat(bf_bytes on, bf_bytes x, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_bytes(x)};
  return bf_of_bf_bytes(bf_builtin_(bf_ref_bf_bytes(on), 2, 2, bf_values_(arguments, 1), place));
}
static inline bf_bytes bf_at_bytes_slice(bf_bytes on, bf_int from, bf_int count, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(from), bf_arg_bf_int(count)};
  return bf_of_bf_bytes(bf_builtin_(bf_ref_bf_bytes(on), 2, 3, bf_values_(arguments, 2), place));
}
static inline bf_str bf_at_bytes_to_string(bf_bytes on, bf_place place) {
  return bf_of_bf_str(bf_builtin_(bf_ref_bf_bytes(on), 2, 4, bf_no_values_(), place));
}

/** Theta: `lookup (name: string) returns (any) signals (not_found)` */
#define bf_directory_lookup(on, name) bf_at_directory_lookup(on, name, BF_HERE)
/** Theta: `insert (name: string, v: any)`; give the stub of an object: x.ref */
#define bf_directory_insert(on, name, object) bf_drop_(bf_at_directory_insert(on, name, object, BF_HERE))
/** Theta: `remove (name: string) signals (not_found)` */
#define bf_directory_remove(on, name) bf_drop_(bf_at_directory_remove(on, name, BF_HERE))
/** Theta: `names () yields (string)` */
#define bf_directory_names(on) bf_at_directory_names(on, BF_HERE)
/** Each name with the name of its object's type. Theta: `list () yields (string, string)` */
#define bf_directory_list(on) bf_at_directory_list(on, BF_HERE)
/** Theta: `length () returns (int)` */
#define bf_bytes_length(on) bf_at_bytes_length(on, BF_HERE)
/** Theta: `fetch (i: int) returns (int) signals (bounds)` */
#define bf_bytes_fetch(on, i) bf_at_bytes_fetch(on, i, BF_HERE)
/** Theta: `concat (x: bytes) returns (bytes)` */
#define bf_bytes_concat(on, x) bf_at_bytes_concat(on, x, BF_HERE)
/** Theta: `slice (at: int, count: int) returns (bytes) signals (bounds)` */
#define bf_bytes_slice(on, from, count) bf_at_bytes_slice(on, from, count, BF_HERE)
/** Theta: `to_string () returns (string) signals (bad_format)` */
#define bf_bytes_to_string(on) bf_at_bytes_to_string(on, BF_HERE)

/* Tables. */

/** Makes a table: BF_ROWS(session, BF_TYPE(DataElem), BF_TYPE(bf_int)). */
#define BF_ROWS(session, ...) bf_of_bf_table(bf_rows(session, BF_TYPES(__VA_ARGS__), BF_HERE))

/** Appends a row: BF_PUSH(table, bf_arg_DataElem(e), bf_arg_bf_int(n)). */
#define BF_PUSH(table, ...)                                                                                            \
  bf_emit((table).ref,                                                                                                 \
          bf_values_((const bf_value[]){__VA_ARGS__}, sizeof((const bf_value[]){__VA_ARGS__}) / sizeof(bf_value)),     \
          BF_HERE)

/** Arguments of a procedure: BF_CALL(session, procedure, bf_arg_bf_int(n)) is the stub of its result. */
#define BF_CALL(session, procedure, ...)                                                                               \
  bf_procedure_call(                                                                                                   \
      session, procedure,                                                                                              \
      bf_values_((const bf_value[]){__VA_ARGS__}, sizeof((const bf_value[]){__VA_ARGS__}) / sizeof(bf_value)),         \
      BF_HERE)

/* Structures. Each macro is followed by a block, which runs once here, while it is recorded, and at the server as often
 * as the structure says. A native `break`, `goto` or `return` out of the block refuses the structure
 * (BF_E_LEFT_OPEN); a native `continue` ends the block here. Use BF_BREAK and BF_CONTINUE. */

/** The most variables of a block: values of an exception, yields of an iterator. */
#define BF_VARIABLES_MAX 8

/** An open block. */
typedef struct bf_block {
  bf_session *session;
  uint32_t depth, scope;
  int state;
  bf_ref variables[BF_VARIABLES_MAX];
} bf_block;

enum { BF_BLOCK_OPEN_, BF_BLOCK_INSIDE_, BF_BLOCK_DONE_, BF_BLOCK_ENDED_ };

static inline bf_block bf_block_(bf_session *session) {
  bf_block block;
  memset(&block, 0, sizeof block);
  block.session = session;
  block.depth = bf_depth(session) + 1;
  block.scope = bf_scope_open(session);
  return block;
}

static inline bool bf_block_enter_(bf_block *block) {
  if (block->state != BF_BLOCK_OPEN_) return false;
  block->state = BF_BLOCK_INSIDE_;
  return true;
}

static inline void bf_block_close_(bf_block *block) {
  if (block->state == BF_BLOCK_DONE_) {
    bf_end_at(block->session, block->depth, block->scope);
  } else if (block->state != BF_BLOCK_ENDED_) {
    bf_left_open(block->session, block->depth, block->scope);
  }
  block->state = BF_BLOCK_ENDED_;
}

/* With compilers that have the attribute, a block that is left by `return` or `goto` is found at once; with others
 * when the structure around it ends, or at the next claim. */
#if defined(__GNUC__)
#define BF_GUARDED_(function) __attribute__((cleanup(function)))
#else
#define BF_GUARDED_(function)
#endif

#define BF_JOIN2_(a, b) a##b
#define BF_JOIN_(a, b) BF_JOIN2_(a, b)
#define BF_NAME_ BF_JOIN_(bf_block_of_, __LINE__)

/* The outer loop owns the block; the inner one has the variables, and tells a native `break`. */
#define BF_OUTER_(b, begin)                                                                                            \
  for (BF_GUARDED_(bf_block_close_) bf_block b = begin; b.state != BF_BLOCK_ENDED_; bf_block_close_(&b))
#define BF_INNER_(b, init) for (init; bf_block_enter_(&b); b.state = BF_BLOCK_DONE_)

static inline bf_block bf_block_open_(bf_session *session, bf_structure structure, bf_place place) {
  bf_block block = bf_block_(session);
  bf_open(session, structure, place);
  return block;
}

static inline bf_block bf_block_foreach_(bf_session *session, const bf_iterator *iterator, size_t count,
                                         bf_place place) {
  bf_block block = bf_block_(session);
  bf_foreach(session, iterator, bf_refs_(block.variables, count), place);
  return block;
}

static inline bf_block bf_block_else_(bf_session *session, bf_place place) {
  bf_block block = bf_block_(session);
  bf_else(session, place);
  return block;
}

static inline bf_block bf_block_when_(bf_session *session, const char *name, bf_types types, bf_place place) {
  bf_block block = bf_block_(session);
  bf_when(session, name, types, bf_refs_(block.variables, types.count), place);
  return block;
}

static inline bf_block bf_block_others_(bf_session *session, size_t count, bf_place place) {
  bf_block block = bf_block_(session);
  bf_others(session, bf_refs_(block.variables, count), place);
  return block;
}

/** Repeats the block at the server while the condition is true. */
#define BF_WHILE(session_, condition)                                                                                  \
  BF_OUTER_(BF_NAME_, bf_block_open_(session_, BF_STRUCTURE_WHILE, BF_HERE))                                           \
  BF_INNER_(BF_NAME_, bf_condition(BF_NAME_.session, bf_arg_bf_bool(condition), BF_HERE))

/** Runs the block at the server if the condition holds. */
#define BF_IF(session_, condition)                                                                                     \
  BF_OUTER_(BF_NAME_, bf_block_open_(session_, BF_STRUCTURE_IF, BF_HERE))                                              \
  BF_INNER_(BF_NAME_, bf_condition(BF_NAME_.session, bf_arg_bf_bool(condition), BF_HERE))

/** Runs the block at the server if the condition of the BF_IF before it does not hold. */
#define BF_ELSE(session_) BF_OUTER_(BF_NAME_, bf_block_else_(session_, BF_HERE)) BF_INNER_(BF_NAME_, (void)0)

/** Runs the block at the server for each step of an iterator: BF_FOREACH(s, DataElem, e, DataBase_users(db)). */
#define BF_FOREACH(session_, T, variable, iterator)                                                                    \
  BF_OUTER_(BF_NAME_, BF_FOREACH_(session_, bf_iter_##T, iterator, 1))                                                 \
  for (T variable = bf_of_##T(BF_NAME_.variables[0]); (void)variable, bf_block_enter_(&BF_NAME_);                      \
       BF_NAME_.state = BF_BLOCK_DONE_)

/** As BF_FOREACH, for an iterator that yields two values at each step. */
#define BF_FOREACH2(session_, T1, variable1, T2, variable2, iterator)                                                  \
  BF_OUTER_(BF_NAME_, BF_FOREACH_(session_, bf_iter_##T1##_##T2, iterator, 2))                                         \
  for (T1 variable1 = bf_of_##T1(BF_NAME_.variables[0]); BF_NAME_.state == BF_BLOCK_OPEN_;)                            \
    for (T2 variable2 = bf_of_##T2(BF_NAME_.variables[1]);                                                             \
         (void)variable1, (void)variable2, bf_block_enter_(&BF_NAME_); BF_NAME_.state = BF_BLOCK_DONE_)

#define BF_FOREACH_(session_, I, iterator, count)                                                                      \
  bf_block_foreach_(session_, &((I[]){iterator})[0].call, count, BF_HERE)

/** Runs the block at the server; exceptions of its calls go to the handlers that follow. */
#define BF_EXCEPT(session_)                                                                                            \
  BF_OUTER_(BF_NAME_, bf_block_open_(session_, BF_STRUCTURE_EXCEPT, BF_HERE)) BF_INNER_(BF_NAME_, (void)0)

/** Runs the block at the server when a call of the BF_EXCEPT before it signals the exception, with its values:
 * BF_WHEN(s, not_found, values) has values.v1, values.v2, ... */
#define BF_WHEN(session_, signal, values)                                                                              \
  BF_OUTER_(BF_NAME_, bf_block_when_(session_, bf_signal_##signal##_name_, bf_signal_##signal##_types_(), BF_HERE))    \
  for (bf_signal_##signal values = bf_signal_##signal##_of_(BF_NAME_.variables);                                       \
       (void)values, bf_block_enter_(&BF_NAME_); BF_NAME_.state = BF_BLOCK_DONE_)

/** Runs the block at the server when a call of the BF_EXCEPT before it signals any exception that no handler before it
 * takes. */
#define BF_OTHERS(session_) BF_OUTER_(BF_NAME_, bf_block_others_(session_, 0, BF_HERE)) BF_INNER_(BF_NAME_, (void)0)

/** As BF_OTHERS, with the name of the exception: a bf_str. */
#define BF_OTHERS_NAMED(session_, variable)                                                                            \
  BF_OUTER_(BF_NAME_, bf_block_others_(session_, 1, BF_HERE))                                                          \
  for (bf_str variable = bf_of_bf_str(BF_NAME_.variables[0]); (void)variable, bf_block_enter_(&BF_NAME_);              \
       BF_NAME_.state = BF_BLOCK_DONE_)

/** Leaves the innermost loop at the server. Recording goes on. */
#define BF_BREAK(session) bf_break(session, BF_HERE)
/** Goes on with the next step of the innermost loop at the server. Recording goes on. */
#define BF_CONTINUE(session) bf_continue(session, BF_HERE)

/** The exception that any call may signal: a text for people. */
typedef struct bf_signal_failure {
  bf_str v1;
} bf_signal_failure;
static const char bf_signal_failure_name_[] = "failure";
static inline bf_types bf_signal_failure_types_(void) {
  static const bf_type *const types[] = {&bf_type_bf_str};
  return bf_types_(types, 1);
}
static inline bf_signal_failure bf_signal_failure_of_(const bf_ref *variables) {
  bf_signal_failure values;
  values.v1 = bf_of_bf_str(variables[0]);
  return values;
}

/** The exception of BF_AS: the object has another type. */
typedef struct bf_signal_wrong_type {
  char none;
} bf_signal_wrong_type;
static const char bf_signal_wrong_type_name_[] = "wrong_type";
static inline bf_types bf_signal_wrong_type_types_(void) { return bf_types_(NULL, 0); }
static inline bf_signal_wrong_type bf_signal_wrong_type_of_(const bf_ref *variables) {
  bf_signal_wrong_type values = {0};
  (void)variables;
  return values;
}

/* Scopes. */

/** An open scope. */
typedef struct bf_scope {
  bf_session *session;
  uint32_t depth;
} bf_scope;

static inline void bf_scope_close_(bf_scope *scope) {
  if (scope->session) bf_scope_close(scope->session, scope->depth);
  scope->session = NULL;
}

static inline bf_scope bf_scope_(bf_session *session) {
  bf_scope scope;
  scope.session = session;
  scope.depth = bf_scope_open(session);
  return scope;
}

/** Releases the stubs that the block has made, when it ends. One that is to outlive it was retained (bf_retain). */
#define BF_SCOPE(session_)                                                                                             \
  for (BF_GUARDED_(bf_scope_close_) bf_scope BF_NAME_ = bf_scope_(session_); BF_NAME_.session;                         \
       bf_scope_close_(&BF_NAME_))

/* Transactions that are one batch. */

/** A batch that is recorded as a transaction. */
typedef struct bf_shipping {
  bf_session *session;
  bf_status *status;
  int state;
  bf_place place;
} bf_shipping;

static inline bf_shipping bf_shipping_(bf_session *session, const bf_how *how, bf_status *status, bf_place place) {
  bf_shipping shipping = {session, status, BF_BLOCK_OPEN_, place};
  *status = bf_transaction_begin(session, how, place);
  if (*status != BF_OK) shipping.state = BF_BLOCK_ENDED_;
  return shipping;
}

static inline void bf_shipping_close_(bf_shipping *shipping) {
  if (shipping->state == BF_BLOCK_DONE_) {
    *shipping->status = bf_transaction_end(shipping->session, shipping->place);
  } else if (shipping->state != BF_BLOCK_ENDED_) {
    bf_transaction_abandon(shipping->session);
    *shipping->status = BF_E_LEFT_OPEN;
  }
  shipping->state = BF_BLOCK_ENDED_;
}

static inline bool bf_shipping_enter_(bf_shipping *shipping) {
  if (shipping->state != BF_BLOCK_OPEN_) return false;
  shipping->state = BF_BLOCK_INSIDE_;
  return true;
}

/** Records the block as a transaction of its own, sends it, and waits until it is committed; puts the outcome into
 * `*status`. `how` may be null. Nothing can be claimed in the block. */
#define BF_TRANSACTION(session_, how, status)                                                                          \
  for (BF_GUARDED_(bf_shipping_close_) bf_shipping BF_NAME_ = bf_shipping_(session_, how, status, BF_HERE);            \
       BF_NAME_.state != BF_BLOCK_ENDED_; bf_shipping_close_(&BF_NAME_))                                               \
    for (; bf_shipping_enter_(&BF_NAME_); BF_NAME_.state = BF_BLOCK_DONE_)

/* Services: servers that traders know, and another one when a server is lost. */

/** A run of a service. */
typedef struct bf_run {
  bf_service *service;
  bf_status *status;
  bf_session *session;
} bf_run;

static inline bf_run bf_run_(bf_service *service, bf_status *status, bf_place place) {
  bf_run run = {service, status, NULL};
  run.session = bf_run_begin(service, status, place);
  return run;
}

static inline bf_run bf_run_transaction_(bf_service *service, const bf_how *how, bf_status *status, bf_place place) {
  bf_run run = {service, status, NULL};
  run.session = bf_run_begin_transaction(service, how, status, place);
  return run;
}

static inline void bf_run_next_(bf_run *run) { run->session = bf_run_next(run->service, run->status); }

static inline void bf_run_close_(bf_run *run) {
  if (run->session) {
    bf_run_leave(run->service);
    *run->status = BF_E_LEFT_OPEN;
  }
  run->session = NULL;
}

#define BF_RUN_LOOP_(s, begin)                                                                                         \
  for (BF_GUARDED_(bf_run_close_) bf_run BF_NAME_ = begin; BF_NAME_.session; bf_run_next_(&BF_NAME_))                  \
    for (bf_session *s = BF_NAME_.session, *BF_JOIN_(bf_once_, __LINE__) = s; BF_JOIN_(bf_once_, __LINE__);            \
         BF_JOIN_(bf_once_, __LINE__) = NULL)

/** Runs the block with a session of a server of the service: T_of_service(service) is the object. The block puts its
 * outcome into `*status`, which is BF_OK before, and may end by `break`. It runs again, with another server, if the
 * server is lost before anything of it was sent; if anything was sent, `*status` is BF_E_LOST, and bf_service_ran says
 * what is known. bf_service_error is the failure of the run. Stubs and texts of the block live until the next run. */
#define BF_RUN(service, s, status) BF_RUN_LOOP_(s, bf_run_(service, status, BF_HERE))

/** As BF_RUN, for a block that is recorded as a transaction of its own, under a name: if the server is lost, the batch
 * is sent again to another one of the same store, which knows whether it was done. So it is done once. `how` may be
 * null. Nothing can be claimed in the block; promises that it gives out have their values then. */
#define BF_RUN_TRANSACTION(service, s, how, status) BF_RUN_LOOP_(s, bf_run_transaction_(service, how, status, BF_HERE))

/* Conditions that are computed only if they are needed. */

/** True if both hold: `other` is recorded inside a structure, and computed only if `one` holds. Stores the result in a
 * cell: BF_AND(session, cell, one, other); the result is bf_bool_cell_get(cell). */
#define BF_AND(session, cell, one, other)                                                                              \
  do {                                                                                                                 \
    bf_bool bf_one_ = (one);                                                                                           \
    bf_bool_cell_put(cell, bf_one_);                                                                                   \
    BF_IF(session, bf_one_) bf_bool_cell_put(cell, other);                                                             \
  } while (0)

/** True if either holds, as BF_AND. */
#define BF_OR(session, cell, one, other)                                                                               \
  do {                                                                                                                 \
    bf_bool bf_one_ = (one);                                                                                           \
    bf_bool_cell_put(cell, bf_one_);                                                                                   \
    BF_IF(session, bf_bool_bnot(bf_one_)) bf_bool_cell_put(cell, other);                                               \
  } while (0)

/* Values that came. */

/** The int of a value that came; 0 for other kinds. */
static inline int64_t bf_value_int(bf_value value) { return value.tag == BF_VALUE_INT ? value.int_ : 0; }
/** The real of a value that came; 0 for other kinds. */
static inline double bf_value_real(bf_value value) { return value.tag == BF_VALUE_REAL ? value.real : 0; }
/** The bool of a value that came; false for other kinds. */
static inline bool bf_value_bool(bf_value value) { return value.tag == BF_VALUE_BOOL && value.bool_; }
/** The character of a value that came; 0 for other kinds. */
static inline uint32_t bf_value_char(bf_value value) { return value.tag == BF_VALUE_CHAR ? value.char_ : 0; }
/** The text of a value that came, which a zero byte ends; empty for other kinds. */
static inline const char *bf_value_str(bf_value value) { return value.tag == BF_VALUE_TEXT ? value.text.data : ""; }
/** The stub of a value that came; none for other kinds. */
static inline bf_ref bf_value_ref(bf_value value) {
  bf_ref none = {NULL, 0, 0};
  return value.tag == BF_VALUE_STUB ? value.stub : none;
}
/** A cell of a table that came. */
static inline bf_value bf_table_cell(const bf_items *table, size_t row, size_t column) {
  bf_value none;
  size_t at = row * bf_items_columns(table) + column;
  bf_values values = bf_items_values(table);
  if (column < bf_items_columns(table) && at < values.count) return values.items[at];
  memset(&none, 0, sizeof none);
  none.tag = BF_VALUE_NIL;
  return none;
}

#endif /* __cplusplus */

#endif /* BIFROST_H */
