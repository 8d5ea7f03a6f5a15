"""What was read, for people and as JSON."""

from .file import NONE

SIGNS = {"ADD": "+", "MUL": "·", "DIV_FLOOR": "//", "DIV_CEIL": "/^", "SUB": "−"}
# Deeper expressions are shown as dots.
DEPTH = 8


def expression(file, number, depth=0):
    """An expression as a formula."""
    if number == NONE:
        return "none"
    e = file["Exprs"][number]
    kind = file.name("Exprs", e, "op")
    if kind == "CONSTANT":
        return str(e["b"])
    if kind == "SYMBOL":
        return file["Symbols"][e["a"]]["name"] or f"symbol {e['a']}"
    if depth > DEPTH:
        return "…"
    a = expression(file, e["a"], depth + 1)
    b = expression(file, e["b"], depth + 1) if kind in ("ADD", "MUL", "MIN", "MAX") else str(e["b"])
    return f"({a} {SIGNS[kind]} {b})" if kind in SIGNS else f"{kind.lower()}({a}, {b})"


def value(file, number):
    if number == NONE:
        return "—"
    v = file["Values"][number]
    sizes = ", ".join(expression(file, d) for d in file.dims(v))
    return f"{v['name'] or f'%{number}'} {file.form.types[v['dtype']][0]}[{sizes}]"


def attributes(record):
    """Attributes that are not 0, on one line."""
    shown = []
    for field, v in record.items():
        if isinstance(v, dict):
            shown.append(attributes(v))
        elif v not in (0, 0.0) and v != [0] * (len(v) if isinstance(v, list) else 0):
            shown.append(f"{field} {v}")
    return ", ".join(s for s in shown if s)


def operands(file, record):
    """Inputs → outputs."""
    return " → ".join(", ".join(value(file, v) for v in side) for side in file.operands(record))


def step_line(file, number):
    step = file["Steps"][number]
    name = file.name("Steps", step, "kind")
    extra = ""
    if name == "OP":
        name = file.form.ops[file["Signatures"][step["link"]]["op"]].name
        extra = attributes(file.attributes(step) or {})
    elif name == "LOOP":
        extra = f"at most {expression(file, step['max_trips'])} trips"
    return f"{number}: {name} {operands(file, step)}" + (f" ({extra})" if extra else "")


def lines(file):
    """The listing."""
    h = file.header
    yield f"format {h['major']}.{h['minor']}, {len(file.data)} bytes, of these records {h['meta_bytes']}, digest {h['digest']}"
    for s in file["Symbols"]:
        yield f"symbol {s['name']} ({file.name('Symbols', s, 'kind')}): {s['low']} to {s['high']}, a multiple of {s['multiple_of']}"
    for g in file["Guards"]:
        yield f"guard {expression(file, g['a'])} {'≤' if g['relation'] else '='} {expression(file, g['b'])}"
    for e in file["Entries"]:
        yield f"entry {e['name']} ({file.name('Entries', e, 'kind')}): {operands(file, e)}"
        depth = 1
        for number in range(e["first_step"], e["first_step"] + e["steps"]):
            kind = file.name("Steps", file["Steps"][number], "kind")
            depth -= kind in ("ELSE", "END")
            yield "  " * depth + step_line(file, number)
            depth += kind in ("IF", "ELSE", "LOOP")
    for p in file["Plans"]:
        arenas = file["Arenas"][p["arenas"][0] : sum(p["arenas"])]
        sizes = ", ".join(f"{file.name('Arenas', a, 'space').lower()} {a['bytes']}" for a in arenas)
        yield f"plan {p['name']} ({file.name('Plans', p, 'profile')}): {sizes} bytes, {p['waves'][1]} waves, lower bound {p['lower_bound']}"
    for w in file["Weights"]:
        yield f"weights {w['name']}: {w['bytes']} bytes at {w['offset']}"
    for hint in file["Hints"]:
        yield f"hint of {value(file, hint['value'])}: {hint['text']}"
    for t in file["SelfTests"]:
        yield f"self-test of {file['Entries'][t['entry']]['name']}: at {t['offset']} of weight section {t['section']}"
    for m in file["Metadata"]:
        yield f"{m['key']}: {m['value']}"
    for line in file["Provenance"].decode().split("\n"):
        if line:
            yield f"made by {line}"


def as_json(file):
    """Every record, with the attribute records of steps."""
    plain = {name: t.hex() if isinstance(t, bytes) else t for name, t in file.tables.items()}
    for name in ("Strings", "HintText", "Provenance"):
        if name in plain:
            plain[name] = file[name].decode()
    steps = [{**s, "attributes": file.attributes(s)} if file.is_a("Steps", s, "kind", "OP") else s for s in file["Steps"]]
    return {"header": file.header, **plain, "Steps": steps}
