/**
 * @file
 * Types, arguments and values that came, of the C++ veneer.
 */

#ifndef BIFROST_CPP_VALUE_HPP
#define BIFROST_CPP_VALUE_HPP

#include <array>
#include <deque>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <type_traits>

#include "core.hpp"

namespace bf {

template <class T> class Promise;
template <class T> class Cell;

/** A type of Theta as C++ has it: `Future` stands for one while its value is not known, `Plain` is what comes. */
template <class T> struct Element {
  using Future = T;
  using Plain = typename T::Plain;
  static const bf_type *type() { return T::bf_type_(); }
};

#define BF_BASIC_(Type, constant)                                                                                      \
  template <> struct Element<Type> {                                                                                   \
    using Future = Promise<Type>;                                                                                      \
    using Plain = Type;                                                                                                \
    static const bf_type *type() { return &constant; }                                                                 \
  };

BF_BASIC_(Nil, bf_type_bf_nil)
BF_BASIC_(bool, bf_type_bf_bool)
BF_BASIC_(std::int64_t, bf_type_bf_int)
BF_BASIC_(double, bf_type_bf_real)
BF_BASIC_(char32_t, bf_type_bf_char)
BF_BASIC_(std::string, bf_type_bf_str)
BF_BASIC_(Bytes, bf_type_bf_bytes)

template <class T> using Future = typename Element<T>::Future;
template <class T> using Plain = typename Element<T>::Plain;

template <class... T> struct Types {
  static bf_types get() {
    static const bf_type *const types[] = {Element<T>::type()...};
    return bf_types_(types, sizeof...(T));
  }
};
template <> struct Types<> {
  static bf_types get() { return bf_types_(nullptr, 0); }
};

/** True if `Sub` is a type below `Super`. Generated headers say so for their types. */
template <class Sub, class Super> struct Below : std::is_same<Sub, Super> {};

/** For `Sub` that is below `Super`, and another type. */
template <class Sub, class Super>
using EnableBelow = std::enable_if_t<!std::is_same_v<Sub, Super> && Below<Sub, Super>::value>;

/** An argument as it is recorded: a value or a stub, and the items of one that has items. */
class Argument {
public:
  explicit Argument(bf_value value) : value_(value) {}

  /** Makes an argument with items. */
  static Argument items(std::vector<Argument> parts) {
    auto kept = std::make_shared<Items>();
    kept->values.reserve(parts.size());
    for (const Argument &part : parts) kept->values.push_back(part.value_);
    kept->parts = std::move(parts);
    bf_value value;
    value.tag = BF_VALUE_ITEMS;
    value.items.items = kept->values.data();
    value.items.count = kept->values.size();
    Argument made(value);
    made.items_ = std::move(kept);
    return made;
  }

  /** Makes an argument for a oneof or maybe: the number of a tag, and its value. */
  static Argument choice(std::int64_t tag, Argument value) {
    bf_value number;
    number.tag = BF_VALUE_INT;
    number.int_ = tag;
    std::vector<Argument> parts;
    parts.emplace_back(number);
    parts.push_back(std::move(value));
    return items(std::move(parts));
  }

  static Argument nil() {
    bf_value value;
    value.tag = BF_VALUE_NIL;
    value.int_ = 0;
    return Argument(value);
  }

  static Argument text(std::string_view text) {
    bf_value value;
    value.tag = BF_VALUE_TEXT;
    value.text = bf_text{text.data(), text.size()};
    return Argument(value);
  }

  static Argument bytes(const void *data, std::size_t length) {
    bf_value value;
    value.tag = BF_VALUE_BYTES;
    value.bytes = bf_text{static_cast<const char *>(data), length};
    return Argument(value);
  }

  const bf_value &value() const noexcept { return value_; }
  /** The items behind it, which a copy shares. */
  const std::shared_ptr<void> kept() const { return items_; }

private:
  struct Items {
    std::vector<bf_value> values;
    std::vector<Argument> parts;
  };
  bf_value value_;
  std::shared_ptr<Items> items_;
};

/** Makes a C++ value an argument where a `T` is wanted. Generated headers add their types. */
template <class T, class From, class = void> struct Pass;

/** An argument where a `T` is wanted: a value or promise of it, or a stub of a subtype. Implicit on purpose; it lives
 * as long as the call runs. It keeps the place, for operators. */
template <class T> class Arg {
public:
  template <class From, class = decltype(Pass<T, std::decay_t<const From>>::argument(std::declval<const From &>()))>
  Arg(const From &from, bf_place at = here())
      : argument_(Pass<T, std::decay_t<const From>>::argument(from)), place_(at) {}
  /** Elements of a sequence, or the parts of a struct. */
  template <class Item,
            class = decltype(Pass<T, std::vector<Item>>::argument(std::declval<const std::vector<Item> &>()))>
  Arg(std::initializer_list<Item> items, bf_place at = here())
      : argument_(Pass<T, std::vector<Item>>::argument(std::vector<Item>(items))), place_(at) {}
  const bf_value &value() const noexcept { return argument_.value(); }
  const Argument &argument() const noexcept { return argument_; }
  bf_place place() const noexcept { return place_; }

private:
  Argument argument_;
  bf_place place_;
};

template <class T, class From> Argument pass(const From &from) {
  return Pass<T, std::decay_t<const From>>::argument(from);
}

template <class T> struct Pass<T, Promise<T>> {
  static Argument argument(const Promise<T> &promise) { return Argument(promise.stub().value()); }
};
template <class T> struct Pass<T, Argument> {
  static Argument argument(const Argument &argument) { return argument; }
};
template <class T> struct Pass<T, Arg<T>> {
  static Argument argument(const Arg<T> &arg) { return arg.argument(); }
};
/** An object, where its type or one above it is wanted. */
template <class T, class From>
struct Pass<T, From,
            std::enable_if_t<Below<From, T>::value && std::is_class_v<From> &&
                             std::is_same_v<typename From::IsObject, std::true_type>>> {
  static Argument argument(const From &object) { return Argument(object.stub().value()); }
};

template <> struct Pass<Nil, Nil> {
  static Argument argument(Nil) { return Argument::nil(); }
};
template <> struct Pass<bool, bool> {
  static Argument argument(bool value) {
    bf_value made;
    made.tag = BF_VALUE_BOOL;
    made.bool_ = value;
    return Argument(made);
  }
};
template <class From>
struct IsInteger : std::bool_constant<std::is_integral_v<From> && !std::is_same_v<From, bool> &&
                                      !std::is_same_v<From, char> && !std::is_same_v<From, char16_t> &&
                                      !std::is_same_v<From, char32_t> && !std::is_same_v<From, wchar_t> &&
                                      (std::is_signed_v<From> || sizeof(From) < sizeof(std::int64_t))> {};
template <class From> struct Pass<std::int64_t, From, std::enable_if_t<IsInteger<From>::value>> {
  static Argument argument(From value) {
    bf_value made;
    made.tag = BF_VALUE_INT;
    made.int_ = value;
    return Argument(made);
  }
};
template <class From>
struct Pass<double, From, std::enable_if_t<std::is_floating_point_v<From> || IsInteger<From>::value>> {
  static Argument argument(From value) {
    bf_value made;
    made.tag = BF_VALUE_REAL;
    made.real = static_cast<double>(value);
    return Argument(made);
  }
};
template <> struct Pass<char32_t, char32_t> {
  static Argument argument(char32_t value) {
    bf_value made;
    made.tag = BF_VALUE_CHAR;
    made.char_ = value;
    return Argument(made);
  }
};
template <class From>
struct Pass<std::string, From,
            std::enable_if_t<std::is_convertible_v<const From &, std::string_view> && !std::is_same_v<From, Nil>>> {
  static Argument argument(const From &text) { return Argument::text(std::string_view(text)); }
};
template <> struct Pass<Bytes, Bytes> {
  static Argument argument(const Bytes &bytes) { return Argument::bytes(bytes.data(), bytes.size()); }
};

template <class T> struct IsList : std::false_type {};
template <class T> struct IsList<std::vector<T>> : std::true_type {};
template <class T, std::size_t N> struct IsList<std::array<T, N>> : std::true_type {};
template <class T> struct IsList<std::initializer_list<T>> : std::true_type {};
/** For lists of elements that can be passed where a `T` is wanted. */
template <class T, class List>
using EnableElements = std::enable_if_t<
    IsList<List>::value,
    std::void_t<decltype(Pass<T, std::decay_t<decltype(*std::begin(std::declval<const List &>()))>>::argument)>>;
/** For values that can be passed where a `T` is wanted. */
template <class T, class From> using EnablePass = std::void_t<decltype(Pass<T, From>::argument)>;

/** Makes the argument of a sequence with elements of type `T`. */
template <class T, class List> Argument pass_elements(const List &list) {
  using Item = std::decay_t<decltype(*std::begin(list))>;
  std::vector<Argument> parts;
  parts.reserve(static_cast<std::size_t>(std::distance(std::begin(list), std::end(list))));
  for (const auto &item : list) parts.push_back(Pass<T, Item>::argument(item));
  return Argument::items(std::move(parts));
}

/** Reads values of a type that came. */
template <class T, class = void> struct Read;

inline void expect(bool holds) {
  if (!holds) throw WrongKind();
}
inline const bf_value *expect_items(const bf_value &value, std::size_t count) {
  expect(value.tag == BF_VALUE_ITEMS && value.items.count == count);
  return value.items.items;
}

template <> struct Read<Nil> {
  static Nil from(const bf_value &value) {
    expect(value.tag == BF_VALUE_NIL);
    return {};
  }
};
template <> struct Read<bool> {
  static bool from(const bf_value &value) {
    expect(value.tag == BF_VALUE_BOOL);
    return value.bool_;
  }
};
template <> struct Read<std::int64_t> {
  static std::int64_t from(const bf_value &value) {
    expect(value.tag == BF_VALUE_INT);
    return value.int_;
  }
};
template <> struct Read<double> {
  static double from(const bf_value &value) {
    expect(value.tag == BF_VALUE_REAL);
    return value.real;
  }
};
template <> struct Read<char32_t> {
  static char32_t from(const bf_value &value) {
    expect(value.tag == BF_VALUE_CHAR);
    return static_cast<char32_t>(value.char_);
  }
};
template <> struct Read<std::string> {
  static std::string from(const bf_value &value) {
    expect(value.tag == BF_VALUE_TEXT);
    return to_string(value.text);
  }
};
template <> struct Read<Bytes> {
  static Bytes from(const bf_value &value) {
    expect(value.tag == BF_VALUE_BYTES);
    return Bytes(value.bytes.data, value.bytes.data + value.bytes.length);
  }
};
template <class T> struct Read<std::vector<T>> {
  static std::vector<T> from(const bf_value &value) {
    expect(value.tag == BF_VALUE_ITEMS);
    std::vector<T> all;
    all.reserve(value.items.count);
    for (std::size_t i = 0; i < value.items.count; ++i) all.push_back(Read<T>::from(value.items.items[i]));
    return all;
  }
};
template <class T> struct Read<std::optional<T>> {
  static std::optional<T> from(const bf_value &value) {
    const bf_value *items = expect_items(value, 2);
    switch (Read<std::int64_t>::from(items[0])) {
    case 0: return std::nullopt;
    case 1: return Read<T>::from(items[1]);
    default: throw WrongKind();
    }
  }
};
/** Pairs of a map: its keys and values in turn. */
template <class K, class V> struct Read<std::vector<std::pair<K, V>>> {
  static std::vector<std::pair<K, V>> from(const bf_value &value) {
    expect(value.tag == BF_VALUE_ITEMS && value.items.count % 2 == 0);
    std::vector<std::pair<K, V>> all;
    const bf_value *items = value.items.items;
    for (std::size_t i = 0; i < value.items.count; i += 2) {
      all.emplace_back(Read<K>::from(items[i]), Read<V>::from(items[i + 1]));
    }
    return all;
  }
};
/** An object is a stub. */
template <class T> struct Read<T, std::enable_if_t<std::is_same_v<typename T::IsObject, std::true_type>>> {
  static T from(const bf_value &value) {
    expect(value.tag == BF_VALUE_STUB);
    return T(Stub(bf_retain(value.stub)));
  }
};

/** Items that came, until the end of a block. */
class Came {
public:
  Came(bf_session *session, const bf_items *items) : session_(session), items_(items) {}
  Came(const Came &) = delete;
  Came &operator=(const Came &) = delete;
  ~Came() { bf_items_free(session_, const_cast<bf_items *>(items_)); }
  bf_values values() const { return bf_items_values(items_); }
  std::size_t rows() const { return bf_items_rows(items_); }
  std::size_t columns() const { return bf_items_columns(items_); }

private:
  bf_session *session_;
  const bf_items *items_;
};

} // namespace bf

#endif // BIFROST_CPP_VALUE_HPP
