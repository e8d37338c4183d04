// Receivers of the program's SRT outputs.

import { UNKNOWN, count, megabits, milliseconds } from './format.js';
import { Table } from './table.js';
import { term } from './words.js';

const TONES = { active: 'good', suspect: 'warn', ending: 'spare' };

/** An output without a connection is shown, too. */
const receivers = (outputs) => outputs.flatMap((output) => (output.connections.length === 0
  ? [{ output }] : output.connections.map((connection) => ({ output, connection }))));

function label({ output, connection }) {
  const parts = [output.stream];
  if (output.mode === 'caller' || !connection) parts.push(output.name);
  else parts.push(`${connection.peer} at ${output.name}`);
  if (connection?.stream_id) parts.push(connection.stream_id);
  return parts.join(' · ');
}

const ifConnected = (text) => ({ connection }) => (connection ? text(connection) : UNKNOWN);

const KIND = {
  caption: 'Receivers by SRT',
  name: 'receiver',
  state: 'receiver-state',
  columns: [
    ['receiver-rate', ifConnected((its) => megabits(its.sent_rate_bps.avg))],
    ['receiver-rtt', ifConnected((its) => milliseconds(its.rtt_s?.avg))],
    ['receiver-loss', ifConnected((its) => (its.loss_ratio * 100).toFixed(1))],
    ['missing', ifConnected((its) => count(its.counters.lost_packets))],
    ['again', ifConnected((its) => count(its.counters.retransmitted_packets))],
    ['dropped', ifConnected((its) => count(its.counters.dropped_packets))],
    ['receiver-latency', ifConnected((its) => milliseconds(its.latency_s))],
  ],
  key: ({ output, connection }) => `${output.output}-${connection?.connection ?? 'none'}`,
  label,
  stateOf: ({ output, connection }) => {
    if (connection) return [TONES[connection.state] ?? 'plain', connection.state];
    return ['plain', output.mode === 'caller' ? 'calling' : 'nobody'];
  },
};

let table;

/** Shows the outputs of a status. Programs without any have none. */
export function showOutputs(outputs = []) {
  const panel = document.getElementById('outputs');
  panel.hidden = outputs.length === 0;
  if (panel.hidden) return;
  if (!table) {
    table = new Table(KIND);
    document.getElementById('outputs-title').append(term('receivers'));
    panel.append(table.root);
  }
  table.update(receivers(outputs));
}
