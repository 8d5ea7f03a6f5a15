// Matrix products. b is read by strides (b_k, b_n, in elements), so that both of its layouts serve.
//# include grid
//# include operand
//# include float
//# include half
//# include requantize

// Tiles of TILE x TILE results, 4 x 4 for each invocation, staged 16 deep through workgroup memory. Half-precision
// results are stored in pairs: n must be even.
//# kernel matmul_${T}_tile${TILE} T=f32|f16 TILE=32 WG=64
//# kernel matmul_${T}_tile${TILE} T=f32|f16 TILE=64 WG=256
//# params MatMul m n k a b bias y activation b_k b_n b_batch tiles_m tiles_n tiles

var<workgroup> tile_a: array<vec4<f32>, ${TILE*4}>;
var<workgroup> tile_b: array<vec4<f32>, ${TILE*4}>;

//# if T == f32
fn load(location: u32, i: u32) -> f32 {
    return bitcast<f32>(word(location, i));
}
//# else
fn load(location: u32, i: u32) -> f32 {
    return f16_at(location, i);
}
//# end

fn bias(column: u32) -> f32 {
    if p.bias != 0xffffffffu && column < p.n {
        return load(p.bias, column);
    }
    return 0.0;
}

fn store(row: u32, column: u32, batch: u32, v: vec4<f32>) {
    if row >= p.m {
        return;
    }
    let at = (batch * p.m + row) * p.n + column;
//# if T == f32
//# for J in 0..4
    if column + ${J}u < p.n {
        arena[p.y + at + ${J}u] = activate(v[${J}], p.activation);
    }
//# end
//# else
//# for J in 0..2
    if column + ${J*2}u < p.n {
        let low = single_to_half(activate(v[${J*2}], p.activation));
        let high = single_to_half(activate(v[${J*2+1}], p.activation));
        arena[p.y + (at >> 1u) + ${J}u] = low | (high << 16u);
    }
//# end
//# end
}

@compute @workgroup_size(${WG})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let tile = group_number(group, groups);
    if tile >= p.tiles {
        return;
    }
    let tile_row = tile / p.tiles_n;
    let batch = tile_row / p.tiles_m;
    let row0 = (tile_row - batch * p.tiles_m) * ${TILE}u;
    let column0 = (tile - tile_row * p.tiles_n) * ${TILE}u;
    let tx = t % ${TILE/4}u;
    let ty = t / ${TILE/4}u;
    let a0 = batch * p.m * p.k;
    let b0 = batch * p.b_batch;
    let column = column0 + tx * 4u;
//# for I in 0..4
    var sum${I} = vec4<f32>(0.0);
//# end
    for (var k0 = 0u; k0 < p.k; k0 += 16u) {
        for (var x = t; x < ${TILE*16}u; x += ${WG}u) {
            let k = x % 16u;
            let r = x / 16u;
            var v = 0.0;
            if row0 + r < p.m && k0 + k < p.k {
                v = load(p.a, a0 + (row0 + r) * p.k + k0 + k);
            }
            tile_a[k * ${TILE/4}u + r / 4u][r % 4u] = v;
        }
        for (var x = t; x < ${TILE*16}u; x += ${WG}u) {
            // Neighbours read neighbours, whichever axis is the contiguous one.
            var k = x / ${TILE}u;
            var c = x % ${TILE}u;
            if p.b_n != 1u {
                k = x % 16u;
                c = x / 16u;
            }
            var v = 0.0;
            if column0 + c < p.n && k0 + k < p.k {
                v = load(p.b, b0 + (k0 + k) * p.b_k + (column0 + c) * p.b_n);
            }
            tile_b[k * ${TILE/4}u + c / 4u][c % 4u] = v;
        }
        workgroupBarrier();
        for (var k = 0u; k < 16u; k += 1u) {
            let a = tile_a[k * ${TILE/4}u + ty];
            let b = tile_b[k * ${TILE/4}u + tx];
//# for I in 0..4
            sum${I} += a[${I}] * b;
//# end
        }
        workgroupBarrier();
    }
    let add = vec4<f32>(bias(column), bias(column + 1u), bias(column + 2u), bias(column + 3u));
//# for I in 0..4
    store(row0 + ty * 4u + ${I}u, column, batch, sum${I} + add);
//# end
}

// Few rows: a workgroup makes COLUMNS results of one row, and splits k over its invocations. With the contiguous
// axis of b along k (ALONG = k) neighbours share a column, else they share a row of b. Half-precision results are
// stored in pairs: n must be even.
//# kernel matmul_${T}_row_${ALONG} T=f32|f16 ALONG=n COLUMNS=32
//# kernel matmul_${T}_row_${ALONG} T=f32|f16 ALONG=k COLUMNS=8
//# params MatMulRow m n k a b bias y activation b_k b_n b_batch blocks_n blocks

var<workgroup> sums: array<f32, 256>;

//# if T == f32
fn load(location: u32, i: u32) -> f32 {
    return bitcast<f32>(word(location, i));
}
//# else
fn load(location: u32, i: u32) -> f32 {
    return f16_at(location, i);
}
//# end

// The sum of a column over the slices of k, in order.
fn total(c: u32, column: u32) -> u32 {
    var y = 0.0;
    for (var s = 0u; s < ${256/COLUMNS}u; s += 1u) {
        y += sums[s * ${COLUMNS}u + c];
    }
    if p.bias != 0xffffffffu {
        y += load(p.bias, column);
    }
    return activate(y, p.activation);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let block = group_number(group, groups);
    if block >= p.blocks {
        return;
    }
    // Rows are counted through all batches.
    let row = block / p.blocks_n;
    let column0 = (block - row * p.blocks_n) * ${COLUMNS}u;
//# if ALONG == n
    let c = t % ${COLUMNS}u;
    let slice = t / ${COLUMNS}u;
//# else
    let c = t / ${256/COLUMNS}u;
    let slice = t % ${256/COLUMNS}u;
//# end
    var sum = 0.0;
    if column0 + c < p.n {
        let a0 = row * p.k;
        let b0 = (row / p.m) * p.b_batch + (column0 + c) * p.b_n;
        for (var k = slice; k < p.k; k += ${256/COLUMNS}u) {
            sum += load(p.a, a0 + k) * load(p.b, b0 + k * p.b_k);
        }
    }
    sums[slice * ${COLUMNS}u + c] = sum;
    workgroupBarrier();
//# if T == f32
    let column = column0 + t;
    if t < ${COLUMNS}u && column < p.n {
        arena[p.y + row * p.n + column] = total(t, column);
    }
//# else
    let column = column0 + t * 2u;
    if t < ${COLUMNS/2}u && column < p.n {
        let low = single_to_half(total(t * 2u, column));
        let high = single_to_half(total(t * 2u + 1u, column + 1u));
        arena[p.y + ((row * p.n + column) >> 1u)] = low | (high << 16u);
    }
//# end
}

// Half precision with rows of an odd number of elements: an invocation makes the two results of one word, which may
// lie in different rows.
//# kernel matmul_f16_any
//# params MatMulAny results m n k a b bias y activation b_k b_n b_batch

fn element(i: u32) -> u32 {
    let row = i / p.n;
    let column = i - row * p.n;
    let a0 = row * p.k;
    let b0 = (row / p.m) * p.b_batch + column * p.b_n;
    var sum = 0.0;
    for (var k = 0u; k < p.k; k += 1u) {
        sum += f16_at(p.a, a0 + k) * f16_at(p.b, b0 + k * p.b_k);
    }
    if p.bias != 0xffffffffu {
        sum += f16_at(p.bias, column);
    }
    return single_to_half(activate(sum, p.activation));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w * 2u >= p.results {
        return;
    }
    var y = element(w * 2u);
    if w * 2u + 1u < p.results {
        y |= element(w * 2u + 1u) << 16u;
    }
    arena[p.y + w] = y;
}

// 8-bit integers: an invocation makes the four results of one word. HOW = dot: w is [N, K] and K a multiple of 4,
// four products at a time; columns: w is [K, N] and N a multiple of 4, so that the four results lie in one row and
// their weights in one word; any: byte by byte.
//# kernel qmatmul_${HOW} HOW=dot|columns|any
//# params QMatMul results n k x w bias multiplier shift y w_k w_n x_zero y_zero low high

fn finish(acc: i32, column: u32) -> u32 {
    let sum = acc + bitcast<i32>(word(p.bias, column));
    let y = requantize(
        sum,
        bitcast<i32>(word(p.multiplier, column)),
        bitcast<i32>(word(p.shift, column)),
        bitcast<i32>(p.y_zero),
        bitcast<i32>(p.low),
        bitcast<i32>(p.high),
    );
    return bitcast<u32>(y) & 0xffu;
}

//# if HOW != columns
fn element(i: u32) -> u32 {
    let row = i / p.n;
    let column = i - row * p.n;
    var acc = 0i;
//# if HOW == dot
    let words = p.k / 4u;
    let x0 = row * words;
    let w0 = column * words;
    var weights_sum = 0i;
    for (var k = 0u; k < words; k += 1u) {
        let w = word(p.w, w0 + k);
        acc += dot4I8Packed(word(p.x, x0 + k), w);
        weights_sum += dot4I8Packed(w, 0x01010101u);
    }
    acc -= bitcast<i32>(p.x_zero) * weights_sum;
//# else
    let x0 = row * p.k;
    let w0 = column * p.w_n;
    for (var k = 0u; k < p.k; k += 1u) {
        acc += (i8_at(p.x, x0 + k) - bitcast<i32>(p.x_zero)) * i8_at(p.w, w0 + k * p.w_k);
    }
//# end
    return finish(acc, column);
}
//# end

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let o = group_number(group, groups) * 64u + t;
    if o * 4u >= p.results {
        return;
    }
    var y = 0u;
//# if HOW == columns
    let row = (o * 4u) / p.n;
    let column = o * 4u - row * p.n;
    let x0 = row * p.k;
    var acc = vec4<i32>(0i);
    for (var k = 0u; k < p.k; k += 1u) {
        let w = word(p.w, (k * p.n + column) >> 2u);
        let x = i8_at(p.x, x0 + k) - bitcast<i32>(p.x_zero);
        acc += x * vec4<i32>(sign8(w), sign8(w >> 8u), sign8(w >> 16u), sign8(w >> 24u));
    }
//# for E in 0..4
    y |= finish(acc[${E}], column + ${E}u) << ${E*8}u;
//# end
//# else
    for (var e = 0u; e < 4u; e += 1u) {
        if o * 4u + e < p.results {
            y |= element(o * 4u + e) << (e * 8u);
        }
    }
//# end
    arena[p.y + o] = y;
}
