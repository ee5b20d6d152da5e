"""Runs a function of a file and prints the result as JSON."""

import asyncio
import importlib.util
import inspect
import json
import os
import sys

answers, sys.stdout = sys.stdout, sys.stderr
request = json.load(sys.stdin)
path = request["file"]
sys.path.insert(0, os.path.dirname(path))
spec = importlib.util.spec_from_file_location("source", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
result = getattr(module, request["function"])(*(request["arguments"] or []))
if inspect.isawaitable(result):
    result = asyncio.run(result)
json.dump(result, answers, allow_nan=False)
