// OpenAI's library, in Node and in a page: what its users do with an agent, with its own defaults. Every check is an outcome.

/** The checks by the words of the table. `library` is the module, `world` what only its surroundings can do. */
export function checks(library, { url, token, world, options = {} }) {
  const { default: OpenAI } = library;
  const baseURL = `${url}/v1`;
  const api = new OpenAI({ apiKey: token, baseURL, ...options });
  const stranger = new OpenAI({ apiKey: 'another-0123456789', baseURL, ...options });
  const ask = (content, more) => ({ model: 'desk', messages: [{ role: 'user', content }], ...more });
  const { completions } = api.chat;

  return {
    'models': async () => {
      const ids = [];
      for await (const model of api.models.list()) ids.push(model.id);
      same(ids, ['desk']);
      same((await api.models.retrieve('desk')).id, 'desk');
      await fails(library.NotFoundError, 404, () => api.models.retrieve('nothing'));
    },
    'chat completions, whole and streamed': async () => {
      const whole = await completions.create(ask('chat one'));
      same([whole.choices[0].message.content, whole.choices[0].finish_reason], ['chat one', 'stop']);
      ensure(whole.usage.total_tokens > 0, 'no usage', whole);
      const stream = await completions.create(ask('chat two words', { stream: true, stream_options: { include_usage: true } }));
      const chunks = [];
      for await (const chunk of stream) chunks.push(chunk);
      const pieces = chunks.map((chunk) => chunk.choices[0]?.delta.content).filter(Boolean);
      same(pieces.join(''), 'chat two words');
      ensure(pieces.length > 1, 'one piece', chunks);
      ensure(chunks.at(-1).usage.total_tokens > 0, 'no usage', chunks.at(-1));
      same(await completions.stream(ask('chat three')).finalContent(), 'chat three');
    },
    'responses, whole, streamed and continued': async () => {
      const first = await api.responses.create({ model: 'desk', input: 'say one' });
      same([first.status, first.output_text], ['completed', 'say one']);
      const second = await api.responses.create({ model: 'desk', input: 'say two', previous_response_id: first.id });
      same(second.output_text, 'say one+say two');
      same((await api.responses.retrieve(second.id)).output_text, 'say one+say two');
      const stream = await api.responses.create({ model: 'desk', input: 'say three words', stream: true });
      const events = [];
      for await (const event of stream) events.push(event);
      same([events[0].type, events.at(-1).type], ['response.created', 'response.completed']);
      const deltas = events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);
      ensure(deltas.length > 1, 'one piece', deltas);
      same([deltas.join(''), events.at(-1).response.output_text ?? deltas.join('')], ['say three words', 'say three words']);
      const final = await api.responses.stream({ model: 'desk', input: 'say four' }).finalResponse();
      same(final.output_text, 'say four');
    },
    'a tool, and one that needs a person': async () => {
      const mark = world.mark();
      const answer = await completions.create(ask(`note ${mark}`));
      ensure(answer.choices[0].message.content.includes(mark), 'no result', answer);
      same((await world.count(mark)).ran, 1);
      const asked = world.mark();
      const refused = await completions.create(ask(`refund ${asked}`));
      ensure(refused.choices[0].message.content.startsWith('It said '), 'no answer', refused);
      same((await world.count(asked)).ran, 0);
    },
    'errors by class': async () => {
      await fails(library.AuthenticationError, 401, () => stranger.chat.completions.create(ask('hello')));
      await fails(library.AuthenticationError, 401, () => stranger.responses.create({ model: 'desk', input: 'hello' }));
      await fails(library.NotFoundError, 404, () => completions.create(ask('hello', { model: 'nothing' })));
      await fails(library.NotFoundError, 404, () => api.responses.retrieve('resp_nothing'));
      const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
      const refused = await fails(library.BadRequestError, 400, () => completions.create(ask('hello', { tools })));
      same(refused.param, 'tools');
      const shown = [];
      await fails(library.APIError, undefined, async () => {
        const stream = await completions.create(ask('fail', { stream: true }));
        for await (const chunk of stream) shown.push(chunk);
      });
    },
    'one call when an answer fails after a tool ran': async () => {
      const [after, without, response] = [world.mark(), world.mark(), world.mark()];
      await fails(library.InternalServerError, 502, () => completions.create(ask(`note, then fail ${after}`)));
      same(await world.count(after), { asked: 1, ran: 1 });
      await fails(library.InternalServerError, 502, () => api.responses.create({ model: 'desk', input: `note, then fail ${response}` }));
      same(await world.count(response), { asked: 1, ran: 1 });
      // Nothing was done: its two retries show that it would.
      await fails(library.InternalServerError, 502, () => completions.create(ask(`fail ${without}`)));
      same(await world.count(without), { asked: 3, ran: 0 });
    },
    'with a key, retries run no tool twice': async () => {
      const [slow, lost, failed, again] = [world.mark(), world.mark(), world.mark(), world.mark()];
      const keyed = (mark) => ({ headers: { 'Idempotency-Key': `key-${mark}` } });
      // The answer takes longer than the client waits, who asks twice more.
      const answer = await completions.create(ask(`note, then wait ${slow}`), { ...keyed(slow), timeout: 1000 });
      ensure(answer.choices[0].message.content.includes(slow), 'no result', answer);
      same(await world.count(slow), { asked: 1, ran: 1 });
      const waiting = (more) => completions.create(ask(`note, then wait ${lost}`), { ...keyed(lost), ...more });
      await fails(library.APIConnectionTimeoutError, undefined, () => waiting({ timeout: 1000, maxRetries: 0 }));
      ensure((await waiting({})).choices[0].message.content.includes(lost), 'no result');
      same(await world.count(lost), { asked: 1, ran: 1 });
      const failing = () => completions.create(ask(`note, then fail ${failed}`), keyed(failed));
      await fails(library.InternalServerError, 502, failing);
      await fails(library.InternalServerError, 502, failing);
      same(await world.count(failed), { asked: 1, ran: 1 });
      const one = await completions.create(ask(`note ${again}`), keyed(again));
      const two = await completions.create(ask(`note ${again}`), keyed(again));
      same(two.id, one.id);
      same(await world.count(again), { asked: 1, ran: 1 });
      await fails(library.UnprocessableEntityError, 422, () => completions.create(ask('another'), keyed(again)));
    },
    'a stream that is left': async () => {
      const stream = await completions.create(ask('hang', { stream: true }));
      for await (const chunk of stream) {
        if (chunk.choices[0]?.delta.content) break;
      }
      stream.controller.abort();
      await world.idle();
    },
  };
}

function ensure(holds, ...why) {
  if (!holds) throw new Error(why.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
}

function same(found, wanted) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  ensure(left === right, `${left} instead of ${right}`);
}

async function fails(kind, status, work) {
  try {
    await work();
  } catch (error) {
    ensure(error instanceof kind && error.status === status, `${error.constructor.name} ${error.status} instead of ${kind.name} ${status}:`, String(error));
    return error;
  }
  throw new Error(`no ${kind.name}`);
}
