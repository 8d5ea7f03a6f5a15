#!/usr/bin/env python3
"""Tests read_srn.py, and with it docs/format.md, against what the compiler writes and the command line tool says.

    test_read_srn.py            runs the tests
    test_read_srn.py --example  writes the example of docs/format.md"""

import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import read_srn  # noqa: E402
from srn import show, text  # noqa: E402
from srn.file import NONE, Refused  # noqa: E402
from srn.plans import evaluate, tensor_bytes  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BEGIN, END = "<!-- example -->", "<!-- end of example -->"
HINT = ["--hint", "models/fashion/hint.json"]
MODELS = [
    ["models/fashion/fashion.onnx", "--bound", "batch=64", *HINT],
    ["models/fashion/fashion_int8.onnx", "--bound", "batch=1", "--profile", "mcu", *HINT],
    ["models/joint/joint.onnx"],
    # Two entries, state, a param, two plans, self-tests.
    ["models/joint/joint.onnx", "--entry", "match=models/joint/match.onnx", "--hint", "models/joint/hint.json"]
    + ["--state", "state_in=state_out", "--param", "class_scale", "--bound", "batch=12:4", "--self-test", "3"]
    + ["--profile", "mcu:batch=4", "--profile", "desktop"],
]
# Files damaged behind the checksum, of each model: read, and read and given to the verifier too.
MUTANTS, VERIFIED = 800, 40


def message(number, data):
    """A field of a protobuf message that holds bytes or a message."""
    return bytes([number << 3 | 2, len(data)]) + data


def number(field, value):
    return bytes([field << 3, value])


def tiny_onnx():
    """`y = relu(x)`, x f32 [3], by hand: the field numbers are those of onnx.proto."""
    shape = message(2, message(1, number(1, 3)))
    kind = message(2, message(1, number(1, 1) + shape))
    node = message(1, b"x") + message(2, b"y") + message(4, b"Relu")
    graph = message(1, node) + message(2, b"g") + message(11, message(1, b"x") + kind) + message(12, message(1, b"y") + kind)
    return number(1, 8) + message(7, graph) + message(8, number(2, 17))


def serinette(*arguments, check=True):
    done = subprocess.run([TARGET / "debug/serinette", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise SystemExit(f"serinette {' '.join(map(str, arguments))}: {done.stderr}")
    return done


# ---- the example of the text ----


def described(file, record, fields):
    """The fields of a record that are not 0, in words."""
    shown = []
    for field, _, _, kind in file.form.records[record]:
        value = fields.get(field)
        codes = file.form.codes.get((record, field)) if field != "flags" else None
        if kind == "bytes" or kind == "zero" or not (codes or value):
            continue
        code = f" {codes[value]}" if codes else ""
        shown.append(f"{field} {'none' if value == NONE else value}{code}")
    return ", ".join(shown)


def example(folder):
    """The blob of the example, and its text: hexadecimal bytes, what each run of them is."""
    (folder / "tiny.onnx").write_bytes(tiny_onnx())
    serinette("compile", folder / "tiny.onnx", "-o", folder / "tiny.srn")
    data, form = (folder / "tiny.srn").read_bytes(), text.Format()
    file = read_srn.read(data, form)
    parts = [(0, form.sizes["Header"], "header", described(file, "Header", file.header))]
    first, size = form.sizes["Header"], form.sizes["Section"]
    for i in range(file.header["section_count"]):
        s = file.record("Section", first + i * size)
        name, held = form.sections[s["id"]]
        parts.append((first + i * size, size, f"section table: {name}", described(file, "Section", s)))
        for n, record in enumerate(file[name] if held in form.sizes else []):
            parts.append((s["offset"] + n * s["stride"], s["stride"], f"{name}[{n}]", described(file, held, record)))
        if held not in form.sizes:
            ids = ", ".join("none" if v == NONE else str(v) for v in file[name]) if held else file[name].decode().replace("\n", "⏎")
            parts.append((s["offset"], s["bytes"], name, ids))
    lines, end = ["```"], 0
    for at, length, name, words in sorted(parts):
        if at > end:
            lines += [f"{end:06x}  zeros", f"        {data[end:at].hex(' ')}"]
        lines.append(f"{at:06x}  {name}{': ' if words else ''}{words}")
        lines += [f"        {data[i : min(i + 16, at + length)].hex(' ')}" for i in range(at, at + length, 16)]
        end = at + length
    assert end == len(data), "bytes behind the last section"
    return data, "\n".join(lines + ["```"])


def bytes_of(written):
    """The bytes of an example."""
    rows = (line for line in written.split("\n") if line.startswith("        "))
    return b"".join(bytes.fromhex(row) for row in rows)


def check_example(folder):
    data, wanted = example(folder)
    document = text.DOCUMENT.read_text(encoding="utf-8")
    written = document[document.index(BEGIN) + len(BEGIN) : document.index(END)].strip()
    file = read_srn.read(bytes_of(written), text.Format())
    assert [show.step_line(file, i) for i in range(len(file["Steps"]))] == ["0: Relu x f32[3] → y f32[3]"]
    assert written == wanted, "the example of docs/format.md is out of date: test_read_srn.py --example"
    assert bytes_of(written) == data, "the bytes of the example are not those of the file"


# ---- what others say about a file ----


def port(file, entry, value):
    """An input or output as `inspect` shows it."""
    v = file["Values"][value]
    kinds = [(file.name("Exprs", e, "op"), e) for e in (file["Exprs"][d] for d in file.dims(v))]
    shape = [e["b"] if k == "CONSTANT" else file["Symbols"][e["a"]]["name"] if k == "SYMBOL" else "?" for k, e in kinds]
    found = {"entry": entry["name"], "name": v["name"], "dtype": file.form.types[v["dtype"]][0], "shape": shape}
    hints = [json.loads(h["text"]) for h in file["Hints"] if h["value"] == value]
    return {**found, "hint": hints[0]} if hints else found


def space(file, plan, *names):
    """Bytes of a plan's arenas of some spaces."""
    arenas = file["Arenas"][plan["arenas"][0] : sum(plan["arenas"])]
    return sum(a["bytes"] for a in arenas if not names or file.name("Arenas", a, "space") in names)


def facts(file, plan):
    """What `inspect --json` should say, from our reading; `plan` is the one that it looks at."""
    open_sizes = [(i, s) for i, s in enumerate(file["Symbols"]) if file.is_a("Symbols", s, "kind", "INPUT")]
    entries, ports = [], {"inputs": [], "outputs": []}
    for e in file["Entries"]:
        inputs, outputs = file.operands(e)
        for key, ids in (("inputs", inputs), ("outputs", outputs)):
            ports[key] += [port(file, e, v) for v in ids]
        names = [[file["Values"][v]["name"] for v in ids] for ids in (inputs, outputs)]
        kind = file.name("Entries", e, "kind").lower()
        entries.append({"name": e["name"], "kind": kind, "steps": e["steps"], "inputs": names[0], "outputs": names[1]})
    ops = []
    for i, s in enumerate(file["Signatures"]):
        types = [file.form.types.get(c, ("-",))[0] for c in bytes.fromhex(s["dtypes"])]
        used = sum(st["link"] == i for st in file["Steps"] if file.is_a("Steps", st, "kind", "OP"))
        n, m = s["inputs"], s["outputs"]
        ops.append({"op": file.form.ops[s["op"]].name, "inputs": types[:n], "outputs": types[n : n + m], "count": used})
    plans = [
        {
            "name": p["name"],
            "profile": file.name("Plans", p, "profile").lower(),
            "arena_bytes": space(file, p),
            "arena_lower_bound_bytes": p["lower_bound"],
            "waves": p["waves"][1],
            "bounds": {s["name"]: file["Bounds"][p["bounds"][0] + i]["high"] for i, s in open_sizes},
        }
        for p in file["Plans"]
    ]
    weights = {v["section"] for v in file["Values"]} - {NONE}
    return {
        "format": f"{file.header['major']}.{file.header['minor']}",
        "digest": file.header["digest"],
        "file_bytes": len(file.data),
        "arena_bytes": space(file, plan, "WORK"),
        "state_bytes": space(file, plan, "STATE"),
        "param_bytes": space(file, plan, "PARAM"),
        "derived_bytes": space(file, plan, "DERIVED"),
        "arena_lower_bound_bytes": plan["lower_bound"],
        "weight_bytes": sum(file["Weights"][w]["bytes"] for w in weights),
        "steps": len(file["Steps"]),
        "waves": plan["waves"][1],
        "entries": entries,
        **ports,
        "symbols": [{k: s[k] for k in ("name", "low", "high", "multiple_of")} for _, s in open_sizes],
        "ops": ops,
        "plans": plans,
        "self_tests": len(file["SelfTests"]),
        "metadata": {m["key"]: m["value"] for m in file["Metadata"]},
    }


def check_self_tests(file):
    """The vectors of a section follow one another to its end: the sizes, inputs and outputs that the text says."""
    ends = {}
    for t in file["SelfTests"]:
        section, at = file["Weights"][t["section"]], t["offset"]
        assert at == ends.get(t["section"], 0), "vectors follow one another"
        data = file.data[section["offset"] : section["offset"] + section["bytes"]]
        symbols = [int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little") for i in range(len(file["Symbols"]))]
        for s, value in zip(file["Symbols"], symbols):
            fits = s["low"] <= value <= s["high"] and value % s["multiple_of"] == 0
            assert value == 0 if file.is_a("Symbols", s, "kind", "COUNTER") else fits, f"{s['name']} is {value}"
        sizes, at = evaluate(file, symbols), at + 8 * len(symbols)
        for side in file.operands(file["Entries"][t["entry"]]):
            for v in side:
                at += -(-tensor_bytes(file, file["Values"][v], sizes) // 8) * 8
        ends[t["section"]] = at
    for section, end in ends.items():
        assert end == file["Weights"][section]["bytes"], f"the vectors end at {end}"


def check_against_inspect(path, form):
    """Two readings of one file."""
    file = read_srn.read(path.read_bytes(), form)
    said = json.loads(serinette("inspect", path, "--json").stdout)
    # The plan of the host: of those that admit all sizes the smallest.
    admits = lambda p: all(file["Bounds"][p["bounds"][0] + i]["high"] == s["high"] for i, s in enumerate(file["Symbols"]))  # noqa: E731
    plan = min((p for p in file["Plans"] if admits(p)), key=lambda p: space(file, p))
    for key, value in facts(file, plan).items():
        assert said[key] == value, f"{path}: {key} is {value}, inspect says {said[key]}"
    check_self_tests(file)
    listing = "\n".join(show.lines(file))
    assert all(f"entry {e['name']} " in listing for e in file["Entries"])
    return file


# ---- damage ----


def refused(data, form, what):
    try:
        read_srn.read(bytes(data), form)
    except Refused as e:
        assert str(e).startswith("offset "), f"{what}: {e}"
        return
    raise AssertionError(f"{what} was accepted")


def check_damage(path, file):
    """Cut anywhere, or with any bit changed, a file is refused with a message."""
    data, form = path.read_bytes(), file.form
    table = [form.sizes["Header"] + i * form.sizes["Section"] for i in range(file.header["section_count"] + 1)]
    ends = [file.starts[t] + file.strides[t] * len(file[t]) for t in file.tables]
    weights = [w["offset"] + n for w in file["Weights"] for n in (0, w["bytes"])]
    borders = {*table, *ends, *file.starts.values(), *weights, file.header["meta_bytes"], 0, 8, len(data)}
    for end in sorted({b + d for b in borders for d in (-1, 0, 1)} & set(range(len(data)))):
        refused(data[:end], form, f"{path}: the first {end} bytes")
    refused(data + b"\0", form, f"{path}: a byte more")
    chance = random.Random(5)
    places = [chance.randrange(file.header["meta_bytes"]) for _ in range(400)] + [chance.randrange(len(data)) for _ in range(100)]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 1 << chance.randrange(8)
        refused(damaged, form, f"{path}: byte {at} is {damaged[at]:#x}")


def sealed(data, form):
    """The file with the checksums that its records have."""
    meta = int.from_bytes(data[16:24], "little")
    for name in ("crc", "digest"):
        at, size = next((at, size) for field, at, size, _ in form.records["Header"] if field == name)
        data[at : at + size] = bytes(size)
    crc, digest = zlib.crc32(data[:meta]).to_bytes(4, "little"), hashlib.sha256(data[:meta]).digest()
    for name, value in (("crc", crc), ("digest", digest)):
        at = next(at for field, at, _, _ in form.records["Header"] if field == name)
        data[at : at + len(value)] = value
    return data


def mutant(data, file, chance):
    """The file with one field of one record changed, and right checksums."""
    form, out = file.form, bytearray(data)
    held = dict(form.sections.values())
    table = chance.choice([t for t in file.tables if file[t]])
    row = chance.randrange(len(file[table]))
    start, width = file.starts[table] + row * file.strides[table], file.strides[table]
    if held.get(table) in form.records:
        _, at, width, kind = chance.choice(form.records[held[table]])
        # Texts and ranges are pairs of numbers.
        half = 4 * chance.randrange(2) if kind in ("text", "hint text", "range") else 0
        start, width = start + at + half, 4 if kind in ("text", "hint text", "range") else width
    if width > 8:
        start, width = start + chance.randrange(width), 1
    old, most = int.from_bytes(out[start : start + width], "little"), (1 << 8 * width) - 1
    nearby = [old - 1, old + 1, old ^ 1 << chance.randrange(8 * width), 0, 1, most, most >> 1, chance.randrange(60), len(file["Values"])]
    out[start : start + width] = (chance.choice(nearby) & most).to_bytes(width, "little")
    return sealed(out, form)


def check_mutants(path, file, folder):
    """Damage behind the checksum never breaks the reader, and what it refuses the verifier refuses."""
    data, chance, tried, taken = path.read_bytes(), random.Random(7), 0, 0
    for _ in range(MUTANTS):
        damaged = bytes(mutant(data, file, chance))
        try:
            read = read_srn.read(damaged, file.form)
            list(show.lines(read))
            json.dumps(read_srn.finite(show.as_json(read)))
            taken += 1
        except Refused as e:
            if tried < VERIFIED:
                (folder / "mutant.srn").write_bytes(damaged)
                done = serinette("verify", folder / "mutant.srn", check=False)
                assert done.returncode == 1, f"{path}: refused here ({e}), accepted by the verifier"
                tried += 1
    return taken


def check_command_line(folder, path):
    def run(*arguments):
        return subprocess.run([sys.executable, ROOT / "tools/read_srn.py", *arguments], capture_output=True, text=True, check=False)

    good = run(path)
    assert good.returncode == 0 and good.stdout.startswith("format 0.1"), good.stderr
    whole = json.loads(run(path, "--json").stdout)
    assert whole["header"]["major"] == 0 and whole["Steps"][0]["attributes"]
    (folder / "bad.srn").write_bytes(path.read_bytes()[:200])
    for bad in (folder / "bad.srn", folder / "none.srn", folder):
        done = run(bad)
        assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert run().returncode == 2


def main():
    # An old program would write other attribute records than the text describes.
    subprocess.run(["cargo", "build", "-q", "-p", "serinette-cli"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if sys.argv[1:] == ["--example"]:
            document = text.DOCUMENT.read_text(encoding="utf-8")
            before, after = document[: document.index(BEGIN) + len(BEGIN)], document[document.index(END) :]
            text.DOCUMENT.write_text(f"{before}\n\n{example(folder)[1]}\n\n{after}", encoding="utf-8")
            return
        subprocess.run([sys.executable, ROOT / "tools/format_tables.py", "--check"], check=True)
        check_example(folder)
        form = text.Format()
        for n, (model, *options) in enumerate(MODELS):
            path = folder / f"{n}.srn"
            serinette("compile", model, "-o", path, *options)
            file = check_against_inspect(path, form)
            check_damage(path, file)
            taken = check_mutants(path, file, folder)
            print(f"{model}: {len(file['Steps'])} steps, {len(file['Plans'])} plans; of {MUTANTS} changed files {taken} are still files")
        check_command_line(folder, folder / "2.srn")
    print("ok")


if __name__ == "__main__":
    main()
