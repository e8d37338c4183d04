// A browser, and checks that hold for every page.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
/** Levels A and AA of WCAG up to 2.2. */
const LEVELS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
}

/**
 * Opens a page. `problems` gets errors of the console and of scripts, and requests to other
 * origins.
 */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const problems = [];
  const { origin } = new URL(url);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('request', (request) => {
    const target = new URL(request.url());
    if (target.protocol.startsWith('http') && target.origin !== origin) {
      problems.push(`asks ${target.origin}`);
    }
  });
  await page.goto(url);
  return { page, problems };
}

/** Checks the page by axe-core. It is added by the protocol, which no policy of the page hinders. */
export async function checkAccessibility(page) {
  await page.evaluate(readFileSync(AXE, 'utf8'));
  const { violations } = await page.evaluate(
    (levels) => globalThis.axe.run(document, { runOnly: levels }), LEVELS,
  );
  const found = violations.map((violation) => `${violation.id}: ${violation.help}\n  `
    + violation.nodes.map((node) => `${node.html}\n  ${node.failureSummary}`).join('\n  '));
  assert.deepEqual(found, []);
}

/** Checks that nothing is wider than the window, cut off, or drawn over other text. */
export async function checkLayout(page) {
  const problems = await page.evaluate(() => {
    const found = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) {
      found.push(`the page is ${root.scrollWidth} px wide, the window ${root.clientWidth}`);
    }
    const isShown = (target) => target.checkVisibility({ visibilityProperty: true })
      && !target.closest('.visually-hidden, [popover], .top, .uplot, thead');
    const texts = [...document.body.querySelectorAll('*')].filter((target) => isShown(target)
      && [...target.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
    const boxes = texts.map((target) => {
      const range = document.createRange();
      range.selectNodeContents(target);
      return { target, box: range.getBoundingClientRect() };
    });
    const name = ({ target }) => `"${target.textContent.slice(0, 40)}"`;
    const list = document.getElementById('events')?.getBoundingClientRect();
    for (const [index, one] of boxes.entries()) {
      if (one.box.right > root.clientWidth + 1 || one.box.left < -1) {
        found.push(`${name(one)} leaves the window`);
      }
      for (const other of boxes.slice(index + 1)) {
        if (one.target.contains(other.target) || other.target.contains(one.target)) continue;
        // A list that scrolls hides its rest.
        const isHidden = [one, other].some(({ target, box }) => list && target.closest('#events')
          && box.bottom > list.bottom);
        const width = Math.min(one.box.right, other.box.right)
          - Math.max(one.box.left, other.box.left);
        const height = Math.min(one.box.bottom, other.box.bottom)
          - Math.max(one.box.top, other.box.top);
        if (width > 2 && height > 4 && !isHidden) found.push(`${name(one)} over ${name(other)}`);
      }
    }
    return found;
  });
  assert.deepEqual(problems, []);
}

/** Keeps a picture of the page, if SCREENSHOTS names a folder. */
export async function keep(page, name) {
  if (!process.env.SCREENSHOTS) return;
  mkdirSync(process.env.SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}
