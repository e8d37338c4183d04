// Changes of the program, for those who enter its control token. The token stays in this page's
// memory: a reload asks for it again, and no other page can use it.

import { element, setText, span } from './format.js';
import { prepareJoining } from './join.js';

/** Interval between two requests for the state. */
const INTERVAL_MS = 2_000;

const byId = (id) => document.getElementById(id);
let token = null;
let statusOf = () => null;
let timer = null;
let showLinks = () => {};

/** Asks the program. Throws an error with its words. */
async function ask(path, change) {
  const headers = { Authorization: `Bearer ${token}` };
  if (change) headers['Content-Type'] = 'application/json';
  const answer = await fetch(path, {
    method: change ? 'POST' : 'GET', headers, body: change && JSON.stringify(change),
    cache: 'no-store', credentials: 'same-origin',
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

function say(text, tone) {
  const said = byId('control-said');
  said.dataset.tone = tone;
  setText(said, text);
}

/** Makes a change, and shows the outcome and the new state. */
async function change(path, content) {
  try {
    say('…', 'plain');
    say((await ask(`control/${path}`, content)).done, 'good');
  } catch (error) {
    say(error.message, 'bad');
  }
  await refresh();
}

/** Asks for consent before a change that interrupts somebody. */
function confirm(question, act) {
  const dialog = byId('control-confirm');
  setText(dialog.querySelector('p'), question);
  dialog.onclose = () => { if (dialog.returnValue === 'yes') act(); };
  dialog.returnValue = '';
  dialog.showModal();
}

function button(text, name, act) {
  const made = element('button', { class: 'button', type: 'button', 'aria-label': name }, text);
  made.addEventListener('click', act);
  return made;
}

function toggle(text, name, act) {
  const made = button(text, name, () => act(made.getAttribute('aria-pressed') !== 'true'));
  return made;
}

/** Makes a text field whose value a button, or Enter, sends. */
function field(label, example, act) {
  const input = element('input', { type: 'text', placeholder: example, autocomplete: 'off' });
  const set = button('set', `set ${label}`, () => act(input.value.trim()));
  input.addEventListener('keydown', (event) => { if (event.key === 'Enter') set.click(); });
  const made = element('span', { class: 'field' }, element('label', {}, label, input), set);
  made.input = input;
  return made;
}

/** Shows the value that the program has, unless the user is writing another. */
function setField(made, value) {
  if (document.activeElement !== made.input && !made.isWritten) made.input.value = value;
  made.input.oninput = () => { made.isWritten = made.input.value !== value; };
}

/** Keeps one child for each item, so that focus and written text stay. */
function sync(parent, items, keyOf, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    known.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
      parent.append(child);
    }
    update(child, item);
  }
  for (const child of known.values()) child.remove();
}

const press = (made, is) => made.setAttribute('aria-pressed', String(is));
const rate = (bps) => (bps % 1e6 === 0 ? `${bps / 1e6} Mbit/s` : `${bps / 1e3} kbit/s`);

function makePath(path) {
  const { name } = path;
  const on = toggle('on', `path ${name} is on`, (is) => change('path', { path: name, on: is }));
  const metered = toggle('metered', `path ${name} is metered`,
    (is) => change('path', { path: name, metered: is }));
  const cap = field(`cap of ${name}`, '10GB or none', (value) => {
    cap.isWritten = false;
    change('path', { path: name, cap: value || 'none' });
  });
  const max = field(`most of ${name}`, '3Mbit/s or none', (value) => {
    max.isWritten = false;
    change('path', { path: name, max: value || 'none' });
  });
  const row = element('li', {}, element('strong', {}, `path ${path.path} ${name}`), on, metered,
    cap, max);
  row.show = (its) => {
    press(on, its.on);
    press(metered, its.metered);
    setField(cap, its.cap_bytes === null ? '' : `${its.cap_bytes / 1e9} GB`);
    setField(max, its.max_bps === null ? '' : rate(its.max_bps));
  };
  return row;
}

function makeTarget() {
  const send = (name) => (value) => {
    fields[name].isWritten = false;
    change('target', { [name]: value });
  };
  const fields = {
    min: field('least target', '500kbit/s', send('min')),
    max: field('greatest target', '3Mbit/s', send('max')),
  };
  const row = element('li', {}, element('strong', {}, 'target'), fields.min, fields.max);
  row.show = (target) => {
    setField(fields.min, rate(target.min_bps));
    setField(fields.max, rate(target.max_bps));
  };
  return row;
}

/** Buttons for the paths of a sender that takes requests. */
function showRemotePaths(list, stream) {
  const its = statusOf()?.streams.find((other) => other.name === stream.stream);
  const paths = stream.remote_control ? its?.paths ?? [] : [];
  sync(list, paths, (path) => path.path, (path) => {
    const switched = (on) => () => change('path',
      { stream: stream.stream, path: String(path.path), on });
    const of = `path ${path.name} of ${stream.stream}`;
    return element('li', {}, `path ${path.path} ${path.name}`,
      button('off', `${of} off`, switched(false)), button('on', `${of} on`, switched(true)));
  }, () => {});
  list.hidden = paths.length === 0;
}

function makeStream({ stream }, has) {
  const latency = field(`latency of ${stream}`, '800 ms', (value) => {
    latency.isWritten = false;
    change('latency', { stream, latency: value });
  });
  const record = button('record', `record ${stream}`, () => change(
    record.getAttribute('aria-pressed') === 'true' ? 'recording/stop' : 'recording/start',
    { stream },
  ));
  const end = button('end session', `end session of ${stream}`, () => confirm(
    `End the session of ${stream}? Its sender is kept out for a minute.`,
    () => change('session/end', { stream }),
  ));
  const add = field(`another output of ${stream}`, 'udp://127.0.0.1:6000', (output) => {
    add.isWritten = false;
    add.input.value = '';
    change('output/add', { stream, output });
  });
  const outputs = element('ul', { 'aria-label': `outputs of ${stream}` });
  const paths = element('ul', { 'aria-label': `paths of ${stream}` });
  const state = element('span', { class: 'muted' });
  const parts = [
    has('latency') && latency, has('recording-start') && record, has('session-end') && end,
    has('output-add') && add,
  ];
  const row = element('li', {}, element('strong', {}, stream), state,
    ...parts.filter(Boolean), outputs, paths);
  row.show = (its) => {
    setText(state, its.connected ? 'connected' : 'no session');
    latency.hidden = its.latency_s === null;
    setField(latency, its.latency_s === null ? '' : `${Math.round(its.latency_s * 1e3)} ms`);
    press(record, its.outputs.some((output) => output.recording));
    end.disabled = !its.connected;
    sync(outputs, its.outputs, (output) => output.output, ({ output }) => element('li', {},
      element('span', { class: 'place' }, output),
      button('remove', `remove ${output} of ${stream}`,
        () => change('output/remove', { stream, output }))), () => {});
    outputs.hidden = its.outputs.length === 0;
    showRemotePaths(paths, its);
  };
  return row;
}

function makeKeptOut({ stream }) {
  const time = element('span', { class: 'muted' });
  const row = element('li', {}, element('strong', {}, stream), time,
    button('let in', `let in ${stream}`, () => change('session/allow', { stream })));
  row.show = (its) => setText(time, `kept out for ${span(its.for_s)}`);
  return row;
}

function show(state) {
  const has = (name) => state.changes.includes(name);
  const update = (row, item) => row.show(item);
  sync(byId('control-paths'), state.paths, (path) => path.path, makePath, update);
  sync(byId('control-target'), state.target ? [state.target] : [], () => '', makeTarget, update);
  sync(byId('control-streams'), state.streams, (its) => its.stream,
    (its) => makeStream(its, has), update);
  sync(byId('control-kept-out'), state.kept_out, (its) => its.stream, makeKeptOut, update);
  for (const list of ['paths', 'target', 'streams', 'kept-out'].map((name) => byId(`control-${name}`))) {
    list.hidden = list.children.length === 0;
  }
  byId('control-reload').hidden = !has('reload');
  byId('control-join').hidden = !has('link');
}

async function refresh() {
  clearTimeout(timer);
  if (token === null) return;
  try {
    if (!document.hidden) {
      show(await ask('control'));
      await showLinks();
    }
  } catch (error) {
    say(error.message, 'bad');
  }
  timer = setTimeout(refresh, INTERVAL_MS);
}

async function enter(event) {
  event.preventDefault();
  const input = byId('control-token');
  token = input.value.trim();
  const said = byId('control-denied');
  setText(said, '');
  try {
    show(await ask('control'));
  } catch (error) {
    token = null;
    setText(said, error.message);
    input.focus();
    return;
  }
  input.value = '';
  byId('control-entry').hidden = true;
  byId('control').hidden = false;
  byId('control-title').focus();
  timer = setTimeout(refresh, INTERVAL_MS);
}

function leave() {
  token = null;
  clearTimeout(timer);
  say('', 'plain');
  byId('control-join').open = false;
  byId('control').hidden = true;
  byId('control-entry').hidden = false;
}

/** Prepares the entry of the token. `status` returns the newest status of the page. */
export function prepareControl(status) {
  statusOf = status;
  byId('control-form').addEventListener('submit', enter);
  byId('control-leave').addEventListener('click', leave);
  showLinks = prepareJoining(() => ask('control/links'), change);
  byId('control-reload').addEventListener('click', () => change('reload', {}));
}
