//! What a game is: [`Game`] says how its files are known, opened and read, [`Source`] is one opened file of it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::model::{Clip, JointId, Skeleton, SkeletonFile, Trs};

/// A game. One value of it stands in the table [`GAMES`](crate::games::GAMES); nothing else of the program names it.
///
/// What has a default is optional: a game that only reads clips implements the first group of methods.
pub trait Game: Debug + Sync + JointScheme {
    /// The short name: in `animations[].extras`, in the manifest, and for `--game`. Upper-case letters and digits.
    fn code(&self) -> &'static str;

    /// The name for people.
    fn title(&self) -> &'static str;

    /// Endings of the file names that a folder is searched for, with the dot; case makes no difference.
    fn endings(&self) -> &'static [&'static str];

    /// What a file of the game can be, for the refusal of one that is nothing known: `a clip dictionary (.ycd)`.
    fn inputs(&self) -> &'static str;

    /// Whether a file is the game's, by its first [`PROBE_SIZE`](super::find::PROBE_SIZE) bytes (or all that it has),
    /// its length in bytes and its name.
    fn probe(&self, start: &[u8], length: u64, name: &str) -> bool;

    /// Opens a file of the game.
    ///
    /// # Errors
    /// What cannot be opened or is damaged as a whole.
    fn open(&self, input: &Input, options: &ReadOptions) -> Result<Box<dyn Source>>;

    /// Reads the clips of a resource; `source` is what they say of where they come from.
    ///
    /// # Errors
    /// Where nothing of the resource can be read. They name the entry, not the file.
    fn read(&self, resource: &Resource<'_>, source: &str, scratch: &mut Scratch) -> Result<Clips>;

    /// The name of a joint that the game's tracks call `id`, where one is known.
    fn joint_name(&self, id: JointId) -> Option<&str>;

    /// Games of one family share containers and skeletons. A game alone is its own family.
    fn family(&self) -> &'static str {
        self.code()
    }

    /// What tracks of the game call a joint whose name the user lists (`--names`); `None` where lists do not serve.
    fn listed_joint_id(&self, _name: &str) -> Option<JointId> {
        None
    }

    /// Proves options that concern the game before anything is read.
    ///
    /// # Errors
    /// Usage.
    fn check_options(&self, _options: &ReadOptions) -> Result<()> {
        Ok(())
    }

    /// Endings of files of the game that hold skeletons, with the dot.
    fn skeleton_endings(&self) -> &'static [&'static str] {
        &[]
    }

    /// The skeletons of a file of the game; `None` where the file is nothing of the game's.
    fn skeletons(&self, _path: &Path, _bytes: &[u8]) -> Option<Result<Vec<SkeletonFile>>> {
        None
    }

    /// Gives a skeleton that was made of names alone what the game knows beyond [`JointScheme::joint_id`].
    ///
    /// # Errors
    /// None in practice.
    fn skeleton_of_names(&self, skeleton: Skeleton) -> Result<Skeleton> {
        Ok(skeleton)
    }

    /// Tells apart the skeletons that [`Game::default_skeleton`] can give; `None` where the game has none.
    fn default_skeleton_key(&self, _clips: &[Clip]) -> Option<u128> {
        None
    }

    /// The skeleton for clips that came without one.
    ///
    /// # Errors
    /// None in practice.
    fn default_skeleton(&self, _clips: &[Clip]) -> Result<Option<Skeleton>> {
        Ok(None)
    }

    /// Does to a pose what the game's own code does, before all other passes. What it did is in the clip's extras or
    /// warnings.
    fn pose_rules(&self, _clip: &mut Clip, _skeleton: &Skeleton, _rules: &PoseRules, _names: &super::Names) {}

    /// The clip with what a file states (in `extras` of its animation) that [`Game::pose_rules`] did; `None` where it
    /// states nothing.
    fn stated_pose_rules(
        &self,
        _clip: &Clip,
        _skeleton: &Skeleton,
        _extras: &serde_json::Map<String, serde_json::Value>,
    ) -> Option<Clip> {
        None
    }

    /// The whole that a file of this stem is a numbered part of: its name, and the number.
    fn section_of<'a>(&self, _stem: &'a str) -> Option<(&'a str, u32)> {
        None
    }

    /// Joins the clips of sections, each with its number, into clips that go through all of them.
    ///
    /// # Errors
    /// Unsupported, where the game has no sections.
    fn join_sections(&self, _sections: Vec<(u32, Vec<Clip>)>, _source: &str) -> Result<Vec<Clip>> {
        Err(Error::unsupported("clips of this game are not joined"))
    }

    /// A resource in a form of the game's own records (`format` is the name of a format that holds records); `None`
    /// where the game has no such form.
    fn export(&self, _resource: &Resource<'_>, _source: &str, _format: &str) -> Option<Result<Export>> {
        None
    }

    /// Takes the census of the game's family, for `check`. One of the family's games gives it, the first of the table.
    fn census(&self) -> Option<Box<dyn Census>> {
        None
    }

    /// Examples for `--help`: arguments, and what they do.
    fn examples(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// What the tracks of a game call joints: for skeletons from files that hold names alone.
pub trait JointScheme {
    /// What tracks call the joint of this name.
    fn joint_id(&self, name: &str) -> JointId;

    /// The parent-local rest pose that a joint of this name is known to have: by it the axes of a file are told.
    fn known_rest(&self, _name: &str) -> Option<Trs> {
        None
    }
}

/// One file to read.
#[derive(Debug, Clone)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// Its path relative to what was given, with `/`: the file's name for a file, the path below the folder for
    /// one found in a folder.
    pub relative: String,
    /// Its name without the ending by which its game knows it.
    pub stem: String,
    /// Whose it is; `None`: it is converted only to an error that says what it is.
    pub game: Option<&'static dyn Game>,
}

impl Input {
    /// The folder part of [`Input::relative`], empty or ending in `/`.
    pub fn folder(&self) -> &str {
        self.relative.rfind('/').map_or("", |i| &self.relative[..=i])
    }
}

/// What becomes one output file: a clip dictionary, or one animation of an archive.
#[derive(Debug)]
pub struct Resource<'a> {
    /// Whose it is.
    pub game: &'static dyn Game,
    /// What it is called.
    pub name: String,
    /// The archive entry, for errors; `None` where the game's reader names the resource itself.
    pub entry: Option<String>,
    /// Its path in an archive that has folders.
    pub path: Option<String>,
    /// Its identity, where resources of the game have one: equal ids with equal bytes are one clip met twice.
    pub id: Option<u64>,
    /// Hash of its bytes.
    pub hash: u128,
    /// Its bytes.
    pub bytes: Bytes<'a>,
}

/// The bytes of a [`Resource`].
#[derive(Debug)]
pub enum Bytes<'a> {
    /// They are here.
    Here {
        /// What its container says of it beside the body; empty for most.
        header: Cow<'a, [u8]>,
        /// The resource itself.
        body: Cow<'a, [u8]>,
        /// Where the body stood in its container, for errors.
        offset: u64,
    },
    /// They wait with an equal resource that was met before, or in a [`Cache`].
    Elsewhere,
}

impl<'a> Resource<'a> {
    /// A resource of `body` alone: a whole file.
    pub fn whole(game: &'static dyn Game, name: String, body: impl Into<Cow<'a, [u8]>>) -> Self {
        let body = body.into();
        Resource {
            game,
            name,
            entry: None,
            path: None,
            id: None,
            hash: xxh3_128(&body),
            bytes: Bytes::Here { header: Cow::Borrowed(&[]), body, offset: 0 },
        }
    }

    /// What tells it from others, where it has an id.
    pub fn identity(&self) -> Option<(u64, u128)> {
        Some((self.id?, self.hash))
    }

    /// Bytes that it holds in memory.
    pub fn size(&self) -> u64 {
        match &self.bytes {
            Bytes::Here { body, .. } => body.len() as u64,
            Bytes::Elsewhere => 0,
        }
    }

    /// Its body.
    ///
    /// # Errors
    /// Where the bytes are [`Bytes::Elsewhere`]: the place that held them could not be read.
    pub fn body(&self) -> Result<&[u8], Error> {
        match &self.bytes {
            Bytes::Here { body, .. } => Ok(body),
            Bytes::Elsewhere => Err(Error::unsupported("its first place could not be read")
                .in_entry(format!("\"{}\" ({:X})", self.name, self.id.unwrap_or_default()))),
        }
    }

    /// The same without its bytes.
    #[must_use]
    pub fn without_bytes(self) -> Resource<'static> {
        Resource { bytes: Bytes::Elsewhere, ..self.into_owned_if(false) }
    }

    /// The same with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> Resource<'static> {
        self.into_owned_if(true)
    }

    fn into_owned_if(self, bytes: bool) -> Resource<'static> {
        let Resource { game, name, entry, path, id, hash, bytes: own } = self;
        let bytes = if bytes { own.into_owned() } else { Bytes::Elsewhere };
        Resource { game, name, entry, path, id, hash, bytes }
    }
}

impl Bytes<'_> {
    /// The same with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> Bytes<'static> {
        match self {
            Bytes::Here { header, body, offset } => Bytes::Here {
                header: Cow::Owned(header.into_owned()),
                body: Cow::Owned(body.into_owned()),
                offset,
            },
            Bytes::Elsewhere => Bytes::Elsewhere,
        }
    }
}

/// What a resource is read into.
#[derive(Debug, Default)]
pub struct Clips {
    /// The clips.
    pub clips: Vec<Clip>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the resource as a whole.
    pub notes: Vec<String>,
}

/// Buffers of one thread, kept from unit to unit: each reader keeps a type of its own here.
#[derive(Debug, Default)]
pub struct Scratch(Vec<Box<dyn Any + Send>>);

impl Scratch {
    /// The buffers of type `T`; empty ones at first.
    pub fn of<T: Any + Send + Default>(&mut self) -> &mut T {
        let at = match self.0.iter().position(|b| b.is::<T>()) {
            Some(at) => at,
            None => {
                self.0.push(Box::<T>::default());
                self.0.len() - 1
            }
        };
        match self.0[at].downcast_mut() {
            Some(buffers) => buffers,
            None => unreachable!("the type was just looked for"),
        }
    }
}

/// How containers are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The codec of every packed block, by its name, instead of the one that each container shows.
    pub codec: Option<String>,
}

/// Which of the things that a game's own code does to a pose are done.
#[derive(Debug, Clone)]
pub struct PoseRules {
    /// Roll bones without a rotation of their own follow the bones beside them.
    pub thigh_roll: bool,
    /// Facial tracks move their bones, by what is guessed of them.
    pub facial: bool,
}

impl PoseRules {
    /// The key of a clip's extras that lists the roll bones which a rule turned, as [`PoseRules::thigh_roll`] says.
    pub const ROLLED: &str = "thighRolls";
}

impl Default for PoseRules {
    fn default() -> Self {
        PoseRules { thigh_roll: true, facial: false }
    }
}

/// Where the files of a source's clips go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One file, named by the input's stem. It was given for its own sake: nothing in it counts as a repeat.
    File,
    /// A folder named by the input's stem: clips met before with the same id and bytes are written once.
    Folder,
}

/// What is done with a unit before the conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitPlan {
    /// Nothing: it is read when its turn comes.
    Read,
    /// It is looked through for skeletons and users of clips; what clips it holds is known then.
    Survey,
    /// It is passed over: it is of a class that holds no clips.
    PassOver(&'static str),
}

/// One opened file of a game. Shared by threads: everything is read by position.
pub trait Source: Debug + Send + Sync {
    /// Where its files go.
    fn layout(&self) -> Layout;

    /// Number of parts that can be read for themselves.
    fn units(&self) -> usize;

    /// Stored bytes of a unit.
    fn unit_bytes(&self, unit: usize) -> u64;

    /// Calls `visit` with all that a unit holds, in stored order. A damaged part is an `Err` in its turn; the `Err` that
    /// is returned concerns the unit as a whole. Errors name file and entry. Only clips are visited unless
    /// `everything` is asked for.
    ///
    /// # Errors
    /// A unit that cannot be read.
    fn visit(
        &self,
        unit: usize,
        everything: bool,
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Found<'_>>),
    ) -> Result<()>;

    /// Path of a unit in an archive that has folders.
    fn unit_path(&self, _unit: usize) -> Option<&str> {
        None
    }

    /// The id by which a unit of a later archive replaces this one, as a patch does.
    fn unit_id(&self, _unit: usize) -> Option<u64> {
        None
    }

    /// What is done with a unit before the conversion.
    fn unit_plan(&self, _unit: usize) -> UnitPlan {
        UnitPlan::Read
    }

    /// Damage that left other units readable: each is one failure to report.
    fn faults(&self) -> &[Error] {
        &[]
    }

    /// Sentences about the file as a whole.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// How the file was read so far, where its format leaves it open: each way once, in a fixed order.
    fn assumptions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether [`Source::assumptions`] of several files that are equal share a row of the report.
    fn shares_assumptions(&self) -> bool {
        false
    }
}

/// What a visit to a unit finds.
#[derive(Debug)]
pub enum Found<'a> {
    /// Something that holds clips.
    Clips(Resource<'a>),
    /// A skeleton, or why it cannot be read.
    Skeleton(Result<Skeleton>),
    /// An object that names clips, or why it cannot be read.
    Use(Result<ClipUse>),
    /// A sentence about the unit: what was decided, what contradicts the format.
    Note(String),
}

/// An object of a game that names clips.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClipUse {
    /// Its class, by the game's name for it.
    pub class: &'static str,
    /// Its identity.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Ids of clips in pairs.
    pub pairs: Vec<[u64; 2]>,
    /// Ids of single clips.
    pub clips: Vec<u64>,
}

/// A resource in a form of its game's records.
#[derive(Debug, Default)]
pub struct Export {
    /// The file.
    pub bytes: Vec<u8>,
    /// The clips that it holds.
    pub clips: Vec<Clip>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the resource.
    pub notes: Vec<String>,
}

/// Counts of one unit: made on any thread, added in order.
#[derive(Debug)]
pub struct UnitCensus {
    /// The counts, of the type that the [`Census`] knows.
    pub counts: Box<dyn Any + Send>,
    /// What was refused.
    pub errors: Vec<Error>,
    /// Sentences about the unit.
    pub notes: Vec<String>,
}

/// Counts everything that the sources of a family hold.
pub trait Census: Debug + Send + Sync {
    /// Hears of a source before its units.
    fn open(&mut self, source: &dyn Source);

    /// Counts a unit.
    fn count(&self, source: &dyn Source, unit: usize, label: &str, scratch: &mut Scratch) -> UnitCensus;

    /// Adds the counts of a unit, in the order of the inputs.
    fn add(&mut self, counts: Box<dyn Any + Send>);

    /// What `check --json` prints, by key.
    fn json(&self) -> Vec<(&'static str, Box<dyn erased_serde::Serialize + '_>)>;

    /// What `check` prints, line by line; nothing where no file of the family was met.
    fn text(&self) -> Vec<String>;

    /// Number of clips and skeletons that were decoded.
    fn decoded(&self) -> u64;
}

/// The game of this code.
pub fn by_code(games: &[&'static dyn Game], code: &str) -> Option<&'static dyn Game> {
    games.iter().copied().find(|g| g.code().eq_ignore_ascii_case(code))
}
