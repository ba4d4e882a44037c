// A peer of `bifrost bench veneers`: Cap'n Proto for C++.
//
//   capnp serve PATH     prints `ready`, ends when its input does
//   capnp client PATH    answers lines `CASE N`, as README.md has them
//
// PATH is a unix socket.

#include <capnp/ez-rpc.h>
#include <capnp/message.h>

#include <string>
#include <vector>

#include "calls.capnp.h"
#include "lines.h"

class Server final : public Probe::Server {
 public:
  kj::Promise<void> nothing(NothingContext) override { return kj::READY_NOW; }
  kj::Promise<void> sameInt(SameIntContext context) override {
    context.getResults().setNumber(context.getParams().getNumber());
    return kj::READY_NOW;
  }
  kj::Promise<void> itself(ItselfContext context) override {
    context.getResults().setProbe(thisCap());
    return kj::READY_NOW;
  }
  kj::Promise<void> pairs(PairsContext context) override {
    auto count = uint(context.getParams().getLimit());
    auto rows = context.getResults().initRows(count);
    for (uint n = 0; n < count; n++) {
      rows[n].setNumber(n + 1);
      rows[n].setText(kj::str(n + 1));
    }
    return kj::READY_NOW;
  }
};

static int serve(const std::string& address) {
  capnp::EzRpcServer server(kj::heap<Server>(), address.c_str());
  auto& scope = server.getWaitScope();
  server.getPort().wait(scope);
  be_ready();
  kj::NEVER_DONE.wait(scope);
}

class Client {
 public:
  explicit Client(const std::string& address)
      : rpc_(address.c_str()), probe_(rpc_.getMain<Probe>()), scope_(rpc_.getWaitScope()) {}

  Ran run(const std::string& name, std::int64_t count) {
    if (name == "record") return many(count, true);
    if (name == "batch") return many(count, false);
    Watch watch;
    std::int64_t result = 0;
    if (name == "null") {
      for (std::int64_t n = 0; n < count; n++, result++) probe_.nothingRequest().send().wait(scope_);
    } else if (name == "pair") {
      for (std::int64_t n = 0; n < count; n++) result += same_int(probe_, n).wait(scope_).getNumber();
    } else if (name == "two") {
      for (std::int64_t n = 0; n < count; n++) {
        // The second call names the result of the first one, and both are sent together.
        auto itself = probe_.itselfRequest().send();
        result += same_int(itself.getProbe(), n).wait(scope_).getNumber();
      }
    } else if (name == "table") {
      auto request = probe_.pairsRequest();
      request.setLimit(count);
      auto response = request.send().wait(scope_);
      for (auto row : response.getRows()) result += row.getNumber() + std::int64_t(row.getText().size());
    } else {
      KJ_FAIL_REQUIRE("no such case");
    }
    return {watch.nanoseconds(), result};
  }

  // Sends the library's messages that results are not needed any more, so that they are no part of the next run.
  void settle() { probe_.nothingRequest().send().wait(scope_); }

 private:
  using Promise = capnp::RemotePromise<Probe::SameIntResults>;

  static Promise same_int(Probe::Client probe, std::int64_t n) {
    auto request = probe.sameIntRequest();
    request.setNumber(n);
    return request.send();
  }

  // Calls that do not wait for each other. The time ends when all are begun, or when all are answered.
  Ran many(std::int64_t count, bool only_begun) {
    std::vector<Promise> promises;
    std::vector<capnp::Response<Probe::SameIntResults>> responses;
    promises.reserve(count);
    responses.reserve(count);
    Watch watch;
    for (std::int64_t n = 0; n < count; n++) promises.push_back(same_int(probe_, n));
    std::int64_t begun = watch.nanoseconds();
    for (auto& promise : promises) responses.push_back(promise.wait(scope_));
    std::int64_t answered = watch.nanoseconds(), result = 0;
    for (auto& response : responses) result += response.getNumber();
    return {only_begun ? begun : answered, result};
  }

  capnp::EzRpcClient rpc_;
  Probe::Client probe_;
  kj::WaitScope& scope_;
};

int main(int count, char** words) {
  std::string order = count == 3 ? words[1] : "";
  try {
    if (order == "serve") return serve(std::string("unix:") + words[2]);
    if (order == "client") {
      Client client(std::string("unix:") + words[2]);
      // Errors of the library have no `what`.
      return answer_lines([&](const std::string& name, std::int64_t count) {
        try {
          Ran ran = client.run(name, count);
          client.settle();
          return ran;
        } catch (const kj::Exception& error) {
          throw std::runtime_error(error.getDescription().cStr());
        }
      });
    }
  } catch (const kj::Exception& error) {
    std::cerr << error.getDescription().cStr() << std::endl;
    return 1;
  }
  std::cerr << "usage: capnp serve|client PATH" << std::endl;
  return 2;
}
