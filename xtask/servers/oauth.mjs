// An MCP server with a tool, behind the authorization server `oidc-provider`. Every person who comes agrees, and tokens are short-lived.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const port = Number(process.argv[2]);
const [issuer, mcp] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${port + 1}/mcp`];
const provider = new Provider(issuer, {
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => {
        if (resource !== mcp) throw new Error(`another resource: ${resource}`);
        return { scope: "weather.read", accessTokenFormat: "opaque", accessTokenTTL: 60 };
      },
      useGrantedResource: () => true,
    },
  },
  pkce: { required: () => true },
  scopes: ["openid", "offline_access", "weather.read"],
  rotateRefreshToken: true,
  issueRefreshToken: () => true,
  clientDefaults: { token_endpoint_auth_method: "none" },
  interactions: { url: (_, interaction) => `/agree/${interaction.uid}` },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/agree/")) return next();
  const { params, session, prompt } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === "login") {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: "ada" } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope("openid offline_access weather.read");
  grant.addResourceScope(mcp, "weather.read");
  return provider.interactionFinished(ctx.req, ctx.res, { consent: { grantId: await grant.save() } });
});
provider.listen(port, "127.0.0.1");

createServer(async (request, response) => {
  const answer = (status, body, headers = {}) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body === undefined ? "" : JSON.stringify(body));
  };
  if (request.url === "/.well-known/oauth-protected-resource/mcp") {
    return answer(200, { resource: mcp, authorization_servers: [issuer], scopes_supported: ["weather.read"] });
  }
  const value = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  const token = value && (await provider.AccessToken.find(value));
  if (!token || token.aud !== mcp) {
    const metadata = `http://127.0.0.1:${port + 1}/.well-known/oauth-protected-resource/mcp`;
    return answer(401, { error: "invalid_token" }, { "www-authenticate": `Bearer resource_metadata="${metadata}"` });
  }
  let text = "";
  for await (const part of request) text += part;
  if (request.method !== "POST") return answer(405);
  const { id, method, params } = JSON.parse(text);
  const result = {
    initialize: () => ({
      protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "weather", version: "1" },
    }),
    "tools/list": () => ({ tools: [{ name: "sun", inputSchema: { type: "object" } }] }),
    "tools/call": () => ({ content: [{ type: "text", text: `sun in ${params.arguments.city}` }] }),
  }[method];
  if (id === undefined) return answer(202);
  answer(200, result ? { jsonrpc: "2.0", id, result: result() } : { jsonrpc: "2.0", id, error: { code: -32601, message: "no" } });
}).listen(port + 1, "127.0.0.1", () => console.log("listening"));
