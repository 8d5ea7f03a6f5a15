//! The op suite against the host kernels and against the op table.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serinette_core::op::{self, OpDescriptor, ScratchClass, ShapeArgs, StepShapes};
use serinette_core::schedule::exec::{call, call_in_place};
use serinette_core::schedule::{Kernel, record::Signature};
use serinette_core::shape::{Dim, Dims, Numbers};
use serinette_core::{DType, MAX_OUTPUTS, Shape};
use serinette_host_kernels::{fast, registry};
use serinette_op_suite::{Case, Tensor, cases, check};
use std::collections::BTreeSet;
use std::sync::LazyLock;

mod signatures;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases);

fn descriptor(case: &Case) -> &'static OpDescriptor {
    op::find(op::ALL, case.op.0, case.op.1).expect("op of the table")
}

fn signature(case: &Case) -> Signature {
    let code = |t: Option<&Tensor>| t.map_or(0, |t| t.dtype.code());
    let inputs: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(|t| t.dtype)).collect();
    let outputs: Vec<_> = case.outputs.iter().map(|t| t.dtype).collect();
    let made = make_signature(case.op, &inputs, &outputs);
    assert_eq!(made.dtypes[0], code(case.inputs.first().and_then(|t| t.as_ref()).or(case.outputs.first())));
    made
}

fn make_signature((op, version): (u16, u16), inputs: &[Option<DType>], outputs: &[DType]) -> Signature {
    let mut dtypes = [0; 24];
    let codes = inputs.iter().map(|t| t.map_or(0, DType::code)).chain(outputs.iter().map(|t| t.code()));
    dtypes.iter_mut().zip(codes).for_each(|(d, c)| *d = c);
    Signature { op, version, inputs: inputs.len() as u8, outputs: outputs.len() as u8, variant: 0, dtypes }
}

/// Bytes in memory that is aligned to 16, with a canary on either side.
struct Buffer {
    words: Vec<[u64; 2]>,
    len: usize,
    canary: u8,
}

const MARGIN: usize = 32;

impl Buffer {
    fn new(contents: &[u8], canary: u8) -> Buffer {
        let words = vec![[u64::from_ne_bytes([canary; 8]); 2]; (contents.len() + 2 * MARGIN).div_ceil(16)];
        let mut buffer = Buffer { words, len: contents.len(), canary };
        buffer.bytes().copy_from_slice(contents);
        buffer
    }
    fn bytes(&mut self) -> &mut [u8] {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        &mut all[MARGIN..MARGIN + self.len]
    }
    fn canary_lives(&self) -> bool {
        let all: &[u8] = bytemuck::cast_slice(&self.words);
        all[..MARGIN].iter().chain(&all[MARGIN + self.len..]).all(|b| *b == self.canary)
    }
}

fn shape(t: &Tensor) -> Shape {
    Shape::new(&t.dims).expect("rank")
}

fn scratch_bytes(case: &Case, class: ScratchClass) -> usize {
    let inputs: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(shape)).collect();
    let outputs: Vec<_> = case.outputs.iter().map(shape).collect();
    let of = |t: &Tensor| t.dtype;
    // An absent input has the type of the first one: it takes no bytes.
    let filler = case.outputs[0].dtype;
    let dtypes: Vec<_> = case
        .inputs
        .iter()
        .map(|t| t.as_ref().map_or(filler, of))
        .chain(case.outputs.iter().map(of))
        .collect();
    let step = StepShapes { attrs: &case.attrs, inputs: &inputs, outputs: &outputs, dtypes: &dtypes };
    (descriptor(case).scratch)(&step, class) as usize
}

/// Runs a case with a scratch of so many bytes, and with an input in place if asked to.
fn run(case: &Case, kernel: Kernel, scratch: usize, in_place: Option<(u8, u8)>) -> Result<(), String> {
    let mut inputs: Vec<Option<Buffer>> =
        case.inputs.iter().map(|t| t.as_ref().map(|t| Buffer::new(&t.bytes, 0xa5))).collect();
    let mut outputs: Vec<Buffer> =
        case.outputs.iter().map(|t| Buffer::new(&vec![0xcd; t.bytes.len()], 0x5a)).collect();
    let mut scratch = Buffer::new(&vec![0xff; scratch], 0x3c);
    let mut shared = [0; MAX_OUTPUTS];
    if let Some((i, o)) = in_place {
        shared[usize::from(o)] = i + 1;
        let source = case.inputs[usize::from(i)].as_ref().expect("an input in place is present");
        outputs[usize::from(o)].bytes().copy_from_slice(&source.bytes);
    }
    let fault = {
        let given: Vec<_> = case
            .inputs
            .iter()
            .zip(&mut inputs)
            .map(|(t, b)| t.as_ref().zip(b.as_mut()).map(|(t, b)| (shape(t), &*b.bytes())))
            .collect();
        let mut taken: Vec<_> =
            case.outputs.iter().zip(&mut outputs).map(|(t, b)| (shape(t), b.bytes())).collect();
        let expr = |id: u32| case.exprs.get(id as usize).copied();
        call_in_place(kernel, &case.attrs, &given, shared, &mut taken, scratch.bytes(), &expr)
            .map_err(|e| format!("{}: {e}", case.name))?
    };
    if fault != case.expect_fault {
        return Err(format!("{}: fault {fault}", case.name));
    }
    for (t, b) in case.inputs.iter().flatten().zip(inputs.iter_mut().flatten()) {
        assert!(b.bytes() == t.bytes && b.canary_lives(), "{}: an input was written", case.name);
    }
    assert!(outputs.iter().all(Buffer::canary_lives), "{}: written around an output", case.name);
    assert!(scratch.canary_lives(), "{}: written around the scratch", case.name);
    let got: Vec<_> = case
        .outputs
        .iter()
        .zip(&mut outputs)
        .map(|(t, b)| Tensor::new(t.dtype, &t.dims, b.bytes().to_vec()))
        .collect();
    check(case, &got)
}

/// Runs every case that has a kernel in `find`, in every placement and with every size of scratch.
fn run_all(what: &str, find: impl Fn(&Signature) -> Option<&'static registry::Registered>) -> usize {
    let mut failures = Vec::new();
    let mut runs = 0;
    for case in CASES.iter() {
        let Some(found) = find(&signature(case)) else { continue };
        let mut sizes: Vec<_> = [ScratchClass::None, ScratchClass::Small, ScratchClass::Fast]
            .map(|class| scratch_bytes(case, class))
            .to_vec();
        sizes.dedup();
        let shared = case.in_place.iter().map(|p| Some(*p));
        for in_place in std::iter::once(None).chain(shared) {
            for scratch in &sizes {
                runs += 1;
                failures.extend(
                    run(case, found.kernel, *scratch, in_place)
                        .err()
                        .map(|e| format!("{e} (scratch {scratch}, in place {in_place:?})")),
                );
            }
        }
    }
    println!("{what}: {runs} runs");
    assert!(failures.is_empty(), "{what}: {} of {runs} runs fail:\n{}", failures.len(), failures.join("\n"));
    runs
}

#[test]
fn every_case_on_the_host() {
    let runs = run_all("reference", registry::find);
    assert!(runs >= CASES.len(), "a case has no kernel");
}

/// The fast kernels, with each instruction set of this processor, on one thread and on several.
#[test]
fn every_case_of_the_fast_kernels() {
    for isa in fast::available() {
        assert!(fast::use_isa(isa));
        assert!(run_all(&format!("{isa:?}"), fast::find) > 100);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads");
        pool.install(|| run_all(&format!("{isa:?}, 3 threads"), fast::find));
    }
}

#[test]
fn names_are_unique() {
    let all = &*CASES;
    let names: BTreeSet<_> = all.iter().map(|c| &c.name).collect();
    let doubled = all.iter().filter(|c| all.iter().filter(|d| c.name == d.name).count() > 1);
    assert_eq!(names.len(), all.len(), "{:?}", doubled.map(|c| &c.name).take(5).collect::<Vec<_>>());
}

#[test]
fn cases_are_the_same_every_time() {
    let (first, second) = (&*CASES, cases());
    assert!(format!("{first:?}") == format!("{second:?}"));
}

#[test]
fn cases_fit_the_op_table() {
    for case in CASES.iter() {
        let (op, name) = (descriptor(case), &case.name);
        let inputs: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(|t| t.dtype)).collect();
        let outputs: Vec<_> = case.outputs.iter().map(|t| t.dtype).collect();
        assert!(op.accepts(&inputs, &outputs), "{name}: types");
        assert_eq!(case.attrs.len(), op.attr_size, "{name}: attribute length");
        (op.check_attrs)(&case.attrs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut exprs = Vec::new();
        (op.attr_exprs)(&case.attrs, &mut |id| exprs.push(id));
        assert!(exprs.iter().all(|id| (*id as usize) < case.exprs.len()), "{name}: expressions");
        let dims =
            |t: &Tensor| Dims::new(&t.dims.iter().map(|d| Dim(*d as u64)).collect::<Vec<_>>()).expect("rank");
        let shapes: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(dims)).collect();
        let declared: Vec<_> = case.outputs.iter().map(dims).collect();
        let mut computed =
            if op.declared_output { declared.clone() } else { vec![Dims::SCALAR; declared.len()] };
        let args = ShapeArgs { attrs: &case.attrs, inputs: &shapes };
        (op.shape_rule)(&mut Numbers, &args, &mut computed).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (computed, declared) in computed.iter().zip(&declared) {
            assert_eq!(computed.as_slice(), declared.as_slice(), "{name}: dimensions");
        }
        for t in case.inputs.iter().flatten().chain(&case.outputs) {
            assert_eq!(t.bytes.len(), t.elements() * t.dtype.size(), "{name}: bytes");
        }
        for (i, o) in &case.in_place {
            assert!(op.allows_in_place(usize::from(*i), usize::from(*o)), "{name}: in place");
        }
    }
}

#[test]
fn a_wrong_element_is_named() {
    let case = CASES.iter().find(|c| c.outputs[0].dims == [33, 65]).unwrap();
    check(case, &case.outputs).unwrap();
    let mut got = case.outputs.clone();
    let at = (7 * 65 + 9) * got[0].dtype.size();
    got[0].bytes[at + 3] ^= 0x40;
    let message = check(case, &got).unwrap_err();
    assert!(message.contains("element [7, 9]"), "{message}");
    got[0].dims = vec![65, 33];
    check(case, &got).unwrap_err();
    check(case, &[]).unwrap_err();
}

/// Operands that contradict one another in every way: wrong shapes, wrong lengths, wrong types, random attributes.
#[test]
fn garbage_never_panics() {
    let mut random = oorandom::Rand64::new(99);
    let mut below = |n: u64| random.rand_range(0..n);
    let all = &*CASES;
    let (mut errors, mut successes) = (0u32, 0u32);
    for round in 0..60_000 {
        let case = &all[below(all.len() as u64) as usize];
        let fast = fast::find(&signature(case)).filter(|_| round % 2 == 0);
        let kernel = fast.or_else(|| registry::find(&signature(case))).expect("kernel").kernel;
        let mut dims = |rank: usize| -> Vec<usize> {
            let huge = [usize::MAX, usize::MAX / 2, 1 << 40, 1 << 16, 1 << 31];
            (0..rank)
                .map(|_| match below(24) {
                    0 => huge[below(5) as usize],
                    1 | 2 => 0,
                    n => n as usize % 5 + 1,
                })
                .collect()
        };
        let mut inputs: Vec<_> =
            case.inputs.iter().map(|t| t.as_ref().map(|t| (t.dims.clone(), t.bytes.clone()))).collect();
        let mut outputs: Vec<_> = case.outputs.iter().map(|t| (t.dims.clone(), t.bytes.clone())).collect();
        let mut tensors: Vec<_> = inputs.iter_mut().flatten().chain(&mut outputs).collect();
        let which = round % tensors.len().max(1);
        if let Some((shape, bytes)) = tensors.get_mut(which) {
            match round % 7 {
                0 => *shape = dims(shape.len()),
                1 => *shape = dims(round / 7 % 9),
                2 => bytes.truncate(bytes.len() / 2),
                3 => bytes.resize(bytes.len() + round % 40, 1),
                4 => shape.reverse(),
                _ => {}
            }
        }
        if round % 3 == 0 {
            for (shape, _) in &mut tensors {
                if round % 5 == 0 {
                    *shape = dims(shape.len());
                } else if let Some(d) = shape.get_mut(round % 4) {
                    *d = dims(1)[0];
                }
            }
        }
        let mut attrs = case.attrs.clone();
        if round % 4 == 1 && !attrs.is_empty() {
            for _ in 0..1 + round % 3 {
                let at = below(attrs.len() as u64) as usize;
                attrs[at] = [0, 1, 2, 3, 7, 255, 128][below(7) as usize];
            }
        }
        if round % 11 == 0 {
            attrs.truncate(round % 9);
        }
        if round % 13 == 0 {
            inputs.truncate(round % 3);
        }
        if round % 17 == 0 {
            inputs.iter_mut().take(round % 5).for_each(|i| *i = None);
        }
        let mut shared = [0; MAX_OUTPUTS];
        shared[0] = if round % 3 == 1 { (round / 3 % 4) as u8 } else { 0 };
        let mut in_buffers: Vec<_> =
            inputs.iter().map(|t| t.as_ref().map(|(_, b)| Buffer::new(b, 0))).collect();
        let mut out_buffers: Vec<_> = outputs.iter().map(|(_, b)| Buffer::new(b, 0)).collect();
        let shape = |d: &[usize]| Shape::new(d).unwrap_or(Shape::SCALAR);
        let given: Vec<_> = inputs
            .iter()
            .zip(&mut in_buffers)
            .map(|(t, b)| t.as_ref().zip(b.as_mut()).map(|((d, _), b)| (shape(d), &*b.bytes())))
            .collect();
        let mut taken: Vec<_> =
            outputs.iter().zip(&mut out_buffers).map(|((d, _), b)| (shape(d), b.bytes())).collect();
        let mut scratch = Buffer::new(&vec![0; [0, 5, 64, 4096][round % 4]], 0);
        let expr = |id: u32| (id < 5).then_some(u64::from(id) << 40);
        match call_in_place(kernel, &attrs, &given, shared, &mut taken, scratch.bytes(), &expr) {
            Ok(_) => successes += 1,
            Err(_) => errors += 1,
        }
    }
    println!("{successes} successes, {errors} errors");
    // Both must be common, or the test says nothing.
    assert!(successes > 5_000 && errors > 5_000, "{successes} successes, {errors} errors");
}

/// Kernels given misaligned slices or too few operands say so.
#[test]
fn unusable_operands_are_errors() {
    let case = CASES.iter().find(|c| c.name.starts_with("Relu/f32/[257]")).unwrap();
    let kernel = registry::find(&signature(case)).unwrap().kernel;
    let x = case.inputs[0].as_ref().unwrap();
    let (mut from, mut to) = (Buffer::new(&[&[0], &x.bytes[..]].concat(), 0), Buffer::new(&x.bytes, 0));
    let shape = shape(x);
    let none = |_: u32| None;
    let misaligned = Some((shape, &from.bytes()[1..]));
    assert!(call(kernel, &[], &[misaligned], &mut [(shape, to.bytes())], &mut [], &none).is_err());
    assert!(call(kernel, &[], &[], &mut [(shape, to.bytes())], &mut [], &none).is_err());
    assert!(call(kernel, &[], &[None], &mut [(shape, to.bytes())], &mut [], &none).is_err());
    let aligned = Some((shape, &from.bytes()[..x.bytes.len()]));
    assert!(call(kernel, &[], &[aligned], &mut [], &mut [], &none).is_err());
    assert!(call(kernel, &[], &[aligned], &mut [(shape, to.bytes())], &mut [], &none).is_ok());
}
