"""A server on FastMCP of Python: `fast.py stdio`, or `fast.py sse|http PORT`."""

import sys

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel

server = FastMCP("station")


class Reading(BaseModel):
    degrees: int


@server.tool
def sun(city: str) -> str:
    """Asks for sun."""
    return f"sun in {city}"


@server.tool
def rain(city: str) -> str:
    """Asks for rain."""
    return f"rain in {city}"


@server.tool
def fail(city: str) -> str:
    """Asks for fail."""
    raise ToolError("the station is closed")


@server.tool
def read(city: str) -> Reading:
    """Asks for degrees."""
    return Reading(degrees=21)


if sys.argv[1] == "stdio":
    server.run(transport="stdio")
else:
    server.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
