/**
 * @file
 * Sessions, structures, procedures, tables and transactions of the C++ veneer.
 */

#ifndef BIFROST_CPP_SESSION_HPP
#define BIFROST_CPP_SESSION_HPP

#include <chrono>

#include "promise.hpp"

namespace bf {

class Session;

/** A core without an executor, for the stubs that outlive the copies of their session: one for each program. */
inline Core *lasting_core(const Signals *signals) {
  thread_local std::deque<Core> cores;
  for (Core &core : cores) {
    if (core.signals == signals) return &core;
  }
  return &cores.emplace_back(nullptr, signals);
}

/** Ends the innermost structure when its block is left; one that an exception leaves is refused. */
class Block {
public:
  explicit Block(bf_session *session) : session_(session), exceptions_(std::uncaught_exceptions()) {}
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block() {
    if (std::uncaught_exceptions() > exceptions_)
      bf_abandon(session_);
    else
      bf_end(session_);
  }

private:
  bf_session *session_;
  int exceptions_;
};

/** A choice, which may go on with its second block. */
class If {
public:
  explicit If(bf_session *session) : session_(session) {}
  /** Runs the block at the server if the condition does not hold. Follows directly. */
  template <class F> void else_(F body, bf_place at = here()) const {
    bf_else(session_, at);
    Block block(session_);
    body();
  }
  /** Of BF_ELSE. */
  template <class F> void operator/(F body) const { else_(body); }

private:
  bf_session *session_;
};

/** A block whose exceptions are handled, which may go on with handlers. */
class Except {
public:
  explicit Except(bf_session *session) : session_(session) {}

  /** Runs the block at the server when a call signals the exception, with its values: a generated class. */
  template <class S, class F> const Except &when(F body, bf_place at = here()) const {
    S::Values::when(session_, S::NAME, body, at);
    return *this;
  }
  /** Runs the block at the server when a call signals any exception that no handler before it takes. */
  template <class F> void others(F body, bf_place at = here()) const {
    constexpr bool is_named = std::is_invocable_v<F, Promise<std::string>>;
    bf_ref name[1] = {};
    bf_others(session_, bf_refs_(name, is_named ? 1 : 0), at);
    Block block(session_);
    if constexpr (is_named)
      body(Promise<std::string>(Stub(name[0])));
    else
      body();
  }

private:
  bf_session *session_;
};

/** Takes the value of an exception that came, if it has this type. */
template <class T> struct TakeValue {
  static bool fits(const ErrorValue &value) {
    // The object of a call that was not run itself is not there.
    if constexpr (std::is_base_of_v<Object, T>)
      return value.index() == 0 || std::holds_alternative<Stub>(value);
    else
      return std::holds_alternative<T>(value);
  }
  static T from(const ErrorValue &value) {
    if constexpr (std::is_base_of_v<Object, T>) {
      const Stub *stub = std::get_if<Stub>(&value);
      return T(stub ? *stub : Stub());
    } else {
      return std::get<T>(value);
    }
  }
};

/** The types of an exception's values. */
template <class... T> struct SignalValues {
  using Tuple = std::tuple<T...>;
  static bool fits(const std::vector<ErrorValue> &values) {
    return values.size() == sizeof...(T) && fits(values, std::index_sequence_for<T...>());
  }
  /** Takes the values that came; none if they are others. */
  static std::shared_ptr<const Tuple> take(const std::vector<ErrorValue> &values) {
    return fits(values) ? take(values, std::index_sequence_for<T...>()) : nullptr;
  }
  template <class F> static void when(bf_session *session, const char *name, F &body, bf_place at) {
    std::array<bf_ref, sizeof...(T) + 1> refs{};
    bf_when(session, name, Types<T...>::get(), bf_refs_(refs.data(), sizeof...(T)), at);
    Block block(session);
    run(body, refs, std::index_sequence_for<T...>());
  }

private:
  template <std::size_t... I>
  static bool fits([[maybe_unused]] const std::vector<ErrorValue> &values, std::index_sequence<I...>) {
    return (TakeValue<T>::fits(values[I]) && ...);
  }
  template <std::size_t... I>
  static std::shared_ptr<const Tuple> take([[maybe_unused]] const std::vector<ErrorValue> &values,
                                           std::index_sequence<I...>) {
    return std::make_shared<const Tuple>(TakeValue<T>::from(values[I])...);
  }
  template <class F, std::size_t... I>
  static void run(F &body, const std::array<bf_ref, sizeof...(T) + 1> &refs, std::index_sequence<I...>) {
    std::tuple<Future<T>...> stubs{Future<T>{Stub{refs[I]}}...};
    if constexpr (std::is_invocable_v<F, Future<T>...>)
      std::apply(body, std::move(stubs));
    else
      body();
  }
};

/** The exception that any call may signal: a text for people. */
class Failure : public Signal {
public:
  static constexpr const char *NAME = "failure";
  using Values = SignalValues<std::string>;
  explicit Failure(const Error &error) : Signal(error) {}
};

/** The exception of `as`: the object has another type. */
class WrongType : public Signal {
public:
  static constexpr const char *NAME = "wrong_type";
  using Values = SignalValues<>;
  explicit WrongType(const Error &error) : Signal(error) {}
};

/** A table of rows with these columns. It ends with the batch that it was made in: then it can be claimed. */
template <class... T> class Rows {
public:
  using Row = std::tuple<Plain<T>...>;
  explicit Rows(Stub stub) : stub_(std::move(stub)) {}
  const Stub &stub() const noexcept { return stub_; }
  /** Appends a row. In structures and procedures it is appended whenever they come to it. */
  void push(const Arg<T> &...cells, bf_place at = here()) const {
    const auto values = values_of(cells...);
    bf_emit(stub_.ref(), bf_values_(values.data(), sizeof...(T)), at);
  }
  /** Returns the rows. Flushes the session if they are not there yet. */
  std::vector<Row> claim(bf_place at = here()) const {
    const bf_items *items = nullptr;
    if (bf_claim_items(stub_.ref(), &items, at) != BF_OK) fail(stub_.session(), stub_.ref());
    Came came(stub_.session(), items);
    expect(came.columns() == sizeof...(T));
    std::vector<Row> rows;
    rows.reserve(came.rows());
    for (std::size_t i = 0; i < came.rows(); ++i) {
      rows.push_back(row(came.values().items + i * sizeof...(T), std::index_sequence_for<T...>()));
    }
    return rows;
  }

private:
  template <std::size_t... I> static Row row(const bf_value *values, std::index_sequence<I...>) {
    return Row(Read<Plain<T>>::from(values[I])...);
  }
  Stub stub_;
};

/** The type of a column for a stub that is a cell of a row. */
template <class T> struct ColumnOf { using type = T; };
template <class T> struct ColumnOf<Promise<T>> { using type = T; };
template <class T> struct RowsOf;
template <class... T> struct RowsOf<std::tuple<T...>> { using type = Rows<typename ColumnOf<T>::type...>; };

/** A procedure of the session: a batch with a name, kept by the server. */
template <class F> class Procedure;
template <class R, class... A> class Procedure<R(A...)> {
public:
  Procedure(bf_session *session, std::uint32_t number) : session_(session), number_(number) {}
  using Result = std::conditional_t<std::is_void_v<R>, Nil, R>;
  /** Records a call. */
  Future<Result> operator()(const Arg<A> &...arguments, bf_place at = here()) const {
    const auto values = values_of(arguments...);
    return Future<Result>(Stub(bf_procedure_call(session_, number_, bf_values_(values.data(), sizeof...(A)), at)));
  }

private:
  bf_session *session_;
  std::uint32_t number_;
};

/** A failure of the history, with the failure itself. */
using Exceptions = std::vector<Error>;

/** The results of a live batch, one after the other. */
template <class F> class Live;

/** A connection to a server, and the batch being recorded for it. Copies are the same session; it ends with the last
 * copy and the last stub. It belongs to one thread. */
class Session {
public:
  /** Opens a session. Generated headers have `connect`. */
  Session(const std::string &url, const bf_interface &interface, const Signals &signals, const bf_options *options)
      : Session(opened(bf_connect(url.c_str(), &interface, options)), interface, signals) {}
  /** Takes a session of the library over. */
  Session(bf_session *session, const bf_interface &interface, const Signals &signals) {
    auto core = std::make_shared<Core>(&interface, &signals);
    bf_set_data(session, core.get());
    held_ = std::shared_ptr<Held>(new Held{session, std::move(core)});
  }

  bf_session *get() const noexcept { return held_->session; }
  /** The name of the object at the server that a trader has named; empty if the session was not imported. */
  std::string imported_name() const { return bf_imported_name(get()); }
  /** The address of that server; empty if the session was not imported. */
  std::string imported_address() const { return bf_imported_address(get()); }

  /** Returns a well-known object. Not inside a structure. */
  template <class T> T lookup(const std::string &name, bf_place at = here()) const {
    return T(Stub(bf_lookup(get(), held_->core->interface, name.c_str(), Element<T>::type(), at)));
  }
  /** Makes a promise of a value that is there, so that it can be a receiver. */
  template <class T> Promise<T> value(const Arg<T> &value) const {
    return Promise<T>(Stub(bf_value_stub(get(), value.value())));
  }
  Promise<std::int64_t> value(int number) const { return value<std::int64_t>(number); }
  Promise<std::int64_t> value(std::int64_t number) const { return value<std::int64_t>(number); }
  Promise<double> value(double number) const { return value<double>(number); }
  Promise<bool> value(bool truth) const { return value<bool>(truth); }
  Promise<std::string> value(const char *text) const { return value<std::string>(text); }
  /** Makes an empty cell. */
  template <class T> Cell<T> cell(bf_place at = here()) const {
    return Cell<T>(Stub(bf_cell(get(), Element<T>::type(), at)));
  }
  /** Makes a cell with its first value. */
  template <class T> Cell<T> cell_with(const Arg<T> &value, bf_place at = here()) const {
    Cell<T> cell = this->cell<T>(at);
    cell.put(value, at);
    return cell;
  }

  // Structures: the closures run once, while they are recorded.

  /** Repeats `body` at the server while the promise that `condition` records is true. */
  template <class C, class F> void while_(C condition, F body, bf_place at = here()) const {
    bf_open(get(), BF_STRUCTURE_WHILE, at);
    Block block(get());
    bf_condition(get(), Promise<bool>(condition()).stub().value(), at);
    body();
  }
  /** Runs `then` at the server if the condition holds. */
  template <class F> If if_(const Promise<bool> &condition, F then, bf_place at = here()) const {
    bf_open(get(), BF_STRUCTURE_IF, at);
    Block block(get());
    bf_condition(get(), condition.stub().value(), at);
    then();
    return If(get());
  }
  /** Runs `body` at the server for each step of an iterator, with the values that it yields. */
  template <class F, class... T> void foreach(const Iter<T...> &iterator, F body, bf_place at = here()) const {
    std::tuple<Future<T>...> variables = iterator.open(get(), at);
    Block block(get());
    std::apply(body, std::move(variables));
  }
  /** Runs `body` at the server; exceptions of its calls go to the handlers that follow. */
  template <class F> Except except(F body, bf_place at = here()) const {
    bf_open(get(), BF_STRUCTURE_EXCEPT, at);
    Block block(get());
    body();
    return Except(get());
  }
  /** Leaves the innermost loop at the server. Recording goes on. */
  void break_(bf_place at = here()) const { bf_break(get(), at); }
  /** Goes on with the next step of the innermost loop at the server. Recording goes on. */
  void continue_(bf_place at = here()) const { bf_continue(get(), at); }

  /** Defines a procedure: `s.procedure<std::int64_t(std::int64_t)>("twice", [](auto &, auto n) { return n + n; })`. The
   * closure is called once, with the procedure itself for recursive calls and its parameters. */
  template <class H, class F> Procedure<H> procedure(const char *name, F body, bf_place at = here()) const {
    return define(name, body, at, static_cast<Procedure<H> *>(nullptr));
  }
  /** Returns a procedure that was defined earlier in this session, if it takes and returns these types. */
  template <class H> std::optional<Procedure<H>> find_procedure(const char *name) const {
    return find(name, static_cast<Procedure<H> *>(nullptr));
  }
  /** Ends a run of the procedure being defined, with its result. */
  template <class R> void return_(const Arg<R> &result, bf_place at = here()) const {
    bf_return(get(), &result.value(), at);
  }
  void return_(bf_place at = here()) const { bf_return(get(), nullptr, at); }

  /** Makes an empty table. Not inside a structure. */
  template <class... T> Rows<T...> rows(bf_place at = here()) const {
    return Rows<T...>(Stub(bf_rows(get(), Types<T...>::get(), at)));
  }
  /** Collects a row for each step of an iterator; `row` returns a tuple of stubs. */
  template <class F, class... T> auto collect(const Iter<T...> &iterator, F row, bf_place at = here()) const {
    using Tuple = std::invoke_result_t<F, Future<T>...>;
    return collect_into(typename RowsOf<Tuple>::type(Stub()), iterator, row, at);
  }

  // Batches and transactions.

  /** Sends the recorded commands, and waits until they have run. Throws failures that no claim can tell. */
  void flush(bf_place at = here()) const {
    if (bf_flush(get(), at) != BF_OK) fail(get());
  }
  /** Ends the batch and sends it, without waiting: `flush_poll` goes on. */
  void flush_start(bf_place at = here()) const {
    if (bf_flush_start(get(), at) != BF_OK) fail(get());
  }
  /** True if all batches are answered; wait for `descriptor()` otherwise. */
  bool flush_poll(bf_place at = here()) const {
    bf_status status = bf_flush_poll(get(), at);
    if (status != BF_OK && status != BF_PENDING) fail(get());
    return status == BF_OK;
  }
  int descriptor() const noexcept { return bf_fd(get()); }
  Promise<Nil> commit(bf_place at = here()) const { return Promise<Nil>(Stub(bf_commit(get(), at))); }
  Promise<Nil> abort(bf_place at = here()) const { return Promise<Nil>(Stub(bf_abort(get(), at))); }
  /** Waits, when the batch is sent, until others have changed an object that the transaction has read. */
  Promise<bool> wait(std::chrono::milliseconds most, bf_place at = here()) const {
    return Promise<bool>(Stub(bf_wait(get(), static_cast<std::uint32_t>(most.count()), at)));
  }
  /** Records a batch that is a transaction of its own, sends it, and waits until it is committed. The server repeats it
   * when others conflict. Nothing can be claimed in `body`; its result is returned. */
  template <class F> auto transaction(F body, const bf_how &how = bf_how{}, bf_place at = here()) const {
    if (bf_transaction_begin(get(), &how, at) != BF_OK) fail(get());
    Shipping shipping(get());
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      body();
      shipping.end(at);
    } else {
      auto result = body();
      shipping.end(at);
      return result;
    }
  }
  /** Makes a live batch: `for (auto &result : s.live([&] { return db.size(); }))` sees it now and after each change. */
  template <class F> Live<F> live(F body, bf_place at = here()) const;

  /** Returns all failures since the history was last cleared; the program is told of them with it. */
  Exceptions exceptions() const {
    Exceptions all;
    std::size_t count = bf_exceptions(get());
    for (std::size_t i = 0; i < count; ++i) all.emplace_back(bf_exception(get(), i));
    return all;
  }
  /** Clears the history: the failures of the calls up to now count as told. */
  void clear_exceptions(bf_place at = here()) const { bf_exceptions_clear(get(), at); }
  /** The counts of the session up to now. */
  bf_counts counters() const {
    bf_counts counts;
    bf_counters(get(), &counts);
    return counts;
  }
  /** The batch that is recorded, a line for each command: what the next crossing brings to the server. */
  std::string explain() const { return bf_explain(get()); }
  /** The batch that was sent last, with its account; empty if none was. With a profile each line ends with its cost. */
  std::string explain_last() const { return bf_explain_last(get()); }
  /** A line for each of the last batches, 32 at most, oldest first. */
  std::string explain_batches() const { return bf_explain_batches(get()); }
  /** A line for each thing that would have saved crossings in the last batches; empty if there is none. */
  std::string advice() const { return bf_advice(get()); }
  /** Has the server measure this batch and all later ones, or no more: see `explain_last`. */
  void profile(bool on, bf_place at = here()) const {
    if (bf_profile(get(), on, at) != BF_OK) fail(get());
  }
  /** True if the server has not ended the session, as far as is known without waiting. */
  bool is_open() const { return bf_is_open(get()); }
  /** Flushes, and ends the session; its stubs say so from then on. */
  void close(bf_place at = here()) const {
    if (bf_finish(get(), at) != BF_OK) fail(get());
  }
  /** Sets the executor of coroutines, for `co_await`: see async.hpp. */
  void set_executor(Executor *executor) const { held_->core->executor = executor; }

private:
  static bf_session *opened(bf_session *session) {
    if (session == nullptr) throw ConnectError(Error(bf_connect_error()));
    return session;
  }
  struct Held {
    bf_session *session;
    std::shared_ptr<Core> core;
    ~Held() {
      // Stubs that are left tell exceptions of the program all the same.
      bf_set_data(session, lasting_core(core->signals));
      bf_let_go(session);
    }
  };
  /** Ends the batch of a transaction; one that an exception leaves is refused. */
  class Shipping {
  public:
    explicit Shipping(bf_session *session) : session_(session) {}
    Shipping(const Shipping &) = delete;
    Shipping &operator=(const Shipping &) = delete;
    ~Shipping() {
      if (!is_ended_) bf_transaction_abandon(session_);
    }
    void end(bf_place at) {
      is_ended_ = true;
      if (bf_transaction_end(session_, at) != BF_OK) fail(session_);
    }

  private:
    bf_session *session_;
    bool is_ended_ = false;
  };

  template <class F, class R, class... A>
  Procedure<R(A...)> define(const char *name, F &body, bf_place at, Procedure<R(A...)> *) const {
    std::array<bf_ref, sizeof...(A) + 1> refs{};
    const bf_type *result = nullptr;
    if constexpr (!std::is_void_v<R>) result = Element<R>::type();
    std::uint32_t number =
        bf_procedure(get(), name, Types<A...>::get(), result, bf_refs_(refs.data(), sizeof...(A)), at);
    Procedure<R(A...)> self(get(), number);
    try {
      body_of<R>(number, at, [&] { return run<A...>(body, self, refs, std::index_sequence_for<A...>()); });
    } catch (...) {
      bf_abandon(get());
      throw;
    }
    return self;
  }
  template <class... A, class F, class P, std::size_t... I>
  static decltype(auto) run(F &body, const P &self, const std::array<bf_ref, sizeof...(A) + 1> &refs,
                            std::index_sequence<I...>) {
    return body(self, Future<A>(Stub(refs[I]))...);
  }
  template <class R, class F> void body_of(std::uint32_t number, bf_place at, F run) const {
    if constexpr (std::is_void_v<R>) {
      run();
      bf_procedure_end(get(), number, nullptr, at);
    } else {
      auto result = run();
      Arg<R> argument(result, at);
      bf_procedure_end(get(), number, &argument.value(), at);
    }
  }
  template <class R, class... A> std::optional<Procedure<R(A...)>> find(const char *name, Procedure<R(A...)> *) const {
    const bf_type *result = nullptr;
    if constexpr (!std::is_void_v<R>) result = Element<R>::type();
    std::uint32_t number = bf_procedure_find(get(), name, Types<A...>::get(), result);
    if (number == BF_NO_PROCEDURE) return std::nullopt;
    return Procedure<R(A...)>(get(), number);
  }
  template <class... C, class F, class... T>
  Rows<C...> collect_into(Rows<C...>, const Iter<T...> &iterator, F &row, bf_place at) const {
    Rows<C...> table = rows<C...>(at);
    foreach(
        iterator,
        [&](const Future<T> &...variables) {
          std::apply([&](const auto &...cells) { table.push(cells..., at); }, row(variables...));
        },
        at);
    return table;
  }

  std::shared_ptr<Held> held_;
};

template <class F> Promise<bool> Promise<bool>::decide(const Promise &test, F &other, bf_place at) const {
  bf_session *session = stub().session();
  Cell<bool> result(Stub(bf_cell(session, Element<bool>::type(), at)));
  result.put(*this, at);
  bf_open(session, BF_STRUCTURE_IF, at);
  {
    Block block(session);
    bf_condition(session, test.stub().value(), at);
    result.put(other(), at);
  }
  return result.get(at);
}
template <class F> Promise<bool> Promise<bool>::and_(F other, bf_place at) const { return decide(*this, other, at); }
template <class F> Promise<bool> Promise<bool>::or_(F other, bf_place at) const {
  return decide(operate<Promise>(stub(), BF_OPERATOR_BOOL_NOT, at), other, at);
}

/** Passes the stubs of results on, and claims them. */
template <class T> struct LiveResult {
  using Output = decltype(std::declval<const T &>().claim());
  static void each(const T &result, std::vector<bf_ref> &refs) { refs.push_back(result.stub().ref()); }
  static Output claim(const T &result, bf_place at) { return result.claim(at); }
};
template <class... T> struct LiveResult<std::tuple<T...>> {
  using Output = std::tuple<typename LiveResult<T>::Output...>;
  static void each(const std::tuple<T...> &results, std::vector<bf_ref> &refs) {
    std::apply([&](const auto &...one) { (LiveResult<std::decay_t<decltype(one)>>::each(one, refs), ...); }, results);
  }
  static Output claim(const std::tuple<T...> &results, bf_place at) {
    return std::apply([&](const auto &...one) { return Output(one.claim(at)...); }, results);
  }
};

template <class F> class Live {
public:
  using Result = std::invoke_result_t<F>;
  using Output = typename LiveResult<Result>::Output;
  Live(Session session, F body, bf_place at) : session_(std::move(session)), body_(std::move(body)), place_(at) {}
  Live(const Live &) = delete;
  Live &operator=(const Live &) = delete;
  Live(Live &&other) noexcept
      : session_(other.session_), body_(std::move(other.body_)), place_(other.place_),
        live_(std::exchange(other.live_, nullptr)) {}
  ~Live() {
    if (live_ != nullptr) bf_live_free(live_, session_.get());
  }

  /** Returns the next result that differs from the last one; waits for it. Throws the failure of a run. */
  Output next() {
    for (;;) {
      if (bf_live_begin(live_, session_.get(), place_) != BF_OK) fail(session_.get());
      Result result = body_();
      std::vector<bf_ref> refs;
      LiveResult<Result>::each(result, refs);
      bf_status status = bf_live_end(live_, session_.get(), bf_refs_(refs.data(), refs.size()), place_);
      if (status == BF_SAME) continue;
      if (status != BF_OK) fail(session_.get());
      return LiveResult<Result>::claim(result, place_);
    }
  }

  class Iterator {
  public:
    explicit Iterator(Live *live) : live_(live) { ++*this; }
    Iterator() = default;
    Output &operator*() { return *value_; }
    Iterator &operator++() {
      value_.emplace(live_->next());
      return *this;
    }
    bool operator!=(const Iterator &) const { return true; }

  private:
    Live *live_ = nullptr;
    std::optional<Output> value_;
  };
  /** The results, without an end: leave the loop by `break`. */
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(); }

private:
  Session session_;
  F body_;
  bf_place place_;
  bf_live_batch *live_ = bf_live();
};

template <class F> Live<F> Session::live(F body, bf_place at) const { return Live<F>(*this, std::move(body), at); }

// The forms of the macros: an operator takes the body, which is a lambda, so a native `break` in it does not compile.

struct WhileForm {
  template <class C> struct With {
    const Session &session;
    C condition;
    bf_place at;
    template <class F> void operator%(F body) const { session.while_(condition, body, at); }
  };
  template <class C> static With<C> make(const Session &session, C condition, bf_place at) {
    return With<C>{session, condition, at};
  }
};
struct IfForm {
  const Session &session;
  Promise<bool> condition;
  bf_place at;
  template <class F> If operator%(F body) const { return session.if_(condition, body, at); }
};
template <class... T> struct ForeachForm {
  const Session &session;
  Iter<T...> iterator;
  bf_place at;
  template <class F> void operator%(F body) const { session.foreach(iterator, body, at); }
};
template <class... T> ForeachForm<T...> foreach_form(const Session &session, Iter<T...> iterator, bf_place at) {
  return ForeachForm<T...>{session, std::move(iterator), at};
}

} // namespace bf

/** Repeats the block at the server while the condition is true: BF_WHILE(s, n.get() < 10) { ... }; */
#define BF_WHILE(session_, ...)                                                                                        \
  ::bf::WhileForm::make((session_), [&] { return __VA_ARGS__; }, ::bf::here()) % [&]() -> void
/** Runs the block at the server if the condition holds: BF_IF(s, x > 0) { ... } BF_ELSE { ... }; */
#define BF_IF(session_, ...) ::bf::IfForm{(session_), (__VA_ARGS__), ::bf::here()} % [&]() -> void
/** Runs the block at the server if the condition of the BF_IF before it does not hold. */
#define BF_ELSE / [&]() -> void
/** Runs the block at the server for each step: BF_FOREACH(s, db.users(), DataElem e) { ... }; */
#define BF_FOREACH(session_, iterator_, ...)                                                                           \
  ::bf::foreach_form((session_), (iterator_), ::bf::here()) % [&](__VA_ARGS__) -> void
/** Leaves the innermost loop at the server. */
#define BF_BREAK(session_) (session_).break_(::bf::here())
/** Goes on with the next step of the innermost loop at the server. */
#define BF_CONTINUE(session_) (session_).continue_(::bf::here())

#endif // BIFROST_CPP_SESSION_HPP
