// Talks to the built-in page of `holodeck serve`, and to the front end of docs/serving.md, as a person does.
// Usage: node page.mjs own|recorded|documented OPTIONS, where OPTIONS is JSON.

import { createServer, request as ask } from 'node:http';

import { browser, ensure, lookAtChat } from './common.mjs';

const [scenario, json] = process.argv.slice(2);
const options = JSON.parse(json);
const chromium = await browser(options.chromium);
const page = await chromium.open(options.url);
page.setDefaultTimeout(30_000);

const look = (name) => lookAtChat(page, name, options.pictures);

async function say(message) {
  await page.locator('#message').click();
  await page.keyboard.insertText(message);
  await page.keyboard.press('Enter');
}

const hasText = (text, where = page) => where.waitForFunction((text) => document.getElementById('log').innerText.includes(text), text);

/** Until no answer is being written. */
const hasEnded = (where = page) => where.waitForFunction(() => document.getElementById('stop').hidden);

const signedIn = (where) => where.waitForFunction(() => !document.querySelector('dialog').open && document.title === 'support-desk');

async function chooseConversation(where) {
  await where.locator('#sessions').click();
  await where.locator('#found .open').first().click();
}

async function enterToken(where, token) {
  await where.locator('#token').fill(token);
  await where.keyboard.press('Enter');
}

async function own() {
  console.log('the token');
  await page.locator('dialog[open]').waitFor();
  await look('token');
  await enterToken(page, 'wrong');
  await page.waitForFunction(() => document.getElementById('token').value === '' && document.querySelector('dialog').open);
  await look('token');
  await enterToken(page, options.token);
  await signedIn(page);
  // A refused token is an error for the browser, too.
  chromium.complainsOnlyOf('401');
  await look('empty');

  console.log('a streamed answer with a tool call');
  await say('Where is order 1042?');
  await page.waitForFunction(() => document.querySelector('.text')?.textContent.length > 20);
  const early = (await page.locator('.text').first().textContent()).length;
  ensure(early < options.list.length / 2, `the answer was not streamed: ${early}`);
  await look('streaming');
  await hasText(options.list.slice(-10));
  await hasEnded();
  // The answer is Markdown.
  await page.waitForFunction(() => document.querySelectorAll('.text.rich li').length === 3);
  const points = options.list.split('\n').filter((line) => line.startsWith('- ')).map((line) => line.slice(2));
  const items = await page.locator('.text li').allTextContents();
  ensure(JSON.stringify(items) === JSON.stringify(points), 'the list is', items);
  const tool = page.locator('.tool summary').first();
  ensure((await tool.textContent()).includes('look_up'), 'the tool call is', await tool.textContent());
  await tool.click();
  await hasText('shipped_at');
  await look('answered');

  console.log('a question, and its answer');
  await say('Refund it, please.');
  await page.locator('.ask button').first().waitFor();
  await hasText('It came too late.');
  await look('asked');
  const colours = await page.evaluate(() => new Set([...document.querySelectorAll('.ask button')].map((button) => getComputedStyle(button).backgroundColor)).size);
  ensure(colours === 1, 'the choices look different:', colours);
  // A second window sees the same conversation, and its answer counts for both.
  const second = await chromium.open(options.url);
  await second.locator('dialog[open]').waitFor();
  await enterToken(second, options.token);
  await chooseConversation(second);
  await second.locator('.ask button', { hasText: /^Yes$/ }).click();
  for (const window of [page, second]) {
    await hasText('The refund is on its way.', window);
    await hasEnded(window);
  }
  await page.waitForFunction(() => !document.querySelector('.ask button'));
  const texts = (window) =>
    window.evaluate(() => [...document.querySelectorAll('.user, .text')].map((element) => element.textContent).join('|'));
  const [one, other] = [await texts(page), await texts(second)];
  ensure(one === other, 'two windows show', [one, other]);
  chromium.complainsOnlyOf('401');

  console.log('a file');
  await page.locator('#files').setInputFiles(options.file);
  await page.waitForFunction(() => document.getElementById('attached').textContent.includes('report.txt'));
  await look('attached');
  await say('What does report.txt say?');
  await hasText('sales rose by 12 %.');
  await hasEnded();
  await page.waitForFunction(() => document.getElementById('attached').textContent === '');

  console.log('a stop, an error, and what must not run');
  await say('Talk without end.');
  await page.locator('.waiting, .text').first().waitFor();
  await hasText('word word');
  // What is written meanwhile waits for its turn.
  await say('Where is order 7?');
  await page.locator('.queued', { hasText: 'order 7' }).waitFor();
  await look('queued');
  await page.locator('button:visible', { hasText: /^Stop$/ }).click();
  await page.waitForFunction(() => document.querySelectorAll('.text.rich ul').length === 2);
  await hasEnded();
  ensure((await page.locator('.queued').count()) === 0, 'a message still waits');
  await say('Fail, please.');
  await page.locator('.error').first().waitFor();
  await hasEnded();
  await say('Say something hostile.');
  await hasText('<script>');
  await hasEnded();
  const ran = await page.locator('#log img, #log script').count();
  ensure(ran === 0 && (await page.title()) === 'support-desk', 'a text of the model ran');
  await look('ended');
  chromium.complainsOnlyOf();

  console.log('the same conversation after the page is loaded again');
  const shown = (where) => where.evaluate(() => document.getElementById('log').textContent);
  const before = await shown(page);
  await page.reload();
  await signedIn(page);
  await hasText('<script>');
  await hasEnded();
  await page.waitForFunction((before) => document.getElementById('log').textContent === before, before);
  chromium.complainsOnlyOf();

  console.log('the list of conversations');
  await page.locator('#new').click();
  await page.waitForFunction(() => location.hash === '' && document.getElementById('log').textContent === '');
  await say('Another conversation.');
  await hasText('<script>');
  await hasEnded();
  await page.locator('#sessions').click();
  await page.waitForFunction(() => document.querySelectorAll('#found .open').length === 2);
  await look('conversations');
  await page.locator('#search').fill('ORDER where');
  await page.waitForFunction(() => document.querySelectorAll('#found .open').length === 1);
  await page.locator('#search').fill('nothing like this');
  await page.waitForFunction(() => document.getElementById('found').textContent === 'Nothing was found.');
  await page.locator('#search').fill('another');
  const remove = page.locator('#found li', { hasText: 'Another conversation.' }).locator('button').last();
  await remove.click();
  await remove.click();
  await page.waitForFunction(() => !document.querySelector('#found .open'));
  await page.locator('#close').click();
  await page.waitForFunction(() => location.hash === '' && document.getElementById('log').textContent === '');
  chromium.complainsOnlyOf();

  console.log('a long list of conversations');
  await manyConversations();

  console.log('below a prefix');
  const proxy = await prefixed(options.url, '/desk');
  const below = await chromium.open(`${proxy.url}/desk`);
  await below.locator('dialog[open]').waitFor();
  await enterToken(below, options.token);
  await signedIn(below);
  await chooseConversation(below);
  await hasText('<script>', below);
  chromium.complainsOnlyOf('401');
  proxy.close();
}

/** Lists more conversations than fit on a page, page by page, and finds the oldest and every second one. */
async function manyConversations() {
  const MANY = 130;
  const name = (at) => `Topic n${at}. It is ${at % 2 ? 'odd' : 'even'}.`;
  const call = async (method, path, body) => {
    const headers = { authorization: `Bearer ${options.token}`, 'content-type': 'application/json' };
    const answer = await fetch(options.url + path, { method, headers, body: body && JSON.stringify(body) });
    ensure(answer.ok, path, answer.status);
    return answer;
  };
  const { sessions: before } = await (await call('GET', '/v1/sessions')).json();
  for (let at = 1; at <= MANY; at += 1) await call('POST', `/v1/sessions/many-${at}/messages?wait=true`, { message: name(at) });
  const all = [...before.map(({ firstMessage }) => firstMessage), ...Array.from({ length: MANY }, (_, at) => name(at + 1))].sort();
  const found = page.locator('#found .open .title');
  const more = page.locator('#more');
  const listed = (count) => page.waitForFunction((count) => document.querySelectorAll('#found .open').length === count, count);
  /** What is listed in the end; the sizes of the list on the way. */
  const toTheEnd = async (sizes) => {
    for (const size of sizes) {
      await listed(size);
      if (size !== sizes.at(-1)) await more.click();
    }
    await more.waitFor({ state: 'hidden' });
    return (await found.allTextContents()).sort();
  };
  const same = (left, right, what) => ensure(JSON.stringify(left) === JSON.stringify(right), what, left, 'instead of', right);

  await page.locator('#sessions').click();
  same(await toTheEnd([50, 100, all.length]), all, 'the list has');
  await look('many-conversations');
  // The oldest of them is on the last page.
  await page.locator('#search').fill('n1. topic');
  await page.waitForFunction((name) => document.querySelector('#found .title')?.textContent === name, name(1));
  const odd = all.filter((name) => name.includes('odd'));
  await page.locator('#search').fill('odd');
  same(await toTheEnd([25, 50, odd.length]), odd, 'the search found');
  // One of them is opened, and then deleted.
  await page.locator('#search').fill('n3.');
  const third = page.locator('#found li', { hasText: name(3) });
  await third.locator('.open').click();
  await hasText(name(3));
  await page.locator('#sessions').click();
  await page.locator('#search').fill('n3.');
  const remove = third.locator('button').last();
  await remove.click();
  await remove.click();
  await third.waitFor({ state: 'detached' });
  await page.locator('#search').fill('');
  same(await toTheEnd([50, 100, all.length - 1]), all.filter((other) => other !== name(3)), 'the list has');
  await page.locator('#close').click();
  chromium.complainsOnlyOf();
}

/** A proxy that serves a server below a path, as others do. */
async function prefixed(target, prefix) {
  const server = createServer((request, response) => {
    if (!request.url.startsWith(prefix)) {
      response.writeHead(418).end();
      return;
    }
    const to = new URL(request.url.slice(prefix.length) || '/', target);
    const headers = { ...request.headers, host: to.host };
    delete headers.origin;
    const passed = ask(to, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.closeAllConnections() ?? server.close() };
}

async function recorded() {
  console.log('a recording');
  await page.waitForFunction(() => document.title === 'quickstart');
  await say('What is the capital of France?');
  await hasText('Paris');
  await hasEnded();
  await look('replayed');
  await say('What is not recorded?');
  await page.locator('.error').first().waitFor();
  chromium.complainsOnlyOf();
}

async function documented() {
  console.log('the front end of docs/serving.md');
  // It asks with `confirm`, which is answered with yes.
  const messages = [
    ['Where is order 1042?', options.list.slice(-10)],
    ['Refund it, please.', 'The refund is on its way.'],
  ];
  for (const [message, shown] of messages) {
    await page.waitForFunction(() => document.getElementById('text').value === '');
    await page.locator('#text').click();
    await page.keyboard.insertText(message);
    await page.keyboard.press('Enter');
    for (const text of [`› ${message}`, shown]) {
      await page.waitForFunction((text) => document.getElementById('log').textContent.includes(text), text);
    }
  }
  await page.screenshot({ path: `${options.pictures}/documented.png` });
  chromium.complainsOnlyOf('favicon.ico');
}

const scenarios = { own, recorded, documented };
await scenarios[scenario]();
await chromium.close();
