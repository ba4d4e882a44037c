// A peer of `bifrost bench echo`: Cap'n Proto for C++ over TCP. `echo.h` has its lines.
//
// ADDRESS is one of KJ, such as `127.0.0.1:0`; WHERE is the same with the port.

#include <capnp/common.h>
#include <capnp/ez-rpc.h>
#include <capnp/message.h>

#include "echo.capnp.h"
#include "echo.h"

class Server final : public Echo::Server {
  kj::Promise<void> exchange(ExchangeContext context) override {
    auto params = context.getParams();
    auto sent = params.getSent();
    Part part = answer(reinterpret_cast<const char*>(sent.begin()), sent.size(), params.getWanted());
    context.getResults().setData(kj::arrayPtr(reinterpret_cast<const kj::byte*>(part.start), part.size));
    return kj::READY_NOW;
  }
};

static int serve(const std::string& address) {
  capnp::EzRpcServer server(kj::heap<Server>(), address.c_str());
  auto& scope = server.getWaitScope();
  auto port = server.getPort().wait(scope);
  be_ready(address.substr(0, address.rfind(':') + 1) + std::to_string(port));
  kj::NEVER_DONE.wait(scope);
}

static int client(const std::string& where) {
  capnp::EzRpcClient rpc(where.c_str());
  auto echo = rpc.getMain<Echo>();
  auto& scope = rpc.getWaitScope();
  auto exchange = [&](const std::string& sent, uint32_t wanted) {
    try {
      auto request = echo.exchangeRequest();
      request.setSent(kj::arrayPtr(reinterpret_cast<const kj::byte*>(sent.data()), sent.size()));
      request.setWanted(wanted);
      return request.send().wait(scope);
    } catch (const kj::Exception& error) {
      throw std::runtime_error(error.getDescription().cStr());
    }
  };
  return follow_orders(exchange, [](const capnp::Response<Echo::ExchangeResults>& response) {
    auto data = response.getData();
    return Part{reinterpret_cast<const char*>(data.begin()), data.size()};
  });
}

int main(int count, char** words) {
  std::string order = count > 1 ? words[1] : "";
  try {
    if (count == 2 && order == "version")
      return std::cout << "Cap'n Proto " << CAPNP_VERSION_MAJOR << '.' << CAPNP_VERSION_MINOR << '.' << CAPNP_VERSION_MICRO
                       << std::endl,
             0;
    if (count == 3 && order == "serve") return serve(words[2]);
    if (count == 3 && order == "client") return client(words[2]);
  } catch (const kj::Exception& error) {
    std::cerr << error.getDescription().cStr() << std::endl;
    return 1;
  }
  return usage(words[0]);
}
