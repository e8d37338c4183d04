// The module has the hashes of the native program: node --test web/playground
//
// ANABRANCH_LAB names the program, and PLAYGROUND the folder with the built page.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { place } from './src/complete.js';
import { engine } from './src/engine.js';
import * as permalink from './src/permalink.js';
import { collect } from './scenarios.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const folder = process.env.PLAYGROUND;
const program = process.env.ANABRANCH_LAB;
const scenarios = collect(join(root, 'scenarios'));

/// Scenarios of one and several paths, with traces, bases, streams, jitter and outages.
const NAMES = [
  'two-paths',
  'three-paths',
  'cellular',
  'frame-trace',
  'shared-bottleneck',
  'multipath/outage',
  'multipath/four-paths',
  'weather/starlink',
  'weather/mtu-falls',
  'contest/row-3-bursts',
  'encoder/token-bucket',
  'weather/delay-steps-adaptive',
];

const simulator = folder
  ? await engine(await WebAssembly.compile(readFileSync(join(folder, 'anabranch.wasm'))))
  : null;

function experiment(name, seed) {
  const { text, files } = scenarios.names[name];
  const texts = Object.entries(files).map(([file, blob]) => [file, scenarios.blobs[blob]]);
  return { text, files: Object.fromEntries(texts), seed };
}

for (const name of NAMES) {
  test(`${name} has the hash of the program`, { skip: !folder || !program }, () => {
    const seed = 3;
    const path = join(root, 'scenarios', `${name}.toml`);
    const options = ['--first-seed', String(seed), '--format', 'json'];
    let text;
    try {
      text = execFileSync(program, ['run', path, ...options], { encoding: 'utf8' });
    } catch (error) {
      // Expectations that are not met are a result, too.
      text = error.stdout;
    }
    const native = JSON.parse(text);
    const report = simulator({ op: 'run', ...experiment(name, seed) });
    assert.equal(report.runs[0].trace_hash, native.runs[0].trace_hash);
    assert.equal(report.runs[0].packets_sent, native.runs[0].packets_sent);
  });
}

test('thirty seconds of two paths take little CPU time', { skip: !folder }, () => {
  const run = () => simulator({ op: 'run', ...experiment('two-paths', 1) });
  run();
  const before = process.cpuUsage();
  run();
  const { user } = process.cpuUsage(before);
  assert.ok(user < 300_000, `${user / 1000} ms`);
});

test('every scenario has its files, and is read', { skip: !folder }, () => {
  for (const name of Object.keys(scenarios.names)) {
    const summary = simulator({ op: 'check', ...experiment(name, 1) });
    assert.ok(summary.duration_ms > 0, name);
  }
});

test('mistakes have their lines', { skip: !folder }, () => {
  const text = scenarios.names['two-paths'].text.replace('rate = "3 Mbit/s"', 'rote = 3');
  assert.throws(
    () => simulator({ op: 'check', text }),
    (mistake) => mistake.line === text.split('\n').findIndex((line) => /rote/.test(line)) + 1,
  );
});

test('addresses open the same state', async () => {
  const state = {
    scenario: 'multipath/outage',
    text: 'title = "Größe & Maß"\n',
    seed: 7,
    sides: [
      { controller: 'cubic:hystart=classic', scheduler: null },
      { controller: null, scheduler: 'wrr' },
    ],
    changes: [
      { at_ms: 1_200, link: 'lte.1', property: 'loss', value: 0.125 },
      { at_ms: 3_000, link: 'wifi', property: 'up', value: false },
      { at_ms: 4_500, link: 'wifi', property: 'rate', value: 2_500_000 },
    ],
    made: { version: '0.1.0-rc.1', hashes: ['0123456789abcdef', 'd62165821ffbe1a4'] },
  };
  assert.deepEqual(await permalink.read(await permalink.write(state)), state);
  const plain = { ...state, text: null, seed: 1, sides: [state.sides[0]], changes: [], made: null };
  plain.sides = [{ controller: null, scheduler: null }];
  assert.equal(await permalink.write(plain), '#scenario=multipath/outage');
});

test('garbled addresses have defaults', async () => {
  const state = await permalink.read('#seed=-3&changes=x;5.a.b.c;1.wifi.rate.no&text=%%%&a');
  const sides = [{ controller: null, scheduler: null }];
  assert.deepEqual(state, { scenario: null, text: null, seed: 1, sides, changes: [], made: null });
  for (const made of ['version=1', 'version=1&hash=5', 'version=<b>&hash=0123456789abcdef']) {
    assert.equal((await permalink.read(`#${made}`)).made, null);
  }
});

test('an address names another run', () => {
  const made = { version: '0.1.0', hashes: ['0123456789abcdef'] };
  assert.equal(permalink.difference(null, '0.1.0', ['d62165821ffbe1a4']), null);
  assert.equal(permalink.difference(made, '0.2.0', made.hashes), null);
  const other = permalink.difference(made, '0.2.0', ['d62165821ffbe1a4']);
  assert.match(other, /another run .* hash 0123456789abcdef\. /);
  assert.match(other, / of version 0\.1\.0, this page is version 0\.2\.0\.$/);
  assert.match(permalink.difference(made, '0.1.0', ['d62165821ffbe1a4']), /of other files\.$/);
});

test('addresses of strangers are bounded', async () => {
  const sides = [{ controller: null, scheduler: null }];
  const of = (text) => ({ scenario: 'a', text, seed: 1, sides, changes: [] });
  const long = 'x'.repeat(256 << 10);
  assert.equal((await permalink.read(await permalink.write(of(long)))).text, long);
  const bomb = await permalink.write(of('x'.repeat(64 << 20)));
  assert.ok(bomb.length < 512 << 10);
  assert.equal((await permalink.read(bomb)).text, null);
  const changes = `#changes=${'1.wifi.rate.5;'.repeat(2000)}`;
  assert.equal((await permalink.read(changes)).changes.length, 1000);
  const endless = `#scenario=${'a'.repeat(600 << 10)}`;
  assert.equal((await permalink.read(endless)).scenario, null);
});

test('places in a text are found', () => {
  const of = (text) => {
    const found = place(text);
    return found && [found.path.join('.'), found.key, found.typed];
  };
  assert.deepEqual(of('dur'), ['', null, 'dur']);
  assert.deepEqual(of('[links.wifi]\nra'), ['links.wifi', null, 'ra']);
  assert.deepEqual(of('[[flows]]\ncontroller = "cu'), ['flows.0', 'controller', '"cu']);
  assert.deepEqual(of('[[flows]]\nsource = { kind = "gop", f'), ['flows.0.source', null, 'f']);
  assert.deepEqual(of('links.up = { rate = "1 Mbit/s", de'), ['links.up', null, 'de']);
  assert.deepEqual(of('[routes.a]\nforward = ["x", "'), ['routes.a', 'forward', '"']);
  assert.equal(of('# a comment'), null);
  assert.equal(of('[lin'), null);
});
