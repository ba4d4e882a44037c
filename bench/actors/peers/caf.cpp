// The cases of `bifrost bench actors` with CAF 0.17: an actor is an event-based actor with dynamic types.
//
// `caf CASE THREADS` reads a line N for each run and answers with the processor time in nanoseconds and the result.
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include <caf/all.hpp>

using namespace caf;

using add_atom = atom_constant<atom("add")>;
using value_atom = atom_constant<atom("value")>;
using ask_atom = atom_constant<atom("ask")>;
using flood_atom = atom_constant<atom("flood")>;
using take_atom = atom_constant<atom("take")>;
using give_atom = atom_constant<atom("give")>;
using run_atom = atom_constant<atom("run")>;

struct counter_state {
  int64_t sum = 0;
};

// Answers only the requests: a message has no answer.
behavior counter(stateful_actor<counter_state> *self, actor source) {
  return {
      [=](add_atom, int64_t by) { self->state.sum += by; },
      [=](ask_atom, int64_t by) { return self->state.sum += by; },
      [=](value_atom) { return self->state.sum; },
      [=](flood_atom, int64_t count) {
        auto done = self->make_response_promise<int64_t>();
        self->request(source, infinite, flood_atom::value, actor_cast<actor>(self), count)
            .then([=](int64_t) mutable { done.deliver(int64_t{0}); });
        return done;
      },
  };
}

behavior source(event_based_actor *self) {
  return {
      [=](flood_atom, const actor &c, int64_t count) {
        for (int64_t i = 1; i <= count; i++) self->send(c, add_atom::value, i & 7);
        return int64_t{0};
      },
  };
}

// Who sends is an actor, too, and answers when all is done.
behavior send_driver(event_based_actor *self) {
  return {
      [=](run_atom, int64_t n) {
        auto done = self->make_response_promise<int64_t>();
        auto c = self->spawn(counter, actor{});
        for (int64_t i = 1; i <= n; i++) self->send(c, add_atom::value, i & 7);
        self->request(c, infinite, value_atom::value).then([=](int64_t sum) mutable { done.deliver(sum); });
        return done;
      },
  };
}

struct driver_state {
  actor one, two;
  int64_t at = 0, n = 0, last = 0;
  response_promise done;
};
using driver = stateful_actor<driver_state>;

void next_flood(driver *self) {
  auto &state = self->state;
  if (state.at++ == state.n / 1000) {
    state.done.deliver(state.last);
    return self->quit();
  }
  self->request(state.one, infinite, flood_atom::value, int64_t{1000}).then([=](int64_t) {
    self->request(self->state.one, infinite, value_atom::value).then([=](int64_t sum) {
      self->state.last = sum;
      next_flood(self);
    });
  });
}

behavior queue_driver(driver *self) {
  return {
      [=](run_atom, int64_t n) {
        self->state.n = n;
        self->state.one = self->spawn(counter, self->spawn(source));
        self->state.done = self->make_response_promise();
        next_flood(self);
        return self->state.done;
      },
  };
}

void next_request(driver *self) {
  auto &state = self->state;
  if (state.at++ == state.n) {
    state.done.deliver(state.last);
    return self->quit();
  }
  self->request(state.one, infinite, ask_atom::value, (state.last + state.at) & 7).then([=](int64_t sum) {
    self->state.last = sum;
    next_request(self);
  });
}

behavior request_driver(driver *self) {
  return {
      [=](run_atom, int64_t n) {
        self->state.n = n;
        self->state.one = self->spawn(counter, actor{});
        self->state.done = self->make_response_promise();
        next_request(self);
        return self->state.done;
      },
  };
}

struct holder_state {
  std::deque<response_promise> held;
  std::deque<int64_t> early;
};

behavior holder(stateful_actor<holder_state> *self) {
  return {
      [=](take_atom) {
        auto promise = self->make_response_promise();
        auto &early = self->state.early;
        if (early.empty()) {
          self->state.held.push_back(promise);
        } else {
          promise.deliver(early.front());
          early.pop_front();
        }
        return promise;
      },
      [=](give_atom, int64_t v) {
        auto &held = self->state.held;
        if (held.empty()) {
          self->state.early.push_back(v);
        } else {
          held.front().deliver(v);
          held.pop_front();
        }
      },
  };
}

// An asker takes no other message while it waits.
behavior asker(stateful_actor<counter_state> *self, actor h) {
  return {
      [=](ask_atom) {
        self->request(h, infinite, take_atom::value).await([=](int64_t v) { self->state.sum += v; });
      },
      [=](value_atom) { return self->state.sum; },
  };
}

void next_late(driver *self) {
  auto &state = self->state;
  if (state.at++ == state.n) {
    state.done.deliver(state.last);
    return self->quit();
  }
  self->send(state.one, ask_atom::value);
  self->send(state.two, give_atom::value, state.at & 7);
  self->request(state.one, infinite, value_atom::value).then([=](int64_t sum) {
    self->state.last = sum;
    next_late(self);
  });
}

behavior suspend_driver(driver *self) {
  return {
      [=](run_atom, int64_t n) {
        self->state.n = n;
        self->state.two = self->spawn(holder);
        self->state.one = self->spawn(asker, self->state.two);
        self->state.done = self->make_response_promise();
        next_late(self);
        return self->state.done;
      },
  };
}

struct cell_state {
  actor before;
  int64_t first = 0, second = 0;
};

behavior cell(stateful_actor<cell_state> *self, actor before, int64_t first, int64_t second) {
  self->state = {before, first, second};
  return {
      [=](value_atom) { return self->state.first + self->state.second; },
  };
}

behavior create_driver(driver *self) {
  return {
      [=](run_atom, int64_t n) {
        for (int64_t i = 0; i <= n; i++) self->state.one = self->spawn<lazy_init>(cell, actor{}, i, i + 1);
        return self->delegate(self->state.one, value_atom::value);
      },
  };
}

behavior idle_driver(driver *self) {
  return {
      [=](run_atom, int64_t n) {
        auto &last = self->state.one;
        for (int64_t i = 1; i <= n; i++) last = self->spawn(cell, last, int64_t{0}, i);
        return self->delegate(last, value_atom::value);
      },
  };
}

// What the actors of a tree have.
struct tree_state {
  int64_t sum = 0;
  double area = 0.0;
  int missing = 0;
  response_promise done;
};
using tree = stateful_actor<tree_state>;

behavior fib(tree *self) {
  return {
      [=](int64_t n) -> result<int64_t> {
        if (n < 2) {
          self->quit();
          return n;
        }
        auto done = self->make_response_promise<int64_t>();
        self->state.done = done;
        self->state.missing = 2;
        auto answered = [=](int64_t part) {
          self->state.sum += part;
          if (--self->state.missing == 0) {
            self->state.done.deliver(self->state.sum);
            self->quit();
          }
        };
        self->request(self->spawn(fib), infinite, n - 1).then(answered);
        self->request(self->spawn(fib), infinite, n - 2).then(answered);
        return done;
      },
  };
}

behavior queen(tree *self) {
  return {
      [=](int64_t col, int64_t diag1, int64_t diag2, int64_t maxcol) -> result<int64_t> {
        int64_t c = col | diag1 | diag2;
        auto &state = self->state;
        auto answered = [=](int64_t part) {
          self->state.sum += part;
          if (--self->state.missing == 0) {
            self->state.done.deliver(self->state.sum);
            self->quit();
          }
        };
        for (int64_t c1 = (c + 1) & ~c; c1 <= maxcol; c1 = ((c1 << 1) + c) & ~c) {
          if ((col | c1) == maxcol) {
            state.sum++;
          } else {
            state.missing++;
            self->request(self->spawn(queen), infinite, col | c1, ((diag1 | c1) << 1) & maxcol, (diag2 | c1) >> 1,
                          maxcol)
                .then(answered);
          }
        }
        if (state.missing == 0) {
          self->quit();
          return state.sum;
        }
        auto done = self->make_response_promise<int64_t>();
        state.done = done;
        return done;
      },
  };
}

constexpr double pi = 3.141592653589793;

double f(double x, double often) {
  if (x <= 5.0 * pi) return 1000.0;
  return std::fabs(1000.0 * std::sin(often * x) + 1000.0);
}

double simpson(double a, double b, double often) {
  return (b - a) / 6.0 * (f(a, often) + 4.0 * f((a + b) / 2.0, often) + f(b, often));
}

behavior area(tree *self) {
  return {
      [=](double a, double b, double often, double bound) -> result<double> {
        double m = (a + b) / 2.0;
        double halves = simpson(a, m, often) + simpson(m, b, often);
        if (std::fabs(halves - simpson(a, b, often)) <= bound || m <= a || m >= b) {
          self->quit();
          return halves;
        }
        auto done = self->make_response_promise<double>();
        self->state.done = done;
        self->state.missing = 2;
        auto answered = [=](double part) {
          self->state.area += part;
          if (--self->state.missing == 0) {
            self->state.done.deliver(self->state.area);
            self->quit();
          }
        };
        self->request(self->spawn(area), infinite, m, b, often, bound / 2.0).then(answered);
        self->request(self->spawn(area), infinite, a, m, often, bound / 2.0).then(answered);
        return done;
      },
  };
}

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// What stays between runs.
std::vector<actor> kept;

template <class... Arguments>
int64_t ask(actor_system &system, const actor &whom, Arguments... arguments) {
  scoped_actor self{system};
  int64_t answer = 0;
  self->request(whom, infinite, arguments...)
      .receive([&](int64_t v) { answer = v; }, [&](error &why) { fail(system.render(why)); });
  return answer;
}

int64_t quadrature(actor_system &system, int64_t n) {
  double often = 7.3 * static_cast<double>(n), step = 5.2 * pi / 8.0, total = 0.0;
  scoped_actor self{system};
  for (int i = 0; i < 8; i++) {
    double lo = step * i;
    self->request(self->spawn(area), infinite, lo, lo + step, often, 0.01)
        .receive([&](double part) { total += part; }, [&](error &why) { fail(system.render(why)); });
  }
  return std::llround(total);
}

int64_t run(actor_system &system, const std::string &name, int64_t n) {
  if (name == "send" || name == "send-known" || name == "remote")
    return ask(system, system.spawn(send_driver), run_atom::value, n);
  if (name == "queue") return ask(system, system.spawn(queue_driver), run_atom::value, n);
  if (name == "request" || name == "remote-request")
    return ask(system, system.spawn(request_driver), run_atom::value, n);
  if (name == "suspend") return ask(system, system.spawn(suspend_driver), run_atom::value, n);
  if (name == "create") return ask(system, system.spawn(create_driver), run_atom::value, n);
  if (name == "idle") {
    kept.push_back(system.spawn(idle_driver));
    return ask(system, kept.back(), run_atom::value, n);
  }
  if (name == "fib") return ask(system, system.spawn(fib), n);
  if (name == "queens12" || name == "queens13")
    return ask(system, system.spawn(queen), int64_t{0}, int64_t{0}, int64_t{0}, (int64_t{1} << n) - 1);
  if (name == "quadrature") return quadrature(system, n);
  fail("there is no case " + name);
}

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 3) fail("caf CASE THREADS");
  actor_system_config config;
  config.set("scheduler.max-threads", static_cast<size_t>(std::strtoul(argv[2], nullptr, 10)));
  // Workers sleep when there is nothing to do: processor time would not be work.
  config.set("work-stealing.aggressive-poll-attempts", size_t{1});
  config.set("work-stealing.moderate-poll-attempts", size_t{1});
  actor_system system{config};
  int64_t n;
  while (std::scanf("%" SCNd64, &n) == 1) {
    int64_t start = now_ns();
    int64_t result = run(system, argv[1], n);
    std::printf("%" PRId64 " %" PRId64 "\n", now_ns() - start, result);
    std::fflush(stdout);
  }
  // The system would wait for actors that stay.
  std::_Exit(0);
}
