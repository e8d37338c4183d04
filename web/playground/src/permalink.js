// The address of the page holds the scenario, the seed and all choices, so that it opens the same
// run elsewhere.
//
//   #scenario=multipath/outage&seed=2&controller=bbr3&scheduler=wrr
//   &versus=1&versus-controller=gcc&versus-scheduler=min-cost
//   &changes=4300.lte.rate.500000;9000.wifi.up.false
//   &text=… (the scenario's text, if it has been edited: deflated, base64url)
//   &version=0.1.0&hash=d62165821ffbe1a4-5e0c… (of the run that the address was made of)

const PROPERTIES = { rate: Number, delay: Number, loss: Number, up: (text) => text === 'true' };
const MAX_SEED = Number.MAX_SAFE_INTEGER;
// Bounds of an address, which a stranger may have made: its length, its changes, and the bytes of
// its text, of which a scenario has 256 KiB at most.
const MAX_LENGTH = 512 << 10;
const MAX_CHANGES = 1000;
const MAX_TEXT_BYTES = 256 << 10;
const VERSION = /^[0-9A-Za-z.+-]{1,40}$/;
const HASH = /^[0-9a-f]{16}$/;

/// Returns the state that an address holds; what it lacks or garbles has its default.
export async function read(hash) {
  const isTooLong = hash.length > MAX_LENGTH;
  const values = new URLSearchParams(isTooLong ? '' : hash.replace(/^#/, ''));
  const algorithm = (prefix) => ({
    controller: values.get(`${prefix}controller`) || null,
    scheduler: values.get(`${prefix}scheduler`) || null,
  });
  const isVersus = [...values.keys()].some((key) => key.startsWith('versus'));
  const seed = Number(values.get('seed') ?? 1);
  return {
    scenario: values.get('scenario') || null,
    text: values.has('text') ? await inflate(values.get('text')) : null,
    seed: Number.isInteger(seed) && seed >= 0 && seed <= MAX_SEED ? seed : 1,
    sides: isVersus ? [algorithm(''), algorithm('versus-')] : [algorithm('')],
    changes: readChanges(values.get('changes') ?? ''),
    made: readMade(values.get('version') ?? '', (values.get('hash') ?? '').split('-')),
  };
}

/// Returns version and trace hashes of the run that an address was made of; null without them.
function readMade(version, hashes) {
  const areHashes = hashes.length <= 2 && hashes.every((hash) => HASH.test(hash));
  return areHashes && VERSION.test(version) ? { version, hashes } : null;
}

/// Returns a sentence if a run with these hashes is not the one that the address was made of.
export function difference(made, version, hashes) {
  if (made === null || made.hashes.join() === hashes.join()) return null;
  const own = made.version === version ? 'of other files' : `of version ${made.version}`;
  const now = made.version === version ? '' : `, this page is version ${version}`;
  return `This is another run than the link was made of: it had the trace hash `
    + `${made.hashes.join(' and ')}. It is ${own}${now}.`;
}

/// Returns the part of the address from `#` on.
export async function write({ scenario, text, seed, sides, changes, made = null }) {
  const values = new URLSearchParams();
  if (scenario) values.set('scenario', scenario);
  if (seed !== 1) values.set('seed', seed);
  sides.forEach((side, index) => {
    const prefix = index === 0 ? '' : 'versus-';
    if (index === 1) values.set('versus', 1);
    if (side.controller) values.set(`${prefix}controller`, side.controller);
    if (side.scheduler) values.set(`${prefix}scheduler`, side.scheduler);
  });
  if (changes.length > 0) values.set('changes', changes.map(writeChange).join(';'));
  if (text !== null) values.set('text', await deflate(text));
  if (made !== null) {
    values.set('version', made.version);
    values.set('hash', made.hashes.join('-'));
  }
  // Slashes, colons and semicolons need no escape behind the number sign.
  const plain = { '%2F': '/', '%3A': ':', '%3B': ';' };
  return `#${values.toString().replace(/%2F|%3A|%3B/g, (code) => plain[code])}`;
}

function writeChange({ at_ms, link, property, value }) {
  return [at_ms, encodeURIComponent(link).replace(/\./g, '%2E'), property, value].join('.');
}

function readChanges(text) {
  const changes = text.split(';', MAX_CHANGES).map((part) => {
    // Rates are whole, but delays and losses may have a point of their own.
    const [at, link, property, ...rest] = part.split('.');
    const convert = PROPERTIES[property];
    if (!convert || !link) return null;
    const value = convert(rest.join('.'));
    const at_ms = Number(at);
    const isValid = Number.isFinite(at_ms) && at_ms >= 0 && !Number.isNaN(value);
    return isValid ? { at_ms, link: decode(link), property, value } : null;
  });
  return changes.filter((change) => change !== null);
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function through(stream, bytes) {
  const blob = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(blob).arrayBuffer());
}

async function deflate(text) {
  const bytes = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(text));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  return btoa(binary).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

async function inflate(code) {
  try {
    const binary = atob(code.replace(/-/g, '+').replace(/_/g, '/'));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    return await bounded(new Blob([bytes]).stream());
  } catch {
    return null;
  }
}

/// Returns the text of a deflated stream; null if it is longer than any scenario.
async function bounded(deflated) {
  const reader = deflated.pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  const decoder = new TextDecoder();
  let [text, length] = ['', 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.length;
    if (length > MAX_TEXT_BYTES) {
      await reader.cancel();
      return null;
    }
    text += decoder.decode(value, { stream: true });
  }
}
