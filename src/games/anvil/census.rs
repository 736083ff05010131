//! The census of the engine's files: what the notes count of whole installs, to be held against them.

use std::any::Any;
use std::ops::AddAssign;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::animation::tracks::ClipCensus;
use super::animation::{riders_republic, shaun_white};
use super::container::object::Generation;
use super::{ALL, AnvilGame, object};
use crate::source::{Census, Found, Scratch, Source, UnitCensus};

/// What is counted of the Animations of one game.
#[derive(Debug, Default, Serialize)]
pub struct GameCensus {
    /// Animation objects met.
    pub objects: u64,
    /// Distinct ones: other id or other bytes.
    pub distinct: u64,
    /// Ids that stand for more than one content.
    pub ids_with_several_contents: u64,
    /// Distinct clips that could not be read.
    pub refused: u64,
    /// Tracks of all objects, repeats counted.
    pub tracks_of_all_objects: u64,
    /// Keys of all objects, repeats counted.
    pub keys_of_all_objects: u64,
    /// Everything of the distinct clips.
    pub clips: ClipCensus,
}

/// What is counted.
#[derive(Debug, Default)]
pub struct AnvilCensus {
    files: u64,
    entries: u64,
    /// By the game's place in [`ALL`].
    games: [GameCensus; 2],
    skeletons: u64,
    skeletons_refused: u64,
    sets: u64,
    pairs: Vec<[u64; 2]>,
    entities: u64,
    /// Clips that were read, by id and hash: what is known need not be read again.
    known: FxHashMap<(u64, u128), ClipCensus>,
    /// Contents by game and id.
    contents: FxHashMap<(usize, u64), FxHashSet<u128>>,
}

/// What is counted of one unit.
#[derive(Debug, Default)]
struct Part {
    /// Game, id, hash, and the census of an Animation. `None`: it was refused.
    animations: Vec<(usize, u64, u128, Option<ClipCensus>)>,
    skeletons: u64,
    skeletons_refused: u64,
    sets: u64,
    pairs: Vec<[u64; 2]>,
    entities: u64,
}

impl Census for AnvilCensus {
    fn open(&mut self, source: &dyn Source) {
        self.files += 1;
        self.entries += source.units() as u64;
    }

    fn count(&self, source: &dyn Source, unit: usize, _label: &str, scratch: &mut Scratch) -> UnitCensus {
        let (mut part, mut errors, mut notes) = (Part::default(), Vec::new(), Vec::new());
        let result = source.visit(unit, true, scratch, &mut |found| match found {
            Ok(Found::Clips(resource)) => {
                let id = resource.id.unwrap_or_default();
                let is_game = |g: &&AnvilGame| g.code == resource.game.code();
                let game = ALL.iter().position(is_game).unwrap_or_default();
                let census = match self.known.get(&(id, resource.hash)) {
                    Some(census) => Some(census.clone()),
                    None => {
                        let generation = ALL[game].generation;
                        let read = object(&resource, generation).and_then(|object| match generation {
                            Generation::Ids64 => riders_republic::read_with_census(&object, ""),
                            Generation::Ids32 => shaun_white::read_with_census(&object, ""),
                        });
                        match read {
                            Ok((_, census)) => Some(census),
                            Err(e) => {
                                errors.push(e);
                                None
                            }
                        }
                    }
                };
                part.animations.push((game, id, resource.hash, census));
            }
            Ok(Found::Skeleton(Ok(_))) => part.skeletons += 1,
            Ok(Found::Skeleton(Err(e))) => {
                part.skeletons_refused += 1;
                errors.push(e);
            }
            Ok(Found::Use(Ok(one))) if one.class == "AnimSet" => {
                part.sets += 1;
                part.pairs.extend(one.pairs);
            }
            Ok(Found::Use(Ok(_))) => part.entities += 1,
            Ok(Found::Use(Err(e))) | Err(e) => errors.push(e),
            Ok(Found::Note(note)) => notes.push(note),
        });
        errors.extend(result.err());
        UnitCensus { counts: Box::new(part), errors, notes }
    }

    fn add(&mut self, counts: Box<dyn Any + Send>) {
        let Ok(part) = counts.downcast::<Part>() else { return };
        for (game, id, hash, clip) in part.animations {
            let contents = self.contents.entry((game, id)).or_default();
            let counts = &mut self.games[game];
            counts.objects += 1;
            if contents.insert(hash) {
                counts.distinct += 1;
                counts.ids_with_several_contents += u64::from(contents.len() == 2);
                match clip {
                    Some(clip) => {
                        counts.clips.add_assign(&clip);
                        self.known.insert((id, hash), clip);
                    }
                    None => counts.refused += 1,
                }
            }
            if let Some(clip) = self.known.get(&(id, hash)) {
                counts.tracks_of_all_objects += clip.tracks;
                counts.keys_of_all_objects += clip.keys;
            }
        }
        self.skeletons += part.skeletons;
        self.skeletons_refused += part.skeletons_refused;
        self.sets += part.sets;
        self.pairs.extend(part.pairs);
        self.entities += part.entities;
    }

    fn json(&self) -> Vec<(&'static str, Box<dyn erased_serde::Serialize + '_>)> {
        let mut out: Vec<(&'static str, Box<dyn erased_serde::Serialize + '_>)> =
            vec![("anvil_files", Box::new(self.files)), ("entries", Box::new(self.entries))];
        for (game, counts) in ALL.iter().zip(&self.games) {
            out.push((game.code, Box::new(counts)));
        }
        out.push(("skeletons", Box::new(self.skeletons)));
        out.push(("skeletons_refused", Box::new(self.skeletons_refused)));
        out.push(("anim_sets", Box::new(self.sets)));
        out.push(("anim_pairs", Box::new(self.pairs.len())));
        out.push(("anim_pairs_unresolved", Box::new(self.unresolved())));
        out.push(("entities_with_clips", Box::new(self.entities)));
        out
    }

    fn text(&self) -> Vec<String> {
        if self.files == 0 {
            return Vec::new();
        }
        let mut out = vec![format!("Anvil: {} files, {} entries", self.files, self.entries)];
        for (game, counts) in ALL.iter().zip(&self.games) {
            text_of(game.title, counts, &mut out);
        }
        out.push(format!("  skeletons {} read, {} refused", self.skeletons, self.skeletons_refused));
        out.push(format!(
            "  AnimSets {}, pairs {}, of which {} name no clip of this input; entities that name clips {}",
            self.sets,
            self.pairs.len(),
            self.unresolved(),
            self.entities
        ));
        out
    }

    fn decoded(&self) -> u64 {
        self.skeletons + self.games.iter().map(|g| g.clips.clips).sum::<u64>()
    }
}

impl AnvilCensus {
    /// Pairs of AnimSets of which an id is no clip of the input.
    fn unresolved(&self) -> usize {
        let narrow = |game: usize| ALL[game].generation == Generation::Ids32;
        let is_clip = |id: u64| (0..ALL.len()).any(|g| narrow(g) && self.contents.contains_key(&(g, id)));
        self.pairs.iter().filter(|pair| !pair.iter().all(|id| is_clip(*id))).count()
    }
}

fn text_of(title: &str, counts: &GameCensus, out: &mut Vec<String>) {
    if counts.objects == 0 {
        return;
    }
    let clips = &counts.clips;
    out.push(format!(
        "{title}: {} objects, {} distinct clips ({} refused), {} tracks, {} keys",
        counts.objects, counts.distinct, counts.refused, clips.tracks, clips.keys
    ));
    if counts.objects != counts.distinct {
        out.push(format!(
            "  of all objects: {} tracks, {} keys; ids with several contents {}",
            counts.tracks_of_all_objects, counts.keys_of_all_objects, counts.ids_with_several_contents
        ));
    }
    out.push(format!(
        "  with events {}, with ECLAnimation {}, streamed {}, additive {}",
        clips.with_events, clips.with_ecl_animation, clips.streamed, clips.additive
    ));
    for count in &clips.kinds {
        out.push(format!(
            "  kind {:>2} form {}: {:>9} tracks {:>10} keys",
            count.kind, count.form, count.tracks, count.keys
        ));
    }
    let before = out.len();
    let met = clips.anomalies.iter().filter(|(n, _)| *n > 0);
    out.extend(met.map(|(n, text)| format!("  departs from the notes: {n} {text}")));
    if out.len() == before {
        out.push("  everything is as the notes say that it always is".to_owned());
    }
}
