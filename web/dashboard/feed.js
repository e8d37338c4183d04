// The program's news. The connection is renewed whenever it breaks, and the past is then loaded
// again, since the program may have been restarted.

/** Seconds that are kept for charts and shares. */
const KEPT_SECONDS = 121;
const KEPT_EVENTS = 200;
const KEPT_STEPS = 360;
/** Interval of the hour's reloads. */
const HOUR_INTERVAL_MS = 60_000;
const RETRY_MS = 2_000;

async function load(path) {
  const answer = await fetch(path, { cache: 'no-store' });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

export class Feed {
  /** Statuses of the last seconds, the newest last. */
  seconds = [];
  /** Means of ten seconds, of the last hour. */
  steps = [];
  /** Events, the newest last. */
  events = [];
  /** Time of the last status, by this machine's steady clock. */
  #heardAt = null;
  #source = null;
  #onChange;

  /** Calls `onChange` with 'status' or 'events'. */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#connect();
    setInterval(() => this.#loadHour(), HOUR_INTERVAL_MS);
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.silence() > 3) this.#connect();
    });
  }

  /** Seconds since the last status. */
  silence() {
    return this.#heardAt === null ? Infinity : (performance.now() - this.#heardAt) / 1e3;
  }

  status() {
    return this.seconds.at(-1);
  }

  #connect() {
    this.#source?.close();
    const source = new EventSource('live');
    this.#source = source;
    source.addEventListener('open', () => this.#loadPast());
    source.addEventListener('status', (event) => this.#onStatus(JSON.parse(event.data)));
    source.addEventListener('happened', (event) => this.#onEvents([JSON.parse(event.data)]));
    source.addEventListener('error', () => {
      // Browsers give up on some errors.
      if (source.readyState === EventSource.CLOSED && source === this.#source) {
        setTimeout(() => this.#connect(), RETRY_MS);
      }
    });
  }

  async #loadPast() {
    try {
      const [seconds, events] = await Promise.all([load('history.json'), load('events.json')]);
      const newest = seconds.at(-1)?.unix_time_s ?? 0;
      const newer = this.seconds.filter((status) => status.unix_time_s > newest);
      this.seconds = [...seconds, ...newer].slice(-KEPT_SECONDS);
      this.events = [];
      this.#onEvents(events);
      await this.#loadHour();
      if (this.seconds.length > 0) this.#onChange('status');
    } catch {
      // The next connection loads it.
    }
  }

  async #loadHour() {
    try {
      this.steps = (await load('hour.json')).slice(-KEPT_STEPS);
    } catch {
      // The last hour stays as it was until the next load.
    }
  }

  #onStatus(status) {
    this.#heardAt = performance.now();
    const last = this.status();
    if (last && last.version !== status.version) {
      // Another version of the program has another page.
      location.reload();
    }
    if (last?.unix_time_s === status.unix_time_s) return;
    if (last && status.uptime_s < last.uptime_s) this.seconds = [];
    this.seconds.push(status);
    this.seconds = this.seconds.slice(-KEPT_SECONDS);
    this.#onChange('status');
  }

  #onEvents(events) {
    const newest = this.events.at(-1)?.number ?? 0;
    this.events.push(...events.filter((event) => event.number > newest));
    this.events = this.events.slice(-KEPT_EVENTS);
    this.#onChange('events');
  }
}
