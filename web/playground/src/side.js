// One of the two algorithms: its choices, its drawing and its charts.

import { Charts } from './charts.js';
import { Scene } from './scene.js';
import { colouring } from './theme.js';

const NAMES = ['A', 'B'];
/// Height of the drawing by the number of its channels.
const ROW_HEIGHT = 116;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/// The elements of a side. `chosen` is called after another controller or scheduler was chosen.
export class Side {
  #index;
  #names;
  #theme;
  #shared;
  #scene;
  #charts = null;
  #chartRow;
  #score;
  #selects;
  #canvas;
  #news;

  constructor(index, { names, theme, shared, chosen }) {
    this.#index = index;
    this.#names = names;
    this.#theme = theme;
    this.#shared = shared;
    this.#selects = ['controller', 'scheduler'].map((kind) => {
      const select = make('select', { ariaLabel: `${kind} of ${NAMES[index]}` });
      select.addEventListener('change', () => chosen(index, kind, select.value || null));
      return select;
    });
    this.#score = make('span', { className: 'score' });
    this.#canvas = make('canvas', { role: 'img' });
    this.#news = make('p', { className: 'news' });
    this.badges = [0, 1].map(() => make('span', { className: 'badge', textContent: NAMES[index] }));
    const head = make('header', {}, this.badges[0], ...this.#selects, this.#score);
    this.stage = make('article', { className: 'stage' }, head, this.#canvas, this.#news);
    this.#chartRow = make('div', { className: 'chartrow' });
    this.charts = this.#chartRow;
  }

  /// Shows the choices for a scenario.
  choose(summary, { controller, scheduler }) {
    const flow = summary.flows.find((one) => one.scheduler !== '') ?? summary.flows[0];
    const { controllers, schedulers } = this.#names;
    fill(this.#selects[0], controllers, controller, flow?.controller);
    fill(this.#selects[1], schedulers, scheduler, flow?.scheduler);
    const hasPaths = summary.flows.some((one) => one.paths.length > 1);
    this.#selects[1].hidden = !hasPaths && !scheduler;
  }

  /// Prepares for a run.
  start(summary) {
    this.#charts?.remove();
    this.#charts = new Charts(
      this.#chartRow,
      summary,
      this.#theme,
      this.#shared,
      this.#index,
    );
    this.#chartRow.append(this.badges[1]);
    const keys = summary.flows.flatMap((flow) =>
      flow.paths.map((path) => summary.routes[path].forward.join()),
    );
    const routes = new Set(keys);
    const rows = Math.min(Math.max(routes.size, 2), 6);
    this.#canvas.style.height = `${rows * (rows > 3 ? 84 : ROW_HEIGHT)}px`;
    this.#scene = new Scene(this.#canvas, withKinds(this.#theme, colouring(summary)));
  }

  draw(record, changes, now, speed) {
    this.#scene.draw(record, changes, now, speed);
  }

  /// Shows charts and counts up to a time.
  show(record, now, network) {
    this.#charts?.show(record, now, network);
    const frames = record.frames.filter((frame) => frame.captured + frame.delay <= now);
    const counts = [0, 0, 0];
    for (const { outcome } of frames) counts[outcome] += 1;
    this.#score.replaceChildren(...scores(counts));
    this.#news.replaceChildren(...news(network, now));
    const { summary } = record;
    const what = counts.some((count) => count > 0)
      ? `${counts[0]} frames arrived in time, ${counts[1]} late, ${counts[2]} were lost.`
      : '';
    const flows = summary.flows.length;
    this.#canvas.ariaLabel =
      `Packets of ${flows} flow${flows > 1 ? 's' : ''} over ` +
      `${summary.links.length} links after ${(now / 1000).toFixed(0)} s. ${what}`;
  }

  resize() {
    this.#charts?.resize();
  }

  remove() {
    this.#charts?.remove();
    this.stage.remove();
    this.charts.remove();
  }
}

/// Adds the colours of packets: by flow or path, and by the reason for which they were sent.
function withKinds(theme, colour) {
  return () => {
    const plain = theme();
    const kinds = [null, plain.copy, plain.repair, plain.probe, plain.probe];
    return {
      ...plain,
      kinds: (kind, flow, path) => kinds[kind] ?? plain.path(colour(flow, path)),
    };
  };
}

function scores([inTime, late, lost]) {
  const total = inTime + late + lost;
  if (total === 0) return [];
  const share = make('b', { textContent: `${((100 * inTime) / total).toFixed(1)} %` });
  const parts = [share, ' of frames in time'];
  if (late > 0) parts.push(', ', make('span', { className: 'late', textContent: `${late} late` }));
  if (lost > 0) parts.push(', ', make('span', { className: 'lost', textContent: `${lost} lost` }));
  return parts;
}

/// The last change of the network, for a while.
function news(network, now) {
  const last = network.news(now);
  if (!last) return [];
  const at = `${(last.at / 1000).toFixed(1)} s: `;
  return [at, make('b', { textContent: last.link }), ` ${last.text}`];
}

/// Fills a list of names; the first entry is the scenario's own.
function fill(select, entries, chosen, own) {
  const option = (value, text, title) => make('option', { value, textContent: text, title });
  const isKnown = chosen === null || entries.some((entry) => entry.name === chosen);
  const others = isKnown ? [] : [option(chosen, chosen, '')];
  const all = entries.map((entry) => option(entry.name, entry.name, entry.summary));
  const first = option('', chosen === null ? (own ?? '–') : "the scenario's own", '');
  select.replaceChildren(first, ...others, ...all);
  select.value = chosen ?? '';
  const found = entries.find((entry) => entry.name === (chosen ?? own));
  select.title = found?.summary ?? '';
}
