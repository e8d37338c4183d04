// Links by which senders and phones join a receiver, with their QR codes. They have secrets in them,
// so they are asked for when the section is open, and forgotten when it is closed.

import { element, setText } from './format.js';

/** Margin of a code that ISO/IEC 18004 asks for, in modules. */
const MARGIN = 4;
const SVG = 'http://www.w3.org/2000/svg';

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Draws a code, dark on light in every theme: not all cameras read the other way. */
function drawCode(rows, label) {
  const side = rows.length + 2 * MARGIN;
  const dark = rows.flatMap((row, y) => [...row.matchAll(/1+/g)]
    .map(({ 0: run, index: x }) => `M${x + MARGIN} ${y + MARGIN}h${run.length}v1h-${run.length}z`));
  return svg('svg', {
    class: 'code', role: 'img', 'aria-label': label, viewBox: `0 0 ${side} ${side}`,
    'shape-rendering': 'crispEdges',
  }, svg('rect', { width: side, height: side, fill: '#fff' }),
  svg('path', { d: dark.join(''), fill: '#000' }));
}

function makeLink(its) {
  const of = its.stream === null ? 'a new sender' : its.stream;
  const row = element('li', { class: 'join' },
    element('strong', {}, of), element('span', { class: 'muted' }, its.app));
  if (its.qr_code.length > 0) row.append(drawCode(its.qr_code, `QR code for ${of}, ${its.app}`));
  row.append(element('code', { class: 'place' }, its.link));
  if (its.fields !== null) {
    row.append(element('span', { class: 'place' }, 'by hand: ', element('code', {}, its.fields)));
  }
  return row;
}

/** Prepares the section. `read` asks for the links, and `change` makes a change. */
export function prepareJoining(read, change) {
  const section = document.getElementById('control-join');
  const list = document.getElementById('control-links');
  const none = document.getElementById('control-no-links');
  const form = document.getElementById('control-link-form');
  let shown = '';

  /** Shows the links if the section is open. */
  async function show() {
    if (!section.open || section.hidden) {
      shown = '';
      list.replaceChildren();
      return;
    }
    try {
      const { links } = await read();
      setText(none, links.length === 0 ? 'No link is good now: make one.' : '');
      const text = JSON.stringify(links);
      if (text === shown) return;
      shown = text;
      list.replaceChildren(...links.map(makeLink));
    } catch (error) {
      setText(none, error.message);
    }
  }

  section.addEventListener('toggle', show);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const name = document.getElementById('control-link-name');
    const app = document.getElementById('control-link-app').value;
    const wanted = {};
    if (name.value.trim()) wanted.name = name.value.trim();
    if (app) wanted.phone = app;
    name.value = '';
    await change('link', wanted);
    await show();
  });
  return show;
}
