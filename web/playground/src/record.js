// What a live run has reported so far, as the drawings need it.

import { percent, rate, short } from './format.js';

const SENT_COLUMNS = 6;
const ENDED_COLUMNS = 3;
const FRAME_COLUMNS = 5;

export const OUTCOMES = ['in time', 'late', 'lost'];

/// Events and samples of one run.
export class Record {
  now_ms = 0;
  isOver = false;
  hash = '';
  /// Packets by their numbers, from `first` on.
  packets = [];
  first = 0;
  frames = [];
  counts = [0, 0, 0];
  samples = [];

  constructor(summary) {
    this.summary = summary;
  }

  /// Takes an answer to `advance`.
  add(part) {
    this.now_ms = part.now_ms;
    this.isOver = part.is_over;
    this.hash = part.hash;
    this.samples.push(...part.samples);
    const { sent, ended, frames } = part;
    const transit = this.#transit();
    for (let at = 0; at < sent.length; at += SENT_COLUMNS) {
      const [flow, path, back, kind, bytes, from] = sent.slice(at, at + SENT_COLUMNS);
      const isBack = back === 1;
      const due = from + transit(flow, path, isBack);
      const spread = scatter(this.first + this.packets.length);
      this.packets.push({ flow, path, isBack, kind, bytes, from, to: due, end: null, spread });
    }
    for (let at = 0; at < ended.length; at += ENDED_COLUMNS) {
      const packet = this.packets[ended[at] - this.first];
      if (packet) {
        packet.to = ended[at + 1];
        packet.end = ended[at + 2];
      }
    }
    for (let at = 0; at < frames.length; at += FRAME_COLUMNS) {
      const [flow, captured, outcome, delay, isKey] = frames.slice(at, at + FRAME_COLUMNS);
      this.frames.push({ flow, captured, outcome, delay, isKey: isKey === 1 });
      this.counts[outcome] += 1;
    }
  }

  /// Forgets packets that have ended before a time.
  forget(before_ms) {
    const isOld = (packet) => packet.from < before_ms && packet.to < before_ms;
    let count = 0;
    while (count < this.packets.length && isOld(this.packets[count])) count += 1;
    if (count > 1_000) {
      this.packets.splice(0, count);
      this.first += count;
    }
  }

  /// The last sample up to a time.
  sampleAt(now_ms) {
    const index = Math.min(Math.floor(now_ms / 100), this.samples.length) - 1;
    return this.samples[index] ?? null;
  }

  /// The transit time of packets that are sent now, by the last sample.
  #transit() {
    const { routes, flows, links } = this.summary;
    const sample = this.samples.at(-1);
    return (flow, path, isBack) => {
      const route = routes[flows[flow].paths[path]];
      const ofRoute = isBack ? route.reverse : route.forward;
      const of = (link) => sample?.links[link]?.transit_ms ?? links[link]?.delay_ms ?? 0;
      return ofRoute.reduce((sum, link) => sum + of(link), 0);
    };
  }
}

/// A number between -1 and 1 that looks random, by a packet's number (Knuth's hash).
function scatter(number) {
  return ((Math.imul(number, 2_654_435_761) >>> 0) / 2 ** 31) - 1;
}

/// For this long a change is news, in ms.
const NEWS_MS = 5_000;

/// The properties of links over time: by the scenario, and by the changes of the user.
export class Network {
  constructor(summary, changes) {
    this.links = summary.links;
    this.changes = changes;
  }

  /// The rate, delay and loss of a link at a time, and whether it is up.
  at(link, now_ms) {
    const spec = this.links[link];
    const last = (schedule, start) => schedule.findLast(([at]) => at <= now_ms)?.[1] ?? start;
    const state = {
      rate: last(spec.rates, spec.rate),
      delay: last(spec.delays, spec.delay_ms),
      loss: spec.loss,
      up: !spec.outages.some(([from, to]) => from <= now_ms && now_ms < to),
      hasTrace: spec.has_trace,
    };
    for (const { at_ms, link: name, property, value } of this.changes) {
      if (name !== spec.name || at_ms > now_ms) continue;
      state[property] = value;
      if (property === 'rate') state.hasTrace = false;
    }
    return state;
  }

  /// The last change of a link, unless it is long ago: its time, the link and a text.
  news(now_ms) {
    const scheduled = this.links.flatMap(({ name: link, rates, delays, outages }) => [
      ...rates.map(([at, value]) => ({ at, link, text: `carries ${rate(value)} from now on` })),
      ...delays.map(([at, value]) => ({ at, link, text: `takes ${short(value)} ms from now on` })),
      ...outages.map(([at]) => ({ at, link, text: 'fails: it loses all packets' })),
      ...outages.map(([, at]) => ({ at, link, text: 'is back' })),
    ]);
    const made = this.changes.map(({ at_ms: at, link, property, value }) => ({
      at,
      link,
      text: TEXTS[property](value),
    }));
    const recent = [...scheduled, ...made].filter(
      ({ at }) => at > 0 && at <= now_ms && now_ms - at < NEWS_MS,
    );
    recent.sort((one, other) => other.at - one.at);
    return recent[0] ?? null;
  }
}

const TEXTS = {
  rate: (value) => `carries ${rate(value)}, by your hand`,
  delay: (value) => `takes ${short(value)} ms, by your hand`,
  loss: (value) => `loses ${percent(value)} of all packets, by your hand`,
  up: (value) => (value ? 'is restored' : 'is cut: it loses all packets'),
};
