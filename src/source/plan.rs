//! Before the clips: which parts of the inputs hold some, which skeletons there are, what names clips.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Error;
use crate::games::anvil::container::file as anvil;
use crate::games::anvil::container::file::AnvilSource;
use crate::games::anvil::container::forge::Entry;
use crate::games::anvil::container::object::class;
use crate::report::manifest::UseRow;
use crate::source::find::{Input, Kind};
use crate::source::skeletons::Skeletons;
use crate::source::work;
use crate::source::work::{Kept, Source, Unit};

/// An archive up to this size is looked through whole. Of a larger one Animations are not: they say what they are in
/// the archive's table, and what skeletons and users of clips they could hold is elsewhere too.
const LOOK_THROUGH_BYTES: u64 = 64 << 20;

/// Unpacked bytes of Animations that a look keeps for the conversion.
const KEPT_BYTES: u64 = 48 << 20;

/// Classes of large entries that are passed over in archives of the 64-bit generation that are not looked through
/// whole: there each resource has an entry of its own (docs/formats/anvil.md,
/// section 2.5.2: the classes whose objects repeat).
const ASSETS: [&[u8]; 6] =
    [b"Mesh", b"MeshShape", b"SoundBao", b"TextureMap", b"TextureMapSpec", b"NavMeshManager"];

/// Version of an archive from which on ids have 64 bits (docs/formats/anvil.md, section 1.4).
const FIRST_64_BIT_VERSION: u32 = 27;

/// Everything that a look into the inputs finds.
#[derive(Debug, Default)]
pub struct Plan {
    /// What may hold clips, in the order of the inputs.
    pub units: Vec<Unit>,
    /// Objects that name clips.
    pub uses: Vec<UseRow>,
    /// What could not be read.
    pub errors: Vec<Error>,
    /// Sentences about an input (its index), once for each entry that gives rise to them.
    pub notes: Vec<(usize, String)>,
}

/// Looks through `sources`; skeletons go to `skeletons`. `look` hears of each archive before it is looked through.
pub fn plan(
    inputs: &[Input],
    sources: &[Option<Source>],
    skeletons: &mut Skeletons,
    mut look: impl FnMut(&Input),
) -> Plan {
    let mut plan = Plan::default();
    let mut replaced = plan.superseded(sources);
    let kept = Kept::new(KEPT_BYTES);
    let mut uses = FxHashSet::default();
    for (i, source) in sources.iter().enumerate() {
        let unit = |entry, size| Unit { input: i, entry, size, found: None };
        match source {
            Some(Source::Dictionary) => {
                let size = std::fs::metadata(&inputs[i].path).map_or(0, |m| m.len());
                plan.units.push(unit(0, size));
            }
            Some(Source::Rpf { entries, problems, .. }) => {
                plan.errors.extend(problems.iter().cloned());
                if entries.is_empty() && problems.is_empty() {
                    plan.notes.push((i, "an archive without clip dictionaries".to_owned()));
                }
                plan.units.extend((0..entries.len()).map(|entry| unit(entry, RPF_ENTRY_BYTES)));
            }
            Some(Source::Anvil(source)) => {
                look(&inputs[i]);
                plan.notes.extend(source.notes().iter().map(|n| (i, n.clone())));
                plan.errors.extend(source.faults().iter().cloned());
                let replaced = replaced.remove(&i).unwrap_or_default();
                plan.archive(i, &inputs[i], source, &replaced, &kept, skeletons, &mut uses);
            }
            None => {}
        }
    }
    plan.deal(inputs, &kept);
    plan
}

/// Stored bytes of a dictionary in an archive of RAGE's: its table says only what it unpacks to.
const RPF_ENTRY_BYTES: u64 = 64 << 10;

impl Plan {
    /// Which entries (by input) those of a later archive replace.
    fn superseded(&mut self, sources: &[Option<Source>]) -> FxHashMap<usize, FxHashSet<usize>> {
        let archives: Vec<(usize, &AnvilSource)> = sources
            .iter()
            .enumerate()
            .filter_map(|(i, s)| match s {
                Some(Source::Anvil(source)) if source.kind() == anvil::Kind::Forge => Some((i, &**source)),
                _ => None,
            })
            .collect();
        let tables: Vec<&[_]> = archives.iter().map(|(_, a)| a.entries()).collect();
        let mut replaced = FxHashMap::default();
        for ((input, _), entries) in archives.iter().zip(anvil::superseded(&tables)) {
            if entries.is_empty() {
                continue;
            }
            let text = "an entry is replaced by that of a later archive with the same id";
            self.notes.extend(entries.iter().map(|_| (*input, text.to_owned())));
            replaced.insert(*input, entries.into_iter().collect());
        }
        replaced
    }

    #[allow(clippy::too_many_arguments)]
    fn archive(
        &mut self,
        input: usize,
        given: &Input,
        source: &AnvilSource,
        replaced: &FxHashSet<usize>,
        kept: &Kept,
        skeletons: &mut Skeletons,
        uses: &mut FxHashSet<UseRow>,
    ) {
        let entries = source.entries();
        let total: u64 = entries.iter().map(|e| e.size).sum();
        let assets: Vec<u32> = match source.forge_version() {
            Some(FIRST_64_BIT_VERSION..) if total > LOOK_THROUGH_BYTES => {
                ASSETS.iter().map(|name| crc32fast::hash(name)).collect()
            }
            _ => Vec::new(),
        };
        let is_asset = |e: &Entry| e.class.is_some_and(|c| assets.contains(&c));
        let look = |e: &Entry| e.class != Some(class::ANIMATION) || total <= LOOK_THROUGH_BYTES;
        // A loose file is converted whatever else holds its clip, and is read once.
        let kept = (source.kind() != anvil::Kind::Loose).then_some(kept);
        let scans: Vec<(usize, Option<work::Scan>)> = (0..entries.len())
            .into_par_iter()
            .filter(|i| !replaced.contains(i) && !is_asset(&entries[*i]))
            .map_init(anvil::Scratch::new, |scratch, i| {
                (i, look(&entries[i]).then(|| work::scan(input, source, i, scratch, kept)))
            })
            .collect();
        let text = "an entry of a class without clips (mesh, texture, sound) is passed over";
        self.notes.extend(entries.iter().filter(|e| is_asset(e)).map(|_| (input, text.to_owned())));
        for (entry, scan) in scans {
            let unit = |found| Unit { input, entry, size: entries[entry].size, found };
            let Some(scan) = scan else {
                self.units.push(unit(None));
                continue;
            };
            for skeleton in scan.skeletons {
                skeletons.add(input, skeleton);
            }
            self.errors.extend(scan.errors);
            let sets = scan.sets.into_iter().map(|set| UseRow {
                class: "AnimSet".to_owned(),
                source: given.relative.clone(),
                id: format!("{:X}", set.id),
                name: set.name,
                pairs: set.pairs.iter().map(|p| p.map(|id| format!("{id:X}"))).collect(),
                clips: Vec::new(),
            });
            let entities = scan.entities.into_iter().map(|(name, id, clips)| UseRow {
                class: "Entity".to_owned(),
                source: given.relative.clone(),
                id: format!("{id:X}"),
                name,
                pairs: Vec::new(),
                clips: clips.iter().map(|id| format!("{id:X}")).collect(),
            });
            // Cells of a level repeat their objects.
            self.uses.extend(sets.chain(entities).filter(|row| uses.insert(row.clone())));
            match (scan.is_damaged, kept) {
                // Its faults are reported with its clips.
                (true, _) => self.units.push(unit(None)),
                (false, Some(_)) if !scan.items.is_empty() => {
                    self.notes.extend(scan.notes.into_iter().map(|n| (input, n)));
                    self.units.push(unit(Some(scan.items)));
                }
                (false, None) if !scan.items.is_empty() => self.units.push(unit(None)),
                (false, _) => self.notes.extend(scan.notes.into_iter().map(|n| (input, n))),
            }
        }
    }

    /// Gives each Animation's bytes to its first place. A unit whose bytes were not kept is read again.
    fn deal(&mut self, inputs: &[Input], kept: &Kept) {
        let mut met = FxHashSet::default();
        for unit in &mut self.units {
            debug_assert!(unit.found.is_none() || inputs[unit.input].kind != Kind::Anvil(anvil::Kind::Loose));
            let Some(items) = &mut unit.found else { continue };
            let mut is_whole = true;
            for item in items {
                if met.insert(item.identity()) {
                    match kept.take(item.identity()) {
                        Some(content) => item.content = content,
                        None => is_whole = false,
                    }
                }
            }
            if !is_whole {
                unit.found = None;
            }
        }
    }
}
