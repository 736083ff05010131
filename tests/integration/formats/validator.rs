//! The Khronos validator over every kind of output: no error, no warning. The informations that remain are
//! those of a skin without a mesh.

use std::path::{Path, PathBuf};
use std::process::Command;

use anim2gltf_testkit::khronos::validate;

fn convert(inputs: &[PathBuf], out: &Path, options: &[&str]) {
    let run = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .args(inputs)
        .arg("-o")
        .arg(out)
        .arg("-q")
        .args(options)
        .output()
        .expect("the program runs");
    assert!(run.status.success(), "{options:?}: {}", String::from_utf8_lossy(&run.stderr));
}

fn written(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok)
        .map(|e| e.into_path())
        .filter(|p| p.extension().is_some_and(|e| e == "glb" || e == "gltf"))
        .collect();
    files.sort();
    files
}

#[test]
fn no_output_has_an_error_or_a_warning() {
    let Some(node_modules) = anim2gltf_testkit::tool("ANIM2GLTF_NODE_MODULES") else { return };
    let out = tempfile::tempdir().expect("a folder");
    let mut inputs = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))];
    if let Some(shared) = anim2gltf_testkit::shared() {
        inputs.extend(
            ["corpus/ycd", "fixtures/ycd/synthetic_1.ycd", "fixtures/ycd/synthetic_2.ycd"]
                .map(|p| shared.join(p)),
        );
        inputs.extend(["fixtures/anvil/rr", "fixtures/anvil/sws"].map(|p| shared.join(p)));
    }
    let ways: [&[&str]; 9] = [
        &[],
        &["--to", "gltf"],
        &["--preview-mesh"],
        &["--bake", "60"],
        &["--reduce", "0.1"],
        &["--reduce", "0.1", "--quantize"],
        &["--root-motion", "bake"],
        &["--additive", "compose", "--root-motion", "drop"],
        &["--bundle", "20"],
    ];
    for (i, options) in ways.iter().enumerate() {
        convert(&inputs, &out.path().join(i.to_string()), options);
        if i == 0 {
            // Every real file by default; in the other ways a few of each kind.
            inputs.retain(|input| !input.ends_with("corpus/ycd"));
            if let Some(shared) = anim2gltf_testkit::shared() {
                inputs.extend(
                    ["custom@gangnamstyle", "airforce@salute", "couplepose1pack1anim1@animation"]
                        .map(|name| shared.join(format!("corpus/ycd/{name}.ycd"))),
                );
            }
        }
    }
    validate(&written(out.path()), &node_modules);
}

/// The check itself must be able to fail.
#[test]
fn a_broken_file_is_seen() {
    let Some(node_modules) = anim2gltf_testkit::tool("ANIM2GLTF_NODE_MODULES") else { return };
    let out = tempfile::tempdir().expect("a folder");
    convert(
        &[PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/sample.ycd"))],
        out.path(),
        &["--to", "gltf"],
    );
    let file = out.path().join("sample.gltf");
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::write(&file, text.replacen("\"max\":[", "\"max\":[1", 1)).expect("written");
    let seen = std::panic::catch_unwind(|| validate(&[file], &node_modules));
    assert!(seen.is_err(), "a wrong bound was not seen");
}
