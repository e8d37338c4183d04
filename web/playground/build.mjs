// Builds the page into a folder: node build.mjs OUTPUT_DIR WASM_FILE

import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { collect } from './scenarios.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const [output, wasm] = process.argv.slice(2);
if (!output || !wasm) {
  console.error('usage: node build.mjs OUTPUT_DIR WASM_FILE');
  process.exit(2);
}
mkdirSync(output, { recursive: true });
await build({
  entryPoints: { page: join(here, 'src/main.js'), worker: join(here, 'src/worker.js') },
  outdir: output,
  bundle: true,
  format: 'esm',
  minify: true,
  target: ['es2022'],
  legalComments: 'linked',
  logLevel: 'warning',
});
await build({
  entryPoints: [join(here, 'src/style.css')],
  outfile: join(output, 'style.css'),
  bundle: true,
  minify: true,
  logLevel: 'warning',
});
cpSync(wasm, join(output, 'anabranch.wasm'));
cpSync(join(here, 'index.html'), join(output, 'index.html'));
const schema = JSON.parse(readFileSync(join(here, '../../docs/scenario.schema.json'), 'utf8'));
writeFileSync(join(output, 'schema.json'), JSON.stringify(schema));
writeFileSync(join(output, 'scenarios.json'), JSON.stringify(collect(join(here, '../../scenarios'))));
