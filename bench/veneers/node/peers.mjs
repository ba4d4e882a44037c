// Peers of `bifrost bench veneers` in Node: @grpc/grpc-js with the server in C++, and capnweb with one in Node.
//
//   node peers.mjs capnweb serve PATH            prints `ready`, ends when its input does
//   node peers.mjs grpc-js|capnweb client PATH   answers lines `CASE N`, as README.md has them
//
// PATH is a unix socket.
import { once } from 'node:events';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Gives the calls of a peer: each starts at once, and gives a promise of its result. */
const peers = {
  async 'grpc-js'(path) {
    const grpc = (await import('@grpc/grpc-js')).default;
    const loader = (await import('@grpc/proto-loader')).default;
    const file = fileURLToPath(new URL('calls.proto', import.meta.url));
    const { calls } = grpc.loadPackageDefinition(loader.loadSync(file, { longs: Number, defaults: true }));
    const client = new calls.Probe(`unix:${path}`, grpc.credentials.createInsecure());
    const call = (method, request) =>
      new Promise((ready, failed) => client[method](request, (error, reply) => (error ? failed(error) : ready(reply))));
    const sameInt = async (number, object = 1) => (await call('sameInt', { object, number })).number;
    return {
      sameInt,
      nothing: () => call('nothing', { object: 1 }),
      two: async (number) => sameInt(number, (await call('itself', { object: 1 })).object),
      pairs: async (number) => (await call('pairs', { object: 1, number })).rows.map((row) => [row.number, row.text]),
      close: () => client.close(),
    };
  },

  async capnweb(path) {
    const { WebSocket } = await import('ws');
    // Older versions of Node have none of their own.
    globalThis.WebSocket ??= WebSocket;
    const { newWebSocketRpcSession } = await import('capnweb');
    const socket = new WebSocket(`ws+unix:${path}:/`, { perMessageDeflate: false });
    await once(socket, 'open');
    const probe = newWebSocketRpcSession(socket);
    return {
      sameInt: (number) => probe.sameInt(number),
      nothing: () => probe.nothing(),
      async two(number) {
        // The second call names the result of the first one, and both are sent together.
        const itself = probe.itself();
        const result = await itself.sameInt(number);
        itself[Symbol.dispose]();
        return result;
      },
      pairs: (limit) => probe.pairs(limit),
      close: () => socket.terminate(),
    };
  },
};

/** Serves capnweb. The process ends when its input does. */
async function serve(path) {
  const { WebSocket, WebSocketServer } = await import('ws');
  globalThis.WebSocket ??= WebSocket;
  const { RpcTarget, newWebSocketRpcSession } = await import('capnweb');
  class Probe extends RpcTarget {
    nothing() {}
    sameInt(number) {
      return number;
    }
    itself() {
      return this;
    }
    pairs(limit) {
      return Array.from({ length: limit }, (_, n) => [n + 1, String(n + 1)]);
    }
  }
  const server = http.createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  sockets.on('connection', (socket) => newWebSocketRpcSession(socket, new Probe()));
  server.listen(path);
  await once(server, 'listening');
  console.log('ready');
  process.stdin.resume().on('end', () => process.exit());
}

const nanoseconds = (since) => Number(process.hrtime.bigint() - since);

/** Runs a case: its nanoseconds and its result. */
async function run(peer, name, count) {
  const begin = process.hrtime.bigint();
  let result = 0;
  switch (name) {
    case 'record':
    case 'batch': {
      // Calls that do not wait for each other. The time ends when all are begun, or when all are answered.
      const promises = [];
      for (let n = 0; n < count; n++) promises.push(peer.sameInt(n));
      const begun = nanoseconds(begin);
      const all = await Promise.all(promises);
      const answered = nanoseconds(begin);
      return [name === 'record' ? begun : answered, all.reduce((a, b) => a + b)];
    }
    case 'null':
      for (; result < count; result++) await peer.nothing();
      break;
    case 'pair':
      for (let n = 0; n < count; n++) result += await peer.sameInt(n);
      break;
    case 'two':
      for (let n = 0; n < count; n++) result += await peer.two(n);
      break;
    case 'table':
      for (const [number, text] of await peer.pairs(count)) result += number + text.length;
      break;
    default:
      throw new Error(`no case ${name}`);
  }
  return [nanoseconds(begin), result];
}

const [name, order, path] = process.argv.slice(2);
if (name === 'capnweb' && order === 'serve') {
  await serve(path);
} else {
  const peer = await peers[name](path);
  for await (const line of createInterface({ input: process.stdin })) {
    const [step, count] = line.split(' ');
    console.log((await run(peer, step, Number(count))).join(' '));
    // What the library still has to send is no part of the next run.
    await peer.nothing();
  }
  peer.close();
}
