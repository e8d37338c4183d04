// The page: it loads the simulator and the scenarios, and starts them.

import { Client, Latest } from './client.js';
import { Library } from './library.js';
import { Page } from './page.js';
import * as permalink from './permalink.js';

async function json(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.json();
}

async function module() {
  const response = fetch(new URL('./anabranch.wasm', import.meta.url));
  try {
    return await WebAssembly.compileStreaming(response);
  } catch {
    // A server that does not know the type of the file.
    const again = await fetch(new URL('./anabranch.wasm', import.meta.url));
    return WebAssembly.compile(await again.arrayBuffer());
  }
}

async function main() {
  const schema = json('schema.json');
  const [code, scenarios, state] = await Promise.all([
    module(),
    json('scenarios.json'),
    permalink.read(location.hash),
  ]);
  const live = new Client(code);
  const names = await live.call({ op: 'names' });
  const page = new Page({
    live,
    whole: [new Latest(code), new Latest(code)],
    aside: new Latest(code),
    library: new Library(scenarios),
    names,
    isFirst: location.hash.length < 2,
  });
  // The page may write the address of its former state before it hears of a new one: the event
  // alone has that.
  window.addEventListener('hashchange', async ({ newURL }) => {
    const { hash } = new URL(newURL);
    if (hash !== page.address) page.open(await permalink.read(hash));
  });
  await page.open(state);
  page.edit(await schema);
}

main().catch((error) => {
  const problem = document.getElementById('problem');
  problem.textContent = `The playground cannot start: ${error.message}`;
  problem.hidden = false;
  console.error(error);
});
