// Grades an answer with an assertion of promptfoo: node graders/promptfoo.mjs FILE FUNCTION SETTINGS.
// FUNCTION is `-` for code that stands alone in FILE; it then sees `output`, `context` and `process`.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [file, name, settings] = process.argv.slice(2);
const { vars, inverse, threshold, prompt, config, decides, calls } = JSON.parse(settings);
const input = JSON.parse(readFileSync(0, 'utf8'));
// Calls of tools are a value and not a text.
const output = calls && input.tool_invocations.length > 0 ? JSON.parse(input.agent_response) : input.agent_response;
const context = { prompt, vars, config, test: { vars, description: input.test_case_name } };
const full = path.resolve(file);
const require = createRequire(full);

async function load() {
  if (name === '-') {
    const shim = { env: {}, mainModule: { require } };
    return () => new Function('output', 'context', 'process', readFileSync(full, 'utf8'))(output, context, shim);
  }
  const loaded = await import(pathToFileURL(full));
  const module = loaded.default ?? loaded;
  const found = name === 'default' ? (module.default ?? module) : (loaded[name] ?? module[name]);
  if (typeof found !== 'function') throw new Error(`${file} has no function ${name}`);
  return () => found(output, context);
}

function grade(result) {
  if (typeof result === 'boolean') return { passed: result !== inverse, score: result !== inverse ? 1 : 0 };
  if (typeof result === 'number') {
    const passed = (threshold === undefined ? result > 0 : result >= threshold) !== inverse;
    return { passed, score: result };
  }
  if (typeof result === 'object' && typeof result?.pass === 'boolean' && typeof result?.score === 'number') {
    return { passed: result.pass !== inverse, score: result.score, reason: result.reason };
  }
  throw new Error(`neither a boolean, a number nor {pass, score, reason}: ${JSON.stringify(result)}`);
}

// What the assertion prints must not stand beside the result.
console.log = console.error;
let graded;
try {
  graded = grade(await (await load())());
} catch (error) {
  // In promptfoo an assertion that throws has failed, also one with `not-`.
  graded = { passed: false, score: 0, reason: `threw ${error?.message ?? error}` };
}
if (!Number.isFinite(graded.score)) throw new Error(`the score is ${graded.score}`);
if (graded.score < 0 || graded.score > 1) {
  if (decides) throw new Error(`the score ${graded.score} is not from 0 to 1, and scores decide this case`);
  graded = { ...graded, details: { score: graded.score }, score: Math.min(1, Math.max(0, graded.score)) };
}
process.stdout.write(JSON.stringify({ ...graded, reason: graded.reason || undefined }));
process.exit(0);
