// The drawing of a run: its channels, queues and packets.

import { layout, pointAt } from './layout.js';
import { place, placeBack, tail } from './motion.js';
import { Network } from './record.js';
import { rate } from './format.js';

/// Most packets that are drawn at once; of more, a part.
const MAX_PACKETS = 1_600;

/// Room for a link's name beside its properties, in pixels.
const LEAST_NAME = 30;
/// What a sender thinks of a path, if it is not active.
const TRUST = { suspect: 'suspect', out: 'given up', removed: 'removed' };

/// Draws a record on a canvas.
export class Scene {
  #canvas;
  #context;
  #theme;

  constructor(canvas, theme) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
    this.#theme = theme;
  }

  /// Draws the state at a time; `speed` is simulated over real time.
  draw(record, changes, now, speed) {
    const { summary } = record;
    const context = this.#context;
    const { width, height } = this.#fit();
    const theme = this.#theme();
    const small = width < 520;
    const margin = small ? 40 : 78;
    const places = layout(summary, { width, height, left: margin, right: margin });
    const network = new Network(summary, changes);
    const of = { record, summary, places, network, now, speed, theme, small };
    context.clearRect(0, 0, width, height);
    this.#channels(of);
    this.#packets(of);
    this.#labels(of);
    this.#ends(of, small);
  }

  #fit() {
    const canvas = this.#canvas;
    const { clientWidth: width, clientHeight: height } = canvas;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== columns || canvas.height !== rows) {
      canvas.width = columns;
      canvas.height = rows;
    }
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { width, height };
  }

  #channels({ summary, places, network, now, theme }) {
    const context = this.#context;
    context.lineCap = 'round';
    context.lineJoin = 'round';
    for (const [route, channel] of places.channels) {
      const { forward } = summary.routes[route];
      this.#stroke(channel, 0, channel.length, 5, theme.channel);
      forward.forEach((link, hop) => {
        const state = network.at(link, now);
        const { from, to, gate } = channel.links[hop];
        const wide = width(state);
        // The queue is wide; behind its gate the channel is as wide as the link is fast.
        if (gate > from) this.#stroke(channel, from, gate, Math.max(wide, 22), theme.queue);
        this.#stroke(channel, gate, to, wide, state.up ? theme.channel : theme.down);
        if (!state.up) this.#cut(channel, (gate + to) / 2, theme);
      });
    }
  }

  #stroke(channel, from, to, width, colour) {
    const context = this.#context;
    context.beginPath();
    const start = pointAt(channel, from);
    context.moveTo(start.x, start.y);
    channel.lengths.forEach((length, index) => {
      if (length > from && length < to) {
        context.lineTo(channel.points[index].x, channel.points[index].y);
      }
    });
    const end = pointAt(channel, to);
    context.lineTo(end.x, end.y);
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }

  #cut(channel, distance, theme) {
    const context = this.#context;
    const { x, y } = pointAt(channel, distance);
    context.strokeStyle = theme.lost;
    context.lineWidth = 3;
    context.beginPath();
    context.moveTo(x - 7, y - 7);
    context.lineTo(x + 7, y + 7);
    context.moveTo(x + 7, y - 7);
    context.lineTo(x - 7, y + 7);
    context.stroke();
  }

  #packets({ record, summary, places, network, now, speed, theme }) {
    const routes = new Map();
    for (const [route, channel] of places.channels) {
      const { forward, reverse } = summary.routes[route];
      const narrow = narrowest(record.sampleAt(now), forward, network, now);
      routes.set(route, { channel, forward, reverse, narrow });
    }
    const kept = tail(speed);
    const visible = record.packets.filter(
      (packet) => packet.from <= now && packet.to + kept >= now,
    );
    const every = Math.ceil(visible.length / MAX_PACKETS);
    for (let index = 0; index < visible.length; index += every) {
      const packet = visible[index];
      const of = routes.get(summary.flows[packet.flow].paths[packet.path]);
      if (!of) continue;
      // A packet keeps the delays with which it was sent.
      packet.delays ??= delaysOf(packet.isBack ? of.reverse : of.forward, network, packet.from);
      if (packet.isBack) this.#report(packet, of, now, speed, theme);
      else this.#packet(packet, of, now, speed, theme);
    }
  }

  #report(packet, { channel }, now, speed, theme) {
    if (packet.end >= 0) return;
    const distance = placeBack(packet, now, channel, packet.delays, speed);
    if (distance === null) return;
    const { x, y } = pointAt(channel, distance);
    this.#context.fillStyle = theme.report;
    this.#context.fillRect(x - 1, y + 14, 2.5, 2.5);
  }

  #packet(packet, { channel, forward, narrow }, now, speed, theme) {
    const context = this.#context;
    if (packet.end >= 0) packet.hop = forward.indexOf(packet.end);
    const found = place(packet, now, channel, packet.delays, narrow, speed);
    if (!found) return;
    const { x, y } = pointAt(channel, found.distance);
    const isLost = packet.end >= 0;
    const size = 3 + Math.min(packet.bytes, 1_500) / 600;
    context.globalAlpha = isLost ? 1 - found.fallen : 1;
    context.fillStyle = isLost ? theme.lost : theme.kinds(packet.kind, packet.flow, packet.path);
    // Packets of one instant spread a little, so that none hides the other.
    const spread = packet.spread * 4 + (isLost ? found.fallen ** 2 * 60 : 0);
    context.beginPath();
    context.roundRect(x - size / 2 - 1, y + spread - size / 2, size + 2, size, size / 2);
    context.fill();
    context.globalAlpha = 1;
  }

  #labels(of) {
    const { record, summary, places, network, now, theme, small } = of;
    const context = this.#context;
    const sample = record.sampleAt(now);
    context.textBaseline = 'alphabetic';
    for (const [link, { x0, x1, y }] of places.links) {
      const state = network.at(link, now);
      const waits = sample?.links[link]?.transit_ms;
      const queue = waits == null ? null : Math.max(0, waits - state.delay);
      const up = Math.min(places.gap / 2 - 6, 34);
      context.textAlign = 'left';
      context.font = `600 ${small ? 12 : 13}px ${theme.font}`;
      context.fillStyle = theme.ink;
      context.fillText(summary.links[link].name, x0 - 6, y - up + 6);
      this.#trust(of, link, x0 + context.measureText(summary.links[link].name).width, y - up + 6);
      context.font = `${small ? 11 : 12}px ${theme.font}`;
      context.fillStyle = state.up ? theme.quiet : theme.lost;
      const cut = small ? 'cut' : 'cut: nothing passes';
      const what = state.up ? properties(state, small) : cut;
      context.textAlign = 'right';
      const isWide = x1 - x0 > context.measureText(what).width + LEAST_NAME;
      if (isWide || !state.up) context.fillText(what, x1 + 6, y - up + 6);
      if (queue !== null && queue >= 15 && state.up && x1 - x0 > 120) {
        context.textAlign = 'left';
        context.fillStyle = theme.late;
        context.fillText(`${Math.round(queue)} ms queue`, x0 - 6, y + 27);
      }
    }
  }

  /// The sender's trust in a path, if it has little.
  #trust({ record, summary, now, theme, small }, link, x, y) {
    const sample = record.sampleAt(now);
    const states = summary.flows.flatMap((flow, index) =>
      flow.paths.map((route, path) => ({
        isHere: summary.routes[route].forward.includes(link),
        state: sample?.flows[index].paths[path].state,
      })),
    );
    const doubt = states.find(({ isHere, state }) => isHere && TRUST[state])?.state;
    if (!doubt) return;
    const context = this.#context;
    context.font = `${small ? 11 : 12}px ${theme.font}`;
    context.fillStyle = doubt === 'out' ? theme.lost : theme.late;
    context.fillText(TRUST[doubt], x + 4, y);
  }

  #ends({ places, theme, summary }, small) {
    const context = this.#context;
    const { from, to } = places.ends;
    const radius = small ? 15 : 24;
    for (const { x, y } of [from, to]) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fillStyle = theme.node;
      context.fill();
      context.lineWidth = 1.5;
      context.strokeStyle = theme.edge;
      context.stroke();
    }
    const kind = summary.flows.length === 1 ? summary.flows[0].kind : 'media';
    camera(context, from, radius, theme.ink);
    screen(context, to, radius, theme.ink);
    context.textAlign = 'center';
    context.fillStyle = theme.quiet;
    context.font = `${small ? 11 : 12}px ${theme.font}`;
    const [sender, receiver] = ['media', 'adaptive', 'download'].includes(kind)
      ? ['sender', 'viewer']
      : ['sender', 'receiver'];
    context.lineWidth = 4;
    context.strokeStyle = theme.card;
    for (const [text, { x, y }] of [[sender, from], [receiver, to]]) {
      context.strokeText(text, x, y + radius + 15);
      context.fillText(text, x, y + radius + 15);
    }
  }
}

/// The propagation delays of links at a time, at least 1 ms each.
function delaysOf(links, network, at) {
  return links.map((link) => Math.max(network.links[link] ? network.at(link, at).delay : 1, 1));
}

/// The link of a route at which packets wait longest.
function narrowest(sample, forward, network, now) {
  if (!sample || forward.length === 1) return 0;
  const delays = delaysOf(forward, network, now);
  const waits = forward.map(
    (link, hop) => (sample.links[link]?.transit_ms ?? Infinity) - delays[hop],
  );
  return waits.indexOf(Math.max(...waits));
}

/// Width of a link's channel: 1 Mbit/s is 7 pixels wide, 10 Mbit/s 14.
function width({ rate: bits }) {
  if (bits === null) return 14;
  return Math.max(3, Math.min(20, 7 + 7 * Math.log10(Math.max(bits, 1) / 1e6)));
}

function properties({ rate: bits, delay, loss, hasTrace }, small) {
  const speed = hasTrace ? 'trace' : bits === null ? 'no limit' : rate(bits);
  const losses = loss > 0 && !small ? ` · ${Math.round(loss * 1000) / 10} % loss` : '';
  return `${speed} · ${Math.round(delay)} ms${losses}`;
}

function camera(context, { x, y }, radius, colour) {
  const unit = radius / 12;
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(x - 6 * unit, y - 3.5 * unit, 8 * unit, 7 * unit, 1.5 * unit);
  context.fill();
  context.beginPath();
  context.moveTo(x + 2.6 * unit, y - 0.6 * unit);
  context.lineTo(x + 6 * unit, y - 3 * unit);
  context.lineTo(x + 6 * unit, y + 3 * unit);
  context.lineTo(x + 2.6 * unit, y + 0.6 * unit);
  context.fill();
}

function screen(context, { x, y }, radius, colour) {
  const unit = radius / 12;
  context.strokeStyle = colour;
  context.lineWidth = 1.4 * unit;
  context.beginPath();
  context.roundRect(x - 6 * unit, y - 4.5 * unit, 12 * unit, 8 * unit, unit);
  context.stroke();
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x - 1.6 * unit, y - 2.6 * unit);
  context.lineTo(x + 2.4 * unit, y - 0.5 * unit);
  context.lineTo(x - 1.6 * unit, y + 1.6 * unit);
  context.fill();
  context.fillRect(x - 3 * unit, y + 4.6 * unit, 6 * unit, 1.3 * unit);
}
