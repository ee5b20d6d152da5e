"""A server on the Python SDK 2: `python2.py stdio`, or `python2.py sse|http PORT`."""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("station")


class Reading(BaseModel):
    degrees: int


@server.tool()
def sun(city: str) -> str:
    """Asks for sun."""
    return f"sun in {city}"


@server.tool()
def rain(city: str) -> str:
    """Asks for rain."""
    return f"rain in {city}"


@server.tool()
def fail(city: str) -> str:
    """Asks for fail."""
    raise ToolError("the station is closed")


@server.tool()
def read(city: str) -> Reading:
    """Asks for degrees."""
    return Reading(degrees=21)


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    transport = {"sse": "sse", "http": "streamable-http"}[sys.argv[1]]
    server.run(transport, host="127.0.0.1", port=int(sys.argv[2]))
