// The dashboard of real programs, in a real browser.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, describe, it } from 'node:test';

import { checkAccessibility, checkLayout, keep, launch, open } from './browser.mjs';
import { Bed, freePort, watch } from './programs.mjs';

const DASHBOARD = /dashboard at (http:\/\/[\d.:]+\/)/;
/** Longest wait for a page. */
const LIMIT = { timeout: 30_000 };
let browser;

before(async () => { browser = await launch(); });
// A page that stays open goes on drawing.
afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));
after(async () => { await browser?.close(); });

/** Starts a receiver, and returns its program and address. */
async function startReceiver(bed, senders, options, output) {
  const key = bed.key(`receiver-${randomUUID()}`);
  const allowed = senders.flatMap((sender) => ['--allow', sender]);
  const recv = bed.start('recv', '--listen', '127.0.0.1:0', '--key', key.file, ...allowed,
    ...options, output);
  const [, address] = await recv.waitFor(/listening at ([\d.:]+)/);
  return { recv, address, key: key.public };
}

/** Records the built-in camera, so that several streams need no encoder each. */
async function makeFilm(bed) {
  const camera = bed.key('camera');
  const receiver = await startReceiver(bed, [camera.public], ['--latency', '5 s'],
    bed.path('film.ts'));
  const send = bed.start('send', '--to', receiver.address, '--key', camera.file,
    '--peer', receiver.key, '--duration', '20 s', 'test:');
  await Promise.all([send.ended, receiver.recv.ended]);
  return bed.path('film.ts');
}

/** Waits until a path of the page's table is in a state. */
function waitForState(page, path, state) {
  return page.locator(`tr[data-path="${path}"][data-state="${state}"]`).first().waitFor(LIMIT);
}

describe('a sender over two links', () => {
  const bed = new Bed();
  let emulate;
  let send;
  let url;

  before(async () => {
    const camera = bed.key('camera');
    const receiver = await startReceiver(bed, [camera.public], ['--keep-listening'],
      bed.path('out.ts'));
    emulate = bed.start('emulate', 'web/tests/two-links.toml', '--to', receiver.address);
    const [, first] = await emulate.waitFor(/wifi\D*(127\.0\.0\.1:\d+)/);
    const [, second] = await emulate.waitFor(/lte\D*(127\.0\.0\.1:\d+)/);
    send = bed.start('send', '--to', first, '--via', 'lo', '--to', second, '--via', 'lo',
      '--key', camera.file, '--peer', receiver.key, '--dashboard', '0', 'test:');
    [, url] = await send.waitFor(DASHBOARD);
  });
  after(() => bed.end());

  it('shows its figures', async () => {
    const { page, problems } = await open(browser, url);
    await waitForState(page, 0, 'active');
    await waitForState(page, 1, 'active');
    const figure = (word) => page.locator(`[data-figure="${word}"] .value`).innerText();
    await page.waitForFunction(() => Number(
      document.querySelector('[data-figure="media"] .value')?.textContent) > 0.3, null, LIMIT);
    assert.ok(Number(await figure('target')) > 0);
    assert.equal(await figure('latency'), '500');
    await page.locator('[data-figure="kept"] .value', { hasText: /^\d+(\.\d)? %$/ })
      .waitFor(LIMIT);
    const rtt = await page.locator('tr[data-path="1"] [data-column="rtt"] .value').innerText();
    assert.ok(parseFloat(rtt) >= 80, `${rtt} ms over a link of 80 ms`);
    await page.getByText('why packets were sent').first().waitFor(LIMIT);
    await page.locator('.why li', { hasText: 'new' }).waitFor(LIMIT);
    await page.locator('#events li', { hasText: 'session 1 began' }).first().waitFor(LIMIT);
    await page.locator('.chart canvas').first().waitFor(LIMIT);
    await page.getByRole('button', { name: '1 hour' }).click();
    await page.getByRole('img', { name: /rate in the last hour/ }).waitFor(LIMIT);
    assert.deepEqual(problems, []);
  });

  it('shows a link that fails within two seconds, and its return', async () => {
    const { page, problems } = await open(browser, url);
    await waitForState(page, 0, 'active');
    const allows = watch(emulate, send);
    const at = Date.now();
    emulate.say('wifi down');
    const failed = page.locator('tr[data-path="0"]:is([data-state="suspect"], [data-state="out"])');
    await failed.waitFor(LIMIT);
    const shownAfter = Date.now() - at;
    console.log(`        the failed link is shown after ${shownAfter} ms`);
    assert.ok(allows(shownAfter < 2_000, 'a link that fails'), `${shownAfter} ms`);
    await page.locator('#events li', { hasText: 'path 0 lo: out' }).first().waitFor(LIMIT);
    await keep(page, 'failed-link');
    emulate.say('wifi up');
    await waitForState(page, 0, 'active');
    await page.locator('#events li', { hasText: 'path 0 lo: active' }).first().waitFor(LIMIT);
    assert.deepEqual(problems, []);
  });

  it('says in header and title that the picture has gone, and that it is back', async () => {
    const { page, problems } = await open(browser, url, { viewport: { width: 360, height: 740 } });
    const air = page.locator('#air');
    await page.locator('#air[data-tone="good"]', { hasText: 'picture fine' }).waitFor(LIMIT);
    assert.ok((await air.boundingBox()).y < 200, 'it is at the top of a phone');
    await page.getByRole('button', { name: 'sound' }).click();
    for (const link of ['wifi', 'lte']) emulate.say(`${link} down`);
    await page.locator('#air[data-tone="bad"]', { hasText: 'no path delivers' }).waitFor(LIMIT);
    assert.match(await page.title(), /^✖ /);
    await page.locator('#events li', { hasText: 'picture gone' }).first().waitFor(LIMIT);
    await keep(page, 'picture-gone');
    for (const link of ['wifi', 'lte']) emulate.say(`${link} up`);
    await page.locator('#air[data-tone="good"]').waitFor(LIMIT);
    await page.locator('#events li', { hasText: 'picture fine' }).first().waitFor(LIMIT);
    assert.doesNotMatch(await page.title(), /✖/);
    assert.deepEqual(problems, []);
  });

  for (const [width, height] of [[360, 740], [1280, 800], [3840, 2160]]) {
    for (const colorScheme of ['light', 'dark']) {
      it(`fits ${width} pixels and is accessible, ${colorScheme}`, async () => {
        const { page, problems } = await open(browser, url, {
          viewport: { width, height }, colorScheme,
        });
        await waitForState(page, 1, 'active');
        await page.locator('.why li').first().waitFor(LIMIT);
        await checkLayout(page);
        await checkAccessibility(page);
        await page.locator('.term:visible').first().click();
        await page.locator('#meaning').waitFor(LIMIT);
        await checkAccessibility(page);
        await keep(page, `sender-${width}-${colorScheme}`);
        assert.deepEqual(problems, []);
      });
    }
  }

  it('explains every figure on a tap, in the words of top', async () => {
    const { page, problems } = await open(browser, url, { hasTouch: true });
    await waitForState(page, 0, 'active');
    const { words } = await page.evaluate(async () => (await fetch('words.json')).json());
    const terms = await page.locator('.term:visible').all();
    assert.ok(terms.length > 15, `${terms.length} figures`);
    for (const term of terms) {
      const key = await term.getAttribute('data-word');
      await term.tap();
      const { meaning } = words.find((of) => of.key === key);
      await page.locator('#meaning:popover-open', { hasText: meaning }).waitFor(LIMIT);
      await page.keyboard.press('Escape');
    }
    assert.deepEqual(problems, []);
  });

  it('keeps an explanation open while the window still scrolls to it', async () => {
    const { page, problems } = await open(browser, url);
    await waitForState(page, 1, 'active');
    const isOpen = await page.evaluate(async () => {
      scrollTo(0, document.body.scrollHeight);
      const frame = () => new Promise(requestAnimationFrame);
      await frame();
      await frame();
      const term = document.querySelector('[data-figure="latency"] .term');
      term.focus();
      term.click();
      await frame();
      await frame();
      return document.querySelector('#meaning').matches(':popover-open');
    });
    assert.ok(isOpen);
    assert.ok(await page.evaluate(() => {
      scrollBy(0, document.body.scrollHeight);
      return document.documentElement.scrollHeight > innerHeight;
    }), 'the window does not scroll: this shows nothing');
    assert.deepEqual(problems, []);
  });

  it('is used by the keyboard alone', async () => {
    const { page, problems } = await open(browser, url);
    await waitForState(page, 1, 'active');
    const reachable = await page.locator('button:visible, a:visible').count();
    const reached = new Set();
    for (let step = 0; step < reachable + 5; step += 1) {
      await page.keyboard.press('Tab');
      const focused = await page.evaluate(() => {
        const target = document.activeElement;
        if (target === document.body) return null;
        const all = [...document.querySelectorAll('button, a')];
        const style = getComputedStyle(target);
        return { index: all.indexOf(target), isSeen: style.outlineStyle !== 'none' };
      });
      if (!focused || focused.index < 0) continue;
      assert.ok(focused.isSeen, `element ${focused.index} does not show its focus`);
      reached.add(focused.index);
    }
    assert.equal(reached.size, reachable);
    await page.locator('[data-figure="latency"] .term').focus();
    await page.keyboard.press('Enter');
    await page.locator('#meaning:popover-open').waitFor(LIMIT);
    await page.keyboard.press('Escape');
    await page.locator('#meaning:popover-open').waitFor({ state: 'detached', ...LIMIT });
    await page.locator('[data-span="hour"]').focus();
    await page.keyboard.press('Space');
    await page.locator('[data-span="hour"][aria-pressed="true"]').waitFor(LIMIT);
    assert.deepEqual(problems, []);
  });

  it('has an overlay that is transparent and follows its parameters', async () => {
    const show = 'show=state,bitrate,links,shares&place=bottom-right&size=40&colour=ffee00';
    const { page, problems } = await open(browser, `${url}overlay?${show}`);
    await page.locator('.line.link').nth(1).waitFor(LIMIT);
    await page.locator('.line.bitrate', { hasText: 'Mbit/s' }).waitFor(LIMIT);
    const look = await page.evaluate(() => ({
      background: getComputedStyle(document.body).backgroundColor,
      root: getComputedStyle(document.documentElement).backgroundColor,
      colour: getComputedStyle(document.body).color,
      size: getComputedStyle(document.body).fontSize,
      right: Math.round(document.querySelector('main').getBoundingClientRect().right),
    }));
    assert.deepEqual(look, {
      background: 'rgba(0, 0, 0, 0)', root: 'rgba(0, 0, 0, 0)', colour: 'rgb(255, 238, 0)',
      size: '40px', right: 1280,
    });
    const shares = await page.locator('.share').allInnerTexts();
    const sum = shares.reduce((total, share) => total + parseFloat(share), 0);
    assert.ok(Math.abs(sum - 100) <= 2, shares.join());
    await checkLayout(page);
    await keep(page, 'overlay');
    assert.deepEqual(problems, []);
  });
});

describe('a receiver of three streams', () => {
  const bed = new Bed();
  const names = ['front', 'roof', 'stage'];
  const keys = names.map((name) => bed.key(name));
  let receiver;
  let url;
  let film;

  before(async () => {
    film = await makeFilm(bed);
    receiver = await startReceiver(bed, keys.map((key, at) => `${key.public}=${names[at]}`),
      ['--keep-listening', '--latency', '2 s', '--dashboard', '0'], bed.path('{name}.ts'));
    [, url] = await receiver.recv.waitFor(DASHBOARD);
  });
  after(() => bed.end());

  /** Plays the film in all streams. */
  function play() {
    for (const key of keys) {
      bed.start('send', '--to', receiver.address, '--key', key.file, '--peer', receiver.key, film);
    }
  }

  it('shows them side by side, each with a picture', async () => {
    const { page, problems } = await open(browser, url, {
      viewport: { width: 1920, height: 1080 },
    });
    await page.locator('#news', { hasText: 'up to date' }).waitFor(LIMIT);
    play();
    for (const name of names) {
      const stream = page.getByRole('region', { name });
      await stream.locator('.state', { hasText: /fine|connected/ }).first().waitFor(LIMIT);
      await stream.locator('canvas[role="img"]').waitFor(LIMIT);
    }
    const tops = await page.locator('.stream').evaluateAll((all) => all
      .map((stream) => Math.round(stream.getBoundingClientRect().top)));
    assert.equal(tops.length, 3);
    assert.equal(new Set(tops).size, 1, tops.join());
    const tones = await page.locator('.picture canvas').first().evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return new Set(data).size;
    });
    assert.ok(tones > 20, `a picture of ${tones} tones`);
    await checkLayout(page);
    await checkAccessibility(page);
    await keep(page, 'receiver-1920');
    assert.deepEqual(problems, []);
  });

  it('fits a phone', async () => {
    const { page, problems } = await open(browser, url, {
      viewport: { width: 360, height: 740 }, colorScheme: 'dark',
    });
    play();
    await page.getByRole('region', { name: 'stage' }).waitFor(LIMIT);
    await checkLayout(page);
    await checkAccessibility(page);
    await keep(page, 'receiver-360');
    assert.deepEqual(problems, []);
  });
});

describe('an output by SRT', () => {
  const bed = new Bed();
  let url;
  let srt;
  before(async () => {
    srt = `srt://127.0.0.1:${await freePort()}`;
    const receiver = await startReceiver(bed, [`${bed.key('camera').public}=front`],
      ['--keep-listening', '--dashboard', '0'], `${srt}?mode=listener`);
    [, url] = await receiver.recv.waitFor(DASHBOARD);
  });
  after(() => bed.end());

  for (const width of [360, 1280, 1920]) {
    it(`shows its receivers before the first session, in ${width} pixels`, async () => {
      const { page, problems } = await open(browser, url, { viewport: { width, height: 800 } });
      const outputs = page.getByRole('region', { name: 'receivers by SRT' });
      await outputs.locator('tr[data-state="nobody"]').waitFor(LIMIT);
      const wall = bed.start('recv', '--listen', `wall=${srt}?streamid=wall&latency=700`,
        bed.path('wall.ts'));
      const row = outputs.locator('tr[data-state="active"]', { hasText: `at ${srt} · wall` });
      await row.locator('[data-column="receiver-latency"] .value', { hasText: '700' })
        .waitFor(LIMIT);
      await checkLayout(page);
      await checkAccessibility(page);
      await keep(page, `output-${width}`);
      await wall.stop('SIGINT');
      await outputs.locator('tr[data-state="nobody"]').waitFor(LIMIT);
      assert.deepEqual(problems, []);
    });
  }
});

describe('a program that is restarted', () => {
  const bed = new Bed();
  after(() => bed.end());

  it('is shown again by the page, with a token', async () => {
    const camera = bed.key('camera');
    const receiver = bed.key('receiver');
    const port = await freePort();
    const token = bed.path('token');
    const start = async () => {
      const recv = bed.start('recv', '--listen', '127.0.0.1:0', '--key', receiver.file, '--allow',
        camera.public, '--dashboard', `127.0.0.1:${port}`, '--dashboard-token-file', token,
        bed.path('out.ts'));
      await recv.waitFor(/listening at/);
      return recv;
    };
    const first = await start();
    const secret = readFileSync(token, 'utf8').trim();
    const url = `http://127.0.0.1:${port}/`;
    const refused = await fetch(url);
    assert.equal(refused.status, 401);
    const { page, problems } = await open(browser, `${url}?token=${secret}`);
    assert.equal(page.url(), url, 'the token stays in the address');
    await page.locator('#news', { hasText: 'up to date' }).waitFor(LIMIT);
    await page.getByText('No session yet').waitFor(LIMIT);
    assert.deepEqual(problems, []);
    await first.stop();
    await page.locator('#news', { hasText: 'no news' }).waitFor(LIMIT);
    await start();
    await page.locator('#news', { hasText: 'up to date' }).waitFor(LIMIT);
    // While the program is away, the browser itself reports that it cannot connect.
    const others = problems.filter((problem) => !problem.includes('net::ERR_'));
    assert.deepEqual(others, []);
  });
});

describe('a receiver with a token for changes', () => {
  const bed = new Bed();
  let url;
  let right;

  before(async () => {
    const camera = bed.key('camera');
    const receiver = await startReceiver(bed, [`${camera.public}=camera`], ['--keep-listening',
      '--dashboard', '0', '--control-token', bed.path('control.token'), '--recordings',
      bed.folder], bed.path('out.ts'));
    bed.start('send', '--to', receiver.address, '--key', camera.file, '--peer', receiver.key,
      '--remote-control', 'test:');
    [, url] = await receiver.recv.waitFor(DASHBOARD);
    await receiver.recv.waitFor(/connected to/);
    right = readFileSync(bed.path('control.token'), 'utf8').trim();
  });
  after(() => bed.end());

  /** Enters a token by the keyboard alone. */
  async function enter(page, token) {
    await page.locator('#control-entry summary').focus();
    if (!await page.locator('#control-token').isVisible()) await page.keyboard.press('Enter');
    await page.locator('#control-token').fill(token);
    await page.keyboard.press('Enter');
  }

  for (const [width, height] of [[360, 740], [1280, 800]]) {
    it(`changes the program at ${width} pixels, after the token alone`, async () => {
      const { page, problems } = await open(browser, url, { viewport: { width, height } });
      await waitForState(page, 0, 'active');
      assert.equal(await page.locator('#control').isVisible(), false);
      await enter(page, '0123456789abcdef');
      await page.getByRole('alert').filter({ hasText: 'not the token' }).waitFor(LIMIT);
      // Browsers report the refusal in their console.
      assert.match(problems.splice(0).join(), /401/);
      await enter(page, right);
      const control = page.getByRole('region', { name: 'control' });
      await control.waitFor(LIMIT);
      await control.getByRole('button', { name: 'path', exact: false }).first().waitFor(LIMIT);
      await checkLayout(page);
      await checkAccessibility(page);
      const said = page.locator('#control-said');
      await control.getByLabel('another output of camera', { exact: true })
        .fill('udp://127.0.0.1:9');
      await page.keyboard.press('Enter');
      await said.filter({ hasText: 'joins' }).waitFor(LIMIT);
      await control.getByRole('button', { name: 'remove udp://127.0.0.1:9 of camera' }).click();
      await said.filter({ hasText: 'has left' }).waitFor(LIMIT);
      await control.getByRole('button', { name: 'record camera' }).click();
      await control.locator('[aria-label="record camera"][aria-pressed="true"]').waitFor(LIMIT);
      await control.getByRole('button', { name: 'record camera' }).click();
      await said.filter({ hasText: 'has ended' }).waitFor(LIMIT);
      await page.locator('#events li', { hasText: 'the recording of camera has ended' }).first()
        .waitFor(LIMIT);
      await checkAccessibility(page);
      assert.deepEqual(problems, []);
    });
  }

  it('asks before it ends a session', async () => {
    const { page, problems } = await open(browser, url, { viewport: { width: 360, height: 740 } });
    await enter(page, right);
    const end = page.getByRole('button', { name: 'end session of camera' });
    await end.click();
    const dialog = page.getByRole('dialog', { name: 'Are you sure?' });
    await dialog.waitFor(LIMIT);
    await checkAccessibility(page);
    await dialog.getByRole('button', { name: 'no' }).click();
    await dialog.waitFor({ state: 'hidden', ...LIMIT });
    assert.equal(await page.locator('#control-kept-out li').count(), 0);
    await end.click();
    await dialog.getByRole('button', { name: 'yes' }).click();
    const letIn = page.getByRole('button', { name: 'let in camera' });
    await letIn.waitFor(LIMIT);
    await checkAccessibility(page);
    await letIn.click();
    await letIn.waitFor({ state: 'detached', ...LIMIT });
    await page.getByRole('button', { name: 'forget token' }).click();
    assert.equal(await page.locator('#control').isVisible(), false);
    // The page ends its viewer when the session ends, which may have ended it already.
    const others = problems.filter((problem) => !problem.includes('404'));
    assert.deepEqual(others, []);
  });
});

describe('a receiver that phones may join', () => {
  const bed = new Bed();
  let recv;
  let url;
  let right;

  before(async () => {
    const key = bed.key('receiver');
    recv = bed.start('recv', '--listen', '127.0.0.1:0', '--key', key.file, '--allow-from',
      bed.path('senders'), '--pair=studio.example', '--keep-listening', '--dashboard', '0',
      '--control-token', bed.path('control.token'), bed.path('{name}.ts'));
    [, url] = await recv.waitFor(DASHBOARD);
    right = readFileSync(bed.path('control.token'), 'utf8').trim();
  });
  after(() => bed.end());

  it('shows the links and QR codes of a sender and a phone to the owner of the token', async () => {
    const { page, problems } = await open(browser, url, { viewport: { width: 360, height: 740 } });
    const refused = await page.request.get(`${url}control/links`);
    assert.equal(refused.status(), 401);
    await page.locator('#control-entry summary').click();
    await page.locator('#control-token').fill(right);
    await page.keyboard.press('Enter');
    const joining = page.locator('#control-join');
    const links = page.getByRole('list', { name: 'links' });
    await joining.locator('summary').click();
    await page.getByRole('img', { name: 'QR code for a new sender, Anabranch' }).waitFor(LIMIT);
    await joining.locator('#control-link-app').selectOption('moblin');
    await joining.getByLabel('its name').fill('van');
    await joining.getByRole('button', { name: 'make a link' }).click();
    await page.getByRole('img', { name: 'QR code for van, Moblin' }).waitFor(LIMIT);
    const shown = await links.locator('li', { hasText: 'Moblin' }).innerText();
    assert.match(shown, /moblin:\/\/\?%7B/);
    const [, secret] = shown.match(/passphrase ([\w-]+)/);
    await checkLayout(page);
    await checkAccessibility(page);
    await keep(page, 'joining');
    for (const path of ['status.json', 'events.json', 'metrics', 'history.json']) {
      const answer = await page.request.get(`${url}${path}`);
      assert.ok(!(await answer.text()).includes(secret), path);
    }
    assert.ok(!recv.said.includes(secret), 'the log has no secret');
    await joining.locator('summary').click();
    await page.waitForFunction(() => !document.querySelector('#control-links li'), null, LIMIT);
    assert.deepEqual(problems, []);
  });
});
