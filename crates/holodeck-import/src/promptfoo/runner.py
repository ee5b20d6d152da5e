"""Grades an answer with an assertion of promptfoo: python3 graders/promptfoo.py FILE FUNCTION SETTINGS."""

import importlib.util
import json
import math
import os
import sys

file, name, settings = sys.argv[1:4]
settings = json.loads(settings)
given = json.load(sys.stdin)
inverse, threshold = settings["inverse"], settings.get("threshold")
output = given["agent_response"]
if settings.get("calls") and given["tool_invocations"]:
    # Calls of tools are a value and not a text.
    output = json.loads(output)
context = {
    "prompt": settings.get("prompt"),
    "vars": settings["vars"],
    "config": settings.get("config"),
    "test": {"vars": settings["vars"], "description": given.get("test_case_name")},
}
# What the assertion prints must not stand beside the result.
answers, sys.stdout = sys.stdout, sys.stderr


def call():
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("assertion", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)(output, context)


def grade(result):
    if isinstance(result, str) and result.lower() in ("true", "false"):
        result = result.lower() == "true"
    if isinstance(result, bool):
        return {"passed": result != inverse, "score": 1 if result != inverse else 0}
    if isinstance(result, str) and result.startswith("{"):
        result = json.loads(result)
    if isinstance(result, dict):
        passed = result.get("pass", result.get("pass_"))
        score = result.get("score")
        if not isinstance(passed, bool) or isinstance(score, bool) or not isinstance(score, (int, float)):
            raise ValueError(f"no {{pass, score, reason}}: {result}")
        if threshold is not None and score < threshold:
            passed = False
        return {"passed": passed != inverse, "score": score, "reason": result.get("reason")}
    score = float(result)
    if math.isnan(score):
        raise ValueError("not a number")
    passed = score > 0 if threshold is None else score >= threshold
    return {"passed": passed != inverse, "score": score}


try:
    graded = grade(call())
except Exception as error:
    # In promptfoo an assertion that throws has failed, also one with `not-`.
    graded = {"passed": False, "score": 0, "reason": f"raised {type(error).__name__}: {error}"}
if not 0 <= graded["score"] <= 1:
    if settings.get("decides"):
        sys.exit(f"the score {graded['score']} is not from 0 to 1, and scores decide this case")
    graded["details"] = {"score": graded["score"]}
    graded["score"] = min(1, max(0, graded["score"]))
json.dump({key: value for key, value in graded.items() if value is not None}, answers)
