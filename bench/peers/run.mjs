// One question, which no server has foreseen: walk STEPS stations along a chain, each reached from the one before, and add
// up their heights. All clients are this program; all servers are processes of their own on this machine.
//
//   npm ci && node run.mjs [--rounds N] [--json] [--only bifrost,grpc,...] [--bifrost PATH]
import { fork, spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const STEPS = 100;
const EXPECTED = Array.from({ length: STEPS }, (_, k) => (k + 1) % 17).reduce((a, b) => a + b);
const here = path.dirname(new URL(import.meta.url).pathname);
const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '300' },
    json: { type: 'boolean', default: false },
    only: { type: 'string' },
    bifrost: { type: 'string', default: path.join(here, '../../target/release/bifrost') },
  },
});
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bifrost-peers-'));
const stops = [];

/** Starts one of servers.mjs; its port. */
async function script(name) {
  const child = fork(path.join(here, 'servers.mjs'), [name]);
  stops.push(() => child.kill());
  const [port] = await once(child, 'message');
  return port;
}

/** Starts a program, and waits until `ready` says that it can be asked. */
async function program(file, args, ready) {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  stops.push(() => child.kill());
  child.stdout.resume();
  child.once('error', (error) => console.error(`${file}: ${error.message}`));
  for (let tries = 0; !(await ready()); tries += 1) {
    if (tries > 500 || child.exitCode !== null) throw new Error(`${file} does not start`);
    await new Promise((go) => setTimeout(go, 20));
  }
}

const answers = (address) => () =>
  new Promise((known) => {
    const socket = net.connect(address);
    socket.once('connect', () => known(!socket.destroy() || true));
    socket.once('error', () => known(false));
  });

/** Each gives its name, its round trips for the question, and a function that asks it. */
const peers = {
  async bifrost() {
    const socket = path.join(folder, 'bifrost');
    const args = ['serve', '--listen', `unix://${socket}`, path.join(here, 'chain.theta')];
    await program(options.bifrost, args, answers(socket));
    const stream = net.connect(socket);
    stream.setEncoding('utf8');
    let waiting;
    let text = '';
    stream.on('data', (part) => {
      text += part;
      if (/^(ok .*|welcome .*|error.*)\n/m.test(text)) {
        const answer = text;
        text = '';
        waiting(answer);
      }
    });
    const say = (lines) =>
      new Promise((answer) => {
        waiting = answer;
        stream.write(lines);
      });
    await say('hello 2 name "peers"\n');
    const question = `$at := cell Station
$at.put(lookup first: Station)
$sum := cell int
$sum.put(0)
$k := cell int
$k.put(0)
while $k.get().lt(${STEPS}) do
  $sum.put($sum.get().add($at.get().height()))
  $at.put($at.get().next())
  $k.put($k.get().add(1))
end
? $sum.get()
`;
    const ask = async () => Number(/^@\d+ = (\d+)$/m.exec(await say(question))?.[1]);
    return { name: 'Bifrost', trips: 1, ask };
  },

  async grpc() {
    const grpc = (await import('@grpc/grpc-js')).default;
    const loader = (await import('@grpc/proto-loader')).default;
    const { Chain } = grpc.loadPackageDefinition(loader.loadSync(path.join(here, 'chain.proto')));
    const client = new Chain(`127.0.0.1:${await script('grpc')}`, grpc.credentials.createInsecure());
    stops.push(() => client.close());
    const get = (id) =>
      new Promise((ready, failed) => client.get({ id }, (error, station) => (error ? failed(error) : ready(station))));
    const ask = async () => {
      let [sum, id] = [0, 1];
      for (let k = 0; k < STEPS; k += 1) {
        const station = await get(id);
        sum += station.height;
        id = station.next;
      }
      return sum;
    };
    return { name: 'gRPC', trips: STEPS, ask };
  },

  async capnweb() {
    const { WebSocket } = await import('ws');
    // Older versions of Node.js have none of their own.
    globalThis.WebSocket ??= WebSocket;
    const { newWebSocketRpcSession } = await import('capnweb');
    const socket = new WebSocket(`ws://127.0.0.1:${await script('capnweb')}`, { perMessageDeflate: false });
    await once(socket, 'open');
    stops.push(() => socket.terminate());
    const root = newWebSocketRpcSession(socket);
    const ask = async () => {
      const heights = [];
      for (let k = 0, station = root.first(); k < STEPS; k += 1, station = station.next()) heights.push(station.height());
      return (await Promise.all(heights)).reduce((a, b) => a + b);
    };
    return { name: "Cap'n Web", trips: 1, ask };
  },

  async redis() {
    const socket = path.join(folder, 'redis');
    await program('redis-server', ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder], answers(socket));
    const { createClient } = await import('redis');
    const client = await createClient({ socket: { path: socket } }).connect();
    stops.push(() => client.destroy());
    for (let k = 1; k <= 1000; k += 1) await client.hSet(`station:${k}`, { height: k % 17, next: k + 1 });
    const source = `local sum, id = 0, ARGV[1]
for k = 1, ARGV[2] do
  local station = redis.call('HMGET', 'station:' .. id, 'height', 'next')
  sum = sum + station[1]
  id = station[2]
end
return sum`;
    const sha = await client.scriptLoad(source);
    const ask = () => client.evalSha(sha, { arguments: ['1', String(STEPS)] });
    return { name: 'Redis with Lua', trips: 1, ask };
  },

  async sql() {
    const versions = '/usr/lib/postgresql';
    const version = fs.readdirSync(versions).sort((a, b) => a - b).at(-1);
    const bin = path.join(versions, version, 'bin');
    const data = path.join(folder, 'postgres');
    fs.mkdirSync(data);
    const root = process.getuid() === 0;
    if (root) {
      fs.chmodSync(folder, 0o755);
      execFileSync('chown', ['postgres', data]);
    }
    const as = (file, args) => (root ? ['setpriv', ['--reuid=postgres', '--regid=postgres', '--clear-groups', file, ...args]] : [file, args]);
    execFileSync(...as(path.join(bin, 'initdb'), ['-D', data, '-U', 'peers', '-A', 'trust', '-N']), { stdio: 'ignore', cwd: data });
    const [file, args] = as(path.join(bin, 'postgres'), ['-D', data, '-k', data, '-c', 'listen_addresses=', '-c', 'log_min_messages=fatal']);
    await program(file, args, answers(path.join(data, '.s.PGSQL.5432')));
    const { default: pg } = await import('pg');
    const connect = async () => {
      const client = new pg.Client({ host: data, user: 'peers', database: 'postgres' });
      await client.connect();
      return client;
    };
    let client;
    for (let tries = 0; !client; tries += 1) {
      client = await connect().catch((error) => {
        if (tries > 100) throw error;
        return new Promise((go) => setTimeout(go, 50));
      });
    }
    client.on('error', () => {});
    stops.unshift(() => client.end().catch(() => {}));
    await client.query('create table station (id int primary key, height int not null, next int)');
    await client.query('insert into station select k, k % 17, k + 1 from generate_series(1, 1000) k');
    await client.query('analyze station');
    const text = `with recursive walk(step, height, next) as (
        select 1, height, next from station where id = 1
        union all
        select step + 1, s.height, s.next from walk join station s on s.id = walk.next where step < ${STEPS})
      select sum(height)::int as sum from walk`;
    const ask = async () => (await client.query({ name: 'walk', text })).rows[0].sum;
    return { name: 'SQL, PostgreSQL', trips: 1, ask };
  },

  async graphql() {
    const port = await script('graphql');
    const agent = new http.Agent({ keepAlive: true });
    stops.push(() => agent.destroy());
    const query = `{ first ${'{ height next '.repeat(STEPS - 1)}{ height }${' }'.repeat(STEPS)}`;
    const body = JSON.stringify({ query });
    const post = () =>
      new Promise((ready, failed) => {
        const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
        const request = http.request({ port, host: '127.0.0.1', method: 'POST', agent, headers }, (response) => {
          const parts = [];
          response.on('data', (part) => parts.push(part));
          response.on('end', () => ready(JSON.parse(Buffer.concat(parts).toString())));
        });
        request.on('error', failed);
        request.end(body);
      });
    const ask = async () => {
      const { data, errors } = await post();
      if (errors) throw new Error(errors[0].message);
      let sum = 0;
      for (let station = data.first; station; station = station.next) sum += station.height;
      return sum;
    };
    return { name: 'GraphQL', trips: 1, ask };
  },
};

const rounds = Number(options.rounds);
const chosen = options.only ? options.only.split(',') : Object.keys(peers);
try {
  const ready = [];
  for (const name of chosen) ready.push({ ...(await peers[name]()), times: [] });
  for (let round = -30; round < rounds; round += 1) {
    // In turn, so that what else the machine does meets all of them alike.
    for (const peer of ready) {
      const start = process.hrtime.bigint();
      const sum = Number(await peer.ask());
      const taken = Number(process.hrtime.bigint() - start) / 1e3;
      if (sum !== EXPECTED) throw new Error(`${peer.name} answers ${sum}, not ${EXPECTED}`);
      if (round >= 0) peer.times.push(taken);
    }
  }
  const unit = 'us';
  for (const { name, trips, times } of ready) {
    times.sort((a, b) => a - b);
    const [value, min, max] = [times[times.length >> 1], times[0], times.at(-1)];
    if (options.json) {
      console.log(JSON.stringify({ bench: 'peers', case: 'walk', peer: name, n: STEPS, value, min, max, unit, crossings: trips }));
    } else {
      console.log(`${name.padEnd(18)} ${String(trips).padStart(4)} round trips ${value.toFixed(0).padStart(8)} us (least ${min.toFixed(0)})`);
    }
  }
} finally {
  for (const stop of stops.reverse()) stop();
  setTimeout(() => fs.rmSync(folder, { recursive: true, force: true }), 300);
}
