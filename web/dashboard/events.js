// Events as sentences.

import { clock, element, megabits, setText, shape, short, span } from './format.js';

const path = (event) => `path ${event.path} ${event.name}`;
const STATE_TONES = { active: 'good', suspect: 'warn', out: 'bad', removed: 'plain' };

/** Tone and sentence of each kind of event. */
const KINDS = {
  'session-began': (event) => ['good', `session ${event.session} began`],
  'session-ended': (event) => ['plain', `session ${event.session} ended`],
  'path-state': (event) => [STATE_TONES[event.state] ?? 'plain', `${path(event)}: ${event.state}`],
  'path-absent': (event) => ['bad', `${path(event)} is absent: ${event.reason}`],
  'path-present': (event) => ['good', `${path(event)} is present again`],
  'path-carrier': (event) => ['plain', `${path(event)} goes by ${event.carrier}`],
  'path-problem': (event) => ['warn', `${path(event)} has a problem: ${event.problem}`],
  'cap-reached': (event) => ['warn', `${path(event)} has carried its volume`],
  'name-unresolved': (event) => ['warn', `${event.host} cannot be resolved: ${event.reason}`],
  'name-resolved': (event) => ['plain', `${event.host} is at ${event.addresses.join(', ')}`],
  'udp-blocked': (event) => ['warn', `UDP seems blocked; ${event.remote} answers by TCP`],
  reconnecting: (event) => [
    'warn', `the peer is silent since ${event.silent_for_s.toFixed(1)} s: connects again`,
  ],
  reconnected: (event) => [
    'good', `the peer answers again after ${event.silent_for_s.toFixed(1)} s`,
  ],
  'peer-left': () => ['warn', 'the peer has ended its program'],
  'all-links-down': () => ['bad', 'no path delivers packets'],
  'source-gone': () => ['bad', 'the paths work, but no frame arrives'],
  recovered: (event) => ['good', `works again after ${event.lasted_s.toFixed(1)} s`],
  picture: (event) => [
    { fine: 'good', impaired: 'warn' }[event.state] ?? 'bad', `picture ${event.text}`,
  ],
  'output-failed': (event) => ['bad', `output ${event.output} failed: ${event.reason}`],
  'output-resumed': (event) => [
    'good', `output ${event.output} is written again after ${span(event.failed_for_s)}`,
  ],
  control: (event) => [
    event.done ? 'plain' : 'warn',
    `${event.by}: ${event.done ? '' : `${event.change} refused: `}${event.text}`,
  ],
  'machine-slow': (event) => [
    'bad', `this machine is too slow: due work waited ${(1e3 * event.waited_s).toFixed(0)} ms`
      + ' in a second',
  ],
  overload: (event) => [
    'bad', `the encoder sends ${megabits(event.encoder_bps)} Mbit/s, the paths carry `
      + `${megabits(event.links_bps)}: ${event.frames_given_up} of ${event.frames} frames given up`,
  ],
  connection: (event) => ['plain', `${event.transport} connection to ${event.target}`],
  'connection-refused': (event) => [
    'warn', `${event.transport} connection to ${event.target} refused: ${event.reason}`,
  ],
  'connection-failed': (event) => [
    'warn', `${event.transport} connection to ${event.target} failed: ${event.reason}`,
  ],
};

/** Returns the tone and the sentence of an event. Those of later versions are named. */
export function sentence(event) {
  const [tone, text] = KINDS[event.event]?.(event) ?? ['plain', event.event];
  return [tone, short(text)];
}

function entry(event, showsStream) {
  const [tone, text] = sentence(event);
  const time = element('time', {
    class: 'number muted', datetime: new Date(event.unix_time_s * 1e3).toISOString(),
  }, clock(event.unix_time_s));
  const entry = element('li', { 'data-tone': tone }, time, shape(tone));
  const of = showsStream ? [element('span', { class: 'of' }, short(event.stream))] : [];
  entry.append(element('span', { class: 'text' }, ...of, text));
  return entry;
}

const list = document.getElementById('events');
const spoken = document.getElementById('spoken');
let shownNumber = 0;
let shownFirst = null;
let namesStreams = false;

/** Shows events, the newest first, and has the newest important one spoken. */
export function showEvents(events) {
  document.getElementById('no-events').hidden = events.length > 0;
  const first = events[0]?.unix_time_s ?? null;
  const isOther = events.length === 0 || (events.at(-1).number < shownNumber);
  const isFirst = isOther || shownFirst === null;
  const showsStream = new Set(events.map((event) => event.stream)).size > 1;
  const spokenNumber = shownNumber;
  if (isFirst || showsStream !== namesStreams) {
    list.replaceChildren();
    shownNumber = 0;
  }
  shownFirst = first;
  namesStreams = showsStream;
  for (const event of events.filter((event) => event.number > shownNumber)) {
    list.prepend(entry(event, showsStream));
    const [tone, text] = sentence(event);
    if (!isFirst && tone !== 'plain' && event.number > spokenNumber) setText(spoken, text);
    shownNumber = event.number;
  }
  while (list.children.length > events.length) list.lastElementChild.remove();
}
