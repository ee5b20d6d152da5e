// Clients of a server behind a proxy: what a proxy could break.

import { HttpAgent } from '@ag-ui/client';
import { randomUUID } from 'node:crypto';
import WebSocket from 'ws';
import { ensure, given, idle, run, same } from './world.mjs';

const headers = { authorization: `Bearer ${given.token}`, 'content-type': 'application/json' };

const [FIRST, SECOND] = [randomUUID(), randomUUID()];

/** A stream whose answer never ends: what came of it once its first text is there. */
async function firstPieces(path, body) {
  const leave = new AbortController();
  const late = setTimeout(() => leave.abort(), 5_000);
  let text = '';
  try {
    const answer = await fetch(given.url + path, { method: 'POST', headers, body: JSON.stringify(body), signal: leave.signal });
    ensure(answer.ok, path, answer.status, await (answer.ok ? '' : answer.text()));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    while (!text.includes('"so')) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  clearTimeout(late);
  leave.abort();
  return text;
}

/** Does it at another address. */
async function at(url, work) {
  const { url: usual } = given;
  given.url = url;
  try {
    return await work();
  } finally {
    given.url = usual;
  }
}

const message = (content) => [{ role: 'user', content }];
const STREAMS = {
  'events of a message': [`/v1/sessions/${FIRST}/messages?stream=true`, () => ({ message: 'hang' })],
  'chat completions': ['/v1/chat/completions', () => ({ model: 'desk', stream: true, messages: message('hang') })],
  'responses': ['/v1/responses', () => ({ model: 'desk', stream: true, input: 'hang' })],
  'AG-UI': [
    '/awp',
    () => ({ threadId: randomUUID(), runId: randomUUID(), state: {}, tools: [], context: [], forwardedProps: {}, messages: [{ id: 'm1', ...message('hang')[0] }] }),
  ],
};

const checks = {
  'streams arrive in pieces': async () => {
    for (const [name, [path, body]] of Object.entries(STREAMS)) {
      const text = await firstPieces(path, body());
      ensure(text.includes('"so'), `${name}: nothing came of an answer that is not over:`, text);
    }
    // A client of the message's events leaves, and the run continues: it is stopped by hand.
    const session = await (await fetch(`${given.url}/v1/sessions/${FIRST}`, { headers })).json();
    await fetch(`${given.url}/v1/runs/${session.openRun}/cancel`, { method: 'POST', headers, body: '{}' });
    await idle();
  },
  'a client that leaves is noticed': async () => {
    for (const name of ['chat completions', 'responses', 'AG-UI']) {
      const [path, body] = STREAMS[name];
      ensure((await firstPieces(path, body())).includes('"so'), name);
      await idle().catch((error) => {
        throw new Error(`${name}: ${error.message}`);
      });
    }
  },
  'a WebSocket': async () => {
    const socket = new WebSocket(`${given.url.replace('http', 'ws')}/v1/ws`, ['holodeck', `holodeck.token.${given.token}`]);
    const text = await new Promise((resolve, reject) => {
      let text = '';
      const send = (event, data) => socket.send(JSON.stringify({ event, data }));
      socket.on('error', reject);
      socket.on('open', () => send('chat:message', { message: 'say through', clientMessageId: randomUUID() }));
      socket.on('message', (frame) => {
        const { event, data } = JSON.parse(frame);
        if (event.endsWith(':error')) reject(new Error(String(frame)));
        if (data.type === 'message_chunk') text += data.content;
        if (data.type === 'complete') resolve(text);
      });
    });
    socket.close(1000);
    same(text, 'say through');
  },
  'a stream that continues after the last event': async () => {
    const sent = await fetch(`${given.url}/v1/sessions/${SECOND}/messages?wait=true`, { method: 'POST', headers, body: '{"message": "say all of it"}' });
    same((await sent.json()).response, 'say all of it');
    const read = async (more) => (await fetch(`${given.url}/v1/sessions/${SECOND}/events`, { headers: { ...headers, ...more } })).text();
    const all = (await read()).split('\n\n').filter((event) => event.startsWith('id: '));
    ensure(all.length > 3, all);
    const middle = all[1].split('\n')[0].slice('id: '.length);
    const rest = (await read({ 'last-event-id': middle })).split('\n\n').filter((event) => event.startsWith('id: '));
    same(rest, all.slice(2));
  },
  'a file of 5 MB': async () => {
    const form = new FormData();
    form.append('file', new Blob(['word '.repeat(1_000_000)], { type: 'text/plain' }), 'words.txt');
    const sent = await fetch(`${given.url}/v1/files`, { method: 'POST', headers: { authorization: headers.authorization }, body: form });
    same(sent.status, 201);
  },
  'AG-UI\'s client': async () => {
    const agent = new HttpAgent({ url: `${given.url}/awp`, headers: { authorization: headers.authorization }, threadId: randomUUID() });
    agent.addMessage({ id: randomUUID(), role: 'user', content: 'say it' });
    await agent.runAgent({ runId: randomUUID() });
    same(agent.messages.at(-1).content, 'say it');
  },
  'also over HTTP/1.0': async () => {
    await at(given.old, async () => {
      for (const name of ['chat completions', 'responses', 'AG-UI']) {
        const [path, body] = STREAMS[name];
        ensure((await firstPieces(path, body())).includes('"so'), `${name}: nothing came`);
      }
    });
    await idle();
  },
  // The proof that the checks above could fail: the same proxy, set to ignore what the server says about buffering.
  'nothing in pieces where buffering is forced': async () => {
    const [path, body] = STREAMS['chat completions'];
    same(await at(given.forced, () => firstPieces(path, body())), '');
    await idle();
  },
};

const wanted = new Set(given.checks);
await run(Object.fromEntries(Object.entries(checks).filter(([name]) => wanted.has(name))));
