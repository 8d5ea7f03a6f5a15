"""The tables of docs/format.md: records, sections, codes, element types, ops."""

import pathlib
import re

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "format.md"


def cells_of(line):
    """The cells of a row; `\\|` is a bar within one."""
    return [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]]


class Op:
    """An op: operands are pairs of (marks, set of element types or tie)."""

    def __init__(self, name, operands, attributes, in_place):
        self.name, self.attributes = name, None if attributes == "—" else attributes
        signature, *ties = operands.split(";")
        left, right = signature.split("→")
        self.ties = dict(t.strip().split(": ") for t in ties)
        self.inputs, self.outputs = self.parse(left), self.parse(right)
        self.in_place = {tuple(map(int, pair.split("→"))) for pair in in_place.split() if pair != "—"}

    @staticmethod
    def parse(side):
        found = []
        for operand in side.split(","):
            if operand.strip():
                name, types = operand.strip().split(": ")
                found.append((name.lstrip("abcdefghijklmnopqrstuvwxyz_0123456789"), types.split(" (")[0]))
        return found

    def accepts(self, inputs, outputs, sets):
        """Whether names of element types fit; None stands for an absent input."""
        expected = list(self.inputs)
        if expected and expected[-1][0] == "…":
            expected += [expected[-1]] * (len(inputs) - len(expected))
        needed = max((i + 1 for i, (mark, _) in enumerate(self.inputs) if "?" not in mark), default=0)
        if not needed <= len(inputs) <= len(expected) or len(outputs) != len(self.outputs):
            return False
        tied = {}
        for (mark, types), given in zip(expected + self.outputs, inputs + [None] * (len(expected) - len(inputs)) + outputs):
            if given is None:
                if "?" not in mark:
                    return False
                continue
            if types in self.ties and tied.setdefault(types, given) != given:
                return False
            members = self.ties.get(types, types).split()
            if not any(given in sets.get(m, (m,)) for m in members):
                return False
        return True


class Format:
    """What the text says, as tables."""

    def __init__(self, text=None):
        text = DOCUMENT.read_text(encoding="utf-8") if text is None else text
        self.records, self.sizes, self.sections, self.codes = {}, {}, {}, {}
        self.ops, self.types, self.limits = {}, {}, {}
        record = codes = chapter = None
        for line in text.split("\n"):
            if line.startswith("## "):
                chapter = line[3:]
            heading = re.fullmatch(r"##+ (\w+): (\d+) bytes", line)
            # Attribute records may have the name of a record of the file.
            prefix = "attributes " if line.startswith("### ") else ""
            if heading:
                record, codes = prefix + heading.group(1), None
                self.records[record], self.sizes[record] = [], int(heading.group(2))
            elif line.startswith("#"):
                record = codes = None
            named = re.match(r"(?:Codes of|Bits of) `(\w+)::(\w+)`", line)
            if named:
                codes = self.codes.setdefault((named.group(1), named.group(2)), {})
            if not line.startswith("| "):
                continue
            cells = cells_of(line)
            if record and re.match(r"\| \d+ \| \d+ \|", line):
                self.records[record].append((cells[3], int(cells[0]), int(cells[1]), cells[2]))
            elif chapter == "Ops" and cells[0].isdigit():
                self.ops[int(cells[0])] = Op(cells[1], cells[2], cells[3], cells[5])
            elif chapter == "Sections" and cells[0].isdigit():
                held = re.match(r"`(\w+)`", cells[2])
                self.sections[int(cells[0])] = (cells[1], held.group(1) if held else None)
            elif chapter == "Element types" and cells[0].isdigit():
                self.types[int(cells[0])] = (cells[1], int(cells[2]))
            elif chapter == "The file" and re.match(r"[\d,]+", cells[1]):
                self.limits[cells[0]] = [int(n) for n in re.findall(r"\d+", cells[1].replace(",", ""))]
            elif codes is not None and re.match(r"\| \d+ \| [A-Z_]+ \|", line):
                codes[int(cells[0])] = cells[1]
        self.magic = bytes.fromhex(re.search(r"\| magic \| `([0-9A-F ]+)`", text).group(1))
        named = re.search(r"\*floats\* are ([\w ]+), \*integers\* ([\w\s]+), \*numbers\* both", text)
        floats, integers = (tuple(g.split()) for g in named.groups())
        every = tuple(name for name, _ in self.types.values())
        self.sets = {"floats": floats, "integers": integers, "numbers": floats + integers, "any": every}

    def code(self, record, field, name):
        """The number of a code."""
        return next(n for n, found in self.codes[record, field].items() if found == name)
