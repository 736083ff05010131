//! `merge`: the manifests of shards to one.

use std::fs;
use std::path::{Path, PathBuf};

use super::report;
use super::run::Outcome;
use crate::error::{Error, Result};
use crate::write::manifest::Manifest;

/// Joins the manifests of all `outs` into `manifest.json` and `report.txt` of the first; rows of other folders
/// get the way from the first to them in front. Returns the joined manifest.
///
/// # Errors
/// Io; a manifest that is none; no manifest at all.
pub fn merge(outs: &[PathBuf]) -> Result<Manifest> {
    let Some(first) = outs.first() else { return Err(Error::usage("no output folder was given")) };
    let mut merged = Manifest {
        generator: concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Manifest::default()
    };
    let mut found = 0;
    for out in outs {
        let prefix = way(first, out);
        for path in manifests(out)? {
            let bytes = fs::read(&path).map_err(|e| Error::io("cannot be read", e).in_file(&path))?;
            let mut manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| {
                Error::unsupported(format!("found no manifest of this program: {e}")).in_file(&path)
            })?;
            found += 1;
            for row in &mut manifest.clips {
                row.output.insert_str(0, &prefix);
            }
            for row in &mut manifest.files {
                row.output.insert_str(0, &prefix);
            }
            merged.clips.append(&mut manifest.clips);
            merged.errors.append(&mut manifest.errors);
            merged.notes.append(&mut manifest.notes);
            merged.uses.append(&mut manifest.uses);
            merged.files.append(&mut manifest.files);
        }
    }
    if found == 0 {
        return Err(Error::usage("found no manifest.json and no manifest.K-of-N.json").in_file(first));
    }
    // Every shard says the same of what concerns the whole.
    merged.clips.sort_by(|a, b| (&a.output, &a.animation, &a.id).cmp(&(&b.output, &b.animation, &b.id)));
    merged.clips.dedup_by(|a, b| (&a.output, &a.animation) == (&b.output, &b.animation));
    merged.files.sort_by(|a, b| a.output.cmp(&b.output));
    merged.files.dedup_by(|a, b| a.output == b.output);
    let text = |e: &crate::write::manifest::ErrorRow| format!("{:?}", e);
    merged.errors.sort_by_key(text);
    merged.errors.dedup_by(|a, b| text(a) == text(b));
    merged.notes.sort_by(|a, b| (&a.source, &a.note).cmp(&(&b.source, &b.note)));
    merged.notes.dedup_by(|a, b| (&a.source, &a.note) == (&b.source, &b.note));
    merged.uses.sort_by(|a, b| (&a.source, &a.id, &a.name).cmp(&(&b.source, &b.id, &b.name)));
    merged.uses.dedup();
    let outcome = Outcome {
        clips: merged.clips.len(),
        files: merged.files.len(),
        errors: merged.errors.len(),
        warned: merged.clips.iter().filter(|c| !c.warnings.is_empty()).count(),
        ..Outcome::default()
    };
    report::write(first, "", &merged, &outcome)?;
    Ok(merged)
}

/// The manifests of shards, or the one of a whole run where there are none.
fn manifests(out: &Path) -> Result<Vec<PathBuf>> {
    let mut shards: Vec<PathBuf> = fs::read_dir(out)
        .map_err(|e| Error::io("cannot be opened", e).in_file(out))?
        .filter_map(|e| e.ok())
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix("manifest.")
                .is_some_and(|rest| rest.ends_with(".json") && rest.contains("-of-"))
        })
        .collect();
    shards.sort();
    if shards.is_empty() && out.join("manifest.json").is_file() {
        shards.push(out.join("manifest.json"));
    }
    Ok(shards)
}

/// What leads from `first` to `out`, empty or ending in `/`.
fn way(first: &Path, out: &Path) -> String {
    let (a, b) = (fs::canonicalize(first), fs::canonicalize(out));
    let (Ok(a), Ok(b)) = (a, b) else { return String::new() };
    let (a, b): (Vec<_>, Vec<_>) = (a.components().collect(), b.components().collect());
    let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut way = "../".repeat(a.len() - common);
    for part in &b[common..] {
        way.push_str(&part.as_os_str().to_string_lossy());
        way.push('/');
    }
    way
}
