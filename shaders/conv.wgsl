// 2-D convolutions over NCHW, directly. A depth-wise one has one channel in each group.
//# include grid
//# include operand
//# include float
//# include requantize

// An invocation makes the results of OUT neighbouring output channels (of one group) at one position.
//# kernel conv2d_f32_${OUT} OUT=1|4
//# params Conv results x w bias y activation channels height width outputs group_outputs out_height out_width kernel_h kernel_w stride_h stride_w pad_top pad_left dilation_h dilation_w

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let i = group_number(group, groups) * 64u + t;
    if i >= p.results {
        return;
    }
    let row = i / p.out_width;
    let column = i - row * p.out_width;
    let plane = row / p.out_height;
    let top = (row - plane * p.out_height) * p.stride_h;
    let left = column * p.stride_w;
    let blocks = p.outputs / ${OUT}u;
    let image = plane / blocks;
    let o = (plane - image * blocks) * ${OUT}u;
    // `channels` counts those of one group.
    let group_count = p.outputs / p.group_outputs;
    var x0 = (image * group_count + o / p.group_outputs) * p.channels * p.height * p.width;
    let taps = p.channels * p.kernel_h * p.kernel_w;
    var w0 = o * taps;
//# for O in 0..OUT
    var sum${O} = 0.0;
//# end
    for (var c = 0u; c < p.channels; c += 1u) {
        for (var r = 0u; r < p.kernel_h; r += 1u) {
            // Positions are counted from the padded edge, so they are never negative.
            let h = top + r * p.dilation_h;
            if h < p.pad_top || h - p.pad_top >= p.height {
                continue;
            }
            let x1 = x0 + (h - p.pad_top) * p.width;
            let w1 = w0 + r * p.kernel_w;
            for (var s = 0u; s < p.kernel_w; s += 1u) {
                let v = left + s * p.dilation_w;
                if v >= p.pad_left && v - p.pad_left < p.width {
                    let x = bitcast<f32>(word(p.x, x1 + v - p.pad_left));
//# for O in 0..OUT
                    sum${O} += x * bitcast<f32>(word(p.w, w1 + s + ${O}u * taps));
//# end
                }
            }
        }
        x0 += p.height * p.width;
        w0 += p.kernel_h * p.kernel_w;
    }
    let size = p.out_height * p.out_width;
    let y0 = (image * p.outputs + o) * size + (row - plane * p.out_height) * p.out_width + column;
//# for O in 0..OUT
    if p.bias != 0xffffffffu {
        sum${O} += bitcast<f32>(word(p.bias, o + ${O}u));
    }
    arena[p.y + y0 + ${O}u * size] = activate(sum${O}, p.activation);
//# end
}

// 8-bit integers: an invocation makes the four results of one word. Padding stands for the zero point, so it adds
// nothing.
//# kernel qconv2d
//# params QConv results x w bias multiplier shift y channels height width outputs group_outputs out_height out_width kernel_h kernel_w stride_h stride_w pad_top pad_left dilation_h dilation_w x_zero y_zero low high

fn element(i: u32) -> u32 {
    let row = i / p.out_width;
    let column = i - row * p.out_width;
    let plane = row / p.out_height;
    let top = (row - plane * p.out_height) * p.stride_h;
    let left = column * p.stride_w;
    let image = plane / p.outputs;
    let o = plane - image * p.outputs;
    let group_count = p.outputs / p.group_outputs;
    var x0 = (image * group_count + o / p.group_outputs) * p.channels * p.height * p.width;
    var w0 = o * p.channels * p.kernel_h * p.kernel_w;
    let x_zero = bitcast<i32>(p.x_zero);
    var acc = bitcast<i32>(word(p.bias, o));
    for (var c = 0u; c < p.channels; c += 1u) {
        for (var r = 0u; r < p.kernel_h; r += 1u) {
            let h = top + r * p.dilation_h;
            if h < p.pad_top || h - p.pad_top >= p.height {
                continue;
            }
            let x1 = x0 + (h - p.pad_top) * p.width;
            let w1 = w0 + r * p.kernel_w;
            for (var s = 0u; s < p.kernel_w; s += 1u) {
                let v = left + s * p.dilation_w;
                if v >= p.pad_left && v - p.pad_left < p.width {
                    acc += (i8_at(p.x, x1 + v - p.pad_left) - x_zero) * i8_at(p.w, w1 + s);
                }
            }
        }
        x0 += p.height * p.width;
        w0 += p.kernel_h * p.kernel_w;
    }
    let y = requantize(
        acc,
        bitcast<i32>(word(p.multiplier, o)),
        bitcast<i32>(word(p.shift, o)),
        bitcast<i32>(p.y_zero),
        bitcast<i32>(p.low),
        bitcast<i32>(p.high),
    );
    return bitcast<u32>(y) & 0xffu;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w * 4u >= p.results {
        return;
    }
    var y = 0u;
    for (var e = 0u; e < 4u; e += 1u) {
        if w * 4u + e < p.results {
            y |= element(w * 4u + e) << (e * 8u);
        }
    }
    arena[p.y + w] = y;
}
