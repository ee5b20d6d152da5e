# Serves a function to HoloDeck: one line of JSON in, one marked line of JSON out. What the function prints goes to stderr.
import json
import os
import sys

_path, _name, _mark = sys.argv[1:4]
# Answers have their own descriptor; everything printed to stdout, also by C code and child processes, goes to stderr.
_answers = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)
_NAMES = ("input", "messages", "session_id", "files", "vars")


def _load():
    import importlib.util

    sys.path.insert(0, os.path.dirname(_path))
    spec = importlib.util.spec_from_file_location("holodeck_target", _path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["holodeck_target"] = module
    spec.loader.exec_module(module)
    function = getattr(module, _name, None)
    if not callable(function):
        raise LookupError("no function `" + _name + "` in " + os.path.basename(_path))
    return function


def _arguments(function, request):
    import inspect

    arguments = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name == "request":
            arguments["request"] = request
        elif parameter.name in _NAMES:
            arguments[parameter.name] = request[parameter.name]
        elif parameter.default is parameter.empty:
            known = ", ".join("`" + name + "`" for name in _NAMES)
            raise TypeError(
                "`" + _name + "` has a parameter `" + parameter.name + "`; the names are " + known + ", or `request` for all"
            )
    return arguments


def _message(error):
    import traceback

    places = traceback.extract_tb(error.__traceback__)
    own = [place for place in places if place.filename != "<string>"]
    name = type(error).__name__
    text = name + ": " + str(error) if str(error) else name
    if own:
        text += " (" + os.path.basename(own[-1].filename) + ":" + str(own[-1].lineno) + ", in " + own[-1].name + ")"
    return text


def _plain(value):
    import dataclasses
    import datetime
    import decimal
    import pathlib
    import uuid

    # A text has every digit, which a number of JSON has not.
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump()
    raise TypeError("the function returned a " + type(value).__name__ + ", which is neither a text nor JSON")


def _serve():
    import asyncio
    import inspect

    loop = None
    function = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        number = request.pop("id")
        answer = {"id": number}
        try:
            if function is None:
                function = _load()
            result = function(**_arguments(function, request))
            if inspect.isawaitable(result):
                loop = loop or asyncio.new_event_loop()

                async def finish(result=result):
                    return await result

                result = loop.run_until_complete(finish())
            answer["returned"] = result
            text = json.dumps(answer, ensure_ascii=True, allow_nan=False, default=_plain)
        except BaseException as error:
            if isinstance(error, SystemExit):
                raise
            text = json.dumps({"id": number, "raised": _message(error)})
        sys.stdout.flush()
        data = ("\n" + _mark + text + "\n").encode("utf-8", "backslashreplace")
        while data:
            data = data[_answers.write(data):]


_serve()
