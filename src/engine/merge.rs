//! `merge`: the manifests of shards to one.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::engine::closing::{self, Listed};
use crate::engine::journal::{Journal, for_each_file, shard_manifests};
use crate::error::{Error, Result};
use crate::report::manifest::Manifest;
use crate::report::text::Tally;

/// What came of a merge.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// Clips.
    pub clips: u64,
    /// Files.
    pub files: u64,
    /// Failures.
    pub failures: u64,
    /// Shards that other shards speak of and that have no manifest, as `K/N`.
    pub missing: Vec<String>,
}

/// How temporary files of a merge are called: of no run.
const TAG: &str = "-merge";

/// Joins the manifests of all `outs` into `manifest.json` and `report.txt` of the first; rows of other folders
/// get the way from the first to them in front. Rows stand in the order that one run for everything gives them.
///
/// # Errors
/// Io; a manifest that is none; no manifest at all.
pub fn merge(outs: &[PathBuf]) -> Result<Merged> {
    let Some(first) = outs.first() else { return Err(Error::usage("no output folder was given")) };
    let (mut journal, records) = Journal::open(first, TAG, true)?;
    let result = join(outs, first, &mut journal).and_then(|joined| {
        let Joined { manifest, tally, mut files, shards } = joined;
        files.sort_by(|a, b| (a.order, &a.output).cmp(&(b.order, &b.output)));
        files.dedup_by(|a, b| a.output == b.output);
        let listed: Vec<Listed> =
            files.iter().map(|f| Listed { record: f.record, also_at: Vec::new() }).collect();
        let mut merged = Merged { missing: missing(&shards), ..Merged::default() };
        (merged.clips, merged.files) = (tally.totals.clips, tally.totals.files);
        merged.failures = closing::write(first, "", manifest, tally, &records, &listed)?;
        Ok(merged)
    });
    journal.close();
    result
}

struct Joined {
    manifest: Manifest,
    tally: Tally,
    files: Vec<Row>,
    shards: Vec<String>,
}

struct Row {
    order: u64,
    output: String,
    record: crate::engine::journal::RecordSpan,
}

fn join(outs: &[PathBuf], first: &Path, journal: &mut Journal) -> Result<Joined> {
    let mut joined = Joined {
        manifest: Manifest {
            generator: concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Manifest::default()
        },
        tally: Tally::default(),
        files: Vec::new(),
        shards: Vec::new(),
    };
    let mut outs = outs.to_vec();
    outs.sort();
    outs.dedup();
    let mut found = 0;
    for out in &outs {
        let prefix = way(first, out);
        for path in manifests(out)? {
            let file = File::open(&path).map_err(|e| Error::io("cannot be opened", e).in_file(&path))?;
            let mut result = Ok(());
            let Joined { tally, files, .. } = &mut joined;
            let part = for_each_file(BufReader::with_capacity(1 << 18, file), |_, mut done| {
                done.file.output.insert_str(0, &prefix);
                for clip in &mut done.clips {
                    clip.output.insert_str(0, &prefix);
                    tally.clip(clip);
                }
                // Failures and notes are taken from the manifest as a whole.
                (done.errors, done.notes) = (Vec::new(), Vec::new());
                match journal.add(&done) {
                    Ok(record) => {
                        tally.totals.files += 1;
                        files.push(Row { order: done.file.order, output: done.file.output, record });
                    }
                    Err(e) => result = Err(e),
                }
            });
            let part = part.map_err(|e| {
                Error::unsupported(format!("found no manifest of this program: {e}")).in_file(&path)
            })?;
            result?;
            joined.add(part, &prefix);
            found += 1;
        }
    }
    if found == 0 {
        return Err(Error::usage("found no manifest.json and no manifest.K-of-N.json").in_file(first));
    }
    journal.flush()?;
    Ok(joined)
}

impl Joined {
    /// Takes over everything but files and clips.
    fn add(&mut self, part: Manifest, prefix: &str) {
        let with_prefix = |output: Option<String>| output.map(|o| format!("{prefix}{o}"));
        let Manifest { errors, notes, decided, uses, .. } = &mut self.manifest;
        decided.extend(part.decided);
        errors.extend(part.errors.into_iter().map(|mut e| {
            e.output = with_prefix(e.output);
            e
        }));
        notes.extend(part.notes.into_iter().map(|mut n| {
            n.output = with_prefix(n.output);
            n
        }));
        // Every shard says the same of what concerns the whole.
        let known: rustc_hash::FxHashSet<_> = uses.iter().cloned().collect();
        uses.extend(part.uses.into_iter().filter(|row| !known.contains(row)));
        let totals = &mut self.tally.totals;
        totals.left_out += part.totals.left_out;
        match part.shard {
            Some(shard) => {
                totals.repeated = totals.repeated.max(part.totals.repeated);
                self.shards.push(shard);
            }
            None => totals.repeated += part.totals.repeated,
        }
    }
}

/// Of `K/N`: the K that are not there, for every N.
fn missing(shards: &[String]) -> Vec<String> {
    let mut all: Vec<(u32, u32)> = shards
        .iter()
        .filter_map(|s| s.split_once('/').and_then(|(k, n)| Some((n.parse().ok()?, k.parse().ok()?))))
        .collect();
    all.sort_unstable();
    all.dedup();
    let mut counts: Vec<u32> = all.iter().map(|(n, _)| *n).collect();
    counts.dedup();
    counts
        .into_iter()
        .flat_map(|n| (1..=n).map(move |k| (n, k)))
        .filter(|shard| all.binary_search(shard).is_err())
        .map(|(n, k)| format!("{k}/{n}"))
        .collect()
}

/// The manifests of shards, or the one of a whole run where there are none.
fn manifests(out: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(out).map_err(|e| Error::io("cannot be opened", e).in_file(out))?;
    let shards = shard_manifests(out);
    let whole = out.join("manifest.json");
    Ok(if shards.is_empty() && whole.is_file() { vec![whole] } else { shards })
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
