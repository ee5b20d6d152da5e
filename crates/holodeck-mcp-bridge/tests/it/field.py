"""A server that follows a script of rules (fixtures/mcp/README.md). Arguments: the script, the default rules, and a file that gets
each method, one on a line. Over HTTP it prints its port."""
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

script = json.load(open(sys.argv[1]))
rules = script["rules"] + json.load(open(sys.argv[2]))["rules"]
log = open(sys.argv[3], "a", buffering=1)
state = {"initialized": False, "sessions": 0}
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
        self.reply(405, {}, "")

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.reply(202, {}, "")
        rule = rule_for(message, self.path)
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


if script["transport"] == "http":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        text = answer(message, rule_for(message))
        if text is not None:
            print(text, flush=True)
