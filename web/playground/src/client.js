// Workers as the page sees them: promises of answers.

import { Mistake } from './engine.js';

/// A worker. `stop` ends it and whatever it computes.
export class Client {
  #worker;
  #waiting = new Map();
  #next = 0;

  constructor(module) {
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
    this.#worker.postMessage({ module });
    this.#worker.onmessage = ({ data: { id, ok, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) reject(new Mistake(error));
      else resolve(ok);
    };
  }

  get isBusy() {
    return this.#waiting.size > 0;
  }

  call(request) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, request });
    });
  }

  stop() {
    this.#worker.terminate();
    this.#waiting.clear();
  }
}

/// The last of several requests: a new one ends those that are still being computed.
export class Latest {
  #module;
  #client = null;

  constructor(module) {
    this.#module = module;
  }

  call(request) {
    this.#client ??= new Client(this.#module);
    if (this.#client.isBusy) {
      this.#client.stop();
      this.#client = new Client(this.#module);
    }
    return this.#client.call(request);
  }
}
