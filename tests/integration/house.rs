//! The structure that docs/architecture.md promises, read from the sources: who may know whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Folders (and files) directly below src/, with the others that their code names.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in walkdir::WalkDir::new(&root) {
        let entry = entry.unwrap();
        if entry.path().extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let relative = entry.path().strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let from = first.trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let to = arrows.entry(from.clone()).or_default();
        // Comments may speak of anything, and tests of a module may use anything.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for rest in line.split("crate::").skip(1) {
                let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if !name.is_empty() && name != from && root.join(&name).exists()
                    || root.join(format!("{name}.rs")).exists() && name != from
                {
                    to.insert(name);
                }
            }
        }
    }
    arrows
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_inner_folders_know_only_those_below_them() {
    let arrows = arrows();
    let allowed = [
        ("error", set([])),
        ("io", set(["error"])),
        ("model", set(["error"])),
        ("passes", set(["error", "model"])),
        ("formats", set(["error", "model", "passes", "io"])),
    ];
    for (folder, allowed) in allowed {
        let more: Vec<&String> = arrows[folder].difference(&allowed).collect();
        assert!(more.is_empty(), "src/{folder} names {more:?}, which docs/architecture.md forbids");
    }
    // It orders work and files, whatever the game and whatever the format.
    assert!(!arrows["engine"].contains("games"), "src/engine names a game");
    assert!(arrows["games"].contains("model"), "the arrows are read at all");
}

/// What only the folder of a game may name: its file endings and its classes.
#[test]
fn no_file_outside_games_names_what_is_a_games_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let words =
        [".forge", ".ycd\"", ".rpf", ".Animation", ".yft", ".ydr", ".AnimSet", "games::rage", "games::anvil"];
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(&root) {
        let path = entry.unwrap().into_path();
        let is_games = path.starts_with(root.join("games"));
        if is_games || path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (i, line) in text.lines().enumerate() {
            let code = line.trim_start();
            if !code.starts_with("//") && words.iter().any(|w| code.contains(w)) {
                found.push(format!("{}:{}: {code}", path.strip_prefix(&root).unwrap().display(), i + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
