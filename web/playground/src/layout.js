// Places of routes and links in the drawing. A route is a channel from the sender to the receiver;
// routes with common links meet in them, as channels of a river do.

/// Samples of each curve.
const STEPS = 28;
/// Part of a link, from its start, in which packets queue.
const GATE = 0.3;

/// Returns the channels of a summary in a drawing of this size.
export function layout(summary, { width, height, left, right }) {
  const routes = usedRoutes(summary);
  const rows = distinctRows(summary, routes);
  const gap = height / Math.max(rows.size, 1);
  const rowOf = (route) => gap * (rows.get(rowKey(summary, route)) + 0.5);
  const span = width - left - right;
  const links = new Map();
  for (const route of routes) {
    const { forward } = summary.routes[route];
    forward.forEach((link, hop) => {
      const place = links.get(link) ?? { from: 1, to: 0, ys: [] };
      place.from = Math.min(place.from, hop / forward.length);
      place.to = Math.max(place.to, (hop + 1) / forward.length);
      if (!place.ys.includes(rowOf(route))) place.ys.push(rowOf(route));
      links.set(link, place);
    });
  }
  const placed = new Map();
  for (const [link, { from, to, ys }] of links) {
    const y = ys.reduce((sum, value) => sum + value, 0) / ys.length;
    // Room for the curves between links.
    const inset = Math.min(46, ((to - from) * span) / 5);
    placed.set(link, { y, x0: left + from * span + inset, x1: left + to * span - inset });
  }
  const middle = height / 2;
  const ends = { from: { x: left, y: middle }, to: { x: width - right, y: middle } };
  const channels = new Map(
    routes.map((route) => {
      const { forward } = summary.routes[route];
      return [route, channel(forward, placed, ends, (link) => isSlow(summary.links[link]))];
    }),
  );
  return { links: placed, channels, ends, gap };
}

function isSlow({ rate, has_trace: hasTrace }) {
  return rate !== null || hasTrace;
}

function usedRoutes(summary) {
  const used = summary.flows.flatMap((flow) => flow.paths);
  const isDrawn = (route) =>
    summary.routes[route].forward.every((link) => link < summary.links.length);
  return [...new Set(used)].filter(isDrawn);
}

function rowKey(summary, route) {
  return summary.routes[route].forward.join(' ');
}

function distinctRows(summary, routes) {
  const rows = new Map();
  for (const route of routes) {
    const key = rowKey(summary, route);
    if (!rows.has(key)) rows.set(key, rows.size);
  }
  return rows;
}

/// Returns a route's line as points, and the distances at which its links begin and end.
function channel(forward, placed, { from, to }, hasQueue) {
  const points = [from];
  const spans = [];
  let at = from;
  const curve = (end) => {
    const middle = (at.x + end.x) / 2;
    for (let step = 1; step <= STEPS; step += 1) {
      points.push(bezier(at, { x: middle, y: at.y }, { x: middle, y: end.y }, end, step / STEPS));
    }
    at = end;
  };
  for (const link of forward) {
    const { x0, x1, y } = placed.get(link);
    curve({ x: x0, y });
    const first = points.length - 1;
    at = { x: x1, y };
    points.push(at);
    spans.push([first, points.length - 1]);
  }
  curve(to);
  const lengths = [0];
  for (let index = 1; index < points.length; index += 1) {
    const [one, other] = [points[index - 1], points[index]];
    lengths.push(lengths[index - 1] + Math.hypot(other.x - one.x, other.y - one.y));
  }
  return {
    points,
    lengths,
    length: lengths.at(-1),
    links: spans.map(([first, last], hop) => {
      const [from, to] = [lengths[first], lengths[last]];
      // Packets wait only in front of links with a rate.
      const gate = hasQueue(forward[hop]) ? from + (to - from) * GATE : from;
      return { from, to, gate };
    }),
  };
}

function bezier(a, b, c, d, t) {
  const s = 1 - t;
  const mix = (axis) =>
    s * s * s * a[axis] + 3 * s * s * t * b[axis] + 3 * s * t * t * c[axis] + t * t * t * d[axis];
  return { x: mix('x'), y: mix('y') };
}

/// Returns the point of a channel at a distance from its start.
export function pointAt({ points, lengths, length }, distance) {
  const at = Math.max(0, Math.min(length, distance));
  let low = 0;
  let high = lengths.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (lengths[middle] <= at) low = middle;
    else high = middle;
  }
  const part = (at - lengths[low]) / (lengths[high] - lengths[low] || 1);
  const [one, other] = [points[low], points[high]];
  return { x: one.x + (other.x - one.x) * part, y: one.y + (other.y - one.y) * part };
}
