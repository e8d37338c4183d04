// One stream: its figures, its paths as a table, charts, and why packets were sent.

import { pictureState } from './air.js';
import { Chart, chartKinds } from './charts.js';
import {
  UNKNOWN, count, element, megabits, milliseconds, percent, sample, setText, short, span,
} from './format.js';
import { LivePicture } from './live.js';
import { Picture } from './picture.js';
import { Table, showState } from './table.js';
import { term, whySent } from './words.js';

const STATES = { active: 'good', suspect: 'warn', out: 'bad', removed: 'plain' };

/** The state of a path in a word, and its tone. */
function pathState(path) {
  if (path.standby && path.state === 'active') return ['spare', 'standby'];
  return [STATES[path.state] ?? 'plain', path.state];
}

/** The state of a stream in words, and its tone. */
function streamState(stream) {
  const picture = pictureState(stream);
  if (picture) return picture;
  if (stream.connected && stream.paths.length > 0
    && stream.paths.every((path) => path.state === 'out' || path.state === 'removed')) {
    return ['bad', 'no path delivers'];
  }
  if (stream.connected) return ['good', 'connected'];
  if (stream.session > 0) return ['warn', 'the peer is away'];
  return ['plain', stream.protocol ? 'nothing has come yet' : 'not connected yet'];
}

const ifKnown = (path, text) => (path.rtt_s ? text : UNKNOWN);

/** The columns of the table: a word, and the text of a path. */
const COLUMNS = [
  ['sent', (path) => megabits(path.sent_rate_bps.avg)],
  ['received', (path) => megabits(path.received_rate_bps.avg)],
  ['rtt', (path) => (path.rtt_s
    ? `${milliseconds(path.rtt_s.avg)} (${milliseconds(path.rtt_s.max)})` : UNKNOWN)],
  ['loss', (path) => ifKnown(path, (path.loss_ratio * 100).toFixed(1))],
  ['queueing', (path) => milliseconds(path.queueing_delay_s)],
  ['capacity', (path) => ifKnown(path, megabits(path.bandwidth_bps))],
  ['queue', (path) => (path.queued_bytes / 1e3).toFixed(1)],
  ['cap', (path) => (path.cap_bytes
    ? percent(path.cap_used_bytes / path.cap_bytes) : UNKNOWN)],
];

/** The table of a stream's paths. */
function pathTable(name) {
  return new Table({
    caption: `Paths of ${short(name)}`,
    name: 'path',
    state: 'state',
    columns: COLUMNS,
    key: (path) => path.path,
    label: (path) => `${path.path} ${path.carrier === 'TCP' ? 'TCP ' : ''}${short(path.name)}`,
    stateOf: pathState,
    mark: (path) => sample(path.path),
  });
}

/** Late or missing frames of the known seconds, and all frames. */
function frames(feed, name, role) {
  const [lost, all] = role === 'send'
    ? [(of) => of.frames_late, (of) => of.frames_sent]
    : [(of) => of.frames_dropped, (of) => of.frames_received + of.frames_dropped];
  const seen = feed.seconds.flatMap((status) => status.streams
    .filter((stream) => stream.name === name).map((stream) => stream.counters));
  if (seen.length === 0) return { lost: 0, all: 0 };
  // Counters restart at zero with a session.
  let start = seen.length - 1;
  while (start > 0 && all(seen[start - 1]) <= all(seen[start])) start -= 1;
  const [first, last] = [seen[start], seen.at(-1)];
  return { lost: lost(last) - lost(first), all: all(last) - all(first) };
}

/** The figures of a stream: word, value, unit and a note. */
function figures(feed, stream, role) {
  const { lost, all } = frames(feed, stream.name, role);
  const rate = (word, bitsPerSecond, note = '') => [word, megabits(bitsPerSecond), 'Mbit/s', note];
  const latency = stream.latency_s === null ? [] : [
    ['latency', milliseconds(stream.latency_s), 'ms', ''],
    ['kept', all > 0 ? percent(1 - lost / all) : UNKNOWN, '',
      `${count(lost)} of ${count(all)} frames ${role === 'send' ? 'late' : 'missing'}`],
  ];
  if (role === 'send') {
    const share = stream.target_rate_bps > 0
      ? stream.media_rate_bps.avg / stream.target_rate_bps : 0;
    return [
      rate('target', stream.target_rate_bps),
      rate('media', stream.media_rate_bps.avg, `${Math.round(share * 100)} % of it`),
      ...latency,
    ];
  }
  if (role === 'recv') return [rate('payload', stream.delivered_rate_bps.avg), ...latency];
  return [
    rate('out', stream.sent_rate_bps.avg), rate('in', stream.received_rate_bps.avg),
    rate('payload', stream.delivered_rate_bps.avg),
  ];
}

/** What the stream is, beside its name. */
function about(stream) {
  const parts = [];
  if (stream.carries) parts.push(stream.carries);
  if (stream.protocol) parts.push(`by ${stream.protocol}`);
  if (stream.peer && stream.peer !== stream.name) parts.push(`with ${short(stream.peer)}`);
  if (stream.connected) parts.push(`for ${span(stream.session_s)}`);
  if (stream.session > 1) parts.push(`session ${stream.session}`);
  if (stream.silent_s !== null) parts.push(`heard ${stream.silent_s.toFixed(1)} s ago`);
  return parts.join(' · ');
}

let made = 0;

export class StreamView {
  root;
  #name;
  #state = element('span', { class: 'state' });
  #about = element('p', { class: 'muted about' });
  #figures = element('dl', { class: 'figures' });
  #table;
  #why;
  #charts = [];
  #picture;
  #live;

  constructor(stream, role) {
    this.#name = stream.name;
    made += 1;
    const title = element('h2', { id: `stream-${made}` }, short(stream.name));
    const header = element('header', {}, title, this.#state, this.#about);
    this.#table = pathTable(stream.name);
    this.#why = new Why();
    this.#charts = chartKinds(role).map((kind) => new Chart(kind));
    const charts = element('div', { class: `charts of-${role}` },
      ...this.#charts.map((chart) => chart.root));
    const lead = element('div', { class: 'lead' }, this.#figures);
    if (role === 'recv') {
      this.#picture = new Picture(stream.name);
      lead.append(this.#picture.root);
      this.#live = new LivePicture(stream.name);
    }
    const shown = this.#live ? [this.#live.root] : [];
    const body = element('div', { class: 'body' }, ...shown, lead, this.#table.root, charts);
    const side = element('div', { class: 'side' }, this.#why.root);
    this.root = element('section', {
      class: 'panel stream', 'aria-labelledby': title.id,
    }, header, body, side);
  }

  update(feed, stream, role) {
    const [tone, text] = streamState(stream);
    showState(this.#state, tone, text);
    setText(this.#about, about(stream));
    this.#showFigures(figures(feed, stream, role));
    this.#table.update(stream.paths);
    this.#table.root.classList.toggle('has-cap', stream.paths.some((path) => path.cap_bytes));
    this.#why.update(stream);
    this.drawCharts(feed);
    // A picture that moves replaces its key frames.
    if (this.#live?.isLive) this.#picture.root.hidden = true;
    else this.#picture?.update(feed.status().uptime_s);
  }

  /** Ends what goes on by itself. */
  close() { this.#live?.close(); }

  drawCharts(feed) {
    for (const chart of this.#charts) chart.draw(feed, this.#name);
  }

  #showFigures(shown) {
    const words = shown.map(([word]) => word).join();
    if (this.#figures.dataset.words !== words) {
      this.#figures.dataset.words = words;
      this.#figures.replaceChildren(...shown.map(([word]) => element(
        'div', { 'data-figure': word }, element('dt', {}, term(word)),
        element('dd', {}, element('span', { class: 'number value' }),
          element('span', { class: 'unit muted' }), element('span', { class: 'note muted' })),
      )));
    }
    shown.forEach(([, value, unit, note], index) => {
      const [, description] = this.#figures.children[index].children;
      [value, unit, note].forEach((text, part) => setText(description.children[part], text));
    });
  }
}

/** Shares of the reasons for which bytes were sent. */
class Why {
  root;
  #bar = element('div', { class: 'bar', 'aria-hidden': 'true' });
  #list = element('ul', {});

  constructor() {
    this.root = element('div', { class: 'why' }, element('h3', {}, term('why')), this.#bar,
      this.#list);
  }

  update(stream) {
    const groups = whySent(stream.sent_shares);
    this.root.hidden = groups.length === 0;
    this.#bar.replaceChildren(...groups.map((group) => {
      const part = element('span', { class: `reason-${group.index}` });
      part.style.flexGrow = group.share;
      return part;
    }));
    this.#list.replaceChildren(...groups.map((group) => element('li', {},
      element('span', { class: `key reason-${group.index}`, 'aria-hidden': 'true' }),
      element('span', {}, group.text),
      element('span', { class: 'number' }, percent(group.share)))));
  }
}
