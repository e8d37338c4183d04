// Names of figures as buttons that explain them, in the words of `anabranch top`.

import { element, setText } from './format.js';

/** Smaller shares would be shown as 0.0 %. */
const LEAST_SHARE = 0.001;
const words = new Map();
let reasons = [];
const meaning = document.getElementById('meaning');
/** The name that the open explanation belongs to. */
let explained = null;
const spoken = document.getElementById('spoken');

/** Loads the words. Nothing is drawn before. */
export async function loadWords() {
  const answer = await fetch('words.json');
  const loaded = await answer.json();
  for (const word of loaded.words) words.set(word.key, word);
  reasons = loaded.reasons;
}

/** The name of a figure. */
export function head(key) {
  return words.get(key).head;
}

/** Makes the name of a figure, which explains itself on a tap. */
export function term(key, text = head(key)) {
  const button = element('button', { class: 'term', type: 'button', 'data-word': key }, text);
  button.addEventListener('click', () => explain(button, key));
  return button;
}

function explain(button, key) {
  const wasOpen = meaning.matches(':popover-open') && meaning.dataset.of === key;
  meaning.hidePopover();
  if (wasOpen) return;
  const word = words.get(key);
  meaning.replaceChildren(element('strong', {}, word.head), element('p', {}, `${word.meaning}.`));
  meaning.dataset.of = key;
  button.setAttribute('aria-describedby', 'meaning');
  meaning.showPopover();
  explained = button;
  place(button);
  setText(spoken, word.meaning);
}

/** Places the explanation below its button, within the window. */
function place(button) {
  const at = button.getBoundingClientRect();
  const own = meaning.getBoundingClientRect();
  const margin = 8;
  const left = Math.min(at.left, innerWidth - own.width - margin);
  const isBelow = at.bottom + own.height + 2 * margin < innerHeight;
  const top = isBelow ? at.bottom + 4 : at.top - own.height - 4;
  meaning.style.left = `${Math.max(margin, left)}px`;
  meaning.style.top = `${Math.max(margin, top)}px`;
}

/**
 * Keeps the explanation at its button, while that is in the window. A browser reports the scrolling
 * to a button in focus late: closing at every report would close what has just been opened.
 */
function follow() {
  if (!meaning.matches(':popover-open')) return;
  const at = explained.getBoundingClientRect();
  if (at.bottom < 0 || at.top > innerHeight) meaning.hidePopover();
  else place(explained);
}

meaning.addEventListener('toggle', (event) => {
  if (event.newState !== 'closed') return;
  for (const button of document.querySelectorAll('[aria-describedby="meaning"]')) {
    button.removeAttribute('aria-describedby');
  }
});
addEventListener('scroll', follow, { passive: true });

/** Sums shares of send reasons by their words, the greatest first. */
export function whySent(shares) {
  const groups = reasons.map(([text, names], index) => ({
    text, index, share: names.reduce((sum, name) => sum + (shares[name] ?? 0), 0),
  }));
  const shown = groups.filter((group) => group.share >= LEAST_SHARE);
  return shown.sort((a, b) => b.share - a.share);
}
