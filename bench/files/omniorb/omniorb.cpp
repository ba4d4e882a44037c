// A peer of `bifrost bench files`: the file server over omniORB. `files.h` has its lines.
//
// ADDRESS is an end point of omniORB, such as `giop:tcp:127.0.0.1:` or `giop:unix:PATH`; WHERE is
// the object reference as text. TASKS is the size of the ORB's pool of threads, which take
// requests from all connections. The ORB does not tell how many requests wait, so the queue is not
// counted.

#include <omniORB4/CORBA.h>

#include "files.hh"
#include "files.h"

static const char* const MESSAGE_BYTES_MAX = "134217728";

// A task at work on an invocation.
struct Invocation {
  Counts& counts;
  int64_t since;
  explicit Invocation(Counts& counts) : counts(counts) {
    std::lock_guard<std::mutex> held(counts.lock);
    since = counts.began(0);
  }
  ~Invocation() {
    std::lock_guard<std::mutex> held(counts.lock);
    counts.ended(since);
  }
};

class Server : public POA_files::FileServer {
 public:
  Server(std::string folder, Counts& counts) : folder_(std::move(folder)), counts_(counts) {}

  CORBA::Long open(const char* name, const char* mode) override {
    return call([&] { return folder_.open(name, mode); });
  }
  files::Bytes* read(CORBA::Long file, CORBA::LongLong at, CORBA::LongLong most) override {
    return slow_read(file, at, most, 0, 0);
  }
  files::Bytes* slow_read(CORBA::Long file, CORBA::LongLong at, CORBA::LongLong most, CORBA::Long compute_us,
                          CORBA::Long block_us) override {
    return call([&] {
      std::string bytes = folder_.read(file, at, most, Slow{compute_us, block_us});
      auto* data = files::Bytes::allocbuf(CORBA::ULong(bytes.size()));
      std::memcpy(data, bytes.data(), bytes.size());
      return new files::Bytes(CORBA::ULong(bytes.size()), CORBA::ULong(bytes.size()), data, true);
    });
  }
  CORBA::Long write(CORBA::Long file, CORBA::LongLong at, const files::Bytes& data) override {
    auto* bytes = reinterpret_cast<const char*>(data.get_buffer());
    return call([&] { return folder_.write(file, at, bytes, data.length()); });
  }
  CORBA::LongLong seek(CORBA::Long file, CORBA::LongLong to) override {
    return call([&] { return folder_.seek(file, to); });
  }
  void close(CORBA::Long file) override {
    call([&] { return folder_.close(file), 0; });
  }
  files::Names* list() override {
    return call([&] {
      auto names = folder_.list();
      auto* all = new files::Names;
      all->length(CORBA::ULong(names.size()));
      for (size_t i = 0; i < names.size(); i++) (*all)[CORBA::ULong(i)] = names[i].c_str();
      return all;
    });
  }
  void nothing() override { Invocation invocation(counts_); }

 private:
  template <class Work>
  auto call(Work work) -> decltype(work()) {
    Invocation invocation(counts_);
    try {
      return work();
    } catch (const Failure& failure) {
      if (failure.is_refused) throw files::Refused(failure.text.c_str());
      throw files::NoFile(failure.text.c_str());
    }
  }

  Folder folder_;
  Counts& counts_;
};

class Caller : public Client {
 public:
  explicit Caller(files::FileServer_ptr server) : server_(files::FileServer::_duplicate(server)) {}

  int32_t open(const std::string& name, const std::string& mode) override {
    return call([&] { return server_->open(name.c_str(), mode.c_str()); });
  }
  void read(int32_t file, int64_t at, int64_t most, const Slow& slow, std::string& to) override {
    call([&] {
      bool is_slow = slow.compute_us > 0 || slow.block_us > 0;
      files::Bytes_var bytes = is_slow ? server_->slow_read(file, at, most, slow.compute_us, slow.block_us)
                                       : server_->read(file, at, most);
      to.append(reinterpret_cast<const char*>(bytes->get_buffer()), bytes->length());
      return 0;
    });
  }
  int32_t write(int32_t file, int64_t at, const std::string& bytes) override {
    auto size = CORBA::ULong(bytes.size());
    auto* data = reinterpret_cast<CORBA::Octet*>(const_cast<char*>(bytes.data()));
    files::Bytes all(size, size, data, false);
    return call([&] { return server_->write(file, at, all); });
  }
  int64_t seek(int32_t file, int64_t to) override {
    return call([&] { return server_->seek(file, to); });
  }
  void close(int32_t file) override {
    call([&] { return server_->close(file), 0; });
  }
  std::vector<std::string> list() override {
    return call([&] {
      files::Names_var names = server_->list();
      std::vector<std::string> all;
      for (CORBA::ULong i = 0; i < names->length(); i++) all.push_back(names[i].in());
      return all;
    });
  }
  void nothing() override { server_->nothing(); }

 private:
  template <class Work>
  static auto call(Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const files::NoFile& failure) {
      throw Failure{false, failure.text.in()};
    } catch (const files::Refused& failure) {
      throw Failure{true, failure.text.in()};
    } catch (const CORBA::SystemException& failure) {
      throw Failure{true, failure._name()};
    }
  }

  files::FileServer_var server_;
};

// Makes an ORB with these options, which end with a pair of nulls.
static CORBA::ORB_var orb(const char* options[][2]) {
  int none = 0;
  return CORBA::ORB_init(none, nullptr, "omniORB4", options);
}

static int serve(const std::string& address, const std::string& folder, const std::string& tasks) {
  const char* options[][2] = {{"endPoint", address.c_str()},
                              {"threadPerConnectionPolicy", "0"},
                              {"maxServerThreadPoolSize", tasks.c_str()},
                              {"giopMaxMsgSize", MESSAGE_BYTES_MAX},
                              {nullptr, nullptr}};
  auto main = orb(options);
  CORBA::Object_var object = main->resolve_initial_references("RootPOA");
  auto poa = PortableServer::POA::_narrow(object);
  Counts counts;
  auto* server = new Server(folder, counts);
  PortableServer::ObjectId_var id = poa->activate_object(server);
  files::FileServer_var reference = server->_this();
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  CORBA::String_var text = main->object_to_string(reference);
  answer_counts(text.in(), counts);
  // The process ends with its calls: there is nothing to keep.
  std::_Exit(0);
}

static int client(const std::string& where, const std::string& name, const std::string& path, int64_t block) {
  const char* options[][2] = {{"giopMaxMsgSize", MESSAGE_BYTES_MAX}, {nullptr, nullptr}};
  auto main = orb(options);
  CORBA::Object_var object = main->string_to_object(where.c_str());
  files::FileServer_var server = files::FileServer::_narrow(object);
  Caller(server).run(name, path, block);
  std::_Exit(0);
}

int main(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 1 && arguments[0] == "version")
    return std::cout << "omniORB " << omniORB::versionString() << std::endl, 0;
  if (arguments.size() == 4 && arguments[0] == "serve") return serve(arguments[1], arguments[2], arguments[3]);
  if (arguments.size() == 5 && arguments[0] == "client")
    return client(arguments[1], arguments[2], arguments[3], std::stoll(arguments[4]));
  return usage(words[0]);
}
