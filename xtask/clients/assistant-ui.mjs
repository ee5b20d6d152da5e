// A chat of assistant-ui in a page of another origin, used by mouse and keyboard. What it did is read from the store, too.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { browser } from './common.mjs';
import { count, ensure, given, idle, mark, run, same } from './world.mjs';

const { build } = createRequire(`${given.packages}/package.json`)('esbuild');
const bundle = await build({
  entryPoints: [`${given.scripts}/assistant-ui.jsx`],
  nodePaths: [`${given.packages}/node_modules`],
  bundle: true,
  write: false,
  format: 'esm',
  jsx: 'automatic',
  // React checks more, and says more.
  define: { 'process.env.NODE_ENV': '"development"' },
  logLevel: 'error',
});
const files = {
  '/': ['text/html', '<!doctype html><meta charset=utf-8><title>Chat</title><div id=chat></div><script type=module src=/chat.js></script>'],
  '/chat.js': ['text/javascript', bundle.outputFiles[0].text],
};
const site = createServer(({ url }, response) => {
  const [type, text] = files[url] ?? [];
  if (type) response.writeHead(200, { 'content-type': type }).end(text);
  else response.writeHead(204).end();
});
await new Promise((done) => site.listen(given.port, '127.0.0.1', done));
const chromium = await browser(given.chromium);

/** What the store has of a thread: of each of its conversations, the messages of the person and the tools that ran. */
async function stored(thread) {
  const conversations = [];
  for (;;) {
    const id = conversations.length === 0 ? thread : `${thread}:branch-${conversations.length}`;
    const answer = await fetch(`${given.url}/v1/sessions/${encodeURIComponent(id)}/events`, {
      headers: { authorization: `Bearer ${given.token}` },
    });
    if (answer.status === 404) return conversations;
    const lines = (await answer.text()).split('\n').filter((line) => line.startsWith('data: '));
    const events = lines.map((line) => JSON.parse(line.slice('data: '.length)));
    const of = (type) => events.filter((event) => event.type === type);
    conversations.push({
      messages: of('user_message_confirmed').map(({ content }) => content),
      tools: of('tool_use').map(({ toolName }) => toolName),
    });
  }
}

/** A new chat. */
async function open() {
  const thread = randomUUID();
  const page = await chromium.open(`http://127.0.0.1:${given.port}/#${new URLSearchParams({ url: given.url, token: given.token, thread })}`);
  page.setDefaultTimeout(20_000);
  const button = (name) => page.getByRole('button', { name, exact: true });
  const texts = (where) => where.locator('.text').allInnerTexts();
  const answers = page.locator('.answer');
  const chat = {
    thread,
    page,
    button,
    answers,
    tools: page.locator('.tool'),
    write: async (message) => {
      await page.getByLabel('Message', { exact: true }).click();
      await page.keyboard.insertText(message);
      await page.keyboard.press('Enter');
    },
    /** Waits until nothing is answered, and returns the text of the last answer. */
    answered: async () => {
      await button('Send').waitFor();
      const wrong = await answers.last().locator('.error').allInnerTexts();
      ensure(wrong.length === 0, 'the page shows an error:', wrong);
      return (await texts(answers.last())).join(' ');
    },
    say: async (message) => {
      const before = await page.locator('.user').count();
      await chat.write(message);
      await page.locator('.user').nth(before).locator('~ .answer').first().waitFor();
      return chat.answered();
    },
    /** Stops the answer. That the connection was cut is an error for the chat, which it shows. */
    stop: async () => {
      await button('Stop').click();
      await button('Send').waitFor();
      await idle();
    },
    /** Asks for the last answer again, and returns the other one. */
    again: async () => {
      await answers.last().getByRole('button', { name: 'Again' }).click();
      await page.locator('.answer .branches span', { hasText: '2/2' }).waitFor();
      return chat.answered();
    },
    /** Writes another text in place of a message, and returns its answer. */
    edit: async (message, other) => {
      const is = (text) => page.locator('.user', { has: page.getByText(text, { exact: true }) });
      await is(message).getByRole('button', { name: 'Edit' }).click();
      await page.getByLabel('Changed message').click();
      await page.keyboard.press('Control+A');
      await page.keyboard.insertText(other);
      await button('Send it').click();
      await is(other).locator('~ .answer').first().waitFor();
      return chat.answered();
    },
    /** What the page shows, without buttons. */
    shown: () => texts(page),
    close: () => page.close(),
  };
  return chat;
}

const checks = {
  'a message and its answer in pieces': async () => {
    const chat = await open();
    same(await chat.say('say one'), 'say one');
    same(await chat.say('say two'), 'say one+say two');
    same(await stored(chat.thread), [{ messages: ['say one', 'say two'], tools: [] }]);
    // The answer that never ends is shown as far as it is there.
    await chat.write('hang');
    await chat.answers.nth(2).locator('.text', { hasText: 'so far' }).waitFor();
    await chat.stop();
  },
  'a tool and its result shown': async () => {
    const chat = await open();
    const word = mark();
    const answer = await chat.say(`note ${word}`);
    ensure(answer.startsWith('It said ') && answer.includes(word), answer);
    const tool = await chat.tools.innerText();
    ensure(tool.startsWith('note') && (await chat.tools.locator('code').innerText()).includes(word), tool);
    ensure((await chat.tools.locator('pre').innerText()).includes(word), tool);
    same(count(word), { asked: 1, ran: 1 });
    same((await chat.say('say on')).split('+').at(-1), 'say on');
    same(await stored(chat.thread), [{ messages: [`note ${word}`, 'say on'], tools: ['note'] }]);
  },
  'a question about a tool, answered yes and no': async () => {
    for (const name of ['Yes', 'No']) {
      const chat = await open();
      const word = mark();
      await chat.write(`refund ${word}`);
      await chat.button(name).waitFor();
      same(count(word), { asked: 1, ran: 0 });
      await chat.button(name).click();
      await chat.page.locator('.text', { hasText: 'It said ' }).waitFor();
      const answer = await chat.answered();
      ensure(answer.startsWith('It said '), answer);
      same(count(word), { asked: 1, ran: name === 'Yes' ? 1 : 0 });
      same(await chat.button(name).count(), 0);
      await chat.tools.locator('pre').waitFor();
      same((await chat.say('say on')).split('+').at(-1), 'say on');
      same(await stored(chat.thread), [{ messages: [`refund ${word}`, 'say on'], tools: ['refund'] }]);
    }
  },
  'two questions, one after the other': async () => {
    const chat = await open();
    const question = `refund twice ${mark()}`;
    await chat.write(question);
    // Both are asked at the same time, each at its call.
    const no = chat.tools.nth(1).getByRole('button', { name: 'No' });
    await no.waitFor();
    await chat.tools.first().getByRole('button', { name: 'Yes' }).click();
    await no.click();
    await chat.page.locator('.text', { hasText: 'It said ' }).waitFor();
    await chat.answered();
    same([count(`one ${question}`).ran, count(`two ${question}`).ran], [1, 0]);
    same((await chat.say('say on')).split('+').at(-1), 'say on');
    same(await stored(chat.thread), [{ messages: [question, 'say on'], tools: ['refund', 'refund'] }]);
  },
  'a stop, after which the thread continues': async () => {
    const chat = await open();
    await chat.write('hang');
    await chat.page.locator('.text', { hasText: 'so far' }).waitFor();
    await chat.stop();
    same(await chat.say('say on'), 'hang+say on');
    same(await stored(chat.thread), [{ messages: ['hang', 'say on'], tools: [] }]);
  },
  'an answer asked for again (reload)': async () => {
    const chat = await open();
    const words = [`say ${mark()}`, `say ${mark()}`];
    await chat.say(words[0]);
    const answer = await chat.say(words[1]);
    same(await chat.again(), answer);
    same(words.map((word) => count(word).asked), [1, 2]);
    // The first answer is still there, and the conversation continues after it.
    await chat.answers.last().getByRole('button', { name: 'Earlier' }).click();
    await chat.answers.last().locator('.branches span', { hasText: '1/2' }).waitFor();
    same(await chat.say('say on'), `${words.join('+')}+say on`);
    same(await stored(chat.thread), [
      { messages: words, tools: [] },
      { messages: [...words, 'say on'], tools: [] },
    ]);
  },
  'an answer after a tool asked for again': async () => {
    for (const before of ['', 'explain and ']) {
      const chat = await open();
      const message = `${before}note ${mark()}`;
      const answer = await chat.say(message);
      same(await chat.again(), answer);
      // The whole answer is another one, with its tool.
      same(count(message), { asked: 2, ran: 2 });
      same((await chat.say('say on')).split('+').at(-1), 'say on');
      const conversations = await stored(chat.thread);
      same(conversations[0], { messages: [message], tools: ['note'] });
      same(conversations[1].messages[0], message);
    }
  },
  'a message that was edited (branch)': async () => {
    const chat = await open();
    await chat.say('say one');
    await chat.say('say two');
    same(await chat.edit('say one', 'say changed'), 'say changed');
    same(await chat.shown(), ['say changed', 'say changed']);
    same(await chat.say('say on'), 'say changed+say on');
    same(await chat.edit('say on', 'say other'), 'say changed+say other');
    same(await chat.shown(), ['say changed', 'say changed', 'say other', 'say changed+say other']);
    same(await stored(chat.thread), [
      { messages: ['say one', 'say two'], tools: [] },
      { messages: ['say changed', 'say on'], tools: [] },
      { messages: ['say changed', 'say other'], tools: [] },
    ]);
  },
};

await run({
  ...checks,
  'no error in the console': async () => chromium.complainsOnlyOf(),
});
await chromium.close();
site.closeAllConnections();
site.close();
