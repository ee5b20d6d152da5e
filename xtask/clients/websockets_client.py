"""The WebSocket client `websockets`: conversations, a question, a stop, and what follows the last event that is known."""

import json
import uuid

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from world import GIVEN, count, mark, run, same

ADDRESS = GIVEN["url"].replace("http", "ws") + "/v1/ws"
PROTOCOLS = ["holodeck", "holodeck.token." + GIVEN["token"]]


def talk(event, data, work):
    """Sends a frame, and calls `work` with each answer until it returns something."""
    with connect(ADDRESS, subprotocols=PROTOCOLS) as socket:
        def send(event, data):
            socket.send(json.dumps({"event": event, "data": data}))

        send(event, data)
        while True:
            frame = json.loads(socket.recv(timeout=30))
            found = work(frame["event"], frame["data"], send)
            if found is not None:
                return found


def good(event, data):
    assert not event.endswith(":error"), data


def is_over(data):
    return data if data.get("type") in ("complete", "error") else None


def token():
    for protocols, headers, status in [
        (["holodeck", "holodeck.token.another-0123456789"], {}, 401),
        (PROTOCOLS, {"origin": "https://evil.example"}, 403),
    ]:
        try:
            connect(ADDRESS, subprotocols=protocols, **headers)
        except InvalidStatus as error:
            same(error.response.status_code, status)
        else:
            raise AssertionError("accepted")


def messages():
    word, text = mark(), []

    def work(event, data, send):
        good(event, data)
        if data.get("type") == "approval_requested":
            send("approval:response", {"approvalId": data["approvalId"], "decision": "approve"})
        if data.get("type") == "message_chunk":
            text.append(data["content"])
        return is_over(data)

    talk("chat:message", {"sessionId": str(uuid.uuid4()), "message": f"refund {word}", "clientMessageId": word}, work)
    assert len(text) > 1 and word in "".join(text), text
    same(count(word), (1, 1))


def stop():
    session = str(uuid.uuid4())

    def work(event, data, send):
        good(event, data)
        if data.get("type") == "message_chunk":
            send("chat:stop", {"sessionId": session})
        return is_over(data)

    end = talk("chat:message", {"sessionId": session, "message": "hang"}, work)
    same((end["type"], end["reason"]), ("complete", "user_cancelled"))


def followed():
    session, every, rest = str(uuid.uuid4()), [], []

    def first(event, data, _):
        good(event, data)
        if event == "agent:event":
            every.append(data)
        return is_over(data)

    def then(event, data, _):
        good(event, data)
        if event == "agent:event":
            rest.append(data)
        return data if event == "session:ready" else None

    talk("chat:message", {"sessionId": session, "message": "say all of it"}, first)
    talk("session:join", {"sessionId": session, "lastEventIndex": every[1]["eventIndex"]}, then)
    same(rest, every[2:])


def errors():
    seen = talk("session:join", {"sessionId": "nobody-has-this"}, lambda event, data, _: (event, data.get("code")))
    same(seen, ("session:error", "SESSION_NOT_FOUND"))


run({
    "a token as a subprotocol": token,
    "messages, a tool and a question": messages,
    "a stop": stop,
    "a conversation that is followed after the last event": followed,
    "errors as frames": errors,
})
