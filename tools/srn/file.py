"""The bytes of a file as records: header, checksums, sections, weight sections."""

import hashlib
import struct
import zlib

NONE = 0xFFFFFFFF
ANCILLARY = 1
# Section ids from here on are ancillary.
FIRST_ANCILLARY = 32
VERSION = (0, 1)
CODES = {"u8": "B", "i8": "b", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "u64": "Q"}


class Refused(Exception):
    """The file is not what the format says."""

    def __init__(self, at, what):
        super().__init__(f"offset {at}: {what}")


class File:
    """A file that was read. `tables` holds lists of records (dicts), lists of ids, or bytes, by section."""

    def __init__(self, data, form):
        self.data, self.form = data, form
        self.tables, self.starts, self.strides = {}, {}, {}
        self.header = self.record("Header", 0)
        self.check_header()
        self.check_sums()
        self.read_sections()
        self.read_weights()

    def __getitem__(self, name):
        return self.tables.get(name, b"" if name in ("Strings", "Attributes", "HintText", "Provenance") else [])

    # ---- bytes ----

    def need(self, at, size, what):
        if at + size > len(self.data):
            raise Refused(at, f"{what} of {size} bytes beyond the end at {len(self.data)}")
        return self.data[at : at + size]

    def zero(self, start, end):
        found = self.data[start:end].lstrip(b"\0")
        if found:
            raise Refused(end - len(found), f"byte {found[0]:#x} where zero is wanted")

    def record(self, name, at):
        """The record at an offset: its fields, those of nested records as a dict."""
        self.need(at, self.form.sizes[name], name)
        found = {}
        for field, offset, size, kind in self.form.records[name]:
            raw = self.data[at + offset : at + offset + size]
            item, _, count = kind.partition(" × ")
            if kind == "zero":
                self.zero(at + offset, at + offset + size)
            elif kind in CODES:
                found[field] = struct.unpack(f"<{CODES[kind]}", raw)[0]
            elif count:
                found[field] = list(struct.unpack(f"<{count}{CODES[item]}", raw))
            elif kind == "bytes":
                found[field] = raw.hex()
            elif kind in ("text", "hint text", "range"):
                found[field] = list(struct.unpack("<II", raw))
            else:
                found[field] = self.record(f"attributes {kind}", at + offset)
        return found

    # ---- parts of the file ----

    def offset(self, record, field):
        return next(at for name, at, _, _ in self.form.records[record] if name == field)

    def check_header(self):
        h, at = self.header, lambda field: self.offset("Header", field)
        if h["magic"] != self.form.magic.hex():
            raise Refused(at("magic"), "not a schedule blob")
        if (h["major"], h["minor"]) != VERSION:
            raise Refused(at("major"), f"format {h['major']}.{h['minor']}, this reader knows {VERSION[0]}.{VERSION[1]}")
        if h["header_bytes"] != self.form.sizes["Header"]:
            raise Refused(at("header_bytes"), f"a header of {h['header_bytes']} bytes")
        if h["total_bytes"] != len(self.data):
            raise Refused(at("total_bytes"), f"{h['total_bytes']} bytes announced, the file has {len(self.data)}")
        if h["meta_bytes"] % 8 or not self.form.sizes["Header"] <= h["meta_bytes"] <= len(self.data):
            raise Refused(at("meta_bytes"), f"a record prefix of {h['meta_bytes']} bytes")
        if h["required_features"] or h["flags"]:
            raise Refused(at("required_features"), "features or flags that this reader does not know")

    def check_sums(self):
        copy = bytearray(self.data[: self.header["meta_bytes"]])
        for name in ("crc", "digest"):
            at, size = next((at, size) for field, at, size, _ in self.form.records["Header"] if field == name)
            copy[at : at + size] = bytes(size)
        if zlib.crc32(copy) != self.header["crc"]:
            raise Refused(self.offset("Header", "crc"), f"checksum {self.header['crc']:#x}, the records have {zlib.crc32(copy):#x}")
        if hashlib.sha256(copy).hexdigest() != self.header["digest"]:
            raise Refused(self.offset("Header", "digest"), "the digest is not that of the records")

    def read_sections(self):
        size, first, meta = self.form.sizes["Section"], self.form.sizes["Header"], self.header["meta_bytes"]
        count = self.header["section_count"]
        end = first + size * count
        if end > meta:
            raise Refused(first, f"{count} sections beyond the prefix of {meta} bytes")
        for number in range(count):
            where = first + number * size
            s = self.record("Section", where)
            name, held = self.form.sections.get(s["id"], (None, None))
            what = f"section {name or s['id']}"
            if s["flags"] & ~ANCILLARY or s["align"] != 8:
                raise Refused(where, f"{what}: flags {s['flags']:#x}, alignment {s['align']}")
            if s["stride"] * s["count"] != s["bytes"]:
                raise Refused(where, f"{what}: {s['count']} records of {s['stride']} in {s['bytes']} bytes")
            if s["offset"] % 8 or s["offset"] < end or s["offset"] + s["bytes"] > meta:
                raise Refused(where, f"{what}: {s['bytes']} bytes at {s['offset']}, the part before ends at {end}, the prefix at {meta}")
            self.zero(end, s["offset"])
            end = s["offset"] + s["bytes"]
            if name is None:
                if s["flags"] & ANCILLARY:
                    continue
                raise Refused(where, f"{what} is critical and not known")
            if name in self.tables or (s["id"] >= FIRST_ANCILLARY) != bool(s["flags"] & ANCILLARY):
                raise Refused(where, f"{what} given twice, or of the other kind")
            self.tables[name], self.starts[name], self.strides[name] = self.table(where, what, held, s), s["offset"], s["stride"]
        self.zero(end, meta)

    def table(self, where, what, held, s):
        reserved = held is None and s["id"] not in (9, 12, 33, 35)
        wanted = s["stride"] if reserved else self.form.sizes.get(held, 4 if held == "u32" else 1)
        if s["stride"] != wanted:
            raise Refused(where, f"{what} has records of {s['stride']} bytes, this reader knows {wanted}")
        if held in self.form.sizes:
            return [self.record(held, s["offset"] + i * s["stride"]) for i in range(s["count"])]
        raw = self.need(s["offset"], s["bytes"], what)
        return list(struct.unpack(f"<{s['count']}I", raw)) if held == "u32" else raw

    def read_weights(self):
        end = self.header["meta_bytes"]
        for number, w in enumerate(self["Weights"]):
            where = self.at("Weights", number)
            if w["flags"]:
                raise Refused(where, f"Weights[{number}]: flags {w['flags']}")
            if w["offset"] % 64 or w["offset"] < end:
                raise Refused(where, f"Weights[{number}]: at {w['offset']}, what is before ends at {end}")
            data = self.need(w["offset"], w["bytes"], f"Weights[{number}]")
            self.zero(end, w["offset"])
            if hashlib.sha256(data).hexdigest() != w["digest"]:
                raise Refused(w["offset"], f"Weights[{number}]: the digest is not that of its {w['bytes']} bytes")
            end = w["offset"] + w["bytes"]
        if end != len(self.data):
            raise Refused(end, f"{len(self.data) - end} bytes that belong to nothing")

    # ---- for those who look at records ----

    def at(self, table, number, field=None):
        """The offset of a record, or of a field of it."""
        start = self.starts.get(table, 0) + self.strides.get(table, 0) * number
        held = dict(self.form.sections.values()).get(table)
        return start + (self.offset(held, field) if field else 0)

    def name(self, table, record, field="code"):
        """The name of a code in a record."""
        held = dict(self.form.sections.values())[table]
        return self.form.codes[held, field].get(record[field], str(record[field]))

    def is_a(self, table, record, field, *names):
        return self.name(table, record, field) in names

    def operands(self, record):
        """The inputs and outputs of a step or entry."""
        first, middle = record["operands"], record["operands"] + record["inputs"]
        return self["Operands"][first:middle], self["Operands"][middle : middle + record["outputs"]]

    def dims(self, value):
        return self["Dims"][value["dims"] : value["dims"] + value["rank"]]

    def attributes(self, step):
        """The attribute record of an op step, or None."""
        op = self.form.ops[self["Signatures"][step["link"]]["op"]]
        if op.attributes is None:
            return None
        return self.record(f"attributes {op.attributes}", self.starts["Attributes"] + step["attrs"])
