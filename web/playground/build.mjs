// Builds the page into a folder: node build.mjs OUTPUT_DIR WASM_FILE

import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
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
const manifest = readFileSync(join(here, '../../Cargo.toml'), 'utf8');
const version = manifest.match(/^version = "(.*)"$/m)[1];
const { metafile } = await build({
  entryPoints: { page: join(here, 'src/main.js'), worker: join(here, 'src/worker.js') },
  outdir: output,
  bundle: true,
  format: 'esm',
  minify: true,
  target: ['es2022'],
  legalComments: 'none',
  define: { ANABRANCH_VERSION: JSON.stringify(version) },
  metafile: true,
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
const scenarios = collect(join(here, '../../scenarios'));
writeFileSync(join(output, 'scenarios.json'), JSON.stringify(scenarios));

/// The licences of the packages that the page contains.
function licenses(inputs) {
  const names = Object.keys(inputs).map(
    (path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1],
  );
  const texts = [...new Set(names.filter(Boolean))].sort().map((name) => {
    const folder = join(here, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? readFileSync(join(folder, file), 'utf8') : '';
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return texts.join('\n----\n\n');
}

writeFileSync(join(output, 'licenses.txt'), licenses(metafile.inputs));
