// A server on FastMCP of TypeScript: `fast.mjs stdio`, or `fast.mjs sse|http PORT` (it serves both).
import { FastMCP, UserError } from "fastmcp";
import { z } from "zod";

const [transport, port] = process.argv.slice(2);
const server = new FastMCP({ name: "station", version: "1.0.0" });
const parameters = z.object({ city: z.string() });

for (const name of ["sun", "rain"]) {
  const execute = async ({ city }) => `${name} in ${city}`;
  server.addTool({ name, description: `Asks for ${name}.`, parameters, execute });
}
server.addTool({
  name: "fail",
  description: "Asks for fail.",
  parameters,
  execute: async () => {
    throw new UserError("the station is closed");
  },
});
server.addTool({
  name: "read",
  description: "Asks for degrees.",
  parameters,
  outputSchema: z.object({ degrees: z.number().int() }),
  execute: async () => ({ content: [{ type: "text", text: "measured" }], structuredContent: { degrees: 21 } }),
});

if (transport === "stdio") {
  await server.start({ transportType: "stdio" });
} else {
  await server.start({ transportType: "httpStream", httpStream: { port: Number(port), host: "127.0.0.1" } });
}
