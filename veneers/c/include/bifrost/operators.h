/* Generated from the table of operators by the tests of crates/capi. Do not edit. */

/**
 * @file
 * The operators of promises. Operands are promises or values; one of them is a promise.
 */

#ifndef BIFROST_OPERATORS_H
#define BIFROST_OPERATORS_H

/** The methods behind operators, for bf_operate. */
enum {
  BF_OPERATOR_BOOL_NOT,
  BF_OPERATOR_BOOL_EQUAL,
  BF_OPERATOR_INT_ADD,
  BF_OPERATOR_INT_SUB,
  BF_OPERATOR_INT_MUL,
  BF_OPERATOR_INT_DIV,
  BF_OPERATOR_INT_MOD,
  BF_OPERATOR_INT_NEGATE,
  BF_OPERATOR_INT_LT,
  BF_OPERATOR_INT_LE,
  BF_OPERATOR_INT_GT,
  BF_OPERATOR_INT_GE,
  BF_OPERATOR_INT_EQUAL,
  BF_OPERATOR_INT_TO,
  BF_OPERATOR_INT_TO_BY,
  BF_OPERATOR_INT_TO_REAL,
  BF_OPERATOR_INT_UNPARSE,
  BF_OPERATOR_REAL_ADD,
  BF_OPERATOR_REAL_SUB,
  BF_OPERATOR_REAL_MUL,
  BF_OPERATOR_REAL_DIV,
  BF_OPERATOR_REAL_NEGATE,
  BF_OPERATOR_REAL_LT,
  BF_OPERATOR_REAL_LE,
  BF_OPERATOR_REAL_GT,
  BF_OPERATOR_REAL_GE,
  BF_OPERATOR_REAL_EQUAL,
  BF_OPERATOR_REAL_UNPARSE,
  BF_OPERATOR_CHAR_EQUAL,
  BF_OPERATOR_STRING_LENGTH,
  BF_OPERATOR_STRING_CONCAT,
  BF_OPERATOR_STRING_LT,
  BF_OPERATOR_STRING_LE,
  BF_OPERATOR_STRING_GT,
  BF_OPERATOR_STRING_GE,
  BF_OPERATOR_STRING_EQUAL,
};

#ifndef __cplusplus

/** Theta: `bnot` of `bool`. */
#define bf_bool_bnot(x) bf_at_bool_bnot(x, BF_HERE)
static inline bf_bool bf_at_bool_bnot(bf_bool x, bf_place place) {
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_BOOL_NOT, bf_arg_bf_bool(x), bf_no_values_(), place));
}

/** Theta: `equal` of `bool`. */
#define bf_bool_equal(x, y) bf_at_bool_equal(x, y, BF_HERE)
static inline bf_bool bf_at_bool_equal(bf_bool x, bf_bool y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_bool(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_BOOL_EQUAL, bf_arg_bf_bool(x), bf_values_(arguments, 1), place));
}

/** Theta: `add` of `int`. */
#define bf_int_add(x, y) bf_at_int_add(x, y, BF_HERE)
static inline bf_int bf_at_int_add(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_ADD, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `sub` of `int`. */
#define bf_int_sub(x, y) bf_at_int_sub(x, y, BF_HERE)
static inline bf_int bf_at_int_sub(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_SUB, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `mul` of `int`. */
#define bf_int_mul(x, y) bf_at_int_mul(x, y, BF_HERE)
static inline bf_int bf_at_int_mul(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_MUL, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `div` of `int`. */
#define bf_int_div(x, y) bf_at_int_div(x, y, BF_HERE)
static inline bf_int bf_at_int_div(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_DIV, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `mod` of `int`. */
#define bf_int_mod(x, y) bf_at_int_mod(x, y, BF_HERE)
static inline bf_int bf_at_int_mod(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_MOD, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `negate` of `int`. */
#define bf_int_negate(x) bf_at_int_negate(x, BF_HERE)
static inline bf_int bf_at_int_negate(bf_int x, bf_place place) {
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_INT_NEGATE, bf_arg_bf_int(x), bf_no_values_(), place));
}

/** Theta: `lt` of `int`. */
#define bf_int_lt(x, y) bf_at_int_lt(x, y, BF_HERE)
static inline bf_bool bf_at_int_lt(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_INT_LT, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `le` of `int`. */
#define bf_int_le(x, y) bf_at_int_le(x, y, BF_HERE)
static inline bf_bool bf_at_int_le(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_INT_LE, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `gt` of `int`. */
#define bf_int_gt(x, y) bf_at_int_gt(x, y, BF_HERE)
static inline bf_bool bf_at_int_gt(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_INT_GT, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `ge` of `int`. */
#define bf_int_ge(x, y) bf_at_int_ge(x, y, BF_HERE)
static inline bf_bool bf_at_int_ge(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_INT_GE, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `equal` of `int`. */
#define bf_int_equal(x, y) bf_at_int_equal(x, y, BF_HERE)
static inline bf_bool bf_at_int_equal(bf_int x, bf_int y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_int(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_INT_EQUAL, bf_arg_bf_int(x), bf_values_(arguments, 1), place));
}

/** Theta: `to` of `int`. */
#define bf_int_to(x, y) bf_at_int_to(x, y, BF_HERE)
static inline bf_iter_bf_int bf_at_int_to(bf_int x, bf_int y, bf_place place) {
  bf_iter_bf_int iter;
  iter.call = bf_iterate_(bf_ref_bf_int(x), BF_OPERATOR_INT_TO, 1, place);
  iter.call.arguments[0] = bf_arg_bf_int(y);
  return iter;
}

/** Theta: `to_by` of `int`. */
#define bf_int_to_by(x, y, z) bf_at_int_to_by(x, y, z, BF_HERE)
static inline bf_iter_bf_int bf_at_int_to_by(bf_int x, bf_int y, bf_int z, bf_place place) {
  bf_iter_bf_int iter;
  iter.call = bf_iterate_(bf_ref_bf_int(x), BF_OPERATOR_INT_TO_BY, 2, place);
  iter.call.arguments[0] = bf_arg_bf_int(y);
  iter.call.arguments[1] = bf_arg_bf_int(z);
  return iter;
}

/** Theta: `to_real` of `int`. */
#define bf_int_to_real(x) bf_at_int_to_real(x, BF_HERE)
static inline bf_real bf_at_int_to_real(bf_int x, bf_place place) {
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_INT_TO_REAL, bf_arg_bf_int(x), bf_no_values_(), place));
}

/** Theta: `unparse` of `int`. */
#define bf_int_unparse(x) bf_at_int_unparse(x, BF_HERE)
static inline bf_str bf_at_int_unparse(bf_int x, bf_place place) {
  return bf_of_bf_str(
      bf_operate(NULL, BF_OPERATOR_INT_UNPARSE, bf_arg_bf_int(x), bf_no_values_(), place));
}

/** Theta: `add` of `real`. */
#define bf_real_add(x, y) bf_at_real_add(x, y, BF_HERE)
static inline bf_real bf_at_real_add(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_REAL_ADD, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `sub` of `real`. */
#define bf_real_sub(x, y) bf_at_real_sub(x, y, BF_HERE)
static inline bf_real bf_at_real_sub(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_REAL_SUB, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `mul` of `real`. */
#define bf_real_mul(x, y) bf_at_real_mul(x, y, BF_HERE)
static inline bf_real bf_at_real_mul(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_REAL_MUL, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `div` of `real`. */
#define bf_real_div(x, y) bf_at_real_div(x, y, BF_HERE)
static inline bf_real bf_at_real_div(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_REAL_DIV, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `negate` of `real`. */
#define bf_real_negate(x) bf_at_real_negate(x, BF_HERE)
static inline bf_real bf_at_real_negate(bf_real x, bf_place place) {
  return bf_of_bf_real(
      bf_operate(NULL, BF_OPERATOR_REAL_NEGATE, bf_arg_bf_real(x), bf_no_values_(), place));
}

/** Theta: `lt` of `real`. */
#define bf_real_lt(x, y) bf_at_real_lt(x, y, BF_HERE)
static inline bf_bool bf_at_real_lt(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_REAL_LT, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `le` of `real`. */
#define bf_real_le(x, y) bf_at_real_le(x, y, BF_HERE)
static inline bf_bool bf_at_real_le(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_REAL_LE, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `gt` of `real`. */
#define bf_real_gt(x, y) bf_at_real_gt(x, y, BF_HERE)
static inline bf_bool bf_at_real_gt(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_REAL_GT, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `ge` of `real`. */
#define bf_real_ge(x, y) bf_at_real_ge(x, y, BF_HERE)
static inline bf_bool bf_at_real_ge(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_REAL_GE, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `equal` of `real`. */
#define bf_real_equal(x, y) bf_at_real_equal(x, y, BF_HERE)
static inline bf_bool bf_at_real_equal(bf_real x, bf_real y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_real(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_REAL_EQUAL, bf_arg_bf_real(x), bf_values_(arguments, 1), place));
}

/** Theta: `unparse` of `real`. */
#define bf_real_unparse(x) bf_at_real_unparse(x, BF_HERE)
static inline bf_str bf_at_real_unparse(bf_real x, bf_place place) {
  return bf_of_bf_str(
      bf_operate(NULL, BF_OPERATOR_REAL_UNPARSE, bf_arg_bf_real(x), bf_no_values_(), place));
}

/** Theta: `equal` of `char`. */
#define bf_char_equal(x, y) bf_at_char_equal(x, y, BF_HERE)
static inline bf_bool bf_at_char_equal(bf_char x, bf_char y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_char(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_CHAR_EQUAL, bf_arg_bf_char(x), bf_values_(arguments, 1), place));
}

/** Theta: `length` of `str`. */
#define bf_str_length(x) bf_at_str_length(x, BF_HERE)
static inline bf_int bf_at_str_length(bf_str x, bf_place place) {
  return bf_of_bf_int(
      bf_operate(NULL, BF_OPERATOR_STRING_LENGTH, bf_arg_bf_str(x), bf_no_values_(), place));
}

/** Theta: `concat` of `str`. */
#define bf_str_concat(x, y) bf_at_str_concat(x, y, BF_HERE)
static inline bf_str bf_at_str_concat(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_str(
      bf_operate(NULL, BF_OPERATOR_STRING_CONCAT, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

/** Theta: `lt` of `str`. */
#define bf_str_lt(x, y) bf_at_str_lt(x, y, BF_HERE)
static inline bf_bool bf_at_str_lt(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_STRING_LT, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

/** Theta: `le` of `str`. */
#define bf_str_le(x, y) bf_at_str_le(x, y, BF_HERE)
static inline bf_bool bf_at_str_le(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_STRING_LE, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

/** Theta: `gt` of `str`. */
#define bf_str_gt(x, y) bf_at_str_gt(x, y, BF_HERE)
static inline bf_bool bf_at_str_gt(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_STRING_GT, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

/** Theta: `ge` of `str`. */
#define bf_str_ge(x, y) bf_at_str_ge(x, y, BF_HERE)
static inline bf_bool bf_at_str_ge(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_STRING_GE, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

/** Theta: `equal` of `str`. */
#define bf_str_equal(x, y) bf_at_str_equal(x, y, BF_HERE)
static inline bf_bool bf_at_str_equal(bf_str x, bf_str y, bf_place place) {
  bf_value arguments[] = {bf_arg_bf_str(y)};
  return bf_of_bf_bool(
      bf_operate(NULL, BF_OPERATOR_STRING_EQUAL, bf_arg_bf_str(x), bf_values_(arguments, 1), place));
}

#endif /* __cplusplus */

#endif /* BIFROST_OPERATORS_H */
