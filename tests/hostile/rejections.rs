//! One blob, or more, for every rule of the format, made from valid ones by a single change.

mod made;

use crate::harness::base::{self, Ids};
use crate::harness::build::PlanModel;
use crate::harness::run::{Aligned, check_default};
use bytemuck::Zeroable;
use serinette_compiler::blob::{Blob, seal};
use serinette_core::NONE;
use serinette_core::op;
use serinette_core::schedule::record::*;
use serinette_core::schedule::{Error, Program, Reason, bind};

/// What is changed, and where the change is noticed.
enum Change {
    /// Records of [`base::everything`], noticed by `verify`.
    Records(fn(&mut Blob, &Ids)),
    /// The first plan of [`base::everything`], noticed by `verify`.
    Plan(fn(&mut PlanModel, &Ids)),
    /// Records of [`base::chain`], noticed by `verify`.
    Chain(fn(&mut Blob)),
    /// Bytes of a file of [`base::everything`], sealed again.
    Bytes(fn(&mut Vec<u8>)),
    /// Records of [`base::everything`], noticed by `bind` at this size.
    Bind(fn(&mut Blob, &Ids), u64),
    /// Something else that gives an error.
    Other(fn() -> Error),
}
use Change::*;
use made::*;

fn load(file: &[u8]) -> Result<(), Error> {
    let program = Program::parse(file, file.len() as u64)?;
    if !program.crc_matches() {
        return Err(Error::header(Reason::Crc, 0, 0, program.header.crc.into()));
    }
    check_default(file).map(|_| ())
}

impl Change {
    fn error(&self) -> Option<Error> {
        let bytes = match self {
            Records(change) => {
                let (mut blob, ids) = base::everything();
                change(&mut blob, &ids);
                blob.to_bytes()
            }
            Plan(change) => {
                let (mut blob, ids) = base::everything();
                let mut model = PlanModel::of(&blob, 0).unwrap();
                change(&mut model, &ids);
                model.replace(&mut blob);
                blob.to_bytes()
            }
            Chain(change) => {
                let mut blob = base::chain();
                change(&mut blob);
                blob.to_bytes()
            }
            Bytes(change) => {
                let mut bytes = base::everything().0.to_bytes();
                change(&mut bytes);
                bytes
            }
            Bind(change, n) => {
                let (mut blob, ids) = base::everything();
                change(&mut blob, &ids);
                let file = Aligned::of(&blob.to_bytes());
                load(file.bytes()).unwrap();
                let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
                let mut exprs = vec![0; program.exprs.len()];
                return bind(&program, op::ALL, 0, &[*n, 0], &mut exprs).err();
            }
            Other(f) => return Some(f()),
        };
        load(Aligned::of(&bytes).bytes()).err()
    }
}

/// Writes into the record prefix and seals it.
fn patch(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
    let meta = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
    seal(&mut file[..meta]);
}

/// First byte of entry `i` of the section table.
const fn section(i: usize) -> usize {
    128 + 48 * i
}

fn slot(m: &PlanModel, value: u32) -> usize {
    m.value_slots[value as usize] as usize
}

/// Adds a constant expression.
fn constant(b: &mut Blob, n: u64) -> u32 {
    b.exprs.push(Expr { op: expr_op::CONSTANT, reserved: [0; 3], a: 0, b: n });
    b.exprs.len() as u32 - 1
}

/// Adds a value without a slot to a blob with one plan.
fn add_view(b: &mut Blob, view: Value) {
    let mut m = PlanModel::of(b, 0).unwrap();
    b.values.push(view);
    m.value_slots.push(NONE);
    m.replace(b);
}

/// Every rule, with what breaks it.
const CASES: &[(&str, Change, Reason)] = &[
    ("last byte missing", Bytes(|f| f.truncate(f.len() - 1)), Reason::Truncated),
    ("another kind of file", Bytes(|f| f[0] = b'P'), Reason::Magic),
    ("a later minor version", Bytes(|f| patch(f, 10, &[2])), Reason::Version),
    ("a feature bit", Bytes(|f| patch(f, 40, &[1])), Reason::Feature),
    (
        "a flipped bit",
        Bytes(|f| {
            let at = f.windows(9).position(|w| w == b"hand-made").unwrap();
            f[at] ^= 1;
        }),
        Reason::Crc,
    ),
    ("one byte off in memory", Other(misaligned), Reason::Misaligned),
    ("a critical section of later versions", Bytes(|f| patch(f, section(0), &[100])), Reason::UnknownSection),
    ("one id twice", Bytes(|f| patch(f, section(1), &[1])), Reason::DuplicateSection),
    (
        "a section upon another",
        Bytes(|f| {
            let offset: [u8; 8] = f[section(0) + 8..section(0) + 16].try_into().unwrap();
            patch(f, section(1) + 8, &offset);
        }),
        Reason::SectionRange,
    ),
    ("more sections than bytes", Bytes(|f| patch(f, 32, &[0xff; 4])), Reason::SectionRange),
    ("records of another length", Bytes(|f| patch(f, 12, &[64])), Reason::Stride),
    ("a header flag", Bytes(|f| patch(f, 48, &[1])), Reason::NotZero),
    ("a reserved byte of a value", Records(|b, i| b.values[i.h as usize].reserved = 1), Reason::NotZero),
    ("dimensions behind the table", Records(|b, i| b.values[i.h as usize].dims = 1 << 30), Reason::Id),
    ("a loop without bound", Records(|b, i| b.steps[i.loop_step as usize].max_trips = NONE), Reason::Id),
    ("an operand behind the table", Records(|b, _| b.operands[3] = 9999), Reason::Id),
    ("an unknown role", Records(|b, i| b.values[i.h as usize].role = 9), Reason::Code),
    (
        "a name behind the strings",
        Records(|b, i| b.values[i.h as usize].name = Text { offset: 0, length: 1 << 20 }),
        Reason::Text,
    ),
    (
        "a name cut inside a character",
        Records(|b, i| {
            b.strings.extend("é".bytes());
            let end = b.strings.len() as u32;
            b.values[i.h as usize].name = Text { offset: end - 1, length: 1 };
        }),
        Reason::Text,
    ),
    ("strings that are not UTF-8", Records(|b, _| b.strings.push(0xff)), Reason::Text),
    ("a hint that is not UTF-8", Records(|b, _| b.hint_text[0] = 0xff), Reason::Text),
    (
        "an expression of itself",
        Records(|b, _| {
            let id = b.exprs.len() as u32;
            b.exprs.push(Expr { op: expr_op::ADD, reserved: [0; 3], a: id, b: 0 });
        }),
        Reason::ExprOrder,
    ),
    (
        "an expression of a later one",
        Records(|b, _| b.exprs.push(Expr { op: expr_op::MUL, reserved: [0; 3], a: 0, b: 1 << 40 })),
        Reason::ExprOrder,
    ),
    (
        "sizes of 2^63",
        Records(|b, _| {
            b.symbols[0].high = 1 << 63;
            b.bounds[0].high = 1 << 63;
        }),
        Reason::Overflow,
    ),
    (
        "division by zero",
        Records(|b, _| {
            b.exprs.push(Expr { op: expr_op::DIV_FLOOR, reserved: [0; 3], a: 0, b: 0 });
        }),
        Reason::ZeroDivisor,
    ),
    ("a multiple of zero", Records(|b, _| b.symbols[0].multiple_of = 0), Reason::ZeroDivisor),
    ("bounds the wrong way round", Records(|b, _| b.symbols[0].low = 7), Reason::SymbolBounds),
    ("bounds of a plan wider than the symbol's", Records(|b, _| b.bounds[0].high = 7), Reason::SymbolBounds),
    ("a reserved element type", Records(|b, i| b.values[i.h as usize].dtype = 40), Reason::DType),
    (
        "an intermediate as input of an entry",
        Records(|b, i| {
            let at = b.entries[1].operands as usize;
            b.operands[at] = i.h;
        }),
        Reason::Role,
    ),
    (
        "a view of a view",
        Records(|b, i| {
            let wide = reshaped(b, i);
            b.values[wide].root = i.c0;
        }),
        Reason::Root,
    ),
    (
        "a view of itself",
        Records(|b, i| {
            let wide = reshaped(b, i);
            b.values[wide].root = wide as u32;
        }),
        Reason::Root,
    ),
    ("part numbers that repeat", Records(|b, i| b.values[i.c1 as usize].part = 0), Reason::Parts),
    (
        "parts with a gap",
        Records(|b, i| {
            let start = constant(b, 3);
            b.values[i.c1 as usize].start = start;
        }),
        Reason::Parts,
    ),
    ("an unknown op", Records(|b, _| b.signatures[0].op = 999), Reason::UnknownOp),
    ("an unknown version of an op", Records(|b, _| b.signatures[0].version = 2), Reason::UnknownOp),
    ("types that the op does not take", Records(|b, _| b.signatures[0].dtypes[1] = 7), Reason::Signature),
    (
        "types that the values do not have",
        Records(|b, _| {
            b.signatures[0].dtypes[..2].fill(7);
        }),
        Reason::OperandType,
    ),
    ("one operand less", Records(|b, _| b.steps[1].inputs -= 1), Reason::OperandCount),
    ("an end of another region", Records(|b, i| b.steps[i.loop_end as usize].link = 0), Reason::Region),
    (
        "an end without a start",
        Chain(|b| {
            b.steps[1] = Step { kind: step_kind::END, max_trips: NONE, counter: NONE, ..Step::zeroed() }
        }),
        Reason::Region,
    ),
    (
        "results without a second arm",
        Records(|b, i| {
            let end = i.if_end;
            b.steps[i.if_step as usize].link = end;
            b.steps[i.else_step as usize] = b.steps[i.else_step as usize - 1];
        }),
        Reason::Region,
    ),
    ("nine regions deep", Other(|| of(&nested(9))), Reason::Depth),
    ("a step outside the entries", Records(|b, _| b.entries[1].steps -= 1), Reason::EntryRange),
    ("steps beyond 2^32", Records(|b, _| b.entries[1].steps = u32::MAX), Reason::EntryRange),
    ("a name twice", Records(|b, _| b.entries[1].name = b.entries[0].name), Reason::EntryName),
    ("no name", Records(|b, _| b.entries[1].name.length = 0), Reason::EntryName),
    (
        "a weight behind its section",
        Records(|b, i| b.values[i.w as usize].data_offset = 1 << 40),
        Reason::WeightRange,
    ),
    (
        "a weight of 2^64 bytes",
        Records(|b, i| b.values[i.w as usize].data_bytes = u64::MAX),
        Reason::WeightRange,
    ),
    ("a self-test behind its section", Records(|b, _| b.self_tests[0].offset = 72), Reason::WeightRange),
    ("alignment of 12", Records(|b, _| b.plans[0].align = 12), Reason::Alignment),
    (
        "a slot between alignments",
        Plan(|m, i| {
            let s = slot(m, i.z);
            m.slots[s].1 += 4;
        }),
        Reason::Alignment,
    ),
    (
        "state in the work arena",
        Plan(|m, i| m.value_slots[i.s as usize] = m.value_slots[i.x as usize]),
        Reason::Space,
    ),
    (
        "a slot behind its arena",
        Plan(|m, i| {
            let s = slot(m, i.z);
            m.slots[s].1 = 1 << 40;
        }),
        Reason::SlotRange,
    ),
    (
        "a slot that ends behind 2^64",
        Plan(|m, i| {
            let s = slot(m, i.z);
            m.slots[s].1 = u64::MAX - 15;
        }),
        Reason::SlotRange,
    ),
    (
        "a slot too small at the bounds",
        Plan(|m, i| {
            let s = slot(m, i.h);
            m.slots[s].2 -= 4;
        }),
        Reason::SlotSize,
    ),
    (
        "an empty slot",
        Plan(|m, i| {
            let s = slot(m, i.h);
            m.slots[s].2 = 0;
        }),
        Reason::SlotSize,
    ),
    (
        "scratch too small",
        Plan(|m, i| {
            let s = m.scratch_slots[i.conv_step as usize] as usize;
            m.slots[s].2 = 12;
        }),
        Reason::SlotSize,
    ),
    ("a value without a slot", Plan(|m, i| m.value_slots[i.h as usize] = NONE), Reason::NoSlot),
    ("a weight with a slot", Plan(|m, i| m.value_slots[i.w as usize] = 0), Reason::NoSlot),
    ("a region edge with scratch", Plan(|m, i| m.scratch_slots[i.if_step as usize] = 0), Reason::NoSlot),
    (
        "no scratch where the op needs some",
        Plan(|m, i| m.scratch_slots[i.conv_step as usize] = NONE),
        Reason::NoSlot,
    ),
    ("a step in no wave", Plan(|m, _| m.waves.truncate(m.waves.len() - 1)), Reason::WaveRange),
    (
        "a wave across a region edge",
        Plan(|m, _| {
            let edge = m.waves.remove(4);
            m.waves[3].steps += edge.steps;
        }),
        Reason::WaveRange,
    ),
    ("a wave too many", Plan(|m, _| m.waves.push(Default::default())), Reason::WaveRange),
    (
        "defined while live",
        Plan(|m, i| {
            let s = m.value_slots[i.h as usize];
            m.waves[2].defs.push(s);
        }),
        Reason::DefinedTwice,
    ),
    (
        "killed while dead",
        Plan(|m, i| {
            let s = m.value_slots[i.acc as usize];
            m.waves[1].kills.push(s);
        }),
        Reason::KilledDead,
    ),
    (
        "killed in a body that did not define it",
        Plan(|m, i| {
            let s = m.value_slots[i.h as usize];
            m.waves[8].kills.push(s);
        }),
        Reason::KilledDead,
    ),
    (
        "an input to be kept is killed",
        Plan(|m, i| {
            let s = m.value_slots[i.x as usize];
            m.waves[10].kills.push(s);
        }),
        Reason::KilledDead,
    ),
    (
        "live slots upon each other",
        Plan(|m, i| {
            let (a, b) = (slot(m, i.h), slot(m, i.x));
            m.slots[a].1 = m.slots[b].1;
        }),
        Reason::Overlap,
    ),
    (
        "persistent slots upon each other",
        Records(|b, _| {
            // The second param-like slot does not exist; a copy of the state's slot is put behind it.
            let last = b.plans[1].slots[0] as usize - 1;
            let copy = b.slots[last];
            b.slots.insert(last, copy);
            b.plans[0].slots[1] += 1;
            b.plans[1].slots[0] += 1;
        }),
        Reason::Overlap,
    ),
    (
        "a needed value overwritten",
        Plan(|m, i| {
            let z = m.value_slots[i.z as usize];
            m.value_slots[i.z as usize] = m.value_slots[i.h as usize];
            m.waves[3].defs.retain(|s| *s != z);
        }),
        Reason::Clobbered,
    ),
    (
        "a value read after it died",
        Plan(|m, i| {
            let s = m.value_slots[i.h as usize];
            m.waves[10].kills.clear();
            m.waves[3].kills.push(s);
        }),
        Reason::Unwritten,
    ),
    (
        "a value read before it is written",
        Records(|b, i| {
            let at = b.steps[1].operands as usize;
            b.operands[at] = i.h;
        }),
        Reason::Unwritten,
    ),
    (
        "a result that one arm leaves out",
        Records(|b, i| {
            // It updates the state instead.
            let step = &mut b.steps[i.else_step as usize + 1];
            step.in_place[0] = 1;
            b.operands[step.operands as usize + 2] = i.s;
        }),
        Reason::Unwritten,
    ),
    ("parts of two cuts with a gap between", Other(|| of(&two_cuts(0, 1, false, false))), Reason::Unwritten),
    ("parts of two cuts over a whole", Other(|| of(&two_cuts(0, 1, false, true))), Reason::Unwritten),
    (
        "no barrier between write and read",
        Plan(|m, _| {
            let w = m.waves.remove(2);
            m.waves[1].steps += w.steps;
            m.waves[1].defs.extend(w.defs);
        }),
        Reason::ReadAfterWrite,
    ),
    ("written over what the wave reads", Chain(|b| b.steps[1].in_place = [0; 4]), Reason::WriteAfterRead),
    (
        "a part twice in a wave",
        Records(|b, i| {
            let at = b.steps[3].operands as usize;
            b.operands[at + 2] = i.c0;
        }),
        Reason::WriteAfterWrite,
    ),
    ("parts of two cuts in a wave", Other(|| of(&two_cuts(1, 0, true, false))), Reason::WriteAfterWrite),
    (
        "a weight written",
        Records(|b, i| {
            let at = b.steps[0].operands as usize;
            b.operands[at + 1] = i.w;
        }),
        Reason::ReadOnly,
    ),
    (
        "an input to be kept overwritten in its slot",
        Chain(|b| {
            // The product takes the slot of the input, which is read by nothing behind it.
            b.values[0].flags = value_flag::KEEP;
            let mut m = PlanModel::of(b, 0).unwrap();
            let (x, h) = (m.value_slots[0], m.value_slots[3]);
            m.waves = vec![Default::default(), Default::default()];
            (m.waves[0].steps, m.waves[1].steps) = (1, 1);
            m.waves[0].defs.push(h);
            m.value_slots[4] = x;
            b.steps[1].in_place = [0; 4];
            m.replace(b);
        }),
        Reason::ReadOnly,
    ),
    (
        "an outer value written in a body",
        Records(|b, i| {
            let mul = i.loop_step as usize + 3;
            let at = b.steps[mul].operands as usize;
            b.operands[at + 2] = i.h;
        }),
        Reason::NotListed,
    ),
    ("in place where the op is not made for it", Chain(|b| b.steps[0].in_place[0] = 1), Reason::InPlace),
    (
        "in place over a weight",
        Records(|b, i| {
            let at = b.steps[2].operands as usize;
            b.operands[at] = i.w;
            b.steps[2].in_place[0] = 1;
        }),
        Reason::InPlace,
    ),
    (
        "in place in another slot",
        Records(|b, _| b.steps.last_mut().unwrap().in_place[0] = 2),
        Reason::InPlace,
    ),
    (
        "a slot that outlives its body",
        Plan(|m, i| {
            let s = m.value_slots[i.k as usize];
            m.waves[6].kills.retain(|k| *k != s);
        }),
        Reason::Leak,
    ),
    ("fewer live ranges than needed", Records(|b, _| b.max_live = 1), Reason::MaxLive),
    ("more live ranges than there is room", Records(|b, _| b.max_live = u32::MAX), Reason::MaxLive),
    (
        "2^40 trips",
        Records(|b, i| {
            let trips = constant(b, 1 << 40);
            b.steps[i.loop_step as usize].max_trips = trips;
        }),
        Reason::Limit,
    ),
    ("2^62 empty trips", Other(|| of(&idle(1 << 62))), Reason::Limit),
    (
        "derived values without a prepare entry",
        Records(|b, _| b.entries[0].kind = entry_kind::CALL),
        Reason::Derived,
    ),
    (
        "derived values left out by prepare",
        Records(|b, _| {
            // The step now belongs to the other entry.
            b.entries[0].steps = 0;
            b.entries[1].first_step = 0;
            b.entries[1].steps += 1;
        }),
        Reason::Derived,
    ),
    (
        "prepare with inputs",
        Records(|b, _| (b.entries[0].inputs, b.entries[0].outputs) = (u32::MAX, 1)),
        Reason::Derived,
    ),
    (
        "a counted window outside its loop",
        Records(|b, i| {
            let at = b.entries[1].operands as usize;
            b.operands[at + 2] = i.window;
        }),
        Reason::Counter,
    ),
    (
        "a counter as a size",
        Records(|b, i| {
            let counter = b.exprs.iter().position(|e| e.op == expr_op::SYMBOL && e.a == i.counter).unwrap();
            let at = b.values[i.h as usize].dims as usize;
            b.dims[at] = counter as u32;
        }),
        Reason::Counter,
    ),
    ("a loop that counts with a size", Other(|| of(&counted_by_a_size())), Reason::Counter),
    (
        "a condition of four elements",
        Records(|b, i| {
            let at = b.values[i.condition as usize].dims as usize;
            b.dims[at] = b.dims[b.values[i.s as usize].dims as usize];
        }),
        Reason::Condition,
    ),
    ("a plan without bounds", Records(|b, _| b.plans[0].bounds[1] = 0), Reason::PlanRange),
    ("slots beyond 2^32", Records(|b, _| b.plans[0].slots[1] = u32::MAX), Reason::PlanRange),
    ("a list behind the plan's", Records(|b, _| b.waves[16].kills[1] = 1 << 20), Reason::PlanRange),
    ("two plans with the same slots", Records(|b, _| b.plans[1].slots[0] = 0), Reason::PlanOverlap),
    ("slots of no plan", Records(|b, _| b.slots.push(b.slots[0])), Reason::PlanOverlap),
    ("waves with the same list", Records(|b, _| b.waves[2].defs = b.waves[1].defs), Reason::PlanOverlap),
    (
        "seventy entries",
        Records(|b, _| {
            let e = b.entries[1];
            b.entries.extend([e; 68]);
        }),
        Reason::Bounded,
    ),
    (
        "a record of attributes without end",
        Records(|b, _| {
            b.attributes.resize(4096, 0);
            b.steps[2].attrs = 1024;
            b.steps[2].attr_bytes = 2048;
        }),
        Reason::Bounded,
    ),
    (
        "a size made during the run",
        Records(|b, _| b.symbols[0].kind = symbol_kind::PRODUCED),
        Reason::Reserved,
    ),
    ("external weights", Records(|b, _| b.weights[0].flags = 1), Reason::Reserved),
    ("a size above its bounds", Bind(|_, _| (), 7), Reason::SizeBounds),
    ("a size that is no multiple", Bind(|b, _| b.symbols[0].multiple_of = 2, 3), Reason::SizeMultiple),
    ("a relation that does not hold", Bind(|b, _| b.guards[1].b = b.guards[0].b, 3), Reason::Guard),
    (
        "a window behind its root on the last trip",
        Bind(
            |b, i| {
                let two = constant(b, 7);
                b.values[i.window as usize].counter_stride = two;
            },
            6,
        ),
        Reason::Window,
    ),
    (
        "a window of columns",
        Other(|| {
            let mut b = base::chain();
            let dims = b.dims.len() as u32;
            let one = constant(&mut b, 1);
            b.dims.extend([b.dims[0], one]);
            let (axis, view) = (1, view::WINDOW);
            let v = Value { view, axis, dims, start: one, ..b.values[0] };
            add_view(&mut b, v);
            let file = Aligned::of(&b.to_bytes());
            load(file.bytes()).unwrap();
            let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
            let mut exprs = vec![0; program.exprs.len()];
            bind(&program, op::ALL, 0, &[3], &mut exprs).map(|_| ()).unwrap_err()
        }),
        Reason::ViewLayout,
    ),
    ("no room for expressions", Other(short_room), Reason::BufferSize),
    ("an arena too small", Other(|| run_with(8, 9, 0)), Reason::BufferSize),
    ("a kernel table too short", Other(|| run_with(4096, 1, 0)), Reason::KernelTable),
    ("weights between words", Other(|| run_with(4096, 9, 1)), Reason::Kernel),
    (
        "operands upon each other, not verified",
        Other(|| run_unverified(|b| b.slots[1].offset = b.slots[0].offset)),
        Reason::Corrupt,
    ),
    (
        "an output that is not the op's",
        Bind(
            |b, i| {
                let at = b.values[i.z as usize].dims as usize;
                let none = constant(b, 0);
                b.dims[at + 1] = none;
            },
            3,
        ),
        Reason::Shape,
    ),
    ("an activation that does not exist", Chain(|b| b.attributes[0] = 9), Reason::Attribute),
];

fn same(a: Reason, b: Reason) -> bool {
    a.code() == b.code()
}

#[test]
fn each_rule_refuses() {
    let mut wrong = Vec::new();
    for (name, change, reason) in CASES {
        match change.error() {
            Some(e) if same(e.reason, *reason) => {}
            other => wrong.push(format!("{name}: expected {reason:?}, found {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn slot_lists_are_owned() {
    let (mut blob, _) = base::everything();
    PlanModel::of(&blob, 0).unwrap().replace(&mut blob);
    blob.slot_lists.push(0);
    blob.plans[0].lists[1] += 1;
    assert_eq!(of(&blob).reason, Reason::PlanOverlap);
}

#[test]
fn every_rule_has_a_case() {
    let rules = Reason::ALL.iter().copied();
    // Raised by the facade, where a user asks for what is not there.
    let facade = [Reason::NotFound];
    let tested = |r: &Reason| CASES.iter().any(|c| same(c.2, *r)) || facade.contains(r);
    let missing: Vec<_> = rules.filter(|r| !tested(r)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn one_cut_in_parts_is_accepted() {
    for (one_wave, whole) in [(false, false), (true, false), (false, true)] {
        let file = two_cuts(1, 1, one_wave, whole).to_bytes();
        load(Aligned::of(&file).bytes()).unwrap();
    }
}

#[test]
fn empty_trips_are_counted() {
    assert_eq!(check_default(Aligned::of(&idle(1000).to_bytes()).bytes()).unwrap().steps, 1001);
    assert!(check_default(Aligned::of(&nested(8).to_bytes()).bytes()).is_ok());
}
