// Element-wise functions of two tensors with broadcasting. An invocation makes one output word. Axes are counted
// from the innermost here; a broadcast axis has stride 0. Strides are in elements.
//# include grid
//# include operand
//# include float
//# include half
//# exact

//# kernel binary_${T} T=f32|f16|i32
//# params Binary n a b y op activation rank dims[8] a_strides[8] b_strides[8]

// Codes of the op table.
const ADD = 7u;
const MUL = 8u;
const SUB = 70u;
const DIV = 71u;
const MOD = 73u;
const REMAINDER = 74u;
const MIN = 75u;
const MAX = 76u;
const PRELU = 77u;
const BIT_AND = 78u;
const BIT_OR = 79u;
const BIT_XOR = 80u;
const SHIFT_LEFT = 81u;
const SHIFT_RIGHT = 82u;
const SILU_MUL = 83u;

//# if T == i32
// Rounded towards zero; 0 where b is 0, and the least number divided by -1 wraps.
fn quotient(a: i32, b: i32) -> i32 {
    if b == 0i {
        return 0i;
    }
    if b == -1i {
        return bitcast<i32>(0u - bitcast<u32>(a));
    }
    return a / b;
}

fn remainder(a: i32, b: i32) -> i32 {
    if b == 0i {
        return 0i;
    }
    return bitcast<i32>(bitcast<u32>(a) - bitcast<u32>(quotient(a, b)) * bitcast<u32>(b));
}

fn compute(a: u32, b: u32) -> u32 {
    let x = bitcast<i32>(a);
    let z = bitcast<i32>(b);
    switch p.op {
        case ADD: { return a + b; }
        case MUL: { return a * b; }
        case SUB: { return a - b; }
        case DIV: { return bitcast<u32>(quotient(x, z)); }
        case MOD: {
            let r = remainder(x, z);
            return bitcast<u32>(select(r, r + z, r != 0i && (r < 0i) != (z < 0i)));
        }
        case REMAINDER: { return bitcast<u32>(remainder(x, z)); }
        case MIN: { return select(a, b, z < x); }
        case MAX: { return select(a, b, z > x); }
        case PRELU: { return select(a, a * b, x < 0i); }
        case BIT_AND: { return a & b; }
        case BIT_OR: { return a | b; }
        case BIT_XOR: { return a ^ b; }
        case SHIFT_LEFT: { return select(0u, a << (b & 31u), b < 32u); }
        default: { return bitcast<u32>(x >> min(b, 31u)); }
    }
}
//# else
// By bits where a NaN decides: drivers may assume that there is none.
fn compute(a: f32, b: f32) -> f32 {
    switch p.op {
        case ADD: { return a + b; }
        case MUL: { return a * b; }
        case SUB: { return a - b; }
        case DIV: { return a / b; }
        case MIN: { return lesser(a, b, 1i); }
        case MAX: { return lesser(a, b, -1i); }
        case PRELU: {
            let negative = !is_nan(bitcast<u32>(a)) && order_key(bitcast<u32>(a)) < 0i;
            return select(a, a * b, negative);
        }
        default: { return a / (1.0 + exp(-a)) * b; }
    }
}

// The one of two numbers that comes first in the order times `sign`; `a` where they are equal, NaN where one is.
fn lesser(a: f32, b: f32, sign: i32) -> f32 {
    let x = bitcast<u32>(a);
    let z = bitcast<u32>(b);
    if is_nan(x) {
        return a;
    }
    if is_nan(z) {
        return b;
    }
    return select(a, b, order_key(z) * sign < order_key(x) * sign);
}
//# end

fn places(i: u32) -> vec2<u32> {
    if p.rank <= 1u {
        return i * vec2<u32>(p.a_strides0, p.b_strides0);
    }
    var rest = i;
    var at = vec2<u32>(0u);
//# for D in 0..8
    if p.rank > ${D}u {
        let next = rest / p.dims${D};
        at += (rest - next * p.dims${D}) * vec2<u32>(p.a_strides${D}, p.b_strides${D});
        rest = next;
    }
//# end
    return at;
}

fn element(i: u32) -> u32 {
    let at = places(i);
//# if T == f32
    let a = bitcast<f32>(word(p.a, at.x));
    let b = bitcast<f32>(word(p.b, at.y));
//# end
//# if T == f16
    let a = f16_at(p.a, at.x);
    let b = f16_at(p.b, at.y);
//# end
//# if T == i32
    let a = word(p.a, at.x);
    let b = word(p.b, at.y);
//# end
    let y = compute(a, b);
//# if T == i32
    return y;
//# else
    return activate(y, p.activation);
//# end
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
//# if T == f16
    if w * 2u >= p.n {
        return;
    }
    var y = single_to_half(element(w * 2u));
    if w * 2u + 1u < p.n {
        y |= single_to_half(element(w * 2u + 1u)) << 16u;
    }
    arena[p.y + w] = y;
//# else
    if w >= p.n {
        return;
    }
    arena[p.y + w] = element(w);
//# end
}
