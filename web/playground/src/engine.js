// The simulator: requests and answers as JSON, through the memory of the WebAssembly module.
// `crates/wasm` describes them.

/// An error of the simulator: `line` and `key` are set for a mistake in a scenario.
export class Mistake extends Error {
  constructor({ message, line = null, key = null }) {
    super(message);
    this.line = line;
    this.key = key;
  }
}

/// Returns a function that answers requests. A module that has failed answers no more.
export async function engine(module) {
  const { exports } = await WebAssembly.instantiate(module, {});
  const text = (address, length) =>
    new TextDecoder().decode(new Uint8Array(exports.memory.buffer, address, length));
  return (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const address = exports.anabranch_reserve(bytes.length);
    if (address === 0) throw new Mistake({ message: 'the scenario and its files are too long' });
    new Uint8Array(exports.memory.buffer, address, bytes.length).set(bytes);
    let length;
    try {
      length = exports.anabranch_call();
    } catch (error) {
      const message = text(exports.anabranch_panic(), exports.anabranch_panic_length());
      throw new Error(`the simulator failed: ${message || error}`);
    }
    const { ok, error } = JSON.parse(text(exports.anabranch_text(), length));
    if (error) throw new Mistake(error);
    return ok;
  };
}
