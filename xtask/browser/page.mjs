// Talks to the built-in page of `holodeck serve`, and to the front end of docs/serving.md, as a person does.
// Usage: node page.mjs own|recorded|documented OPTIONS, where OPTIONS is JSON.

import { browser, ensure, lookAtChat } from './common.mjs';

const [scenario, json] = process.argv.slice(2);
const options = JSON.parse(json);
const chromium = await browser(options.chromium);
const page = await chromium.open(options.url);
page.setDefaultTimeout(30_000);

const log = page.locator('#log');
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
  await where.waitForFunction(() => document.getElementById('sessions').options.length > 1);
  await where.locator('#sessions').selectOption({ index: 1 });
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
  const answer = await page.locator('.text').first().textContent();
  ensure(answer === options.list, 'the answer is', answer);
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
  await hasText('word word');
  await page.locator('button:visible', { hasText: /^Stop$/ }).click();
  await hasEnded();
  await say('Fail, please.');
  await page.locator('.error').first().waitFor();
  await hasEnded();
  await say('Say something hostile.');
  await hasText('<script>');
  await hasEnded();
  const ran = await page.locator('#log img, #log script').count();
  ensure(ran === 0 && (await page.title()) === 'support-desk', 'a text of the model ran');
  await look('ended');
  const before = await log.textContent();
  chromium.complainsOnlyOf();

  console.log('the same conversation after the page is loaded again');
  await page.goto(options.url);
  await signedIn(page);
  await chooseConversation(page);
  await hasText('<script>');
  await hasEnded();
  const after = await log.textContent();
  ensure(before === after, `before:\n${before}\nafter:\n${after}`);
  chromium.complainsOnlyOf();
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
