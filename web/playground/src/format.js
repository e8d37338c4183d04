// Numbers as people read them.

const UNITS = [
  [1e9, 'Gbit/s'],
  [1e6, 'Mbit/s'],
  [1e3, 'kbit/s'],
];

/// Three digits at most, without needless zeros.
export function short(value) {
  if (value === 0) return '0';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

export function rate(bits) {
  const [factor, unit] = UNITS.find(([least]) => bits >= least) ?? [1, 'bit/s'];
  return `${short(bits / factor)} ${unit}`;
}

export function percent(share) {
  return `${short(share * 100)} %`;
}

export function time(ms) {
  return ms >= 10_000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
}

/// A metric's value in its unit, as the catalogue names it.
export function metric(value, unit) {
  if (value === null || value === undefined) return '–';
  switch (unit) {
    case 'share':
      return percent(value);
    case 'ms':
      return time(value);
    case 'bit/s':
      return rate(value);
    case 'bytes':
      return `${short(value / 1000)} kB`;
    default:
      return short(value);
  }
}
