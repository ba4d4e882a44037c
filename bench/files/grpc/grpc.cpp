// A peer of `bifrost bench files`: the file server over gRPC. `files.h` has its lines.
//
// ADDRESS and WHERE are as gRPC writes them. The server is the callback server: the library's
// threads receive calls and put them into a central queue, from which TASKS threads take them.

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "files.grpc.pb.h"
#include "files.h"

using grpc::Status;

static Status status_of(const Failure& failure) {
  return Status(failure.is_refused ? grpc::StatusCode::PERMISSION_DENIED : grpc::StatusCode::NOT_FOUND, failure.text);
}

// Tasks on one central queue.
class Tasks {
 public:
  Tasks(int number, Counts& counts) : counts_(counts) {
    for (int i = 0; i < number; i++) threads_.emplace_back([this] { run(); });
  }
  void post(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> held(counts_.lock);
      counts_.queued();
      queue_.push_back({now_ns(), std::move(work)});
    }
    ready_.notify_one();
  }

 private:
  struct Invocation {
    int64_t since;
    std::function<void()> work;
  };

  void run() {
    std::unique_lock<std::mutex> held(counts_.lock);
    for (;;) {
      ready_.wait(held, [this] { return !queue_.empty(); });
      Invocation invocation = std::move(queue_.front());
      queue_.pop_front();
      int64_t began = counts_.began(invocation.since);
      held.unlock();
      invocation.work();
      held.lock();
      counts_.ended(began);
    }
  }

  Counts& counts_;
  std::condition_variable ready_;
  std::deque<Invocation> queue_;
  std::vector<std::thread> threads_;
};

class Server final : public files::FileServer::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Server(std::string folder, Tasks& tasks) : folder_(std::move(folder)), tasks_(tasks) {}

  Reactor* Open(Context* context, const files::Name* name, files::File* reply) override {
    return call(context, [this, name, reply] { reply->set_file(folder_.open(name->name(), name->mode())); });
  }
  Reactor* Read(Context* context, const files::Range* range, files::Data* reply) override {
    return call(context, [this, range, reply] {
      Slow slow{range->compute_us(), range->block_us()};
      reply->set_data(folder_.read(range->file(), range->at(), range->most(), slow));
    });
  }
  Reactor* Write(Context* context, const files::Part* part, files::Size* reply) override {
    return call(context, [this, part, reply] {
      reply->set_size(folder_.write(part->file(), part->at(), part->data().data(), part->data().size()));
    });
  }
  Reactor* Seek(Context* context, const files::Place* place, files::Size* reply) override {
    return call(context, [this, place, reply] { reply->set_size(folder_.seek(place->file(), place->to())); });
  }
  Reactor* Close(Context* context, const files::File* file, files::Nothing*) override {
    return call(context, [this, file] { folder_.close(file->file()); });
  }
  Reactor* List(Context* context, const files::Nothing*, files::Names* reply) override {
    return call(context, [this, reply] {
      for (auto& name : folder_.list()) reply->add_names(name);
    });
  }
  Reactor* Null(Context* context, const files::Nothing*, files::Nothing*) override {
    return call(context, [] {});
  }
  grpc::ServerWriteReactor<files::Data>* ReadAll(Context*, const files::Stream* stream) override {
    return new Parts(*this, *stream);
  }

 private:
  template <class Work>
  Reactor* call(Context* context, Work work) {
    auto* reactor = context->DefaultReactor();
    tasks_.post([reactor, work] {
      Status status = Status::OK;
      try {
        work();
      } catch (const Failure& failure) {
        status = status_of(failure);
      }
      reactor->Finish(status);
    });
    return reactor;
  }

  // A call that answers in parts; each is read by a task when the one before was written.
  class Parts final : public grpc::ServerWriteReactor<files::Data> {
   public:
    Parts(Server& server, const files::Stream& stream) : server_(server), stream_(stream) { next(); }
    void OnWriteDone(bool ok) override {
      if (!ok) return Finish(Status::CANCELLED);
      next();
    }
    void OnDone() override { delete this; }

   private:
    void next() {
      server_.tasks_.post([this] {
        try {
          int64_t most = std::min(stream_.block(), stream_.size() - at_);
          part_.set_data(most <= 0 ? "" : server_.folder_.read(stream_.file(), at_, most, Slow()));
        } catch (const Failure& failure) {
          return Finish(status_of(failure));
        }
        at_ += int64_t(part_.data().size());
        if (part_.data().empty())
          Finish(Status::OK);
        else
          StartWrite(&part_);
      });
    }

    Server& server_;
    files::Stream stream_;
    files::Data part_;
    int64_t at_ = 0;
  };

  Folder folder_;
  Tasks& tasks_;
};

class Caller final : public Client {
 public:
  explicit Caller(std::shared_ptr<grpc::Channel> channel) : stub_(files::FileServer::NewStub(channel)) {}

  int32_t open(const std::string& name, const std::string& mode) override {
    files::Name request;
    request.set_name(name);
    request.set_mode(mode);
    return call(&files::FileServer::Stub::Open, request).file();
  }
  void read(int32_t file, int64_t at, int64_t most, const Slow& slow, std::string& to) override {
    to += call(&files::FileServer::Stub::Read, range(file, at, most, slow)).data();
  }
  int32_t write(int32_t file, int64_t at, const std::string& bytes) override {
    files::Part request;
    request.set_file(file);
    request.set_at(at);
    request.set_data(bytes);
    return int32_t(call(&files::FileServer::Stub::Write, request).size());
  }
  int64_t seek(int32_t file, int64_t to) override {
    files::Place request;
    request.set_file(file);
    request.set_to(to);
    return call(&files::FileServer::Stub::Seek, request).size();
  }
  void close(int32_t file) override {
    files::File request;
    request.set_file(file);
    call(&files::FileServer::Stub::Close, request);
  }
  std::vector<std::string> list() override {
    auto names = call(&files::FileServer::Stub::List, files::Nothing());
    return {names.names().begin(), names.names().end()};
  }
  void nothing() override { call(&files::FileServer::Stub::Null, files::Nothing()); }

  int64_t flight(int32_t file, int64_t size, int64_t block, int depth, std::string& to) override {
    struct Flight {
      grpc::ClientContext context;
      files::Data reply;
      Status status;
      int64_t at = 0;
      std::unique_ptr<grpc::ClientAsyncResponseReader<files::Data>> reader;
    };
    grpc::CompletionQueue queue;
    int64_t next = 0, calls = 0;
    int under_way = 0;
    Status failed = Status::OK;
    to.resize(size_t(size));
    auto begin = [&] {
      auto* flight = new Flight;
      flight->at = next;
      auto request = range(file, next, std::min(block, size - next), Slow());
      flight->reader = stub_->AsyncRead(&flight->context, request, &queue);
      flight->reader->Finish(&flight->reply, &flight->status, flight);
      next += block, calls++, under_way++;
    };
    while (next < size && under_way < depth) begin();
    void* tag;
    bool ok;
    while (under_way > 0 && queue.Next(&tag, &ok)) {
      std::unique_ptr<Flight> flight(static_cast<Flight*>(tag));
      under_way--;
      auto& data = flight->reply.data();
      if (!flight->status.ok()) failed = flight->status;
      if (flight->at + int64_t(data.size()) > size) failed = Status(grpc::StatusCode::OUT_OF_RANGE, "too long");
      if (!failed.ok()) continue;
      std::memcpy(&to[size_t(flight->at)], data.data(), data.size());
      if (next < size) begin();
    }
    succeed(failed);
    return calls;
  }

  int64_t stream(int32_t file, int64_t size, int64_t block, std::string& to) override {
    grpc::ClientContext context;
    files::Stream request;
    request.set_file(file);
    request.set_size(size);
    request.set_block(block);
    auto reader = stub_->ReadAll(&context, request);
    files::Data part;
    while (reader->Read(&part)) to += part.data();
    succeed(reader->Finish());
    return 1;
  }

 private:
  static files::Range range(int32_t file, int64_t at, int64_t most, const Slow& slow) {
    files::Range request;
    request.set_file(file);
    request.set_at(at);
    request.set_most(most);
    request.set_compute_us(slow.compute_us);
    request.set_block_us(slow.block_us);
    return request;
  }
  static void succeed(const Status& status) {
    if (!status.ok()) throw Failure{status.error_code() != grpc::StatusCode::NOT_FOUND, status.error_message()};
  }
  template <class Request, class Reply>
  Reply call(Status (files::FileServer::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
             const Request& request) {
    grpc::ClientContext context;
    Reply reply;
    succeed((stub_.get()->*method)(&context, request, &reply));
    return reply;
  }

  std::unique_ptr<files::FileServer::Stub> stub_;
};

static int serve(const std::string& address, const std::string& folder, int number) {
  Counts counts;
  Tasks tasks(number, counts);
  Server service(folder, tasks);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) return 1;
  bool is_any = address.size() > 2 && address.compare(address.size() - 2, 2, ":0") == 0;
  std::string where = is_any ? address.substr(0, address.size() - 1) + std::to_string(port) : address;
  answer_counts(where, counts);
  // The process ends with its calls: there is nothing to keep.
  std::_Exit(0);
}

static int client(const std::string& where, const std::string& name, const std::string& path, int64_t block) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A proxy of the environment is not for this machine.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomChannel(where, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) return 1;
  Caller(channel).run(name, path, block);
  std::_Exit(0);
}

int main(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 1 && arguments[0] == "version")
    return std::cout << "gRPC " << grpc::Version() << std::endl, 0;
  if (arguments.size() == 4 && arguments[0] == "serve")
    return serve(arguments[1], arguments[2], std::stoi(arguments[3]));
  if (arguments.size() == 5 && arguments[0] == "client")
    return client(arguments[1], arguments[2], arguments[3], std::stoll(arguments[4]));
  return usage(words[0]);
}
