// Serves a function to HoloDeck: one line of JSON in, one marked line of JSON out. What the function prints goes to stderr.
import { writeSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [path, name, mark] = process.argv.slice(-3);
process.stdout.write = process.stderr.write.bind(process.stderr);

function send(answer) {
  let data = Buffer.from(`\n${mark}${JSON.stringify(answer)}\n`);
  while (data.length > 0) {
    try {
      data = data.subarray(writeSync(1, data));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

async function load() {
  const module = await import(pathToFileURL(path).href);
  const found = module[name] ?? module.default?.[name];
  if (typeof found !== "function") throw new Error(`no function \`${name}\` in ${basename(path)}`);
  return found;
}

function message(error) {
  if (!(error instanceof Error)) return `${error}`;
  const place = (error.stack ?? "").split("\n").find((line) => line.includes("file://"));
  const at = place?.match(/([^/]+:\d+):\d+\)?$/)?.[1];
  return `${error.name}: ${error.message}${at ? ` (${at})` : ""}`;
}

let loaded;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...request } = JSON.parse(line);
  try {
    loaded ??= await load();
    const returned = await loaded(request);
    if (returned === undefined) throw new TypeError(`\`${name}\` returned nothing`);
    send({ id, returned });
  } catch (error) {
    send({ id, raised: message(error) });
  }
}
