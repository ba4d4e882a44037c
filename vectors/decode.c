// Decodes messages of the wire form (docs/spec/wire.md) and of REX (docs/spec/rex.md), and prints them as the
// JSON of the vectors beside this file. It is written from the specifications alone, in C11 without a library,
// and it makes each number from its bytes: so a machine of any byte order prints the same.
//
//   decode < LINES     each line: `commands`, `reply` or `rex`, a space, and the bytes in hexadecimal
//
// For each line it prints a line of JSON: the commands, the reply, or the message; `{"malformed":OFFSET}` if the
// bytes are none. The first line that it prints is the order of bytes of the machine: `"big"` or `"little"`.
// crates/wire/tests/big_endian.rs runs it, here and on an emulated s390x.
//
// Read `decode_command` and `decode_reply` first. A reader (`struct reader`) takes words from the front of the
// bytes; the first fault ends all with a jump, so that no caller has to look for one.

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPOUND_DEPTH_MAX = 64 };
static const uint32_t NOTHING = UINT32_MAX;

// Values by their tags.
enum { REF, NIL, BOOL, INT, REAL, CHAR, STRING, EXCEPTION, ABSENT, BYTES, COMPOUND, TABLE };

struct reader {
  const uint8_t *bytes;
  size_t length;
  size_t at;
};

static jmp_buf malformed;
static FILE *out;

// --- numbers and texts ---------------------------------------------------------------------------

static _Noreturn void fail(void) { longjmp(malformed, 1); }

static void require(bool holds) {
  if (!holds) fail();
}

// Takes a number of so many bytes, the lowest first.
static uint64_t number(struct reader *r, size_t bytes) {
  require(r->length - r->at >= bytes);
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)r->bytes[r->at + i] << (8 * i);
  r->at += bytes;
  return value;
}

static uint64_t word(struct reader *r) { return number(r, 8); }
static uint32_t half(struct reader *r) { return (uint32_t)number(r, 4); }

// The signed number with these bits; no shift of a negative number.
static int64_t as_signed(uint64_t bits) {
  return bits >> 63 ? -(int64_t)(~bits)-1 : (int64_t)bits;
}

static void print_json_string(const uint8_t *bytes, size_t length) {
  fputc('"', out);
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] == '"' || bytes[i] == '\\') fprintf(out, "\\%c", bytes[i]);
    else if (bytes[i] < 0x20) fprintf(out, "\\u%04x", bytes[i]);
    else fputc(bytes[i], out);
  }
  fputc('"', out);
}

// True if the bytes are UTF-8: no surrogates, nothing longer than it must be.
static bool is_utf8(const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length;) {
    uint8_t first = bytes[i++];
    size_t more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return false;
    uint32_t scalar = more == 0 ? first : first & (0x3fu >> more);
    for (size_t j = 0; j < more; j++, i++) {
      if (i >= length || (bytes[i] & 0xc0) != 0x80) return false;
      scalar = scalar << 6 | (bytes[i] & 0x3f);
    }
    if ((more == 2 && scalar < 0x800) || (more == 3 && scalar < 0x10000) || scalar > 0x10ffff) return false;
    if (scalar >= 0xd800 && scalar < 0xe000) return false;
  }
  return true;
}

static bool is_scalar(uint64_t c) { return c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000); }

static void print_char(uint64_t c) {
  require(is_scalar(c));
  uint8_t bytes[4];
  size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, c >>= 6) bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
  bytes[0] = (uint8_t)(length == 1 ? c : (0xf00u >> length & 0xff) | c);
  print_json_string(bytes, length);
}

// Takes the bytes of a string, and the zeros behind them.
static const uint8_t *take_bytes(struct reader *r, size_t *length) {
  uint64_t count = word(r);
  size_t left = r->length - r->at;
  require(count <= left && (count + 7) / 8 * 8 <= left);
  const uint8_t *bytes = r->bytes + r->at;
  *length = (size_t)count;
  r->at += *length;
  while (r->at % 8 != 0) require(r->bytes[r->at++] == 0);
  return bytes;
}

static void print_string(struct reader *r) {
  size_t length;
  const uint8_t *bytes = take_bytes(r, &length);
  require(is_utf8(bytes, length));
  print_json_string(bytes, length);
}

static void print_hex(const uint8_t *bytes, size_t length) {
  fputc('"', out);
  for (size_t i = 0; i < length; i++) fprintf(out, "%02x", bytes[i]);
  fputc('"', out);
}

static void print_real(uint64_t bits) {
  double real;
  // The order of bytes of doubles is that of words.
  memcpy(&real, &bits, sizeof real);
  fprintf(out, "\"%.17g\"", real);
}

// --- values --------------------------------------------------------------------------------------

static void print_compound(struct reader *r, int depth);

// Takes the word, the string or the compound of a value, and prints `{"kind":value}`.
static void print_value(struct reader *r, unsigned tag, int depth) {
  size_t length;
  const uint8_t *bytes;
  uint64_t bits;
  switch (tag) {
    case REF: fprintf(out, "{\"ref\":%" PRId64 "}", as_signed(word(r))); break;
    case NIL: require(word(r) == 0); fputs("{\"nil\":null}", out); break;
    case BOOL:
      bits = word(r);
      require(bits <= 1);
      fprintf(out, "{\"bool\":%s}", bits ? "true" : "false");
      break;
    case INT: fprintf(out, "{\"int\":\"%" PRId64 "\"}", as_signed(word(r))); break;
    case REAL: fputs("{\"real\":", out); print_real(word(r)); fputc('}', out); break;
    case CHAR: fputs("{\"char\":", out); print_char(word(r)); fputc('}', out); break;
    case STRING: fputs("{\"string\":", out); print_string(r); fputc('}', out); break;
    case BYTES:
      bytes = take_bytes(r, &length);
      fputs("{\"bytes\":", out);
      print_hex(bytes, length);
      fputc('}', out);
      break;
    case COMPOUND: fputs("{\"compound\":", out); print_compound(r, depth); fputc('}', out); break;
    default: fail();
  }
}

// The tag of an item, from words of 16 tags each.
static unsigned tag_of(const uint8_t *tags, size_t item) { return tags[item / 2] >> (item % 2 * 4) & 0xf; }

static void print_type(uint32_t type) {
  if (type == NOTHING) fputs("null", out);
  else fprintf(out, "%" PRIu32, type);
}

static void print_compound(struct reader *r, int depth) {
  require(depth < COMPOUND_DEPTH_MAX);
  uint64_t length = word(r);
  require(length <= r->length - r->at && length % 8 == 0);
  size_t end = r->at + (size_t)length;
  struct reader inner = {r->bytes, end, r->at};
  uint32_t type = half(&inner), count = half(&inner);
  size_t tags_bytes = ((size_t)count + 15) / 16 * 8;
  require(tags_bytes <= inner.length - inner.at);
  const uint8_t *tags = inner.bytes + inner.at;
  inner.at += tags_bytes;
  for (size_t i = count; i < tags_bytes * 2; i++) require(tag_of(tags, i) == 0);
  fputs("{\"type\":", out);
  print_type(type);
  fputs(",\"items\":[", out);
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0) fputc(',', out);
    print_value(&inner, tag_of(tags, i), depth + 1);
  }
  fputs("]}", out);
  require(inner.at == end);
  r->at = end;
}

// Prints a list of numbers, a word each.
static void print_words(struct reader *r, uint64_t count) {
  fputc('[', out);
  for (uint64_t i = 0; i < count; i++) fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", word(r));
  fputc(']', out);
}

static void print_types(struct reader *r, uint64_t count) {
  fputc('[', out);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t type = word(r);
    require(type < NOTHING);
    fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", type);
  }
  fputc(']', out);
}

// --- commands ------------------------------------------------------------------------------------

// The commands that are their first word alone, by their codes.
static const char *alone(unsigned code) {
  switch (code) {
    case 0x09: return "describe";
    case 0x0b: return "bye";
    case 0x10: return "while";
    case 0x12: return "end_while";
    case 0x13: return "if";
    case 0x15: return "else";
    case 0x16: return "end_if";
    case 0x17: return "foreach";
    case 0x18: return "end_foreach";
    case 0x19: return "break";
    case 0x1a: return "continue";
    case 0x1b: return "except";
    case 0x1e: return "end_except";
    case 0x21: return "end_procedure";
    case 0x31: return "commit";
    case 0x32: return "abort";
    default: return NULL;
  }
}

// True if lower hexadecimal digits stand there that are not all zero.
static bool is_id(const uint8_t *text, size_t digits) {
  bool zero = true;
  for (size_t i = 0; i < digits; i++) {
    if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) return false;
    zero = zero && text[i] == '0';
  }
  return !zero;
}

// Prints a place in a trace: version, trace, span, and flags, of which later versions may have more.
static void print_trace(struct reader *r) {
  size_t length;
  const uint8_t *text = take_bytes(r, &length);
  require(length >= 55 && text[2] == '-' && text[35] == '-' && text[52] == '-');
  bool is_first = memcmp(text, "00", 2) == 0;
  require(is_first ? length == 55 : is_id(text, 2) && memcmp(text, "ff", 2) != 0);
  require(length == 55 || text[55] == '-');
  require(is_id(text + 3, 32) && is_id(text + 36, 16));
  require(memcmp(text + 53, "00", 2) == 0 || is_id(text + 53, 2));
  require(is_utf8(text, length));
  print_json_string(text, length);
}

static void print_hello(struct reader *r) {
  uint32_t version = half(r), flags = half(r);
  require(flags <= 1);
  require(r->length - r->at >= 32);
  fprintf(out, "{\"hello\":{\"version\":%" PRIu32 ",\"digest\":", version);
  print_hex(r->bytes + r->at, 32);
  r->at += 32;
  fputs(",\"token\":", out);
  print_string(r);
  fputs(",\"client\":", out);
  print_string(r);
  if (flags == 1) fputs(",\"trace\":", out), print_trace(r);
  fputs("}}", out);
}

// The arguments of a call; `first` are the tags in its first word.
static void print_arguments(struct reader *r, unsigned count, unsigned first) {
  size_t more = count > 4 ? ((size_t)count - 4 + 15) / 16 * 8 : 0;
  require(more <= r->length - r->at);
  const uint8_t *tags = r->bytes + r->at;
  r->at += more;
  for (unsigned i = count; i < 4; i++) require((first >> (4 * i) & 0xf) == 0);
  for (size_t i = count > 4 ? count - 4 : 0; i < more * 2; i++) require(tag_of(tags, i) == 0);
  fputc('[', out);
  for (unsigned i = 0; i < count; i++) {
    if (i > 0) fputc(',', out);
    print_value(r, i < 4 ? first >> (4 * i) & 0xf : tag_of(tags, i - 4), 0);
  }
  fputc(']', out);
}

static void print_receiver(struct reader *r, const char *name) {
  fprintf(out, "\"%s\":%" PRId64, name, as_signed(word(r)));
}

// A call of any kind: the names of the command, of its number, and of its receiver.
static void print_call(struct reader *r, const char *command, const char *what, const char *receiver,
                       const char *arguments, unsigned count, unsigned tags, uint32_t target) {
  fprintf(out, "{\"%s\":{", command);
  if (what != NULL) fprintf(out, "\"%s\":%" PRIu32 ",", what, target);
  else require(target == 0);
  if (receiver != NULL) print_receiver(r, receiver), fputc(',', out);
  fprintf(out, "\"%s\":", arguments);
  print_arguments(r, count, tags);
  fputs("}}", out);
}

static void print_flush(struct reader *r, unsigned flags, unsigned unanswered, uint32_t ranges) {
  require(flags <= 3 && (flags & 2 || unanswered == 0));
  fprintf(out, "{\"flush\":{\"quiet\":%s", flags & 1 ? "true" : "false");
  if (flags & 2) fprintf(out, ",\"kept\":%u", unanswered);
  fputs(",\"wanted\":[", out);
  uint64_t end = 0;
  for (uint32_t i = 0; i < ranges; i++) {
    uint32_t first = half(r), count = half(r);
    require(count > 0 && first > end && (uint64_t)first + count - 1 <= NOTHING);
    end = (uint64_t)first + count;
    fprintf(out, "%s[%" PRIu32 ",%" PRIu32 "]", i > 0 ? "," : "", first, count);
  }
  fputs("]}}", out);
}

static void print_transaction(struct reader *r, unsigned named, unsigned tries) {
  require(named <= 1);
  fprintf(out, "{\"transaction\":{\"tries\":%u,\"batch\":", tries);
  if (named) {
    uint64_t low = word(r), high = word(r);
    fprintf(out, "{\"client\":\"%016" PRIx64 "%016" PRIx64 "\",\"number\":%" PRIu64 "}", high, low, word(r));
  } else {
    fputs("null", out);
  }
  fputs("}}", out);
}

static void print_free(struct reader *r, unsigned unanswered, uint32_t count) {
  fputs(unanswered ? "{\"free\":{\"handles\":" : "{\"free\":", out);
  print_words(r, count);
  if (unanswered) fprintf(out, ",\"unanswered\":%u}", unanswered);
  fputc('}', out);
}

static void decode_command(struct reader *r) {
  static const uint8_t magic[8] = {0x89, 'B', 'F', 'R', 'O', 'S', 'T', 0x0a};
  if (r->length - r->at >= 8 && memcmp(r->bytes + r->at, magic, 8) == 0) {
    r->at += 8;
    print_hello(r);
    return;
  }
  unsigned code = (unsigned)number(r, 1), flag = (unsigned)number(r, 1), flags = (unsigned)number(r, 2);
  uint32_t count = half(r);
  if (alone(code) != NULL) {
    require(flag == 0 && flags == 0 && count == 0);
    fprintf(out, "\"%s\"", alone(code));
    return;
  }
  // Only calls have flags beyond the first byte of them, and `flush`, `transaction`.
  switch (code) {
    case 0x01: print_call(r, "call", "method", "receiver", "args", flag, flags, count); return;
    case 0x0c: print_call(r, "send", "method", "receiver", "args", flag, flags, count); return;
    case 0x02: print_call(r, "call_routine", "routine", NULL, "args", flag, flags, count); return;
    case 0x03: print_call(r, "call_procedure", "procedure", NULL, "args", flag, flags, count); return;
    case 0x0e: print_call(r, "emit", NULL, "rows", "values", flag, flags, count); return;
    case 0x30: require(count == 0); print_transaction(r, flag, flags); return;
    case 0x08: require(flags <= 0xff); print_flush(r, flag, flags, count); return;
    default: require(flags == 0);
  }
  switch (code) {
    case 0x04:
      require(flag == 0);
      fputs("{\"lookup\":{\"expected\":", out);
      print_type(count);
      fputs(",\"name\":", out);
      print_string(r);
      fputs("}}", out);
      return;
    case 0x05:
      require(count == 0 && flag != REF);
      fputs("{\"constant\":", out);
      print_value(r, flag, 0);
      fputc('}', out);
      return;
    case 0x06: require(flag == 0); fprintf(out, "{\"cell\":{\"element\":%" PRIu32 "}}", count); return;
    case 0x07: print_free(r, flag, count); return;
    case 0x0a:
      require(flag <= 1 && count == 0);
      fputs(flag ? "\"clear_history\"" : "\"history\"", out);
      return;
    case 0x0d:
      require(flag > 0 && count == 0);
      fputs("{\"rows\":{\"columns\":", out);
      print_types(r, flag);
      fputs("}}", out);
      return;
    case 0x0f:
      require(flag <= 1 && count == 0);
      fprintf(out, "{\"profile\":{\"on\":%s}}", flag ? "true" : "false");
      return;
    case 0x11:
    case 0x14:
      require(flag == 0 && count == 0);
      fprintf(out, "{\"%s\":{", code == 0x11 ? "do" : "then");
      print_receiver(r, "test");
      fputs("}}", out);
      return;
    case 0x1c:
      require(count == 0);
      fputs("{\"when\":{\"name\":", out);
      print_string(r);
      fputs(",\"values\":", out);
      print_types(r, flag);
      fputs("}}", out);
      return;
    case 0x1d:
      require(flag <= 1 && count == 0);
      fprintf(out, "{\"others\":{\"named\":%s}}", flag ? "true" : "false");
      return;
    case 0x1f:
      fputs("{\"procedure\":{\"result\":", out);
      print_type(count);
      fputs(",\"name\":", out);
      print_string(r);
      fputs(",\"params\":", out);
      print_types(r, flag);
      fputs("}}", out);
      return;
    case 0x22:
    case 0x23:
      require(flag == 0);
      fprintf(out, "{\"%s\":{\"type\":%" PRIu32 ",", code == 0x22 ? "as" : "is", count);
      print_receiver(r, "object");
      fputs("}}", out);
      return;
    case 0x24:
      require(flag == 0 && count == 0);
      fputs("{\"get\":{", out);
      print_receiver(r, "object");
      fputs("}}", out);
      return;
    case 0x33: require(flag == 0); fprintf(out, "{\"wait\":{\"ms\":%" PRIu32 "}}", count); return;
    default: fail();
  }
}

// `return` has its flags in other places: whether there is a value, and its tag.
static bool decode_return(struct reader *r) {
  if (r->length - r->at < 8 || r->bytes[r->at] != 0x20) return false;
  r->at++;
  unsigned has = (unsigned)number(r, 1), tag = (unsigned)number(r, 1);
  require(has <= 1 && (has || tag == 0) && number(r, 5) == 0);
  fputs("{\"return\":", out);
  if (has) require(tag != COMPOUND), print_value(r, tag, 0);
  else fputs("null", out);
  fputc('}', out);
  return true;
}

static void decode_commands(struct reader *r) {
  fputc('[', out);
  for (bool first = true; r->at < r->length; first = false) {
    if (!first) fputc(',', out);
    if (!decode_return(r)) decode_command(r);
  }
  fputc(']', out);
}

// --- replies -------------------------------------------------------------------------------------

// A cell of a table: of a column of handles it is one, with the type of the column.
static void print_cell(struct reader *r, unsigned tag, uint32_t type) {
  if (tag != REF) print_value(r, tag, 0);
  else fprintf(out, "{\"handle\":%" PRIu64 ",\"type\":%" PRIu32 "}", word(r), type);
}

static void print_table(struct reader *r, uint32_t rows) {
  uint64_t length = word(r);
  require(length <= r->length - r->at);
  size_t end = r->at + (size_t)length;
  struct reader inner = {r->bytes, end, r->at};
  uint64_t columns = word(&inner);
  require(columns >= 1 && columns <= 255);
  size_t heads = inner.at;
  fputs("{\"rows\":{\"columns\":[", out);
  for (uint64_t i = 0; i < columns; i++) {
    unsigned tag = (unsigned)number(&inner, 1);
    require(number(&inner, 3) == 0);
    fprintf(out, "%s[%u,%" PRIu32 "]", i > 0 ? "," : "", tag, half(&inner));
  }
  fputs("],\"cells\":[", out);
  for (uint32_t row = 0; row < rows; row++) {
    struct reader head = {r->bytes, end, heads};
    for (uint64_t i = 0; i < columns; i++) {
      unsigned tag = (unsigned)number(&head, 4);
      if (row > 0 || i > 0) fputc(',', out);
      print_cell(&inner, tag, half(&head));
    }
  }
  fputs("]}}", out);
  require(inner.at == end);
  r->at = end;
}

static void print_outcome(struct reader *r) {
  unsigned tag = (unsigned)number(r, 1);
  require(number(r, 3) == 0);
  uint32_t with = half(r);
  switch (tag) {
    case REF: print_cell(r, REF, with); return;
    case EXCEPTION: fprintf(out, "{\"exception\":%" PRIu32 "}", with); return;
    case ABSENT: require(with == 0); fputs("\"absent\"", out); return;
    case TABLE: print_table(r, with); return;
    default: require(with == 0); print_value(r, tag, 0);
  }
}

static void print_signal(struct reader *r, unsigned values, unsigned places) {
  fputs("\"signal\":{\"name\":", out);
  print_string(r);
  fputs(",\"values\":[", out);
  for (unsigned i = 0; i < values; i++) {
    if (i > 0) fputc(',', out);
    print_outcome(r);
  }
  fputc(']', out);
  if (places > 0) {
    fprintf(out, ",\"more_places\":%" PRIu64 ",\"places\":[", word(r));
    for (unsigned i = 0; i < places; i++) {
      fprintf(out, "%s{\"line\":%" PRIu64 ",\"routine\":", i > 0 ? "," : "", word(r));
      print_string(r);
      fputs(",\"file\":", out);
      print_string(r);
      fputc('}', out);
    }
    fputc(']', out);
  }
  fputc('}', out);
}

static void print_exception(struct reader *r) {
  unsigned kind = (unsigned)number(r, 1), values = (unsigned)number(r, 1);
  unsigned rounds = (unsigned)number(r, 1), places = (unsigned)number(r, 1);
  fprintf(out, "{\"call\":%" PRIu32 ",\"iterations\":", half(r));
  print_words(r, rounds);
  fputc(',', out);
  require(kind == 0 || (kind <= 2 && values == 0 && places == 0));
  if (kind == 0) {
    print_signal(r, values, places);
  } else if (kind == 1) {
    uint32_t argument = (uint32_t)number(r, 3);
    unsigned back = (unsigned)number(r, 1);
    fprintf(out, "\"unhandled\":{\"argument\":%" PRIu32 ",\"cause\":%" PRIu32, argument, half(r));
    if (back) fprintf(out, ",\"back\":%u", back);
    fputc('}', out);
  } else {
    fprintf(out, "\"refused\":{\"number\":%" PRIu64 ",\"text\":", word(r));
    print_string(r);
    fputc('}', out);
  }
  fputc('}', out);
}

// An entry of a profile; returns its kind.
static void print_entry(struct reader *r, bool is_rest, uint32_t omitted) {
  unsigned kind = (unsigned)number(r, 1);
  require(number(r, 3) == 0 && (kind == 2) == is_rest && kind <= 2);
  uint32_t call = half(r);
  require((call == 0) == is_rest);
  fputc('{', out);
  if (is_rest) fprintf(out, "\"omitted\":%" PRIu32, omitted);
  else fprintf(out, "\"call\":%" PRIu32, call);
  if (kind == 1) fputs(",\"structure\":true", out);
  uint64_t nanoseconds = word(r);
  uint32_t calls = half(r), fuel = half(r), fetches = half(r), objects = half(r);
  fprintf(out, ",\"nanoseconds\":%" PRIu64 ",\"calls\":%" PRIu32 ",\"fuel\":%" PRIu32, nanoseconds, calls, fuel);
  fprintf(out, ",\"fetches\":%" PRIu32 ",\"objects\":%" PRIu32 "}", fetches, objects);
}

static void print_profile(struct reader *r) {
  uint64_t nanoseconds = word(r);
  uint32_t fetches = half(r), objects = half(r), runs = half(r);
  require(half(r) == 0);
  uint32_t entries = half(r), omitted = half(r);
  fprintf(out, ",\"profile\":{\"nanoseconds\":%" PRIu64 ",\"fetches\":%" PRIu32, nanoseconds, fetches);
  fprintf(out, ",\"objects\":%" PRIu32 ",\"runs\":%" PRIu32 ",\"entries\":[", objects, runs);
  for (uint32_t i = 0; i < entries; i++) {
    if (i > 0) fputc(',', out);
    print_entry(r, false, 0);
  }
  fputc(']', out);
  if (omitted > 0) fputs(",\"rest\":", out), print_entry(r, true, omitted);
  fputc('}', out);
}

static void print_flushed(struct reader *r, unsigned flags, uint32_t outcomes) {
  require(flags <= 1);
  uint32_t exceptions = half(r), omitted = half(r), calls = half(r), fuel = half(r);
  fprintf(out, "{\"flushed\":{\"omitted\":%" PRIu32 ",\"calls\":%" PRIu32, omitted, calls);
  fprintf(out, ",\"fuel\":%" PRIu32 ",\"outcomes\":[", fuel);
  for (uint32_t i = 0; i < outcomes; i++) {
    if (i > 0) fputc(',', out);
    print_outcome(r);
  }
  fputs("],\"exceptions\":[", out);
  for (uint32_t i = 0; i < exceptions; i++) {
    if (i > 0) fputc(',', out);
    print_exception(r);
  }
  fputc(']', out);
  if (flags) print_profile(r);
  fputs("}}", out);
}

static void print_welcome(struct reader *r, uint32_t version) {
  fprintf(out, "{\"welcome\":{\"version\":%" PRIu32 ",\"session\":%" PRIu64 ",\"digest\":", version, word(r));
  require(r->length - r->at >= 32);
  print_hex(r->bytes + r->at, 32);
  r->at += 32;
  fputs(",\"server\":", out);
  print_string(r);
  fputs(",\"limits\":[", out);
  uint64_t limits = word(r);
  for (uint64_t i = 0; i < limits; i++) {
    uint64_t limit = word(r);
    fprintf(out, "%s[%" PRIu64 ",%" PRIu64 "]", i > 0 ? "," : "", limit, word(r));
  }
  fputs("]}}", out);
}

static void decode_reply(struct reader *r) {
  unsigned code = (unsigned)number(r, 1), flags = (unsigned)number(r, 3);
  uint32_t with = half(r);
  require(word(r) == r->length - r->at);
  require(flags == 0 || code == 0xc1);
  switch (code) {
    case 0xc0: print_welcome(r, with); break;
    case 0xc1: print_flushed(r, flags, with); break;
    case 0xc2: require(with == 0); fputs("{\"interface\":", out); print_string(r); fputc('}', out); break;
    case 0xc3:
      fprintf(out, "{\"exceptions\":{\"omitted\":%" PRIu64 ",\"list\":[", word(r));
      for (uint32_t i = 0; i < with; i++) {
        fprintf(out, "%s[%" PRIu64 ",", i > 0 ? "," : "", word(r));
        print_exception(r);
        fputc(']', out);
      }
      fputs("]}}", out);
      break;
    case 0xc4: require(with == 0); fputs("\"farewell\"", out); break;
    case 0xc5:
      fprintf(out, "{\"error\":{\"number\":%" PRIu32 ",\"position\":%" PRIu64 ",\"text\":", with, word(r));
      print_string(r);
      fputs("}}", out);
      break;
    default: fail();
  }
  require(r->at == r->length);
}

// --- REX -----------------------------------------------------------------------------------------

static void decode_rex(struct reader *r) {
  unsigned kind = (unsigned)number(r, 1);
  require(kind == 1 || kind == 2);
  uint64_t stream = word(r), start = word(r), end = word(r);
  fprintf(out, "{\"%s\":{\"stream\":%" PRIu64 ",\"start\":%" PRIu64 ",\"end\":%" PRIu64, kind == 1 ? "ask" : "state",
          stream, start, end);
  if (kind == 1) {
    require(start < end);
    fputs("}}", out);
    return;
  }
  static const char *const states[] = {"unknown", "partly", "arrived", "begun", "answered"};
  unsigned state = (unsigned)number(r, 1);
  require(state >= 1 && state <= 5);
  uint32_t before = half(r), ms = half(r);
  fprintf(out, ",\"state\":\"%s\",\"before\":%" PRIu32 ",\"ms\":%" PRIu32 "}}", states[state - 1], before, ms);
}

// --- lines ---------------------------------------------------------------------------------------

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// Makes bytes of hexadecimal digits, in their place; returns their number.
static size_t unhex(char *text) {
  size_t count = 0;
  for (; digit(text[2 * count]) >= 0 && digit(text[2 * count + 1]) >= 0; count++) {
    text[count] = (char)(digit(text[2 * count]) * 16 + digit(text[2 * count + 1]));
  }
  return count;
}

static int decode_line(char *line) {
  char *space = strchr(line, ' ');
  if (space == NULL) return 1;
  *space = 0;
  // Static, as all that is used behind a jump; a fault leaves no half of a message.
  static struct reader r;
  static char *json;
  static size_t size;
  r = (struct reader){(const uint8_t *)space + 1, unhex(space + 1), 0};
  out = open_memstream(&json, &size);
  if (out == NULL) return 1;
  if (setjmp(malformed) != 0) {
    fclose(out);
    printf("{\"malformed\":%zu}\n", r.at);
  } else {
    if (strcmp(line, "commands") == 0) decode_commands(&r);
    else if (strcmp(line, "reply") == 0) decode_reply(&r);
    else if (strcmp(line, "rex") == 0) decode_rex(&r);
    else fail();
    fclose(out);
    puts(json);
  }
  free(json);
  return 0;
}

int main(void) {
  const uint16_t order = 1;
  uint8_t low;
  memcpy(&low, &order, 1);
  puts(low == 1 ? "\"little\"" : "\"big\"");
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, stdin) > 0) {
    if (decode_line(line) != 0) return 1;
  }
  free(line);
  return 0;
}
