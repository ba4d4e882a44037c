/* Generated from crates/capi by its tests. Do not edit. */

/**
 * @file
 * The functions of libbifrost. Programs include <bifrost/bifrost.h> or <bifrost/bifrost.hpp>, which are written over
 * them.
 *
 * The promises of a program: a pointer is null where that is allowed, or points to as many items as the count beside it
 * says; what it points to lives as long as the function runs; a text without a length ends with a zero byte.
 * A session, its errors and its items are used by the thread that has opened the session, until they are freed.
 */

#ifndef BIFROST_ABI_H
#define BIFROST_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#pragma GCC system_header
#endif

/**
 * The most arguments of an iterator.
 */
#define BF_ITERATOR_ARGUMENTS_MAX 8

/**
 * The number of basic types: null, bool, int, real, char and string.
 */
#define BF_BASIC_TYPES 6

/**
 * The number of built-in types: any, directory and bytes.
 */
#define BF_BUILTIN_TYPES 3

/**
 * The number of operators.
 */
#define BF_OPERATORS 36

/**
 * The number of no procedure.
 */
#define BF_NO_PROCEDURE UINT32_MAX

/**
 * The families of types.
 */
enum bf_family
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * A type of the program, by its number in the interface.
   */
  BF_FAMILY_PROGRAM,
  /**
   * A basic type: null, bool, int, real, char, string, from 0.
   */
  BF_FAMILY_BASIC,
  /**
   * A built-in type: any, directory, bytes, from 0.
   */
  BF_FAMILY_BUILTIN,
  /**
   * The cells of another type.
   */
  BF_FAMILY_CELL,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bf_family bf_family;
#else
typedef uint32_t bf_family;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The outcome of a function: the kind of the first failure from which the told one follows.
 */
enum bf_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * All went well.
   */
  BF_OK,
  /**
   * Of `bf_flush_poll`: answers are still on their way.
   */
  BF_PENDING,
  /**
   * Of `bf_live_end`: the results are those of the last run. Record the next run.
   */
  BF_SAME,
  /**
   * The call signalled an exception.
   */
  BF_E_SIGNAL,
  /**
   * The call was not run, because an argument failed; the server did not say why.
   */
  BF_E_UNHANDLED,
  /**
   * The server refused the call, or the structure around it. `bf_error_number` says why.
   */
  BF_E_REFUSED,
  /**
   * The call was not reached: a failure before it ended the batch.
   */
  BF_E_NOT_REACHED,
  /**
   * Failures that the program was not told of before; they have prevented a commit, or have no
   * stub that could tell them. `bf_error_part` gives each.
   */
  BF_E_UNSEEN,
  /**
   * The server does not have the method, or has it with another heading.
   */
  BF_E_MISSING,
  /**
   * The connection is gone, and with it the session.
   */
  BF_E_CLOSED,
  /**
   * There is no connection.
   */
  BF_E_CONNECT,
  /**
   * A claim or flush where the batch cannot end.
   */
  BF_E_OPEN_STRUCTURE,
  /**
   * A claim, a flush or the end of a transaction in a batch that is a transaction.
   */
  BF_E_IN_TRANSACTION,
  /**
   * The stub was made inside a structure that has ended.
   */
  BF_E_OUT_OF_SCOPE,
  /**
   * Rows are appended to a table of an earlier batch.
   */
  BF_E_ENDED_TABLE,
  /**
   * The stub belongs to another session.
   */
  BF_E_OTHER_SESSION,
  /**
   * The session was connected with other generated stubs.
   */
  BF_E_OTHER_INTERFACE,
  /**
   * An else or a handler does not follow its structure directly.
   */
  BF_E_NOT_ADJACENT,
  /**
   * A break or continue outside a loop.
   */
  BF_E_NO_LOOP,
  /**
   * A return outside a procedure.
   */
  BF_E_NO_PROCEDURE,
  /**
   * A procedure defined inside another structure.
   */
  BF_E_NESTED_PROCEDURE,
  /**
   * A well-known object looked up inside a structure.
   */
  BF_E_LOOKUP_INSIDE,
  /**
   * A table of rows made inside a structure.
   */
  BF_E_TABLE_INSIDE,
  /**
   * The contents of an object taken inside a structure.
   */
  BF_E_CONTENTS_INSIDE,
  /**
   * A value with items where no parameter or result says its type.
   */
  BF_E_UNTYPED,
  /**
   * A value with items that nests too deep.
   */
  BF_E_VALUE_TOO_DEEP,
  /**
   * The block of a structure was left by an exception of the program.
   */
  BF_E_ABANDONED,
  /**
   * The block of a structure was left by a `break`, `goto` or `return` of the program.
   */
  BF_E_LEFT_OPEN,
  /**
   * A structure is longer than a batch may be.
   */
  BF_E_TOO_LONG,
  /**
   * Structures are nested deeper than the server accepts.
   */
  BF_E_TOO_DEEP,
  /**
   * Batches are under way, and this has to wait for their answers.
   */
  BF_E_UNDER_WAY,
  /**
   * The session cannot be waited for.
   */
  BF_E_NOT_ASYNCHRONOUS,
  /**
   * The stub was released before this use.
   */
  BF_E_RELEASED,
  /**
   * A text is no UTF-8, or a character no Unicode scalar value.
   */
  BF_E_NOT_TEXT,
  /**
   * The stub is no stub, or the session is null.
   */
  BF_E_NO_SESSION,
  /**
   * The result is there, and has another kind than the claim.
   */
  BF_E_WRONG_KIND,
  /**
   * The session is used by another thread than the one that has opened it.
   */
  BF_E_OTHER_THREAD,
  /**
   * A mistake in the library; the session is closed.
   */
  BF_E_PANIC,
  /**
   * The server is lost in a run of a service that must not be begun again: `bf_service_ran` says
   * what is known.
   */
  BF_E_LOST,
  /**
   * The server makes no profiles of batches.
   */
  BF_E_NO_PROFILES,
  /**
   * The server runs no modules.
   */
  BF_E_NO_MODULES,
  /**
   * A module run inside a structure.
   */
  BF_E_MODULE_INSIDE,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bf_status bf_status;
#else
typedef uint32_t bf_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The account of a run that has failed.
 */
enum bf_ran
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Nothing of it was done.
   */
  BF_RAN_NO,
  /**
   * A part of it was done.
   */
  BF_RAN_BEGAN,
  /**
   * Nobody knows.
   */
  BF_RAN_UNKNOWN,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bf_ran bf_ran;
#else
typedef uint32_t bf_ran;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A structure that `bf_open` opens.
 */
enum bf_structure
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * A loop with a condition.
   */
  BF_STRUCTURE_WHILE,
  /**
   * A choice.
   */
  BF_STRUCTURE_IF,
  /**
   * A block whose exceptions are handled.
   */
  BF_STRUCTURE_EXCEPT,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bf_structure bf_structure;
#else
typedef uint32_t bf_structure;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A failure of which the program was told.
 */
typedef struct bf_error bf_error;

/**
 * A table, or the items of a value, and all that they refer to.
 */
typedef struct bf_items bf_items;

/**
 * A live batch of a session.
 */
typedef struct bf_live_batch bf_live_batch;

/**
 * A service at traders, and a session with one server of it.
 */
typedef struct bf_service bf_service;

/**
 * A connection to a server, and the batch being recorded for it.
 */
typedef struct bf_session bf_session;

/**
 * A stub by value: the session, the number of its slot, and the number of the use of that slot.
 *
 * All zero is no stub. A copy of the struct is the same stub. The stub lives until it is released:
 * by `bf_release`, by the end of its scope, or with its session.
 */
typedef struct bf_ref {
  struct bf_session *session;
  /**
   * The slot.
   */
  uint32_t slot;
  /**
   * The number of times that the slot was used before, from 1.
   */
  uint32_t use_count;
} bf_ref;

/**
 * Bytes: a pointer and their number. Null stands for none.
 */
typedef struct bf_text {
  const char *data;
  size_t length;
} bf_text;

/**
 * Integers: a pointer and their number.
 */
typedef struct bf_ints {
  const int64_t *items;
  size_t count;
} bf_ints;

/**
 * Reals: a pointer and their number.
 */
typedef struct bf_reals {
  const double *items;
  size_t count;
} bf_reals;

/**
 * An argument, or a value that came.
 *
 * A value with items stands for a sequence, struct, oneof or `maybe`: its elements, its fields, or
 * the number of a tag and the tag's value. The last two kinds are arguments only: sequences of
 * integers and reals.
 */
enum bf_value_Tag
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * A stub.
   */
  BF_VALUE_STUB,
  /**
   * Nil.
   */
  BF_VALUE_NIL,
  /**
   * A truth value.
   */
  BF_VALUE_BOOL,
  /**
   * An integer.
   */
  BF_VALUE_INT,
  /**
   * A floating-point number.
   */
  BF_VALUE_REAL,
  /**
   * A character: a Unicode scalar value.
   */
  BF_VALUE_CHAR,
  /**
   * A text in UTF-8. One that came has a zero byte behind it.
   */
  BF_VALUE_TEXT,
  /**
   * Bytes.
   */
  BF_VALUE_BYTES,
  /**
   * Items.
   */
  BF_VALUE_ITEMS,
  /**
   * A sequence of integers.
   */
  BF_VALUE_INTS,
  /**
   * A sequence of reals.
   */
  BF_VALUE_REALS,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bf_value_Tag bf_value_Tag;
#else
typedef uint32_t bf_value_Tag;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

typedef struct bf_item_list {
  /**
   * The items.
   */
  const struct bf_value *items;
  /**
   * Their number.
   */
  size_t count;
} bf_item_list;

typedef struct bf_value {
  bf_value_Tag tag;
  union {
    struct {
      struct bf_ref stub;
    };
    struct {
      bool bool_;
    };
    struct {
      int64_t int_;
    };
    struct {
      double real;
    };
    struct {
      uint32_t char_;
    };
    struct {
      struct bf_text text;
    };
    struct {
      struct bf_text bytes;
    };
    bf_item_list items;
    struct {
      struct bf_ints ints;
    };
    struct {
      struct bf_reals reals;
    };
  };
} bf_value;

/**
 * Items: a pointer and their number.
 */
typedef struct bf_values {
  const struct bf_value *items;
  size_t count;
} bf_values;

/**
 * A text of C, which a zero byte ends; null for none.
 */
typedef const char *bf_chars;

/**
 * A place in the source of the program. The file is a text that lives as long as the session: that
 * of `__FILE__`.
 */
typedef struct bf_place {
  /**
   * The file.
   */
  bf_chars file;
  /**
   * The line, from 1.
   */
  uint32_t line;
} bf_place;

/**
 * Room for stubs: a pointer and their number.
 */
typedef struct bf_refs {
  struct bf_ref *items;
  size_t count;
} bf_refs;

/**
 * The numbers of a type and of its cells.
 */
typedef struct bf_cell_numbers {
  /**
   * The type `cell[T]`; `UINT32_MAX` if the interface lacks it, as for the others.
   */
  uint32_t ty;
  /**
   * `put`
   */
  uint32_t put;
  /**
   * `full`
   */
  uint32_t full;
  /**
   * `get`
   */
  uint32_t get;
} bf_cell_numbers;

/**
 * The numbers of a basic type.
 */
typedef struct bf_basic {
  /**
   * The type.
   */
  uint32_t ty;
  /**
   * Its cells.
   */
  struct bf_cell_numbers cell;
} bf_basic;

/**
 * The numbers of a built-in type.
 */
typedef struct bf_builtin {
  /**
   * The type; `UINT32_MAX` if the interface lacks it.
   */
  uint32_t ty;
  /**
   * Its cells.
   */
  struct bf_cell_numbers cell;
  /**
   * Its first method; the others follow.
   */
  uint32_t first;
} bf_builtin;

/**
 * The interface that a header was generated from.
 */
typedef struct bf_interface {
  /**
   * Its digest.
   */
  uint8_t digest[32];
  /**
   * Its description, in lines.
   */
  const bf_chars *json;
  /**
   * The number of lines.
   */
  size_t json_lines;
  /**
   * The basic types.
   */
  struct bf_basic basic[BF_BASIC_TYPES];
  /**
   * The built-in types.
   */
  struct bf_builtin builtin[BF_BUILTIN_TYPES];
  /**
   * The methods behind operators, in the order of `bf_operator`.
   */
  uint32_t operators[BF_OPERATORS];
} bf_interface;

/**
 * A type, as generated headers name it.
 */
typedef struct bf_type {
  /**
   * Its family.
   */
  bf_family family;
  /**
   * Its number in the family.
   */
  uint32_t number;
  /**
   * The numbers of its cells; of types of the program only.
   */
  struct bf_cell_numbers cell;
  /**
   * The type of a cell's values; null for other types.
   */
  const struct bf_type *element;
  /**
   * Its name, for messages.
   */
  bf_chars name;
} bf_type;

/**
 * Types: a pointer to pointers, and their number.
 */
typedef struct bf_types {
  const struct bf_type *const *items;
  size_t count;
} bf_types;

/**
 * The settings with which a session is opened. All zero are the defaults.
 */
typedef struct bf_options {
  /**
   * The token, shown over TCP, TLS and websockets to a server that asks for it; null for none.
   */
  bf_chars token;
  /**
   * The client's name in the server's logs; null for none.
   */
  bf_chars name;
  /**
   * The longest time for connecting, and for the answer to each flush; 0 for 30 s.
   */
  uint64_t timeout_ms;
  /**
   * The file of the authorities, in PEM, that may sign the certificates of servers; null for
   * that of the variable `BIFROST_CA`, or else the system's.
   */
  bf_chars authorities;
  /**
   * The file of the client's own certificate, in PEM; null for none.
   */
  bf_chars certificate;
  /**
   * The file of its key.
   */
  bf_chars key;
  /**
   * The longest reply that is read, in bytes; 0 for 64 MiB.
   */
  size_t reply_bytes_max;
  /**
   * The number of futures after which a batch is flushed by itself; 0 for 16384.
   */
  size_t remap_futures;
  /**
   * The program's place in a trace, as `traceparent` of W3C Trace Context; null for none.
   */
  bf_chars trace_parent;
  /**
   * The token for traders; null for that of the variable `BIFROST_TRADER_TOKEN`.
   */
  bf_chars trader_token;
} bf_options;

/**
 * The counts of a session up to now.
 */
typedef struct bf_counts {
  /**
   * Pairs of domain crossings: batches sent and answered.
   */
  uint64_t crossings;
  /**
   * Commands sent in them.
   */
  uint64_t calls;
  /**
   * Calls that the server ran for them; those made by loops count each time.
   */
  uint64_t executed;
} bf_counts;

/**
 * The way to run a batch that is a transaction. All zero is the default.
 */
typedef struct bf_how {
  /**
   * The greatest number of runs; 0 for as many as the server allows.
   */
  uint16_t tries;
  /**
   * True if the batch has a name: the server does it once, however often it is sent under it.
   */
  bool named;
  /**
   * 128 random bits of the client's own, the low half first.
   */
  uint64_t client[2];
  /**
   * The number of the batch, which grows with each batch of the client.
   */
  uint64_t number;
} bf_how;

/**
 * A call of an iterator, for `bf_foreach`.
 */
typedef struct bf_iterator {
  /**
   * The object; no stub for a routine.
   */
  struct bf_ref on;
  /**
   * The session of a routine's call; else null.
   */
  struct bf_session *session;
  /**
   * The interface of a routine; null for a method.
   */
  const struct bf_interface *interface;
  /**
   * The number of the method or routine.
   */
  uint32_t number;
  /**
   * The number of arguments, at most `BF_ITERATOR_ARGUMENTS_MAX`.
   */
  uint32_t count;
  /**
   * The arguments.
   */
  struct bf_value arguments[BF_ITERATOR_ARGUMENTS_MAX];
  /**
   * The place of the call.
   */
  struct bf_place place;
} bf_iterator;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Records a call of a method, by its number in the stubs, and returns the stub of its result: a
 * promise of nil if it has none. No stub if `on` is none.
 *
 * Generated functions are made of it. Cost: some nanoseconds, and no allocation once the tables
 * have grown.
 */
struct bf_ref bf_call(struct bf_ref on, uint32_t method, struct bf_values arguments, struct bf_place place);

/**
 * As `bf_call`, for a method with several results, which are put into `results` in their order.
 */
void bf_call_many(struct bf_ref on,
                  uint32_t method,
                  struct bf_values arguments,
                  struct bf_refs results,
                  struct bf_place place);

/**
 * As `bf_call`, of a method of a value: `on` is a stub or a value.
 */
struct bf_ref bf_call_on(struct bf_session *session,
                         uint32_t method,
                         struct bf_value on,
                         struct bf_values arguments,
                         struct bf_place place);

/**
 * Records a message to an actor that nobody awaits. A failure to send it is told with the batch.
 */
void bf_send(struct bf_ref on, uint32_t method, struct bf_values arguments, struct bf_place place);

/**
 * Records a call of a routine, by the number that `interface` gives it. Its results are put into
 * `results`; give room for one where it has none, for a promise of nil.
 */
void bf_call_routine(struct bf_session *session,
                     const struct bf_interface *interface,
                     uint32_t routine,
                     struct bf_values arguments,
                     struct bf_refs results,
                     struct bf_place place);

/**
 * Records a call of a method behind an operator. `session` may be null if one of the operands is a
 * stub.
 */
struct bf_ref bf_operate(struct bf_session *session,
                         uint32_t operator_,
                         struct bf_value on,
                         struct bf_values arguments,
                         struct bf_place place);

/**
 * Returns the number of a method of a built-in type, by its row (any, directory, bytes) and its
 * place there; `UINT32_MAX` if the interface lacks the type.
 */
uint32_t bf_builtin_method(struct bf_session *session, uint32_t row, uint32_t method);

/**
 * Returns the number of the method behind an operator; `UINT32_MAX` if the interface lacks it.
 */
uint32_t bf_operator_method(struct bf_session *session, uint32_t operator_);

/**
 * Records the lookup of a well-known object, by the interface and type of its stub; `interface` is
 * null for a built-in type. Not inside a structure.
 */
struct bf_ref bf_lookup(struct bf_session *session,
                        const struct bf_interface *interface,
                        bf_chars name,
                        const struct bf_type *ty,
                        struct bf_place place);

/**
 * Makes a stub for a value, which can be a receiver. It crosses only when it is used. No stub for
 * a value with items.
 */
struct bf_ref bf_value_stub(struct bf_session *session, struct bf_value value);

/**
 * Makes an empty cell for values of a type.
 */
struct bf_ref bf_cell(struct bf_session *session, const struct bf_type *ty, struct bf_place place);

/**
 * Stores a value in a cell. Returns a promise of nil.
 */
struct bf_ref bf_cell_put(struct bf_ref cell, const struct bf_type *ty, struct bf_value value, struct bf_place place);

/**
 * Returns a stub for the value stored last; `not_possible` is signalled if there is none.
 */
struct bf_ref bf_cell_get(struct bf_ref cell, const struct bf_type *ty, struct bf_place place);

/**
 * Returns a promise of a bool: true if a value has been stored.
 */
struct bf_ref bf_cell_full(struct bf_ref cell, const struct bf_type *ty, struct bf_place place);

/**
 * Returns the same object, seen as one of another type; `wrong_type` is signalled if it is none.
 */
struct bf_ref bf_as(struct bf_ref on, const struct bf_type *ty, struct bf_place place);

/**
 * Returns a promise of a bool: true if the object has a type.
 */
struct bf_ref bf_is(struct bf_ref on, const struct bf_type *ty, struct bf_place place);

/**
 * Takes the contents of an object as they are when the batch comes to it: a promise of its items.
 * Not inside a structure.
 */
struct bf_ref bf_get(struct bf_ref on, struct bf_place place);

/**
 * Counts a further holder of a stub, which each releases. The result is the stub, or none if it
 * was released.
 */
struct bf_ref bf_retain(struct bf_ref stub);

/**
 * Releases a stub. With its last holder the stub ends: the object is given back with the next
 * batch, and a result that has not come is not wanted. A stub that was released is passed over.
 */
void bf_release(struct bf_ref stub);

/**
 * True if two stubs are known to be the same: one stub, one object, or equal values.
 */
bool bf_same(struct bf_ref one, struct bf_ref other);

/**
 * Opens a scope, and returns its depth. Stubs that are made from then on belong to the innermost
 * scope.
 */
uint32_t bf_scope_open(struct bf_session *session);

/**
 * Ends the scope of this depth, with those inside: releases the stubs that were made in it. One
 * that is to outlive it was retained.
 */
void bf_scope_close(struct bf_session *session, uint32_t depth);

/**
 * Returns the number of stubs that the program holds.
 */
size_t bf_stubs_alive(struct bf_session *session);

/**
 * Waits until a stub has its result, and checks it: flushes the session if it is not known yet.
 *
 * Fails with the failure of its call, or with failures that no other claim can tell.
 */
bf_status bf_claim(struct bf_ref stub, struct bf_place place);

/**
 * The outcome of a stub if it is known without waiting, as that of `bf_claim`; else `BF_PENDING`.
 */
bf_status bf_peek(struct bf_ref stub, struct bf_place place);

/**
 * Claims a truth value. `value` may be null, as for the others.
 */
bf_status bf_claim_bool(struct bf_ref stub, bool *value, struct bf_place place);

/**
 * Claims an integer.
 */
bf_status bf_claim_int(struct bf_ref stub, int64_t *value, struct bf_place place);

/**
 * Claims a real.
 */
bf_status bf_claim_real(struct bf_ref stub, double *value, struct bf_place place);

/**
 * Claims a character: a Unicode scalar value.
 */
bf_status bf_claim_char(struct bf_ref stub, uint32_t *value, struct bf_place place);

/**
 * Claims a text in UTF-8, which a zero byte ends. It lives as long as its stub.
 */
bf_status bf_claim_text(struct bf_ref stub, struct bf_text *value, struct bf_place place);

/**
 * Claims bytes. They live as long as their stub.
 */
bf_status bf_claim_bytes(struct bf_ref stub, struct bf_text *value, struct bf_place place);

/**
 * True if the stub is known to be an object, and not a value.
 */
bool bf_is_object(struct bf_ref stub);

/**
 * Makes an empty table with columns of these types. Not inside a structure. It ends with the batch
 * that it was made in: then it can be claimed, and takes no more rows.
 */
struct bf_ref bf_rows(struct bf_session *session, struct bf_types types, struct bf_place place);

/**
 * Appends a row to a table: a value or stub for each column. In structures and procedures it is
 * appended whenever they come to it.
 */
void bf_emit(struct bf_ref rows, struct bf_values cells, struct bf_place place);

/**
 * Claims a table, the items of a value, or any other value as the only item. `items` is to be
 * given to `bf_items_free`.
 */
bf_status bf_claim_items(struct bf_ref stub, const struct bf_items **items, struct bf_place place);

/**
 * Returns the values of the exception that the call of a stub has signalled itself, objects as
 * stubs, if its batch was answered; else null. The program is told with it. The values are to be
 * given to `bf_items_free`.
 */
const struct bf_items *bf_signal_items(struct bf_ref stub);

/**
 * Returns the items, row by row for a table. They live until `bf_items_free`.
 */
struct bf_values bf_items_values(const struct bf_items *items);

/**
 * Returns the number of columns of a table; 0 for other values.
 */
size_t bf_items_columns(const struct bf_items *items);

/**
 * Returns the number of rows of a table; 0 for other values.
 */
size_t bf_items_rows(const struct bf_items *items);

/**
 * Frees items and their texts, and releases the stubs of their objects: retain those that are to
 * outlive them. Null is passed over. The session is still there.
 */
void bf_items_free(struct bf_session *session, struct bf_items *items);

/**
 * Opens a session with the server at an address: `unix:///run/bifrost/main`, `shm://`, `tcp://`,
 * `tls://`, `quic://`, `ws://` or `wss://`; or with one that traders know:
 * `trader://host/DataBase?region=eu`. Then `bf_imported_name` has the name of the object.
 * `options` may be null. The session belongs to this thread.
 *
 * Returns null if there is no session: `bf_connect_error` says why.
 */
struct bf_session *bf_connect(bf_chars url, const struct bf_interface *interface, const struct bf_options *options);

/**
 * Returns the name under which the object is found at the server that a trader has named; empty if
 * the session was not imported.
 */
bf_chars bf_imported_name(struct bf_session *session);

/**
 * Returns the address of that server; empty if the session was not imported.
 */
bf_chars bf_imported_address(struct bf_session *session);

/**
 * Returns the reason why the last `bf_connect`, `bf_import` or `bf_service_new` of this thread
 * has returned null, until the next one fails.
 */
const struct bf_error *bf_connect_error(void);

/**
 * Sends the recorded commands, and waits until they have run: one pair of crossings, or none if
 * there is nothing to send. Every stub then has its object, value or failure.
 *
 * Fails if the session ended, a structure is open, there are calls that were not sent, or failures
 * that no claim can tell. The failure of a call with a stub is told by its claim.
 */
bf_status bf_flush(struct bf_session *session, struct bf_place place);

/**
 * Ends the batch and sends it as far as there is room, without waiting for its answer:
 * `bf_flush_poll` goes on with it. Calls that are recorded from then on are the next batch; stubs
 * of this one are operands there as any other.
 *
 * At most `batches_under_way_max` batches are under way; beyond it this waits for the oldest one.
 */
bf_status bf_flush_start(struct bf_session *session, struct bf_place place);

/**
 * Moves the bytes of batches under way as far as that needs no waiting. `BF_PENDING` until all are
 * answered: wait until `bf_fd` is readable (or writable, if `bf_wants_write`), and call it again.
 * Then as `bf_flush`.
 */
bf_status bf_flush_poll(struct bf_session *session, struct bf_place place);

/**
 * Returns the descriptor of the session's socket, for `poll` and its like; -1 over shared memory,
 * which has none. It stays the library's.
 */
int32_t bf_fd(struct bf_session *session);

/**
 * True if bytes of a batch under way wait for room in the socket.
 */
bool bf_wants_write(struct bf_session *session);

/**
 * True if the server has not ended the session, as far as is known without waiting.
 */
bool bf_is_open(struct bf_session *session);

/**
 * Writes the counts of the session up to now.
 */
void bf_counters(struct bf_session *session, struct bf_counts *counters);

/**
 * Keeps a pointer of the program with the session: of a layer over this header.
 */
void bf_set_data(struct bf_session *session, void *data);

/**
 * Returns the pointer that `bf_set_data` was given; null before.
 */
void *bf_data(struct bf_session *session);

/**
 * Flushes, and ends the session; its stubs say so from then on. `bf_close` and `bf_let_go` still
 * have to free it.
 */
bf_status bf_finish(struct bf_session *session, struct bf_place place);

/**
 * Ends the session without waiting for answers, and frees it, with all its stubs, its last error
 * and its texts. Commands that were recorded and never flushed are sent, and run; to learn of
 * failures, call `bf_finish` first. Null is passed over.
 */
void bf_close(struct bf_session *session);

/**
 * As `bf_close`, but the session lives until its last stub is released. For layers that count
 * stubs.
 */
void bf_let_go(struct bf_session *session);

/**
 * Returns the batch that is recorded, a line for each command in the text form: what the next
 * crossing brings to the server. The text lives until this or another function of explanations is
 * called again.
 */
bf_chars bf_explain(struct bf_session *session);

/**
 * Returns the batch that was sent last, with its account, as `bf_explain`; empty if none was. With
 * a profile (`bf_profile`) each line ends with the time, the fuel and the fetches of its command.
 */
bf_chars bf_explain_last(struct bf_session *session);

/**
 * Returns a line for each of the last batches, 32 at most, oldest first, as `bf_explain`: their
 * commands, calls, fuel and times, and what sent them.
 */
bf_chars bf_explain_batches(struct bf_session *session);

/**
 * Returns a line for each thing that would have saved crossings in the last batches, as
 * `bf_explain`: claims that forced one again and again, claims that crossed one after the other,
 * calls that a loop of the program recorded many times. Empty if there is nothing to say.
 */
bf_chars bf_advice(struct bf_session *session);

/**
 * Has the server measure this batch and all later ones, or no more. `bf_explain_last` then has the
 * time, the fuel and the fetches of each command outside structures, and of each structure.
 *
 * Fails inside a structure, in a transaction, and if the server makes no profiles. Nothing has
 * changed then.
 */
bf_status bf_profile(struct bf_session *session, bool on, struct bf_place place);

/**
 * Returns the failure of which the program was told last; null if there was none. It lives until
 * the next function of the session fails, `bf_error_clear`, or the next run of its service.
 */
const struct bf_error *bf_error_last(struct bf_session *session);

/**
 * Forgets the last failure.
 */
void bf_error_clear(struct bf_session *session);

/**
 * Returns the kind of a failure itself; that of the first one is its status.
 */
bf_status bf_error_kind(const struct bf_error *error);

/**
 * Returns the status with which the program was told of a failure: the kind of its root.
 */
bf_status bf_error_status(const struct bf_error *error);

/**
 * Returns a text for people, with all causes and places.
 */
bf_chars bf_error_message(const struct bf_error *error);

/**
 * Returns the name of the exception, or of the missing method; empty for others.
 */
bf_chars bf_error_name(const struct bf_error *error);

/**
 * Returns the call that failed, as `DataBase.fetch`; empty if it is not known.
 */
bf_chars bf_error_call(const struct bf_error *error);

/**
 * Returns the place where the program made the call that failed; null and 0 if it is not known.
 */
struct bf_place bf_error_place(const struct bf_error *error);

/**
 * Returns the number of an error of the server (`docs/spec/wire.md`), or the argument that failed:
 * 0 is the receiver.
 */
uint32_t bf_error_number(const struct bf_error *error);

/**
 * Returns the values of the exception. An object is no stub here: `bf_signal_items` gives stubs.
 */
struct bf_values bf_error_values(const struct bf_error *error);

/**
 * Returns the rounds of the loops around the call, outermost first: puts their number in `count`.
 */
const uint32_t *bf_error_rounds(const struct bf_error *error, size_t *count);

/**
 * Returns the failure from which one follows: that of an argument, or the reason why a call was
 * not sent. Null if there is none.
 */
const struct bf_error *bf_error_cause(const struct bf_error *error);

/**
 * Returns the failure from which one follows at last: itself if it has no cause.
 */
const struct bf_error *bf_error_root(const struct bf_error *error);

/**
 * Returns the number of failures that one of the kind `BF_E_UNSEEN` names.
 */
size_t bf_error_parts(const struct bf_error *error);

/**
 * Returns one of those, from 0; null if there are not as many.
 */
const struct bf_error *bf_error_part(const struct bf_error *error, size_t index);

/**
 * Returns the number of failures beyond those that one of the kind `BF_E_UNSEEN` names.
 */
uint64_t bf_error_omitted(const struct bf_error *error);

/**
 * Reads all failures of flushed batches, and all calls that were not sent, since the history was
 * last cleared; returns their number. The program is told of them with it, so they do not prevent
 * a commit any more.
 */
size_t bf_exceptions(struct bf_session *session);

/**
 * Returns a failure that `bf_exceptions` has read, oldest first, from 0. It lives until that is
 * called again.
 */
const struct bf_error *bf_exception(struct bf_session *session, size_t index);

/**
 * Returns the number of failures beyond those that `bf_exceptions` reads.
 */
uint64_t bf_exceptions_omitted(struct bf_session *session);

/**
 * Clears the history, here and at the server: the failures of the calls up to now count as told.
 * Not inside a structure.
 */
void bf_exceptions_clear(struct bf_session *session, struct bf_place place);

/**
 * Imports a service: connects to a server that the traders of a URL know, and looks the object up.
 * `ty` is its type, one of the program. Its stub is put into `object`; it belongs to no scope.
 *
 * Returns null if there is no session: `bf_connect_error` says why.
 */
struct bf_session *bf_import(bf_chars url,
                             const struct bf_interface *interface,
                             const struct bf_type *ty,
                             const struct bf_options *options,
                             struct bf_ref *object);

/**
 * Makes a service of a URL such as `trader://host/DataBase?region=eu`, whose object has a type of
 * the program. Nothing is connected before its first run. It belongs to this thread.
 *
 * With `counted` a session that a run gives is the program's to end, by `bf_let_go`: for layers
 * that count stubs. Otherwise the service ends it, and the stubs that a run has made are released
 * when the next one begins.
 *
 * Returns null if the options make no sense: `bf_connect_error` says why.
 */
struct bf_service *bf_service_new(bf_chars url,
                                  const struct bf_interface *interface,
                                  const struct bf_type *ty,
                                  const struct bf_options *options,
                                  bool counted);

/**
 * Begins a run: finds a server, unless there is one, and returns its session. `bf_service_object`
 * is the object. The body ends with `bf_run_next`, and what it has not committed is lost with the
 * server.
 *
 * Returns null if there is no server, with `*status`.
 */
struct bf_session *bf_run_begin(struct bf_service *service, bf_status *status, struct bf_place place);

/**
 * Begins a run that is a transaction, as `bf_transaction_begin` does, under a name of its own: if
 * the server is lost, the batch is sent again to another one of the same store, which knows
 * whether it was done. So it is done once. `how` may be null, or have a name.
 */
struct bf_session *bf_run_begin_transaction(struct bf_service *service,
                                            const struct bf_how *how,
                                            bf_status *status,
                                            struct bf_place place);

/**
 * Ends a try of a run, whose body has failed with `*status`, or has not; a transaction is sent.
 * Returns the session of the next try: the server was lost, and nothing of the body was done, or
 * it is a transaction. Null if the run has ended, with its outcome in `*status`.
 *
 * After a run that has failed, its transaction is aborted.
 */
struct bf_session *bf_run_next(struct bf_service *service, bf_status *status);

/**
 * Ends a run whose body was left: nothing of it is committed.
 */
void bf_run_leave(struct bf_service *service);

/**
 * Returns the object of the service at the server in use; none before the first run. It stays the
 * service's.
 */
struct bf_ref bf_service_object(const struct bf_service *service);

/**
 * Returns the address of the server in use; empty if there is none.
 */
bf_chars bf_service_address(const struct bf_service *service);

/**
 * Returns the name of the object at the server in use; empty if there is none.
 */
bf_chars bf_service_name(const struct bf_service *service);

/**
 * Returns the failure of the last run, or else the last one of its session, as `bf_error_last`:
 * null if nothing has failed. It lives until the next run, or until another function of the
 * session fails.
 */
const struct bf_error *bf_service_error(const struct bf_service *service);

/**
 * Returns what is known of the last run, if it has failed.
 */
bf_ran bf_service_ran(const struct bf_service *service);

/**
 * Ends a service, and its session. Null is passed over.
 */
void bf_service_free(struct bf_service *service);

/**
 * Opens a structure. Each is ended by `bf_end`.
 *
 * - while: `bf_open`, the calls of the condition, `bf_condition`, the body, `bf_end`
 * - if: the same; `bf_else`, the other block, `bf_end`
 * - except: `bf_open`, the block, `bf_end`; `bf_when` or `bf_others`, the handler, `bf_end`
 */
void bf_open(struct bf_session *session, bf_structure structure, struct bf_place place);

/**
 * Records the end of the condition of the innermost loop or choice: the commands behind it depend
 * on `test`, a bool or a promise of one.
 */
void bf_condition(struct bf_session *session, struct bf_value test, struct bf_place place);

/**
 * Opens a loop over an iterator, and puts a stub into `variables` for each value that it yields at
 * a step.
 */
void bf_foreach(struct bf_session *session,
                const struct bf_iterator *iterator,
                struct bf_refs variables,
                struct bf_place place);

/**
 * Ends the innermost structure. Stubs that were made in it end with it.
 */
void bf_end(struct bf_session *session);

/**
 * Returns the number of open structures.
 */
uint32_t bf_depth(struct bf_session *session);

/**
 * Ends the structure that is the `depth`th from outside, from 1. Structures inside that are open
 * were left by a `break`, `goto` or `return` of the program: the outermost structure is refused
 * with `BF_E_LEFT_OPEN`. The stubs of the scope `scope` end with the structure; 0 for none.
 */
void bf_end_at(struct bf_session *session, uint32_t depth, uint32_t scope);

/**
 * Ends the structure that is the `depth`th from outside, whose block was left by a `break`, `goto`
 * or `return` of the program, and those inside: the outermost structure is refused with
 * `BF_E_LEFT_OPEN`, of which the next claim, flush or commit tells.
 */
void bf_left_open(struct bf_session *session, uint32_t depth, uint32_t scope);

/**
 * Ends the innermost structure, whose block was left by an exception of the program: the outermost
 * structure is refused with `BF_E_ABANDONED`.
 */
void bf_abandon(struct bf_session *session);

/**
 * Opens the other block of the choice that has just ended.
 */
void bf_else(struct bf_session *session, struct bf_place place);

/**
 * Opens a handler of the except that has just ended, for the exception `name` with values of these
 * types, which are put into `variables`.
 */
void bf_when(struct bf_session *session,
             bf_chars name,
             struct bf_types types,
             struct bf_refs variables,
             struct bf_place place);

/**
 * Opens the handler of all other exceptions of the except that has just ended. With room for a
 * variable that is the exception's name.
 */
void bf_others(struct bf_session *session, struct bf_refs variables, struct bf_place place);

/**
 * Leaves the innermost loop at the server. Recording goes on.
 */
void bf_break(struct bf_session *session, struct bf_place place);

/**
 * Goes on with the next step of the innermost loop at the server. Recording goes on.
 */
void bf_continue(struct bf_session *session, struct bf_place place);

/**
 * Opens the definition of a procedure, puts a stub into `parameters` for each, and returns its
 * number, by which it is called; also in its body, and until the session ends. `result` is null
 * for none. `bf_procedure_end` ends it.
 */
uint32_t bf_procedure(struct bf_session *session,
                      bf_chars name,
                      struct bf_types types,
                      const struct bf_type *result,
                      struct bf_refs parameters,
                      struct bf_place place);

/**
 * Ends the definition of a procedure, with its result; null for none.
 */
void bf_procedure_end(struct bf_session *session,
                      uint32_t procedure,
                      const struct bf_value *result,
                      struct bf_place place);

/**
 * Ends a run of the procedure being defined, with its result; null for none.
 */
void bf_return(struct bf_session *session, const struct bf_value *result, struct bf_place place);

/**
 * Records a call of a procedure. Returns the stub of its result.
 */
struct bf_ref bf_procedure_call(struct bf_session *session,
                                uint32_t procedure,
                                struct bf_values arguments,
                                struct bf_place place);

/**
 * Returns the number of a procedure that was defined earlier in this session, if it takes and
 * returns these types; else `BF_NO_PROCEDURE`.
 */
uint32_t bf_procedure_find(struct bf_session *session,
                           bf_chars name,
                           struct bf_types types,
                           const struct bf_type *result);

/**
 * Records the commit of the transaction. Returns a promise of nil: it is kept when all changes are
 * durable. Otherwise everything is as it was when the transaction began, and the commands behind
 * the commit are not run. Not inside a structure.
 *
 * Failures of the transaction that the program was not told of prevent the commit (`BF_E_UNSEEN`).
 */
struct bf_ref bf_commit(struct bf_session *session, struct bf_place place);

/**
 * Records the abort of the transaction: everything becomes as it was when it began. Returns a
 * promise of nil. Not inside a structure.
 */
struct bf_ref bf_abort(struct bf_session *session, struct bf_place place);

/**
 * Records a wait of at most so many milliseconds until another session has committed a change to
 * an object that the transaction has read. Returns a promise of a bool: true if one has.
 */
struct bf_ref bf_wait(struct bf_session *session, uint32_t ms, struct bf_place place);

/**
 * Begins a batch that is a transaction of its own: flushes, and records what follows up to
 * `bf_transaction_end`. Nothing can be claimed in between. `how` may be null.
 *
 * If it fails, nothing was begun.
 */
bf_status bf_transaction_begin(struct bf_session *session, const struct bf_how *how, struct bf_place place);

/**
 * Sends the batch, and waits until it is committed. If other transactions conflict with it, the
 * server runs it again by itself.
 *
 * If it fails, nothing of it was done. Only if the connection is lost (`BF_E_CLOSED`) or the store
 * has failed, it may have been done all the same.
 */
bf_status bf_transaction_end(struct bf_session *session, struct bf_place place);

/**
 * Ends a batch that is a transaction, whose recording was left by an exception of the program: the
 * server refuses it.
 */
void bf_transaction_abandon(struct bf_session *session);

/**
 * Makes a live batch: a batch that is recorded again whenever its results may have changed. It is
 * to be given to `bf_live_free` before the session ends.
 */
struct bf_live_batch *bf_live(void);

/**
 * Begins to record a run. Changes must be committed or aborted before.
 */
bf_status bf_live_begin(struct bf_live_batch *live, struct bf_session *session, struct bf_place place);

/**
 * Ends the run with the stubs of its results: sends it, and waits until another session has
 * changed an object that the last run has read. `BF_SAME` if the results are those of the last
 * run: record another one. A failure of a call is told once, and the next change makes the next
 * result.
 */
bf_status bf_live_end(struct bf_live_batch *live,
                      struct bf_session *session,
                      struct bf_refs results,
                      struct bf_place place);

/**
 * Frees a live batch.
 */
void bf_live_free(struct bf_live_batch *live, struct bf_session *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BIFROST_ABI_H */
