// A table whose rows have a name, a state and figures. In a narrow panel each row is a block of
// named figures.

import { element, setText, shape } from './format.js';
import { term } from './words.js';

/** Shows a state by shape and word. */
export function showState(target, tone, text) {
  if (target.dataset.tone === tone && target.textContent === text) return;
  target.dataset.tone = tone;
  target.replaceChildren(shape(tone), text);
}

export class Table {
  root;
  #body = element('tbody', { role: 'rowgroup' });
  #rows = new Map();
  #kind;

  /**
   * Makes an empty table. `kind` has a `caption`, the words `name` and `state`, `columns` of a word
   * and the text of an item, and functions of an item: `key`, `label`, `stateOf` (tone and text),
   * and `mark`, which makes an element before the label.
   */
  constructor(kind) {
    this.#kind = kind;
    const heads = [kind.name, kind.state, ...kind.columns.map(([word]) => word)].map(
      (word) => element('th', { role: 'columnheader', scope: 'col', 'data-column': word },
        term(word)),
    );
    const caption = element('caption', { class: 'visually-hidden' }, kind.caption);
    this.root = element('table', { class: 'paths', role: 'table' }, caption,
      element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads)), this.#body);
  }

  update(items) {
    this.root.hidden = items.length === 0;
    const known = new Set(items.map(this.#kind.key));
    for (const [key, row] of this.#rows) {
      if (!known.has(key)) {
        row.remove();
        this.#rows.delete(key);
      }
    }
    for (const item of items) this.#updateRow(item);
  }

  #updateRow(item) {
    const { columns, key, label, stateOf } = this.#kind;
    let row = this.#rows.get(key(item));
    if (!row) {
      row = this.#makeRow(item);
      this.#rows.set(key(item), row);
      this.#body.append(row);
    }
    const [tone, text] = stateOf(item);
    row.dataset.state = text;
    setText(row.querySelector('.path-name'), label(item));
    showState(row.querySelector('.state'), tone, text);
    columns.forEach(([, value], index) => {
      setText(row.cells[index + 2].querySelector('.value'), value(item));
    });
  }

  #makeRow(item) {
    const { columns, key, mark } = this.#kind;
    const name = element('th', { scope: 'row', role: 'rowheader' }, ...(mark ? [mark(item)] : []),
      element('span', { class: 'path-name' }));
    const state = element('td', { role: 'cell' }, element('span', { class: 'state' }));
    const cells = columns.map(([word]) => element('td', { role: 'cell', 'data-column': word },
      element('span', { class: 'inner-head' }, term(word)),
      element('span', { class: 'value number' })));
    return element('tr', { role: 'row', 'data-path': key(item) }, name, state, ...cells);
  }
}
