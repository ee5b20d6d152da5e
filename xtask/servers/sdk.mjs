// A server on the TypeScript SDK, of releases with and without streamable HTTP: `sdk.mjs stdio`, or `sdk.mjs sse|http PORT`.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [transport, port] = process.argv.slice(2);
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const degrees = { type: "object", properties: { degrees: { type: "integer" } }, required: ["degrees"] };

function station() {
  const server = new Server({ name: "station", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [
      ...["sun", "rain", "fail"].map((name) => ({ name, description: `Asks for ${name}.`, inputSchema: city })),
      // A release that does not know structured content passes it on.
      { name: "read", description: "Asks for degrees.", inputSchema: city, outputSchema: degrees },
    ],
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const text = (text) => [{ type: "text", text }];
    if (params.name === "fail") return { content: text("the station is closed"), isError: true };
    if (params.name === "read") return { content: text("measured"), structuredContent: { degrees: 21 } };
    return { content: text(`${params.name} in ${params.arguments.city}`) };
  });
  return server;
}

async function stdio() {
  const { StdioServerTransport } = await import("@modelcontextprotocol/sdk/server/stdio.js");
  await station().connect(new StdioServerTransport());
}

async function sse() {
  const { SSEServerTransport } = await import("@modelcontextprotocol/sdk/server/sse.js");
  const sessions = new Map();
  return async (request, response) => {
    const url = new URL(request.url, "http://127.0.0.1");
    if (request.method === "GET" && url.pathname === "/sse") {
      const session = new SSEServerTransport("/messages", response);
      sessions.set(session.sessionId, session);
      response.on("close", () => sessions.delete(session.sessionId));
      await station().connect(session);
      return;
    }
    const session = sessions.get(url.searchParams.get("sessionId"));
    if (request.method === "POST" && session) return session.handlePostMessage(request, response);
    response.writeHead(404).end("no such session");
  };
}

async function http() {
  const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const sessions = new Map();
  return async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (!session) {
      // It refuses what is not a handshake by itself.
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, session),
      });
      await station().connect(session);
    }
    await session.handleRequest(request, response);
  };
}

if (transport === "stdio") {
  await stdio();
} else {
  createServer(await { sse, http }[transport]()).listen(Number(port), "127.0.0.1");
}
