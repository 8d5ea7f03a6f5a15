// 2-D pooling over NCHW. An invocation makes one output word.
//# include grid
//# include operand
//# include float

//# kernel ${KIND}_pool_${T} KIND=max|average T=f32|i8
//# params Pool results x y height width out_height out_width kernel_h kernel_w stride_h stride_w pad_top pad_left dilation_h dilation_w count_padding

//# if T == i8
//# if KIND == average
// round_half_even(sum / count), count above 0.
fn mean(sum: i32, count: i32) -> i32 {
    let negative = sum < 0i;
    let size = bitcast<u32>(select(sum, 0i - sum, negative));
    let n = bitcast<u32>(count);
    var q = size / n;
    let twice = (size - q * n) * 2u;
    if twice > n || (twice == n && (q & 1u) == 1u) {
        q += 1u;
    }
    return select(bitcast<i32>(q), 0i - bitcast<i32>(q), negative);
}
//# end
//# end

fn element(i: u32) -> u32 {
    let row = i / p.out_width;
    let column = i - row * p.out_width;
    let plane = row / p.out_height;
    let top = (row - plane * p.out_height) * p.stride_h;
    let left = column * p.stride_w;
    let x0 = plane * p.height * p.width;
//# if KIND == max
    // Below every key; NaN is above every key and is kept as it is.
    var best = -0x7fffffffi;
    var y = 0u;
//# else
    var count = 0u;
//# if T == f32
    var sum = 0.0;
//# else
    var sum = 0i;
//# end
//# end
    for (var r = 0u; r < p.kernel_h; r += 1u) {
        let h = top + r * p.dilation_h;
        if h < p.pad_top || h - p.pad_top >= p.height {
            continue;
        }
        for (var s = 0u; s < p.kernel_w; s += 1u) {
            let v = left + s * p.dilation_w;
            if v < p.pad_left || v - p.pad_left >= p.width {
                continue;
            }
            let at = x0 + (h - p.pad_top) * p.width + v - p.pad_left;
//# if KIND == max
//# if T == f32
            let bits = word(p.x, at);
            var key = 0x7fffffffi;
            if !is_nan(bits) {
                key = order_key(bits);
            }
//# else
            let key = i8_at(p.x, at);
            let bits = bitcast<u32>(key);
//# end
            if key > best {
                best = key;
                y = bits;
            }
//# else
            count += 1u;
//# if T == f32
            sum += bitcast<f32>(word(p.x, at));
//# else
            sum += i8_at(p.x, at);
//# end
//# end
        }
    }
//# if KIND == max
    return y;
//# else
    if p.count_padding != 0u {
        count = p.kernel_h * p.kernel_w;
    }
    if count == 0u {
        return 0u;
    }
//# if T == f32
    return bitcast<u32>(sum / f32(count));
//# else
    return bitcast<u32>(mean(sum, bitcast<i32>(count)));
//# end
//# end
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
//# if T == f32
    if w < p.results {
        arena[p.y + w] = element(w);
    }
//# else
    if w * 4u >= p.results {
        return;
    }
    var y = 0u;
    for (var e = 0u; e < 4u; e += 1u) {
        if w * 4u + e < p.results {
            y |= (element(w * 4u + e) & 0xffu) << (e * 8u);
        }
    }
    arena[p.y + w] = y;
//# end
}
