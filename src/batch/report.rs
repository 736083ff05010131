//! `manifest.json` and `report.txt`: what was written, what was not and why, what is not known yet.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::journal::Done;
use super::output::write_whole;
use super::run::Outcome;
use crate::error::{Error, Result};
use crate::write::manifest::Manifest;

/// What the manifest of an earlier run says is done, to resume from. Nothing where there is none.
pub fn previous(out: &Path, tag: &str) -> Vec<Done> {
    let Ok(bytes) = fs::read(out.join(format!("manifest{tag}.json"))) else { return Vec::new() };
    let Ok(manifest) = serde_json::from_slice::<Manifest>(&bytes) else { return Vec::new() };
    let mut clips: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for mut row in manifest.clips {
        row.also_at.clear();
        clips.entry(row.output.clone()).or_default().push(row);
    }
    manifest
        .files
        .into_iter()
        .map(|file| Done {
            clips: clips.remove(&file.output).unwrap_or_default(),
            output: file.output,
            key: file.key,
            bytes: file.bytes,
            errors: Vec::new(),
        })
        // A file with failed clips is made again, so that they are named again.
        .filter(|done| !done.clips.is_empty())
        .collect()
}

/// Writes both.
///
/// # Errors
/// Io.
pub fn write(out: &Path, tag: &str, manifest: &Manifest, outcome: &Outcome) -> Result<()> {
    let json = manifest.to_json().map_err(|e| Error::unsupported(format!("manifest: {e}")))?;
    write_whole(&out.join(format!("manifest{tag}.json")), &json, tag)?;
    write_whole(&out.join(format!("report{tag}.txt")), text(manifest, outcome).as_bytes(), tag)
}

/// The report for a person. It holds no times of the clock, so that equal runs say the same.
pub fn text(manifest: &Manifest, outcome: &Outcome) -> String {
    let mut out = String::new();
    let mut games: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    let mut warnings: BTreeMap<String, usize> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    let mut keys = 0;
    for clip in &manifest.clips {
        let game = games.entry(&clip.game).or_default();
        game.0 += 1;
        game.1 += f64::from(clip.duration);
        keys += clip.keys;
        for warning in &clip.warnings {
            *warnings.entry(without_numbers(warning)).or_default() += 1;
        }
        for name in &clip.unknown_joints {
            *unknown.entry(name).or_default() += 1;
        }
        for kept in &clip.tracks_kept {
            *kinds.entry((kept.track, kept.name.as_deref().unwrap_or(""))).or_default() += 1;
        }
    }
    let _ = writeln!(
        out,
        "{} clips in {} files, {keys} keys; {} failures, {} clips with warnings",
        manifest.clips.len(),
        manifest.files.len(),
        manifest.errors.len(),
        outcome.warned
    );
    if outcome.repeated > 0 {
        let _ = writeln!(
            out,
            "{} clips repeat others (same id, same bytes) and were written once",
            outcome.repeated
        );
    }
    let rolls = manifest.clips.iter().filter(|c| !c.thigh_rolls.is_empty()).count();
    if rolls > 0 {
        let _ = writeln!(
            out,
            "in {rolls} clips thigh-roll bones without a rotation of their own follow their thighs, as in the game \
             (--no-thigh-roll leaves them at rest)"
        );
    }
    if outcome.left_out > 0 {
        let _ = writeln!(out, "{} clips were left out by the selection", outcome.left_out);
    }
    for (game, (count, seconds)) in games {
        let _ = writeln!(out, "  {game}: {count} clips, {seconds:.1} s of animation");
    }
    section(
        &mut out,
        "Failures",
        manifest.errors.iter().map(|e| {
            let place =
                [e.file.as_deref(), e.entry.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(": ");
            match e.offset {
                Some(offset) => format!("{place}: at offset 0x{offset:X}: {}", e.message),
                None => format!("{place}: {}", e.message),
            }
        }),
    );
    section(&mut out, "Notes on inputs", manifest.notes.iter().map(|n| format!("{}: {}", n.source, n.note)));
    section(&mut out, "Warnings by kind", by_count(warnings));
    section(&mut out, "Joints without a name, by clips that move them", by_count(unknown));
    section(
        &mut out,
        "Tracks that no joint shows, by number or kind (their values are in the extras)",
        by_count(
            kinds
                .into_iter()
                .map(|((n, name), c)| (format!("{n} {name}").trim_end().to_owned(), c))
                .collect(),
        ),
    );
    out
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(out, "\n{title}");
        for line in lines {
            let _ = writeln!(out, "  {line}");
        }
    }
}

/// Most frequent first, then by text.
fn by_count<K: std::fmt::Display + Ord>(counts: BTreeMap<K, usize>) -> impl Iterator<Item = String> {
    let mut all: Vec<(K, usize)> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.into_iter().map(|(k, n)| format!("{n:>8}  {k}"))
}

/// Warnings of one kind differ in their numbers, and after a colon in their lists.
fn without_numbers(text: &str) -> String {
    let text = text.split(": ").next().unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    let mut digits = false;
    for c in text.chars() {
        let number = c.is_ascii_digit() || (digits && c == '.');
        if number && !digits {
            out.push('#');
        } else if !number {
            out.push(c);
        }
        digits = number;
    }
    out
}
