//! Structure-aware mutations of blobs.

use super::build::PlanModel;
use super::choice::Choice;
use super::draft::repack;
use serinette_compiler::blob::Blob;
use serinette_core::NONE;
use serinette_core::schedule::record::*;

/// Changes the first plan in a way that may keep it valid: addresses, slots, waves,
/// lists; now and then an operand, too.
pub fn plan(blob: &mut Blob, choice: &mut impl Choice) {
    let Some(mut model) = PlanModel::of(blob, 0) else { return };
    if model.waves.is_empty() || model.slots.is_empty() {
        return;
    }
    for _ in 0..1 + choice.below(3) {
        change_plan(&mut model, choice);
        if choice.one_in(8) {
            change_in_place(blob, choice);
        }
        if choice.one_in(4) {
            reroute(blob, &mut model, choice);
        }
    }
    if choice.one_in(2) {
        repack(blob, &mut model);
    }
    model.replace(blob);
}

/// Lets an operand be another value of the same type and dimensions. Sometimes that value's slot then lives on, or
/// the value takes over the slot of the old one.
fn reroute(blob: &mut Blob, m: &mut PlanModel, choice: &mut impl Choice) {
    if blob.steps.is_empty() {
        return;
    }
    let step = blob.steps[choice.below(blob.steps.len())];
    let count = usize::from(step.inputs) + usize::from(step.outputs);
    let at = step.operands as usize + choice.below(count);
    let Some(old) = blob.operands.get(at).copied().filter(|_| count > 0) else { return };
    let dims = |v: &Value| blob.dims.get(v.dims as usize..).and_then(|d| d.get(..v.rank.into()));
    let Some(value) = blob.values.get(old as usize) else { return };
    let alike = |v: &Value| v.dtype == value.dtype && dims(v).is_some() && dims(v) == dims(value);
    let all: Vec<u32> = (0u32..).zip(&blob.values).filter(|(_, v)| alike(v)).map(|(id, _)| id).collect();
    // None at all where the dimensions themselves are broken.
    if all.is_empty() {
        return;
    }
    let new = *choice.of(&all);
    let slot_of =
        |v: u32| blob.values.get(v as usize).and_then(|v| m.value_slots.get(v.root as usize)).copied();
    let (a, b) = (slot_of(old), slot_of(new));
    match choice.below(4) {
        0 => {
            if let (Some(a), Some(b)) = (a, b.filter(|b| *b != NONE)) {
                let root = value.root as usize;
                if a != NONE {
                    m.value_slots[root] = b;
                }
            }
        }
        1 => {
            m.waves.iter_mut().for_each(|w| w.kills.retain(|k| Some(*k) != b));
            blob.operands[at] = new;
        }
        _ => blob.operands[at] = new,
    }
}

fn change_plan(m: &mut PlanModel, choice: &mut impl Choice) {
    let (slots, waves) = (m.slots.len(), m.waves.len());
    let (s, w) = (choice.below(slots), choice.below(waves));
    let align = u64::from(m.align);
    match choice.below(15) {
        0 => m.slots[s].1 = m.slots[choice.below(slots)].1,
        1 => m.slots[s].1 = m.slots[s].1.saturating_sub(align * (1 + choice.below(3) as u64)),
        2 => m.slots[s].1 = m.slots[s].1.wrapping_add(align * (1 + choice.below(3) as u64)),
        3 => {
            let other = choice.below(slots);
            let a = m.slots[s].1;
            m.slots[s].1 = m.slots[other].1;
            m.slots[other].1 = a;
        }
        4 => m.slots[s].2 = m.slots[s].2.saturating_add_signed(*choice.of(&[-4, 4, -8, 8, 64])).max(4),
        5 if !m.value_slots.is_empty() => {
            // A value moves to the slot of another.
            let (a, b) = (choice.below(m.value_slots.len()), choice.below(m.value_slots.len()));
            m.value_slots[a] = m.value_slots[b];
        }
        6 => {
            // Merge two waves.
            if w + 1 < m.waves.len() {
                let next = m.waves.remove(w + 1);
                m.waves[w].steps = m.waves[w].steps.wrapping_add(next.steps);
                m.waves[w].defs.extend(next.defs);
                m.waves[w].kills.extend(next.kills);
            }
        }
        7 => {
            // Split a wave.
            if m.waves[w].steps > 1 {
                let mut second = m.waves[w].clone();
                m.waves[w].steps = 1 + choice.below(m.waves[w].steps as usize - 1) as u32;
                second.steps -= m.waves[w].steps;
                m.waves[w].kills.clear();
                second.defs.clear();
                m.waves.insert(w + 1, second);
            }
        }
        8 | 9 => move_event(m, choice, true),
        10 | 11 => move_event(m, choice, false),
        12 => {
            // A definition or a kill disappears.
            let list = if choice.one_in(2) { &mut m.waves[w].defs } else { &mut m.waves[w].kills };
            if !list.is_empty() {
                let at = choice.below(list.len());
                list.remove(at);
            }
        }
        13 => {
            let slot = s as u32;
            if choice.one_in(2) { m.waves[w].defs.push(slot) } else { m.waves[w].kills.push(slot) }
        }
        _ => {
            if !m.scratch_slots.is_empty() {
                let at = choice.below(m.scratch_slots.len());
                if m.scratch_slots[at] != NONE {
                    m.scratch_slots[at] = s as u32;
                }
            }
        }
    }
    // The arena stays as small as it can be, so that nothing hides in slack.
    if let Some(a) = m.arenas.first_mut().filter(|a| a.0 == space::WORK) {
        let ends = m.slots.iter().filter(|s| s.0 == 0).map(|s| s.1.saturating_add(s.2));
        a.1 = ends.max().unwrap_or(8).min(u64::MAX - 7).next_multiple_of(8);
    }
}

/// Moves a definition or a kill to another wave, mostly a near one.
fn move_event(m: &mut PlanModel, choice: &mut impl Choice, kill: bool) {
    let full: Vec<usize> = (0..m.waves.len())
        .filter(|w| !if kill { &m.waves[*w].kills } else { &m.waves[*w].defs }.is_empty())
        .collect();
    if full.is_empty() {
        return;
    }
    let from = *choice.of(&full);
    let distance = 1 + choice.below(6);
    let to = if choice.one_in(2) {
        from.saturating_sub(distance)
    } else {
        (from + distance).min(m.waves.len() - 1)
    };
    let take = |w: &mut super::build::WaveModel, choice: &mut dyn FnMut(usize) -> usize| {
        let l = if kill { &mut w.kills } else { &mut w.defs };
        let at = choice(l.len());
        l.remove(at)
    };
    let slot = take(&mut m.waves[from], &mut |n| choice.below(n));
    if kill { m.waves[to].kills.push(slot) } else { m.waves[to].defs.push(slot) }
}

fn change_in_place(blob: &mut Blob, choice: &mut impl Choice) {
    if blob.steps.is_empty() {
        return;
    }
    let at = choice.below(blob.steps.len());
    let s = &mut blob.steps[at];
    if s.kind == step_kind::OP {
        s.in_place[0] = choice.below(usize::from(s.inputs) + 1) as u8;
    }
}

/// Numbers at which things break.
const EDGES: [u64; 14] = [0, 1, 2, 3, 7, 8, 63, 64, 65, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 63, u64::MAX];

fn number(old: u64, choice: &mut impl Choice) -> u64 {
    match choice.below(5) {
        0 => *choice.of(&EDGES),
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => old ^ (1 << choice.below(64)),
        _ => choice.bits() % 32,
    }
}

/// Overwrites a field of `width` bytes at `at` within a record.
fn poke(record: &mut [u8], at: usize, width: usize, choice: &mut impl Choice) {
    let Some(field) = record.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(field);
    let new = number(u64::from_le_bytes(old), choice).to_le_bytes();
    field.copy_from_slice(&new[..width]);
}

fn poke_any<T: bytemuck::Pod>(table: &mut [T], choice: &mut impl Choice) {
    if table.is_empty() {
        return;
    }
    let at = choice.below(table.len());
    if choice.one_in(6) {
        // A copy of another record: plausible contents in the wrong place.
        table[at] = table[choice.below(table.len())];
        return;
    }
    let bytes: &mut [u8] = bytemuck::bytes_of_mut(&mut table[at]);
    let width = *choice.of(&[1usize, 2, 4, 4, 4, 8]);
    let fields = bytes.len() / width;
    if fields > 0 {
        let field = choice.below(fields);
        poke(bytes, field * width, width, choice);
    }
}

fn resize<T: Clone>(table: &mut Vec<T>, choice: &mut impl Choice) {
    if table.is_empty() {
        return;
    }
    let at = choice.below(table.len());
    match choice.below(3) {
        0 => drop(table.remove(at)),
        1 => table.insert(at, table[at].clone()),
        _ => {
            let other = choice.below(table.len());
            table.swap(at, other);
        }
    }
}

/// Changes one to four records of any table.
pub fn records(blob: &mut Blob, choice: &mut impl Choice) {
    for _ in 0..1 + choice.below(4) {
        change_record(blob, choice);
    }
}

fn change_record(b: &mut Blob, choice: &mut impl Choice) {
    macro_rules! table {
        ($t:expr) => {
            if choice.one_in(5) { resize(&mut $t, choice) } else { poke_any(&mut $t, choice) }
        };
    }
    match choice.below(28) {
        0 => table!(b.symbols),
        1 => table!(b.exprs),
        2 => table!(b.guards),
        3..=5 => table!(b.values),
        6 => table!(b.dims),
        7 => table!(b.signatures),
        8..=10 => table!(b.steps),
        11 | 12 => table!(b.operands),
        13 => table!(b.attributes),
        14 => table!(b.entries),
        15 => table!(b.strings),
        16 => table!(b.plans),
        17 => table!(b.bounds),
        18 => table!(b.arenas),
        19 => table!(b.slots),
        20 => table!(b.waves),
        21 => table!(b.slot_lists),
        22 => table!(b.value_slots),
        23 => table!(b.scratch_slots),
        24 => table!(b.hints),
        25 => table!(b.self_tests),
        26 => table!(b.debug_names),
        _ => b.max_live = number(b.max_live.into(), choice) as u32,
    }
}

/// A mutation of any kind.
pub fn any(blob: &mut Blob, choice: &mut impl Choice) {
    if choice.one_in(2) { plan(blob, choice) } else { records(blob, choice) }
}
