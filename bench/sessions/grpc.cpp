// A peer of `bifrost bench sessions`: strings that clients read and write, over gRPC.
//
//   grpc serve ADDRESS sync|async|callback     prints `ready`, ends when its input does
//   grpc load ADDRESS get|set CLIENTS DEPTH BYTES SECONDS
//       prints calls each second, and p50, p99 and p99.9 in microseconds
//
// The load is one thread with a completion queue. A client is a channel with a connection of its
// own; it has DEPTH calls under way, and begins the next ones when all are answered. Times are
// those from the first of them to the last answer.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "entries.grpc.pb.h"

using bench::Done;
using bench::Entries;
using bench::Entry;
using bench::Key;
using bench::Value;
using Clock = std::chrono::steady_clock;

struct Store {
  std::mutex lock;
  std::unordered_map<int, std::string> values;

  void get(const Key& key, Value* value) {
    std::lock_guard<std::mutex> held(lock);
    value->set_value(values[key.number()]);
  }
  void set(const Entry& entry) {
    std::lock_guard<std::mutex> held(lock);
    values[entry.number()] = entry.value();
  }
};

struct Sync final : Entries::Service {
  Store store;
  grpc::Status Get(grpc::ServerContext*, const Key* key, Value* value) override {
    store.get(*key, value);
    return grpc::Status::OK;
  }
  grpc::Status Set(grpc::ServerContext*, const Entry* entry, Done*) override {
    store.set(*entry);
    return grpc::Status::OK;
  }
};

struct Callback final : Entries::CallbackService {
  Store store;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const Key* key, Value* value) override {
    store.get(*key, value);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext* context, const Entry* entry, Done*) override {
    store.set(*entry);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// A call of the asynchronous server: awaited, then answered, then gone.
struct Call {
  virtual ~Call() = default;
  virtual void proceed(bool ok) = 0;
};

template <class Request, class Reply, class Await, class Work>
struct Unary final : Call {
  Await await;
  Work work;
  grpc::ServerContext context;
  Request request;
  grpc::ServerAsyncResponseWriter<Reply> writer;
  bool answered = false;

  Unary(Await await, Work work) : await(await), work(work), writer(&context) {
    await(&context, &request, &writer, this);
  }
  void proceed(bool ok) override {
    if (!ok || answered) {
      delete this;
      return;
    }
    new Unary(await, work);
    answered = true;
    Reply reply;
    work(request, &reply);
    writer.Finish(reply, grpc::Status::OK, this);
  }
};

template <class Request, class Reply, class Await, class Work>
void await_calls(Await await, Work work) {
  for (int i = 0; i < 64; i++) new Unary<Request, Reply, Await, Work>(await, work);
}

int serve(const std::string& address, const std::string& form) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  Sync sync;
  Callback callback;
  Entries::AsyncService async;
  Store store;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  if (form == "sync") builder.RegisterService(&sync);
  if (form == "callback") builder.RegisterService(&callback);
  if (form == "async") {
    builder.RegisterService(&async);
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); i++)
      queues.push_back(builder.AddCompletionQueue());
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  std::vector<std::thread> threads;
  for (auto& queue : queues) {
    auto* q = queue.get();
    threads.emplace_back([&async, &store, q] {
      auto get = [&async, q](grpc::ServerContext* c, Key* k, grpc::ServerAsyncResponseWriter<Value>* w, void* t) {
        async.RequestGet(c, k, w, q, q, t);
      };
      auto set = [&async, q](grpc::ServerContext* c, Entry* e, grpc::ServerAsyncResponseWriter<Done>* w, void* t) {
        async.RequestSet(c, e, w, q, q, t);
      };
      await_calls<Key, Value>(get, [&store](const Key& key, Value* value) { store.get(key, value); });
      await_calls<Entry, Done>(set, [&store](const Entry& entry, Done*) { store.set(entry); });
      void* tag;
      bool ok;
      while (q->Next(&tag, &ok)) static_cast<Call*>(tag)->proceed(ok);
    });
  }
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  // The process ends with its calls: there is nothing to keep.
  std::_Exit(0);
}

struct Client {
  std::unique_ptr<Entries::Stub> stub;
  int number = 0;
  int left = 0;
  Clock::time_point began;
};

// A call under way.
struct Flight {
  Client* client;
  grpc::ClientContext context;
  grpc::Status status;
  Value value;
  Done done;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Value>> got;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Done>> was_set;
};

int load(const std::string& address, bool set, int clients, int depth, int bytes, double seconds) {
  grpc::CompletionQueue queue;
  std::vector<Client> all(clients);
  std::string text(bytes, 'x');
  for (int i = 0; i < clients; i++) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    all[i].number = i;
    auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) return 1;
    all[i].stub = Entries::NewStub(channel);
    Entry entry;
    entry.set_number(i);
    entry.set_value(text);
    Done done;
    grpc::ClientContext context;
    if (!all[i].stub->Set(&context, entry, &done).ok()) return 1;
  }
  auto begin = [&](Client& client) {
    client.left = depth;
    client.began = Clock::now();
    for (int i = 0; i < depth; i++) {
      auto* flight = new Flight;
      flight->client = &client;
      if (set) {
        Entry entry;
        entry.set_number(client.number);
        entry.set_value(text);
        flight->was_set = client.stub->AsyncSet(&flight->context, entry, &queue);
        flight->was_set->Finish(&flight->done, &flight->status, flight);
      } else {
        Key key;
        key.set_number(client.number);
        flight->got = client.stub->AsyncGet(&flight->context, key, &queue);
        flight->got->Finish(&flight->value, &flight->status, flight);
      }
    }
  };
  auto warm = std::chrono::duration<double>(seconds / 4);
  auto start = Clock::now();
  auto from = start + std::chrono::duration_cast<Clock::duration>(warm);
  auto until = from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  // If no call ends within the time, those that end behind it count.
  std::vector<double> times, late;
  auto last = until;
  int under_way = clients;
  for (auto& client : all) begin(client);
  void* tag;
  bool ok;
  while (under_way > 0 && queue.Next(&tag, &ok)) {
    std::unique_ptr<Flight> flight(static_cast<Flight*>(tag));
    if (!ok || !flight->status.ok() || (!set && flight->value.value().size() != text.size())) return 1;
    Client& client = *flight->client;
    if (--client.left > 0) continue;
    auto now = Clock::now();
    double us = std::chrono::duration<double, std::micro>(now - client.began).count();
    if (now >= until)
      late.push_back(us), last = now;
    else if (now >= from)
      times.push_back(us);
    if (now < until)
      begin(client);
    else
      under_way--;
  }
  if (times.empty()) {
    times = late;
    seconds = std::chrono::duration<double>(last - from).count();
  }
  if (times.empty()) return 1;
  std::sort(times.begin(), times.end());
  auto at = [&](double part) { return times[std::min(times.size() - 1, size_t(part * times.size()))]; };
  std::cout << times.size() * depth / seconds << ' ' << at(0.5) << ' ' << at(0.99) << ' ' << at(0.999) << std::endl;
  std::_Exit(0);
}

int main(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 3 && arguments[0] == "serve") return serve(arguments[1], arguments[2]);
  if (arguments.size() == 7 && arguments[0] == "load")
    return load(arguments[1], arguments[2] == "set", std::stoi(arguments[3]), std::stoi(arguments[4]),
                std::stoi(arguments[5]), std::stod(arguments[6]));
  std::cerr << "usage: grpc serve|load ..." << std::endl;
  return 2;
}
