//! The run of `check`.

use std::process::ExitCode;

use crate::cli::args::Check;
use crate::cli::output;
use crate::error::{Error, Result};
use crate::games::GAMES;
use crate::report::census::{Census, check};
use crate::source::ReadOptions;

/// Takes the census and prints it: as text, or as JSON. Refusals go to standard error too.
pub fn run(args: &Check) -> Result<ExitCode> {
    let options = ReadOptions { codec: args.codec.clone() };
    let census = check(&args.inputs, GAMES, &options, args.threads)?;
    for row in &census.refused {
        let place: Vec<&str> = [row.file.as_deref(), row.entry.as_deref()].into_iter().flatten().collect();
        match row.offset {
            Some(offset) => output::message(format_args!(
                "error: {}: at offset 0x{offset:X}: {}",
                place.join(": "),
                row.message
            )),
            None => output::message(format_args!("error: {}: {}", place.join(": "), row.message)),
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&census).map_err(|e| Error::unsupported(e.to_string()))?;
        output::result(text);
    } else {
        output::results(|out| out.write_all(text(&census).as_bytes()));
    }
    let decoded = census.decoded();
    if census.refused.is_empty() && decoded == 0 {
        output::message(super::NO_CLIP);
    }
    Ok(ExitCode::from(match (census.refused.len(), decoded) {
        (0, 1..) => 0,
        (_, 0) => 2,
        _ => 1,
    }))
}

fn text(census: &Census) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    census.lines().for_each(&mut line);
    for row in &census.decided {
        line(format!("{}: read as", row.inputs()));
        for way in &row.decided {
            line(format!("  {way}"));
        }
    }
    for row in &census.notes {
        let times = if row.entries == 1 { String::new() } else { format!(" ({} times)", row.entries) };
        line(format!("note: {}: {}{times}", row.source, row.note));
    }
    line(format!("refused {}", census.refused.len()));
    out
}
