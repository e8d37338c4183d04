// The playground in a browser. SITE is the address of a folder in which `playground/` lies, or a
// folder itself, which is then served; CHROMIUM names the browser.

import assert from 'node:assert/strict';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import test, { after, before } from 'node:test';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};
const WIDTHS = { phone: { width: 360, height: 740 }, desktop: { width: 1280, height: 800 } };
/// Generous: other tests may use all cores.
const PATIENCE = { timeout: 120_000 };

let browser;
let server;
let address = process.env.SITE ?? 'target/site';

before(async () => {
  if (!/^https?:/.test(address)) {
    const folder = address;
    server = createServer((request, response) => serve(folder, request, response));
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    address = `http://127.0.0.1:${server.address().port}`;
  }
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
});

after(async () => {
  await browser?.close();
  server?.close();
});

function serve(folder, request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  let path = join(folder, normalize(decodeURIComponent(pathname)));
  if (existsSync(path) && statSync(path).isDirectory()) path = join(path, 'index.html');
  if (!existsSync(path)) return response.writeHead(404).end();
  response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' });
  createReadStream(path).pipe(response);
}

/// Opens the page, and fails the test after a message on the console or a foreign request.
async function open(t, hash = '', { size = 'desktop', scheme = 'light' } = {}) {
  const context = await browser.newContext({ viewport: WIDTHS[size], colorScheme: scheme });
  const page = await context.newPage();
  const seen = [];
  page.on('console', (message) => seen.push(message.text()));
  page.on('pageerror', (error) => seen.push(error.stack));
  page.on('request', (request) => {
    const isOwn = ['blob:', 'data:', address].some((start) => request.url().startsWith(start));
    if (!isOwn) seen.push(`request to ${request.url()}`);
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(seen, []);
  });
  await page.goto(`${address}/playground/${hash}`);
  return page;
}

/// The hash of a side's whole run, once it is there.
async function hashOf(page, side = 'A') {
  await page.waitForSelector('#hashes[data-state=done]', PATIENCE);
  return page.textContent(`[data-hash=${side}]`);
}

/// Waits until the results are complete, and they and the address are the same at twenty looks, in
/// two seconds or more. Looks are counted, since a page without a processor cannot change.
async function settle(page) {
  let [last, count] = [null, 0];
  while (count < 20) {
    const [now, isDone] = await page.evaluate(() => {
      const hashes = document.getElementById('hashes');
      return [`${location.hash},${hashes.textContent}`, hashes.dataset.state === 'done'];
    });
    count = isDone && now === last ? count + 1 : 0;
    last = now;
    await page.waitForTimeout(100);
  }
}

/// Hashes of record: the native program has the same (`engine.test.mjs`).
const TEN = [
  'two-paths',
  'three-paths',
  'cellular',
  'frame-trace',
  'shared-bottleneck',
  'multipath/outage',
  'multipath/four-paths',
  'weather/starlink',
  'contest/row-3-bursts',
  'encoder/token-bucket',
];

test('ten scenarios run, and each has a hash of its own that repeats', async (t) => {
  const hashes = new Set();
  const page = await open(t, `#scenario=${TEN[0]}&seed=2`);
  for (const name of TEN) {
    await page.goto(`${address}/playground/#scenario=${name}&seed=2`);
    await page.waitForFunction(
      (expected) => document.getElementById('scenario').value === expected,
      name,
      PATIENCE,
    );
    await page.waitForFunction(
      (known) => {
        const { state } = document.getElementById('hashes').dataset;
        const hash = document.querySelector('[data-hash=A]')?.textContent ?? '';
        return state === 'done' && hash.length === 16 && !known.includes(hash);
      },
      [...hashes],
      PATIENCE,
    );
    hashes.add(await hashOf(page));
  }
  assert.equal(hashes.size, TEN.length);
});

test('a new address is opened though the page has just written its former one', async (t) => {
  const page = await open(t, '#scenario=two-paths&seed=2');
  await hashOf(page);
  await page.evaluate(() => {
    location.hash = '#scenario=cellular&seed=2';
    history.replaceState(null, '', '#scenario=two-paths&seed=2');
  });
  await page.waitForFunction(
    () => document.getElementById('scenario').value === 'cellular'
      && /^#scenario=cellular&seed=2(&version=|$)/.test(location.hash),
    null,
    PATIENCE,
  );
});

test('two paths have the hash of record', async (t) => {
  const page = await open(t);
  // crates/lab/tests/hashes.txt
  assert.equal(await hashOf(page), 'd62165821ffbe1a4');
});

test('a link opens the same run elsewhere', async (t) => {
  const page = await open(t, '#scenario=multipath/outage&seed=3');
  const plain = await hashOf(page);
  await page.click('#compare');
  await page.selectOption('[aria-label="scheduler of B"]', 'wrr');
  await page.selectOption('[aria-label="controller of A"]', 'cubic');
  // The page draws its controls again, and a slider then loses the keyboard.
  await settle(page);
  const slider = page.locator('input[type=range][aria-label$=": loss"]').first();
  await slider.focus();
  for (let step = 0; step < 5; step += 1) await page.keyboard.press('PageUp');
  await page.waitForFunction(
    () => /versus-scheduler=wrr/.test(location.hash) && /changes=/.test(location.hash),
    null,
    PATIENCE,
  );
  // The last change has to reach the address and the results.
  await settle(page);
  const hashes = [await hashOf(page, 'A'), await hashOf(page, 'B')];
  assert.notEqual(hashes[0], plain);
  assert.notEqual(hashes[0], hashes[1]);
  const link = new URL(page.url()).hash;
  assert.match(link, new RegExp(`&version=[^&]+&hash=${hashes.join('-')}$`));
  const other = await open(t, link);
  assert.deepEqual([await hashOf(other, 'A'), await hashOf(other, 'B')], hashes);
  assert.ok(await other.isHidden('#other'));
});

test('a link of another run says so, until something is changed', async (t) => {
  const link = '#scenario=multipath/outage&seed=3&version=0.0.9&hash=0123456789abcdef';
  const page = await open(t, link);
  await hashOf(page);
  assert.match(await page.textContent('#other'), /hash 0123456789abcdef.* version 0\.0\.9/);
  assert.equal(new URL(page.url()).hash, link);
  await page.fill('#seed', '4');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#other', { state: 'hidden', ...PATIENCE });
  const hash = await hashOf(page);
  assert.match(new URL(page.url()).hash, new RegExp(`seed=4&version=[^&]+&hash=${hash}$`));
});

test('an edited text travels in the link, and mistakes are shown at their line', async (t) => {
  const page = await open(t);
  const first = await hashOf(page);
  const rate = (value) => page.locator('.cm-line', { hasText: `rate = ${value}` }).first();
  const write = async (line, text) => {
    await line.click();
    await page.keyboard.press('Home');
    await page.keyboard.press('Shift+End');
    await page.keyboard.insertText(text);
  };
  await write(rate('"3 Mbit/s"'), 'rate = 3');
  await page.waitForSelector('#problem:not([hidden])', PATIENCE);
  assert.match(await page.textContent('#problem'), /^Line \d+: links\.lte\.rate: /);
  await page.waitForSelector('.cm-lint-marker-error', PATIENCE);
  await write(rate('3'), 'rate = "2 Mbit/s"');
  await page.waitForSelector('#problem', { state: 'hidden', ...PATIENCE });
  await page.waitForFunction(() => /text=/.test(location.hash), null, PATIENCE);
  await settle(page);
  const edited = await hashOf(page);
  assert.notEqual(edited, first);
  const other = await open(t, new URL(page.url()).hash);
  assert.equal(await hashOf(other), edited);
  assert.match(await other.textContent('.cm-content'), /2 Mbit\/s/);
});

test('the editor completes keys and names', async (t) => {
  const page = await open(t);
  await hashOf(page);
  const line = page.locator('.cm-line', { hasText: 'scheduler = ' }).first();
  await line.click();
  await page.keyboard.press('End');
  for (let key = 0; key < '"min-cost"'.length; key += 1) await page.keyboard.press('Backspace');
  await page.keyboard.type('"ble');
  await page.waitForSelector('.cm-tooltip-autocomplete', PATIENCE);
  assert.match(await page.textContent('.cm-tooltip-autocomplete'), /blest/);
});

test('the keyboard is enough', async (t) => {
  const page = await open(t);
  await hashOf(page);
  const focusBy = async (selector) => {
    for (let step = 0; step < 60; step += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((of) => document.activeElement.matches(of), selector)) return;
    }
    assert.fail(`${selector} is not reached by the tabulator`);
  };
  await focusBy('#scenario');
  await focusBy('#compare');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[aria-label="controller of B"]', PATIENCE);
  // The page draws its controls again for B.
  await settle(page);
  await focusBy('input[type=range]');
  const before = await page.evaluate(() => document.activeElement.ariaValueText);
  await page.keyboard.press('PageDown');
  const after = await page.evaluate(() => document.activeElement.ariaValueText);
  assert.notEqual(after, before);
  await page.waitForFunction(() => /changes=/.test(location.hash), null, PATIENCE);
  await focusBy('#play');
  const label = await page.textContent('#play');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    (old) => document.getElementById('play').textContent !== old, label, PATIENCE,
  );
});

test('cutting a link loses packets at once', async (t) => {
  const page = await open(t, '#scenario=multipath/metered');
  await hashOf(page);
  await page.locator('.cut').first().click();
  await page.waitForFunction(() => /\.up\.false/.test(location.hash), null, PATIENCE);
  await page.waitForSelector('.cut[aria-pressed=true]', PATIENCE);
  await page.waitForFunction(
    () => /is cut/.test(document.querySelector('.news').textContent),
    null,
    PATIENCE,
  );
  await page.click('#reset');
  await page.waitForFunction(() => !/changes=/.test(location.hash), null, PATIENCE);
});

test('a live run ends with the hash of the whole run', async (t) => {
  const page = await open(t, '#scenario=multipath/start-up&versus-scheduler=wrr');
  await page.selectOption('#speed', '16');
  await page.waitForSelector('#hashes[data-live]:not([data-live=""])', PATIENCE);
  const live = await page.getAttribute('#hashes', 'data-live');
  assert.equal(live, `${await hashOf(page, 'A')} ${await hashOf(page, 'B')}`);
  assert.equal(await page.textContent('#play'), 'Again');
});

test('files are downloaded', async (t) => {
  const page = await open(t);
  await hashOf(page);
  for (const [what, name] of [['json', 'report.json'], ['svg', 'trace.svg']]) {
    const waiting = page.waitForEvent('download', PATIENCE);
    await page.click(`[data-export=${what}]`);
    assert.equal((await waiting).suggestedFilename(), name);
  }
  const names = [];
  page.on('download', (download) => names.push(download.suggestedFilename()));
  await page.click('[data-export=csv]');
  const deadline = Date.now() + PATIENCE.timeout;
  while (names.length < 4 && Date.now() < deadline) await page.waitForTimeout(50);
  assert.deepEqual(names, ['paths.csv', 'flows.csv', 'links.csv', 'frames.csv']);
});

for (const size of Object.keys(WIDTHS)) {
  for (const scheme of ['light', 'dark']) {
    test(`nothing overflows: ${size}, ${scheme}`, async (t) => {
      for (const hash of ['', '#scenario=rmcat/5.5-round-trip-time-fairness&versus=1']) {
        const page = await open(t, hash, { size, scheme });
        await page.waitForSelector('.chartrow canvas', PATIENCE);
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - window.innerWidth,
        );
        assert.ok(overflow <= 0, `${overflow} pixels`);
        // A picture moves: two screenshots of it differ.
        const stage = page.locator('.stage canvas').first();
        const one = await stage.screenshot();
        const deadline = Date.now() + PATIENCE.timeout;
        let isSame = true;
        while (isSame && Date.now() < deadline) {
          await page.waitForTimeout(100);
          isSame = one.equals(await stage.screenshot());
        }
        assert.ok(!isSame, 'it stands still');
      }
    });
  }
}

test('the page is accessible', async (t) => {
  for (const scheme of ['light', 'dark']) {
    const page = await open(t, '#scenario=two-paths&versus=1', { scheme });
    await hashOf(page);
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => axe.run());
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html)}`);
    assert.deepEqual(found, [], scheme);
  }
});

test('unknown scenarios are answered', async (t) => {
  const page = await open(t, '#scenario=no-such');
  await page.waitForSelector('#problem:not([hidden])', PATIENCE);
  assert.match(await page.textContent('#problem'), /no scenario called no-such/);
});
