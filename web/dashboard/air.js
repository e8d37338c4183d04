// The picture that viewers see: one state for the page, its title, and a sound for operators that
// look elsewhere.

import { setText, shape, short } from './format.js';

const TONES = { fine: 'good', impaired: 'warn', gone: 'bad' };
const GRAVITY = ['fine', 'impaired', 'gone'];
const SOUND_KEY = 'anabranch-sound';
/** Seconds between two sounds while a picture has gone. */
const REPEAT = 10;

/** Tone and words of a stream's picture; none before its first frame. */
export function pictureState(stream) {
  const { picture } = stream;
  return picture ? [TONES[picture.state] ?? 'plain', picture.text] : null;
}

/** The worst picture of all streams. */
export function worst(streams) {
  const known = streams.filter((stream) => stream.picture);
  return known.sort((a, b) => GRAVITY.indexOf(b.picture.state) - GRAVITY.indexOf(a.picture.state))
    .at(0) ?? null;
}

/** Shows the worst picture in the header and the title, and sounds when it becomes worse. */
export class Air {
  #air = document.getElementById('air');
  #button = document.getElementById('sound');
  #context = null;
  #state = 'fine';
  #soundedAt = 0;

  constructor() {
    this.#show(localStorage.getItem(SOUND_KEY) === 'on');
    this.#button.addEventListener('click', () => {
      const isOn = this.#button.getAttribute('aria-pressed') !== 'true';
      localStorage.setItem(SOUND_KEY, isOn ? 'on' : 'off');
      this.#show(isOn);
      if (isOn) this.#sound('fine');
    });
  }

  update(status) {
    const stream = worst(status.streams);
    const state = stream?.picture.state ?? 'fine';
    const [tone, text] = stream ? pictureState(stream) : ['plain', 'no picture yet'];
    const name = status.streams.length > 1 && stream ? `${short(stream.name)}: ` : '';
    const said = `picture ${name}${text}`;
    if (this.#air.textContent !== said) this.#air.replaceChildren(shape(tone), said);
    this.#air.dataset.tone = tone;
    const mark = { impaired: '⚠ ', gone: '✖ ' }[state] ?? '';
    setText(document.querySelector('title'), `${mark}Anabranch ${status.role}`);
    this.#alarm(state);
  }

  #alarm(state) {
    const isWorse = GRAVITY.indexOf(state) > GRAVITY.indexOf(this.#state);
    const isBack = state === 'fine' && this.#state !== 'fine';
    const isDue = state === 'gone' && performance.now() / 1e3 > this.#soundedAt + REPEAT;
    this.#state = state;
    if (isWorse || isBack || isDue) this.#sound(state);
  }

  #show(isOn) {
    this.#button.setAttribute('aria-pressed', String(isOn));
  }

  /** Two tones: up for a picture that is back, down for one that is worse. */
  #sound(state) {
    if (this.#button.getAttribute('aria-pressed') !== 'true') return;
    this.#soundedAt = performance.now() / 1e3;
    this.#context ??= new AudioContext();
    const notes = { fine: [523, 784], impaired: [659, 523], gone: [440, 330] }[state];
    const begin = this.#context.currentTime;
    notes.forEach((frequency, index) => {
      const note = this.#context.createOscillator();
      const volume = this.#context.createGain();
      volume.gain.value = 0.15;
      note.frequency.value = frequency;
      note.connect(volume).connect(this.#context.destination);
      note.start(begin + 0.25 * index);
      note.stop(begin + 0.25 * (index + 1));
    });
  }
}
