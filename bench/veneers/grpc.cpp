// A peer of `bifrost bench veneers`: gRPC for C++.
//
//   grpc serve PATH     prints `ready`, ends when its input does
//   grpc client PATH    answers lines `CASE N`, as README.md has them
//
// PATH is a unix socket. The server is the callback server, which answers on the thread that has read the request. Single calls of the client
// are those of the synchronous stub. Calls that do not wait for each other go through a completion queue.

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>

#include "calls.grpc.pb.h"
#include "lines.h"

using calls::Number;
using calls::Object;
using calls::Rows;

// The number of the one object.
static constexpr std::int64_t PROBE = 1;

class Server final : public calls::Probe::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Nothing(Context* context, const Object* object, calls::Done*) override {
    return finish(context, object->object());
  }
  Reactor* SameInt(Context* context, const Number* request, Number* reply) override {
    reply->set_number(request->number());
    return finish(context, request->object());
  }
  Reactor* Itself(Context* context, const Object* object, Object* reply) override {
    reply->set_object(object->object());
    return finish(context, object->object());
  }
  Reactor* Pairs(Context* context, const Number* limit, Rows* reply) override {
    for (std::int64_t n = 1; n <= limit->number(); n++) {
      auto* row = reply->add_rows();
      row->set_number(n);
      row->set_text(std::to_string(n));
    }
    return finish(context, limit->object());
  }

 private:
  static Reactor* finish(Context* context, std::int64_t object) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(object == PROBE ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "no such object"));
    return reactor;
  }
};

static int serve(const std::string& address) {
  Server service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  be_ready();
  server->Wait();
  return 0;
}

static void check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

class Client {
 public:
  explicit Client(const std::string& address) {
    auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)))
      throw std::runtime_error("no server at " + address);
    stub_ = calls::Probe::NewStub(channel);
  }

  Ran run(const std::string& name, std::int64_t count) {
    if (name == "record") return many(count, true);
    if (name == "batch") return many(count, false);
    Watch watch;
    std::int64_t result = 0;
    if (name == "null") {
      for (std::int64_t n = 0; n < count; n++, result++) {
        calls::Done done;
        call(&calls::Probe::Stub::Nothing, object(PROBE), &done);
      }
    } else if (name == "pair") {
      for (std::int64_t n = 0; n < count; n++) result += same_int(PROBE, n);
    } else if (name == "two") {
      for (std::int64_t n = 0; n < count; n++) {
        Object itself;
        call(&calls::Probe::Stub::Itself, object(PROBE), &itself);
        result += same_int(itself.object(), n);
      }
    } else if (name == "table") {
      Rows rows;
      call(&calls::Probe::Stub::Pairs, number(PROBE, count), &rows);
      for (auto& row : rows.rows()) result += row.number() + std::int64_t(row.text().size());
    } else {
      throw std::runtime_error("no such case");
    }
    return {watch.nanoseconds(), result};
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::Status status;
    Number reply;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Number>> reader;
  };

  static Object object(std::int64_t object) {
    Object message;
    message.set_object(object);
    return message;
  }
  static Number number(std::int64_t object, std::int64_t number) {
    Number message;
    message.set_object(object);
    message.set_number(number);
    return message;
  }

  template <class Request, class Reply>
  void call(grpc::Status (calls::Probe::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
            const Request& request, Reply* reply) {
    grpc::ClientContext context;
    check((stub_.get()->*method)(&context, request, reply));
  }
  std::int64_t same_int(std::int64_t object, std::int64_t n) {
    Number reply;
    call(&calls::Probe::Stub::SameInt, number(object, n), &reply);
    return reply.number();
  }

  // Calls that do not wait for each other. The time ends when all are begun, or when all are answered.
  Ran many(std::int64_t count, bool only_begun) {
    std::deque<Call> all;
    Watch watch;
    for (std::int64_t n = 0; n < count; n++) {
      Call& call = all.emplace_back();
      call.reader = stub_->AsyncSameInt(&call.context, number(PROBE, n), &queue_);
      call.reader->Finish(&call.reply, &call.status, &call);
    }
    std::int64_t begun = watch.nanoseconds();
    void* tag;
    bool ok;
    for (std::int64_t n = 0; n < count; n++) {
      if (!queue_.Next(&tag, &ok) || !ok) throw std::runtime_error("a call is lost");
    }
    std::int64_t answered = watch.nanoseconds(), result = 0;
    for (auto& call : all) {
      check(call.status);
      result += call.reply.number();
    }
    return {only_begun ? begun : answered, result};
  }

  std::unique_ptr<calls::Probe::Stub> stub_;
  grpc::CompletionQueue queue_;
};

int main(int count, char** words) {
  std::string order = count == 3 ? words[1] : "";
  if (order == "serve") return serve(std::string("unix:") + words[2]);
  if (order == "client") {
    try {
      Client client(std::string("unix:") + words[2]);
      return answer_lines([&](const std::string& name, std::int64_t count) { return client.run(name, count); });
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      return 1;
    }
  }
  std::cerr << "usage: grpc serve|client PATH" << std::endl;
  return 2;
}
