// The place of a packet at a time.
//
// A flight of 20 ms is one picture of a screen. So flights are drawn up to ten times as long as
// they are. Waiting in queues is drawn as long as it is.

/// Waiting time that fills about two thirds of a queue in the drawing, in ms.
const QUEUE_SCALE_MS = 150;
/// Flights are drawn this many times as long as they are, but not longer than some time.
const STRETCH = 10;
const LONGEST_MS = 1_500;
/// Time within which a lost packet vanishes, in real ms.
const FALL_MS = 550;

/// Time after its end for which a packet may be in the drawing, in simulated ms. `speed` is
/// simulated over real time.
export function tail(speed) {
  return Math.max(LONGEST_MS, FALL_MS) * speed;
}

/// Factor by which a flight is drawn longer than it is.
function stretchOf(flight, speed) {
  return Math.max(1, Math.min(STRETCH, LONGEST_MS / flight) * speed);
}

/// Returns a packet's distance from the start of its channel and how much it has fallen (0 to 1);
/// null while it is not there. `delays` are the propagation delays of its links, and `narrow` the
/// link at which it waits.
export function place(packet, now, channel, delays, narrow, speed) {
  if (now < packet.from) return null;
  if (packet.end !== null && packet.end >= 0) return fall(packet, now, channel, speed);
  const flight = delays.reduce((sum, delay) => sum + delay, 0);
  const stretch = stretchOf(flight, speed);
  const before = delays.slice(0, narrow).reduce((sum, delay) => sum + delay, 0) * stretch;
  const waits = Math.max(0, packet.to - packet.from - flight);
  const since = now - packet.from;
  const { from, gate } = channel.links[narrow];
  if (since < before) return { distance: (gate * since) / before, fallen: 0 };
  const waited = since - before;
  if (waited < waits) {
    const room = (gate - from) * 0.96;
    const distance = gate - room * (1 - Math.exp((waited - waits) / QUEUE_SCALE_MS));
    return { distance, fallen: 0 };
  }
  const part = (waited - waits) / (flight * stretch - before);
  return part < 1 ? { distance: gate + (channel.length - gate) * part, fallen: 0 } : null;
}

/// A lost packet: it falls out of the channel, in front of the queue if it never entered.
function fall(packet, now, channel, speed) {
  const hop = Math.max(0, packet.hop ?? 0);
  const { from, to } = channel.links[Math.min(hop, channel.links.length - 1)];
  const isRefused = packet.to - packet.from < 1;
  const distance = isRefused ? from + (to - from) * 0.04 : from + (to - from) * 0.62;
  const fallen = (now - packet.to) / (FALL_MS * speed);
  return fallen >= 0 && fallen < 1 ? { distance, fallen } : null;
}

/// Returns the place of a report on its way back, from the receiver to the sender.
export function placeBack(packet, now, channel, delays, speed) {
  const flight = delays.reduce((sum, delay) => sum + delay, 0);
  const waits = Math.max(0, packet.to - packet.from - flight);
  const part = (now - packet.from - waits) / (flight * stretchOf(flight, speed));
  return part >= 0 && part < 1 ? channel.length * (1 - part) : null;
}
