// Exchanges with a server that wait for the answer: a worker has the socket.

import { Worker } from "node:worker_threads";

/** The longest answer, in bytes, and the longest wait for it, in milliseconds. */
const ANSWER_BYTES_MAX = 1 << 20;
const ANSWER_MS_MAX = 20_000;

const CODE = `
const { connect } = require("node:net");
const { parentPort, workerData } = require("node:worker_threads");
const { path, state, answer } = workerData;
const socket = connect(path);
let come = Buffer.alloc(0);
const told = (length) => {
  Atomics.store(state, 0, length);
  Atomics.notify(state, 0);
};
socket.on("data", (bytes) => {
  come = Buffer.concat([come, bytes]);
  // A reply begins with its code and the length of the rest.
  const length = come.length < 16 ? Infinity : 16 + Number(come.readBigUInt64LE(8));
  if (come.length < length) return;
  answer.set(come.subarray(0, length));
  come = come.subarray(length);
  told(length);
});
socket.on("close", () => told(-1));
socket.on("error", () => undefined);
parentPort.on("message", (bytes) => (bytes ? socket.write(bytes) : socket.destroy()));
`;

/** A stream to a server on a unix socket. */
export class Exchange {
  private readonly state = new Int32Array(new SharedArrayBuffer(4));
  private readonly answer = new Uint8Array(new SharedArrayBuffer(ANSWER_BYTES_MAX));
  private readonly worker: Worker;

  constructor(address: string) {
    const path = address.replace("unix://", "");
    this.worker = new Worker(CODE, { eval: true, workerData: { path, state: this.state, answer: this.answer } });
  }

  /** Sends bytes, and waits for the reply. */
  readonly exchange = (bytes: Uint8Array): Uint8Array => {
    Atomics.store(this.state, 0, 0);
    this.worker.postMessage(bytes.slice());
    if (Atomics.wait(this.state, 0, 0, ANSWER_MS_MAX) === "timed-out") throw new Error("no answer has come");
    const length = Atomics.load(this.state, 0);
    if (length < 0) throw new Error("the server has closed the connection");
    return this.answer.slice(0, length);
  };

  async end(): Promise<void> {
    this.worker.postMessage(null);
    await this.worker.terminate();
  }
}
