// The overlay for OBS' browser source. URL parameters choose its content and look:
//
//   stream=NAME   of several streams; the first one without it
//   show=LIST     of state, bitrate, links, shares, latency, rtt (state,bitrate,links,shares)
//   place=CORNER  top-left, top-right, bottom-left or bottom-right (top-left)
//   size=PIXELS   height of the text (28)
//   colour=HEX    of the text (ffffff)
//   plate=0…1     darkness behind the text (0.5)

import { element, megabits, milliseconds, shape, short } from './format.js';

const parameters = new URLSearchParams(location.search);
const shown = new Set((parameters.get('show') ?? 'state,bitrate,links,shares').split(','));
const wanted = parameters.get('stream');
const overlay = document.getElementById('overlay');
/** Time without news after which the state says so, in milliseconds. */
const PATIENCE_MS = 3_000;
const RETRY_MS = 2_000;

function dress() {
  const places = ['top-left', 'top-right', 'bottom-left', 'bottom-right'];
  const place = parameters.get('place');
  document.body.dataset.place = places.includes(place) ? place : places[0];
  const { style } = document.documentElement;
  const size = Number(parameters.get('size'));
  if (size >= 8 && size <= 200) style.setProperty('--size', `${size}px`);
  const colour = parameters.get('colour') ?? parameters.get('color');
  if (/^[0-9a-f]{6}$/i.test(colour ?? '')) style.setProperty('--colour', `#${colour}`);
  const plate = parameters.get('plate');
  if (plate !== null && Number(plate) >= 0 && Number(plate) <= 1) {
    style.setProperty('--plate', plate);
  }
}

const rateOf = (path) => path.sent_rate_bps.avg + path.received_rate_bps.avg;
const isDown = (path) => path.state === 'out' || path.state === 'removed';

function stateOf(stream) {
  if (!stream || !stream.connected) return ['bad', 'offline'];
  const isEveryDown = stream.paths.length > 0 && stream.paths.every(isDown);
  if (isEveryDown) return ['bad', 'no link'];
  const tones = { impaired: 'warn', gone: 'bad' };
  const picture = stream.picture?.state;
  if (tones[picture]) return [tones[picture], picture];
  if (!picture && stream.paths.some((path) => path.state !== 'active')) return ['warn', 'weak'];
  return ['good', 'live'];
}

function line(kind, ...children) {
  return element('div', { class: `line ${kind}` }, ...children);
}

function linkLine(path, total) {
  const tone = isDown(path) ? 'bad' : path.state === 'active' ? 'good' : 'warn';
  const made = line('link', shape(tone), element('span', { class: 'name' }, short(path.name)));
  made.classList.toggle('is-down', isDown(path));
  if (shown.has('rtt') && path.rtt_s) made.append(`${milliseconds(path.rtt_s.avg)} ms`);
  if (shown.has('shares')) {
    const share = total > 0 ? rateOf(path) / total : 0;
    const fill = element('span');
    fill.style.width = `${share * 100}%`;
    made.append(element('span', { class: 'bar' }, fill),
      element('span', { class: 'share' }, `${Math.round(share * 100)} %`));
  }
  return made;
}

function show(status) {
  const streams = status?.streams ?? [];
  const stream = wanted ? streams.find((of) => of.name === wanted) : streams[0];
  const lines = [];
  if (shown.has('state')) {
    const [tone, text] = status ? stateOf(stream) : ['bad', 'no news'];
    lines.push(line('state', shape(tone), text));
  }
  if (stream && shown.has('bitrate')) {
    const rate = status.role === 'recv' ? stream.delivered_rate_bps : stream.sent_rate_bps;
    lines.push(line('bitrate', `${megabits(rate.avg)} Mbit/s`));
  }
  if (stream && shown.has('latency') && stream.latency_s) {
    lines.push(line('latency', `latency ${milliseconds(stream.latency_s)} ms`));
  }
  if (stream && (shown.has('links') || shown.has('shares'))) {
    const paths = stream.paths.filter((path) => path.state !== 'removed');
    const total = paths.reduce((sum, path) => sum + rateOf(path), 0);
    lines.push(...paths.map((path) => linkLine(path, total)));
  }
  overlay.replaceChildren(...lines);
}

let timer;

function expectNews() {
  clearTimeout(timer);
  timer = setTimeout(() => show(null), PATIENCE_MS);
}

function connect() {
  const source = new EventSource('live');
  source.addEventListener('status', (event) => {
    show(JSON.parse(event.data));
    expectNews();
  });
  source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
  });
}

dress();
show(null);
connect();
