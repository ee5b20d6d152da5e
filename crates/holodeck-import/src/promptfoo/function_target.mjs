// Answers with a provider of promptfoo.
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const loaded = await import(pathToFileURL(path.resolve(here, '..', 'SOURCE')));
const Provider = loaded.default?.default ?? loaded.default ?? loaded;
const isClass = typeof Provider === 'function' && Provider.prototype?.callApi;
const provider = isClass ? new Provider({ config: {} }) : Provider;
const call = typeof provider === 'function' ? provider : provider.callApi.bind(provider);

export async function answer(request) {
  const prompt = { raw: request.input, label: request.input };
  const result = await call(request.input, { vars: request.vars ?? {}, prompt }, {});
  if (result?.error) return { error: String(result.error) };
  const output = typeof result === 'string' ? result : result?.output;
  if (output === undefined || output === null) return { error: 'the provider gave no output' };
  return { text: typeof output === 'string' ? output : JSON.stringify(output) };
}
