"""Answers with a provider of promptfoo."""

import asyncio
import importlib.util
import inspect
import json
import os
import sys

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "SOURCE")
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
spec = importlib.util.spec_from_file_location("provider", path)
provider = importlib.util.module_from_spec(spec)
spec.loader.exec_module(provider)


def answer(request):
    prompt = request["input"]
    context = {"vars": request.get("vars") or {}, "prompt": {"raw": prompt, "label": prompt}}
    result = provider.FUNCTION(prompt, {"config": {}}, context)
    if inspect.isawaitable(result):
        result = asyncio.run(result)
    if isinstance(result, dict) and result.get("error"):
        return {"error": str(result["error"])}
    output = result.get("output") if isinstance(result, dict) else result
    if output is None:
        return {"error": "the provider gave no output"}
    return {"text": output if isinstance(output, str) else json.dumps(output)}
