"""Records by themselves: texts, codes, ids, ranges, types, regions, entries, ancillary sections.

What a verifier proves about memory beyond that (liveness, hazards) is not checked here."""

from .file import NONE, Refused

# Fields that hold an id of another table, or none where `none` says so.
IDS = {
    "Guards": [("a", "Exprs"), ("b", "Exprs")],
    "Values": [("root", "Values")],
    "Hints": [("value", "Values")],
    "SelfTests": [("entry", "Entries"), ("section", "Weights")],
    "DebugNames": [("step", "Steps")],
}


class Checker:
    """Checks a file; what is wrong is raised."""

    def __init__(self, file):
        self.file, self.form = file, file.form

    def fail(self, table, number, field, what):
        name = f"{table}[{number}]" + (f".{field}" if field else "")
        raise Refused(self.file.at(table, number, field), f"{name} {what}")

    def need(self, condition, table, number, field, what="is not possible here"):
        if not condition:
            value = self.file[table][number]
            self.fail(table, number, field, f"is {value[field] if field else value}: {what}")

    def id(self, table, number, field, target, none=False):
        value, count = self.file[table][number][field], len(self.file[target])
        if value >= count and not (none and value == NONE):
            self.fail(table, number, field, f"is {value}, {target} has {count}")
        return value

    def size(self, table, number, field, expr=None):
        """A field that is an expression, and no counter."""
        expr = self.id(table, number, field, "Exprs") if expr is None else expr
        if expr >= len(self.file["Exprs"]) or self.is_counter(expr):
            self.fail(table, number, field, f"names expression {expr}, a counter or none of {len(self.file['Exprs'])}")
        return expr

    def is_counter(self, expr):
        e, symbols = self.file["Exprs"][expr], self.file["Symbols"]
        known = self.file.is_a("Exprs", e, "op", "SYMBOL") and e["a"] < len(symbols)
        return known and self.file.is_a("Symbols", symbols[e["a"]], "kind", "COUNTER")

    def range(self, table, number, field, first, count, target):
        if first + count > len(self.file[target]):
            self.fail(table, number, field, f"leads to {first} to {first + count}, {target} has {len(self.file[target])}")

    def all(self):
        self.texts()
        for table, held in self.form.sections.values():
            for number, record in enumerate(self.file[table] if held in self.form.sizes else []):
                self.codes(table, held, number, record)
                for field, target in IDS.get(table, []):
                    self.id(table, number, field, target)
        if self.file["BlockFormats"]:
            self.fail("BlockFormats", 0, None, "is reserved")
        for check in (self.symbol, self.expr, self.guard, self.value, self.signature):
            table = f"{check.__name__.capitalize()}s"
            for number, record in enumerate(self.file[table]):
                check(number, record)
        self.entries()
        self.ancillary()

    # ---- every record ----

    def texts(self):
        for table in ("Strings", "HintText", "Provenance"):
            try:
                self.file[table].decode()
            except UnicodeDecodeError as e:
                raise Refused(self.file.starts[table] + e.start, f"{table} is not UTF-8: {e.reason}") from e

    def codes(self, table, held, number, record):
        for field, _, _, kind in self.form.records[held]:
            known = self.form.codes.get((held, field))
            if known and field != "flags":
                self.need(record[field] in known, table, number, field, "no code that this reader knows")
            elif field == "flags" and table != "Values":
                self.need(record[field] == 0, table, number, field, "flags are zero")
            if kind in ("text", "hint text"):
                record[field] = self.text(table, number, field, "Strings" if kind == "text" else "HintText")

    def text(self, table, number, field, section):
        first, length = self.file[table][number][field]
        strings = self.file[section]
        try:
            whole = first + length <= len(strings)
            return strings[first : first + length].decode() if whole else self.fail(table, number, field, f"leads beyond {section}")
        except UnicodeDecodeError as e:
            raise Refused(self.file.at(table, number, field), f"{table}[{number}].{field} cuts a character: {e.reason}") from e

    # ---- the program ----

    def symbol(self, number, s):
        table = "Symbols"
        self.need(not self.file.is_a(table, s, "kind", "PRODUCED"), table, number, "kind", "reserved")
        self.need(s["low"] <= s["high"], table, number, "low", "above the greatest value")
        self.need(s["multiple_of"] > 0, table, number, "multiple_of", "at least 1")
        if self.file.is_a(table, s, "kind", "COUNTER"):
            step = self.file["Steps"][self.id(table, number, "source", "Steps")]
            named = self.file.is_a("Steps", step, "kind", "LOOP") and step["counter"] == number
            self.need(named, table, number, "source", "not the loop that names it")
        elif self.id(table, number, "source", "Values", none=True) != NONE:
            v = self.file["Values"][s["source"]]
            plain = self.file.is_a("Values", v, "role", "INPUT") and self.file.is_a("Values", v, "view", "NONE")
            fits = plain and v["rank"] == 0 and self.type(v["dtype"]) in ("i32", "i64")
            self.need(fits, table, number, "source", "not a scalar i32 or i64 input")

    def type(self, code):
        return self.form.types.get(code, (None, 0))[0]

    def expr(self, number, e):
        table, op = "Exprs", self.file.name("Exprs", e, "op")
        if op == "CONSTANT":
            return self.need(e["a"] == 0, table, number, "a")
        if op == "SYMBOL":
            self.id(table, number, "a", "Symbols")
            return self.need(e["b"] == 0, table, number, "b")
        for field in ("a", "b") if op in ("ADD", "MUL", "MIN", "MAX") else ("a",):
            self.need(e[field] < number, table, number, field, "an operand that does not come before it")
            self.size(table, number, field, e[field])
        return self.need(e["b"] > 0 or op not in ("DIV_FLOOR", "DIV_CEIL"), table, number, "b", "a divisor")

    def guard(self, number, g):
        self.need(g["relation"] <= 1, "Guards", number, "relation", "no code that this reader knows")
        self.size("Guards", number, "a")
        self.size("Guards", number, "b")

    def value(self, number, v):
        table, view, role = "Values", self.file.name("Values", v, "view"), self.file.name("Values", v, "role")
        self.need(v["dtype"] in self.form.types, table, number, "dtype", "no element type of this version")
        self.need(v["layout"] == 0, table, number, "layout", "reserved")
        self.need(v["rank"] <= self.form.limits["axes of a value"][0], table, number, "rank", "too many axes")
        keep = self.form.code("Value", "flags", "KEEP") if role == "INPUT" else 0
        self.need(v["flags"] & ~keep == 0, table, number, "flags", "bits without a meaning")
        self.range(table, number, "dims", v["dims"], v["rank"], "Dims")
        for d in self.file.dims(v):
            self.size(table, number, "dims", d)
        self.data(number, v, view == "NONE" and (role in ("CONSTANT", "WEIGHT") or role == "PARAM" and v["section"] != NONE))
        root = self.file["Values"][v["root"]]
        if view == "NONE":
            self.need(v["root"] == number, table, number, "root", "a value of its own names itself")
        else:
            own = self.file.is_a(table, root, "view", "NONE") and (root["dtype"], root["role"]) == (v["dtype"], v["role"])
            self.need(own, table, number, "root", "a view, or of another type or role")
            # The root may come later, and is looked at here.
            self.range(table, v["root"], "dims", root["dims"], root["rank"], "Dims")
            for d in self.file.dims(root):
                self.size(table, v["root"], "dims", d)
        cut = view in ("WINDOW", "PART")
        self.need(v["axis"] < max(v["rank"], 1) if cut else v["axis"] == 0, table, number, "axis")
        if cut:
            self.size(table, number, "start")
        else:
            self.need(v["start"] == NONE, table, number, "start")
        if view == "WINDOW" and v["counter"] != NONE:
            symbol = self.file["Symbols"][self.id(table, number, "counter", "Symbols")]
            self.need(self.file.is_a("Symbols", symbol, "kind", "COUNTER"), table, number, "counter", "no counter")
            self.size(table, number, "counter_stride")
        else:
            self.need(v["counter"] == NONE, table, number, "counter")
            self.need(v["counter_stride"] == NONE, table, number, "counter_stride")
        if view != "PART":
            self.need(v["part"] == v["parts"] == 0, table, number, "part")
        else:
            self.part(number, v, root, role)

    def data(self, number, v, wanted):
        table = "Values"
        if not wanted:
            self.need(v["section"] == NONE, table, number, "section")
            return self.need(v["data_offset"] == v["data_bytes"] == 0, table, number, "data_offset")
        section = self.file["Weights"][self.id(table, number, "section", "Weights")]
        self.need(v["data_offset"] % 8 == 0, table, number, "data_offset", "not a multiple of 8")
        self.need(v["data_offset"] + v["data_bytes"] <= section["bytes"], table, number, "data_offset", f"the section has {section['bytes']} bytes")
        size = self.form.types[v["dtype"]][1]
        for d in self.file.dims(v):
            e = self.file["Exprs"][d]
            self.need(self.file.is_a("Exprs", e, "op", "CONSTANT"), table, number, "dims", "data of open size")
            size *= e["b"]
        return self.need(size == v["data_bytes"], table, number, "data_bytes", f"the tensor has {size}")

    def part(self, number, v, root, role):
        table, values = "Values", self.file["Values"]
        self.need(role in ("INTERMEDIATE", "DERIVED"), table, number, "role")
        self.need(1 <= v["parts"] <= self.form.limits["parts of a root"][0] and v["part"] < v["parts"], table, number, "part")
        self.need(root["rank"] == v["rank"], table, number, "rank", "another rank than the root's")
        follows = lambda a, b: all(a[f] == b[f] for f in ("view", "root", "axis", "parts")) and a["part"] + 1 == b["part"]  # noqa: E731
        along = lambda x: self.file.dims(x)[v["axis"]]  # noqa: E731
        if v["part"] == 0:
            e = self.file["Exprs"][v["start"]]
            self.need(self.file.is_a("Exprs", e, "op", "CONSTANT") and e["b"] == 0, table, number, "start", "the first part starts at 0")
        else:
            before = values[number - 1] if number else v
            self.need(follows(before, v), table, number, "part", "parts are consecutive values")
            starts = self.is_sum(v["start"], before["start"], along(before))
            self.need(starts, table, number, "start", "not where the part before ends")
        if v["part"] + 1 == v["parts"]:
            self.need(self.is_sum(along(root), v["start"], along(v)), table, number, "start", "the last part does not end with the root")
        else:
            self.need(number + 1 < len(values) and follows(v, values[number + 1]), table, number, "part", "the next part is missing")

    def is_sum(self, total, a, b):
        exprs = self.file["Exprs"]
        numbers = [exprs[e]["b"] if self.file.is_a("Exprs", exprs[e], "op", "CONSTANT") else None for e in (total, a, b)]
        if numbers[1] == 0 and total == b or numbers[2] == 0 and total == a:
            return True
        if None not in numbers:
            return numbers[1] + numbers[2] == numbers[0]
        e = exprs[total]
        return self.file.is_a("Exprs", e, "op", "ADD") and (e["a"], e["b"]) in ((a, b), (b, a))

    def signature(self, number, s):
        table = "Signatures"
        self.need(s["op"] in self.form.ops and s["version"] == 1, table, number, "op", f"version {s['version']}: not known")
        self.need(s["variant"] == 0, table, number, "variant", "reserved")
        most = self.form.limits["inputs, outputs of an op step"]
        self.need(s["inputs"] <= most[0] and s["outputs"] <= most[1], table, number, "inputs", "too many operands")
        codes, count = bytes.fromhex(s["dtypes"]), s["inputs"] + s["outputs"]
        names = [self.type(c) for c in codes[:count]]
        self.need(all(c == 0 or n for c, n in zip(codes, names)) and not any(codes[count:]), table, number, "dtypes", "no element types")
        op = self.form.ops[s["op"]]
        fits = op.accepts(names[: s["inputs"]], names[s["inputs"] :], self.form.sets)
        self.need(fits, table, number, "dtypes", f"{op.name} does not take {names}")

    def entries(self):
        from .steps import Steps

        names, following, steps = set(), 0, Steps(self)
        entries = self.file["Entries"]
        if len(entries) > self.form.limits["entries"][0]:
            self.fail("Entries", 0, None, f"is one of {len(entries)}")
        for number, e in enumerate(entries):
            self.need(e["name"] and e["name"] not in names, "Entries", number, "name", "empty or used twice")
            names.add(e["name"])
            self.need(e["first_step"] == following, "Entries", number, "first_step", f"the entry before ends at {following}")
            following += e["steps"]
            self.range("Entries", number, "steps", e["first_step"], e["steps"], "Steps")
            self.range("Entries", number, "operands", e["operands"], e["inputs"] + e["outputs"], "Operands")
            inputs, outputs = self.file.operands(e)
            for v in inputs + outputs:
                self.need(v < len(self.file["Values"]), "Entries", number, "operands", f"names value {v}")
            for v in (self.file["Values"][i] for i in inputs):
                plain = self.file.is_a("Values", v, "role", "INPUT") and self.file.is_a("Values", v, "view", "NONE")
                self.need(plain, "Entries", number, "inputs", "an input that is none")
            counted = any(self.file["Values"][v]["counter"] != NONE for v in outputs)
            self.need(not counted, "Entries", number, "outputs", "an output that moves with a loop")
            steps.entry(e)
        if following != len(self.file["Steps"]):
            raise Refused(self.file.at("Steps", following), f"Steps[{following}] is in no entry")
        prepares = [e for e in entries if self.file.is_a("Entries", e, "kind", "PREPARE")]
        derived = any(self.file.is_a("Values", v, "role", "DERIVED") for v in self.file["Values"])
        if len(prepares) > 1 or derived and not prepares or any(e["inputs"] or e["outputs"] for e in prepares):
            raise Refused(self.file.at("Entries", 0), f"{len(prepares)} entries of the kind PREPARE, derived values: {derived}")

    def ancillary(self):
        least = 0
        for number, n in enumerate(self.file["DebugNames"]):
            self.need(n["step"] >= least, "DebugNames", number, "step", "steps ascend")
            least = n["step"] + 1
        for number, t in enumerate(self.file["SelfTests"]):
            section = self.file["Weights"][t["section"]]
            self.need(t["offset"] % 8 == 0 and t["offset"] <= section["bytes"], "SelfTests", number, "offset")
