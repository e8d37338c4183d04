// Numbers and times as people read them. A dash is an unknown value.

export const UNKNOWN = '–';

/** Bits per second as "2.31", in Mbit/s. */
export function megabits(bitsPerSecond) {
  return (bitsPerSecond / 1e6).toFixed(2);
}

/** Seconds as milliseconds: "20.1", and "210" from 100 ms on. */
export function milliseconds(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  return (seconds * 1e3).toFixed(seconds < 0.1 ? 1 : 0);
}

/** A share as "97.0 %". Only a share of one is "100 %". */
export function percent(share) {
  if (share >= 1) return '100 %';
  return `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

/** A count as "12,345". */
export function count(number) {
  return number.toLocaleString('en');
}

/** Seconds as "48 s", "12 min" or "3 h 5 min". */
export function span(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Seconds since 1970 as the local time of day. */
export function clock(unixTime) {
  return new Date(unixTime * 1e3).toLocaleTimeString('en-GB');
}

/** A name without the greater part of a public key. */
export function short(name) {
  return name.replace(/abpub_[\w-]{8,}/g, (key) => `${key.slice(0, 14)}…`);
}

/** Makes an element with attributes and children. Texts are never parsed. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Sets a text if it differs, so that assistive programs hear of changes alone. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

const SVG = 'http://www.w3.org/2000/svg';

function drawing(width, height, shapes) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('aria-hidden', 'true');
  for (const [name, attributes] of shapes) {
    const shape = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    svg.append(shape);
  }
  return svg;
}

const SHAPES = {
  good: [['circle', { cx: 8, cy: 8, r: 6, fill: 'currentColor' }]],
  spare: [
    ['circle', { cx: 8, cy: 8, r: 5, fill: 'none', stroke: 'currentColor', 'stroke-width': 2 }],
    ['path', { d: 'M8 3a5 5 0 0 0 0 10z', fill: 'currentColor' }],
  ],
  warn: [['path', { d: 'M8 1.5 15 14H1z', fill: 'currentColor' }]],
  bad: [
    ['path', { d: 'M3 3l10 10M13 3 3 13', stroke: 'currentColor', 'stroke-width': 3 }],
  ],
  plain: [
    ['circle', { cx: 8, cy: 8, r: 4, fill: 'none', stroke: 'currentColor', 'stroke-width': 2 }],
  ],
};

/** Makes the shape of a tone: good, spare, warn, bad or plain. */
export function shape(tone) {
  const svg = drawing(16, 16, SHAPES[tone]);
  svg.setAttribute('class', `shape ${tone}`);
  return svg;
}

export const DASHES = [[], [8, 3], [2, 2], [10, 3, 2, 3], [5, 2], [1, 3]];

/** Makes a sample of a path's line in charts. */
export function sample(index) {
  const svg = drawing(22, 8, [['path', {
    d: 'M0 4H22', stroke: 'currentColor', 'stroke-width': 2.5,
    'stroke-dasharray': DASHES[index % DASHES.length].join(' ') || 'none',
  }]]);
  svg.setAttribute('class', `sample series-${index % DASHES.length + 1}`);
  return svg;
}
