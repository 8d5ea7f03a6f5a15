//! Conditional dispatches: the gate kernel fills the grids of later dispatches, or zeros.

use serinette::kernels::Library;
use serinette_core::op::unary::RELU;
use serinette_core::{DType, Shape};
use serinette_dispatch::{
    Buffers, Command, Dispatch, FIRST_FLAG, Gate, KernelLibrary, LowerStep, Operand, Shell, Space, Usage,
    Window,
};
use std::time::Duration;

/// Words of the arena: two bools, a trip count, an operand and a result.
const BOOLS: u32 = 0;
const COUNT: u32 = 1;
const X: u32 = 2;
const Y: u32 = 3;
/// Control words: flag of the parent, flag of the gate, grids of two records.
const PARENT: u32 = FIRST_FLAG;
const FLAG: u32 = FIRST_FLAG + 1;
const TABLE: u32 = FIRST_FLAG + 4;

/// What a run left: the flag, the two records, whether the dispatch ran.
fn run<S: Shell>(shell: &S, gate: &Gate, bools: [u8; 2], count: i32, parent: u32) -> (u32, Vec<u32>, bool) {
    let operand = |word: u32| Operand {
        dtype: DType::F32,
        shape: Shape::SCALAR,
        space: Space::Arena,
        offset: u64::from(word) * 4,
    };
    let mut dispatches: Vec<Dispatch> = Vec::new();
    Library.gate(gate, shell.caps(), &mut |d| dispatches.push(d)).unwrap();
    let step = LowerStep {
        step: 0,
        op: RELU.code,
        version: RELU.version,
        attrs: &[],
        inputs: &[Some(operand(X))],
        outputs: &[operand(Y)],
        scratch: None,
        expr: &|_| None,
    };
    Library.lower(&step, shell.caps(), &mut |d| dispatches.push(d)).unwrap();
    let [opener, relu] = dispatches[..] else { panic!("{} dispatches", dispatches.len()) };

    let arena = shell.buffer(256, Usage::Storage).unwrap();
    let weights = shell.buffer(256, Usage::Weights).unwrap();
    let control = shell.buffer(256, Usage::Storage).unwrap();
    let indirect = shell.buffer(256, Usage::Indirect).unwrap();
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let flags = u32::from_le_bytes([bools[0], bools[1], 0xee, 0xee]);
    shell.upload(&arena, 0, &words(&[flags, count as u32, 2.5f32.to_bits(), 0])).unwrap();
    let mut state = vec![0; 14];
    state[PARENT as usize] = parent;
    state[TABLE as usize..TABLE as usize + 6].copy_from_slice(&[1, 1, 1, 7, 8, 9]);
    shell.upload(&control, 0, &words(&state)).unwrap();

    let window = Window { offset: 0, bytes: 256 };
    let launch =
        |dispatch, indirect| Command::Dispatch { dispatch, arena: window, weights: window, indirect };
    let commands = [launch(opener, None), Command::Barrier, launch(relu, Some(gate.first_record))];
    let buffers =
        Buffers { arena: &arena, weights: Some(&weights), control: &control, indirect: Some(&indirect) };
    // SAFETY: both dispatches come from the library, for words inside of the buffers above.
    let mut recording = unsafe { shell.record(buffers, &commands, 0, 0) }.unwrap();
    shell.run(&mut recording, &mut |_| (), &mut |_| (), Duration::from_secs(60)).unwrap();

    let read = |buffer: &S::Buffer| {
        let mut bytes = vec![0; 256];
        shell.download(buffer, 0, &mut bytes).unwrap();
        bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>()
    };
    let first = gate.first_record as usize * 3;
    let y = read(&arena)[Y as usize];
    assert!(y == 0 || y == 2.5f32.to_bits());
    (read(&control)[FLAG as usize], read(&indirect)[first..first + 6].to_vec(), y != 0)
}

/// Every kind of condition, open and closed.
pub fn gates<S: Shell>(shell: &S) {
    let plain = Gate {
        condition: None,
        trips: None,
        negate: false,
        parent: None,
        flag: FLAG,
        first_record: 2,
        records: 2,
        table: TABLE,
    };
    let second = Gate { condition: Some(BOOLS * 4 + 1), ..plain };
    let trip = |n| Gate { trips: Some((COUNT * 4, n)), ..plain };
    let inner = Gate { parent: Some(PARENT), ..second };
    let cases = [
        ("no condition", plain, [0, 0], 0, 0, true),
        ("true", second, [0, 1], 0, 0, true),
        ("any byte is true", second, [0, 0x80], 0, 0, true),
        ("false", second, [1, 0], 0, 0, false),
        ("not false", Gate { negate: true, ..second }, [1, 0], 0, 0, true),
        ("not true", Gate { negate: true, ..second }, [0, 9], 0, 0, false),
        ("a trip below the count", trip(2), [0, 0], 3, 0, true),
        ("a trip at the count", trip(3), [0, 0], 3, 0, false),
        ("a negative count", trip(0), [0, 0], -1, 0, false),
        ("an open parent", inner, [0, 1], 0, 1, true),
        ("a closed parent", inner, [0, 1], 0, 0, false),
        ("both of a loop", Gate { condition: Some(1), ..trip(0) }, [0, 1], 1, 0, true),
        ("a loop that was left", Gate { condition: Some(1), ..trip(0) }, [0, 0], 1, 0, false),
    ];
    for (what, gate, bools, count, parent, open) in cases {
        let want = if open { vec![1, 1, 1, 7, 8, 9] } else { vec![0; 6] };
        assert_eq!(run(shell, &gate, bools, count, parent), (u32::from(open), want, open), "{what}");
    }
}
