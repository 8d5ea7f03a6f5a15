//! Writes blobs record by record, without a compiler and without its checks.

use bytemuck::{Zeroable, bytes_of};
use serinette_compiler::blob::Blob;
use serinette_core::op::OpDescriptor;
use serinette_core::schedule::record::*;
use serinette_core::{DType, NONE};

/// A wave of a plan that is being made.
#[derive(Clone, Debug, Default)]
pub struct WaveModel {
    /// Steps in it.
    pub steps: u32,
    /// Slots that become live.
    pub defs: Vec<u32>,
    /// Slots that die.
    pub kills: Vec<u32>,
}

/// A plan as lists, before it is written into the tables.
#[derive(Clone, Debug, Default)]
pub struct PlanModel {
    /// Bounds of the symbols.
    pub bounds: Vec<[u64; 2]>,
    /// Space and bytes of each arena.
    pub arenas: Vec<(u32, u64)>,
    /// Arena, offset and bytes of each slot.
    pub slots: Vec<(u32, u64, u64)>,
    /// Waves in order.
    pub waves: Vec<WaveModel>,
    /// Slot of each value.
    pub value_slots: Vec<u32>,
    /// Scratch slot of each step.
    pub scratch_slots: Vec<u32>,
    /// Alignment of the slots.
    pub align: u32,
}

impl PlanModel {
    /// Reads the plan back out of a blob; `None` where the records do not form one.
    pub fn of(blob: &Blob, plan: usize) -> Option<PlanModel> {
        let p = blob.plans.get(plan)?;
        fn cut<T>(table: &[T], [first, count]: [u32; 2]) -> Option<&[T]> {
            table.get(first as usize..)?.get(..count as usize)
        }
        let lists = cut(&blob.slot_lists, p.lists)?;
        let waves = cut(&blob.waves, p.waves)?.iter().map(|w| {
            Some(WaveModel {
                steps: w.steps,
                defs: cut(lists, w.defs)?.to_vec(),
                kills: cut(lists, w.kills)?.to_vec(),
            })
        });
        Some(PlanModel {
            bounds: cut(&blob.bounds, p.bounds)?.iter().map(|b| [b.low, b.high]).collect(),
            arenas: cut(&blob.arenas, p.arenas)?.iter().map(|a| (a.space, a.bytes)).collect(),
            slots: cut(&blob.slots, p.slots)?.iter().map(|s| (s.arena, s.offset, s.bytes)).collect(),
            waves: waves.collect::<Option<Vec<_>>>()?,
            value_slots: cut(&blob.value_slots, [p.value_slots, blob.values.len() as u32])?.to_vec(),
            scratch_slots: cut(&blob.scratch_slots, [p.scratch_slots, blob.steps.len() as u32])?.to_vec(),
            align: p.align,
        })
    }

    /// Appends the plan to the tables of a blob.
    pub fn write(&self, blob: &mut Blob, name: &str) {
        let name = blob.text(name);
        let at = |n: usize| n as u32;
        let mut plan = Plan {
            name,
            profile: profile::DESKTOP,
            align: self.align,
            bounds: [at(blob.bounds.len()), at(self.bounds.len())],
            arenas: [at(blob.arenas.len()), at(self.arenas.len())],
            slots: [at(blob.slots.len()), at(self.slots.len())],
            waves: [at(blob.waves.len()), at(self.waves.len())],
            lists: [at(blob.slot_lists.len()), 0],
            value_slots: at(blob.value_slots.len()),
            scratch_slots: at(blob.scratch_slots.len()),
            lower_bound: 0,
            reserved: 0,
        };
        blob.bounds.extend(self.bounds.iter().map(|[low, high]| Bound { low: *low, high: *high }));
        blob.arenas.extend(self.arenas.iter().map(|(space, bytes)| Arena {
            name: Text::default(),
            space: *space,
            reserved: 0,
            bytes: *bytes,
            align: u64::from(self.align),
        }));
        let slot = |(arena, offset, bytes): &(u32, u64, u64)| Slot {
            arena: *arena,
            reserved: 0,
            offset: *offset,
            bytes: *bytes,
        };
        blob.slots.extend(self.slots.iter().map(slot));
        let (mut first_step, mut list) = (0, 0);
        for w in &self.waves {
            let (defs, kills) = (at(w.defs.len()), at(w.kills.len()));
            blob.slot_lists.extend(w.defs.iter().chain(&w.kills));
            blob.waves.push(Wave {
                first_step,
                steps: w.steps,
                defs: [list, defs],
                kills: [list + defs, kills],
            });
            // A mutated plan may have any number here.
            first_step = w.steps.wrapping_add(first_step);
            list += defs + kills;
        }
        plan.lists[1] = list;
        blob.value_slots.extend(&self.value_slots);
        blob.scratch_slots.extend(&self.scratch_slots);
        blob.plans.push(plan);
    }

    /// Replaces all plans of a blob by this one.
    pub fn replace(&self, blob: &mut Blob) {
        for table in [&mut blob.slot_lists, &mut blob.value_slots, &mut blob.scratch_slots] {
            table.clear();
        }
        blob.plans.clear();
        blob.bounds.clear();
        blob.arenas.clear();
        blob.slots.clear();
        blob.waves.clear();
        self.write(blob, "plan");
    }
}

/// Adds records to a blob.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// The blob so far.
    pub blob: Blob,
}

impl Build {
    /// The expression of a constant.
    pub fn constant(&mut self, n: u64) -> u32 {
        self.expr(expr_op::CONSTANT, 0, n)
    }

    /// An expression; the same one is not written twice.
    pub fn expr(&mut self, op: u8, a: u32, b: u64) -> u32 {
        let e = Expr { op, reserved: [0; 3], a, b };
        let found = self.blob.exprs.iter().position(|x| *x == e);
        found.unwrap_or_else(|| {
            self.blob.exprs.push(e);
            self.blob.exprs.len() - 1
        }) as u32
    }

    /// An input symbol, and its expression.
    pub fn symbol(&mut self, name: &str, low: u64, high: u64) -> (u32, u32) {
        let name = self.blob.text(name);
        self.blob.symbols.push(Symbol {
            kind: symbol_kind::INPUT,
            change: symbol_change::SHAPE,
            flags: 0,
            source: NONE,
            low,
            high,
            multiple_of: 1,
            name,
        });
        let id = self.blob.symbols.len() as u32 - 1;
        (id, self.expr(expr_op::SYMBOL, id, 0))
    }

    /// A counter symbol of a loop that is still to come ([`Build::set_counter`]), and its expression.
    pub fn counter(&mut self, high: u64) -> (u32, u32) {
        let (id, e) = self.symbol("", 0, high);
        self.blob.symbols[id as usize].kind = symbol_kind::COUNTER;
        (id, e)
    }

    /// A value with memory of its own.
    pub fn value(&mut self, dtype: DType, role: u8, dims: &[u32]) -> u32 {
        let id = self.blob.values.len() as u32;
        let first = self.blob.dims.len() as u32;
        self.blob.dims.extend(dims);
        self.blob.values.push(Value {
            dtype: dtype.code(),
            layout: 0,
            role,
            rank: dims.len() as u8,
            flags: 0,
            view: view::NONE,
            axis: 0,
            dims: first,
            root: id,
            start: NONE,
            counter: NONE,
            counter_stride: NONE,
            part: 0,
            parts: 0,
            section: NONE,
            name: Text::default(),
            reserved: 0,
            data_offset: 0,
            data_bytes: 0,
        });
        id
    }

    /// A view with the root's type and role; `set` fills in the rest.
    pub fn view(&mut self, root: u32, kind: u8, dims: &[u32], set: impl FnOnce(&mut Value)) -> u32 {
        let of = self.blob.values[root as usize];
        let id = self.value(DType::F32, of.role, dims);
        let v = &mut self.blob.values[id as usize];
        (v.dtype, v.root, v.view) = (of.dtype, root, kind);
        set(v);
        id
    }

    /// A value whose bytes lie in the last weight section (made if there is none).
    pub fn data(&mut self, dtype: DType, role: u8, dims: &[u64], bytes: &[u8]) -> u32 {
        if self.blob.weights.is_empty() {
            let name = self.blob.text("weights");
            self.blob.weights.push(WeightSection { name, ..WeightSection::zeroed() });
            self.blob.weight_data.push(Vec::new());
        }
        let dims: Vec<u32> = dims.iter().map(|d| self.constant(*d)).collect();
        let id = self.value(dtype, role, &dims);
        let data = self.blob.weight_data.last_mut().unwrap();
        data.resize(data.len().next_multiple_of(8), 0);
        let v = &mut self.blob.values[id as usize];
        (v.section, v.data_offset, v.data_bytes) = (0, data.len() as u64, bytes.len() as u64);
        data.extend_from_slice(bytes);
        id
    }

    /// The signature of an op and types; the same one is not written twice. Absent inputs are `None`.
    pub fn signature(&mut self, op: &OpDescriptor, inputs: &[Option<DType>], outputs: &[DType]) -> u32 {
        let mut dtypes = [0; 24];
        let all = inputs.iter().copied().chain(outputs.iter().map(|t| Some(*t)));
        for (code, t) in dtypes.iter_mut().zip(all) {
            *code = t.map_or(0, DType::code);
        }
        let s = Signature {
            op: op.code,
            version: op.version,
            inputs: inputs.len() as u8,
            outputs: outputs.len() as u8,
            variant: 0,
            dtypes,
        };
        let found = self.blob.signatures.iter().position(|x| *x == s);
        found.unwrap_or_else(|| {
            self.blob.signatures.push(s);
            self.blob.signatures.len() - 1
        }) as u32
    }

    /// A step of an op; the signature follows from the values.
    pub fn op<A: bytemuck::Pod>(
        &mut self,
        op: &OpDescriptor,
        attrs: &A,
        inputs: &[u32],
        outputs: &[u32],
        in_place: [u8; 4],
    ) -> u32 {
        let dtype = |v: &u32| self.blob.values.get(*v as usize).and_then(|v| DType::from_code(v.dtype));
        let types: Vec<_> = inputs.iter().map(dtype).collect();
        let results: Vec<_> = outputs.iter().filter_map(dtype).collect();
        let link = self.signature(op, &types, &results);
        let (attrs, attr_bytes) = self.blob.attrs(bytes_of(attrs));
        let operands = self.operands(inputs, outputs);
        self.step(Step {
            kind: step_kind::OP,
            scratch: 0,
            inputs: inputs.len() as u8,
            outputs: outputs.len() as u8,
            link,
            operands,
            attrs,
            attr_bytes,
            in_place,
            max_trips: NONE,
            counter: NONE,
        })
    }

    /// A region edge; links are set by [`Build::close`].
    pub fn edge(&mut self, kind: u8, inputs: &[u32], outputs: &[u32]) -> u32 {
        let operands = if inputs.len() + outputs.len() == 0 { 0 } else { self.operands(inputs, outputs) };
        self.step(Step {
            kind,
            inputs: inputs.len() as u8,
            outputs: outputs.len() as u8,
            operands,
            max_trips: NONE,
            counter: NONE,
            ..Step::zeroed()
        })
    }

    /// Links the edges of a region: its `If` or `Loop`, its `Else` if it has one, its `End`.
    pub fn close(&mut self, edges: &[u32]) {
        for pair in edges.windows(2) {
            self.blob.steps[pair[0] as usize].link = pair[1];
        }
        if let [first, .., last] = edges {
            self.blob.steps[*last as usize].link = *first;
        }
    }

    /// Gives a loop its bound and its counter.
    pub fn set_loop(&mut self, step: u32, max_trips: u32, counter: Option<u32>) {
        let s = &mut self.blob.steps[step as usize];
        (s.max_trips, s.counter) = (max_trips, counter.unwrap_or(NONE));
        if let Some(c) = counter {
            self.blob.symbols[c as usize].source = step;
        }
    }

    fn operands(&mut self, inputs: &[u32], outputs: &[u32]) -> u32 {
        let first = self.blob.operands.len() as u32;
        self.blob.operands.extend(inputs.iter().chain(outputs));
        first
    }

    fn step(&mut self, step: Step) -> u32 {
        self.blob.steps.push(step);
        self.blob.steps.len() as u32 - 1
    }

    /// An entry of all steps since the last one.
    pub fn entry(&mut self, name: &str, kind: u32, inputs: &[u32], outputs: &[u32]) -> u32 {
        let first_step = self.blob.entries.last().map_or(0, |e| e.first_step + e.steps);
        let (name, operands) = (self.blob.text(name), self.operands(inputs, outputs));
        self.blob.entries.push(Entry {
            name,
            kind,
            first_step,
            steps: self.blob.steps.len() as u32 - first_step,
            operands,
            inputs: inputs.len() as u32,
            outputs: outputs.len() as u32,
            reserved: [0; 2],
        });
        self.blob.entries.len() as u32 - 1
    }
}
