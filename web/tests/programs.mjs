// Programs of a session, started and ended by tests.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const PROGRAM = process.env.ANABRANCH ?? 'target/debug/anabranch';
/** Longest wait for a line of a program. */
const PATIENCE_MS = 30_000;

/** A folder that is removed at the end, with the programs that run in it. */
export class Bed {
  folder = mkdtempSync(join(tmpdir(), 'anabranch-browser-'));
  #running = [];

  path(name) {
    return join(this.folder, name);
  }

  /** Makes a key file. Returns its path and public key. */
  key(name) {
    const file = this.path(`${name}.key`);
    const made = spawnSync(PROGRAM, ['keygen', '--output', file], { encoding: 'utf8' });
    if (made.status !== 0) throw new Error(`keygen: ${made.stderr ?? made.error}`);
    return { file, public: made.stdout.trim() };
  }

  start(...parameters) {
    const program = new Running(parameters);
    this.#running.push(program);
    return program;
  }

  async end() {
    await Promise.all(this.#running.map((program) => program.stop('SIGKILL')));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Report of a program whose due work waited for a processor. */
const SLOW = 'too slow to keep time';

/**
 * Watches whether this machine keeps time. Returns a function that tells whether `isSo`, or whether
 * that cannot be judged here, which it prints.
 */
export function watch(...programs) {
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  return (isSo, what) => {
    delays.disable();
    const isSlow = delays.max > 100e6 || programs.some((program) => program.said.includes(SLOW));
    if (!isSo && isSlow) console.log(`NOT JUDGED: ${what}: this machine is ${SLOW}`);
    return isSo || isSlow;
  };
}

/** A running program and its standard error. */
export class Running {
  said = '';
  /** Resolves when it has ended. */
  ended;
  #child;

  constructor(parameters) {
    this.#child = spawn(PROGRAM, parameters, { stdio: ['pipe', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => { this.said += text; });
    }
    this.#child.stdin.on('error', () => {});
    this.ended = new Promise((resolve) => { this.#child.on('exit', resolve); });
  }

  /** Waits for a text that matches, and returns the match. */
  async waitFor(pattern) {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      // Whole lines only.
      const match = pattern.exec(this.said.slice(0, this.said.lastIndexOf('\n') + 1));
      if (match) return match;
      if (Date.now() > deadline || this.#child.exitCode !== null) {
        throw new Error(`it has not said ${pattern}:\n${this.said}`);
      }
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }

  /** Writes a line to its standard input. */
  say(line) {
    this.#child.stdin.write(`${line}\n`);
  }

  async stop(signal = 'SIGTERM') {
    if (this.#child.exitCode === null) this.#child.kill(signal);
    await this.ended;
  }
}

/** Returns a free port of those that no system gives to sockets that ask for none. */
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.on('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => { server.close(resolve); });
    if (isFree) return port;
  }
}
