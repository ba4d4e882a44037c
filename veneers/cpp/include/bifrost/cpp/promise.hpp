/**
 * @file
 * Promises, objects, cells, iterators and calls of the C++ veneer.
 */

#ifndef BIFROST_CPP_PROMISE_HPP
#define BIFROST_CPP_PROMISE_HPP

#include <functional>

#include "value.hpp"

namespace bf {

class Executor;

/** The state of this layer that a session of the library keeps. */
struct Core : std::enable_shared_from_this<Core> {
  Core() = default;
  Core(const bf_interface *interface_, const Signals *signals_) : interface(interface_), signals(signals_) {}
  const bf_interface *interface = nullptr;
  const Signals *signals = nullptr;
  /** The executor of coroutines, and those that wait: see async.hpp. */
  Executor *executor = nullptr;
  std::vector<std::function<bool()>> waiting;
  bool is_posted = false, is_polled = false;
};

inline Core *core_of(bf_session *session) { return session ? static_cast<Core *>(bf_data(session)) : nullptr; }

/** Throws the failure of which the library has told with a status; `ref` is the stub whose claim told it. */
[[noreturn]] inline void fail(bf_session *session, bf_ref ref = bf_ref{nullptr, 0, 0}) {
  const bf_error *last = bf_error_last(session);
  if (last == nullptr) throw std::logic_error("a stub that is none was claimed");
  Error error(last);
  if (ref.session != nullptr && error.status() == BF_E_SIGNAL) error.take_objects(ref);
  Core *core = core_of(session);
  raise(error, core ? core->signals : nullptr);
}

/** Returns the last failure as a value. */
inline Error last_error(bf_session *session, bf_ref ref) {
  Error error(bf_error_last(session));
  if (error.status() == BF_E_SIGNAL) error.take_objects(ref);
  return error;
}

/** A base of all stubs of objects. */
class Object {
public:
  using IsObject = std::true_type;
  explicit Object(Stub stub) noexcept : stub_(std::move(stub)) {}
  const Stub &stub() const noexcept { return stub_; }
  /** Waits until the object is there; throws the failure of the call that makes it. */
  void resolve(bf_place at = here()) const {
    if (bf_claim(stub_.ref(), at) != BF_OK) fail(stub_.session(), stub_.ref());
  }
  /** True if two stubs are known to be the same object. */
  bool is_same(const Object &other) const noexcept { return stub_.is_same(other.stub_); }
  /** The same object as one of another type; wrong_type is signalled if it is none. */
  template <class T> Future<T> as(bf_place at = here()) const {
    return Future<T>(Stub(bf_as(stub_.ref(), Element<T>::type(), at)));
  }
  /** True if the object has a type. */
  template <class T> Promise<bool> is(bf_place at = here()) const;

private:
  Stub stub_;
};

/** An object of any type. */
class Any : public Object {
public:
  using Object::Object;
  using Plain = Any;
  static const bf_type *bf_type_() { return &bf_type_bf_any; }
  /** Every object is one. */
  template <class T, class = std::enable_if_t<std::is_base_of_v<Object, T> && !std::is_same_v<T, Any>>>
  Any(const T &object) : Object(object.stub()) {}
};
template <class T> struct Below<T, Any> : std::is_base_of<Object, T> {};
template <> struct Pass<Any, Promise<Bytes>>;

/** Kept arguments, of a call that is recorded later. */
class Kept {
public:
  explicit Kept(const Argument &argument) : kept_(argument.kept()), value_(argument.value()) {
    switch (value_.tag) {
    case BF_VALUE_STUB: stub_ = Stub(bf_retain(value_.stub)); break;
    case BF_VALUE_TEXT:
    case BF_VALUE_BYTES:
      text_ = std::make_shared<std::string>(to_string(value_.text));
      value_.text.data = text_->data();
      break;
    default: break;
    }
  }
  const bf_value &value() const { return value_; }

private:
  std::shared_ptr<void> kept_;
  std::shared_ptr<std::string> text_;
  Stub stub_;
  bf_value value_;
};

/** A call of an iterator that yields `T...` at each step. It does nothing by itself: give it to `foreach`. */
template <class... T> class [[nodiscard]] Iter {
public:
  /** Makes a call of an iterator of an object. */
  template <class... A>
  static Iter of_method(const Stub &on, std::uint32_t number, bf_place at, const A &...arguments) {
    Iter iter(number, at, {Kept(arguments.argument())...});
    iter.on_ = on;
    return iter;
  }
  /** Makes a call of an iterator that is a routine. */
  template <class... A>
  static Iter of_routine(bf_session *session, const bf_interface *interface, std::uint32_t number, bf_place at,
                         const A &...arguments) {
    Iter iter(number, at, {Kept(arguments.argument())...});
    iter.session_ = session;
    iter.interface_ = interface;
    return iter;
  }
  /** Opens the loop, and returns the stubs of the values of a step. */
  std::tuple<Future<T>...> open(bf_session *session, bf_place at) const {
    bf_iterator call{};
    call.on = on_.ref();
    call.session = session_;
    call.interface = interface_;
    call.number = number_;
    call.count = static_cast<std::uint32_t>(arguments_.size());
    for (std::size_t i = 0; i < arguments_.size() && i < BF_ITERATOR_ARGUMENTS_MAX; ++i) {
      call.arguments[i] = arguments_[i].value();
    }
    call.place = place_;
    std::array<bf_ref, sizeof...(T)> refs{};
    bf_foreach(session, &call, bf_refs_(refs.data(), refs.size()), at);
    return take(refs, std::index_sequence_for<T...>());
  }

private:
  Iter(std::uint32_t number, bf_place at, std::vector<Kept> arguments)
      : number_(number), arguments_(std::move(arguments)), place_(at) {}
  template <std::size_t... I>
  static std::tuple<Future<T>...> take(const std::array<bf_ref, sizeof...(T)> &refs, std::index_sequence<I...>) {
    return std::tuple<Future<T>...>(Future<T>(Stub(refs[I]))...);
  }

  Stub on_;
  bf_session *session_ = nullptr;
  const bf_interface *interface_ = nullptr;
  std::uint32_t number_;
  std::vector<Kept> arguments_;
  bf_place place_;
};

// Calls, of which generated methods are made.

template <class... A> std::array<bf_value, sizeof...(A) + 1> values_of(const A &...arguments) {
  return {arguments.value()..., bf_stub_value_(bf_ref{nullptr, 0, 0})};
}

/** Records a call with one result. */
template <class R, class... A> R call(const Stub &on, std::uint32_t method, bf_place at, const A &...arguments) {
  const auto values = values_of(arguments...);
  return R(Stub(bf_call(on.ref(), method, bf_values_(values.data(), sizeof...(A)), at)));
}

template <class R> struct Results;
template <class... R> struct Results<std::tuple<R...>> {
  using Refs = std::array<bf_ref, sizeof...(R)>;
  template <std::size_t... I> static std::tuple<R...> take(const Refs &refs, std::index_sequence<I...>) {
    return std::tuple<R...>(R(Stub(refs[I]))...);
  }
  static std::tuple<R...> take(const Refs &refs) { return take(refs, std::index_sequence_for<R...>()); }
};

/** Records a call with several results: `R` is a tuple. */
template <class R, class... A> R call_many(const Stub &on, std::uint32_t method, bf_place at, const A &...arguments) {
  const auto values = values_of(arguments...);
  typename Results<R>::Refs refs{};
  bf_call_many(on.ref(), method, bf_values_(values.data(), sizeof...(A)), bf_refs_(refs.data(), refs.size()), at);
  return Results<R>::take(refs);
}

/** Records a call of a routine: `R` is a tuple. */
template <class R, class... A>
R call_routine(bf_session *session, const bf_interface &interface, std::uint32_t routine, bf_place at,
               const A &...arguments) {
  const auto values = values_of(arguments...);
  typename Results<R>::Refs refs{};
  bf_call_routine(session, &interface, routine, bf_values_(values.data(), sizeof...(A)),
                  bf_refs_(refs.data(), refs.size()), at);
  return Results<R>::take(refs);
}

/** Records a message to an actor that nobody awaits. */
template <class... A> void send(const Stub &on, std::uint32_t method, bf_place at, const A &...arguments) {
  const auto values = values_of(arguments...);
  bf_send(on.ref(), method, bf_values_(values.data(), sizeof...(A)), at);
}

// Claims of basic values.

template <class T> struct Claim {
  /** Claims a value with items. */
  static bf_status claim(bf_ref ref, std::optional<T> &value, bf_place at) {
    const bf_items *items = nullptr;
    bf_status status = bf_claim_items(ref, &items, at);
    if (status != BF_OK) return status;
    Came came(ref.session, items);
    bf_value whole;
    whole.tag = BF_VALUE_ITEMS;
    whole.items.items = came.values().items;
    whole.items.count = came.values().count;
    value.emplace(Read<T>::from(whole));
    return status;
  }
};

#define BF_CLAIM_OF_(Type, Raw, function, convert)                                                                     \
  template <> struct Claim<Type> {                                                                                     \
    static bf_status claim(bf_ref ref, std::optional<Type> &value, bf_place at) {                                      \
      Raw raw{};                                                                                                       \
      bf_status status = function(ref, &raw, at);                                                                      \
      if (status == BF_OK) value.emplace(convert);                                                                     \
      return status;                                                                                                   \
    }                                                                                                                  \
  };

BF_CLAIM_OF_(bool, bool, bf_claim_bool, raw)
BF_CLAIM_OF_(std::int64_t, std::int64_t, bf_claim_int, raw)
BF_CLAIM_OF_(double, double, bf_claim_real, raw)
BF_CLAIM_OF_(char32_t, std::uint32_t, bf_claim_char, static_cast<char32_t>(raw))
BF_CLAIM_OF_(std::string, bf_text, bf_claim_text, to_string(raw))
BF_CLAIM_OF_(Bytes, bf_text, bf_claim_bytes, Bytes(raw.data, raw.data + raw.length))
template <> struct Claim<Nil> {
  static bf_status claim(bf_ref ref, std::optional<Nil> &value, bf_place at) {
    bf_status status = bf_claim(ref, at);
    if (status == BF_OK) value.emplace();
    return status;
  }
};

/** The parts that all promises have. */
template <class T> class PromiseBase {
public:
  explicit PromiseBase(Stub stub) noexcept : stub_(std::move(stub)) {}
  const Stub &stub() const noexcept { return stub_; }

  /** Returns the value. Flushes the session if it is not known yet. Throws the failure of the call, or failures that no
   * other claim can tell. */
  T claim(bf_place at = here()) const {
    std::optional<T> value;
    if (Claim<T>::claim(stub_.ref(), value, at) != BF_OK) fail(stub_.session(), stub_.ref());
    return *std::move(value);
  }

  /** As `claim`, with the failure as a value. */
  expected<T> try_claim(bf_place at = here()) const {
    std::optional<T> value;
    if (Claim<T>::claim(stub_.ref(), value, at) != BF_OK) return last_error(stub_.session(), stub_.ref());
    return *std::move(value);
  }

  /** True if the value, or the failure, is known without waiting. */
  bool is_known(bf_place at = here()) const { return bf_peek(stub_.ref(), at) != BF_PENDING; }

  // A promise is no condition, and has no conversion to bool, not even a deleted one: use `if_` of the session, `and_`
  // and `or_`.
  template <class U> friend void operator&&(const PromiseBase &, const U &) = delete;
  template <class U> friend void operator||(const PromiseBase &, const U &) = delete;

private:
  Stub stub_;
};

/** The value that a call will have returned. It can be an argument or a receiver of further calls before that. */
template <class T> class Promise : public PromiseBase<T> {
public:
  using PromiseBase<T>::PromiseBase;
};

template <class R, class... A> R operate(const Stub &on, std::uint32_t operator_, bf_place at, const A &...arguments) {
  const auto values = values_of(arguments...);
  bf_values list = bf_values_(values.data(), sizeof...(A));
  return R(Stub(bf_operate(on.session(), operator_, on.value(), list, at)));
}
template <class R, class L> R operate_on_value(const Arg<L> &left, std::uint32_t operator_, const Stub &right) {
  bf_value argument = right.value();
  bf_place at = left.place();
  return R(Stub(bf_operate(right.session(), operator_, left.value(), bf_values_(&argument, 1), at)));
}

/** A promise with the place of an operator that has no other operand. */
template <class T> struct Placed {
  const Promise<T> &promise;
  bf_place at;
  Placed(const Promise<T> &promise_, bf_place at_ = here()) : promise(promise_), at(at_) {}
};

#define BF_BINARY_(op, T, R, constant)                                                                                 \
  friend Promise<R> operator op(const Promise &left, const Arg<T> &right) {                                            \
    return operate<Promise<R>>(left.stub(), constant, right.place(), right);                                           \
  }                                                                                                                    \
  template <class L, class = std::enable_if_t<!std::is_base_of_v<Promise, L>>,                                         \
            class = decltype(Pass<T, std::decay_t<const L>>::argument(std::declval<const L &>()))>                     \
  friend Promise<R> operator op(const L &left, const Promise &right) {                                                 \
    return operate_on_value<Promise<R>>(Arg<T>(left), constant, right.stub());                                         \
  }

#define BF_COMPARISONS_(T, KIND)                                                                                       \
  BF_BINARY_(<, T, bool, BF_OPERATOR_##KIND##_LT)                                                                      \
  BF_BINARY_(<=, T, bool, BF_OPERATOR_##KIND##_LE)                                                                     \
  BF_BINARY_(>, T, bool, BF_OPERATOR_##KIND##_GT)                                                                      \
  BF_BINARY_(>=, T, bool, BF_OPERATOR_##KIND##_GE)

#define BF_EQUALITY_(T, KIND)                                                                                          \
  friend Promise<bool> operator==(const Promise &left, const Arg<T> &right) {                                          \
    return operate<Promise<bool>>(left.stub(), BF_OPERATOR_##KIND##_EQUAL, right.place(), right);                      \
  }                                                                                                                    \
  friend Promise<bool> operator!=(const Promise &left, const Arg<T> &right) {                                          \
    Promise<bool> equal = operate<Promise<bool>>(left.stub(), BF_OPERATOR_##KIND##_EQUAL, right.place(), right);       \
    return operate<Promise<bool>>(equal.stub(), BF_OPERATOR_BOOL_NOT, right.place());                                  \
  }

template <> class Promise<bool> : public PromiseBase<bool> {
public:
  using PromiseBase<bool>::PromiseBase;
  friend Promise operator!(const Placed<bool> &x) {
    return operate<Promise>(x.promise.stub(), BF_OPERATOR_BOOL_NOT, x.at);
  }
  BF_EQUALITY_(bool, BOOL)
  /** True if both hold. The other is computed at the server, and only if this one holds. */
  template <class F> Promise and_(F other, bf_place at = here()) const;
  /** True if either holds. The other is computed at the server, and only if this one does not hold. */
  template <class F> Promise or_(F other, bf_place at = here()) const;

private:
  template <class F> Promise decide(const Promise &test, F &other, bf_place at) const;
};

template <> class Promise<std::int64_t> : public PromiseBase<std::int64_t> {
public:
  using PromiseBase<std::int64_t>::PromiseBase;
  BF_BINARY_(+, std::int64_t, std::int64_t, BF_OPERATOR_INT_ADD)
  BF_BINARY_(-, std::int64_t, std::int64_t, BF_OPERATOR_INT_SUB)
  BF_BINARY_(*, std::int64_t, std::int64_t, BF_OPERATOR_INT_MUL)
  BF_BINARY_(/, std::int64_t, std::int64_t, BF_OPERATOR_INT_DIV)
  BF_BINARY_(%, std::int64_t, std::int64_t, BF_OPERATOR_INT_MOD)
  BF_COMPARISONS_(std::int64_t, INT)
  BF_EQUALITY_(std::int64_t, INT)
  friend Promise operator-(const Placed<std::int64_t> &x) {
    return operate<Promise>(x.promise.stub(), BF_OPERATOR_INT_NEGATE, x.at);
  }
  /** The number as a real. */
  Promise<double> to_real(bf_place at = here()) const;
  /** The number as a text. */
  Promise<std::string> unparse(bf_place at = here()) const;
  /** The numbers from this one up to a limit. */
  Iter<std::int64_t> to(const Arg<std::int64_t> &limit, bf_place at = here()) const {
    return Iter<std::int64_t>::of_method(stub(), bf_operator_method(stub().session(), BF_OPERATOR_INT_TO), at, limit);
  }
};

template <> class Promise<double> : public PromiseBase<double> {
public:
  using PromiseBase<double>::PromiseBase;
  BF_BINARY_(+, double, double, BF_OPERATOR_REAL_ADD)
  BF_BINARY_(-, double, double, BF_OPERATOR_REAL_SUB)
  BF_BINARY_(*, double, double, BF_OPERATOR_REAL_MUL)
  BF_BINARY_(/, double, double, BF_OPERATOR_REAL_DIV)
  BF_COMPARISONS_(double, REAL)
  BF_EQUALITY_(double, REAL)
  friend Promise operator-(const Placed<double> &x) {
    return operate<Promise>(x.promise.stub(), BF_OPERATOR_REAL_NEGATE, x.at);
  }
  /** The number as a text. */
  Promise<std::string> unparse(bf_place at = here()) const;
};

template <> class Promise<char32_t> : public PromiseBase<char32_t> {
public:
  using PromiseBase<char32_t>::PromiseBase;
  BF_EQUALITY_(char32_t, CHAR)
};

template <> class Promise<std::string> : public PromiseBase<std::string> {
public:
  using PromiseBase<std::string>::PromiseBase;
  BF_BINARY_(+, std::string, std::string, BF_OPERATOR_STRING_CONCAT)
  BF_COMPARISONS_(std::string, STRING)
  BF_EQUALITY_(std::string, STRING)
  /** The number of characters. */
  Promise<std::int64_t> length(bf_place at = here()) const {
    return operate<Promise<std::int64_t>>(stub(), BF_OPERATOR_STRING_LENGTH, at);
  }
};

inline Promise<double> Promise<std::int64_t>::to_real(bf_place at) const {
  return operate<Promise<double>>(stub(), BF_OPERATOR_INT_TO_REAL, at);
}
inline Promise<std::string> Promise<std::int64_t>::unparse(bf_place at) const {
  return operate<Promise<std::string>>(stub(), BF_OPERATOR_INT_UNPARSE, at);
}
inline Promise<std::string> Promise<double>::unparse(bf_place at) const {
  return operate<Promise<std::string>>(stub(), BF_OPERATOR_REAL_UNPARSE, at);
}
template <class T> Promise<bool> Object::is(bf_place at) const {
  return Promise<bool>(Stub(bf_is(stub_.ref(), Element<T>::type(), at)));
}

/** Bytes: a promise with the methods of the built-in type. */
template <> class Promise<Bytes> : public PromiseBase<Bytes> {
public:
  using PromiseBase<Bytes>::PromiseBase;
  Promise<std::int64_t> length(bf_place at = here()) const { return of<Promise<std::int64_t>>(0, at); }
  Promise<std::int64_t> fetch(const Arg<std::int64_t> &i, bf_place at = here()) const {
    return of<Promise<std::int64_t>>(1, at, i);
  }
  Promise concat(const Arg<Bytes> &x, bf_place at = here()) const { return of<Promise>(2, at, x); }
  Promise slice(const Arg<std::int64_t> &from, const Arg<std::int64_t> &count, bf_place at = here()) const {
    return of<Promise>(3, at, from, count);
  }
  Promise<std::string> to_string(bf_place at = here()) const { return of<Promise<std::string>>(4, at); }
  Promise<bool> equal(const Arg<Bytes> &x, bf_place at = here()) const { return of<Promise<bool>>(5, at, x); }

private:
  template <class R, class... A> R of(std::uint32_t method, bf_place at, const A &...arguments) const {
    return bf::call<R>(stub(), bf_builtin_method(stub().session(), 2, method), at, arguments...);
  }
};

/** Objects by their names. */
class Directory : public Object {
public:
  using Object::Object;
  using Plain = Directory;
  static const bf_type *bf_type_() { return &bf_type_bf_directory; }
  Any lookup(const Arg<std::string> &name, bf_place at = here()) const {
    return bf::call<Any>(stub(), of(0), at, name);
  }
  Promise<Nil> insert(const Arg<std::string> &name, const Arg<Any> &v, bf_place at = here()) const {
    return bf::call<Promise<Nil>>(stub(), of(1), at, name, v);
  }
  Promise<Nil> remove(const Arg<std::string> &name, bf_place at = here()) const {
    return bf::call<Promise<Nil>>(stub(), of(2), at, name);
  }
  Iter<std::string> names(bf_place at = here()) const { return Iter<std::string>::of_method(stub(), of(3), at); }
  /** Each name with the name of its object's type. */
  Iter<std::string, std::string> list(bf_place at = here()) const {
    return Iter<std::string, std::string>::of_method(stub(), of(4), at);
  }

private:
  std::uint32_t of(std::uint32_t method) const { return bf_builtin_method(stub().session(), 1, method); }
};

/** An object of the server that stores one value: a variable of a batched loop. */
template <class T> class Cell : public Object {
public:
  using Object::Object;
  using Plain = Cell;
  static const bf_type *bf_type_() {
    static const ::bf_type type = {BF_FAMILY_CELL, 0, BF_CELLS_NONE_, Element<T>::type(), "cell"};
    return &type;
  }
  /** Stores a value. */
  Promise<Nil> put(const Arg<T> &value, bf_place at = here()) const {
    return Promise<Nil>(Stub(bf_cell_put(stub().ref(), Element<T>::type(), value.value(), at)));
  }
  /** The value stored last; `not_possible` is signalled if there is none. */
  Future<T> get(bf_place at = here()) const {
    return Future<T>(Stub(bf_cell_get(stub().ref(), Element<T>::type(), at)));
  }
  /** True if a value has been stored. */
  Promise<bool> full(bf_place at = here()) const {
    return Promise<bool>(Stub(bf_cell_full(stub().ref(), Element<T>::type(), at)));
  }
};

} // namespace bf

#endif // BIFROST_CPP_PROMISE_HPP
