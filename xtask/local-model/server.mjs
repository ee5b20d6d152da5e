// A small OpenAI-compatible server over llama.cpp, on loopback only.
//
//   node server.mjs MODEL.gguf MODEL_ID PORT
//
// POST /v1/chat/completions (streaming or not), GET /v1/models. One request at a time: the model is for recording
// fixtures, not for load. What it cannot do (tools, response formats) it refuses instead of ignoring.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { getLlama } from "node-llama-cpp";

const [modelPath, modelId, portText] = process.argv.slice(2);
const CONTEXT_TOKENS = 2048;
const BODY_LIMIT = 1 << 20;
// What the model's own chat template says when a conversation brings no system message.
const DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false });
const model = await llama.loadModel({ modelPath });
// One thread: with as many as cores, a busy machine makes them wait for each other, a hundredfold slower.
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
const sequence = context.getSequence();

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function textOf(content) {
  if (typeof content === "string") return content;
  if (Array.isArray(content) && content.every((part) => part.type === "text")) {
    return content.map((part) => part.text).join("");
  }
  throw new Refusal(400, "message content must be text");
}

// ChatML, as SmolLM2 was trained on. Contents are tokenised without special tokens, so that a message
// cannot close its own turn.
function promptTokens(messages) {
  if (!Array.isArray(messages) || messages.length === 0) throw new Refusal(400, "messages must be a non-empty list");
  const turns = messages.map(({ role, content }) => {
    if (!["system", "developer", "user", "assistant"].includes(role)) throw new Refusal(400, `role ${role} is not known`);
    return { role: role === "developer" ? "system" : role, text: textOf(content) };
  });
  if (turns[0].role !== "system") turns.unshift({ role: "system", text: DEFAULT_SYSTEM });
  const special = (text) => model.tokenize(text, true);
  const tokens = turns.flatMap(({ role, text }) => [
    ...special("<|im_start|>"),
    ...model.tokenize(`${role}\n${text}`),
    ...special("<|im_end|>\n"),
  ]);
  return [...tokens, ...special("<|im_start|>"), ...model.tokenize("assistant\n")];
}

function number(request, name, fallback) {
  const value = request[name] ?? fallback;
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Refusal(400, `${name} must be a number`);
  return value;
}

function planOf(request) {
  if (request.model !== modelId) throw new Refusal(404, `model ${request.model} does not exist; this server has ${modelId}`);
  for (const name of ["tools", "response_format"]) {
    if (request[name] != null) throw new Refusal(400, `${name} is not supported by this model`);
  }
  const prompt = promptTokens(request.messages);
  const room = CONTEXT_TOKENS - prompt.length;
  if (room < 1) throw new Refusal(400, `the prompt has ${prompt.length} tokens, the context ${CONTEXT_TOKENS}`);
  const limit = request.max_completion_tokens == null ? "max_tokens" : "max_completion_tokens";
  const temperature = number(request, "temperature", 1);
  return {
    prompt,
    most: Math.min(room, number(request, limit, room)),
    // llama.cpp takes the most likely token at temperature 0.
    sampling: { temperature, topP: number(request, "top_p", 1), topK: 0, minP: 0, seed: number(request, "seed", 0) },
  };
}

// Yields pieces of text; returns why it ended and how many tokens that took.
async function* generate({ prompt, most, sampling }, cancelled) {
  await sequence.clearHistory();
  const tokens = [];
  let sent = "";
  for await (const token of sequence.evaluate(prompt, { ...sampling, yieldEogToken: true })) {
    if (cancelled()) return { reason: "cancelled", completion: tokens.length };
    if (model.isEogToken(token)) return { reason: "stop", completion: tokens.length };
    tokens.push(token);
    const text = model.detokenize(tokens);
    // A character may be spread over several tokens.
    if (!text.endsWith("\uFFFD") && text.length > sent.length) {
      yield text.slice(sent.length);
      sent = text;
    }
    if (tokens.length >= most) return { reason: "length", completion: tokens.length };
  }
  return { reason: "stop", completion: tokens.length };
}

async function answer(request, response) {
  const plan = planOf(request);
  const head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: modelId };
  const usage = (completion) => ({
    prompt_tokens: plan.prompt.length,
    completion_tokens: completion,
    total_tokens: plan.prompt.length + completion,
  });
  const pieces = generate(plan, () => response.destroyed);

  if (!request.stream) {
    let content = "";
    let step = await pieces.next();
    for (; !step.done; step = await pieces.next()) content += step.value;
    const { reason, completion } = step.value;
    const choice = { index: 0, message: { role: "assistant", content }, finish_reason: reason };
    sendJson(response, 200, { ...head, object: "chat.completion", choices: [choice], usage: usage(completion) });
    return;
  }

  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  const send = (data) => response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...data })}\n\n`);
  const choice = (delta, finish_reason = null) => ({ choices: [{ index: 0, delta, finish_reason }] });
  send(choice({ role: "assistant", content: "" }));
  let step = await pieces.next();
  for (; !step.done; step = await pieces.next()) send(choice({ content: step.value }));
  const { reason, completion } = step.value;
  send(choice({}, reason));
  if (request.stream_options?.include_usage) send({ choices: [], usage: usage(completion) });
  response.end("data: [DONE]\n\n");
}

function sendJson(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_LIMIT) throw new Refusal(413, "the request is too large");
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new Refusal(400, "the request is not JSON");
  }
}

let turn = Promise.resolve();

const server = createServer(async (request, response) => {
  try {
    const { pathname } = new URL(request.url, "http://localhost");
    if (request.method === "GET" && pathname === "/v1/models") {
      sendJson(response, 200, { object: "list", data: [{ id: modelId, object: "model", created: 0, owned_by: "local" }] });
      return;
    }
    if (request.method !== "POST" || pathname !== "/v1/chat/completions") {
      throw new Refusal(404, `${request.method} ${pathname} does not exist here`);
    }
    const body = await bodyOf(request);
    const mine = turn.then(() => answer(body, response));
    turn = mine.catch(() => {});
    await mine;
  } catch (error) {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const status = error instanceof Refusal ? error.status : 500;
    const type = status < 500 ? "invalid_request_error" : "server_error";
    sendJson(response, status, { error: { message: error.message, type, param: null, code: null } });
  }
});

server.listen(Number(portText), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/v1`);
});
