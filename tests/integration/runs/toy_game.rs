//! A game of its own, outside the crate: a text of three lines, through the public traits alone. It becomes a GLB and a
//! manifest row, and is listed and verified, without a change in src/.

use std::path::Path;

use anim2gltf::compare::{sources, verify};
use anim2gltf::convert::settings::Settings;
use anim2gltf::engine::run::{Outcome, Progress, Silent, run};
use anim2gltf::error::{Error, Result};
use anim2gltf::formats::gltf::Glb;
use anim2gltf::model::{
    Clip, ClipId, Clock, Curve, Interpolation, JointId, Positions, Property, Target, Timeline, Track, Values,
    Window,
};
use anim2gltf::report::manifest::{ClipRow, ErrorRow};
use anim2gltf::source::find::read_file;
use anim2gltf::source::{
    Clips, Found, Game, Input, JointScheme, Layout, ReadOptions, Resource, Scratch, Source,
};

/// ```text
/// toy
/// NAME RATE
/// JOINT X,Y,Z X,Y,Z ...
/// ```
#[derive(Debug)]
struct Toy;

static GAMES: &[&dyn Game] = &[&Toy];
const JOINTS: [&str; 2] = ["Lid", "Spring"];

impl JointScheme for Toy {
    fn joint_id(&self, name: &str) -> JointId {
        JointId::BoneTag(JOINTS.iter().position(|j| *j == name).unwrap_or(999) as u16)
    }
}

impl Game for Toy {
    fn code(&self) -> &'static str {
        "TOY"
    }

    fn title(&self) -> &'static str {
        "A toy"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".toy"]
    }

    fn inputs(&self) -> &'static str {
        "a text that begins with `toy`"
    }

    fn probe(&self, start: &[u8], _length: u64, _name: &str) -> bool {
        start.starts_with(b"toy\n")
    }

    fn open(&self, input: &Input, _options: &ReadOptions) -> Result<Box<dyn Source>> {
        Ok(Box::new(ToyFile(input.clone())))
    }

    fn read(&self, resource: &Resource<'_>, source: &str, _scratch: &mut Scratch) -> Result<Clips> {
        let bad = |offset: usize, expected: &str| Error::malformed(offset as u64, "something else", expected);
        let text = std::str::from_utf8(resource.body()?).map_err(|_| bad(0, "a text"))?;
        let mut lines = text.lines().skip(1);
        let head = lines.next().and_then(|l| l.split_once(' '));
        let (name, rate) = head.ok_or_else(|| bad(4, "a name and a rate"))?;
        let hz: f64 = rate.parse().map_err(|_| bad(4, "a rate"))?;
        let mut words = lines.next().unwrap_or_default().split(' ');
        let joint = self.joint_id(words.next().unwrap_or_default());
        let key = |word: &str| {
            let mut v = word.split(',').map(|n| n.parse::<f32>().ok());
            Some(glam::Vec3::new(v.next()??, v.next()??, v.next()??))
        };
        let keys: Vec<glam::Vec3> =
            words.map(|w| key(w).ok_or_else(|| bad(4, "x,y,z"))).collect::<Result<_>>()?;
        let count = keys.len() as u32;
        let clip = Clip {
            id: ClipId { value: 7, min_digits: 2 },
            name: name.to_owned(),
            short_name: name.to_owned(),
            game: self.code(),
            source: source.to_owned(),
            length_s: f64::from(count.saturating_sub(1)) / hz,
            additive: false,
            timelines: vec![Timeline {
                clock: Clock::Rate { hz },
                positions: Positions::Run { first: 0, count },
                window: Window::WHOLE,
            }],
            tracks: vec![Track {
                target: Target { joint, property: Property::Translation },
                timeline: 0,
                curve: Curve { interpolation: Interpolation::Linear, values: Values::Vec3(keys) },
            }],
            events: Vec::new(),
            extras: Default::default(),
            warnings: Vec::new(),
        };
        Ok(Clips { clips: vec![clip], ..Clips::default() })
    }

    fn joint_name(&self, id: JointId) -> Option<&str> {
        match id {
            JointId::BoneTag(tag) => JOINTS.get(usize::from(tag)).copied(),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct ToyFile(Input);

impl Source for ToyFile {
    fn layout(&self) -> Layout {
        Layout::File
    }

    fn units(&self) -> usize {
        1
    }

    fn unit_bytes(&self, _unit: usize) -> u64 {
        std::fs::metadata(&self.0.path).map_or(0, |m| m.len())
    }

    fn visit(
        &self,
        _unit: usize,
        _everything: bool,
        _scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Found<'_>>),
    ) -> Result<()> {
        let bytes = read_file(&self.0.path)?;
        visit(Ok(Found::Clips(Resource::whole(&Toy, self.0.stem.clone(), bytes))));
        Ok(())
    }
}

#[derive(Default)]
struct Heard {
    listed: Vec<String>,
    failed: Vec<String>,
}

impl Progress for Heard {
    fn clip(&mut self, row: &ClipRow, _fresh: bool) {
        self.listed.push(format!("{} {} {}", row.game, row.name, row.duration));
    }

    fn failed(&mut self, error: &ErrorRow) {
        self.failed.push(error.to_string());
    }
}

fn settings(input: &Path, out: &Path) -> Settings {
    Settings { games: GAMES, ..Settings::new(vec![input.to_owned()], out.to_owned(), &Glb) }
}

#[test]
fn a_game_outside_the_crate_goes_all_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir(&input).unwrap();
    std::fs::write(input.join("jump.toy"), "toy\nJump 10\nLid 0,0,0 0,0,1 0,0.5,1\n").unwrap();
    std::fs::write(input.join("broken.toy"), "toy\nJump\n").unwrap();

    let outcome: Outcome = run(&settings(&input, &out), &mut Silent).unwrap();
    assert_eq!((outcome.clips, outcome.files, outcome.errors, outcome.exit_code()), (1, 1, 1, 1));
    let glb = anim2gltf_testkit::glb::Glb::open(&std::fs::read(out.join("jump.glb")).unwrap());
    assert!(glb.nodes.contains_key("Lid"), "{:?}", glb.nodes);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    let row = &manifest["clips"][0];
    assert_eq!(
        (&row["game"], &row["name"], &row["source"]),
        (&"TOY".into(), &"Jump".into(), &"jump.toy".into())
    );
    assert!(manifest["errors"][0]["file"].as_str().unwrap().ends_with("broken.toy"), "{manifest}");

    let mut heard = Heard::default();
    run(&Settings { list: true, ..settings(&input, &out) }, &mut heard).unwrap();
    assert_eq!(heard.listed, ["TOY Jump 0.2"]);
    assert_eq!(heard.failed.len(), 1);

    let options = sources::Options { games: GAMES, ..sources::Options::default() };
    let summary = verify::verify(&input.join("jump.toy"), &out, &options).unwrap();
    assert_eq!((summary.clips.len(), summary.not_compared.len()), (1, 0), "{:?}", summary.not_compared);
    assert!(summary.worst(|c| c.anywhere_mm.as_ref()).is_none_or(|(_, w)| w.value < 1e-3));
}
