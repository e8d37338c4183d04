// Live pictures of a real sender in a real browser: by WebRTC and over HTTP. The encoder is ffmpeg,
// behind a camera that burns in the clock.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, before, describe, it } from 'node:test';

import { checkAccessibility, checkLayout, keep, launch, open } from './browser.mjs';
import { collectAges, percentiles } from './live.mjs';
import { Bed, freePort, watch } from './programs.mjs';

const CAMERA = 'scripts/real-tests/whep-camera.py';
const LATENCY_MS = 200;
/** Bar from the camera to the browser at the 95th percentile. */
const BAR_MS = 450;
const LIMIT = { timeout: 40_000 };
const SECONDS = 240;
const children = [];
const bed = new Bed();
let browser;

before(async () => { browser = await launch(); });
after(async () => {
  await browser?.close();
  children.forEach((child) => child.kill('SIGKILL'));
  await bed.end();
});

/** Starts an encoder of the camera's pictures that sends MPEG-TS to a port of UDP. */
function encode(port, codec, sound) {
  const camera = spawn('python3', [CAMERA, String(SECONDS)], { stdio: ['ignore', 'pipe', 'ignore'] });
  const tone = sound ? ['-f', 'lavfi', '-i', 'sine=frequency=440:sample_rate=48000', ...sound] : [];
  const ffmpeg = spawn('ffmpeg', [
    '-loglevel', 'error', '-probesize', '32', '-fflags', 'nobuffer', '-f', 'rawvideo',
    '-pix_fmt', 'yuv420p', '-video_size', '640x360', '-framerate', '25', '-i', 'pipe:0',
    ...tone.slice(0, 4), '-shortest', ...codec, ...tone.slice(4), '-f', 'mpegts', '-muxdelay', '0',
    '-flush_packets', '1', `udp://127.0.0.1:${port}?pkt_size=1316`,
  ], { stdio: ['pipe', 'ignore', 'inherit'] });
  camera.stdout.pipe(ffmpeg.stdin);
  ffmpeg.stdin.on('error', () => {});
  children.push(camera, ffmpeg);
}

const H264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-g', '25'];
const KINDS = {
  plain: [...H264, '-tune', 'zerolatency'],
  reordered: [...H264, '-preset', 'veryfast', '-bf', '2', '-b_strategy', '0'],
  mpeg2: ['-c:v', 'mpeg2video', '-b:v', '2M', '-g', '25'],
};

/** Starts an encoder, a sender and a receiver. Returns the receiver's address of the dashboard. */
async function start(name, sound, options = []) {
  const [camera, studio] = [bed.key(`${name}-camera`), bed.key(`${name}-studio`)];
  const port = await freePort();
  const recv = bed.start('recv', '--listen', '127.0.0.1:0', '--key', studio.file, '--allow',
    `${camera.public}=${name}`, '--keep-listening', '--latency', `${LATENCY_MS} ms`,
    '--dashboard', '0', ...options, bed.path(`${name}.ts`));
  const [, address] = await recv.waitFor(/listening at ([\d.:]+)/);
  const [, url] = await recv.waitFor(/dashboard at (http:\/\/[\d.:]+\/)/);
  const send = bed.start('send', '--to', address, '--key', camera.file, '--peer', studio.public,
    '--latency', `${LATENCY_MS} ms`, `udp://127.0.0.1:${port}`);
  encode(port, KINDS[name], sound);
  await recv.waitFor(/connected to/);
  return { url, recv, send };
}

/** Waits until the page shows a live picture by a way, and measures it for some seconds. */
async function measure(page, way, seconds) {
  await page.locator(`.live[data-state="live"][data-way="${way}"]`).waitFor(LIMIT);
  await page.locator('video').evaluate(collectAges);
  await page.waitForTimeout(3_000);
  await page.evaluate(() => { globalThis.ages.length = 0; });
  await page.waitForTimeout(seconds * 1e3);
  const ages = await page.evaluate(() => globalThis.ages);
  assert.ok(ages.length > seconds * 15, `${ages.length} pictures in ${seconds} s`);
  return percentiles(ages);
}

describe('a picture of H.264', () => {
  let programs;

  before(async () => { programs = await start('plain', ['-c:a', 'aac']); });

  it('plays by WebRTC in the dashboard', LIMIT, async () => {
    const isPunctual = watch(programs.recv, programs.send);
    const { page, problems } = await open(browser, programs.url);
    const { half, most } = await measure(page, 'WebRTC', 10);
    console.log(`camera to browser by WebRTC: ${half} ms, 95th percentile ${most} ms`);
    assert.ok(isPunctual(most <= BAR_MS, 'camera to browser'), `${most} ms`);
    const note = await page.locator('.live-note').textContent();
    assert.match(note, /live by WebRTC · \d+ ms behind the sender \(200 ms agreed/);
    assert.match(note, /without sound: WebRTC does not carry AAC/);
    await checkAccessibility(page);
    await checkLayout(page);
    await keep(page, 'live-webrtc');
    await page.setViewportSize({ width: 360, height: 700 });
    await checkAccessibility(page);
    await checkLayout(page);
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  it('plays over HTTP where UDP is blocked', LIMIT, async () => {
    const isPunctual = watch(programs.recv, programs.send);
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    // A browser without a way for WebRTC: no candidate works.
    await context.addInitScript(() => {
      const Peer = globalThis.RTCPeerConnection;
      globalThis.RTCPeerConnection = class extends Peer {
        setRemoteDescription({ type, sdp }) {
          return super.setRemoteDescription({ type, sdp: sdp.replace(/a=candidate.*\r\n/g, '') });
        }
      };
    });
    const page = await context.newPage();
    await page.goto(programs.url);
    const { half, most } = await measure(page, 'HTTP', 10);
    console.log(`camera to browser over HTTP: ${half} ms, 95th percentile ${most} ms`);
    assert.ok(isPunctual(most <= 2 * BAR_MS, 'camera to browser over HTTP'), `${most} ms`);
    const note = await page.locator('.live-note').textContent();
    assert.match(note, /WebRTC does not get through/);
    await keep(page, 'live-http');
    await context.close();
  });
});

describe('a picture that WebRTC cannot carry', () => {
  it('plays over HTTP if it has B frames', LIMIT, async () => {
    const { url } = await start('reordered');
    const { page } = await open(browser, url);
    await measure(page, 'HTTP', 4);
    assert.match(await page.locator('.live-note').textContent(), /has B frames/);
    await page.context().close();
  });

  it('is named if browsers do not decode it', LIMIT, async () => {
    const { url } = await start('mpeg2');
    const { page } = await open(browser, url);
    await page.locator('.live-note', { hasText: 'MPEG-2' }).waitFor(LIMIT);
    await page.context().close();
  });
});
