// Live pictures in a page: the burnt-in clock of scripts/real-tests/whep-camera.py.

/** Runs in the page: collects the age in milliseconds of each picture that is shown. */
export function collectAges(video) {
  const [cell, cells] = [16, 40];
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [cell * cells, cell];
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const checkValue = (number) => {
    let crc = 0xa7;
    for (const shift of [24, 16, 8, 0]) {
      crc ^= (number >>> shift) & 0xff;
      for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x80 ? (crc << 1) ^ 0x07 : crc << 1) & 0xff;
    }
    return crc;
  };
  const read = () => {
    context.drawImage(video, 0, 0, canvas.width, cell, 0, 0, canvas.width, cell);
    const { data } = context.getImageData(0, cell / 2, canvas.width, 1);
    const bits = Array.from({ length: cells }, (_, at) => data[(at * cell + cell / 2) * 4] > 128);
    const number = (from, to) => bits.slice(from, to)
      .reduce((value, bit) => value * 2 + Number(bit), 0);
    const [clock, check] = [number(0, 32), number(32, 40)];
    return check === checkValue(clock) ? clock : null;
  };
  const ages = [];
  const next = (now, metadata) => {
    const clock = read();
    // The time at which it is drawn may lie a few milliseconds ahead.
    const shownAt = Date.now() + Math.max(0, metadata.expectedDisplayTime - performance.now());
    if (clock !== null) ages.push((shownAt % 2 ** 32) - clock);
    video.requestVideoFrameCallback(next);
  };
  video.requestVideoFrameCallback(next);
  globalThis.ages = ages;
}

/** Returns the 50th and 95th percentiles of numbers. */
export function percentiles(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { half: at(0.5), most: at(0.95) };
}
