// The scenarios that come with the page.

/// The scenario of a first visit, and the time from which it shows: three seconds before the
/// failure of a path.
export const FIRST = 'two-paths';
export const FIRST_FROM_MS = 7_000;

const FOLDERS = {
  '': 'Start here',
  multipath: 'Several paths',
  contest: 'Measured beside other protocols',
  weather: 'Bad weather',
  encoder: 'Encoders',
  rmcat: 'RFC 8867 and 8868',
  'rmcat-wireless': 'RFC 8869',
  reference: 'Reference',
};

/// Scenarios by name, with the files that they name.
export class Library {
  #names;
  #blobs;

  constructor({ names, blobs }) {
    this.#names = names;
    this.#blobs = blobs;
  }

  has(name) {
    return Object.hasOwn(this.#names, name);
  }

  text(name) {
    return this.#names[name].text;
  }

  /// The texts of the files that a scenario names, by the names that it uses.
  files(name) {
    const files = Object.entries(this.#names[name]?.files ?? {});
    return Object.fromEntries(files.map(([file, blob]) => [file, this.#blobs[blob]]));
  }

  /// Fills a list with all names, by folder.
  fill(select) {
    const folders = new Map();
    for (const name of Object.keys(this.#names)) {
      const folder = name.includes('/') ? name.slice(0, name.indexOf('/')) : '';
      folders.set(folder, [...(folders.get(folder) ?? []), name]);
    }
    const order = Object.keys(FOLDERS);
    const rank = ([folder]) => (order.includes(folder) ? order.indexOf(folder) : order.length);
    const groups = [...folders].sort((one, other) => rank(one) - rank(other));
    for (const [folder, names] of groups) {
      const group = document.createElement('optgroup');
      group.label = FOLDERS[folder] ?? `Paper: ${folder}`;
      group.append(...names.map((name) => this.#option(name, folder)));
      select.append(group);
    }
  }

  #option(name, folder) {
    const option = document.createElement('option');
    option.value = name;
    option.title = this.#names[name].title;
    option.textContent = folder === '' ? name : name.slice(folder.length + 1);
    return option;
  }
}
