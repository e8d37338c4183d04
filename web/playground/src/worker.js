// A web worker that holds a simulator. The first message is its compiled module.

import { engine } from './engine.js';

let ready = null;

onmessage = async ({ data }) => {
  if (data.module) {
    ready = engine(data.module);
    return;
  }
  const { id, request } = data;
  try {
    const call = await ready;
    postMessage({ id, ok: call(request) });
  } catch (error) {
    const { message, line = null, key = null } = error;
    postMessage({ id, error: { message, line, key } });
  }
};
