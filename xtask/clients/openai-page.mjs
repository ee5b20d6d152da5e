// OpenAI's library in a page of another origin. The page loads the files of the package as they are.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';
import { count, given, idle, mark, run } from './world.mjs';

const HTML = '<!doctype html><meta charset=utf-8><title>A page of another origin</title>';

const site = createServer((request, response) => {
  const path = new URL(request.url, 'http://page').pathname;
  if (path === '/') return void response.writeHead(200, { 'content-type': 'text/html' }).end(HTML);
  try {
    const file = path === '/openai.mjs' ? `${given.scripts}/openai.mjs` : `${given.library}${path.replace(/^\/library/, '')}`;
    const text = readFileSync(file);
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(text);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((done) => site.listen(given.port, '127.0.0.1', done));

const browser = await chromium.launch({ executablePath: given.chromium, args: ['--no-sandbox', '--disable-gpu'] });
const page = await (await browser.newContext()).newPage();
await page.exposeFunction('holodeckCount', count);
await page.exposeFunction('holodeckIdle', idle);
await page.goto(`http://127.0.0.1:${given.port}/`);
const names = await page.evaluate(
  async ({ url, token, prefix }) => {
    const [library, { checks }] = await Promise.all([import('/library/index.mjs'), import('/openai.mjs')]);
    let marks = 0;
    const world = { count: holodeckCount, idle: holodeckIdle, mark: () => `${prefix}${(marks += 1)}q` };
    globalThis.checks = checks(library, { url, token, world, options: { dangerouslyAllowBrowser: true } });
    return Object.keys(globalThis.checks);
  },
  { url: given.url, token: given.token, prefix: `${mark()}p` },
);
await run(
  Object.fromEntries(
    names.map((name) => [
      name,
      async () => {
        const error = await page.evaluate((name) => globalThis.checks[name]().then(() => null, (error) => `${error.stack}`), name);
        if (error !== null) throw new Error(error);
      },
    ]),
  ),
);
await browser.close();
site.close();
