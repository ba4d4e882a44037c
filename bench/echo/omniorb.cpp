// A peer of `bifrost bench echo`: omniORB. `echo.h` has its lines.
//
// ADDRESS is an end point of omniORB, such as `giop:tcp:127.0.0.1:`; WHERE is the object reference as text. All options
// have their defaults: a thread for each connection.

#include <omniORB4/CORBA.h>

#include <cstring>

#include "echo.hh"
#include "echo.h"

class Server : public POA_bench::Echo {
 public:
  bench::Bytes* exchange(const bench::Bytes& sent, CORBA::ULong wanted) override {
    Part part = answer(reinterpret_cast<const char*>(sent.get_buffer()), sent.length(), wanted);
    auto size = CORBA::ULong(part.size);
    auto* bytes = bench::Bytes::allocbuf(size);
    std::memcpy(bytes, part.start, part.size);
    return new bench::Bytes(size, size, bytes, true);
  }
};

static CORBA::ORB_var orb(const char* options[][2]) {
  int none = 0;
  return CORBA::ORB_init(none, nullptr, "omniORB4", options);
}

static int serve(const char* address) {
  const char* options[][2] = {{"endPoint", address}, {nullptr, nullptr}};
  auto main = orb(options);
  CORBA::Object_var object = main->resolve_initial_references("RootPOA");
  auto poa = PortableServer::POA::_narrow(object);
  auto* server = new Server;
  PortableServer::ObjectId_var id = poa->activate_object(server);
  bench::Echo_var reference = server->_this();
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  CORBA::String_var text = main->object_to_string(reference);
  be_ready(text.in());
  main->run();
  return 0;
}

static int client(const char* where) {
  const char* options[][2] = {{nullptr, nullptr}};
  auto main = orb(options);
  CORBA::Object_var object = main->string_to_object(where);
  bench::Echo_var server = bench::Echo::_narrow(object);
  auto exchange = [&](const std::string& sent, uint32_t wanted) {
    auto size = CORBA::ULong(sent.size());
    auto* bytes = reinterpret_cast<CORBA::Octet*>(const_cast<char*>(sent.data()));
    try {
      return bench::Bytes_var(server->exchange(bench::Bytes(size, size, bytes, false), wanted));
    } catch (const CORBA::SystemException& failure) {
      throw std::runtime_error(failure._name());
    }
  };
  follow_orders(exchange, [](const bench::Bytes_var& bytes) {
    return Part{reinterpret_cast<const char*>(bytes->get_buffer()), bytes->length()};
  });
  // The process ends with its calls: there is nothing to keep.
  std::_Exit(0);
}

int main(int count, char** words) {
  std::string order = count > 1 ? words[1] : "";
  if (count == 2 && order == "version") return std::cout << "omniORB " << omniORB::versionString() << std::endl, 0;
  if (count == 3 && order == "serve") return serve(words[2]);
  if (count == 3 && order == "client") return client(words[2]);
  return usage(words[0]);
}
