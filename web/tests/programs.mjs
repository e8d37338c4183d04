// Programs of a session, started and ended by tests.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
      const match = pattern.exec(this.said);
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

/** Returns a port that is free now. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}
