#!/usr/bin/env python3
"""Writes the tables of ops and of their attribute records in docs/format.md from core/src/op, between the markers there.

    format_tables.py           writes them
    format_tables.py --check   says whether they, and the tables of records, codes and rules, are those of the sources"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPS = ROOT / "core/src/op"
SIZES = {"u8": 1, "i8": 1, "u16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
CONSTANTS = {"MAX_RANK": 8}
# Sets of element types that the text defines, the larger ones first.
SETS = {
    "numbers": "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 u64",
    "integers": "i8 i16 i32 i64 u8 u16 u32 u64",
    "floats": "f32 f16 bf16 f64",
}
BEGIN, END = "<!-- ops: written by tools/format_tables.py -->", "<!-- end of ops -->"
RECORD_HEAD = "| offset | bytes | type | field | meaning |"


def doc(text):
    """A doc comment as one line of Markdown."""
    words = " ".join(line.strip().removeprefix("///").strip() for line in text.strip().split("\n"))
    words = re.sub(r"\[`([^`\]]+)`\](\([^)]*\))?", r"`\1`", words)
    return re.sub(r" +", " ", words).replace("|", "\\|")


def balanced(source, at):
    """The text from the bracket at `at` to its partner."""
    depth = 0
    for end in range(at, len(source)):
        depth += (source[end] in "([{") - (source[end] in ")]}")
        if depth == 0:
            return source[at : end + 1]
    raise SystemExit(f"no end of {source[at : at + 40]!r}")


def parts(text):
    """What stands between the outer commas."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [p.strip() for p in found if p.strip()]


class Family:
    """A file of core/src/op: its constants, descriptions, records."""

    def __init__(self, path):
        self.path, self.name = path.relative_to(ROOT), path.stem
        self.source = source = path.read_text().split("#[cfg(test)]")[0]
        self.descriptors, self.documents = {}, {}
        for m in re.finditer(r"((?: *///[^\n]*\n)*)[^\n]*\b(\w+): OpDescriptor =\s+OpDescriptor (?=\{)", source):
            if "$" not in m.group(0):
                self.descriptors[m.group(2)] = re.sub(r"(?m)//[^\n]*", "", balanced(source, m.end()))
                self.documents[m.group(2)] = doc(m.group(1))
        # Lines of a macro that makes descriptions: NAME = code "Name" of BASE;
        line = r'((?: *///[^\n]*\n)+) *(\w+) = (\d+),? "(\w+)" of (\w+);'
        for text, constant, code, name, base in re.findall(line, source):
            self.descriptors[constant] = f'{{ code: {code}, name: "{name}", ..{base} }}'
            self.documents[constant] = doc(text)
        uses = re.findall(r"use super::(\w+)::(\w+|\{[^}]*\});", source)
        self.imports = {name: family for family, names in uses for name in re.findall(r"\w+", names)}

    def records(self):
        """Attribute records: name, doc, fields of (name, type, doc)."""
        pattern = r"((?:///[^\n]*\n)+)#\[derive\([^\n]*Pod[^\n]*\)\]\n#\[repr\(C\)\]\npub struct (\w+) \{(.*?)\n\}"
        for m in re.finditer(pattern, self.source, flags=re.S):
            fields = re.findall(r"((?:\s*///[^\n]*\n)+)\s*pub (\w+): ([^,\n]+),", m.group(3))
            yield m.group(2), doc(m.group(1)), [(name, kind.strip(), doc(text)) for text, name, kind in fields]


    def codes(self):
        """Modules of codes: doc, rows of (code, name, doc)."""
        for text, body in re.findall(r"((?:///[^\n]*\n)+)pub mod \w+ \{(.*?)\n\}", self.source, flags=re.S):
            rows = re.findall(r"((?: *///[^\n]*\n)+) *pub const (\w+): u32 = (\d+);", body)
            yield doc(text), [(int(code), name, doc(words)) for words, name, code in rows]


class Ops:
    """All families, and the ops that `op::ALL` lists."""

    def __init__(self):
        self.families = {p.stem: Family(p) for p in sorted(OPS.rglob("*.rs")) if p.stem != "mod"}
        module = (OPS / "mod.rs").read_text()
        listed = module[module.index("pub static ALL") :]
        self.all = re.findall(r"&(\w+)::(\w+),", listed[: listed.index("];")])
        for family, constant in self.all:
            if constant not in self.families[family].descriptors:
                raise SystemExit(f"{family}::{constant}: this tool does not find its description")

    def constant(self, family, name, kind):
        """The expression of a constant, and the family where it stands."""
        while name in family.imports and f"const {name}: {kind}" not in family.source:
            family = self.families[family.imports[name]]
        m = re.search(rf"const {name}: {re.escape(kind)} =\s*", family.source)
        if not m:
            raise SystemExit(f"{family.path}: the constant {name} is missing")
        start = m.end() + family.source[m.end() :].index("&") if kind.startswith("&") else m.end()
        return family.source[start : family.source.index(";", start)], family

    def field(self, family, constant, pattern):
        """What a description or the one it rests on says: the first match of `pattern` behind a field's name."""
        body = family.descriptors[constant]
        m = re.search(pattern, body)
        if m:
            return m.group(1) or balanced(body, m.end() - 1)
        base = re.search(r"\.\.(\w+)\s*\}$", body)
        return self.field(family, base.group(1), pattern) if base else None

    def types(self, family, text):
        if "::ANY" in text:
            return "any"
        if "DTypeSet::of" not in text:
            text, family = self.constant(family, text.strip(), "DTypeSet")
            return self.types(family, text)
        names = {"Bool": "bool", "C64": "complex64", "C128": "complex128"}
        types = " ".join(names.get(t, t.lower()) for t in re.findall(r"DType::(\w+)", text))
        for name, members in SETS.items():
            types = types.replace(members, name)
        return types

    def operands(self, family, text):
        """Operands as (name with its marks, tie, types)."""
        if re.fullmatch(r"\w+", text):
            text, family = self.constant(family, text, "&[Operand]")
        found = []
        for part in parts(text.strip().strip("&").strip()[1:-1]):
            made = re.match(r"Operand::data(?=\()", part)
            head = balanced(part, made.end()) if made else re.match(r"\w*", part).group()
            marks = part[(made.end() if made else 0) + len(head) :]
            if not head or not re.fullmatch(r"(\s*\.(optional|index|length|count)\(\))*", marks):
                raise SystemExit(f"{family.path}: an operand that this tool does not understand: {part}")
            if made:
                name, tie, types = parts(head[1:-1])
                name, tie, types, meaning = name.strip('"'), tie.strip("'"), self.types(family, types), ""
            else:
                constant, home = self.constant(family, head, "Operand")
                [(name, tie, types, meaning)] = self.operands(home, f"[{constant}]")
            meaning = "".join(re.findall(r"\.(index|length|count)\(\)", marks)) or meaning
            found.append((name + "?" * ("optional()" in marks), tie, types, meaning))
        return found

    def row(self, family_name, constant):
        """An op as the cells of its row."""
        family = self.families[family_name]
        get = lambda pattern: self.field(family, constant, pattern)  # noqa: E731
        if get(r"\bversion: (\d+)"):
            raise SystemExit(f"{family_name}::{constant}: a version other than 1; this tool has no column for it")
        inputs = self.operands(family, get(r"\binputs: (?:(\w+)|&\[)") or "")
        outputs = self.operands(family, get(r"\boutputs: (?:(\w+)|&\[)") or "")
        if get(r"\bvariadic: (true)"):
            inputs[-1] = (inputs[-1][0] + "…", *inputs[-1][1:])
        ties = {}

        def shown(operand):
            name, tie, types, meaning = operand
            if tie != "-":
                ties[tie] = types
            return f"{name}: {types if tie == '-' else tie}{f' ({meaning})' if meaning else ''}"

        left, right = (", ".join(map(shown, o)) for o in (inputs, outputs))
        signature = f"{left} → {right}".strip() + "".join(f"; {t}: {types}" for t, types in ties.items())
        pairs = re.findall(r"\((\d+), (\d+)\)", get(r"\bin_place: (?:(\w+)|&\[)") or "")
        attributes = get(r"\battr_size: core::mem::size_of::<(\w+)>") or "—"
        name = get(r'\bname: "(\w+)"')
        given = "given" if get(r"\bdeclared_output: (true)") else "computed"
        in_place = " ".join(f"{i}→{o}" for i, o in pairs) or "—"
        return int(get(r"\bcode: (\d+)")), name, signature, attributes, given, in_place, family.documents[constant]

    def with_scratch(self):
        return {self.row(f, c)[1] for f, c in self.all if self.field(self.families[f], c, r"\bscratch: (\|)")}


def size(kind, known):
    array = re.fullmatch(r"\[(\w+); (\w+)\]", kind)
    if array:
        count = CONSTANTS.get(array.group(2)) or int(array.group(2))
        return size(array.group(1), known) * count
    return SIZES[kind] if kind in SIZES else sum(size(k, known) for _, k, _ in known[kind])


def text(ops):
    known, where, codes = {}, {}, []
    for family in ops.families.values():
        codes += family.codes()
        for name, words, fields in family.records():
            known[name], where[name] = fields, words
    out = [BEGIN, "", "| code | op | operands | attributes | dimensions | in place | meaning |", "|---|---|---|---|---|---|---|"]
    rows = {constant: ops.row(family, constant) for family, constant in ops.all}
    for *cells, meaning in sorted(rows.values()):
        # Other ops are named in the sources by their constants.
        meaning = re.sub(r"`([A-Z][A-Z0-9_]*)`", lambda m: f"`{rows[m.group(1)][1]}`" if m.group(1) in rows else m.group(0), meaning)
        out.append(f"| {' | '.join(map(str, cells))} | {meaning} |")
    out += ["", "## Attribute records", ""]
    for name, fields in known.items():
        if not fields:
            continue
        out += [f"### {name}: {size(name, known)} bytes", "", where[name], "", RECORD_HEAD, "|---|---|---|---|---|"]
        at = 0
        for field, kind, words in fields:
            shown = re.sub(r"\[(\w+); (\w+)\]", lambda m: f"{m.group(1)} × {CONSTANTS.get(m.group(2), m.group(2))}", kind)
            shown = "zero" if field.startswith("reserved") else shown
            out.append(f"| {at} | {size(kind, known)} | {shown} | {field} | {words} |")
            at += size(kind, known)
        out.append("")
    if codes:
        out += ["### Codes in attribute records", ""]
    for words, rows in codes:
        out += [words, "", "| code | name | meaning |", "|---|---|---|"]
        out += [f"| {code} | {name} | {meaning} |" for code, name, meaning in rows] + [""]
    return "\n".join(out + [END])


def differences(document, ops):
    """Where the tables that people write say something else than the sources."""
    record = (ROOT / "core/src/schedule/record.rs").read_text()
    widths = {"Text": 8}
    for name, body in re.findall(r"#\[repr\(C\)\]\npub struct (\w+) \{(.*?)\n\}", record, flags=re.S):
        at, wanted = 0, []
        for field, kind in re.findall(r"\n    pub (\w+): ([^\n]+),", body):
            array = re.fullmatch(r"\[(\w+); (\d+)\]", kind)
            item, count = (array.group(1), int(array.group(2))) if array else (kind, 1)
            width = (SIZES | widths)[item] * count
            wanted.append((at, width, field))
            at += width
        widths[name] = at
        chapter = re.search(rf"\n## {name}: (\d+) bytes\n(.*?)(?=\n## )", document, flags=re.S)
        rows = re.findall(r"\n\| (\d+) \| (\d+) \| [^|]+ \| (\w+) \|", chapter.group(2)) if chapter else []
        if not chapter or int(chapter.group(1)) != at or [(int(a), int(b), c) for a, b, c in rows] != wanted:
            yield f"record {name}"
    for module, body in re.findall(r"\npub mod (\w+) \{(.*?)\n\}", record, flags=re.S):
        for name, code in re.findall(r"pub const (\w+): u\d+ = (\d+);", body):
            if not re.search(rf"\n\| {code} \| {name} \|", document):
                yield f"code {module}::{name}"
    for name, code in re.findall(r"\n    ([A-Z]\w+) = (\d+),", record):
        if not re.search(rf"\n\| {code} \| {name} \|", document):
            yield f"section {name}"
    error = (ROOT / "core/src/schedule/error.rs").read_text()
    for name, code, words in re.findall(r'\n    (\w+) = (\d+), "([^"]*)";', error):
        if f"\n| {code} | {name} | {words} |" not in document:
            yield f"rule {name}"
    dtype = (ROOT / "core/src/dtype.rs").read_text()
    for name, code in re.findall(r"\n    ([A-Z]\w+) = (\d+),", dtype):
        if not re.search(rf"(?i)\n\| {code} \| ({name}|{name.replace('C', 'complex')}) \|", document):
            yield f"element type {name}"
    scratch = re.search(r"\n## Scratch\n(.*?)(?=\n## )", document, flags=re.S)
    if set(re.findall(r"\n\| ([A-Z]\w+) \|", scratch.group(1) if scratch else "")) != ops.with_scratch():
        yield f"scratch of {', '.join(sorted(ops.with_scratch()))}"


def main():
    path, ops = ROOT / "docs/format.md", Ops()
    old = path.read_text()
    if BEGIN not in old or END not in old:
        raise SystemExit(f"{path}: the markers are missing")
    new = old[: old.index(BEGIN)] + text(ops) + old[old.index(END) + len(END) :]
    if "--check" not in sys.argv[1:]:
        path.write_text(new)
    elif new != old:
        raise SystemExit("docs/format.md is out of date: run tools/format_tables.py")
    wrong = list(differences(new, ops))
    if wrong:
        raise SystemExit(f"docs/format.md and the sources differ: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
