// A peer of `bifrost bench echo`: gRPC for C++ with its synchronous server and stub. `echo.h` has its lines.
//
// ADDRESS is one of gRPC, such as `127.0.0.1:0`; WHERE is the same with the port.

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "echo.grpc.pb.h"
#include "echo.h"

class Server final : public echo::Echo::Service {
  grpc::Status Exchange(grpc::ServerContext*, const echo::Request* request, echo::Reply* reply) override {
    Part part = answer(request->sent().data(), request->sent().size(), request->wanted());
    reply->set_data(part.start, part.size);
    return grpc::Status::OK;
  }
};

static int serve(const std::string& address) {
  Server service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) return 1;
  be_ready(address.substr(0, address.rfind(':') + 1) + std::to_string(port));
  server->Wait();
  return 0;
}

static int client(const std::string& where) {
  grpc::ChannelArguments arguments;
  // A proxy of the environment is not for this machine.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomChannel(where, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) return 1;
  auto stub = echo::Echo::NewStub(channel);
  auto exchange = [&](const std::string& sent, uint32_t wanted) {
    grpc::ClientContext context;
    echo::Request request;
    request.set_sent(sent);
    request.set_wanted(wanted);
    echo::Reply reply;
    grpc::Status status = stub->Exchange(&context, request, &reply);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    return reply;
  };
  follow_orders(exchange, [](const echo::Reply& reply) { return Part{reply.data().data(), reply.data().size()}; });
  // The process ends with its calls: there is nothing to keep.
  std::_Exit(0);
}

int main(int count, char** words) {
  std::string order = count > 1 ? words[1] : "";
  if (count == 2 && order == "version") return std::cout << "gRPC " << grpc::Version() << std::endl, 0;
  if (count == 3 && order == "serve") return serve(words[2]);
  if (count == 3 && order == "client") return client(words[2]);
  return usage(words[0]);
}
