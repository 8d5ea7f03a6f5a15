//! Reading and mending SPIR-V modules, as words.

use std::collections::{BTreeMap, BTreeSet};

const CAPABILITY: u32 = 17;
const TYPE_ARRAY: u32 = 28;
const TYPE_RUNTIME_ARRAY: u32 = 29;
const TYPE_STRUCT: u32 = 30;
const TYPE_POINTER: u32 = 32;
const FUNCTION: u32 = 54;
const VARIABLE: u32 = 59;
const DECORATE: u32 = 71;
const ARITHMETIC: [u32; 9] = [127, 129, 131, 133, 136, 142, 145, 146, 148];

const ARRAY_STRIDE: u32 = 6;
const NO_CONTRACTION: u32 = 42;

/// Storage classes whose types have an explicit layout: Uniform, PushConstant, StorageBuffer.
const LAID_OUT: [u32; 3] = [2, 9, 12];

/// Why words are not a SPIR-V module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub usize);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no SPIR-V instruction at word {}", self.0)
    }
}

/// The instructions of a module: opcode and all words, the first one included.
fn instructions(words: &[u32]) -> Result<Vec<&[u32]>, Malformed> {
    if words.first() != Some(&0x0723_0203) {
        return Err(Malformed(0));
    }
    let (mut at, mut out) = (5, Vec::new());
    while at < words.len() {
        let length = words.get(at).map_or(0, |w| (w >> 16) as usize);
        let end = at.checked_add(length).filter(|_| length > 0);
        out.push(end.and_then(|end| words.get(at..end)).ok_or(Malformed(at))?);
        at += length;
    }
    Ok(out)
}

fn opcode(i: &[u32]) -> u32 {
    i.first().map_or(0, |w| w & 0xffff)
}

fn word(i: &[u32], at: usize) -> u32 {
    i.get(at).copied().unwrap_or(0)
}

/// The capabilities that a module declares, as numbers.
pub fn capabilities(words: &[u32]) -> Result<BTreeSet<u32>, Malformed> {
    Ok(instructions(words)?.into_iter().filter(|i| opcode(i) == CAPABILITY).map(|i| word(i, 1)).collect())
}

/// The number of a capability that kernels may declare.
pub fn capability_code(name: &str) -> Option<u32> {
    const NAMES: &[(&str, u32)] = &[
        ("Shader", 1),
        ("Float16", 9),
        ("Float64", 10),
        ("Int64", 11),
        ("Int16", 22),
        ("Int8", 39),
        ("GroupNonUniform", 61),
        ("GroupNonUniformVote", 62),
        ("GroupNonUniformArithmetic", 63),
        ("GroupNonUniformBallot", 64),
        ("GroupNonUniformShuffle", 65),
        ("GroupNonUniformShuffleRelative", 66),
        ("StorageBuffer16BitAccess", 4433),
        ("UniformAndStorageBuffer16BitAccess", 4434),
        ("VulkanMemoryModel", 5345),
        ("DotProductInput4x8BitPacked", 6018),
        ("DotProduct", 6019),
        ("CooperativeMatrixKHR", 6022),
    ];
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, c)| *c)
}

/// Takes `ArrayStride` off arrays that no buffer holds: it is meaningless there, and newer validators refuse it.
/// With `exact`, marks every floating-point operation so that drivers keep sums and products apart.
pub fn mend(words: &[u32], exact: bool) -> Result<Vec<u32>, Malformed> {
    let all = instructions(words)?;
    let laid_out = laid_out_types(&all);
    let arrays: BTreeSet<u32> = all.iter().filter(|i| opcode(i) == TYPE_ARRAY).map(|i| word(i, 1)).collect();
    let marks: Vec<u32> = if exact {
        all.iter().filter(|i| ARITHMETIC.contains(&opcode(i))).map(|i| word(i, 2)).collect()
    } else {
        Vec::new()
    };
    let mut out = words.get(..5).unwrap_or(&[]).to_vec();
    let mut pending = Some(marks);
    for i in &all {
        let stray = opcode(i) == DECORATE
            && word(i, 2) == ARRAY_STRIDE
            && arrays.contains(&word(i, 1))
            && !laid_out.contains(&word(i, 1));
        if stray {
            continue;
        }
        // Annotations end where the first type, constant, variable or function begins: opcodes 19 to 59.
        if (19..=VARIABLE).contains(&opcode(i))
            && let Some(marks) = pending.take()
        {
            out.extend(marks.iter().flat_map(|id| [3 << 16 | DECORATE, *id, NO_CONTRACTION]));
        }
        out.extend_from_slice(i);
    }
    Ok(out)
}

/// Every type reached from a pointer into a buffer.
fn laid_out_types(all: &[&[u32]]) -> BTreeSet<u32> {
    let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut todo = Vec::new();
    for i in all.iter().take_while(|i| opcode(i) != FUNCTION) {
        match opcode(i) {
            TYPE_ARRAY | TYPE_RUNTIME_ARRAY => {
                parts.insert(word(i, 1), vec![word(i, 2)]);
            }
            TYPE_STRUCT => {
                parts.insert(word(i, 1), i.get(2..).unwrap_or(&[]).to_vec());
            }
            TYPE_POINTER if LAID_OUT.contains(&word(i, 2)) => todo.push(word(i, 3)),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(t) = todo.pop() {
        if seen.insert(t) {
            todo.extend(parts.get(&t).into_iter().flatten());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(code: u32, args: &[u32]) -> Vec<u32> {
        let mut i = vec![(args.len() as u32 + 1) << 16 | code];
        i.extend_from_slice(args);
        i
    }

    fn module(parts: &[Vec<u32>]) -> Vec<u32> {
        let mut w = vec![0x0723_0203, 0x0001_0300, 0, 20, 0];
        parts.iter().for_each(|p| w.extend_from_slice(p));
        w
    }

    /// Arrays 4 (workgroup), 5 (inside a struct of a storage buffer) and 6 (both).
    fn arrays() -> Vec<Vec<u32>> {
        vec![
            op(CAPABILITY, &[1]),
            op(DECORATE, &[4, ARRAY_STRIDE, 4]),
            op(DECORATE, &[5, ARRAY_STRIDE, 4]),
            op(DECORATE, &[6, ARRAY_STRIDE, 4]),
            op(22, &[1, 32]),
            op(TYPE_ARRAY, &[4, 1, 2]),
            op(TYPE_ARRAY, &[5, 1, 2]),
            op(TYPE_ARRAY, &[6, 1, 2]),
            op(TYPE_STRUCT, &[7, 1, 5]),
            op(TYPE_POINTER, &[8, 12, 7]),
            op(TYPE_POINTER, &[9, 4, 4]),
            op(TYPE_POINTER, &[10, 4, 6]),
            op(TYPE_POINTER, &[11, 9, 6]),
            op(FUNCTION, &[1, 12, 0, 13]),
            op(129, &[1, 14, 15, 16]),
            op(133, &[1, 15, 15, 16]),
        ]
    }

    #[test]
    fn strides_go_only_where_no_buffer_needs_them() {
        let mut want = arrays();
        want.remove(1);
        assert_eq!(mend(&module(&arrays()), false), Ok(module(&want)));
    }

    #[test]
    fn exact_kernels_are_marked_before_the_first_type() {
        let mut want = arrays();
        want.insert(4, op(DECORATE, &[15, NO_CONTRACTION]));
        want.insert(4, op(DECORATE, &[14, NO_CONTRACTION]));
        want.remove(1);
        assert_eq!(mend(&module(&arrays()), true), Ok(module(&want)));
    }

    #[test]
    fn broken_modules_are_errors() {
        assert_eq!(mend(&[], false), Err(Malformed(0)));
        assert_eq!(mend(&module(&[vec![0]]), false), Err(Malformed(5)));
        assert_eq!(mend(&module(&[vec![9 << 16 | 17, 1]]), false), Err(Malformed(5)));
        assert_eq!(capabilities(&module(&arrays())), Ok(BTreeSet::from([1])));
    }
}
