"""A server on the Python SDK 1: `python1.py stdio`, or `python1.py sse|http PORT`."""

import contextlib
import sys

import anyio
import mcp.types as types
from mcp.server import Server

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

server = Server("station")


@server.list_tools()
async def list_tools():
    return [types.Tool(name=name, description=f"Asks for {name}.", inputSchema=CITY) for name in ("sun", "rain", "fail")]


@server.call_tool()
async def call_tool(name, arguments):
    if name == "fail":
        raise ValueError("the station is closed")
    return [types.TextContent(type="text", text=f"{name} in {arguments['city']}")]


async def stdio():
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def sse():
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def connect(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", endpoint=connect), Mount("/messages/", app=transport.handle_post_message)])


def http():
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(app=server)

    async def handle(scope, receive, send):
        await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with manager.run():
            yield

    # As in the SDK's own examples: `/mcp` redirects to `/mcp/`.
    return Starlette(routes=[Mount("/mcp", app=handle)], lifespan=lifespan)


if sys.argv[1] == "stdio":
    anyio.run(stdio)
else:
    import uvicorn

    app = {"sse": sse, "http": http}[sys.argv[1]]()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]))
