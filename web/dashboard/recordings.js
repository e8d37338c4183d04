// Files of the program's outputs, with links that download them.

import { element, setText, span } from './format.js';

const INTERVAL_MS = 10_000;
/** Number of recordings on the page. The others are in recordings.json. */
const MAX_SHOWN = 20;

const address = (name) => `recordings/${name.split('/').map(encodeURIComponent).join('/')}`;

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

const gapsText = (count) => (count === 1 ? '1 gap' : `${count} gaps`);

/** @param recording name, bytes, changed_at in seconds of 1970, is_growing, and gaps. */
function row(recording) {
  const age = Math.max(0, Date.now() / 1000 - recording.changed_at);
  const when = recording.is_growing ? 'being written' : `${span(age)} ago`;
  const gaps = recording.gaps === 0
    ? 'none'
    : element('a', { href: `${address(recording.name)}.gaps.csv` }, gapsText(recording.gaps));
  return element(
    'tr', {},
    element('th', { scope: 'row' }, element('a', { href: address(recording.name) }, recording.name)),
    element('td', {}, megabytes(recording.bytes)),
    element('td', {}, when),
    element('td', {}, gaps),
  );
}

function show(recordings) {
  const panel = document.getElementById('recordings');
  panel.hidden = recordings.length === 0;
  if (panel.hidden) return;
  document.getElementById('recording-rows').replaceChildren(
    ...recordings.slice(0, MAX_SHOWN).map(row),
  );
  const more = recordings.length - MAX_SHOWN;
  setText(document.getElementById('more-recordings'), more > 0 ? `and ${more} more` : '');
}

async function load() {
  try {
    const answer = await fetch('recordings.json?quiet');
    // Without a token there are no downloads.
    if (answer.status === 200) show(await answer.json());
  } catch {
    // The page says when it has no news.
  }
}

/** Shows the recordings from now on. */
export function watchRecordings() {
  load();
  setInterval(() => {
    if (!document.hidden) load();
  }, INTERVAL_MS);
}
