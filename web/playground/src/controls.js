// Sliders for the rate, delay and loss of each link, and switches that cut it.

import { percent, rate } from './format.js';

/// Most links that have controls.
const MAX_LINKS = 8;
const LEAST_RATE = 50e3;
const MAX_LOSS = 0.3;

/// Positions of sliders, 0 to 1000, and values: rates are logarithmic, delays and losses finer near
/// zero.
const SCALES = {
  rate: (most) => ({
    value: (at) => nice(LEAST_RATE * (most / LEAST_RATE) ** (at / 1000)),
    position: (value) => (1000 * Math.log(value / LEAST_RATE)) / Math.log(most / LEAST_RATE),
    text: rate,
  }),
  delay: (most) => ({
    value: (at) => Math.round(most * (at / 1000) ** 2),
    position: (value) => 1000 * Math.sqrt(value / most),
    text: (value) => `${Math.round(value)} ms`,
  }),
  loss: () => ({
    value: (at) => Math.round(1000 * MAX_LOSS * (at / 1000) ** 2) / 1000,
    position: (value) => 1000 * Math.sqrt(Math.min(value / MAX_LOSS, 1)),
    text: percent,
  }),
};

function nice(value) {
  const step = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Math.round(value / step) * step;
}

/// The controls of all links of a summary. `change` is called with a link, a property and a value.
export class Controls {
  #rows;

  constructor(folder, summary, change) {
    const used = summary.flows.flatMap((flow) =>
      flow.paths.flatMap((route) => summary.routes[route].forward),
    );
    const links = [...new Set(used)].filter((link) => link < summary.links.length);
    this.#rows = links.slice(0, MAX_LINKS).map((link) => new Row(summary, link, change));
    folder.replaceChildren(...this.#rows.map((row) => row.element));
  }

  /// Shows the state of the network at a time.
  show(network, now) {
    for (const row of this.#rows) row.show(network.at(row.link, now));
  }
}

class Row {
  #sliders = {};
  #toggle;

  constructor(summary, link, change) {
    this.link = link;
    const { name, rate: bits, has_trace: hasTrace, delay_ms: delay, delays } = summary.links[link];
    this.element = document.createElement('fieldset');
    this.element.className = 'link';
    const legend = document.createElement('legend');
    legend.textContent = name;
    this.element.append(legend);
    const longest = Math.max(delay, ...delays.map(([, later]) => later));
    const most = { rate: Math.max(20e6, (bits ?? 0) * 5), delay: Math.max(600, longest * 1.5) };
    const isLimited = bits !== null || hasTrace;
    const properties = isLimited ? ['rate', 'delay', 'loss'] : ['delay', 'loss'];
    for (const property of properties) {
      const scale = SCALES[property](most[property]);
      const slider = new Slider(name, property, scale, (value) => change(link, property, value));
      this.#sliders[property] = slider;
      this.element.append(slider.element);
    }
    this.#toggle = document.createElement('button');
    this.#toggle.type = 'button';
    this.#toggle.className = 'cut';
    this.#toggle.addEventListener('click', () => {
      change(link, 'up', this.#toggle.getAttribute('aria-pressed') === 'true');
    });
    this.#toggle.setAttribute('aria-label', `Cut ${name}`);
    this.element.append(this.#toggle);
  }

  show(state) {
    for (const [property, slider] of Object.entries(this.#sliders)) slider.show(state, property);
    this.#toggle.setAttribute('aria-pressed', String(!state.up));
    this.#toggle.textContent = state.up ? 'Cut' : 'Restore';
    this.element.classList.toggle('is-down', !state.up);
  }
}

class Slider {
  #input;
  #output;
  #scale;
  /// Until when the user's hand decides, by the clock of the page.
  #heldUntil = 0;

  constructor(name, property, scale, change) {
    this.#scale = scale;
    this.element = document.createElement('label');
    const title = document.createElement('span');
    title.textContent = property;
    this.#input = document.createElement('input');
    Object.assign(this.#input, { type: 'range', min: 0, max: 1000, step: 1 });
    this.#input.setAttribute('aria-label', `${name}: ${property}`);
    this.#output = document.createElement('output');
    this.element.append(title, this.#output, this.#input);
    this.#input.addEventListener('input', () => {
      this.#heldUntil = performance.now() + 400;
      const value = scale.value(Number(this.#input.value));
      this.#say(value);
      change(value);
    });
  }

  show(state, name) {
    if (performance.now() < this.#heldUntil) return;
    const value = state[name];
    if (name === 'rate' && (state.hasTrace || value === null)) {
      this.#output.textContent = 'by trace';
      return;
    }
    this.#input.value = this.#scale.position(value);
    this.#say(value);
  }

  #say(value) {
    const text = this.#scale.text(value);
    this.#output.textContent = text;
    this.#input.setAttribute('aria-valuetext', text);
  }
}
