# Runs inside a child process: `check FOLDER MODULE FUNCTION` imports a grader, `call FOLDER MODULE FUNCTION` calls it.
# It follows reply.py.


def _provide():
    """Provides the modules that graders import."""
    import dataclasses
    import types
    import typing

    @dataclasses.dataclass(frozen=True)
    class ToolInvocation:
        name: str
        args: typing.Dict[str, typing.Any] = dataclasses.field(default_factory=dict)
        result: typing.Any = None
        bytes: int = 0
        duration_ms: typing.Optional[int] = None
        error: typing.Optional[str] = None

    @dataclasses.dataclass(frozen=True)
    class GraderContext:
        turn_input: str
        agent_response: str
        ground_truth: typing.Optional[str] = None
        tool_invocations: typing.Tuple[ToolInvocation, ...] = ()
        retrieval_context: typing.Optional[typing.Tuple[str, ...]] = None
        turn_index: int = 0
        test_case_name: typing.Optional[str] = None
        turn_config: typing.Dict[str, typing.Any] = dataclasses.field(default_factory=dict)
        # Of a whole conversation: a context for each turn.
        turns: typing.Tuple["GraderContext", ...] = ()

    @dataclasses.dataclass(frozen=True)
    class GraderResult:
        score: float
        passed: typing.Optional[bool] = None
        reason: typing.Optional[str] = None
        details: typing.Optional[typing.Dict[str, typing.Any]] = None

    contents = {
        "holodeck.lib.test_runner.code_grader": (GraderContext, GraderResult, ToolInvocation),
        "holodeck.models.test_result": (ToolInvocation,),
    }
    for path, classes in contents.items():
        parts = path.split(".")
        parent = None
        for depth in range(len(parts)):
            name = ".".join(parts[: depth + 1])
            module = sys.modules.get(name)
            if module is None:
                module = types.ModuleType(name)
                module.__path__ = []
                sys.modules[name] = module
            if parent is not None:
                setattr(parent, parts[depth], module)
            parent = module
        for item in classes:
            setattr(parent, item.__name__, item)
            if item.__module__ == "__main__":
                item.__module__ = path
    return GraderContext, GraderResult, ToolInvocation


def _load(folder, module, name):
    import importlib

    # `-c` puts an empty entry first, which stands for the working directory.
    sys.path[:1] = [folder]
    function = getattr(importlib.import_module(module), name, None)
    if function is None:
        raise LookupError("no function `" + name + "` in module `" + module + "`")
    if not callable(function):
        raise LookupError("`" + name + "` in module `" + module + "` is not a function")
    return function


def _call(function, values, classes):
    import inspect

    context_class, _, invocation_class = classes

    def context(values):
        values["tool_invocations"] = tuple(invocation_class(**call) for call in values["tool_invocations"])
        if values["retrieval_context"] is not None:
            values["retrieval_context"] = tuple(values["retrieval_context"])
        values["turns"] = tuple(context(turn) for turn in values.get("turns", ()))
        return context_class(**values)

    result = function(context(values))
    if inspect.isawaitable(result):
        import asyncio

        async def finish():
            return await result

        result = asyncio.run(finish())
    return result


class _NotAScore(Exception):
    """The function returned, and not a score."""


def _number(value, what):
    import numbers

    if not isinstance(value, numbers.Real):
        raise _NotAScore(what + " is of type `" + type(value).__name__ + "`, not a number")
    try:
        number = float(value)
    except OverflowError:
        raise _NotAScore(what + " is too large for a number") from None
    if number.is_integer() and number != value:
        raise _NotAScore(what + " is not " + str(number) + ", to which it would be rounded")
    value = number
    if value != value or value in (float("inf"), float("-inf")):
        raise _NotAScore(what + " is " + str(value) + ", not a score")
    return value


def _boolean(value, what):
    # NumPy has its own boolean.
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(what + " is of type `" + type(value).__name__ + "`, not a boolean")


def _text(result, result_class):
    import json

    if isinstance(result, result_class):
        result = {name: getattr(result, name) for name in ("score", "passed", "reason", "details")}
    if isinstance(result, dict):
        value = dict(result)
        if "score" in value:
            value["score"] = _number(value["score"], "`score`")
        if value.get("passed") is not None:
            value["passed"] = _boolean(value["passed"], "`passed`")
    elif isinstance(result, bool) or type(result).__name__ == "bool_":
        value = bool(result)
    else:
        value = _number(result, "the result")
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)


def _main():
    verb, folder, module, name = sys.argv[1:5]
    import json

    values = json.loads(sys.stdin.buffer.read()) if verb == "call" else None
    classes = _provide()
    try:
        function = _load(folder, module, name)
    except BaseException as error:
        return "!", _message_with_place(error, folder)
    if verb == "check":
        return "+", "null"
    try:
        return "+", _text(_call(function, values, classes), classes[1])
    except _NotAScore as error:
        return "?", str(error)
    except BaseException as error:
        return "-", _message_with_place(error, folder)


_send(*_main())
