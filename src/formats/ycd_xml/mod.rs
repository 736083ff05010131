//! CodeWalker's XML of a clip dictionary. It holds the dictionary's records, which clips no longer have: the game that
//! reads the dictionary writes it. Here is only what a run asks of a format.

use crate::error::{Error, Result};
use crate::formats::scene::Scene;
use crate::formats::workspace::Workspace;
use crate::formats::{BetweenKeys, Files, Format, WriteOptions};

/// CodeWalker's XML of a clip dictionary.
#[derive(Debug, Clone, Copy)]
pub struct YcdXml;

impl Format for YcdXml {
    fn name(&self) -> &'static str {
        "ycd.xml"
    }

    fn about(&self) -> &'static str {
        "CodeWalker's XML, of clip dictionaries only, for Sollumz"
    }

    fn between_keys(&self) -> BetweenKeys {
        BetweenKeys::NormalizedLinear
    }

    fn holds_records(&self) -> bool {
        true
    }

    fn write(&self, _: &Scene<'_>, _: &str, _: &WriteOptions, _: &mut Workspace) -> Result<Files> {
        Err(Error::unsupported("only clip dictionaries have the form .ycd.xml"))
    }
}
