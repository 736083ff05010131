//! Sequence blocks and their channels (docs/formats/rage.md, section 5).
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x00 | 4 | u32 | signature | | rage.md 5.1 |
//! | 0x04 | 4 | u32 | length of the data behind this header | bytes | rage.md 5.1 |
//! | 0x08 | 4 | u32 | 0 | | rage.md 5.1 |
//! | 0x0C | 4 | u32 | frame-data offset, from the data's start | bytes | rage.md 5.1 |
//! | 0x10 | 4 | u32 | root-motion-reference offset, from the header's start | bytes | rage.md 5.1 |
//! | 0x14 | 2 | u16 | 0 | | rage.md 5.1 |
//! | 0x16 | 2 | u16 | frames | frames | rage.md 5.1 |
//! | 0x18 | 2 | u16 | size of a frame record | bytes | rage.md 5.1 |
//! | 0x1A | 2 | u16 | sum of 5 + integers over indirect channels | u32 words | rage.md 5.1 |
//! | 0x1C | 2 | u16 | sum of the widths of quantised channels | bits | rage.md 5.1 |
//! | 0x1E | 1 | u8 | size of a chunk of linear channels | frames | rage.md 5.1 |
//! | 0x1F | 1 | u8 | root-motion references: high nibble position, low nibble rotation | | rage.md 5.1 |
//!
//! Data: channel parameters, frame records, nine u16 channel counts, the channel words of each type (padded to
//! four words), six-byte root-motion references. Parameters, words and frame bits share one order: type 0 to 8,
//! then the order of the list. A word is track index << 2 | slot.

use crate::error::{Error, Result};
use crate::games::rage::ycd::bits::{BitReader, bits_at};
use crate::io::bytes::Cursor;

/// Bytes of a sequence's header.
pub const HEADER_SIZE: usize = 32;

/// How a channel stores its values.
#[derive(Debug, Clone, PartialEq)]
pub enum Coding<'a> {
    /// Type 0: x, y, z; w is the positive root.
    StaticQuaternion([f32; 3]),
    /// Type 1.
    StaticVector3([f32; 3]),
    /// Type 2.
    StaticFloat(f32),
    /// Type 3: 32 frame bits are an f32.
    RawFloat {
        /// First bit in the frame record.
        bit: u32,
    },
    /// Type 4: integer x quantum + offset.
    Quantised {
        /// First bit in the frame record.
        bit: u32,
        /// Frame bits.
        width: u32,
        /// Step.
        quantum: f32,
        /// Value of 0.
        offset: f32,
    },
    /// Type 5: frame bits are an index into a table of quantised values.
    Indirect {
        /// First bit in the frame record.
        bit: u32,
        /// Frame bits.
        index_bits: u32,
        /// Bits of a table entry.
        value_bits: u32,
        /// Step.
        quantum: f32,
        /// Value of 0.
        offset: f32,
        /// The table.
        table: &'a [u8],
    },
    /// Type 6: start values and second-order deltas by chunks; no frame bits.
    Linear {
        /// Bits of a chunk's offset into the deltas.
        offset_bits: u32,
        /// Bits of a chunk's start value.
        start_bits: u32,
        /// Low bits of a delta.
        delta_bits: u32,
        /// Step.
        quantum: f32,
        /// Value of 0.
        offset: f32,
        /// Offsets, starts, deltas.
        stream: &'a [u8],
        /// Offset of the stream, for errors.
        at: u64,
    },
    /// Type 7: the slot is the component that the other three give.
    CachedQuaternion1,
    /// Type 8: four components are stored; normalise.
    CachedQuaternion2,
    /// Decoded values, one for each frame (the XML form of types 3 to 6).
    Values(Vec<f32>),
}

/// One channel of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel<'a> {
    /// Index of the track that it belongs to.
    pub track: u16,
    /// Component (x, y, z, w); for cached quaternions the component that is reconstructed.
    pub slot: u8,
    /// How its values are stored.
    pub coding: Coding<'a>,
}

/// A block of frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence<'a> {
    /// Pointer of the block, for errors.
    pub at: u64,
    /// Signature, 0 in files by other tools.
    pub signature: u32,
    /// Frames of this block.
    pub frames: u16,
    /// Frames a chunk of linear channels.
    pub chunk: u8,
    /// All channels, by type, then in the order of the lists.
    pub channels: Vec<Channel<'a>>,
    /// Frame records.
    pub records: &'a [u8],
    /// Bytes a record.
    pub record_size: usize,
    /// Whether there are more root-motion references than the two nibbles can count (docs/formats/rage.md, section
    /// 5.2).
    pub wrapped_counts: bool,
}

impl<'a> Sequence<'a> {
    /// Reads the block at the start of `bytes`, which may be longer than the block. `at` is its pointer, for errors.
    /// `mover(track index)` says whether a track is of number 5 or 6.
    ///
    /// # Errors
    /// Malformed where boundaries contradict each other, or a width is impossible.
    pub fn read(bytes: &'a [u8], at: u64, tracks: usize, mover: impl Fn(u16) -> bool) -> Result<Self> {
        let mut header = Cursor::new(bytes, at);
        let signature = header.u32("sequence signature")?;
        let data_length = header.u32("sequence data length")? as usize;
        header.skip(4, "sequence zero word")?;
        let frame_offset = header.u32("frame-data offset")? as usize;
        let refs_offset = header.u32("root-motion-reference offset")? as usize;
        header.skip(2, "sequence zero word")?;
        let frames = header.u16("sequence frame count")?;
        let record_size = usize::from(header.u16("frame record size")?);
        header.skip(4, "sequence sums")?;
        let chunk = header.u8("linear chunk size")?;
        let ref_counts = header.u8("root-motion-reference counts")?;
        let data = header.take(data_length, "sequence data")?;
        let base = at + HEADER_SIZE as u64;
        let bad = |offset: usize, found: String, expected: String| {
            Error::malformed(base + offset as u64, found, expected)
        };
        if frames == 0 {
            return Err(Error::malformed(at + 0x16, "a block of 0 frames", "at least 1"));
        }

        let records_end = frame_offset + usize::from(frames) * record_size;
        let mut words = Cursor::new(data, base);
        words.seek(records_end, "the end of the frame records")?;
        let records = &data[frame_offset..records_end];
        let mut counts = [0usize; 9];
        for count in &mut counts {
            *count = usize::from(words.u16("channel count")?);
        }
        let total: usize = counts.iter().sum();
        if total > words.left() / 2 {
            return Err(Error::limit(
                words.offset(),
                format_args!("{total} channels with {} bytes left", words.left()),
                "two bytes for each",
            ));
        }

        let mut channels = Vec::with_capacity(total);
        let mut params = Cursor::new(&data[..frame_offset], base);
        let mut bit = 0u32;
        let mut mover_channels = 0usize;
        for (kind, &count) in counts.iter().enumerate() {
            let padded = words.take(count.next_multiple_of(4) * 2, "channel words")?;
            for word in padded.chunks_exact(2).take(count) {
                let word = u16::from_le_bytes([word[0], word[1]]);
                let (track, slot) = (word >> 2, (word & 3) as u8);
                if usize::from(track) >= tracks {
                    return Err(bad(
                        words.position(),
                        format!("a channel of track {track}"),
                        format!("one of the {tracks} tracks"),
                    ));
                }
                mover_channels += usize::from(mover(track));
                let coding = read_params(kind, &mut params, &mut bit)?;
                channels.push(Channel { track, slot, coding });
            }
        }
        if params.left() != 0 {
            return Err(bad(
                params.position(),
                format!("channel parameters that end {} bytes before the frame data", params.left()),
                format!("an end at 0x{frame_offset:X}"),
            ));
        }
        if bit as usize > record_size * 8 {
            return Err(bad(
                frame_offset,
                format!("frame records of {record_size} bytes"),
                format!("{bit} bits for the channels"),
            ));
        }
        let words_end = words.position();
        let counted = usize::from(ref_counts >> 4) + usize::from(ref_counts & 15);
        let strict = words_end + HEADER_SIZE == refs_offset && words_end + counted * 6 == data_length;
        let wrapped_counts = !strict && words_end + mover_channels * 6 == data_length;
        if !strict && !wrapped_counts {
            return Err(bad(
                words_end,
                format!(
                    "channel lists that end at 0x{words_end:X}, references at 0x{:X}, {counted} of them, an end at 0x{data_length:X}",
                    refs_offset.wrapping_sub(HEADER_SIZE)
                ),
                "lists that end where the references begin, and references that end with the data".to_owned(),
            ));
        }
        Ok(Sequence { at, signature, frames, chunk, channels, records, record_size, wrapped_counts })
    }

    /// Decodes one component channel into `out`, a value a frame of this block (`out` may be shorter).
    ///
    /// # Errors
    /// Malformed: an index outside its table, a bit stream that ends early. A channel that is not a component
    /// (types 0, 1, 7, 8) is a mistake of the caller and malformed too.
    pub fn column(&self, channel: &Channel<'_>, out: &mut [f32]) -> Result<()> {
        let records = self.records;
        let stride = self.record_size * 8;
        match &channel.coding {
            Coding::StaticFloat(value) => out.fill(*value),
            Coding::RawFloat { bit } => {
                for (i, value) in out.iter_mut().enumerate() {
                    *value = f32::from_bits(bits_at(records, i * stride + *bit as usize, 32));
                }
            }
            Coding::Quantised { bit, width, quantum, offset } => {
                for (i, value) in out.iter_mut().enumerate() {
                    let n = bits_at(records, i * stride + *bit as usize, *width);
                    *value = n as f32 * quantum + offset;
                }
            }
            Coding::Indirect { bit, index_bits, value_bits, quantum, offset, table } => {
                let entries = (table.len() * 8).checked_div(*value_bits as usize).unwrap_or(usize::MAX);
                for (i, value) in out.iter_mut().enumerate() {
                    let index = bits_at(records, i * stride + *bit as usize, *index_bits) as usize;
                    if index >= entries {
                        return Err(Error::malformed(
                            self.at,
                            format_args!("table index {index} in frame {i} of track {}", channel.track),
                            format_args!("one of the {entries} values of the table"),
                        ));
                    }
                    let n = bits_at(table, index * *value_bits as usize, *value_bits);
                    *value = n as f32 * quantum + offset;
                }
            }
            Coding::Linear { .. } => self.linear(channel, out)?,
            Coding::Values(values) => {
                let n = values.len().min(out.len());
                out[..n].copy_from_slice(&values[..n]);
                let last = values.last().copied().unwrap_or(0.0);
                out[n..].fill(last);
            }
            Coding::StaticQuaternion(_)
            | Coding::StaticVector3(_)
            | Coding::CachedQuaternion1
            | Coding::CachedQuaternion2 => {
                return Err(Error::malformed(
                    self.at,
                    format_args!("a channel of track {} that is no component", channel.track),
                    "a component",
                ));
            }
        }
        Ok(())
    }

    /// Type 6. Chunk i begins at its offset into the deltas, with its start value. A running increment sums the
    /// deltas and is added to the value at each frame. A delta is `low bits | zeros << low width`, then a sign unless
    /// 0.
    fn linear(&self, channel: &Channel<'_>, out: &mut [f32]) -> Result<()> {
        let Coding::Linear { offset_bits, start_bits, delta_bits, quantum, offset, stream, at } =
            &channel.coding
        else {
            return Ok(());
        };
        let frames = usize::from(self.frames);
        let chunk = usize::from(self.chunk).max(1);
        let chunks = frames.div_ceil(chunk);
        let mut offsets = BitReader::new(stream, 0, *at);
        let mut starts = BitReader::new(stream, chunks * *offset_bits as usize, *at);
        let deltas = chunks * (offset_bits + start_bits) as usize;
        for out in out.chunks_mut(chunk) {
            let mut reader = BitReader::new(stream, deltas + offsets.read(*offset_bits)? as usize, *at);
            let mut value = starts.read(*start_bits)? as i32;
            let mut increment = 0i32;
            let last = out.len() - 1;
            for (j, slot) in out.iter_mut().enumerate() {
                *slot = value as f32 * quantum + offset;
                if j == last {
                    break;
                }
                let low = reader.read(*delta_bits)?;
                let high = reader.zeros()?;
                let delta = (u64::from(low) | u64::from(high) << delta_bits) as i32;
                if delta != 0 {
                    let negative = reader.read(1)? == 1;
                    increment = increment.wrapping_add(if negative { delta.wrapping_neg() } else { delta });
                }
                value = value.wrapping_add(increment);
            }
        }
        Ok(())
    }
}

/// Parameters of one channel of type `kind`; `bit` counts the frame bits that are taken.
fn read_params<'a>(kind: usize, params: &mut Cursor<'a>, bit: &mut u32) -> Result<Coding<'a>> {
    let mut take_bits = |width: u32| {
        let first = *bit;
        *bit += width;
        first
    };
    Ok(match kind {
        0 => Coding::StaticQuaternion(vector(params)?),
        1 => Coding::StaticVector3(vector(params)?),
        2 => Coding::StaticFloat(params.f32("static value")?),
        3 => Coding::RawFloat { bit: take_bits(32) },
        4 => {
            let width = width(params, "quantised width")?;
            let (quantum, offset) = (params.f32("quantum")?, params.f32("offset")?);
            Coding::Quantised { bit: take_bits(width), width, quantum, offset }
        }
        5 => {
            let index_bits = width(params, "index width")?;
            let value_bits = width(params, "table value width")?;
            let integers = params.u32("table size")? as usize;
            let (quantum, offset) = (params.f32("quantum")?, params.f32("offset")?);
            let table = params.take_items(integers, 4, "table of an indirect channel")?;
            Coding::Indirect { bit: take_bits(index_bits), index_bits, value_bits, quantum, offset, table }
        }
        6 => {
            let start = params.offset();
            let integers = params.u32("size of a linear channel")? as usize;
            let widths = params.u32("widths of a linear channel")?;
            let (quantum, offset) = (params.f32("quantum")?, params.f32("offset")?);
            let [a, b, c, _] = widths.to_le_bytes();
            if a.max(b) > 32 || c > 31 || integers < 4 {
                return Err(Error::malformed(
                    start,
                    format_args!("a linear channel of {integers} words with widths {a}, {b}, {c}"),
                    "at least 4 words and widths up to 32, 32, 31",
                ));
            }
            let at = params.offset();
            let stream = params.take_items(integers - 4, 4, "stream of a linear channel")?;
            Coding::Linear {
                offset_bits: u32::from(a),
                start_bits: u32::from(b),
                delta_bits: u32::from(c),
                quantum,
                offset,
                stream,
                at,
            }
        }
        7 => Coding::CachedQuaternion1,
        _ => Coding::CachedQuaternion2,
    })
}

fn vector(params: &mut Cursor<'_>) -> Result<[f32; 3]> {
    Ok([params.f32("static x")?, params.f32("static y")?, params.f32("static z")?])
}

fn width(params: &mut Cursor<'_>, what: &str) -> Result<u32> {
    let at = params.offset();
    match params.u32(what)? {
        n if n <= 32 => Ok(n),
        n => Err(Error::malformed(at, format_args!("{what} {n}"), "at most 32 bits")),
    }
}
