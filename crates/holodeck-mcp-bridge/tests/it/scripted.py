"""A server that misbehaves. Arguments: how; then a file for state between starts."""
import json
import os
import sys
import time

how = sys.argv[1]
memory = sys.argv[2] if len(sys.argv) > 2 else None
starts = 0
if memory:
    starts = int(open(memory).read() or "0") if os.path.exists(memory) else 0
    open(memory, "w").write(str(starts + 1))
tools = [
    {"name": "die", "description": "Ends the server.", "inputSchema": {"type": "object"}},
    {"name": "die_reading", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "flood", "inputSchema": {"type": "object"}},
    {"name": "grow", "inputSchema": {"type": "object"}},
    {"name": "hang", "inputSchema": {"type": "object"}},
    {"name": "lists", "inputSchema": {"type": "object"}},
    {"name": "cancelled", "inputSchema": {"type": "object"}},
]
cancelled = []
lists = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool_result(id, text):
    send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})


if how == "broken":
    sys.exit("no such table: " + os.environ.get("TOKEN", ""))
if how == "silent":
    print("this server stays silent", file=sys.stderr, flush=True)
    time.sleep(600)
if how == "deaf":
    # Reads nothing, and has a child that does not either.
    if os.fork() == 0:
        time.sleep(600)
first = True
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if how == "strict" and first and method != "initialize":
        sys.exit("expected initialize")
    if how == "late" and method == "server/discover":
        late = id
        continue
    first = False
    if method == "initialize":
        if how == "late":
            send({"id": late, "error": {"code": -32601, "message": "what?"}})
        version = message["params"]["protocolVersion"]
        if how == "old":
            version = "2024-11-05"
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}},
                                   "serverInfo": {"name": "scripted", "version": "1"}}})
    elif method == "tools/list" and how == "endless":
        lists += 1
        send({"id": id, "result": {"tools": [], "nextCursor": f"more {lists}"}})
    elif method == "tools/list" and how == "schemas":
        # As serialisers write them.
        text, array = {"type": "string"}, {"type": "array"}
        schemas = [
            {"type": "object", "properties": None, "required": None},
            {"type": ["object", "null"], "properties": {}},
            {"anyOf": [{"type": "object", "properties": {"a": text}}, {"type": "object", "properties": {"b": text}}]},
            {"type": "object", "properties": {"tags": array, "deep": {"items": array, "type": "array"}}},
            {"type": "object", "properties": [], "additionalProperties": None, "description": None},
            {"$ref": "#/$defs/in", "$defs": {"in": {"type": "object", "properties": {"a": None}}}},
            {},
        ]
        named = [{"name": f"tool{n}", "inputSchema": schema} for n, schema in enumerate(schemas)]
        send({"id": id, "result": {"tools": named}})
    elif method == "tools/list" and how == "many":
        many = [{"name": f"tool{n}", "inputSchema": {"type": "object"}} for n in range(2001)]
        send({"id": id, "result": {"tools": many}})
    elif method == "tools/list" and how == "large":
        lists += 1
        large = {"name": "large", "description": "x" * 1_000_000, "inputSchema": {"type": "object"}}
        send({"id": id, "result": {"tools": [large], "nextCursor": f"more {lists}"}})
    elif method == "tools/list":
        lists += 1
        send({"id": id, "result": {"tools": tools}})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name in ("die", "die_reading") and (how == "mortal" or starts == 0):
            sys.exit("out of memory")
        if name == "grow":
            tools.append({"name": "grown", "inputSchema": {"type": "object"}})
            send({"method": "notifications/tools/list_changed"})
        if name == "hang":
            continue
        if name == "flood":
            change = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
            for _ in range(300):
                sys.stdout.write(change * 1000)
            sys.stdout.flush()
            lists = 0
        if name == "lists":
            tool_result(id, str(lists))
            continue
        tool_result(id, json.dumps(cancelled) if name == "cancelled" else f"{name} at start {starts}")
    elif method == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "there is no such method"}})
if how == "deaf":
    time.sleep(600)
