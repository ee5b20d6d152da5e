"""What the scripts of clients share: the checks are run one after the other, and each prints one line with its outcome."""

import json
import os
import sys
import time
import traceback
import urllib.request

GIVEN = json.loads(sys.argv[1])
_marks = 0


def mark():
    """A word that no other check has."""
    global _marks
    _marks += 1
    return f"p{os.getpid()}x{_marks}q"


def _times(file, word):
    try:
        with open(os.path.join(GIVEN["folder"], file), encoding="utf-8") as text:
            return text.read().count(word)
    except FileNotFoundError:
        return 0


def count(word):
    """How often the model was asked with a word, and how often the tool ran with it."""
    return (_times("asked.txt", word), _times("notes.txt", word))


def idle():
    """Waits until the server answers nobody."""
    request = urllib.request.Request(GIVEN["url"] + "/metrics", headers={"authorization": "Bearer " + GIVEN["token"]})
    for _ in range(100):
        text = urllib.request.urlopen(request).read().decode()
        active = [line for line in text.splitlines() if line.startswith("holodeck_runs_active")]
        if active and active[0].endswith(" 0"):
            return
        time.sleep(0.05)
    raise AssertionError("the server still answers")


def same(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def fails(kind, status, work):
    try:
        work()
    except kind as error:
        same(getattr(error, "status_code", None), status)
        return error
    raise AssertionError(f"no {kind.__name__}")


def run(checks):
    for name, check in checks.items():
        outcome = {"check": name}
        try:
            check()
        except Exception:
            outcome["error"] = traceback.format_exc()
        print(json.dumps(outcome), flush=True)
