//! What the program says when something is wrong: every message names what, where and what was expected.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Folder, say};

#[test]
fn devices() {
    let all = say("devices --json").json();
    let host = all["devices"].as_array().unwrap().iter().find(|d| d["id"] == "host").unwrap();
    assert_eq!(host["accelerator"], false);
    let text = say("devices");
    assert!(text.code == 0 && text.out.contains("host"), "{}", text.out);
}

#[test]
fn bad_usage() {
    for (line, texts) in [
        ("", &["Usage"][..]),
        ("compil", &["compile"]),
        ("run", &["FILE"]),
        ("run a.srn --device vulcan", &["vulcan", "did you mean 'vulkan'", "wgpu[:N]"]),
        ("run a.srn --device host:1", &["'host' takes no number"]),
        ("run a.srn --dim n", &["NAME=N"]),
        ("run a.srn --dim n=-1", &["'-1'", "whole number"]),
        ("run a.srn --input random:x", &["SEED", "'x'"]),
        ("run a.srn --input random", &["random:SEED"]),
        ("run a.srn --output y=y.txt", &[".txt", ".npy or .npz"]),
        ("run a.srn --output y.npy", &["NAME=FILE.npy"]),
        ("compile a.onnx", &["--output"]),
        ("compile a.onnx -o b --bound n", &["NAME=MAX[:MULTIPLE]"]),
        ("compile a.onnx -o b --bound n=4:0", &["MULTIPLE is 0"]),
        ("compile a.onnx -o b --shape x=1,,2", &["empty"]),
        ("compile a.onnx -o b --state x", &["IN=OUT"]),
        ("compile a.onnx -o b --profile mobil", &["mobile"]),
        ("compile a.onnx -o b --hnit h.json", &["--hint"]),
        ("bench a.srn --threads 0", &["1..=1024"]),
        ("compare a.srn host host", &["two different devices"]),
        ("compare a.srn all host", &["two different devices"]),
    ] {
        say(line).fails(2, texts);
    }
    assert_eq!(say("--help").code, 0);
    assert_eq!(say("--version").code, 0);
}

#[test]
fn files_that_are_not_there_or_no_models() {
    let folder = Folder::new();
    let missing = folder.path("missing.srn");
    for command in ["verify", "inspect", "run", "bench"] {
        say(&format!("{command} {missing}")).fails(1, &["missing.srn", "No such file"]);
    }
    say(&format!("compile {} -o {missing}", folder.path("missing.onnx"))).fails(1, &["missing.onnx"]);
    std::fs::write(&missing, b"hello").unwrap();
    say(&format!("verify {missing}")).fails(1, &["missing.srn", "expected"]);
    say(&format!("compile {missing} -o {missing}")).fails(1, &[".onnx"]);
    std::fs::write(&missing, b"").unwrap();
    say(&format!("verify {missing}")).fails(1, &["missing.srn"]);
}

#[cfg(feature = "compiler")]
mod with_a_model {
    use super::*;
    use common::{f32s, model, npy, serinette};
    use std::fs;

    fn blob(folder: &Folder) -> String {
        let (out, hint) = (folder.path("fashion.srn"), model("fashion/hint.json"));
        let onnx = model("fashion/fashion.onnx");
        let said = serinette(&["compile", &onnx, "-o", &out, "--hint", &hint]);
        assert_eq!(said.code, 0, "{}", said.err);
        out
    }

    #[test]
    fn names_that_are_misspelt() {
        let folder = Folder::new();
        let srn = blob(&folder);
        let run = format!("run {srn} --device host");
        say(&format!("{run} --input imgae=random:1"))
            .fails(1, &["no input named 'imgae'", "did you mean 'image'"]);
        say(&format!("{run} --input random:1 --dim bach=1"))
            .fails(1, &["no dimension named 'bach'", "'batch'"]);
        say(&format!("{run} --input random:1 --entry mian")).fails(1, &["no entry named 'mian'", "'main'"]);
        let output = format!("{run} --input random:1 --output probabilites={}", folder.path("y.npy"));
        say(&output).fails(1, &["no output named 'probabilites'", "'probabilities'"]);
        assert_eq!(folder.names(), ["fashion.srn"]);
    }

    #[test]
    fn inputs_that_are_missing_or_too_many() {
        let folder = Folder::new();
        let run = format!("run {} --device host", blob(&folder));
        say(&run).fails(1, &["entry 'main'", "input 'image' was not given"]);
        say(&format!("{run} --input random:1 --input random:2"))
            .fails(2, &["random:2", "one input too many", "image"]);
        say(&format!("{run} --input image=random:1 --input image=random:2"))
            .fails(2, &["'image' is given twice"]);
    }

    #[test]
    fn inputs_that_do_not_fit() {
        let folder = Folder::new();
        let srn = blob(&folder);
        let run = |name: &str| say(&format!("run {srn} --device host --input {}", folder.path(name)));
        fs::write(folder.path("f8.npy"), npy("<f8", &[1, 1, 28, 28], &[0; 784 * 8])).unwrap();
        run("f8.npy").fails(1, &["'image'", "f32", "f64"]);
        fs::write(folder.path("flat.npy"), npy("<f4", &[784], &[0; 784 * 4])).unwrap();
        run("flat.npy").fails(1, &["'image'", "[batch, 1, 28, 28]", "[784]"]);
        fs::write(folder.path("short.npy"), npy("<f4", &[1, 1, 28, 28], &f32s(&[1.0; 783]))).unwrap();
        run("short.npy").fails(1, &["short.npy", "3136", "3132"]);
        fs::write(folder.path("x.txt"), b"1").unwrap();
        run("x.txt").fails(1, &["x.txt", "'image'", ".npy"]);
        fs::write(folder.path("x.png"), b"\x89PNG").unwrap();
        run("x.png").fails(1, &["x.png"]);
        run("none.npy").fails(1, &["none.npy", "No such file"]);
        let dim = say(&format!("run {srn} --device host --input random:1 --dim batch=1000000"));
        dim.fails(1, &["--dim batch=1000000", "1 to"]);
    }

    #[test]
    fn sound_of_another_rate() {
        let folder = Folder::new();
        let (srn, hint) = (folder.path("a.srn"), folder.path("hint.json"));
        fs::write(&hint, r#"{"inputs":{"image":{"kind":"audio","rate":16000}}}"#).unwrap();
        let onnx = model("fashion/fashion.onnx");
        assert_eq!(say(&format!("compile {onnx} -o {srn} --hint {hint}")).code, 0);
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 44_100,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut w = hound::WavWriter::create(folder.path("x.wav"), spec).unwrap();
        (0..28).for_each(|i| w.write_sample(i as i16).unwrap());
        w.finalize().unwrap();
        let run = format!("run {srn} --device host --input {}", folder.path("x.wav"));
        say(&run).fails(1, &["expected 16000 samples a second, the file has 44100"]);
    }

    #[test]
    fn a_picture_without_a_hint() {
        let run = format!("run {} --device host --input", model("fashion/fashion.onnx"));
        let said = say(&format!("{run} {}", model("fashion/samples/bag_0.png")));
        said.fails(1, &["image hint", "--hint", "'image'"]);
    }

    #[test]
    fn damaged_blobs() {
        let folder = Folder::new();
        let srn = blob(&folder);
        let good = fs::read(&srn).unwrap();
        let ok = say(&format!("verify {srn}"));
        assert!(
            ok.code == 0 && ok.out.contains("verified") && ok.out.contains("digests match"),
            "{}",
            ok.out
        );
        let bad = folder.path("bad.srn");
        for cut in [1, 100, 127, 128, 500, good.len() / 2, good.len() - 1] {
            fs::write(&bad, &good[..cut]).unwrap();
            say(&format!("verify {bad}")).fails(1, &["bad.srn", "expected"]);
        }
        // A bit of a record, and one of the weights (the file's end).
        for at in [200, good.len() - 2] {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            fs::write(&bad, &bytes).unwrap();
            say(&format!("verify {bad}")).fails(1, &["bad.srn"]);
        }
    }

    #[test]
    fn flags_of_the_compiler_are_not_for_blobs() {
        let folder = Folder::new();
        say(&format!("run {} --bound batch=2", blob(&folder))).fails(2, &["--bound", ".onnx"]);
    }

    #[test]
    fn names_that_the_model_to_compile_does_not_have() {
        let folder = Folder::new();
        let compile = format!("compile {} -o {}", model("fashion/fashion.onnx"), folder.path("a.srn"));
        say(&format!("{compile} --bound bacth=2")).fails(1, &["bacth"]);
        say(&format!("{compile} --shape imag=1,1,28,28")).fails(1, &["imag"]);
        say(&format!("{compile} --state image=nothing")).fails(1, &["nothing"]);
        fs::write(folder.path("h.json"), r#"{"inputs":{"imag":{"kind":"audio","rate":1}}}"#).unwrap();
        say(&format!("{compile} --hint {}", folder.path("h.json"))).fails(1, &["imag"]);
        fs::write(folder.path("h.json"), r#"{"inputs":{"image":{"kind":"imago"}}}"#).unwrap();
        say(&format!("{compile} --hint {}", folder.path("h.json"))).fails(1, &["h.json", "imago"]);
        assert_eq!(folder.names(), ["h.json"]);
        fs::write(folder.path("no.onnx"), b"no model").unwrap();
        let no = folder.path("no.onnx");
        say(&format!("compile {no} -o {}", folder.path("a.srn"))).fails(1, &["no.onnx"]);
    }

    #[test]
    fn places_that_cannot_be_written() {
        let folder = Folder::new();
        let compile = format!("compile {} -o", model("fashion/fashion.onnx"));
        say(&format!("{compile} {}", folder.path("no/such/a.srn"))).fails(1, &["a.srn", "cannot be written"]);
        fs::create_dir(folder.path("dir")).unwrap();
        say(&format!("{compile} {}", folder.path("dir"))).fails(1, &["is a folder"]);
        if cfg!(target_os = "linux") {
            say(&format!("{compile} /dev/full")).fails(1, &["/dev/full", "not a regular file"]);
        }
        assert_eq!(folder.names(), ["dir"], "no leftovers");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_leaves_what_was_there() {
        let folder = Folder::new();
        let (srn, onnx) = (folder.path("a.srn"), model("fashion/fashion.onnx"));
        fs::write(&srn, b"old").unwrap();
        // A limit on file sizes fails a write half-way, as a full disk does.
        let command = format!(
            "trap '' XFSZ; ulimit -f 8; exec {} compile {onnx} -o {srn}",
            env!("CARGO_BIN_EXE_serinette")
        );
        let done = std::process::Command::new("bash").args(["-c", &command]).output().unwrap();
        let err = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{err}");
        assert!(err.contains("a.srn") && err.contains("cannot be written"), "{err}");
        assert_eq!(fs::read(&srn).unwrap(), b"old");
        assert_eq!(folder.names(), ["a.srn"]);
    }

    #[test]
    fn a_closed_or_full_standard_output_is_an_error() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let folder = Folder::new();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_serinette"));
        let done = command.args(["inspect", &blob(&folder)]).stdout(full).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        assert!(String::from_utf8(done.stderr).unwrap().contains("writing the result"));
    }
}
