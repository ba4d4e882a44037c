/**
 * @file
 * Coroutines of C++20: `co_await promise` waits for a value without holding a thread.
 *
 * An executor resumes coroutines when a descriptor is ready: `bf::Loop` is one over poll(2). A session gets it by
 * `set_executor`. A coroutine that awaits a promise ends the batch and sends it; coroutines that await results of one
 * batch share its crossing.
 */

#ifndef BIFROST_CPP_ASYNC_HPP
#define BIFROST_CPP_ASYNC_HPP

#include <coroutine>
#include <functional>
#include <poll.h>

#include "session.hpp"

namespace bf {

/** Calls functions when descriptors are ready. */
class Executor {
public:
  virtual ~Executor() = default;
  /** Calls `ready` once when the descriptor can be read, or written if `write`; not before this returns. */
  virtual void wait(int descriptor, bool write, std::function<void()> ready) = 0;
};

/** An executor over poll(2), for one thread. */
class Loop : public Executor {
public:
  void wait(int descriptor, bool write, std::function<void()> ready) override {
    waits_.push_back({descriptor, write, std::move(ready)});
  }
  /** Runs until nothing waits any more. */
  void run() {
    while (!waits_.empty()) {
      std::vector<pollfd> polled;
      for (const Wait &one : waits_) {
        polled.push_back({one.descriptor, static_cast<short>(one.write ? POLLIN | POLLOUT : POLLIN), 0});
      }
      // A session ends by itself when its server is late, so it is looked at from time to time.
      int count = ::poll(polled.data(), static_cast<nfds_t>(polled.size()), LOOK_AGAIN_MS);
      std::vector<Wait> waits = std::exchange(waits_, {});
      for (std::size_t i = 0; i < waits.size(); ++i) {
        if (count <= 0 || polled[i].revents != 0) waits[i].ready();
        else waits_.push_back(std::move(waits[i]));
      }
    }
  }

private:
  static constexpr int LOOK_AGAIN_MS = 1000;
  struct Wait {
    int descriptor;
    bool write;
    std::function<void()> ready;
  };
  std::vector<Wait> waits_;
};

/** Waits for the answer of a stub's batch. */
template <class T> class Awaiting {
public:
  Awaiting(Promise<T> promise, bf_place at) : promise_(std::move(promise)), place_(at) {}
  bool await_ready() const { return promise_.is_known(place_); }
  /** False if there is nothing to wait for: the claim tells. */
  bool await_suspend(std::coroutine_handle<> coroutine) {
    bf_session *session = promise_.stub().session();
    Core *core = core_of(session);
    if (core == nullptr || core->executor == nullptr || bf_fd(session) < 0) return false;
    if (bf_flush_start(session, place_) != BF_OK || promise_.is_known(place_)) return false;
    wait(session, static_cast<Executor *>(core->executor), coroutine);
    return true;
  }
  T await_resume() const { return promise_.claim(place_); }

private:
  void wait(bf_session *session, Executor *executor, std::coroutine_handle<> coroutine) {
    executor->wait(bf_fd(session), bf_wants_write(session), [this, session, executor, coroutine] {
      bf_flush_poll(session, place_);
      if (promise_.is_known(place_)) coroutine.resume();
      else wait(session, executor, coroutine);
    });
  }
  Promise<T> promise_;
  bf_place place_;
};

template <class T> Awaiting<T> await(const Promise<T> &promise, bf_place at = here()) { return {promise, at}; }
template <class T> Awaiting<T> operator co_await(const Promise<T> &promise) { return {promise, here()}; }

/** A coroutine that runs at once, and whose end nobody awaits; an exception that leaves it ends the program. */
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

} // namespace bf

#endif // BIFROST_CPP_ASYNC_HPP
