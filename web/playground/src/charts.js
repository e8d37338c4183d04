// Rates, queues and frames over time.

import uPlot from 'uplot';
import { colouring } from './theme.js';
import { OUTCOMES } from './record.js';

const HEIGHT = 150;
/// More lines than these are not readable.
const MAX_LINES = 6;
/// Rates are means over this number of samples: single ones hold too few packets.
const SMOOTHED = 5;

/// The charts of one side. `shared` keeps the axes of both sides alike.
export class Charts {
  #charts = [];

  constructor(folder, summary, theme, shared, side) {
    folder.replaceChildren();
    const hasMedia = summary.flows.some((flow) => flow.deadline_ms !== null);
    const kinds = [rates(summary, theme), queues(summary, theme)];
    kinds.push(hasMedia ? frames(summary, theme) : roundTrips(summary, theme));
    for (const kind of kinds) {
      const figure = document.createElement('figure');
      const caption = document.createElement('figcaption');
      caption.innerHTML = `<b>${kind.title}</b> <span>${kind.unit}</span>`;
      const place = document.createElement('div');
      place.className = 'chart';
      figure.append(caption, place);
      folder.append(figure);
      this.#charts.push({ kind, plot: plot(kind, place, summary, theme, shared, side), place });
    }
    this.resize();
  }

  resize() {
    for (const { plot: chart, place } of this.#charts) {
      if (place.clientWidth > 0) chart.setSize({ width: place.clientWidth, height: HEIGHT });
    }
  }

  /// Shows a record up to a time.
  show(record, now, network) {
    for (const { kind, plot: chart } of this.#charts) {
      chart.setData(kind.data(record, now, network));
    }
  }

  remove() {
    for (const { plot: chart } of this.#charts) chart.destroy();
  }
}

/// Axes that both sides share: the largest value of each title.
export class Shared {
  #largest = new Map();

  range(title, side, max, least) {
    const key = `${title} ${side}`;
    this.#largest.set(key, Math.max(max ?? 0, least));
    const both = [0, 1].map((other) => this.#largest.get(`${title} ${other}`) ?? 0);
    return [0, Math.max(...both) * 1.08];
  }

  clear() {
    this.#largest.clear();
  }
}

function plot(kind, place, summary, theme, shared, side) {
  const axis = {
    stroke: () => theme().quiet,
    font: `11px ${theme().font}`,
    grid: { stroke: () => theme().grid, width: 1 },
    ticks: { show: false },
  };
  const options = {
    width: Math.max(place.clientWidth, 100),
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: {
      show: true,
      live: false,
      markers: { width: 0, fill: (_, at) => kind.series[at - 1].stroke() },
    },
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, sync: { key: 'time' } },
    scales: {
      x: { time: false, range: () => [0, summary.duration_ms / 1000] },
      y: { range: (_, __, max) => shared.range(kind.title, side, max, kind.least) },
    },
    axes: [
      { ...axis, size: 26, values: (_, values) => values.map((value) => `${value} s`), space: 60 },
      { ...axis, size: 40, space: 34 },
    ],
    series: [{}, ...kind.series],
  };
  return new uPlot(options, kind.data(null, 0, null), place);
}

function line(label, stroke, extra = {}) {
  return { label, stroke, width: 1.8, points: { show: false }, ...extra };
}

/// The paths of all flows: their labels, and the numbers of their colours.
function paths(summary) {
  const colour = colouring(summary);
  const isOne = summary.flows.length === 1;
  const all = summary.flows.flatMap((flow, flowIndex) =>
    flow.paths.map((route, path) => {
      const name = summary.routes[route].name;
      const label = isOne ? name : flow.paths.length > 1 ? `${flow.name} ${name}` : flow.name;
      return { flow: flowIndex, path, label, colour: colour(flowIndex, path) };
    }),
  );
  return all.slice(0, MAX_LINES);
}

function until(record, now) {
  return record ? record.samples.slice(0, Math.floor(now / 100)) : [];
}

function rates(summary, theme) {
  const lines = paths(summary);
  const hasTarget = summary.flows.length === 1 && summary.flows[0].deadline_ms !== null;
  const series = lines.map(({ label, colour }) => line(label, () => theme().path(colour)));
  if (hasTarget) {
    series.push(line('target bitrate', () => theme().quiet, { dash: [4, 4], width: 1.4 }));
  }
  return {
    title: 'Delivered',
    unit: 'Mbit/s',
    least: 0.5,
    series,
    data(record, now) {
      const samples = until(record, now);
      const columns = lines.map(({ flow, path }) => {
        const raw = samples.map((sample) => sample.flows[flow].paths[path].delivered_bps / 1e6);
        return smoothed(raw);
      });
      const target = samples.map(({ flows }) => (flows[0].target_bps ?? 0) / 1e6 || null);
      const all = hasTarget ? [...columns, target] : columns;
      return [samples.map((sample) => sample.at_ms / 1000), ...all];
    },
  };
}

function smoothed(values) {
  let sum = 0;
  return values.map((value, index) => {
    sum += value - (values[index - SMOOTHED] ?? 0);
    return Math.max(0, sum / Math.min(index + 1, SMOOTHED));
  });
}

function queues(summary, theme) {
  const used = summary.flows.flatMap((flow) =>
    flow.paths.flatMap((route) => summary.routes[route].forward),
  );
  const isQueue = (link) =>
    summary.links[link] && (summary.links[link].rate !== null || summary.links[link].has_trace);
  const links = [...new Set(used)].filter(isQueue).slice(0, MAX_LINES);
  const series = links.map((link, index) =>
    line(summary.links[link].name, () => theme().path(index)),
  );
  return {
    title: 'Waiting in queues',
    unit: 'ms',
    least: 50,
    series: series.length > 0 ? series : [line('no queues', () => theme().quiet)],
    data(record, now, network) {
      const samples = until(record, now);
      const columns = links.map((link) =>
        samples.map(({ at_ms, links: all }) => {
          const transit = all[link].transit_ms;
          return transit === null ? null : Math.max(0, transit - network.at(link, at_ms).delay);
        }),
      );
      const empty = [samples.map(() => null)];
      const shown = columns.length > 0 ? columns : empty;
      return [samples.map((sample) => sample.at_ms / 1000), ...shown];
    },
  };
}

function frames(summary, theme) {
  const colours = [() => theme().good, () => theme().late, () => theme().lost];
  const dots = (outcome) => ({
    label: OUTCOMES[outcome],
    stroke: colours[outcome],
    paths: () => null,
    points: { show: true, size: 3.5, width: 0, fill: colours[outcome], stroke: colours[outcome] },
  });
  const media = summary.flows.filter((flow) => flow.deadline_ms !== null);
  const deadline = Math.max(...media.map((flow) => flow.deadline_ms));
  return {
    title: 'Delay of each frame',
    unit: 'ms',
    least: deadline * 1.15,
    series: [
      line(`deadline`, () => theme().quiet, { dash: [2, 4], width: 1.2 }),
      ...[0, 1, 2].map(dots),
    ],
    data(record, now) {
      const shown = (record?.frames ?? []).filter((frame) => frame.captured + frame.delay <= now);
      shown.sort((one, other) => one.captured - other.captured);
      const of = (outcome) =>
        shown.map((frame) => (frame.outcome === outcome ? frame.delay : null));
      const x = shown.map((frame) => frame.captured / 1000);
      return [x, shown.map(() => deadline), of(0), of(1), of(2)];
    },
  };
}

function roundTrips(summary, theme) {
  const lines = paths(summary);
  return {
    title: 'Round-trip time',
    unit: 'ms',
    least: 50,
    series: lines.map(({ label, colour }) => line(label, () => theme().path(colour))),
    data(record, now) {
      const samples = until(record, now);
      const column = ({ flow, path }) =>
        samples.map((sample) => sample.flows[flow].paths[path].rtt_ms);
      return [samples.map((sample) => sample.at_ms / 1000), ...lines.map(column)];
    },
  };
}
