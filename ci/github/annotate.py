"""Prints an annotation for each case of a JUnit report that did not pass, at the case's line of the agent file."""

import re
import sys
import xml.etree.ElementTree

# GitHub shows ten of each kind for a step.
MOST = 10


def data(text):
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def attribute(text):
    return data(text).replace(":", "%3A").replace(",", "%2C")


def line_of(name, lines):
    """The line of the case with this name, or the first one."""
    wanted = re.compile(r"[\s{,-]name:\s*(['\"]?)" + re.escape(name) + r"\1\s*(?:[,}#]|$)")
    found = (number for number, line in enumerate(lines, 1) if wanted.search(" " + line))
    return next(found, 1)


def main(report, agent, folder):
    path = agent if folder in ("", ".") else f"{folder}/{agent}"
    with open(agent, encoding="utf-8") as file:
        lines = file.read().splitlines()
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    failed = [(case, part) for case in cases for part in case if part.tag in ("failure", "error")]
    for case, part in failed[:MOST]:
        name = case.get("name", "")
        title = attribute(f"{name}: {part.get('type', part.tag)}")
        place = f"file={attribute(path)},line={line_of(name, lines)}"
        print(f"::error {place},title={title}::{data(part.get('message', ''))}")
    if len(failed) > MOST:
        print(f"::notice::{len(failed) - MOST} more cases did not pass; the summary has them")


if __name__ == "__main__":
    main(*sys.argv[1:])
