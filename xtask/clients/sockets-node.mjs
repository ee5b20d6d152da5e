// The WebSocket client `ws`: conversations, a question, a stop, and what follows the last event that is known.

import { randomUUID } from 'node:crypto';
import WebSocket from 'ws';
import { count, ensure, given, mark, run, same } from './world.mjs';

const ADDRESS = `${given.url.replace('http', 'ws')}/v1/ws`;
const PROTOCOLS = ['holodeck', `holodeck.token.${given.token}`];

/** Opens a socket, calls `work` with each frame until it returns something, and closes. */
function talk(first, work) {
  const socket = new WebSocket(ADDRESS, PROTOCOLS);
  const send = (event, data) => socket.send(JSON.stringify({ event, data }));
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', (code) => reject(new Error(`closed with ${code}`)));
    socket.on('open', () => send(...first));
    socket.on('message', (text) => {
      const { event, data } = JSON.parse(text);
      const found = work(event, data, send);
      if (found !== undefined) resolve(found);
    });
  }).finally(() => socket.close(1000));
}

const refused = (protocols, options) =>
  new Promise((resolve) => {
    const socket = new WebSocket(ADDRESS, protocols, options);
    socket.on('open', () => resolve('accepted'));
    socket.on('unexpected-response', (request, response) => {
      resolve(response.statusCode);
      request.destroy();
    });
    socket.on('error', () => {});
  });

const failed = (event, data) => {
  if (event.endsWith(':error')) throw new Error(JSON.stringify(data));
};

await run({
  'a token as a subprotocol': async () => {
    same(await refused(['holodeck', 'holodeck.token.another-0123456789']), 401);
    same(await refused(PROTOCOLS, { origin: 'https://evil.example' }), 403);
  },
  'messages, a tool and a question': async () => {
    const word = mark();
    const text = [];
    const sessionId = randomUUID();
    await talk(['chat:message', { sessionId, message: `refund ${word}`, clientMessageId: word }], (event, data, send) => {
      failed(event, data);
      if (data.type === 'approval_requested') send('approval:response', { approvalId: data.approvalId, decision: 'approve' });
      if (data.type === 'message_chunk') text.push(data.content);
      return data.type === 'complete' || data.type === 'error' ? data : undefined;
    });
    ensure(text.length > 1 && text.join('').includes(word), text);
    same(count(word), { asked: 1, ran: 1 });
  },
  'a stop': async () => {
    const sessionId = randomUUID();
    const end = await talk(['chat:message', { sessionId, message: 'hang' }], (event, data, send) => {
      failed(event, data);
      if (data.type === 'message_chunk') send('chat:stop', { sessionId });
      return data.type === 'complete' || data.type === 'error' ? data : undefined;
    });
    same([end.type, end.reason], ['complete', 'user_cancelled']);
  },
  'a conversation that is followed after the last event': async () => {
    const sessionId = randomUUID();
    const all = [];
    await talk(['chat:message', { sessionId, message: 'say all of it' }], (event, data) => {
      failed(event, data);
      if (event === 'agent:event') all.push(data);
      return data.type === 'complete' ? data : undefined;
    });
    const rest = [];
    const lastEventIndex = all[1].eventIndex;
    await talk(['session:join', { sessionId, lastEventIndex }], (event, data) => {
      failed(event, data);
      if (event === 'agent:event') rest.push(data);
      return event === 'session:ready' ? data : undefined;
    });
    same(rest, all.slice(2));
  },
  'errors as frames': async () => {
    const seen = await talk(['session:join', { sessionId: 'nobody-has-this' }], (event, data) => ({ event, code: data.code }));
    same(seen, { event: 'session:error', code: 'SESSION_NOT_FOUND' });
  },
});
