// The servers that are written in JavaScript, each in a process of its own: `node servers.mjs NAME`. A server sends its
// port to the process that started it.
import http from 'node:http';

const STATIONS = 1000;
const height = (k) => k % 17;

const servers = {
  async grpc() {
    const grpc = (await import('@grpc/grpc-js')).default;
    const loader = (await import('@grpc/proto-loader')).default;
    const file = new URL('chain.proto', import.meta.url).pathname;
    const { Chain } = grpc.loadPackageDefinition(loader.loadSync(file));
    const server = new grpc.Server();
    server.addService(Chain.service, {
      get: ({ request }, done) =>
        done(null, { height: height(request.id), next: request.id < STATIONS ? request.id + 1 : 0 }),
    });
    return new Promise((ready, failed) => {
      const credentials = grpc.ServerCredentials.createInsecure();
      server.bindAsync('127.0.0.1:0', credentials, (error, port) => (error ? failed(error) : ready(port)));
    });
  },

  async capnweb() {
    const { WebSocket, WebSocketServer } = await import('ws');
    // Older versions of Node.js have none of their own.
    globalThis.WebSocket ??= WebSocket;
    const { RpcTarget, newWebSocketRpcSession } = await import('capnweb');
    class Station extends RpcTarget {
      constructor(id) {
        super();
        this.id = id;
      }
      height() {
        return height(this.id);
      }
      next() {
        return new Station(this.id + 1);
      }
    }
    class Root extends RpcTarget {
      first() {
        return new Station(1);
      }
    }
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
    server.on('connection', (socket) => newWebSocketRpcSession(socket, new Root()));
    await new Promise((ready) => server.once('listening', ready));
    return server.address().port;
  },

  async graphql() {
    const { GraphQLSchema, GraphQLObjectType, GraphQLInt, GraphQLNonNull, graphql } = await import('graphql');
    const station = new GraphQLObjectType({
      name: 'Station',
      fields: () => ({
        height: { type: new GraphQLNonNull(GraphQLInt), resolve: (id) => height(id) },
        next: { type: station, resolve: (id) => (id < STATIONS ? id + 1 : null) },
      }),
    });
    const query = new GraphQLObjectType({ name: 'Query', fields: { first: { type: station, resolve: () => 1 } } });
    const schema = new GraphQLSchema({ query });
    const server = http.createServer((request, response) => {
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', async () => {
        const { query: source } = JSON.parse(Buffer.concat(parts).toString());
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify(await graphql({ schema, source })));
      });
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    return server.address().port;
  },
};

process.send(await servers[process.argv[2]]());
