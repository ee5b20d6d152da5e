// The conformance suite wants a Node that has `fs.globSync`, for a command that is not used here.
import { register } from "node:module";

const hooks = `
export async function resolve(specifier, context, next) {
  if (specifier === "fs" && (context.parentURL ?? "").includes("@modelcontextprotocol/conformance"))
    return { url: "data:text/javascript,export * from 'node:fs'; export const globSync = () => [];",
             shortCircuit: true };
  return next(specifier, context);
}`;
register("data:text/javascript," + encodeURIComponent(hooks));
