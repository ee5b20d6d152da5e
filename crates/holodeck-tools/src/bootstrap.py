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
        hints = _hints(function)
    except (TypeError, ValueError):
        parameters, hints = (), {}
    for parameter in parameters:
        if parameter.name in arguments and parameter.name in hints:
            arguments[parameter.name] = _convert(arguments[parameter.name], hints[parameter.name])
        if parameter.kind is parameter.POSITIONAL_ONLY:
            if parameter.name in arguments:
                positional.append(arguments.pop(parameter.name))
            elif parameter.default is not parameter.empty:
                positional.append(parameter.default)
            else:
                raise TypeError("the argument `" + parameter.name + "` is missing")
    result = function(*positional, **arguments)
    if inspect.isawaitable(result):
        import asyncio

        async def finish():
            return await result

        result = asyncio.run(finish())
    elif inspect.isasyncgen(result):
        import asyncio

        async def collect():
            return iter([piece async for piece in result])

        result = asyncio.run(collect())
    return result


def _text(result):
    import collections.abc
    import json

    if isinstance(result, str):
        return result
    # A generator's result is the list of its pieces; other results are JSON or their text.
    default = None
    if isinstance(result, collections.abc.Iterator):
        result, default = list(result), _plain
    try:
        return json.dumps(result, ensure_ascii=False, allow_nan=False, default=default)
    except (TypeError, ValueError):
        return str(result)


def _plain(value):
    """The JSON of a value that JSON does not have."""
    import collections.abc
    import dataclasses
    import datetime
    import decimal
    import enum
    import pathlib
    import uuid

    if isinstance(value, enum.Enum):
        return value.value if value.value in _members(type(value)) else value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        # In an order that does not depend on the process.
        return sorted(value, key=repr)
    if isinstance(value, (collections.abc.Iterator, collections.deque)):
        return list(value)
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    raise TypeError(type(value).__name__)


def _hints(function):
    import typing

    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        return _resolve_hints_separately(function)


def _describe(function):
    import inspect
    import json
    import typing

    hints = _hints(function)
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
                schema["default"] = json.loads(json.dumps(parameter.default, allow_nan=False, default=_plain))
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


def _kind(hint):
    """A hint without what says nothing about the value: its class, its arguments, and a description."""
    import typing

    description = None
    while True:
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            notes = [note for note in args[1:] if isinstance(note, str)]
            description = description or (notes[0] if notes else None)
            hint = args[0]
        elif origin in (getattr(typing, "Required", hint), getattr(typing, "NotRequired", hint)):
            hint = args[0]
        elif type(hint).__name__ == "InitVar":
            hint = hint.type
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__") and not isinstance(hint, type):
            hint = hint.__value__
        else:
            return origin or hint, args, description


def _is_union(kind):
    import types
    import typing

    return kind is typing.Union or kind is getattr(types, "UnionType", typing.Union)


def _is_typed_dict(kind):
    import typing

    return getattr(typing, "is_typeddict", lambda _: False)(kind)


def _items_of(kind):
    """The class of an array's values in Python, if values of this class are arrays."""
    import collections
    import collections.abc

    abstract = (
        collections.abc.Sequence,
        collections.abc.MutableSequence,
        collections.abc.Iterable,
        collections.abc.Collection,
    )
    if kind in abstract or kind is collections.abc.Iterator:
        return list
    if kind in (collections.abc.Set, collections.abc.MutableSet):
        return set
    for own in (list, set, frozenset, tuple, collections.deque):
        if isinstance(kind, type) and issubclass(kind, own) and not hasattr(kind, "_fields"):
            return own
    return None


def _fields(kind):
    """The fields of a dataclass or a named tuple: name, hint, whether it is required, and the default."""
    import dataclasses
    import typing

    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:
        hints = getattr(kind, "__annotations__", {})
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        # `dataclasses.fields` leaves out `InitVar`s, which `__init__` takes.
        for field in kind.__dataclass_fields__.values():
            if field.init and field._field_type is not dataclasses._FIELD_CLASSVAR:
                required = field.default is missing and field.default_factory is missing
                default = None if field.default is missing else field.default
                yield field.name, hints.get(field.name, typing.Any), required, default
    else:
        defaults = getattr(kind, "_field_defaults", {})
        for name in kind._fields:
            yield name, hints.get(name, typing.Any), name not in defaults, defaults.get(name)


def _is_record(kind):
    import dataclasses

    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _choices(values):
    """A schema of values, with their type if they have one in common."""
    types = {str: "string", bool: "boolean", int: "integer", float: "number"}
    found = {types.get(type(value)) for value in values}
    if len(found) == 1 and None not in found:
        return {"type": found.pop(), "enum": values}
    return {"enum": values}


def _members(kind):
    """The JSON values of an Enum's members: their values, or else their names."""
    values = [member.value for member in kind]
    is_json = all(value is None or isinstance(value, (str, bool, int, float)) for value in values)
    return values if is_json else [member.name for member in kind]


def _schema(hint, depth=0):
    kind, args, description = _kind(hint)
    schema = {} if depth > 8 else _schema_of(kind, args, depth + 1)
    if description is not None:
        schema["description"] = description
    return schema


def _schema_of(kind, args, depth):
    import collections.abc
    import enum
    import json
    import typing

    texts = _texts()
    simple = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", None: "null"}
    if kind in simple:
        return {"type": simple[kind]}
    if kind is typing.Literal:
        return _choices([arg.value if isinstance(arg, enum.Enum) else arg for arg in args])
    if _is_union(kind):
        return {"anyOf": [_schema(arg, depth) for arg in args]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choices(_members(kind))
    if _is_typed_dict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = {name: _schema(hint, depth) for name, hint in hints.items()}
        needed = [name for name in fields if name in kind.__required_keys__]
        return {"type": "object", "properties": fields, "required": needed}
    if _is_record(kind):
        properties, required = {}, []
        for name, hint, is_required, default in _fields(kind):
            properties[name] = _schema(hint, depth)
            if is_required:
                required.append(name)
            elif default is not None:
                try:
                    properties[name]["default"] = json.loads(
                        json.dumps(default, allow_nan=False, default=_plain)
                    )
                except (TypeError, ValueError):
                    pass
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    own = _items_of(kind)
    if own is tuple and args and args[-1] is not Ellipsis:
        args = [arg for arg in args if arg != ()]
        items = []
        for arg in args:
            item = _schema(arg, depth)
            if item not in items:
                items.append(item)
        items = items[0] if len(items) == 1 else {"anyOf": items} if items else {}
        return {"type": "array", "items": items, "minItems": len(args), "maxItems": len(args)}
    if own is not None:
        # Every array needs items, also where nothing is known of them.
        schema = {"type": "array", "items": _schema(args[0], depth) if args else {}}
        if own in (set, frozenset):
            schema["uniqueItems"] = True
        return schema
    if kind in (collections.abc.Mapping, collections.abc.MutableMapping) or (
        isinstance(kind, type) and issubclass(kind, dict)
    ):
        values = _dict_hints(kind, args)[1]
        if values is not typing.Any:
            return {"type": "object", "additionalProperties": _schema(values, depth)}
        return {"type": "object"}
    if kind in texts:
        return dict(texts[kind][0])
    # No schema for other types: the function handles the value itself.
    return {}


def _texts():
    """Classes whose values are texts in JSON, with their schema and how they are read."""
    import datetime
    import decimal
    import pathlib
    import uuid

    def moment(text):
        # Before Python 3.11, `Z` is unknown.
        return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)

    def number(value):
        number = decimal.Decimal(str(value))
        if isinstance(value, float) and len(number.as_tuple().digits) > 15:
            raise ValueError("the number " + str(value) + " may have lost digits on its way; send it as a text")
        return number

    # A number of JSON has fifteen digits that arrive everywhere as they were sent, a text has all.
    pattern = "^[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?$"
    digits = {"type": "string", "pattern": pattern, "description": "a decimal number with all its digits"}

    return {
        datetime.datetime: ({"type": "string", "format": "date-time"}, moment),
        datetime.date: ({"type": "string", "format": "date"}, datetime.date.fromisoformat),
        datetime.time: ({"type": "string", "format": "time"}, datetime.time.fromisoformat),
        uuid.UUID: ({"type": "string", "format": "uuid"}, uuid.UUID),
        decimal.Decimal: ({"anyOf": [digits, {"type": "number"}]}, number),
        pathlib.Path: ({"type": "string"}, pathlib.Path),
    }


def _convert(value, hint):
    """The value that the hint promises, from its JSON. What has no such value is an error."""
    import enum
    import typing

    kind, args, _ = _kind(hint)
    if _is_union(kind):
        return _convert_to_one(value, args)
    if value is None:
        return None
    if kind is typing.Literal:
        members = [arg for arg in args if isinstance(arg, enum.Enum) and arg.value == value]
        return members[0] if members else value
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if isinstance(value, str) and value not in _members(kind) and value in kind.__members__:
            return kind[value]
        if _members(kind) != [member.value for member in kind]:
            return kind[value]
        return kind(value)
    if isinstance(value, dict):
        if _is_typed_dict(kind):
            hints = typing.get_type_hints(kind, include_extras=True)
            return {name: _convert(item, hints.get(name, typing.Any)) for name, item in value.items()}
        if _is_record(kind):
            hints = {name: hint for name, hint, _, _ in _fields(kind)}
            return kind(**{name: _convert(item, hints.get(name, typing.Any)) for name, item in value.items()})
        keys, values = _dict_hints(kind, args)
        converted = {}
        for name, item in value.items():
            key = _convert_key(name, keys)
            if key in converted:
                raise ValueError("two keys mean the same: " + repr(name))
            converted[key] = _convert(item, values)
        return _as_dict(converted, kind)
    own = _items_of(kind)
    if isinstance(value, list) and own is not None:
        if own is tuple and args and args[-1] is not Ellipsis:
            return tuple(_convert(item, arg) for item, arg in zip(value, args))
        items = [_convert(item, args[0]) for item in value] if args else value
        return items if own is list else own(items)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is float and type(value) is int and abs(value) <= 2**53:
        return float(value)
    if kind in _texts():
        return _texts()[kind][1](value)
    return value


def _dict_hints(kind, args):
    """The hints of the keys and of the values of a dictionary."""
    import collections
    import typing

    if len(args) == 2:
        return args
    if isinstance(kind, type) and issubclass(kind, collections.Counter):
        return (args[0] if args else typing.Any), int
    return typing.Any, typing.Any


def _as_dict(value, kind):
    """A dictionary of the class that the hint promises."""
    import collections

    if not isinstance(kind, type) or not issubclass(kind, dict) or kind is dict:
        return value
    if issubclass(kind, collections.defaultdict):
        return kind(None, value)
    return kind(value)


def _convert_key(key, hint):
    """The key that the hint promises: keys of JSON are texts."""
    import enum
    import typing

    kind, args, _ = _kind(hint)
    if _is_union(kind):
        for arg in args:
            try:
                return _convert_key(key, arg)
            except Exception:
                continue
        return key
    if kind is typing.Literal:
        values = [(arg.value if isinstance(arg, enum.Enum) else arg, arg) for arg in args]
        return _key_of(key, values)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _key_of(key, [pair for member in kind for pair in ((member.value, member), (member.name, member))])
    if kind is bool:
        return _key_of(key, [(True, True), (False, False)])
    if kind is int:
        number = float(key)
        return int(number) if number.is_integer() and not key.strip().lstrip("+-").isdigit() else int(key)
    if kind is float:
        return float(key)
    if kind in _texts():
        return _texts()[kind][1](key)
    return key


def _key_of(key, values):
    """The one of several values that is written as this key."""
    import json

    for written in (str, json.dumps):
        for value, own in values:
            try:
                if value == key or written(value) == key:
                    return own
            except (TypeError, ValueError):
                continue
    raise ValueError(repr(key) + " is none of " + ", ".join(repr(value) for value, _ in values))


def _convert_to_one(value, hints):
    """The value for the first of several hints that fits; one of its own class comes first."""
    if type(value) in (int, float) and type(value) in [_kind(hint)[0] for hint in hints]:
        return value
    for hint in hints:
        if _fits(value, hint):
            try:
                return _convert(value, hint)
            except Exception:
                continue
    return value


def _fits(value, hint):
    kind, _, _ = _kind(hint)
    if kind is type(None) or kind is None:
        return value is None
    if value is None:
        return False
    if kind is int:
        is_whole = isinstance(value, float) and value.is_integer()
        return is_whole or isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (str, bool):
        return isinstance(value, kind)
    if _is_record(kind) or _is_typed_dict(kind):
        return isinstance(value, dict)
    if _items_of(kind) is not None:
        return isinstance(value, list)
    if isinstance(kind, type) and issubclass(kind, dict):
        return isinstance(value, dict)
    return True


def _main():
    verb, path, name = sys.argv[1:4]
    import json

    arguments = json.loads(sys.stdin.buffer.read()) if verb == "call" else None
    try:
        function = _load(path, name)
    except BaseException as error:
        return "!", _message_with_place(error, os.path.dirname(path))
    try:
        if verb == "describe":
            return "+", json.dumps(_describe(function))
        return "+", _text(_call(function, arguments))
    except BaseException as error:
        return "-", _message(error)


_send(*_main())
