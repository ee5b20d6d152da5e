"""A server that follows a script of rules (fixtures/mcp/README.md). Arguments: the script, the default rules, and a file that gets
each method, one on a line. Over the network it prints its port."""
import base64
import hashlib
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

script = json.load(open(sys.argv[1]))
rules = script["rules"] + json.load(open(sys.argv[2]))["rules"]
log = open(sys.argv[3], "a", buffering=1)
state = {"initialized": False, "sessions": 0}
streams = {}
lock = threading.Lock()


def rule_for(message, path=None):
    with lock:
        method = message["method"]
        log.write(method + "\n")
        for rule in rules:
            if rule["method"] != method and not (rule["method"] == "*" and method != "initialize"):
                continue
            if rule.get("before") == "initialize" and state["initialized"]:
                continue
            if "cursor" in rule and (message.get("params") or {}).get("cursor") != rule["cursor"]:
                continue
            if "path" in rule and rule["path"] != path:
                continue
            if "times" in rule:
                if rule["times"] == 0:
                    continue
                rule["times"] -= 1
            if method == "initialize":
                state["initialized"] = True
            return rule


def answer(message, rule):
    if rule.get("answer") == "never":
        return None
    if "exit" in rule:
        sys.exit(rule["exit"])
    if "raw" in rule:
        return rule["raw"].replace("@ID@", json.dumps(message["id"]))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    reply.update({field: rule[field] for field in ("result", "error") if field in rule})
    return json.dumps(reply)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        if script["transport"] == "sse":
            return self.stream()
        if script["transport"] == "websocket":
            return self.talk()
        self.reply(405, {}, "")

    def do_DELETE(self):
        self.reply(405, {}, "")

    def stream(self):
        """Answers are events of this stream, which first names the address for requests."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with lock:
            state["sessions"] += 1
            name = str(state["sessions"])
            streams[name] = queue.Queue()
        self.wfile.write(f"event: endpoint\ndata: /message?session={name}\n\n".encode())
        while True:
            text = streams[name].get()
            lines = "".join(f"data: {line}\n" for line in text.split("\n"))
            self.wfile.write(f"event: message\n{lines}\n".encode())

    def talk(self):
        """Answers are frames of a WebSocket."""
        self.close_connection = True
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("connection", "Upgrade")
        self.send_header("upgrade", "websocket")
        self.send_header("sec-websocket-protocol", "mcp")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while True:
            start = self.rfile.read(2)
            if len(start) < 2 or start[0] & 15 == 8:
                return
            size = start[1] & 127
            if size > 125:
                size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))
            if start[0] & 15 != 1:
                continue
            message = json.loads(data)
            text = answer(message, rule_for(message)) if "id" in message else None
            if text is not None:
                data = text.encode()
                size = len(data).to_bytes(2, "big")
                self.wfile.write(b"\x81" + (bytes([len(data)]) if len(data) < 126 else b"\x7e" + size) + data)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.reply(202, {}, "")
        rule = rule_for(message, self.path)
        if script["transport"] == "sse" and "http" not in rule:
            text = answer(message, rule)
            if text is not None:
                streams[self.path.rpartition("=")[2]].put(text)
            return self.reply(202, {}, "")
        if "http" in rule:
            http = rule["http"]
            body = http["body"].replace("@ID@", json.dumps(message["id"]))
            return self.reply(http["status"], http.get("headers", {}), body)
        headers = {"content-type": "application/json"}
        if message["method"] == "initialize":
            state["sessions"] += 1
            headers["mcp-session-id"] = f"session-{state['sessions']}"
        body = answer(message, rule)
        if body is None:
            threading.Event().wait(600)
        self.reply(200, headers, body)


if script["transport"] != "stdio":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        text = answer(message, rule_for(message))
        if text is not None:
            print(text, flush=True)
