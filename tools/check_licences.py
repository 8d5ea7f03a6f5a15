#!/usr/bin/env python3
"""Fails when a dependency has a licence that the project does not take.

Reads `cargo metadata` of every workspace. A licence expression is accepted when it can be satisfied from the set below
alone: all sides of an AND, one side of an OR.
"""
import json
import pathlib
import re
import subprocess
import sys

ACCEPTED = {
    "MIT", "MIT-0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "MPL-2.0",
    "ISC", "Unicode-3.0", "CC0-1.0", "0BSD", "Unlicense", "BSL-1.0", "NCSA",
}
ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKSPACES = ["Cargo.toml", "examples/firmware/Cargo.toml", "examples/models/Cargo.toml", "fuzz/Cargo.toml"]


def satisfied(expression: str) -> bool:
    """Evaluates an SPDX expression by recursive descent."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def take() -> str:
        nonlocal position
        position += 1
        return tokens[position - 1]

    def peek() -> str:
        return tokens[position] if position < len(tokens) else ""

    def atom() -> bool:
        if peek() == "(":
            take()
            value = either()
            take()
            return value
        name = take()
        if peek() == "WITH":
            take()
            name += " WITH " + take()
        return name in ACCEPTED

    def both() -> bool:
        value = atom()
        while peek() == "AND":
            take()
            value = atom() and value
        return value

    def either() -> bool:
        value = both()
        while peek() == "OR":
            take()
            value = both() or value
        return value

    return either()


def main() -> int:
    refused, count = [], 0
    for manifest in WORKSPACES:
        path = ROOT / manifest
        if not path.exists():
            continue
        command = ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(path)]
        metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for package in metadata["packages"]:
            count += 1
            licence = package["license"] or ""
            if not licence or not satisfied(licence):
                refused.append(f"{package['name']} {package['version']}: {licence or 'no licence given'}")
    for line in sorted(set(refused)):
        print(line, file=sys.stderr)
    print(f"{count} packages, {len(set(refused))} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
