// Grades the calls in an answer as promptfoo does: node graders/tool_calls.mjs SETTINGS.
import { readFileSync } from 'node:fs';

const { kind, inverse, tools, names, threshold } = JSON.parse(process.argv[2]);
const { agent_response: response, tool_invocations: made } = JSON.parse(readFileSync(0, 'utf8'));
let output = response;
try {
  output = JSON.parse(response);
} catch {
  // A text holds no calls.
}
const calls = Array.isArray(output) ? output : (output?.tool_calls ?? []);

const TYPES = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: (value) => Array.isArray(value),
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

// Only these keywords are written here; the import leaves out a schema with another one.
function fits(value, schema) {
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length > 0 && !types.some((type) => TYPES[type](value))) return false;
  if (schema.enum && !schema.enum.some((one) => JSON.stringify(one) === JSON.stringify(value))) return false;
  if (TYPES.array(value) && schema.items && !value.every((item) => fits(item, schema.items))) return false;
  if (!TYPES.object(value)) return true;
  const properties = schema.properties ?? {};
  if (!(schema.required ?? []).every((name) => Object.hasOwn(value, name))) return false;
  const closed = schema.additionalProperties === false;
  return Object.entries(value).every(([name, part]) => (Object.hasOwn(properties, name) ? fits(part, properties[name]) : !closed));
}

function isValid(call) {
  const tool = tools.find((tool) => tool.function?.name === call?.function?.name)?.function;
  if (!tool || typeof call.function.arguments !== 'string') return false;
  try {
    return fits(JSON.parse(call.function.arguments), tool.parameters ?? {});
  } catch {
    return false;
  }
}

function f1() {
  const called = new Set(calls.map((call) => call?.function?.name ?? call?.name).filter(Boolean));
  const expected = new Set(names);
  const common = [...expected].filter((name) => called.has(name)).length;
  return common === 0 ? 0 : (2 * common) / (called.size + expected.size);
}

let graded;
if (kind === 'f1') {
  const score = f1();
  graded = { passed: score >= threshold !== inverse, score, reason: `F1 of the called tools is ${score}` };
} else {
  // A text that looks like calls is none.
  const valid = made.length > 0 && calls.length > 0 && calls.every(isValid);
  graded = { passed: valid !== inverse, score: Number(valid !== inverse), reason: valid ? 'every call is valid' : 'not every call is valid, or there is none' };
}
process.stdout.write(JSON.stringify(graded));
