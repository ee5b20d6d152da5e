"""Answers with a program of promptfoo: python3 targets/program.py FOLDER PROGRAM ARGUMENT…, with the prompt as the next argument."""

import json
import os
import subprocess
import sys

folder, *command = sys.argv[1:]
request = json.load(sys.stdin)
arguments = command + [request["input"], json.dumps({"config": {}}), json.dumps({"vars": request.get("vars") or {}})]
done = subprocess.run(arguments, capture_output=True, text=True, cwd=os.path.abspath(folder), check=False)
sys.stderr.write(done.stderr)
if done.returncode != 0 or not done.stdout.strip():
    json.dump({"error": f"the program ended with {done.returncode}: {done.stderr.strip()[:500]}"}, sys.stdout)
else:
    json.dump({"text": done.stdout.strip()}, sys.stdout)
