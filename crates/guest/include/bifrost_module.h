/* The session for a module in C: a program of a client that runs in its server (docs/book/sandbox.md).
 *
 *   clang --target=wasm32 -O2 -mbulk-memory -nostdlib -Wl,--no-entry -o module.wasm module.c
 *
 * A module exports functions with BIFROST_EXPORT. A parameter is an int64_t, a double or a bifrost_object, and so is
 * the result, if there is one. Strings, bytes and all other values arrive as objects.
 *
 *   BIFROST_EXPORT(twice) int64_t twice(bifrost_object person) {
 *     static bifrost_name visits = BIFROST_NAME("DataElem:visits");
 *     return 2 * bifrost_int(bifrost_call(bifrost_method(&visits), person, 0, 0));
 *   }
 *
 * A failure of bifrost_call ends the run, and is the failure of the run. After bifrost_try_call the module goes on. A
 * result of another type than the one that is asked for is a mistake of the module: it traps, and the run ends with the
 * exception `failure`.
 */
#ifndef BIFROST_MODULE_H
#define BIFROST_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BIFROST_IMPORT(name) __attribute__((import_module("bifrost"), import_name(name)))
#define BIFROST_EXPORT(name) __attribute__((export_name(#name)))

/* The imports as they are (docs/spec/wire.md, section 9.1). */
BIFROST_IMPORT("run") int32_t bifrost_raw_run(const void *at, size_t length, void *out, size_t room);
BIFROST_IMPORT("try_run") int32_t bifrost_raw_try_run(const void *at, size_t length, void *out, size_t room);
BIFROST_IMPORT("text") uint32_t bifrost_raw_text(uint32_t position, void *out, size_t room);
BIFROST_IMPORT("failure") uint32_t bifrost_raw_failure(void *out, size_t room);
BIFROST_IMPORT("raise") int32_t bifrost_raw_raise(void);
BIFROST_IMPORT("fail") int32_t bifrost_raw_fail(const void *at, size_t length);
BIFROST_IMPORT("release") int32_t bifrost_raw_release(uint32_t position);
BIFROST_IMPORT("type") uint32_t bifrost_raw_type(const void *at, size_t length);
BIFROST_IMPORT("method") uint32_t bifrost_raw_method(const void *at, size_t length);
BIFROST_IMPORT("routine") uint32_t bifrost_raw_routine(const void *at, size_t length);

/* Most arguments of a call, and most words of one: a string takes one word and those of its bytes. A larger call
 * traps. Define the second before the header to have room for longer strings. */
#define BIFROST_ARGUMENTS_MAX 255
#ifndef BIFROST_WORDS_MAX
#define BIFROST_WORDS_MAX 512
#endif
/* Most results of a command that are read. */
#define BIFROST_RESULTS_MAX 8

/* An object of the server, a string or bytes: its position in the run. */
typedef uint32_t bifrost_object;

enum bifrost_tag {
  BIFROST_OBJECT = 0,
  BIFROST_NIL = 1,
  BIFROST_BOOL = 2,
  BIFROST_INT = 3,
  BIFROST_REAL = 4,
  BIFROST_CHAR = 5,
  BIFROST_STRING = 6,
  BIFROST_BYTES = 9,
};

/* An argument. */
typedef struct {
  enum bifrost_tag tag;
  union {
    uint64_t word;
    int64_t of_int;
    double of_real;
  };
  const void *bytes; /* Of a string or of bytes, with their number in `word`. */
} bifrost_value;

static inline bifrost_value bifrost_of_nil(void) { return (bifrost_value){.tag = BIFROST_NIL}; }
static inline bifrost_value bifrost_of_bool(bool b) { return (bifrost_value){.tag = BIFROST_BOOL, .word = b}; }
static inline bifrost_value bifrost_of_int(int64_t i) { return (bifrost_value){.tag = BIFROST_INT, .of_int = i}; }
static inline bifrost_value bifrost_of_real(double r) { return (bifrost_value){.tag = BIFROST_REAL, .of_real = r}; }
static inline bifrost_value bifrost_of_char(uint32_t c) { return (bifrost_value){.tag = BIFROST_CHAR, .word = c}; }
static inline bifrost_value bifrost_of_object(bifrost_object object) {
  return (bifrost_value){.tag = BIFROST_OBJECT, .word = (uint64_t)(-(int64_t)object)};
}
static inline bifrost_value bifrost_of_string(const char *text, size_t length) {
  return (bifrost_value){.tag = BIFROST_STRING, .word = length, .bytes = text};
}
static inline bifrost_value bifrost_of_bytes(const void *bytes, size_t length) {
  return (bifrost_value){.tag = BIFROST_BYTES, .word = length, .bytes = bytes};
}

/* The results of a command: their number, and for each its tag and word. A failure of bifrost_try_call has the number
 * BIFROST_SIGNALLED or BIFROST_REFUSED, and its name is that of bifrost_failure. */
typedef struct {
  int32_t count;
  struct {
    uint64_t tag, word;
  } of[BIFROST_RESULTS_MAX];
} bifrost_results;

enum { BIFROST_SIGNALLED = -1, BIFROST_REFUSED = -2 };

/* Ends the run with the exception `failure`, if a promise of the module does not hold. */
static inline void bifrost_require(bool holds) {
  if (!holds) __builtin_trap();
}

/* The only result, which has this tag. */
static inline uint64_t bifrost_word(bifrost_results results, enum bifrost_tag tag) {
  bifrost_require(results.count == 1 && results.of[0].tag == tag);
  return results.of[0].word;
}
static inline int64_t bifrost_int(bifrost_results results) { return (int64_t)bifrost_word(results, BIFROST_INT); }
static inline bool bifrost_bool(bifrost_results results) { return bifrost_word(results, BIFROST_BOOL) != 0; }
static inline uint32_t bifrost_char(bifrost_results results) { return (uint32_t)bifrost_word(results, BIFROST_CHAR); }
static inline double bifrost_real(bifrost_results results) {
  bifrost_value value = {.word = bifrost_word(results, BIFROST_REAL)};
  return value.of_real;
}
static inline bifrost_object bifrost_result_object(bifrost_results results) {
  return (bifrost_object)bifrost_word(results, BIFROST_OBJECT);
}

/* A name of the interface, and its number, which is looked up once in a run. */
typedef struct {
  const char *name;
  size_t length;
  uint32_t number;
  bool known;
} bifrost_name;

#define BIFROST_NAME(text) {(text), sizeof(text) - 1, 0, false}

/* Return the number of a name, or UINT32_MAX; a call of that is refused. */
static inline uint32_t bifrost_method(bifrost_name *name) {
  if (!name->known) {
    name->number = bifrost_raw_method(name->name, name->length);
    name->known = true;
  }
  return name->number;
}
static inline uint32_t bifrost_routine(bifrost_name *name) {
  if (!name->known) {
    name->number = bifrost_raw_routine(name->name, name->length);
    name->known = true;
  }
  return name->number;
}
static inline uint32_t bifrost_type(bifrost_name *name) {
  if (!name->known) {
    name->number = bifrost_raw_type(name->name, name->length);
    name->known = true;
  }
  return name->number;
}

/* A command in the making. */
typedef struct {
  uint64_t words[BIFROST_WORDS_MAX];
  size_t count;
} bifrost_command;

static inline void bifrost_put(bifrost_command *command, uint64_t word) {
  bifrost_require(command->count < BIFROST_WORDS_MAX);
  command->words[command->count++] = word;
}

/* A string or bytes: their number, themselves, zeros up to a whole word. */
static inline void bifrost_put_bytes(bifrost_command *command, const void *bytes, size_t length) {
  bifrost_put(command, length);
  size_t words = length / 8 + (length % 8 != 0);
  bifrost_require(words <= BIFROST_WORDS_MAX - command->count);
  if (words == 0) return;
  command->words[command->count + words - 1] = 0;
  __builtin_memcpy(&command->words[command->count], bytes, length);
  command->count += words;
}

static inline void bifrost_put_value(bifrost_command *command, const bifrost_value *value) {
  if (value->tag == BIFROST_STRING || value->tag == BIFROST_BYTES)
    bifrost_put_bytes(command, value->bytes, (size_t)value->word);
  else
    bifrost_put(command, value->word);
}

static inline void bifrost_put_arguments(bifrost_command *command, size_t count, const bifrost_value *arguments) {
  for (size_t i = 4; i < count; i += 16) {
    uint64_t tags = 0;
    for (size_t j = i; j < count && j < i + 16; j++) tags |= (uint64_t)arguments[j].tag << (4 * (j - i));
    bifrost_put(command, tags);
  }
  for (size_t i = 0; i < count; i++) bifrost_put_value(command, &arguments[i]);
}

static inline uint64_t bifrost_call_head(uint8_t code, uint32_t number, size_t count, const bifrost_value *arguments) {
  bifrost_require(count <= BIFROST_ARGUMENTS_MAX);
  uint64_t tags = 0;
  for (size_t i = 0; i < count && i < 4; i++) tags |= (uint64_t)arguments[i].tag << (4 * i);
  return code | (uint64_t)count << 8 | tags << 16 | (uint64_t)number << 32;
}

static inline bifrost_results bifrost_give(const bifrost_command *command, bool tries) {
  bifrost_results results;
  const void *at = command->words;
  size_t length = 8 * command->count;
  results.count = tries ? bifrost_raw_try_run(at, length, results.of, sizeof results.of)
                        : bifrost_raw_run(at, length, results.of, sizeof results.of);
  return results;
}

static inline bifrost_results bifrost_give_call(uint32_t method, bifrost_object receiver, size_t count,
                                                const bifrost_value *arguments, bool tries) {
  bifrost_command command;
  command.count = 0;
  bifrost_put(&command, bifrost_call_head(0x01, method, count, arguments));
  bifrost_put(&command, (uint64_t)(-(int64_t)receiver));
  bifrost_put_arguments(&command, count, arguments);
  return bifrost_give(&command, tries);
}

/* Calls a method. A failure ends the run. */
static inline bifrost_results bifrost_call(uint32_t method, bifrost_object receiver, size_t count,
                                           const bifrost_value *arguments) {
  return bifrost_give_call(method, receiver, count, arguments, false);
}

/* Calls a method. After a failure the number of results is BIFROST_SIGNALLED or BIFROST_REFUSED. */
static inline bifrost_results bifrost_try_call(uint32_t method, bifrost_object receiver, size_t count,
                                               const bifrost_value *arguments) {
  return bifrost_give_call(method, receiver, count, arguments, true);
}

/* Calls a routine. A failure ends the run. */
static inline bifrost_results bifrost_call_routine(uint32_t routine, size_t count, const bifrost_value *arguments) {
  bifrost_command command;
  command.count = 0;
  bifrost_put(&command, bifrost_call_head(0x02, routine, count, arguments));
  bifrost_put_arguments(&command, count, arguments);
  return bifrost_give(&command, false);
}

/* Finds a well-known object by its name; UINT32_MAX expects any type. */
static inline bifrost_object bifrost_lookup(const char *name, size_t length, uint32_t type) {
  bifrost_command command;
  command.count = 0;
  bifrost_put(&command, 0x04 | (uint64_t)type << 32);
  bifrost_put_bytes(&command, name, length);
  return bifrost_result_object(bifrost_give(&command, false));
}

/* Makes an object of a string, which has methods then. */
static inline bifrost_object bifrost_constant(const char *text, size_t length) {
  bifrost_command command;
  command.count = 0;
  bifrost_put(&command, 0x05 | (uint64_t)BIFROST_STRING << 8);
  bifrost_put_bytes(&command, text, length);
  return bifrost_result_object(bifrost_give(&command, false));
}

/* Copies as many bytes of a string or of bytes as there is room for, and returns their number. */
static inline size_t bifrost_text(bifrost_object object, void *out, size_t room) {
  return bifrost_raw_text(object, out, room);
}

/* Tells if the last failure of bifrost_try_call has this name. */
static inline bool bifrost_failure_is(const char *name, size_t length) {
  char found[64];
  if (bifrost_raw_failure(found, sizeof found) != length || length > sizeof found) return false;
  for (size_t i = 0; i < length; i++)
    if (found[i] != name[i]) return false;
  return true;
}

/* Ends the run with the last failure of bifrost_try_call. */
static inline _Noreturn void bifrost_raise(void) {
  bifrost_raw_raise();
  __builtin_trap();
}

/* Ends the run with the exception `failure`, and a text: at most 1000 bytes of it. */
static inline _Noreturn void bifrost_fail(const char *text, size_t length) {
  bifrost_raw_fail(text, length);
  __builtin_trap();
}

/* Forgets the results from an object on; their positions are those of the next results. */
static inline void bifrost_release(bifrost_object first) { bifrost_raw_release(first); }

#endif
