//! Writes Anvil archives, data containers and object records from the format notes, without a line of the library's.

/// CRC-32 (zlib), bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ b as u32, |c, _| (c >> 1) ^ (0xEDB8_8320 & (c & 1).wrapping_neg()))
    })
}

/// Adler-32 with the first sum started at `start`.
pub fn adler32(bytes: &[u8], start: u32) -> u32 {
    let (a, b) = bytes.iter().fold((start, 0), |(a, b), &x| {
        let a = (a + x as u32) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pack {
    Stored,
    Lzo1x,
    Lzo2a,
    Zstd,
    Lz4,
    /// An Oodle block of raw bytes: the only form that can be written without an encoder.
    OodleRaw,
}

impl Pack {
    pub fn pack(self, data: &[u8]) -> Vec<u8> {
        match self {
            Pack::Stored => data.to_vec(),
            Pack::Lzo1x => lzokay::compress::compress(data).unwrap(),
            Pack::Lzo2a => lzo2a(data),
            Pack::Zstd => zstd::bulk::compress(data, 3).unwrap(),
            Pack::Lz4 => lz4_flex::block::compress(data),
            Pack::OodleRaw => [&[0xCC, 0x06][..], data].concat(),
        }
    }
}

/// LZO2A, greedy with a table of three-byte strings.
pub fn lzo2a(data: &[u8]) -> Vec<u8> {
    struct Writer {
        out: Vec<u8>,
        flags_at: usize,
        free: u32,
    }
    impl Writer {
        fn flag(&mut self, bit: usize) {
            if self.free == 0 {
                self.flags_at = self.out.len();
                self.out.push(0);
                self.free = 8;
            }
            self.out[self.flags_at] |= (bit as u8) << (8 - self.free);
            self.free -= 1;
        }
    }
    let mut w = Writer { out: Vec::new(), flags_at: 0, free: 0 };
    let mut last = std::collections::HashMap::new();
    let mut at = 0;
    while at < data.len() {
        let key = data.get(at..at + 3).map(<[u8]>::to_vec);
        let from = key.as_ref().and_then(|k| last.get(k)).copied();
        let length = from.map_or(0, |from: usize| {
            data[at..].iter().zip(&data[from..]).take_while(|(a, b)| a == b).count()
        });
        let step = match from {
            Some(from) if at - from <= 8191 && length >= 3 => {
                let distance = at - from;
                w.flag(1);
                if length <= 5 && distance <= 256 {
                    w.flag(0);
                    w.flag((length - 2) & 1);
                    w.flag((length - 2) >> 1);
                    w.out.push((distance - 1) as u8);
                } else {
                    w.flag(1);
                    let short = length <= 9;
                    w.out.push(((if short { length - 2 } else { 0 }) << 5 | (distance & 31)) as u8);
                    w.out.push((distance >> 5) as u8);
                    if !short {
                        let mut rest = length - 9;
                        while rest > 255 {
                            w.out.push(0);
                            rest -= 255;
                        }
                        w.out.push(rest as u8);
                    }
                }
                length
            }
            _ => {
                w.flag(0);
                w.out.push(data[at]);
                1
            }
        };
        if let Some(key) = key {
            last.insert(key, at);
        }
        at += step;
    }
    w.flag(1);
    w.flag(1);
    w.out.extend([0x20, 0]);
    w.out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum {
    AdlerFromZero,
    Crc32,
    Adler,
    Wrong,
}

impl Sum {
    fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Sum::AdlerFromZero => adler32(bytes, 0),
            Sum::Crc32 => crc32(bytes),
            Sum::Adler => adler32(bytes, 1),
            Sum::Wrong => !adler32(bytes, 0),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Container {
    pub magic: u64,
    pub version: u16,
    pub algorithm: u8,
    pub pack: Pack,
    pub sum: Sum,
    pub block: usize,
    /// Bytes of the block count; `None`: streaming form.
    pub count_width: Option<usize>,
    /// Bytes of each size.
    pub size_width: usize,
}

impl Container {
    pub const MAGIC: u64 = 0x1004_FA99_57FB_AA33;

    /// As `version` of the archive has it by default.
    pub fn of(forge_version: u32, algorithm: u8, pack: Pack) -> Self {
        Container {
            magic: Self::MAGIC,
            version: 1,
            algorithm,
            pack,
            sum: Sum::AdlerFromZero,
            block: 0x8000,
            count_width: Some(if forge_version <= 26 { 2 } else { 4 }),
            size_width: 2,
        }
    }

    pub fn write(&self, data: &[u8]) -> Vec<u8> {
        let mut out = self.magic.to_le_bytes().to_vec();
        out.extend(self.version.to_le_bytes());
        out.push(self.algorithm);
        let blocks: Vec<(&[u8], Vec<u8>)> = data
            .chunks(self.block)
            .map(|chunk| {
                let packed = self.pack.pack(chunk);
                // what does not become smaller is stored; raw Oodle blocks are kept, they are the point
                let keep = packed.len() < chunk.len() || self.pack == Pack::OodleRaw;
                (chunk, if keep { packed } else { chunk.to_vec() })
            })
            .collect();
        let Some(count_width) = self.count_width else {
            out.extend([0x00, 0x80, 0x00, 0x70]);
            for (chunk, packed) in blocks {
                if packed.len() == chunk.len() {
                    out.push(0);
                    out.extend((chunk.len() as u32).to_le_bytes());
                } else {
                    out.push(1);
                    out.extend((packed.len() as u32).to_le_bytes());
                    out.extend((chunk.len() as u32).to_le_bytes());
                    out.extend(self.sum.of(&packed).to_le_bytes());
                }
                out.extend(packed);
            }
            return out;
        };
        let largest = if self.block <= 0x8000 { 0x8000_8000 } else { 0x8000_0000 | self.block as u32 };
        out.extend(largest.to_le_bytes());
        out.extend(&(blocks.len() as u32).to_le_bytes()[..count_width]);
        for (chunk, packed) in &blocks {
            out.extend(&(chunk.len() as u32).to_le_bytes()[..self.size_width]);
            out.extend(&(packed.len() as u32).to_le_bytes()[..self.size_width]);
        }
        for (_, packed) in &blocks {
            out.extend(self.sum.of(packed).to_le_bytes());
            out.extend(packed);
        }
        out
    }
}

/// An object record with 64-bit ids; `rows`: the extended file header.
pub fn object64(class: &str, id: u64, name: &str, rows: Option<u32>, body: &[u8]) -> Vec<u8> {
    let class = crc32(class.as_bytes());
    let mut out = class.to_le_bytes().to_vec();
    out.extend((body.len() as u32 + 12).to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(toolkit64(class, id, rows, body));
    out
}

/// What AnvilToolkit leaves of it: from the file header on.
pub fn toolkit64(class: u32, id: u64, rows: Option<u32>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match rows {
        None => out.push(0),
        Some(rows) => {
            out.extend([1, 2, 0, 0]);
            out.extend(rows.to_le_bytes());
            out.extend((0..12 * rows).map(|i| i as u8));
        }
    }
    out.extend(id.to_le_bytes());
    out.extend(class.to_le_bytes());
    out.extend(body);
    out
}

/// An object record with 32-bit ids and a managed body; `rows`: a block-allocator object.
pub fn object32(class: &str, id: u32, name: &str, rows: Option<u32>, fields: &[u8]) -> Vec<u8> {
    let class = crc32(class.as_bytes());
    let mut out = class.to_le_bytes().to_vec();
    out.extend((fields.len() as u32 + 9).to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
    match rows {
        None => out.push(0),
        Some(rows) => {
            out.extend([1, 2, 0, 0]);
            out.extend(rows.to_le_bytes());
            out.extend((0..12 * rows).map(|i| i as u8));
        }
    }
    out.push(1);
    out.extend(id.to_le_bytes());
    out.extend(class.to_le_bytes());
    out.extend(fields);
    out
}

/// A 64-bit directory; each object with `extras` two-byte extras.
pub fn directory64(objects: &[(u64, usize)], extras: u16) -> Vec<u8> {
    let mut out = (objects.len() as u16).to_le_bytes().to_vec();
    for &(id, size) in objects {
        out.extend(id.to_le_bytes());
        out.extend((size as u32).to_le_bytes());
        out.extend(extras.to_le_bytes());
        (0..extras).for_each(|i| out.extend(i.to_le_bytes()));
    }
    out
}

pub fn directory32(objects: &[(u64, usize)]) -> Vec<u8> {
    let mut out = (objects.len() as u16).to_le_bytes().to_vec();
    for &(id, size) in objects {
        out.extend((id as u32).to_le_bytes());
        out.extend((size as u32).to_le_bytes());
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    Base188,
    Base192,
    Scrambled29,
    Scrambled30,
    None,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u64,
    pub name: String,
    pub class: u32,
    pub payload: Vec<u8>,
}

/// What the index says of an entry.
#[derive(Clone, Debug)]
pub struct Listed {
    pub id: u64,
    pub name: String,
    pub class: u32,
    /// Bytes in the file.
    pub size: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Forge {
    pub version: u32,
    /// Bytes of an index record.
    pub index: usize,
    pub names: Names,
    /// Entries of a table.
    pub table: usize,
    /// An empty table first.
    pub empty_table: bool,
    /// A FILEDATA header before each payload.
    pub filedata: bool,
    /// Four bytes before each payload.
    pub prefix: bool,
    /// GlobalMetaFile first and PrefetchingFileInfos last.
    pub special: bool,
}

impl Forge {
    pub fn of(version: u32) -> Self {
        let narrow = version <= 26;
        Forge {
            version,
            index: if narrow { 16 } else { 20 },
            names: match version {
                ..=26 => Names::Base188,
                29 => Names::Scrambled29,
                30 => Names::Scrambled30,
                _ => Names::Base192,
            },
            table: 5000,
            empty_table: false,
            filedata: narrow,
            prefix: false,
            special: !narrow,
        }
    }

    fn name_width(self) -> usize {
        match self.names {
            Names::Base188 => 188,
            Names::Base192 => 192,
            Names::Scrambled29 | Names::Scrambled30 => 320,
            Names::None => 0,
        }
    }

    /// An entry's bytes in the file: with what stands before its payload.
    pub fn payload(&self, entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        if self.filedata {
            out.extend(b"FILEDATA");
            out.extend(entry.name.as_bytes());
            out.resize(0x187, 0);
            out.extend((entry.id as u32).to_le_bytes());
            out.extend(0u32.to_le_bytes());
            out.resize(0x1AF, 0);
            out.extend(entry.class.to_le_bytes());
            out.resize(0x1B8, 0);
        }
        if self.prefix {
            out.extend([0xDE, 0xAD, 0xBE, 0xEF]);
        }
        out.extend(&entry.payload);
        out
    }

    pub fn write(&self, entries: &[Entry]) -> Vec<u8> {
        let mut all = entries.to_vec();
        for entry in &mut all {
            entry.payload = self.payload(entry);
        }
        if self.special {
            let special = |id, name: &str| Entry { id, name: name.into(), class: 0, payload: vec![7; 64] };
            all.insert(0, special(0x10, "GlobalMetaFile"));
            all.push(special(0x91, "PrefetchingFileInfos"));
        }
        let listed: Vec<Listed> = all
            .iter()
            .map(|e| Listed { id: e.id, name: e.name.clone(), class: e.class, size: e.payload.len() as u32 })
            .collect();
        let mut out = self.head(&listed);
        all.iter().for_each(|e| out.extend(&e.payload));
        out.resize(out.len().next_multiple_of(0x8000), 0);
        out
    }

    fn tables<T>(self, all: &[T]) -> Vec<&[T]> {
        let mut tables: Vec<&[T]> = all.chunks(self.table).collect();
        if self.empty_table || tables.is_empty() {
            tables.insert(0, &[]);
        }
        tables
    }

    fn header_at(self) -> usize {
        if self.version <= 26 { 0x416 } else { 0x41A }
    }

    fn first_table(self) -> usize {
        self.header_at() + if self.version <= 26 { 0x28 } else { 0x2C }
    }

    /// Length of everything before the first payload of an archive of `count` entries.
    pub fn head_len(self, count: usize) -> usize {
        let tables = self.tables(&vec![(); count]).len();
        let size = self.first_table() + tables * 48 + count * (self.index + self.name_width());
        size.next_multiple_of(0x800)
    }

    /// Everything before the first payload; the payloads follow one after another.
    pub fn head(&self, all: &[Listed]) -> Vec<u8> {
        let narrow = self.version <= 26;
        let tables = self.tables(all);
        let mut payload_at = self.head_len(all.len()) as u64;
        let mut out = b"scimitar\0".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.header_at() as u64).to_le_bytes());
        out.extend(0x10u32.to_le_bytes());
        out.resize(self.header_at(), 0);
        out.extend((all.len() as u32).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(&u64::MAX.to_le_bytes()[..if narrow { 4 } else { 8 }]);
        out.extend([0xFF; 12]);
        out.extend((all.len() as u32).to_le_bytes());
        out.extend((tables.len() as u32).to_le_bytes());
        out.extend((self.first_table() as u64).to_le_bytes());
        for (t, table) in tables.iter().enumerate() {
            let index_at = out.len() + 48;
            let names_at = index_at + table.len() * self.index;
            let next = names_at + table.len() * self.name_width();
            out.extend((table.len() as u32).to_le_bytes());
            out.extend(0u32.to_le_bytes());
            out.extend((index_at as u64).to_le_bytes());
            out.extend(if t + 1 == tables.len() { u64::MAX } else { next as u64 }.to_le_bytes());
            out.extend([0; 8]);
            out.extend((names_at as u64).to_le_bytes());
            out.extend((next as u64).to_le_bytes());
            let mut names = Vec::new();
            for (i, entry) in table.iter().enumerate() {
                out.extend(payload_at.to_le_bytes());
                out.extend(&entry.id.to_le_bytes()[..if self.index == 16 { 4 } else { 8 }]);
                out.extend(entry.size.to_le_bytes());
                if self.index == 24 {
                    out.extend(entry.class.to_le_bytes());
                }
                names.extend(self.name_record(entry, payload_at, i));
                payload_at += entry.size as u64;
            }
            out.extend(names);
        }
        out.resize(self.head_len(all.len()), 0);
        out
    }

    fn name_record(&self, entry: &Listed, offset: u64, i: usize) -> Vec<u8> {
        let mut record = vec![0u8; self.name_width()];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        let size = entry.size.to_le_bytes();
        let class = entry.class.to_le_bytes();
        let scrambled = || {
            let class = entry.class as u64;
            let mut key = 0xA860_F0EC_DE33_39FBu64
                .wrapping_add(entry.id)
                .wrapping_add(offset)
                .wrapping_add(class)
                .wrapping_add(class << 32);
            let mut name = entry.name.clone().into_bytes();
            for (k, byte) in name.iter_mut().enumerate() {
                if k > 0 && k % 8 == 0 {
                    key = key.wrapping_add(0x3572_67C7_6FFB_9EB2);
                }
                *byte ^= (key >> (8 * (k % 8))) as u8;
            }
            name
        };
        match self.names {
            Names::None => {}
            Names::Base188 | Names::Base192 => {
                put(0, &size);
                put(4, &0x1234_5678_9ABC_DEF0u64.to_le_bytes());
                put(16, &class);
                put(28, &(i as u32 + 1).to_le_bytes());
                put(44, entry.name.as_bytes());
            }
            Names::Scrambled29 => {
                put(0, &size);
                put(16, &class);
                put(44, &scrambled());
                put(44 + 255, &[entry.name.len() as u8]);
            }
            Names::Scrambled30 => {
                put(4, &4u32.to_le_bytes());
                put(20, &scrambled());
                put(20 + 255, &[entry.name.len() as u8]);
                put(300, &class);
                put(316, &size);
            }
        }
        record
    }
}

/// The usual pair of a 64-bit entry: directory and objects in containers of the same kind.
pub fn pair64(container: &Container, objects: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let sizes: Vec<(u64, usize)> = objects.iter().map(|(id, o)| (*id, o.len())).collect();
    let all: Vec<u8> = objects.iter().flat_map(|(_, o)| o.clone()).collect();
    [container.write(&directory64(&sizes, 0)), container.write(&all)].concat()
}

/// The same with 32-bit ids.
pub fn pair32(container: &Container, objects: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let sizes: Vec<(u64, usize)> = objects.iter().map(|(id, o)| (*id, o.len())).collect();
    let all: Vec<u8> = objects.iter().flat_map(|(_, o)| o.clone()).collect();
    [container.write(&directory32(&sizes)), container.write(&all)].concat()
}

/// Versions 42 and 50 (notes 1.4): one list of records of 24 bytes, no names. At H: version 42 u32 count +0x0C, u32
/// offset of the records +0x28; version 50 u32 count, u64 offset, u64 end mark; there the list stands at the end.
pub fn flat(version: u32, entries: &[Entry]) -> Vec<u8> {
    const HEADER: usize = 0x100;
    const PAYLOADS: usize = 0x1000;
    let payloads: usize = entries.iter().map(|e| e.payload.len()).sum();
    let index = if version == 42 { 0x200 } else { PAYLOADS + payloads };
    let mut out = b"scimitar\0".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((HEADER as u64).to_le_bytes());
    out.resize(HEADER, 0);
    if version == 42 {
        out.resize(HEADER + 0x0C, 0);
        out.extend((entries.len() as u32).to_le_bytes());
        out.resize(HEADER + 0x28, 0);
        out.extend((index as u32).to_le_bytes());
    } else {
        out.extend((entries.len() as u32).to_le_bytes());
        out.extend((index as u64).to_le_bytes());
        out.extend(u64::MAX.to_le_bytes());
    }
    let mut records = Vec::new();
    let mut at = PAYLOADS;
    for entry in entries {
        records.extend((at as u64).to_le_bytes());
        records.extend(entry.id.to_le_bytes());
        records.extend((entry.payload.len() as u32).to_le_bytes());
        records.extend(entry.class.to_le_bytes());
        at += entry.payload.len();
    }
    if version == 42 {
        out.resize(index, 0);
        out.extend(&records);
    }
    out.resize(PAYLOADS, 0);
    entries.iter().for_each(|e| out.extend(&e.payload));
    if version != 42 {
        out.extend(records);
    }
    out.resize(out.len().next_multiple_of(0x8000), 0);
    out
}
