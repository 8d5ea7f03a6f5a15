#!/usr/bin/env python3
"""Reads a schedule blob by the tables of docs/format.md, and checks the records as that text says: checksums, sizes,
zeros, texts, codes, ids, ranges, types, regions, slots, waves. What is live when is left to a verifier.

    read_srn.py FILE           a listing
    read_srn.py FILE --json    every record as JSON

Exit status 1 and one line with the offset where a file is not what the text says."""

import json
import math
import pathlib
import sys

from srn import show
from srn.check import Checker
from srn.file import File, Refused
from srn.plans import Plans
from srn.text import Format


def read(data, form):
    """Reads a file; raises `Refused` where it is not what the format says."""
    file = File(data, form)
    checker = Checker(file)
    checker.all()
    Plans(checker).all()
    return file


def finite(x):
    """JSON has no infinities; attributes may."""
    if isinstance(x, dict):
        return {k: finite(v) for k, v in x.items()}
    if isinstance(x, list):
        return [finite(v) for v in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def main(arguments):
    paths = [a for a in arguments if a != "--json"]
    if len(paths) != 1 or len(arguments) > 2 or paths[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        file = read(pathlib.Path(paths[0]).read_bytes(), Format())
    except (Refused, OSError) as e:
        print(f"{paths[0]}: {e}", file=sys.stderr)
        return 1
    if "--json" in arguments:
        print(json.dumps(finite(show.as_json(file)), ensure_ascii=False))
    else:
        print("\n".join(show.lines(file)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
