// curl, as people type it.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { count, ensure, given, idle, mark, run, same } from './world.mjs';

/** Runs curl; `until` ends it once it printed that. */
function curl(args, until) {
  const child = spawn('curl', ['-sS', '-H', `authorization: Bearer ${given.token}`, ...args]);
  let text = '';
  return new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      text += data;
      if (until && text.includes(until)) child.kill();
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, text }));
  });
}

const json = (body) => ['-H', 'content-type: application/json', '-d', JSON.stringify(body)];
const at = (path) => given.url + path;

await run({
  'a message and its result': async () => {
    const word = mark();
    const { code, text } = await curl([at(`/v1/sessions/${randomUUID()}/messages?wait=true`), ...json({ message: `note ${word}` })]);
    same(code, 0);
    ensure(JSON.parse(text).response.includes(word), text);
    same(count(word), { asked: 1, ran: 1 });
  },
  'events in pieces, with -N': async () => {
    const session = randomUUID();
    const { text } = await curl(['-N', at(`/v1/sessions/${session}/messages?stream=true`), ...json({ message: 'hang' })], '"content":"so');
    ensure(text.includes('"message_chunk"'), text);
    const { openRun } = JSON.parse((await curl([at(`/v1/sessions/${session}`)])).text);
    await curl(['-X', 'POST', at(`/v1/runs/${openRun}/cancel`)]);
    await idle();
    const stored = (await curl([at(`/v1/sessions/${session}/events`)])).text;
    const ids = stored.split('\n').filter((line) => line.startsWith('id: '));
    const rest = (await curl(['-H', ids[1].replace('id: ', 'Last-Event-ID: '), at(`/v1/sessions/${session}/events`)])).text;
    same(rest.split('\n').filter((line) => line.startsWith('id: ')), ids.slice(2));
  },
  'a file': async () => {
    const file = `${given.folder}/curl.txt`;
    writeFileSync(file, 'Sales rose in May.\n');
    const { text } = await curl(['-F', `file=@${file}`, at('/v1/files')]);
    const { fileId } = JSON.parse(text);
    const body = json({ message: 'say what the file says', attachments: [fileId] });
    const answer = await curl([at(`/v1/sessions/${randomUUID()}/messages?wait=true`), ...body]);
    ensure(JSON.parse(answer.text).response.includes('Sales rose in May.'), answer.text);
  },
  'errors with -f': async () => {
    same((await curl(['-f', '-o', '/dev/null', at('/v1/sessions/nobody-has-this')])).code, 22);
    const { text } = await curl([at('/v1/sessions/nobody-has-this')]);
    same(JSON.parse(text).code, 'SESSION_NOT_FOUND');
  },
});
