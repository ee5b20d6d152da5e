#!/usr/bin/env node
// Runs the program of the package for this platform, in the place of Node where Node can do that.
"use strict";
const { spawn } = require("node:child_process");

let program;
try {
  program = require.resolve(`holodeck-cli-${process.platform}-${process.arch}/bin/holodeck`);
} catch {
  console.error(`error: there is no holodeck for ${process.platform} on ${process.arch}\nhint: install without --omit=optional`);
  process.exit(3);
}
const words = process.argv.slice(2);
if (typeof process.execve === "function") process.execve(program, ["holodeck", ...words], process.env);
const child = spawn(program, words, { stdio: "inherit" });
// The terminal sends Ctrl-C to both; the program decides when it ends.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", ({ message }) => { console.error(`error: ${program}: ${message}`); process.exit(3); });
child.on("exit", (code, signal) => process.exit(signal ? { SIGINT: 130, SIGTERM: 143 }[signal] ?? 1 : code));
