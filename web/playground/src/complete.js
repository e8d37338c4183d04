// Completion of scenarios by their JSON schema.

/// Returns a source of completions for CodeMirror.
export function completions(schema) {
  const resolve = (node) => {
    const { $ref: reference, allOf, anyOf, ...own } = node ?? {};
    const others = [...(allOf ?? []), ...(anyOf ?? [])];
    const parts = others.map(resolve);
    if (reference) {
      const name = reference.replace('#/definitions/', '');
      parts.push(resolve(schema.definitions[name]));
    }
    return parts.reduce(merged, own);
  };
  const below = (node, key) => {
    const { properties, additionalProperties, items } = resolve(node);
    if (/^\d+$/.test(key) && items) return items;
    if (properties?.[key]) return properties[key];
    return typeof additionalProperties === 'object' ? additionalProperties : null;
  };
  const at = (path) => path.reduce((node, key) => node && below(node, key), schema);

  return (context) => {
    const text = context.state.doc.sliceString(0, context.pos);
    const found = place(text);
    if (!found) return null;
    const { path, key, typed } = found;
    if (typed === '' && !context.explicit && key === null && !found.isFresh) return null;
    const node = at(path);
    if (!node) return null;
    const options =
      key === null
        ? keys(resolve(node), resolve)
        : values(resolve(below(node, key)), key, path, context.state.doc.toString());
    if (options.length === 0) return null;
    return { from: context.pos - typed.length, options, validFor: /^["\w.:-]*$/ };
  };
}

function merged(one, other) {
  const all = { ...other, ...one };
  if (one.properties || other.properties) {
    all.properties = { ...other.properties, ...one.properties };
  }
  if (one.enum && other.enum) all.enum = [...new Set([...one.enum, ...other.enum])];
  all.description = one.description ?? other.description;
  return all;
}

function keys({ properties }, resolve) {
  return Object.entries(properties ?? {}).map(([name, node]) => ({
    label: name,
    type: 'property',
    detail: resolve(node).description,
    apply: `${name} = `,
  }));
}

/// Keys whose values are names that the scenario itself gives.
const REFERENCES = { forward: 'links', reverse: 'links', paths: 'routes' };

function values({ enum: names, type, description }, key, path, document) {
  const table = REFERENCES[key];
  if (table) {
    const heads = [...document.matchAll(new RegExp(`^\\[${table}\\.([\\w-]+)\\]`, 'gm'))];
    const plain = [...document.matchAll(new RegExp(`^${table}\\.([\\w-]+)`, 'gm'))];
    const all = [...new Set([...heads, ...plain].map((match) => match[1]))];
    return all.map((name) => ({ label: `"${name}"`, type: 'variable' }));
  }
  const texts = (names ?? []).filter((name) => typeof name === 'string' && name !== '0');
  const options = texts.map((name) => ({ label: `"${name}"`, type: 'enum' }));
  if (type === 'boolean') {
    options.push({ label: 'true', type: 'keyword' }, { label: 'false', type: 'keyword' });
  }
  const example = description?.match(/as in (".*?")/)?.[1];
  if (example) options.push({ label: example, type: 'text', detail: description });
  return options;
}

/// Returns the place at the end of a text: the path of the table, the key whose value is being
/// written (null: a key is), and the characters of the present word.
export function place(text) {
  const lines = text.split('\n');
  const line = lines.at(-1);
  if (/^\s*(#|\[)/.test(line)) return null;
  const head = lines.findLast((other) => /^\s*\[/.test(other) && /\]\s*(#.*)?$/.test(other));
  const path = tablePath(head);
  const stack = opened(line);
  const isTable = (entry) => entry.bracket === '{';
  for (const entry of stack.filter(isTable)) {
    if (entry.key) path.push(...entry.key.split('.'));
    else path.push('0');
  }
  const inside = line.slice(stack.filter(isTable).at(-1)?.at ?? 0);
  const part = stack.at(-1)?.bracket === '[' ? inside : inside.slice(lastComma(inside) + 1);
  const assigned = part.match(/^\s*([\w.-]+)\s*=\s*(.*)$/s);
  if (assigned) {
    const [, key, value] = assigned;
    const [first, ...rest] = key.split('.').reverse();
    path.push(...rest.reverse());
    return { path, key: first, typed: value.match(/"?[\w.:-]*$/)[0], isFresh: true };
  }
  const typed = part.match(/[\w-]*$/)[0];
  const dotted = part.trim().split('.').slice(0, -1);
  path.push(...dotted);
  return { path, key: null, typed, isFresh: part.trim() === '' && line.trim() !== '' };
}

function tablePath(head) {
  const match = head?.match(/^\s*(\[\[?)\s*([^\]]+?)\s*\]/);
  if (!match) return [];
  const path = match[2].split('.').map((key) => key.replace(/^["']|["']$/g, ''));
  return match[1] === '[[' ? [...path, '0'] : path;
}

/// Brackets of a line that are not closed, with the keys before them.
function opened(line) {
  const stack = [];
  let inText = false;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at];
    if (char === '"') inText = !inText;
    if (inText) continue;
    if (char === '{' || char === '[') {
      const key = line.slice(0, at).match(/([\w.-]+)\s*=\s*\[?\s*$/)?.[1] ?? null;
      stack.push({ bracket: char, key: char === '{' ? key : null, at: at + 1 });
    }
    if (char === '}' || char === ']') stack.pop();
  }
  return stack;
}

function lastComma(text) {
  const without = text.replace(/"[^"]*"/g, (quoted) => '"'.repeat(quoted.length));
  return without.lastIndexOf(',');
}
