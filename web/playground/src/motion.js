// The place of a packet at a time.
//
// A flight of 20 ms is one picture of a screen. So flights are drawn `stretch` times as long as
// they are; their proportions stay. Waiting in queues is drawn as long as it is.

/// Waiting time that fills about two thirds of a queue in the drawing, in ms.
const QUEUE_SCALE_MS = 150;
/// Time that a packet takes into the queue, and a lost one to vanish, in ms of the drawing.
const FALL_MS = 550;

/// Returns how long flights and falls are drawn beyond a packet's end, in simulated ms.
export function tail(stretch, delays) {
  return Math.max(FALL_MS * stretch * 0.1, delays * stretch);
}

/// Returns a packet's distance from the start of its channel and how much it has fallen (0 to 1);
/// null while it is not there. `delays` are its links' propagation delays, and `narrow` the link
/// at which it waits.
export function place(packet, now, channel, delays, narrow, stretch) {
  if (now < packet.from) return null;
  const flight = delays.reduce((sum, delay) => sum + delay, 0);
  if (packet.end !== null && packet.end >= 0) {
    return fall(packet, now, channel, stretch);
  }
  const before = delays.slice(0, narrow).reduce((sum, delay) => sum + delay, 0);
  const waits = Math.max(0, packet.to - packet.from - flight);
  const since = now - packet.from;
  const gate = gateOf(channel, narrow);
  if (since < before * stretch) {
    return { distance: (gate * since) / (before * stretch), fallen: 0 };
  }
  const waited = since - before * stretch;
  if (waited < waits) {
    const { from } = channel.links[narrow];
    const room = (gate - from) * 0.96;
    const distance = gate - room * (1 - Math.exp((waited - waits) / QUEUE_SCALE_MS));
    return { distance, fallen: 0 };
  }
  const behind = Math.max((flight - before) * stretch, 1);
  const part = (waited - waits) / behind;
  return part < 1 ? { distance: gate + (channel.length - gate) * part, fallen: 0 } : null;
}

/// Returns the distance of a link's gate, at which its queue ends.
export function gateOf(channel, link) {
  return channel.links[link].gate;
}

/// A lost packet: it falls out of the channel, in front of the queue if it never entered.
function fall(packet, now, channel, stretch) {
  const hop = Math.max(0, packet.hop ?? 0);
  const { from, to } = channel.links[Math.min(hop, channel.links.length - 1)];
  const isRefused = packet.to - packet.from < 1;
  const distance = isRefused ? from + (to - from) * 0.04 : from + (to - from) * 0.62;
  const fallen = (now - packet.to) / (FALL_MS * stretch * 0.1);
  return fallen >= 0 && fallen < 1 ? { distance, fallen } : null;
}

/// Returns the place of a report on its way back, from the receiver to the sender.
export function placeBack(packet, now, channel, delay, stretch) {
  const waits = Math.max(0, packet.to - packet.from - delay);
  const since = now - packet.from - waits;
  const part = since / Math.max(delay * stretch, 1);
  return part >= 0 && part < 1 ? channel.length * (1 - part) : null;
}
