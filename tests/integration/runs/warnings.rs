//! `docs/warnings.md` is the list of all kinds of warnings that the source declares.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The string literal that `text` begins with, behind white space.
fn literal(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix('"')?.split('"').next()
}

/// Puts code and sentence of each kind declared below `folder` into `out`.
fn declared(folder: &Path, out: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            declared(&path, out);
            continue;
        }
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        // Kinds of tests and examples are nobody's.
        let source = fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod ").next().unwrap();
        let lines: Vec<&str> = source.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        let source = lines.join("\n");
        let mut put = |code: &str, text: &str| {
            assert!(
                code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{code}"
            );
            assert!(out.insert(code.to_owned(), text.to_owned()).is_none(), "{code} is declared twice");
        };
        for behind in source.split("code:").skip(1) {
            let Some(code) = literal(behind) else { continue };
            let text = behind.split_once("text:").and_then(|(_, t)| literal(t)).unwrap_or_default();
            put(code, text);
        }
        // Anvil's departures: a sentence for the census, and behind it the code where it is a warning too.
        let mut before = "";
        for behind in source.split(" raises ") {
            if let Some(code) = literal(behind) {
                let text = before.trim_end().trim_end_matches('"').rsplit('"').next().unwrap();
                put(code, &format!("{text}: {{count}}"));
            }
            before = behind;
        }
    }
}

#[test]
fn the_table_holds_every_code_with_its_sentence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut kinds = BTreeMap::new();
    declared(&root.join("src"), &mut kinds);
    assert!(kinds.len() > 40, "{} kinds", kinds.len());
    let docs = fs::read_to_string(root.join("docs/warnings.md")).unwrap();
    let rows: BTreeMap<&str, &str> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(code, rest)| (code, rest.split(" | ").next().unwrap()))
        .collect();
    for (code, text) in &kinds {
        assert_eq!(rows.get(code.as_str()), Some(&text.as_str()), "{code}: docs/warnings.md");
    }
    for code in rows.keys() {
        assert!(kinds.contains_key(*code), "docs/warnings.md lists {code}, which nothing declares");
    }
}
