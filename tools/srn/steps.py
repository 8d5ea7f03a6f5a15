"""Steps: operands, attributes, in-place use, the nesting of regions."""

from .file import NONE, Refused


class Steps:
    """Checks the steps of entries."""

    def __init__(self, checker):
        self.checker, self.file, self.form = checker, checker.file, checker.form
        self.steps = self.file["Steps"]

    def need(self, condition, number, field, what="is not possible here"):
        self.checker.need(condition, "Steps", number, field, what)

    def entry(self, entry):
        """The steps of an entry; `open` holds the edges of regions that have begun."""
        open_ = []
        for number in range(entry["first_step"], entry["first_step"] + entry["steps"]):
            step = self.steps[number]
            self.checker.range("Steps", number, "operands", step["operands"], step["inputs"] + step["outputs"], "Operands")
            loops = {self.steps[first]["counter"] for first, _ in open_ if self.kind(first) == "LOOP"} - {NONE}
            kind = self.kind(number)
            if kind == "OP":
                self.op(number, step, loops)
                continue
            for field in ("scratch", "attrs", "attr_bytes"):
                self.need(step[field] == 0, number, field)
            self.need(not any(bytes.fromhex(step["in_place"])), number, "in_place")
            if kind != "LOOP":
                self.need(step["max_trips"] == NONE, number, "max_trips")
                self.need(step["counter"] == NONE, number, "counter")
            if kind in ("IF", "LOOP"):
                self.need(number < step["link"] < len(self.steps), number, "link")
                (self.begin_if if kind == "IF" else self.begin_loop)(number, step, loops)
                open_.append((number, False))
                self.need(len(open_) <= self.form.limits["regions within one another"][0], number, "kind", "nested too deeply")
            else:
                self.need(step["inputs"] == step["outputs"] == step["operands"] == 0, number, "operands")
                self.need(open_, number, "kind", "no region is open")
                self.go_on(number, step, kind, open_)
        if open_:
            raise Refused(self.file.at("Steps", open_[-1][0]), f"Steps[{open_[-1][0]}] has no end")

    def kind(self, number):
        return self.file.name("Steps", self.steps[number], "kind")

    def go_on(self, number, step, kind, open_):
        """An `Else` or `End`."""
        first, second = open_.pop()
        opening = self.steps[first]
        if kind == "ELSE":
            self.need(self.kind(first) == "IF" and not second, number, "kind", f"of the region that begins at {first}")
            self.need(opening["link"] == number, first, "link", f"its Else is {number}")
            self.need(number < step["link"] < len(self.steps), number, "link")
            open_.append((first, True))
        else:
            self.need(step["link"] == first, number, "link", f"the region begins at {first}")
            before = opening["link"] if second else first
            self.need(self.steps[before]["link"] == number, before, "link", f"its End is {number}")
            results = self.kind(first) == "IF" and not second and opening["outputs"]
            self.need(not results, first, "outputs", "results without an Else")

    def value(self, number, id_, loops):
        """An operand that is there, where it may be used."""
        values = self.file["Values"]
        self.need(id_ < len(values), number, "operands", f"names value {id_}, there are {len(values)}")
        counter = values[id_]["counter"]
        self.need(counter == NONE or counter in loops, number, "operands", f"value {id_} belongs to another loop")
        return values[id_]

    def single(self, number, id_, loops, types):
        v = self.value(number, id_, loops)
        exprs = [self.file["Exprs"][d] for d in self.file.dims(v)]
        one = all(self.file.is_a("Exprs", e, "op", "CONSTANT") and e["b"] == 1 for e in exprs)
        self.need(one and self.checker.type(v["dtype"]) in types, number, "operands", f"value {id_} is not one element of {types}")

    def root(self, number, id_):
        """A result or carried value."""
        v = self.value(number, id_, set())
        own = self.file.is_a("Values", v, "view", "NONE") and self.file.is_a("Values", v, "role", "INTERMEDIATE")
        self.need(own, number, "operands", f"value {id_} is not an intermediate value of its own")
        return v

    def begin_if(self, number, step, loops):
        self.need(step["inputs"] == 1, number, "inputs", "one condition")
        inputs, outputs = self.file.operands(step)
        self.single(number, inputs[0], loops, ("bool",))
        for v in outputs:
            self.root(number, v)

    def begin_loop(self, number, step, loops):
        self.need(step["inputs"] == step["outputs"] + 2, number, "inputs", "condition, trips and carried values")
        self.checker.size("Steps", number, "max_trips")
        if step["counter"] != NONE:
            symbol = self.file["Symbols"][self.checker.id("Steps", number, "counter", "Symbols")]
            own = self.file.is_a("Symbols", symbol, "kind", "COUNTER") and symbol["source"] == number
            self.need(own, number, "counter", "not a counter of this loop")
        (condition, trips, *before), after = self.file.operands(step)
        if condition != NONE:
            self.single(number, condition, loops, ("bool",))
            self.need(condition in before, number, "operands", "the condition is not carried")
        if trips != NONE:
            self.single(number, trips, loops, ("i32", "i64"))
        for a, b in zip(before, after):
            x, y = self.root(number, a), self.root(number, b)
            same = x["dtype"] == y["dtype"] and self.file.dims(x) == self.file.dims(y)
            self.need(same, number, "operands", f"values {a} and {b} differ in type or dimensions")

    def op(self, number, step, loops):
        signature = self.file["Signatures"][self.checker.id("Steps", number, "link", "Signatures")]
        self.need(step["scratch"] <= 2, number, "scratch", "no scratch class")
        self.need(step["max_trips"] == NONE, number, "max_trips")
        self.need(step["counter"] == NONE, number, "counter")
        counts = (signature["inputs"], signature["outputs"])
        self.need((step["inputs"], step["outputs"]) == counts, number, "inputs", f"the signature has {counts}")
        inputs, outputs = self.file.operands(step)
        for id_, code in zip(inputs + outputs, bytes.fromhex(signature["dtypes"])):
            if id_ == NONE:
                self.need(code == 0, number, "operands", "an absent operand that the signature has")
            else:
                found = self.value(number, id_, loops)["dtype"]
                self.need(found == code, number, "operands", f"value {id_} has element type {found}, the signature {code}")
        op = self.form.ops[signature["op"]]
        self.attributes(number, step, op, loops)
        self.in_place(number, step, op, inputs, outputs)

    def attributes(self, number, step, op, loops):
        size = self.form.sizes[f"attributes {op.attributes}"] if op.attributes else 0
        self.need(step["attrs"] % 8 == 0, number, "attrs", "not a multiple of 8")
        most = self.form.limits["attribute bytes of a step"][0]
        self.need(size <= step["attr_bytes"] <= most, number, "attr_bytes", f"{op.name} has {size}")
        self.checker.range("Steps", number, "attrs", step["attrs"], step["attr_bytes"], "Attributes")
        start = self.file.starts.get("Attributes", 0) + step["attrs"]
        self.file.zero(start + size, start + step["attr_bytes"])
        record = self.file.attributes(step) or {}
        exprs = record.get("exprs", [])[: record.get("count", 0)]
        exprs += [e for axis, e in enumerate(record.get("starts", [])) if record.get("symbolic", 0) >> axis & 1]
        for e in exprs:
            known = 0 <= e < len(self.file["Exprs"])
            self.need(known, number, "attrs", f"names expression {e}")
            if self.checker.is_counter(e):
                self.need(self.file["Exprs"][e]["a"] in loops, number, "attrs", f"expression {e} counts another loop")

    def in_place(self, number, step, op, inputs, outputs):
        marks = bytes.fromhex(step["in_place"])
        for o, mark in enumerate(marks):
            if mark == 0:
                continue
            there = mark <= len(inputs) and o < len(outputs) and inputs[mark - 1] != NONE and marks.count(mark) == 1
            self.need(there and (mark - 1, o) in op.in_place, number, "in_place", f"{op.name} allows {sorted(op.in_place)}")
            x, y = self.file["Values"][inputs[mark - 1]], self.file["Values"][outputs[o]]
            whole = all(self.file.is_a("Values", v, "view", "NONE", "RESHAPE") for v in (x, y))
            fixed = self.file.is_a("Values", x, "role", "CONSTANT", "WEIGHT") or x["flags"]
            self.need(whole and not fixed and x["dtype"] == y["dtype"], number, "in_place")
