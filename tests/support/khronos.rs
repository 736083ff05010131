//! The Khronos validator over files: no error, no warning.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// What the validator may say: the skin and its joints are there for armatures, not for a mesh.
const ALLOWED: [&str; 2] = ["UNUSED_OBJECT", "NODE_EMPTY"];

pub fn validate(files: &[PathBuf], node_modules: &str) {
    assert!(!files.is_empty());
    for files in files.chunks(200) {
        let run = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../validator/validate.cjs"))
            .args(files)
            .env("NODE_PATH", node_modules)
            .output()
            .expect("node runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let lines: Vec<Value> = String::from_utf8(run.stdout)
            .expect("text")
            .lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), files.len());
        for line in lines {
            assert!(line["errors"] == 0 && line["warnings"] == 0, "{line}");
            for code in line["informations"].as_array().expect("codes") {
                assert!(ALLOWED.contains(&code.as_str().expect("code")), "{line}");
            }
        }
    }
}
