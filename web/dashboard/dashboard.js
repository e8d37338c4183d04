// The dashboard: news once a second, for as many streams as there are.

import { Air } from './air.js';
import { chooseSpan } from './charts.js';
import { prepareControl } from './control.js';
import { showEvents } from './events.js';
import { Feed } from './feed.js';
import { element, megabits, setText, shape, span } from './format.js';
import { showOutputs } from './outputs.js';
import { watchRecordings } from './recordings.js';
import { StreamView } from './stream.js';
import { loadWords, term } from './words.js';

/** Seconds without news after which the page says so. */
const PATIENCE = 3;
const RETRY_MS = 2_000;

const byId = (id) => document.getElementById(id);
const views = new Map();
let feed;
let air;

function showTotals(total) {
  const totals = byId('totals');
  if (totals.children.length === 0) {
    totals.replaceChildren(...['out', 'in', 'payload'].map((word) => element(
      'div', {}, element('dt', {}, term(word)),
      element('dd', {}, element('span', { class: 'number' }),
        element('span', { class: 'muted' }, ' Mbit/s')),
    )));
  }
  [total.sent_rate_bps, total.received_rate_bps, total.delivered_rate_bps].forEach((rate, index) => {
    setText(totals.children[index].querySelector('.number'), megabits(rate.avg));
  });
}

function showStreams(status) {
  const known = new Set(status.streams.map((stream) => stream.name));
  for (const [name, view] of views) {
    if (!known.has(name)) {
      view.close();
      view.root.remove();
      views.delete(name);
    }
  }
  for (const stream of status.streams) {
    let view = views.get(stream.name);
    if (!view) {
      view = new StreamView(stream, status.role);
      views.set(stream.name, view);
      byId('streams').append(view.root);
    }
    view.update(feed, stream, status.role);
  }
  byId('streams').dataset.count = String(Math.min(status.streams.length, 4));
  byId('empty').hidden = status.streams.length > 0;
}

function showStatus() {
  const status = feed.status();
  if (!status) return;
  // A page in the background still has a title and a sound.
  if (document.hidden) {
    air.update(status);
    return;
  }
  air.update(status);
  setText(byId('role'), status.role);
  showTotals(status.total);
  showStreams(status);
  showOutputs(status.outputs);
  const slow = status.slow_seconds > 0 ? `, machine too slow in ${status.slow_seconds} s` : '';
  setText(byId('about'), `anabranch ${status.version}, up ${span(status.uptime_s)}${slow}`);
}

/** Shows whether the page is up to date. */
function showNews() {
  const silence = feed.silence();
  const [tone, text] = (() => {
    if (silence < PATIENCE) return ['good', 'up to date'];
    if (silence === Infinity) return ['warn', 'connecting'];
    return ['bad', `no news for ${span(silence)}; asking again`];
  })();
  const news = byId('news');
  document.body.classList.toggle('stale', tone !== 'good');
  if (news.textContent !== text) news.replaceChildren(shape(tone), text);
  news.dataset.tone = tone;
}

function chooseSpans() {
  const buttons = document.querySelectorAll('[data-span]');
  for (const button of buttons) {
    button.addEventListener('click', () => {
      for (const other of buttons) other.setAttribute('aria-pressed', String(other === button));
      chooseSpan(button.dataset.span);
      if (feed.status()) for (const view of views.values()) view.drawCharts(feed);
    });
  }
}

async function begin() {
  try {
    await loadWords();
  } catch {
    setTimeout(begin, RETRY_MS);
    return;
  }
  byId('events-title').append(term('events'));
  chooseSpans();
  prepareControl(() => feed?.status());
  air = new Air();
  feed = new Feed((kind) => (kind === 'events' ? showEvents(feed.events) : showStatus()));
  setInterval(showNews, 500);
  watchRecordings();
  document.addEventListener('visibilitychange', showStatus);
}

begin();
