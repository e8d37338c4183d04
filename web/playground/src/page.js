// State of the page, and the elements that show it.

import { Controls } from './controls.js';
import { Editor } from './editor.js';
import { FIRST, FIRST_FROM_MS } from './library.js';
import * as permalink from './permalink.js';
import { Player } from './player.js';
import { Network } from './record.js';
import { showResults } from './results.js';
import { Shared } from './charts.js';
import { Side } from './side.js';
import { themes } from './theme.js';

const $ = (id) => document.getElementById(id);
/// A run takes about as long as this at the speed that is chosen for it, in ms.
const USUAL_MS = 75_000;
const NAMES = ['A', 'B'];
/// The version of the simulator, which the build sets.
const VERSION = ANABRANCH_VERSION;
/// The algorithms that a comparison starts with: the plainest ones.
const PLAIN = { controller: null, scheduler: 'round-robin' };
const SWEEP = 'Its sweep is left out: the page runs the values of the file.';
/// Time between two updates of the charts.
const CHARTS_MS = 100;

/// The page.
export class Page {
  #library;
  #whole;
  /// For checks and files.
  #aside;
  #names;
  #player;
  #theme = themes();
  #shared = new Shared();
  #sides = [];
  #controls = null;
  #editor = null;
  #state = null;
  #reports = [null, null];
  /// Trace hashes of the present state's runs; null until all have ended.
  #hashes = null;
  #units;
  #isFirst;
  #timers = {};
  #shownAt = 0;
  /// The address of the present state, from `#` on.
  address = '';

  constructor({ live, whole, aside, library, names, isFirst }) {
    this.#library = library;
    this.#whole = whole;
    this.#aside = aside;
    this.#names = names;
    this.#isFirst = isFirst;
    this.#units = new Map(names.metrics.map(({ name, unit }) => [name, unit]));
    this.#player = new Player(live, {
      changed: (at, changes) => this.#onChanged(at, changes),
      failed: (error) => this.#fail(error),
    });
    library.fill($('scenario'));
    this.#listen();
    let last = performance.now();
    const frame = (now) => {
      this.#frame(now, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.#legend();
  }

  /// Opens the state of an address.
  async open(state) {
    const name = state.scenario ?? (state.text === null ? FIRST : null);
    if (name !== null && !this.#library.has(name) && state.text === null) {
      await this.open({ ...state, scenario: FIRST });
      return this.#fail(new Error(`There is no scenario called ${name}: choose one of the list.`));
    }
    this.#set({ ...state, scenario: name });
    $('seed').value = state.seed;
    $('scenario').value = name ?? '';
    this.#arrange();
    if (this.#editor) this.#editor.text = this.#text();
    const from = this.#isFirst ? FIRST_FROM_MS : 0;
    this.#isFirst = false;
    await this.#start(from);
  }

  /// Makes the editor.
  edit(schema) {
    this.#editor = new Editor($('editor'), schema, (text) => this.#edited(text));
    this.#editor.text = this.#text();
  }

  #text(state = this.#state) {
    return state.text ?? this.#library.text(state.scenario);
  }

  #experiment(side, state = this.#state) {
    const { scenario, seed, sides, changes } = state;
    return {
      file: `${scenario?.split('/').at(-1) ?? 'scenario'}.toml`,
      text: this.#text(state),
      files: this.#library.files(scenario),
      seed,
      ...sides[side],
      changes,
    };
  }

  /// Makes as many sides as the state has.
  #arrange() {
    const count = this.#state.sides.length;
    while (this.#sides.length > count) this.#sides.pop().remove();
    while (this.#sides.length < count) {
      const side = new Side(this.#sides.length, {
        names: this.#names,
        theme: this.#theme,
        shared: this.#shared,
        chosen: (index, kind, name) => this.#choose(index, kind, name),
      });
      this.#sides.push(side);
      $('stages').append(side.stage);
      $('charts').append(side.charts);
    }
    for (const side of this.#sides) {
      for (const badge of side.badges) badge.hidden = count === 1;
    }
    $('compare').setAttribute('aria-pressed', String(count === 2));
  }

  /// Starts the present state, and plays from a time on.
  async #start(from) {
    const experiments = this.#state.sides.map((_, side) => this.#experiment(side));
    let summaries;
    try {
      summaries = await this.#player.start(experiments, from);
    } catch (error) {
      return this.#fail(error);
    }
    if (!summaries) return;
    this.#clear();
    this.#shared.clear();
    const [summary] = summaries;
    $('title').textContent = summary.title;
    const texts = [this.#text(), ...Object.values(this.#library.files(this.#state.scenario))];
    const sweep = texts.some((text) => /^\[sweep/m.test(text)) ? SWEEP : null;
    const about = [summary.description, summary.source, sweep].filter(Boolean);
    $('about').textContent = about.join(' — ');
    this.#sides.forEach((side, index) => {
      side.choose(summaries[index], this.#state.sides[index]);
      side.start(summaries[index]);
    });
    this.#controls = new Controls($('links'), summary, (link, property, value) =>
      this.#change(summary, link, property, value),
    );
    $('progress').max = summary.duration_ms;
    this.#setSpeed(summary.duration_ms);
    const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.#play(!isStill);
    this.#onState();
  }

  /// Runs the whole experiments, and shows their results.
  async #judge() {
    const count = this.#state.sides.length;
    const heads = count === 1 ? ['measured'] : NAMES;
    setHead($('promises'), ['promise', 'bound', ...heads]);
    setHead($('measured'), ['measure', ...heads]);
    this.#reports = this.#reports.slice(0, count);
    while (this.#reports.length < count) this.#reports.push(null);
    $('hashes').dataset.state = 'running';
    const state = this.#state;
    const runs = state.sides.map(async (_, side) => {
      const report = await this.#whole[side].call({ op: 'run', ...this.#experiment(side) });
      if (this.#state !== state) return;
      this.#reports[side] = report;
      this.#showReports();
    });
    try {
      await Promise.all(runs);
      if (this.#state !== state) return;
      this.#hashes = this.#reports.map((report) => report.runs[0].trace_hash);
      const text = permalink.difference(state.made, VERSION, this.#hashes);
      $('other').textContent = text ?? '';
      $('other').hidden = text === null;
      await this.#writeAddress();
      $('hashes').dataset.state = 'done';
    } catch (error) {
      this.#fail(error);
    }
  }

  #showReports() {
    const tables = { promises: $('promises'), measured: $('measured') };
    showResults(tables, this.#reports, this.#units);
    const parts = this.#reports.map((report, side) => {
      const hash = document.createElement('code');
      hash.textContent = report?.runs[0].trace_hash ?? '…';
      hash.dataset.hash = NAMES[side];
      const name = this.#reports.length === 1 ? 'Trace hash' : NAMES[side];
      return [side === 0 ? '' : ' ', `${name} `, hash];
    });
    $('hashes').replaceChildren(...parts.flat());
  }

  /// After any change of the state: the address and the results follow.
  #onState() {
    clearTimeout(this.#timers.state);
    this.#timers.state = setTimeout(() => this.#writeAddress(), 150);
    clearTimeout(this.#timers.judge);
    this.#timers.judge = setTimeout(() => this.#judge(), 60);
    $('reset').hidden = this.#state.changes.length === 0;
    $('edited').hidden = this.#state.text === null;
  }

  #set(changes) {
    $('hashes').dataset.state = 'running';
    $('other').hidden = true;
    this.#hashes = null;
    // A changed state is no longer the one of the address.
    this.#state = { ...this.#state, made: null, ...changes };
  }

  /// Writes the state's address. It names the run that it was made of: an address that opened
  /// another run still does, so that the page says it again.
  async #writeAddress() {
    const state = this.#state;
    const own = this.#hashes && { version: VERSION, hashes: this.#hashes };
    const address = await permalink.write({ ...state, made: state.made ?? own });
    if (this.#state !== state) return;
    this.address = address;
    history.replaceState(null, '', address);
  }

  #choose(index, kind, name) {
    const sides = this.#state.sides.map((side, at) =>
      at === index ? { ...side, [kind]: name } : side,
    );
    this.#set({ sides });
    this.#start(this.#player.isOver ? 0 : this.#player.now);
  }

  #change(summary, link, property, value) {
    const { name } = summary.links[link];
    const names = property === 'up' ? [name, ...returns(summary, link)] : [name];
    if (!this.#player.isOver) return this.#player.change(names, property, value);
    // The run is over: it starts again with this value.
    const changes = names.map((other) => ({ at_ms: 0, link: other, property, value }));
    this.#set({ changes });
    this.#start(0);
  }

  #onChanged(at_ms, changes) {
    const isSame = (one, other) =>
      one.at_ms === at_ms && one.link === other.link && one.property === other.property;
    const before = this.#state.changes.filter(
      (one) => one.at_ms <= at_ms && !changes.some((other) => isSame(one, other)),
    );
    this.#set({ changes: [...before, ...changes.map((change) => ({ at_ms, ...change }))] });
    this.#onState();
  }

  async #edited(text) {
    const { scenario } = this.#state;
    const isOwn = this.#library.has(scenario) && this.#library.text(scenario) === text;
    const edited = { text: isOwn ? null : text, changes: [] };
    try {
      const experiment = this.#experiment(0, { ...this.#state, ...edited });
      await this.#aside.call({ op: 'check', ...experiment });
    } catch (mistake) {
      // The last scenario without a mistake goes on.
      this.#editor.mark(mistake);
      return this.#fail(mistake);
    }
    this.#set(edited);
    this.#start(0);
  }

  #fail(error) {
    const line = error.line ? `Line ${error.line}: ` : '';
    const key = error.key ? `${error.key}: ` : '';
    const made = this.#state?.made;
    const isOther = made && made.version !== VERSION;
    const hint = ` (The link is of version ${made?.version}, this page of ${VERSION}.)`;
    const text = `${line}${key}${error.message}${isOther ? hint : ''}`;
    $('problem').textContent = text;
    $('problem').hidden = false;
    $('mistake').textContent = text;
    $('mistake').hidden = !error.line;
  }

  #clear() {
    $('problem').hidden = true;
    $('mistake').hidden = true;
    this.#editor?.mark(null);
  }

  #setSpeed(duration) {
    const speeds = [...$('speed').options].map((option) => Number(option.value));
    const enough = speeds.find((speed) => speed >= 1 && duration / speed <= USUAL_MS);
    this.#player.speed = enough ?? speeds.at(-1);
    $('speed').value = String(this.#player.speed);
  }

  #play(isPlaying) {
    this.#player.isPlaying = isPlaying;
    $('play').textContent = isPlaying ? 'Pause' : this.#player.isOver ? 'Again' : 'Play';
  }

  #frame(now, elapsed) {
    const player = this.#player;
    player.step(elapsed);
    if (player.records.length !== this.#sides.length || this.#sides.length === 0) return;
    if (player.isPlaying && player.isOver) this.#play(false);
    const { changes } = this.#state;
    this.#sides.forEach((side, index) => {
      side.draw(player.records[index], changes, player.now, player.speed);
    });
    if (now - this.#shownAt < CHARTS_MS) return;
    this.#shownAt = now;
    const network = new Network(player.records[0].summary, changes);
    this.#sides.forEach((side, index) => side.show(player.records[index], player.now, network));
    this.#controls?.show(network, player.now);
    $('progress').value = player.now;
    const hashes = player.records.map((record) => record.hash);
    $('hashes').dataset.live = player.isOver ? hashes.join(' ') : '';
    const seconds = (ms) => (ms / 1000).toFixed(1);
    $('clock').textContent = `${seconds(player.now)} / ${seconds(player.duration)} s`;
  }

  #listen() {
    $('scenario').addEventListener('change', () => {
      const sides = this.#state.sides;
      this.open({ scenario: $('scenario').value, text: null, seed: 1, sides, changes: [] });
    });
    $('play').addEventListener('click', () => this.#toggle());
    $('restart').addEventListener('click', () => this.#start(0));
    $('speed').addEventListener('change', () => (this.#player.speed = Number($('speed').value)));
    $('seed').addEventListener('change', () => {
      const seed = Math.max(0, Math.floor(Number($('seed').value) || 0));
      $('seed').value = seed;
      this.#set({ seed });
      this.#start(0);
    });
    $('compare').addEventListener('click', () => {
      const [first, second] = this.#state.sides;
      this.#set({ sides: second ? [first] : [first, { ...PLAIN }] });
      this.#arrange();
      this.#start(this.#player.isOver ? 0 : this.#player.now);
    });
    $('reset').addEventListener('click', () => {
      this.#set({ changes: [] });
      this.#start(this.#player.isOver ? 0 : this.#player.now);
    });
    $('share').addEventListener('click', () => this.#copy());
    for (const button of document.querySelectorAll('[data-export]')) {
      button.addEventListener('click', () => this.#download(button.dataset.export));
    }
    document.addEventListener('keydown', (event) => {
      const isFree = event.target === document.body || event.target.tagName === 'CANVAS';
      if (event.key !== ' ' || !isFree) return;
      event.preventDefault();
      this.#toggle();
    });
    addEventListener('resize', () => this.#sides.forEach((side) => side.resize()));
  }

  #toggle() {
    if (this.#player.isOver) return this.#start(0);
    this.#play(!this.#player.isPlaying);
  }

  async #copy() {
    await this.#writeAddress();
    const button = $('share');
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'It is in the address bar';
    }
    setTimeout(() => (button.textContent = 'Copy link'), 1_500);
  }

  async #download(what) {
    for (let side = 0; side < this.#state.sides.length; side += 1) {
      const request = { op: 'export', what, ...this.#experiment(side) };
      const files = await this.#aside.call(request);
      const prefix = this.#state.sides.length > 1 ? `${NAMES[side]}-` : '';
      for (const { name, text } of files) save(`${prefix}${name}`, text);
    }
  }

  #legend() {
    const names = ['media', 'sent again', 'repair', 'lost', 'report'];
    const colours = ['path-0', 'copy', 'repair', 'lost', 'report'];
    const entries = names.map((name, index) => {
      const entry = document.createElement('span');
      const mark = document.createElement('i');
      mark.style.background = `var(--${colours[index]})`;
      entry.append(mark, name);
      return entry;
    });
    const note = document.createElement('span');
    note.textContent = 'Flights are drawn up to ten times as long as they are, queues as they are.';
    $('key').replaceChildren(...entries, note);
  }
}

/// The links back of routes over a link, if no other route uses them.
function returns(summary, link) {
  const over = summary.routes.filter((route) => route.forward.includes(link));
  const others = summary.routes.filter((route) => !route.forward.includes(link));
  const back = new Set(over.flatMap((route) => route.reverse));
  const isOwn = (index) =>
    index !== link &&
    index < summary.links.length &&
    !others.some(({ forward, reverse }) => [...forward, ...reverse].includes(index));
  return [...back].filter(isOwn).map((index) => summary.links[index].name);
}

function setHead(table, names) {
  const row = document.createElement('tr');
  const cells = names.map((name) => {
    const cell = document.createElement('th');
    cell.scope = 'col';
    cell.textContent = name;
    return cell;
  });
  row.append(...cells);
  table.tHead.replaceChildren(row);
}

function save(name, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
