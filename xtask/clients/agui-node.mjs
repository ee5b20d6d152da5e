// AG-UI's client in Node, whose messages are the history. It checks the order of the events by itself.

import { randomUUID } from 'node:crypto';
import { HttpAgent } from '@ag-ui/client';
import { count, ensure, given, idle, mark, run, same } from './world.mjs';

const warnings = [];
console.warn = (...words) => warnings.push(words.join(' '));

const headers = { authorization: `Bearer ${given.token}` };
const connect = (more) => new HttpAgent({ url: `${given.url}/awp`, headers, threadId: randomUUID(), ...more });
const say = (agent, content) => agent.addMessage({ id: randomUUID(), role: 'user', content });
const texts = (agent) => agent.messages.filter(({ role, content }) => role !== 'tool' && content).map(({ content }) => content);

async function ask(agent, content, more, subscriber) {
  if (content) say(agent, content);
  await agent.runAgent({ runId: randomUUID(), ...more }, subscriber);
  return agent.messages.at(-1).content;
}

/** What a stored conversation says, as another client reads it. */
async function rest(path, body) {
  const method = body ? 'POST' : 'GET';
  const type = body ? { 'content-type': 'application/json' } : {};
  const answer = await fetch(given.url + path, { method, headers: { ...headers, ...type }, body: body && JSON.stringify(body) });
  return answer.json();
}

async function stopped(agent) {
  let isAborted = false;
  const subscriber = {
    onTextMessageContentEvent: () => {
      if (!isAborted) agent.abortRun();
      isAborted = true;
    },
  };
  await ask(agent, 'hang', {}, subscriber).catch(() => {});
  ensure(isAborted, 'no text came');
}

const checks = {
  'messages, and a tool': async () => {
    const agent = connect();
    same(await ask(agent, 'say one'), 'say one');
    same(await ask(agent, 'say two'), 'say one+say two');
    const word = mark();
    const types = [];
    const answer = await ask(agent, `note ${word}`, {}, { onEvent: ({ event }) => void types.push(event.type) });
    ensure(answer.startsWith('It said ') && answer.includes(word), answer);
    same(count(word), { asked: 1, ran: 1 });
    same([types[0], types.at(-1)], ['RUN_STARTED', 'RUN_FINISHED']);
    ensure(agent.messages.some(({ role, content }) => role === 'tool' && content.includes(word)), 'no result', agent.messages);
    ensure(types.filter((type) => type === 'TEXT_MESSAGE_CONTENT').length > 1, 'one piece', types);
    // A tool in the history changes nothing.
    same((await ask(agent, 'say three')).split('+').at(-1), 'say three');
  },
  'a question about a tool': async () => {
    for (const approved of [true, false]) {
      const agent = connect();
      const word = mark();
      await ask(agent, `refund ${word}`);
      const asked = agent.pendingInterrupts;
      same([asked.length, count(word).ran], [1, 0]);
      const resume = asked.map(({ id }) => ({ interruptId: id, status: 'resolved', payload: { approved } }));
      const answer = await ask(agent, null, { resume });
      ensure(answer.startsWith('It said '), answer);
      same([agent.pendingInterrupts, count(word).ran], [[], approved ? 1 : 0]);
      same((await ask(agent, 'say on')).split('+').at(-1), 'say on');
    }
  },
  'a question that another page answers': async () => {
    const agent = connect();
    const word = mark();
    await ask(agent, `refund ${word}`);
    const { approvals } = await rest(`/v1/approvals?sessionId=${agent.threadId}`);
    same(approvals.length, 1);
    await rest(`/v1/approvals/${approvals[0].approvalId}`, { decision: 'approve' });
    await idle();
    same(count(word), { asked: 1, ran: 1 });
  },
  'a stop, after which the thread continues': async () => {
    const agent = connect();
    await stopped(agent);
    await idle();
    same(await ask(agent, 'say on'), 'hang+say on');
  },
  'an answer asked for again': async () => {
    const agent = connect();
    await ask(agent, 'say one');
    same(await ask(agent, 'say two'), 'say one+say two');
    agent.setMessages(agent.messages.slice(0, -1));
    same(await ask(agent), 'say one+say two');
    same(texts(agent), ['say one', 'say one', 'say two', 'say one+say two']);
    const word = mark();
    await ask(agent, `note ${word}`);
    // Up to the question: the call and its result are asked for again, too.
    const from = agent.messages.findIndex(({ role, content }) => role === 'user' && content.includes(word));
    agent.setMessages(agent.messages.slice(0, from + 1));
    const answer = await ask(agent);
    ensure(answer.includes(word), answer);
    same(count(word), { asked: 2, ran: 2 });
  },
  'a message that was changed': async () => {
    const agent = connect();
    await ask(agent, 'say one');
    await ask(agent, 'say two');
    agent.setMessages([{ id: randomUUID(), role: 'user', content: 'say changed' }]);
    same(await ask(agent), 'say changed');
    same(await ask(agent, 'say on'), 'say changed+say on');
    const stored = await rest(`/v1/sessions/${agent.threadId}`);
    same(stored.sessionId, agent.threadId);
  },
  'a run that is sent again': async () => {
    const agent = connect();
    const word = mark();
    const runId = randomUUID();
    say(agent, `note ${word}`);
    const before = agent.messages.slice();
    await agent.runAgent({ runId });
    agent.setMessages(before);
    await agent.runAgent({ runId });
    ensure(agent.messages.at(-1).content.includes(word), agent.messages);
    same(count(word), { asked: 1, ran: 1 });
  },
  'errors': async () => {
    const failures = [];
    const subscriber = { onRunErrorEvent: ({ event }) => void failures.push(event.message) };
    const agent = connect();
    await ask(agent, 'fail', {}, subscriber).catch((error) => failures.push(String(error)));
    ensure(failures.length > 0 && !failures.join().includes('127.0.0.1'), failures);
    same((await ask(agent, 'say on')).split('+').at(-1), 'say on');
    const stranger = connect({ headers: { authorization: 'Bearer another-0123456789' } });
    const refused = await ask(stranger, 'hello').then(() => null, String);
    ensure(refused?.includes('401'), refused);
  },
  'no warning': async () => same(warnings, []),
};

const wanted = new Set(given.checks);
await run(Object.fromEntries(Object.entries(checks).filter(([name]) => wanted.has(name))));
