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

/** Calls functions later, on the thread of the session. */
class Executor {
public:
  virtual ~Executor() = default;
  /** Calls `soon` once, after the code that runs now has returned. */
  virtual void post(std::function<void()> soon) = 0;
  /** Calls `ready` once when the descriptor can be read, or written if `write`; after a second at the latest. */
  virtual void wait(int descriptor, bool write, std::function<void()> ready) = 0;
};

/** An executor over poll(2), for one thread. */
class Loop : public Executor {
public:
  void post(std::function<void()> soon) override { soon_.push_back(std::move(soon)); }
  void wait(int descriptor, bool write, std::function<void()> ready) override {
    waits_.push_back({descriptor, write, std::move(ready)});
  }
  /** Runs until nothing is to be called any more. */
  void run() {
    while (!soon_.empty() || !waits_.empty()) {
      std::vector<std::function<void()>> soon = std::exchange(soon_, {});
      for (auto &function : soon) function();
      if (soon_.empty() && !waits_.empty()) poll_once();
    }
  }

private:
  // A session ends by itself when its server is late, so it is looked at from time to time.
  static constexpr int LOOK_AGAIN_MS = 1000;
  struct Wait {
    int descriptor;
    bool write;
    std::function<void()> ready;
  };
  void poll_once() {
    std::vector<pollfd> polled;
    for (const Wait &one : waits_) {
      polled.push_back({one.descriptor, static_cast<short>(one.write ? POLLIN | POLLOUT : POLLIN), 0});
    }
    int count = ::poll(polled.data(), static_cast<nfds_t>(polled.size()), LOOK_AGAIN_MS);
    std::vector<Wait> waits = std::exchange(waits_, {});
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (count <= 0 || polled[i].revents != 0)
        waits[i].ready();
      else
        waits_.push_back(std::move(waits[i]));
    }
  }
  std::vector<std::function<void()>> soon_;
  std::vector<Wait> waits_;
};

/** Moves the bytes of a session for the coroutines that wait. */
class Pump {
public:
  /** Ends the batch soon, so that coroutines which run until then share its crossing. */
  static void start(bf_session *session, Core &core, bf_place at) {
    if (std::exchange(core.is_posted, true)) return;
    core.executor->post([core = core.shared_from_this(), session, at] {
      core->is_posted = false;
      // A failure is told by the claims of those that wait.
      if (!core->waiting.empty()) bf_flush_start(session, at);
      poll(session, *core, at);
    });
  }

private:
  static void poll(bf_session *session, Core &core, bf_place at) {
    // A coroutine that is resumed may release the last stub; its own keeps the session until then.
    if (!core.waiting.empty()) bf_flush_poll(session, at);
    std::vector<std::function<bool()>> waiting = std::exchange(core.waiting, {});
    for (auto &resume : waiting) {
      if (!resume()) core.waiting.push_back(std::move(resume));
    }
    if (core.waiting.empty() || std::exchange(core.is_polled, true)) return;
    core.executor->wait(bf_fd(session), bf_wants_write(session), [core = core.shared_from_this(), session, at] {
      core->is_polled = false;
      poll(session, *core, at);
    });
  }
};

/** Waits for the answer of a stub's batch. */
template <class T> class Awaiting {
public:
  Awaiting(Promise<T> promise, bf_place at) : promise_(std::move(promise)), place_(at) {}
  bool await_ready() const { return promise_.is_known(place_); }
  /** False if there is nothing to wait with: the claim waits. */
  bool await_suspend(std::coroutine_handle<> coroutine) {
    bf_session *session = promise_.stub().session();
    Core *core = core_of(session);
    if (core == nullptr || core->executor == nullptr || bf_fd(session) < 0) return false;
    core->waiting.push_back([promise = promise_, at = place_, coroutine] {
      if (!promise.is_known(at)) return false;
      coroutine.resume();
      return true;
    });
    Pump::start(session, *core, place_);
    return true;
  }
  T await_resume() const { return promise_.claim(place_); }

private:
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
