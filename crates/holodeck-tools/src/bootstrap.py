# Runs inside a child process: `describe FILE FUNCTION` prints a schema, `call FILE FUNCTION` calls it.
# It follows reply.py.


def _load(path, name):
    import importlib.util

    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("holodeck_tool", path)
    if spec is None:
        from importlib.machinery import SourceFileLoader

        spec = importlib.util.spec_from_loader("holodeck_tool", SourceFileLoader("holodeck_tool", path))
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and type hints look up their module here.
    sys.modules["holodeck_tool"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        raise LookupError("no function `" + name + "` in " + os.path.basename(path))
    if not callable(function):
        raise LookupError("`" + name + "` in " + os.path.basename(path) + " is not a function")
    return function


def _call(function, arguments):
    import inspect

    positional = []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in arguments:
            positional.append(arguments.pop(parameter.name))
    result = function(*positional, **arguments)
    if inspect.isawaitable(result):
        import asyncio

        async def finish():
            return await result

        result = asyncio.run(finish())
    return result


def _text(result):
    import json

    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return str(result)


def _describe(function):
    import inspect
    import json
    import typing

    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        hints = _resolve_hints_separately(function)
    properties, required, extra = {}, [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
            continue
        schema = _schema(hints.get(parameter.name, typing.Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            try:
                json.dumps(parameter.default, allow_nan=False)
                schema["default"] = parameter.default
            except (TypeError, ValueError):
                pass
        properties[parameter.name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": extra}


def _resolve_hints_separately(function):
    """A hint that can't be resolved must not discard the others."""
    import inspect

    hints = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = parameter.annotation
        if isinstance(hint, str):
            try:
                hint = eval(hint, getattr(function, "__globals__", {}))
            except Exception:
                continue
        if hint is not parameter.empty:
            hints[parameter.name] = hint
    return hints


def _schema(hint, depth=0):
    import collections.abc
    import dataclasses
    import types
    import typing

    if depth > 8:
        return {}
    simple = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    if hint in (str, int, float, bool, type(None)):
        return {"type": simple[hint]}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = _schema(args[0], depth)
        notes = [note for note in args[1:] if isinstance(note, str)]
        if notes:
            schema["description"] = notes[0]
        return schema
    if origin in (getattr(typing, "Required", hint), getattr(typing, "NotRequired", hint)):
        return _schema(args[0], depth)
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is typing.Union or origin is getattr(types, "UnionType", None):
        return {"anyOf": [_schema(arg, depth + 1) for arg in args]}
    kind = origin or hint
    if isinstance(kind, type):
        if getattr(typing, "is_typeddict", lambda _: False)(kind):
            hints = typing.get_type_hints(kind, include_extras=True)
            fields = {name: _schema(hint, depth + 1) for name, hint in hints.items()}
            needed = [name for name in fields if name in kind.__required_keys__]
            return {"type": "object", "properties": fields, "required": needed}
        if issubclass(kind, (list, set, frozenset)) or kind in (
            collections.abc.Sequence,
            collections.abc.Iterable,
            collections.abc.Collection,
        ):
            return {"type": "array", "items": _schema(args[0], depth + 1)} if args else {"type": "array"}
        if issubclass(kind, tuple):
            if len(args) == 2 and args[1] is Ellipsis:
                return {"type": "array", "items": _schema(args[0], depth + 1)}
            return {"type": "array"}
        if issubclass(kind, dict) or kind in (collections.abc.Mapping, collections.abc.MutableMapping):
            if len(args) == 2:
                return {"type": "object", "additionalProperties": _schema(args[1], depth + 1)}
            return {"type": "object"}
        if dataclasses.is_dataclass(kind):
            return {"type": "object"}
    # No schema for other types: the function handles the value itself.
    return {}


def _main():
    verb, path, name = sys.argv[1:4]
    import json

    arguments = json.loads(sys.stdin.buffer.read()) if verb == "call" else None
    try:
        function = _load(path, name)
    except BaseException as error:
        return "!", _message(error)
    try:
        if verb == "describe":
            return "+", json.dumps(_describe(function))
        return "+", _text(_call(function, arguments))
    except BaseException as error:
        return "-", _message(error)


_send(*_main())
