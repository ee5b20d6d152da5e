// Asks a model with the protocol of OpenAI once, as promptfoo does: a call of a tool is its answer and is not made.
const settings = SETTINGS;

// A prompt of messages in JSON is sent as such.
function messages(input) {
  try {
    const read = JSON.parse(input);
    if (Array.isArray(read) && read.every((message) => typeof message?.role === 'string')) return read;
  } catch {
    // It is a text.
  }
  return [{ role: 'user', content: input }];
}

export async function answer({ input }) {
  const response = await fetch(`${process.env.CHAT_URL.replace(/\/$/, '')}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.CHAT_KEY}` },
    body: JSON.stringify({ ...settings, messages: messages(input) }),
  });
  const body = await response.text();
  if (!response.ok) return { error: `HTTP ${response.status}: ${body.slice(0, 500)}` };
  const { choices, usage } = JSON.parse(body);
  const { message, finish_reason } = choices?.[0] ?? {};
  if (!message) return { error: `no message in ${body.slice(0, 500)}` };
  const calls = message.tool_calls ?? [];
  let text = message.content ?? '';
  if (calls.length > 0) text = JSON.stringify(message.content ? message : calls);
  // Arguments that are no JSON are the model's mistake, which the assertions see in the text.
  const readable = (text) => {
    try {
      return typeof JSON.parse(text) === 'object';
    } catch {
      return false;
    }
  };
  const made = calls.filter((call) => readable(call.function?.arguments));
  const tool_calls = made.map((call) => ({ name: call.function.name, arguments: JSON.parse(call.function.arguments) }));
  return { text, tool_calls, finish_reason: finish_reason ?? undefined, usage: usage ?? undefined };
}
