// Collects scenario files with the files that they name.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/// Paths of all files below a folder.
function below(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? below(path) : [path];
  });
}

/// The files that a scenario's text names, by the names that it uses, as paths.
function named(path, text) {
  const quoted = [...text.matchAll(/"([^"\n]+\.(?:toml|trace|csv))"/g)].map((match) => match[1]);
  const found = quoted.map((name) => [name, join(dirname(path), name)]);
  return found.filter(([, file]) => existsSync(file) && statSync(file).isFile());
}

/// A scenario with the texts of the files that it and its base name.
function experiment(path) {
  const text = readFileSync(path, 'utf8');
  const files = {};
  const add = (of) => {
    for (const [name, file] of named(path, of)) {
      if (!(name in files)) {
        files[name] = readFileSync(file, 'utf8');
        if (name.endsWith('.toml')) add(files[name]);
      }
    }
  };
  add(text);
  return { text, files };
}

/// All scenarios below a folder: `names` has text and files by name (the path without `.toml`), and
/// `blobs` the texts of files, each once.
export function collect(folder) {
  const blobs = [];
  const names = {};
  const paths = below(folder).filter((path) => path.endsWith('.toml')).sort();
  for (const path of paths) {
    const { text, files } = experiment(path);
    const place = (blob) => {
      if (!blobs.includes(blob)) blobs.push(blob);
      return blobs.indexOf(blob);
    };
    const places = Object.entries(files).map(([name, blob]) => [name, place(blob)]);
    names[relative(folder, path).replace(/\.toml$/, '')] = {
      title: text.match(/^title = "(.*)"$/m)?.[1] ?? '',
      text,
      files: Object.fromEntries(places),
    };
  }
  return { names, blobs };
}
