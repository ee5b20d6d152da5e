"""How a child process replies: one character first, `+` for the result, `?` if the result is not what is needed, `-` if the
function failed, `!` if it could not be run.
"""

import os
import sys

# The result has its own descriptor; everything printed to stdout, also by C code and child processes, goes to stderr.
_result = os.dup(1)
os.dup2(2, 1)


def _send(mark, text):
    data = (mark + text).encode("utf-8", "backslashreplace")
    sys.stdout.flush()
    with os.fdopen(_result, "wb") as out:
        out.write(data)


def _message(error):
    text = str(error)
    name = type(error).__name__
    return name + ": " + text if text else name


def _message_with_place(error, folder):
    """The message, and the last line that ran in a file below the folder. Python names the line of a syntax error itself."""
    place = None
    step = None if isinstance(error, SyntaxError) else error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file.startswith(os.path.join(folder, "")) and os.sep + "site-packages" + os.sep not in file:
            place = os.path.relpath(file, folder) + ", line " + str(step.tb_lineno)
        step = step.tb_next
    return _message(error) + (" (" + place + ")" if place else "")


