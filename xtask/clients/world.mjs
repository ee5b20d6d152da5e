// What the scripts of clients share: the checks are run one after the other, and each prints one line with its outcome.

import { readFileSync } from 'node:fs';

export const given = JSON.parse(process.argv[2]);

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** A word that no other check has. */
let marks = 0;
const prefix = `m${process.pid.toString(36)}x`;
export const mark = () => `${prefix}${(marks += 1)}q`;

const times = (file, word) => {
  let text = '';
  try {
    text = readFileSync(`${given.folder}/${file}`, 'utf8');
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  return text.split(word).length - 1;
};

/** How often the model was asked with a word, and how often the tool ran with it. */
export const count = (word) => ({ asked: times('asked.txt', word), ran: times('notes.txt', word) });

/** Waits until the server answers nobody. */
export async function idle() {
  for (let tries = 0; tries < 100; tries += 1) {
    const answer = await fetch(`${given.direct ?? given.url}/metrics`, { headers: { authorization: `Bearer ${given.token}` } });
    if (/^holodeck_runs_active(\{.*\})? 0$/m.test(await answer.text())) return;
    await sleep(50);
  }
  throw new Error('the server still answers');
}

export function ensure(holds, ...why) {
  if (!holds) throw new Error(why.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
}

export function same(found, wanted) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  ensure(left === right, `${left} instead of ${right}`);
}

/** Runs checks by name. One that is not over after a minute has failed. */
export async function run(checks) {
  for (const [check, work] of Object.entries(checks)) {
    let timer;
    const late = new Promise((_, fail) => {
      timer = setTimeout(() => fail(new Error('not over after a minute')), 60_000);
    });
    try {
      await Promise.race([work(), late]);
      console.log(JSON.stringify({ check }));
    } catch (error) {
      console.log(JSON.stringify({ check, error: `${error.stack ?? error}` }));
    }
    clearTimeout(timer);
  }
}
