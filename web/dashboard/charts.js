// Charts of a stream over the last two minutes or the last hour, by uPlot.

import { DASHES, element, sample, short } from './format.js';
import { head, term } from './words.js';

const SPANS = { minutes: 120, hour: 3600 };
const SPAN_NAMES = { minutes: 'last two minutes', hour: 'last hour' };
/** Possible ends of a scale in each decade. */
const STEPS = [1, 2, 5, 10];

let chosenSpan = 'minutes';

/** Chooses 'minutes' or 'hour' for all charts. */
export function chooseSpan(span) {
  chosenSpan = span;
}

/** The kinds of charts: a word, a unit, and the lines of a point in time. */
const ofPaths = (value) => (stream) => stream.paths.map((path) => [
  path.path, `${path.path} ${short(path.name)}`, value(path),
]);
const RATE = {
  word: 'rate', title: 'rate', unit: 'Mbit/s',
  lines: ofPaths((path) => (path.rate_bps
    ?? path.sent_rate_bps.avg + path.received_rate_bps.avg) / 1e6),
};
const RTT = {
  word: 'rtt', title: 'RTT', unit: 'ms', isQuiet: true,
  lines: ofPaths((path) => {
    const seconds = path.rtt_s?.avg ?? path.rtt_s;
    return seconds === null || seconds === undefined ? null : seconds * 1e3;
  }),
};
const LOSS = {
  word: 'loss', title: 'loss', unit: '%', isQuiet: true, lines: ofPaths((path) => path.loss_ratio * 100),
};
const ENCODER = {
  word: 'target', title: 'encoder', unit: 'Mbit/s',
  lines: (stream) => [
    [1, head('target'), stream.target_rate_bps / 1e6],
    [0, head('media'), (stream.media_rate_bps.avg ?? stream.media_rate_bps) / 1e6],
  ],
};

/** Returns the kinds of charts for a stream of a command. */
export function chartKinds(role) {
  return role === 'send' ? [RATE, ENCODER, RTT, LOSS] : [RATE, RTT, LOSS];
}

/** Colours by the page's style, which canvases do not know. */
function colours() {
  const probe = element('span');
  document.body.append(probe);
  const resolve = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const series = DASHES.map((_, index) => resolve(`--series-${index + 1}`));
  const found = { series, line: resolve('--line'), text: resolve('--muted') };
  probe.remove();
  return found;
}

/** Returns the end of a scale that holds all values, at least 1. */
function scaleEnd(values) {
  const greatest = Math.max(1, ...values);
  const decade = 10 ** Math.floor(Math.log10(greatest));
  return decade * STEPS.find((step) => greatest <= step * decade * 1.0001);
}

/** Points of a stream: negative seconds until now, and values by line. */
function points(feed, name, kind) {
  const newest = feed.status();
  const now = newest.unix_time_s;
  const span = SPANS[chosenSpan];
  const past = chosenSpan === 'hour' ? [...feed.steps, newest] : feed.seconds;
  const shown = past.filter((point) => point.unix_time_s > now - span - 1);
  const lines = new Map();
  const times = shown.map((point) => Math.max(-span, point.unix_time_s - now));
  shown.forEach((point, at) => {
    const stream = point.streams.find((stream) => stream.name === name);
    for (const [key, label, value] of stream ? kind.lines(stream) : []) {
      if (!lines.has(key)) lines.set(key, { label, values: times.map(() => null) });
      const line = lines.get(key);
      line.label = label;
      line.values[at] = value;
    }
  });
  return { times, lines: new Map([...lines].sort(([a], [b]) => a - b)) };
}

function axis(colour, more) {
  return {
    stroke: colour.text,
    grid: { stroke: colour.line, width: 1 },
    ticks: { show: false },
    ...more,
  };
}

/** Label of a time: "now", "−30 s" or "−15 min". */
function timeLabel(seconds) {
  if (seconds === 0) return 'now';
  return chosenSpan === 'hour' ? `−${-seconds / 60} min` : `−${-seconds} s`;
}

export class Chart {
  root;
  #kind;
  #plot = null;
  #box;
  #legend;
  #shape = '';
  #end = 1;

  constructor(kind) {
    this.#kind = kind;
    this.#box = element('div', { class: 'plot', role: 'img' });
    this.#legend = element('p', { class: 'legend muted' });
    const title = element('h3', {}, term(kind.word, kind.title ?? head(kind.word)));
    title.append(element('span', { class: 'muted' }, ` ${kind.unit}`));
    const caption = element('figcaption', {}, title, this.#legend);
    const look = kind.isQuiet ? 'chart quiet' : 'chart wide';
    this.root = element('figure', { class: look }, caption, this.#box);
    new ResizeObserver(() => this.#resize()).observe(this.#box);
  }

  /** Draws a stream's past again, if the browser shows the page. */
  draw(feed, name) {
    const { times, lines } = points(feed, name, this.#kind);
    const all = [...lines.values()].flatMap((line) => line.values);
    this.#end = scaleEnd(all.filter((value) => value !== null));
    const shape = JSON.stringify([
      chosenSpan, matchMedia('(prefers-color-scheme: dark)').matches, innerWidth,
      [...lines].map(([key, line]) => [key, line.label]),
    ]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#make(lines);
    }
    this.#plot.setData([times, ...[...lines.values()].map((line) => line.values)]);
    this.#describe(lines);
  }

  #make(lines) {
    this.#plot?.destroy();
    const colour = colours();
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const font = `${Math.round(rem * 0.6875)}px ${getComputedStyle(document.body).fontFamily}`;
    const span = SPANS[chosenSpan];
    // Labels of times need room.
    const parts = this.#size().width < 18 * rem ? 2 : 4;
    const splits = [...Array(parts + 1).keys()].map((part) => -span + part * span / parts);
    const series = [...lines].map(([key, line]) => ({
      label: line.label,
      stroke: colour.series[key % colour.series.length],
      dash: DASHES[key % DASHES.length].map((length) => length * rem / 16),
      width: 1.5 * rem / 16,
      points: { show: false },
      spanGaps: false,
    }));
    const options = {
      ...this.#size(),
      scales: {
        x: { time: false, range: [-span, 0] },
        y: { range: () => [0, this.#end] },
      },
      axes: [
        axis(colour, {
          font, size: rem * 1.5, gap: rem * 0.375, splits: () => splits,
          values: (_, all) => all.map(timeLabel),
          grid: { show: false },
        }),
        axis(colour, {
          font, size: rem * 2.5, gap: 4,
          splits: () => [0, this.#end / 2, this.#end],
          values: (_, all) => all.map((value) => String(Number(value.toPrecision(3)))),
        }),
      ],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      padding: [rem * 0.4, rem * 1.1, 0, 0],
      series: [{}, ...series],
      hooks: { setCursor: [(plot) => this.#read(plot)] },
    };
    this.#plot = new uPlot(options, [[], ...series.map(() => [])], this.#box);
    this.#legend.replaceChildren(...[...lines].map(([key, line]) => element(
      'span', { class: 'line' }, sample(key), element('span', {}, line.label),
      element('span', { class: 'value number' }),
    )));
  }

  /** Shows the values under the pointer in the legend. */
  #read(plot) {
    const at = plot.cursor.idx;
    const values = this.#legend.querySelectorAll('.value');
    values.forEach((target, index) => {
      const value = at === null || at === undefined ? null : plot.data[index + 1]?.[at];
      target.textContent = value === null || value === undefined ? '' : value.toFixed(2);
    });
  }

  #describe(lines) {
    const newest = [...lines.values()].map((line) => {
      const value = line.values.at(-1);
      return `${line.label} ${value === null ? 'unknown' : value.toPrecision(3)}`;
    });
    const { title, word, unit } = this.#kind;
    const text = `${title ?? head(word)} in the ${SPAN_NAMES[chosenSpan]}, 0 to ${this.#end} ${unit}. `
      + `Now: ${newest.join(', ')}`;
    this.#box.setAttribute('aria-label', text);
  }

  #size() {
    const { width, height } = this.#box.getBoundingClientRect();
    return { width: Math.max(80, Math.floor(width)), height: Math.max(60, Math.floor(height)) };
  }

  #resize() {
    const { width, height } = this.#size();
    if (this.#plot && (this.#plot.width !== width || this.#plot.height !== height)) {
      this.#plot.setSize({ width, height });
    }
  }
}
