//! Templates: what they expand to, every refusal, and that the result is the same each time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serinette_kernel_build::{
    Compiled, Error, ErrorKind, Kernel, build, compile, compile_dir, expand, spirv,
};
use std::path::{Path, PathBuf};

const MAIN: &str = "@compute @workgroup_size(64)\nfn main(@builtin(local_invocation_index) t: u32) {";

fn snippets(name: &str) -> Option<(PathBuf, String)> {
    let text = match name {
        "double" => "fn double(x: u32) -> u32 { return x * 2u; }\n",
        "unused" => "fn unused(x: f32) -> f32 { return exp(x) * 3.0; }\n",
        "checked_index" => "fn checked_index(i: i32, n: u32, step: u32) -> u32 { return 0u; }\n",
        _ => return None,
    };
    Some((PathBuf::from(format!("snippets/{name}.wgsl")), text.to_string()))
}

fn kernels(text: &str) -> Result<Vec<Kernel>, Error> {
    expand(Path::new("k.wgsl"), text, &snippets)
}

fn built(text: &str) -> Result<Vec<Compiled>, Error> {
    kernels(text)?.into_iter().map(compile).collect()
}

#[track_caller]
fn refused(text: &str, kind: ErrorKind, line: usize, part: &str) {
    let e = built(text).expect_err("accepted");
    assert_eq!((e.kind, e.place.line), (kind, line), "{e}");
    assert!(e.to_string().contains(part), "{e}");
}

#[test]
fn variants_are_the_product_of_their_values() {
    let text = "// shared\n//# kernel op_${A}_${B} A=x|y B=1|2\n//# kernel last A=z B=3\nv${A}${B}\n//# kernel other\nw\n";
    let got: Vec<_> = kernels(text).unwrap().into_iter().map(|k| (k.name, k.body)).collect();
    let want = [
        ("op_x_1", "vx1"),
        ("op_x_2", "vx2"),
        ("op_y_1", "vy1"),
        ("op_y_2", "vy2"),
        ("last", "vz3"),
        ("other", "w"),
    ];
    assert_eq!(got, want.map(|(n, b)| (n.to_string(), format!("// shared\n{b}\n"))));
}

#[test]
fn conditions_loops_and_includes() {
    let text = "//# kernel k T=f16 N=2\n//# if T in f32|f16\na\n//# if N != 2\nb\n//# else\nc\n//# end\n//# else\nd\n//# end\n\
                //# for I in 0..N + 1\n//# for J in I..2\n${I}${J}\n//# end\n//# end\n//# include double\n//# include double\n";
    let k = &kernels(text).unwrap()[0];
    assert_eq!(k.body, "a\nc\n00\n01\n11\nfn double(x: u32) -> u32 { return x * 2u; }\n");
    let lines: Vec<usize> = k.lines.iter().map(|p| p.line).collect();
    assert_eq!(lines, [3, 7, 14, 14, 14, 1]);
    assert_eq!(k.lines[5].file, Path::new("snippets/double.wgsl"));
}

#[test]
fn both_forms_of_parameters() {
    let text = format!(
        "//# kernel k\n//# params Two n s[2]\n{MAIN}\n if t < p.n {{ arena[t] = p.s0 + p.s1; }}\n}}\n"
    );
    let k = &built(&text).unwrap()[0];
    assert!(
        k.wgsl_immediate.contains("    n: u32,\n    s0: u32,\n    s1: u32,\n}\nvar<immediate> p: Params;\n")
    );
    assert!(k.wgsl_uniform.contains("@group(0) @binding(3) var<uniform> p: Params;\n"));
    assert_eq!((k.workgroup, k.kernel.params.words()), ([64, 1, 1], 3));
    assert_eq!(spirv::capabilities(&k.spirv), Ok([1].into()));
}

#[test]
fn functions_that_nobody_calls_are_left_out() {
    let with = format!("//# kernel k\n//# include unused\n{MAIN}\n arena[t] = 1u;\n}}\n");
    let without = format!("//# kernel k\n{MAIN}\n arena[t] = 1u;\n}}\n");
    assert_eq!(built(&with).unwrap()[0].spirv, built(&without).unwrap()[0].spirv);
}

#[test]
fn a_gate_sees_the_indirect_buffer() {
    let text = format!("//# kernel k\n//# interface gate\n{MAIN}\n indirect[t] = control[t];\n}}\n");
    assert!(
        built(&text).unwrap()[0].wgsl_immediate.contains("@binding(1) var<storage, read_write> indirect")
    );
}

#[test]
fn bad_directives() {
    use ErrorKind::{Directive, Expression, Include};
    refused("//# kernel\n", Directive, 1, "needs a name");
    refused("//# kernel a-b\n", Directive, 1, "cannot name a kernel");
    refused("//# kernel k A\n", Directive, 1, "not KEY=value");
    refused("//# kernel k_${B} A=1\n", Expression, 1, "`B` has no value");
    refused("//# kernel k\n//# what\n", Directive, 2, "not a directive");
    refused("//# kernel k\n//# interface none\n", Directive, 2, "not a directive");
    refused("//# kernel k\n//# element there f32\n", Directive, 2, "element");
    refused("//# kernel k\n//# if A\n//# end\n", Directive, 2, "not `KEY == value`");
    refused("//# kernel k A=1\n//# if A > 0\n//# end\n", Directive, 2, "not a comparison");
    refused("//# kernel k\n//# if A == 0\n//# end\n", Expression, 2, "`A` has no value");
    refused("//# kernel k A=1\n//# if A == 1\n", Directive, 2, "without `end`");
    refused("//# kernel k\n//# for I in 0..9999\n//# end\n", Directive, 2, "4096");
    refused("//# kernel k\n//# for I from 0\n//# end\n", Directive, 2, "not `for KEY in a..b`");
    refused("//# kernel k\n//# for I in 0..X\n//# end\n", Expression, 2, "`X` has no value");
    refused("//# kernel k\nx\n//# end\n", Directive, 3, "without `if`");
    refused("//# kernel k\n\n${N}\n", Expression, 3, "`N` has no value");
    refused("//# kernel k\n//# include none\n", Include, 2, "no snippet `none`");
    refused("//# kernel k\n//# params\n", Directive, 2, "name of a struct");
    refused("//# kernel k\n//# params P a a\n", Directive, 2, "twice");
    refused("//# kernel k\n//# params P a[x]\n", Directive, 2, "no length");
    refused("//# kernel k\n//# params P 1\n", Directive, 2, "cannot name a parameter");
    refused("//# kernel k\n//# params P a\n//# params P a\n", Directive, 3, "second");
}

#[test]
fn errors_of_the_language_point_into_the_template() {
    let text = format!("// one\n//# kernel k\n{MAIN}\n arena[t] = nothing;\n}}\n");
    refused(&text, ErrorKind::Wgsl, 5, "nothing");
    let text = format!("//# kernel k\n{MAIN}\n var i = 0;\n arena[t] = bitcast<u32>(i) + true;\n}}\n");
    let e = built(&text).unwrap_err();
    assert_eq!(e.kind, ErrorKind::Wgsl, "{e}");
}

#[test]
fn each_lint_refuses() {
    use ErrorKind::Lint;
    let kernel = |head: &str, body: &str| format!("//# kernel k\n{head}\n{MAIN}\n{body}\n}}\n");
    refused(&kernel("//# params P a[33]", ""), Lint, 1, "33 parameter words");
    refused(&kernel("//# capability Magic", ""), Lint, 1, "unknown capability");
    for target in ["vec2<f16>", "vec4< f16 >", "vec2h", "Halves"] {
        refused(&kernel("", &format!(" let x = bitcast<{target}>(arena[t]);")), Lint, 5, "bitcast");
    }
    refused(&kernel("override n: u32 = 3u;", " arena[t] = n;"), Lint, 1, "override");
    refused(&kernel("//# index", " arena[t] = 1u;"), Lint, 1, "checked_index");
    refused(&kernel("//# index\n//# include checked_index", " arena[t] = 1u;"), Lint, 1, "checked_index");
    refused(&kernel("", " arena[t] = subgroupAdd(t);"), Lint, 1, "capabilit");
    refused(&kernel("//# element arena vec4<u32>", " arena[t].y = 1u;"), Lint, 1, "one component");
    refused(
        &kernel("//# element arena vec4<u32>\nfn f(i: u32) { arena[0][i] = 1u; }", " f(t);"),
        Lint,
        1,
        "one component",
    );
    refused(&kernel("var<workgroup> w: array<u32, 4097>;", " w[t] = 1u;"), Lint, 1, "16388 bytes");
    refused("//# kernel k\n@compute @workgroup_size(16, 17)\nfn main() {}\n", Lint, 1, "272 invocations");
    refused("//# kernel k\n@compute @workgroup_size(1)\nfn other() {}\n", Lint, 1, "`main`");
    refused("//# kernel k\nfn f() {}\n", Lint, 1, "0 entry points");
}

#[test]
fn what_the_lints_allow() {
    let text = format!(
        "//# kernel k\n//# index\n//# include checked_index\n//# element arena vec4<u32>\n//# capability GroupNonUniform GroupNonUniformArithmetic\n{MAIN}\n \
         let i = checked_index(bitcast<i32>(weights[t]), 4u, 0u);\n \
         arena[i] = bitcast<vec4<u32>>(bitcast<vec4<f32>>(arena[i])) + vec4<u32>(subgroupAdd(t));\n}}\n"
    );
    built(&text).unwrap();
}

#[test]
fn exact_kernels_keep_sums_and_products_apart() {
    let body =
        format!("{MAIN}\n let x = bitcast<f32>(arena[t]);\n arena[t] = bitcast<u32>(x * x + 1.5);\n}}\n");
    let marks = |head: &str| {
        let k = built(&format!("//# kernel k\n{head}\n{body}")).unwrap().remove(0);
        k.spirv.windows(3).filter(|w| w[0] == 3 << 16 | 71 && w[2] == 42).count()
    };
    assert_eq!((marks(""), marks("//# exact")), (0, 2));
}

/// The library's own templates.
fn shaders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shaders")
}

#[test]
fn the_generated_files_are_the_same_each_time() {
    let dir = std::env::temp_dir().join(format!("serinette-kernel-build-{}", std::process::id()));
    let read = |sub: &str| {
        let out = dir.join(sub);
        std::fs::create_dir_all(&out).unwrap();
        let report = build(&shaders(), &out).unwrap();
        let mut files: Vec<_> = std::fs::read_dir(&out)
            .unwrap()
            .map(|e| e.unwrap())
            .map(|e| (e.file_name(), std::fs::read(e.path()).unwrap()))
            .collect();
        files.sort();
        assert_eq!(files.len(), report.kernels.len() * 3 + 1);
        files
    };
    let same = read("a") == read("b");
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(same);
}

#[test]
fn the_library_needs_plain_devices() {
    let report = compile_dir(&shaders()).unwrap();
    for k in &report.kernels {
        assert_eq!(spirv::capabilities(&k.spirv), Ok([1].into()), "{}: more than Shader", k.kernel.name);
    }
    println!("{} bytes of SPIR-V in {} kernels", report.spirv_bytes(), report.kernels.len());
    assert!(report.spirv_bytes() < 400 << 10, "{} bytes of SPIR-V", report.spirv_bytes());
}
