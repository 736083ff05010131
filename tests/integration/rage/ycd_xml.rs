//! The XML form of clip dictionaries: the same clips as of the binary, there and back.

use std::path::PathBuf;

use anim2gltf::games::rage::container::rsc7;
use anim2gltf::games::rage::xml::read as ycd_xml;
use anim2gltf::games::rage::ycd;
use anim2gltf::games::rage::ycd::clips::assemble;
use anim2gltf::games::rage::ycd::dictionary;
use anim2gltf::model::{Clip, Values};

fn dictionaries() -> Vec<PathBuf> {
    let Some(shared) = anim2gltf_testkit::shared() else { return Vec::new() };
    let mut files = Vec::new();
    for folder in ["fixtures/ycd", "corpus/ycd"] {
        for entry in std::fs::read_dir(shared.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "ycd") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// What a binary says of its blocks and an XML cannot.
fn without_block_warnings(mut clip: Clip) -> Clip {
    clip.warnings.retain(|w| w.code() != "rage-references-wrapped");
    clip
}

/// Where a record stood in the text, for errors, is no part of what it says.
fn without_places<'a>(animations: &[dictionary::Animation<'a>]) -> Vec<dictionary::Animation<'a>> {
    animations
        .iter()
        .map(|a| {
            let mut a = dictionary::Animation { at: 0, ..a.clone() };
            a.sequences.iter_mut().for_each(|s| s.at = 0);
            a
        })
        .collect()
}

#[test]
fn every_dictionary_there_and_back_gives_the_same_clips() {
    let mut texts = Vec::new();
    for path in dictionaries() {
        let bytes = std::fs::read(&path).unwrap();
        let mut scratch = Vec::new();
        let resource = rsc7::open(&bytes, &mut scratch).unwrap();
        let records = dictionary::read(&resource).unwrap();
        let (text, notes) = anim2gltf::games::rage::xml::write::write(&records).unwrap();
        assert!(notes.is_empty(), "{}: {notes:?}", path.display());
        let right = ycd::read(&resource, "x").unwrap();
        assert!(ycd_xml::probe(text.as_bytes()));
        let back = ycd_xml::read(text.as_bytes()).unwrap();
        assert!(back.errors.is_empty(), "{}: {:?}", path.display(), back.errors);

        // The text of what was read from text is the same but for the codings that it lost.
        let (again, _) = anim2gltf::games::rage::xml::write::write(&back).unwrap();
        let once_more = ycd_xml::read(again.as_bytes()).unwrap();
        assert_eq!(back.clips, once_more.clips);
        assert_eq!(without_places(&back.animations), without_places(&once_more.animations));

        let back = assemble(back, "x").unwrap();
        assert_eq!(right.clips.len(), back.clips.len());
        for (right, back) in right.clips.into_iter().zip(back.clips) {
            let (right, back) = (without_block_warnings(right), without_block_warnings(back));
            assert!(right == back, "{}: {}", path.display(), right.name);
        }
        texts.push(text);
    }
    // Damage, on the smallest.
    if let Some(text) = texts.iter().min_by_key(|t| t.len()) {
        let bytes = text.as_bytes();
        for n in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
            assert!(ycd_xml::read(&bytes[..n]).is_err());
        }
        let mut damaged = bytes.to_vec();
        for i in (0..bytes.len()).step_by(bytes.len() / 300 + 1) {
            for bit in 0..8 {
                damaged[i] ^= 1 << bit;
                if let Ok(dictionary) = ycd_xml::read(&damaged) {
                    let _ = assemble(dictionary, "x");
                }
                damaged[i] ^= 1 << bit;
            }
        }
    }
}

/// For a check by hand against another reader and writer of the form: `YCD_XML_OUT` is a folder to write all
/// texts to, `YCD_XML_IN` one with texts of the same names that the other tool wrote, held against the binaries.
#[test]
fn texts_for_and_of_other_tools() {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let (out, given) = (folder("YCD_XML_OUT"), folder("YCD_XML_IN"));
    if out.is_none() && given.is_none() {
        return;
    }
    for path in dictionaries() {
        let bytes = std::fs::read(&path).unwrap();
        let mut scratch = Vec::new();
        let resource = rsc7::open(&bytes, &mut scratch).unwrap();
        let name = format!("{}.xml", path.file_name().unwrap().to_string_lossy());
        if let Some(out) = &out {
            let (text, _) =
                anim2gltf::games::rage::xml::write::write(&dictionary::read(&resource).unwrap()).unwrap();
            std::fs::write(out.join(&name), text).unwrap();
        }
        if let Some(given) = &given {
            let text = std::fs::read(given.join(&name)).unwrap();
            let back = assemble(ycd_xml::read(&text).unwrap(), "x").unwrap();
            assert!(back.errors.is_empty(), "{name}: {:?}", back.errors);
            let right = ycd::read(&resource, "x").unwrap();
            assert_eq!(right.clips.len(), back.clips.len());
            for (right, back) in right.clips.into_iter().zip(back.clips) {
                assert!(without_block_warnings(right) == without_block_warnings(back), "{name}");
            }
        }
    }
}

/// A text as tools other than CodeWalker write it, and as later versions of it do.
#[test]
fn forms_of_other_tools() {
    let text = r#"<?xml version='1.0' encoding='UTF-8'?>
<ClipDictionary><Clips><Item><Hash>wave</Hash><Name>pack:/wave.clip</Name><Type value="Animation" />
<Unknown30 value="0" /><AnimationHash>wave_anim</AnimationHash><StartTime value="0.0" /><EndTime value="0.1" /><Rate value="1" />
<Tags><Item><NameHash>foot</NameHash><UnkHash>hash_12</UnkHash><Attributes><Item><NameHash>heel</NameHash><Type value="Bool" /><Value value="true" /></Item></Attributes><StartPhase value="0.5" /><EndPhase value="1" /></Item></Tags>
</Item></Clips>
<Animations><Item><Hash>wave_anim</Hash><FrameCount value="4" /><SequenceFrameLimit value="34" /><Duration value="0.1" /><Unknown1C>hash_00000007</Unknown1C>
<BoneIds><Item><BoneId value="0" /><Track value="1" /><Type value="1" /></Item>
<Item><BoneId value="24818" /><Track value="1" /><Unk0 value="1" /></Item>
<Item><BoneId value="0" /><Track value="0" /><Unk0 value="0" /></Item></BoneIds>
<Sequences><Item><Hash /><FrameCount value="4" /><SequenceData>
<Item><Channels><Item><Type value="StaticQuaternion" /><Value x="0.6" y="0" z="0" w="-0.8" /></Item></Channels></Item>
<Item><Channels><Item><Type value="StaticFloat" /><Value value="0" /></Item><Item><Type value="StaticFloat" /><Value value="0.6" /></Item>
<Item><Type value="IndirectQuantizeFloat" /><Quantum value="0.5" /><Offset value="0" /><Values>0 0.5</Values><Frames>
 0 1
 1 0 </Frames></Item><Item><Type value="ReconstructQuaternion" /><QuatIndex value="0" /></Item></Channels></Item>
<Item><Channels><Item><Type value="LinearFloat" /><Quantum value="1" /><Offset value="0" /><Values>1 2 3 4</Values></Item>
<Item><Type value="QuantizeFloat" /><Quantum value="1" /><Offset value="5" /><Values /></Item><Item><Type value="RawFloat" /><Values>0 0 0 9</Values></Item></Channels></Item>
</SequenceData></Item></Sequences></Item></Animations></ClipDictionary>"#;
    let dictionary = ycd_xml::read(text.as_bytes()).unwrap();
    assert!(dictionary.errors.is_empty(), "{:?}", dictionary.errors);
    assert_eq!(dictionary.animations[0].signature, 7);
    let clips = assemble(dictionary, "x").unwrap().clips;
    let clip = &clips[0];
    assert_eq!((clip.short_name.as_str(), clip.events.len()), ("wave", 1));
    assert_eq!(clip.events[0].attributes["heel"], true);
    let tracks: Vec<&Values> = clip.tracks.iter().map(|t| &t.curve.values).collect();
    let Values::Quat(q) = tracks[0] else { panic!() };
    assert!(q.len() == 1 && (q[0].x + 0.6).abs() < 1e-6 && (q[0].w - 0.8).abs() < 1e-6);
    let Values::Quat(q) = tracks[1] else { panic!() };
    // w is the root, left out; the component that was stored first is y.
    assert!(
        (q[0].x - 0.8).abs() < 1e-6 && (q[0].z - 0.6).abs() < 1e-6 && (q[1].w - 0.5).abs() < 1e-6,
        "{q:?}"
    );
    let Values::Vec3(v) = tracks[2] else { panic!() };
    assert_eq!(
        v.iter().map(|v| v.to_array()).collect::<Vec<_>>(),
        [[1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [3.0, 5.0, 0.0], [4.0, 5.0, 9.0]]
    );

    for (from, to) in [
        ("LinearFloat", "OtherFloat"),
        ("Frames>\n 0 1", "Frames>\n 0 2"),
        ("<QuatIndex value=\"0\"", "<QuatIndex value=\"4\""),
        ("<FrameCount value=\"4\"", "<FrameCount value=\"0\""),
        ("value=\"AnimationX\"", ""),
        ("<Values>1 2", "<Values>1 x"),
    ] {
        let bad = text.replace(from, to);
        if bad != text {
            let dictionary = ycd_xml::read(bad.as_bytes()).unwrap();
            assert_eq!(dictionary.errors.len(), 1, "{from}");
        }
    }
    assert!(ycd_xml::read(b"<Drawable/>").is_err());
}
