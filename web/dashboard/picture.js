// The last key frame of a received stream.

import { element } from './format.js';
import { term } from './words.js';

/** Seconds between requests. All viewers ask in the same second, so that one decoding serves all. */
const INTERVAL = 5;

/** Reads a portable pixmap, as `P6\n160 90\n255\n` and three bytes for each pixel. */
export function readPixmap(bytes) {
  const text = new TextDecoder('latin1').decode(bytes.subarray(0, 40));
  const match = /^P6\n(\d+) (\d+)\n255\n/.exec(text);
  if (!match) return null;
  const [width, height] = [Number(match[1]), Number(match[2])];
  const pixels = bytes.subarray(match[0].length);
  if (width === 0 || height === 0 || pixels.length !== width * height * 3) return null;
  const image = new ImageData(width, height);
  for (let from = 0, to = 0; from < pixels.length; from += 3, to += 4) {
    image.data.set(pixels.subarray(from, from + 3), to);
    image.data[to + 3] = 255;
  }
  return image;
}

export class Picture {
  root;
  #name;
  #canvas;
  #isAsking = false;
  #askedAt = null;
  /** Requests until the first picture that do not wait for their turn. */
  #hasteLeft = 10;

  constructor(name) {
    this.#name = name;
    this.#canvas = element('canvas', { role: 'img', 'aria-label': `Last key frame of ${name}` });
    const caption = element('figcaption', {}, element('h3', {}, term('picture')));
    this.root = element('figure', { class: 'picture' }, caption, this.#canvas);
    this.root.hidden = true;
  }

  /** Asks for the picture when it is time, if the browser shows the page. */
  update(uptime) {
    const turn = Math.floor(uptime / INTERVAL);
    const isHasty = this.root.hidden && this.#hasteLeft > 0;
    if (this.#isAsking || document.hidden || (this.#askedAt === turn && !isHasty)) return;
    this.#askedAt = turn;
    this.#hasteLeft -= 1;
    this.#ask();
  }

  async #ask() {
    this.#isAsking = true;
    try {
      const answer = await fetch(`thumbnail?stream=${encodeURIComponent(this.#name)}&quiet`);
      if (answer.status === 200) this.#show(new Uint8Array(await answer.arrayBuffer()));
    } catch {
      // The program has ended; the next turn asks again.
    } finally {
      this.#isAsking = false;
    }
  }

  #show(bytes) {
    const image = readPixmap(bytes);
    if (!image) return;
    this.root.hidden = false;
    this.#canvas.width = image.width;
    this.#canvas.height = image.height;
    this.#canvas.getContext('2d').putImageData(image, 0, 0);
  }
}
