// Plays live runs: keeps the simulation a little ahead of the picture.

import { tail } from './motion.js';
import { Record } from './record.js';

/// The simulation's lead over the picture, in ms of real time. A change of the network shows after
/// it; packets that arrive within it are drawn from facts, later ones from a forecast.
const LEAD_MS = 140;
/// Longest pause between two pictures that counts: a page in the background does not catch up.
const MAX_STEP_MS = 250;
/// Packets are kept for this long after they have left the drawing, in simulated ms.
const KEPT_MS = 1_000;
/// Least time between two changes of the same property, so that addresses stay short.
const CHANGE_MS = 80;

/// Live runs of one or two experiments with the same network.
export class Player {
  #client;
  #runs = [];
  #isPending = false;
  #token = 0;
  #waiting = new Map();
  #changedAt = 0;
  #changed;
  #failed;
  records = [];
  now = 0;
  speed = 1;
  isPlaying = false;

  /// `changed` is called with the time and the list of changes that were made at once.
  constructor(client, { changed, failed }) {
    this.#client = client;
    this.#changed = changed;
    this.#failed = failed;
  }

  get duration() {
    return this.records[0]?.summary.duration_ms ?? 0;
  }

  get isOver() {
    return this.records.length > 0 && this.now >= this.duration;
  }

  /// Starts runs of experiments, and plays from a time on. Returns the summaries.
  async start(experiments, from) {
    const token = ++this.#token;
    // Changes from now on are for the new runs.
    this.#waiting.clear();
    const old = this.#runs;
    this.#runs = [];
    for (const run of old) this.#client.call({ op: 'stop', run });
    const starts = experiments.map((experiment) =>
      this.#client.call({ op: 'start', ...experiment }),
    );
    const started = await Promise.allSettled(starts);
    const failure = started.find(({ status }) => status === 'rejected');
    const runs = started.filter(({ value }) => value).map(({ value }) => value.run);
    if (failure || token !== this.#token) {
      for (const run of runs) this.#client.call({ op: 'stop', run });
      if (failure) throw failure.reason;
      return null;
    }
    const summaries = started.map(({ value }) => value.summary);
    const records = summaries.map((summary) => new Record(summary));
    await this.#fetch(runs, records, from, token);
    if (token !== this.#token) return null;
    this.#runs = runs;
    this.records = records;
    this.now = from;
    return summaries;
  }

  /// Moves the picture by a time of the page.
  step(elapsed) {
    if (this.#runs.length === 0) return;
    this.#flush();
    const least = Math.min(...this.records.map((record) => record.now_ms));
    if (this.isPlaying) {
      const next = this.now + Math.min(elapsed, MAX_STEP_MS) * this.speed;
      this.now = Math.min(next, least, this.duration);
    }
    const wanted = Math.ceil(Math.min(this.now + LEAD_MS * this.speed, this.duration));
    if (wanted > least && !this.#isPending) this.#advance(wanted);
  }

  /// Changes a property of links, soon.
  change(links, property, value) {
    for (const link of links) this.#waiting.set(`${link} ${property}`, { link, property, value });
  }

  async #advance(until) {
    const token = this.#token;
    this.#isPending = true;
    try {
      await this.#fetch(this.#runs, this.records, until, token);
    } catch (error) {
      this.#runs = [];
      this.#failed(error);
    } finally {
      this.#isPending = false;
    }
    const kept = KEPT_MS + tail(this.speed);
    for (const record of this.records) record.forget(this.now - kept);
  }

  async #fetch(runs, records, until, token) {
    const parts = runs.map((run) => this.#client.call({ op: 'advance', run, until_ms: until }));
    const answers = await Promise.all(parts);
    if (token === this.#token) answers.forEach((part, index) => records[index].add(part));
  }

  async #flush() {
    const now = performance.now();
    if (this.#waiting.size === 0 || now - this.#changedAt < CHANGE_MS) return;
    this.#changedAt = now;
    const changes = [...this.#waiting.values()];
    this.#waiting.clear();
    const token = this.#token;
    const calls = changes.flatMap((change) =>
      this.#runs.map((run) => this.#client.call({ op: 'change', run, ...change })),
    );
    try {
      const answers = await Promise.all(calls);
      if (token === this.#token) this.#changed(answers[0].at_ms, changes);
    } catch (error) {
      this.#failed(error);
    }
  }
}
