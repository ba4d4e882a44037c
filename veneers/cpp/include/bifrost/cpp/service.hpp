/**
 * @file
 * Services of the C++ veneer: servers that traders know, and another one when a server is lost.
 */

#ifndef BIFROST_CPP_SERVICE_HPP
#define BIFROST_CPP_SERVICE_HPP

#include "session.hpp"

namespace bf {

/** The server of a service is lost, and the run must not be begun again. */
class Lost : public Error {
public:
  Lost(const Error &error, bf_ran ran) : Error(error), ran_(ran) {}
  /** The account of the run: BF_RAN_NO, BF_RAN_BEGAN or BF_RAN_UNKNOWN. */
  bf_ran ran() const noexcept { return ran_; }

private:
  bf_ran ran_;
};

/** Opens a session with a server that the traders of a URL know, and looks its object up. Generated headers have it. */
template <class T>
std::pair<Session, T> import_service(const std::string &url, const bf_interface &interface, const Signals &signals,
                                     const bf_options *options) {
  bf_ref object{nullptr, 0, 0};
  bf_session *session = bf_import(url.c_str(), &interface, Element<T>::type(), options, &object);
  if (session == nullptr) throw ConnectError(Error(bf_connect_error()));
  return {Session(session, interface, signals), T(Stub(object))};
}

/** A service at traders, and a session with one server of it. It is used by one thread.
 *
 * Objects belong to their session, so they are not kept from one run to the next; changes that a run has not committed
 * are lost with its server. After a run that has failed, its transaction is aborted.
 *
 * | the server is lost, and | then |
 * | --- | --- |
 * | nothing of the run was sent | the body is called again, with another server |
 * | the run is a named transaction | as above, with a server of the same store |
 * | otherwise | bf::Lost, which says what is known |
 *
 * A server that is new, or that the query prefers, is used from the next run on. */
template <class T> class Service {
public:
  /** Makes a service. Nothing is connected before its first run. Generated headers have `service`. */
  Service(const std::string &url, const bf_interface &interface, const Signals &signals, const bf_options *options)
      : interface_(&interface), signals_(&signals) {
    service_.reset(bf_service_new(url.c_str(), &interface, Element<T>::type(), options, true));
    if (service_ == nullptr) throw ConnectError(Error(bf_connect_error()));
  }

  /** Calls `body` with a session and the object, and returns its result. Throws what it throws; ConnectError if there
   * is no server, and Lost if it was lost. */
  template <class F> auto run(F body, bf_place at = here()) {
    return run_body(body, [&](bf_status *status) { return bf_run_begin(service_.get(), status, at); });
  }
  /** Runs a batch that is a transaction, as Session::transaction does, under a name of its own: if the server is lost,
   * the batch is sent again to another one of the same store, which knows whether it was done. So it is done once.
   * Objects in the result are not there if the answer is given again. */
  template <class F> auto run_named(F body, bf_place at = here()) { return run_transaction(bf_how{}, body, at); }
  /** As run_named, with the number of tries of `how`, and with its name if it has one. */
  template <class F> auto run_transaction(const bf_how &how, F body, bf_place at = here()) {
    return run_body(body,
                    [&](bf_status *status) { return bf_run_begin_transaction(service_.get(), &how, status, at); });
  }

  /** The address of the server in use; empty if there is none. */
  std::string address() const { return bf_service_address(service_.get()); }
  /** The name of the object at the server in use; empty if there is none. */
  std::string name() const { return bf_service_name(service_.get()); }

private:
  /** The session of a server, with the object. */
  struct Current {
    Session session;
    T object;
  };
  struct Free {
    void operator()(bf_service *service) const { bf_service_free(service); }
  };

  /** Takes the session of a run. */
  void take(bf_session *session) {
    if (current_ && current_->session.get() == session) return;
    Stub object(bf_retain(bf_service_object(service_.get())));
    current_.reset();
    current_.emplace(Current{Session(session, *interface_, *signals_), T(std::move(object))});
  }

  template <class F, class B> auto run_body(F &body, B begin) {
    using Result = std::invoke_result_t<F, const Session &, const T &>;
    // A body without a result has nil.
    std::optional<std::conditional_t<std::is_void_v<Result>, Nil, Result>> result;
    std::exception_ptr failure;
    bf_status status = BF_OK;
    bf_session *session = begin(&status);
    while (session != nullptr) {
      result.reset();
      failure = nullptr;
      try {
        take(session);
        const Current current = *current_;
        if constexpr (std::is_void_v<Result>) {
          body(current.session, current.object);
          result.emplace();
        } else {
          result.emplace(body(current.session, current.object));
        }
      } catch (const Error &error) {
        status = error.status();
        failure = std::current_exception();
      } catch (...) {
        bf_run_leave(service_.get());
        throw;
      }
      session = bf_run_next(service_.get(), &status);
    }
    if (status != BF_OK) fail_run(status, failure);
    if constexpr (!std::is_void_v<Result>) return *std::move(result);
  }

  [[noreturn]] void fail_run(bf_status status, const std::exception_ptr &failure) const {
    if (status != BF_E_LOST && status != BF_E_CONNECT && failure != nullptr) std::rethrow_exception(failure);
    const bf_error *error = bf_service_error(service_.get());
    if (status == BF_E_LOST) throw Lost(Error(error), bf_service_ran(service_.get()));
    raise(Error(error), signals_);
  }

  const bf_interface *interface_;
  const Signals *signals_;
  std::optional<Current> current_;
  // It is freed first: its stub belongs to the session.
  std::unique_ptr<bf_service, Free> service_;
};

} // namespace bf

#endif // BIFROST_CPP_SERVICE_HPP
