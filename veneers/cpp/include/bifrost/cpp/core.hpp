/**
 * @file
 * Places, counted stubs and errors of the C++ veneer. Programs include the header that `bifrost veneer --lang cpp` has
 * generated.
 */

#ifndef BIFROST_CPP_CORE_HPP
#define BIFROST_CPP_CORE_HPP

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <bifrost/bifrost.h>

namespace bf {

/** The place of the call that uses it as a default argument. */
#if defined(__GNUC__) || (defined(_MSC_VER) && _MSC_VER >= 1926)
inline bf_place here(const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) noexcept {
  return bf_place{file, line};
}
#else
inline bf_place here() noexcept { return bf_place{nullptr, 0}; }
#endif

/** The value of `null`. */
using Nil = std::monostate;

/** Bytes. */
using Bytes = std::vector<std::uint8_t>;

/** A counted stub: the owner of one count of the library's. Copies are the same stub. */
class Stub {
public:
  Stub() noexcept = default;
  /** Takes a stub over, with its count. */
  explicit Stub(bf_ref ref) noexcept : ref_(ref) {}
  Stub(const Stub &other) noexcept : ref_(bf_retain(other.ref_)) {}
  Stub(Stub &&other) noexcept : ref_(std::exchange(other.ref_, bf_ref{nullptr, 0, 0})) {}
  Stub &operator=(Stub other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~Stub() {
    if (ref_.session != nullptr) bf_release(ref_);
  }

  bf_ref ref() const noexcept { return ref_; }
  bf_session *session() const noexcept { return ref_.session; }
  /** True if two stubs are known to be the same: one stub, or one object. */
  bool is_same(const Stub &other) const noexcept { return bf_same(ref_, other.ref_); }
  bf_value value() const noexcept { return bf_stub_value_(ref_); }

private:
  bf_ref ref_{nullptr, 0, 0};
};

/** A value that an exception carries. Objects are stubs where the call itself has signalled. */
using ErrorValue = std::variant<Nil, bool, std::int64_t, double, char32_t, std::string, Bytes, Stub>;

inline std::string to_string(bf_text text) { return text.length ? std::string(text.data, text.length) : std::string(); }

/** The failure of a call, a structure or a session. */
class Error : public std::runtime_error {
public:
  explicit Error(const bf_error *error) : std::runtime_error(bf_error_message(error)), status_(bf_error_status(error)) {
    // The root, whose exception a program handles.
    const bf_error *root = bf_error_root(error);
    if (root == nullptr) return;
    name_ = bf_error_name(root);
    call_ = bf_error_call(root);
    number_ = bf_error_number(root);
    place_ = bf_error_place(root);
    is_consequence_ = root != error;
    std::size_t count = 0;
    const std::uint32_t *rounds = bf_error_rounds(root, &count);
    rounds_.assign(rounds, rounds + count);
    bf_values values = bf_error_values(root);
    for (std::size_t i = 0; i < values.count; ++i) values_.push_back(value_of(values.items[i]));
    for (std::size_t i = 0; i < bf_error_parts(error); ++i) parts_.emplace_back(bf_error_part(error, i));
    for (const bf_error *at = bf_error_cause(error); at != nullptr; at = bf_error_cause(at)) ++causes_;
  }

  /** The kind of the failure from which it follows at last. */
  bf_status status() const noexcept { return status_; }
  /** The name of the exception, or of the missing method. */
  const std::string &signal() const noexcept { return name_; }
  /** The call that failed at first, as `DataBase.fetch`. */
  const std::string &call() const noexcept { return call_; }
  /** The number of an error of the server, or of the argument that failed. */
  std::uint32_t number() const noexcept { return number_; }
  /** The place where the program made the call that failed at first. */
  bf_place place() const noexcept { return place_; }
  /** The rounds of the loops around it, outermost first. */
  const std::vector<std::uint32_t> &rounds() const noexcept { return rounds_; }
  /** The values of the exception. */
  const std::vector<ErrorValue> &values() const noexcept { return values_; }
  /** True if the call was not run because another one had failed. */
  bool is_consequence() const noexcept { return is_consequence_; }
  /** The number of failures that it follows from. */
  std::size_t causes() const noexcept { return causes_; }
  /** The failures that one of the status BF_E_UNSEEN names. */
  const std::vector<Error> &parts() const noexcept { return parts_; }

  /** Takes the stubs of objects among the values, which the library gives for a call that has signalled itself. */
  void take_objects(bf_ref ref) {
    const bf_items *items = is_consequence_ ? nullptr : bf_signal_items(ref);
    bf_values values = bf_items_values(items);
    for (std::size_t i = 0; i < values.count && i < values_.size(); ++i) {
      if (values.items[i].tag == BF_VALUE_STUB) values_[i] = Stub(bf_retain(values.items[i].stub));
    }
    bf_items_free(ref.session, const_cast<bf_items *>(items));
  }

private:
  static ErrorValue value_of(const bf_value &value) {
    switch (value.tag) {
    case BF_VALUE_BOOL: return value.bool_;
    case BF_VALUE_INT: return value.int_;
    case BF_VALUE_REAL: return value.real;
    case BF_VALUE_CHAR: return static_cast<char32_t>(value.char_);
    case BF_VALUE_TEXT: return to_string(value.text);
    case BF_VALUE_BYTES: return Bytes(value.bytes.data, value.bytes.data + value.bytes.length);
    default: return Nil{};
    }
  }

  bf_status status_;
  std::string name_, call_;
  std::uint32_t number_ = 0;
  bf_place place_{nullptr, 0};
  std::vector<std::uint32_t> rounds_;
  std::vector<ErrorValue> values_;
  std::vector<Error> parts_;
  std::size_t causes_ = 0;
  bool is_consequence_ = false;
};

/** The call, or the one from which it follows, has signalled an exception. Generated classes are below it. */
class Signal : public Error {
public:
  using Error::Error;
  explicit Signal(const Error &error) : Error(error) {}
};

/** The server refused the call. */
class Refused : public Error {
public:
  explicit Refused(const Error &error) : Error(error) {}
};

/** Failures that the program was not told of before. */
class Unseen : public Error {
public:
  explicit Unseen(const Error &error) : Error(error) {}
};

/** The connection is gone. */
class Closed : public Error {
public:
  explicit Closed(const Error &error) : Error(error) {}
};

/** There is no session. */
class ConnectError : public Error {
public:
  explicit ConnectError(const Error &error) : Error(error) {}
};

/** The library was used in a way that makes no sense, or the server lacks the method. */
class Misuse : public Error {
public:
  explicit Misuse(const Error &error) : Error(error) {}
};

/** The class of an exception of the program: throws it if the values fit. */
struct SignalClass {
  const char *name;
  void (*raise)(const Error &);
};

/** The exceptions of a program, for its sessions. */
struct Signals {
  const SignalClass *classes;
  std::size_t count;
};

/** The result is no value of the type that the stubs say. */
class WrongKind : public std::logic_error {
public:
  WrongKind() : std::logic_error("a result does not have the type of its heading") {}
};

/** Throws an exception as one of a class, if its values fit: another heading may have the same name. */
template <class S> void raise_as(const Error &error) {
  S made(error);
  if (S::Values::fits(error.values())) throw made;
}

/** Returns the values of an exception, which came with others if there are none. */
template <class T> const T &expect_values(const std::shared_ptr<const T> &values) {
  if (values == nullptr) throw WrongKind();
  return *values;
}

/** The state of this layer that a session of the library keeps. */
struct Core;

[[noreturn]] inline void raise(const Error &error, const Signals *signals) {
  switch (error.status()) {
  case BF_E_SIGNAL:
    for (std::size_t i = 0; signals != nullptr && i < signals->count; ++i) {
      if (error.signal() == signals->classes[i].name) signals->classes[i].raise(error);
    }
    throw Signal(error);
  case BF_E_REFUSED:
  case BF_E_NOT_REACHED: throw Refused(error);
  case BF_E_UNSEEN: throw Unseen(error);
  case BF_E_CLOSED: throw Closed(error);
  case BF_E_CONNECT: throw ConnectError(error);
  default: throw Misuse(error);
  }
}

/** A value, or the error in its place. */
template <class T> class expected {
public:
  expected(T value) : either_(std::in_place_index<0>, std::move(value)) {}
  expected(Error error) : either_(std::in_place_index<1>, std::move(error)) {}
  bool has_value() const noexcept { return either_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  const T &value() const {
    if (!has_value()) throw std::get<1>(either_);
    return std::get<0>(either_);
  }
  const T &operator*() const { return std::get<0>(either_); }
  const T *operator->() const { return &std::get<0>(either_); }
  const Error &error() const { return std::get<1>(either_); }

private:
  std::variant<T, Error> either_;
};

} // namespace bf

#endif // BIFROST_CPP_CORE_HPP
