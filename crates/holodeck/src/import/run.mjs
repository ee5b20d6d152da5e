// Runs a function of a file, or reads what it exports, and prints the result as JSON.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const print = process.stdout.write.bind(process.stdout);
// What the code prints must not stand beside the result.
console.log = console.info = console.debug = console.error;
process.stdout.write = process.stderr.write.bind(process.stderr);
const { file, function: name, arguments: given } = JSON.parse(readFileSync(0, 'utf8'));
const loaded = await import(pathToFileURL(file));
const exported = loaded.default?.default ?? loaded.default ?? loaded;
const found = name === null || name === 'default' ? exported : (loaded[name] ?? exported[name]);
let result = found;
if (typeof found === 'function') result = await found(...(given ?? []));
else if (name !== null) throw new Error(`there is no function ${name}`);
if (result === undefined) throw new Error('the result is undefined');
// A function within it has no form in JSON: nothing of it may get lost in silence.
const text = JSON.stringify(result, (key, value) => {
  if (typeof value === 'function') throw new Error(`\`${key}\` is a function`);
  return value;
});
print(text, () => process.exit(0));
