"""Plans: who owns which records, arenas, slots and their sizes, waves and lists."""

from .file import NONE, Refused

U64 = 1 << 64
SPACES = {"INTERMEDIATE": "WORK", "INPUT": "WORK", "STATE": "STATE", "PARAM": "PARAM", "DERIVED": "DERIVED"}


def evaluate(file, symbols):
    """The value of every expression."""
    values = []
    for number, e in enumerate(file["Exprs"]):
        op = file.name("Exprs", e, "op")
        if op in ("CONSTANT", "SYMBOL"):
            v = e["b"] if op == "CONSTANT" else symbols[e["a"]]
        else:
            a, b = values[e["a"]], values[e["b"]] if op in ("ADD", "MUL", "MIN", "MAX") else e["b"]
            v = {
                "ADD": lambda: a + b,
                "MUL": lambda: a * b,
                "MIN": lambda: min(a, b),
                "MAX": lambda: max(a, b),
                "DIV_FLOOR": lambda: a // b,
                "DIV_CEIL": lambda: -(-a // b),
                "SUB": lambda: max(a - b, 0),
            }[op]()
        if v >= U64:
            raise Refused(file.at("Exprs", number), f"Exprs[{number}] does not fit 64 bits")
        values.append(v)
    return values


def tensor_bytes(file, value, sizes):
    n = file.form.types[value["dtype"]][1]
    for d in file.dims(value):
        n *= sizes[d]
    return n


class Plans:
    """Checks every plan."""

    def __init__(self, checker):
        self.checker, self.file = checker, checker.file

    def need(self, condition, table, number, field, what="is not possible here"):
        self.checker.need(condition, table, number, field, what)

    def all(self):
        file, ends = self.file, {}
        plans = file["Plans"]
        if len(plans) > file.form.limits["plans"][0]:
            self.checker.fail("Plans", 0, None, f"is one of {len(plans)}")
        for number, p in enumerate(plans):
            owned = {
                "bounds": ("Bounds", *p["bounds"]),
                "arenas": ("Arenas", *p["arenas"]),
                "slots": ("Slots", *p["slots"]),
                "waves": ("Waves", *p["waves"]),
                "lists": ("SlotLists", *p["lists"]),
                "value_slots": ("ValueSlots", p["value_slots"], len(file["Values"])),
                "scratch_slots": ("ScratchSlots", p["scratch_slots"], len(file["Steps"])),
            }
            for field, (table, first, count) in owned.items():
                self.need(first == ends.get(table, 0), "Plans", number, field, f"the plan before ends at {ends.get(table, 0)}")
                self.checker.range("Plans", number, field, first, count, table)
                ends[table] = first + count
            self.plan(number, p)
        for table in ("Bounds", "Arenas", "Slots", "Waves", "SlotLists", "ValueSlots", "ScratchSlots"):
            if ends.get(table, 0) != len(file[table]):
                raise Refused(file.at(table, ends.get(table, 0)), f"{table}[{ends.get(table, 0)}] belongs to no plan")

    def plan(self, number, p):
        file = self.file
        self.need(p["bounds"][1] == len(file["Symbols"]), "Plans", number, "bounds", f"there are {len(file['Symbols'])} symbols")
        self.need(p["align"] >= 8 and p["align"] & (p["align"] - 1) == 0, "Plans", number, "align", "no power of two of at least 8")
        self.need(p["arenas"][1] <= file.form.limits["arenas of a plan"][0], "Plans", number, "arenas", "too many")
        high = []
        for i, s in enumerate(file["Symbols"]):
            b = file["Bounds"][p["bounds"][0] + i]
            self.need(s["low"] <= b["low"] <= b["high"] <= s["high"], "Bounds", p["bounds"][0] + i, "low", "not within the symbol's")
            high.append(b["high"])
        for i in range(p["arenas"][0], sum(p["arenas"])):
            a = file["Arenas"][i]
            power = a["align"] & (a["align"] - 1) == 0
            self.need(power and a["align"] >= p["align"], "Arenas", i, "align", f"the plan has {p['align']}")
            self.need(a["bytes"] % 8 == 0, "Arenas", i, "bytes", "not a multiple of 8")
        self.slots(p)
        self.values(p, evaluate(file, high))
        self.waves(number, p)

    def arena(self, p, slot):
        return self.file["Arenas"][p["arenas"][0] + slot["arena"]]

    def slots(self, p):
        ends = {}
        for i in range(p["slots"][0], sum(p["slots"])):
            s = self.file["Slots"][i]
            self.need(s["arena"] < p["arenas"][1], "Slots", i, "arena", f"the plan has {p['arenas'][1]}")
            self.need(s["offset"] % p["align"] == 0, "Slots", i, "offset", f"not a multiple of {p['align']}")
            self.need(s["bytes"] > 0 and s["bytes"] % 4 == 0, "Slots", i, "bytes", "no whole words")
            arena = self.arena(p, s)
            self.need(s["offset"] + s["bytes"] <= arena["bytes"], "Slots", i, "offset", f"the arena has {arena['bytes']} bytes")
            if not self.file.is_a("Arenas", arena, "space", "WORK"):
                self.need(s["offset"] >= ends.get(s["arena"], 0), "Slots", i, "offset", "overlaps the slot before")
                ends[s["arena"]] = s["offset"] + s["bytes"]

    def values(self, p, sizes):
        last = {}
        for i, v in enumerate(self.file["Values"]):
            at, role = p["value_slots"] + i, self.file.name("Values", v, "role")
            slot = self.file["ValueSlots"][at]
            where = lambda what: Refused(self.file.at("ValueSlots", at), f"value {i} has slot {slot}: {what}")  # noqa: B023, E731
            size = tensor_bytes(self.file, v, sizes)
            if size >= U64 // 2:
                raise where(f"{size} bytes are too many")
            if not self.file.is_a("Values", v, "view", "NONE") or role not in SPACES:
                if slot != NONE:
                    raise where("it has none of its own")
                continue
            if slot >= p["slots"][1]:
                raise where(f"the plan has {p['slots'][1]}")
            s = self.file["Slots"][p["slots"][0] + slot]
            space = self.file.name("Arenas", self.arena(p, s), "space")
            if space != SPACES[role] or s["bytes"] < size:
                raise where(f"{s['bytes']} bytes of the space {space} for {size} of the role {role}")
            if space != "WORK":
                if slot <= last.get(space, -1):
                    raise where("slots of values that last rise with them")
                last[space] = slot

    def waves(self, number, p):
        file, wave, following = self.file, p["waves"][0], 0
        end = sum(p["waves"])
        for e in file["Entries"]:
            step, stop = e["first_step"], e["first_step"] + e["steps"]
            while step < stop:
                if wave >= end:
                    raise Refused(file.at("Plans", number, "waves"), f"Plans[{number}].waves do not cover step {step}")
                w = file["Waves"][wave]
                self.need(w["first_step"] == step and 0 < w["steps"] <= stop - step, "Waves", wave, "first_step", f"step {step} is next")
                for i in range(step, step + w["steps"]):
                    edge = not file.is_a("Steps", file["Steps"][i], "kind", "OP")
                    self.need(not edge or w["steps"] == 1, "Waves", wave, "steps", "the edge of a region is a wave of its own")
                    scratch = file["ScratchSlots"][p["scratch_slots"] + i]
                    if scratch != NONE and (edge or scratch >= p["slots"][1]):
                        raise Refused(file.at("ScratchSlots", p["scratch_slots"] + i), f"step {i} has scratch slot {scratch}")
                for field in ("defs", "kills"):
                    first, count = w[field]
                    self.need(first == following and first + count <= p["lists"][1], "Waves", wave, field, f"lists go on at {following}")
                    following += count
                step += w["steps"]
                wave += 1
        self.need(wave == end, "Plans", number, "waves", f"wave {wave} is in no entry")
        self.need(following == p["lists"][1], "Plans", number, "lists", f"waves name {following}")
        for i in range(p["lists"][0], sum(p["lists"])):
            slot = file["SlotLists"][i]
            known = slot < p["slots"][1]
            if not known or not file.is_a("Arenas", self.arena(p, file["Slots"][p["slots"][0] + slot]), "space", "WORK"):
                raise Refused(file.at("SlotLists", i), f"SlotLists[{i}] is {slot}: no slot of the space WORK")
