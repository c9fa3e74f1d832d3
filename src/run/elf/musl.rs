//! Can musl load a library? It ends a program whose preload it cannot load, with status 127, where glibc goes on without.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::elf::{FileHeader64, DT_NEEDED, SHT_DYNSYM, STB_WEAK};
use object::read::elf::{Dyn, FileHeader, SectionHeader, Sym};
use object::Endianness;

/// Names that musl takes for itself, whatever follows the dot (ldso/dynlink.c, load_library).
const OWN: [&str; 7] = ["c", "pthread", "rt", "m", "dl", "util", "xnet"];

/// What a shared library needs and has.
struct Symbols {
    libraries: Vec<String>,
    /// Undefined ones without which it does not load: weak ones are not among them.
    needed: BTreeSet<String>,
    defined: BTreeSet<String>,
}

/// What `library` needs that musl does not have; `None`: musl loads it. `libc`: musl's file, loader and C library in one; where
/// it cannot be read the symbols are not compared.
pub fn lacks(library: &Path, libc: &Path) -> Option<String> {
    let Some(library) = read(library) else { return Some("a shared library".into()) };
    let own = |name: &&String| {
        let stem = name.strip_prefix("lib").and_then(|rest| rest.split_once('.'));
        stem.is_some_and(|(stem, _)| OWN.contains(&stem))
    };
    let others: Vec<&str> = library.libraries.iter().filter(|name| !own(name)).map(String::as_str).collect();
    if !others.is_empty() {
        return Some(others.join(" and "));
    }
    let there = read(libc)?.defined;
    library.needed.difference(&there).next().cloned()
}

fn read(path: &Path) -> Option<Symbols> {
    let bytes = fs::read(path).ok()?;
    let bytes = bytes.as_slice();
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM).ok()?;
    let strings = symbols.strings();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut found = Symbols { libraries: Vec::new(), needed: BTreeSet::new(), defined: BTreeSet::new() };
    for section in sections.iter() {
        let Some((entries, _)) = section.dynamic(endian, bytes).ok()? else { continue };
        for entry in entries.iter().filter(|entry| entry.d_tag(endian) == u64::from(DT_NEEDED)) {
            found.libraries.push(text(strings.get(u32::try_from(entry.d_val(endian)).ok()?).ok()?));
        }
    }
    for symbol in symbols.iter() {
        let name = text(symbol.name(endian, strings).ok()?);
        if !symbol.is_undefined(endian) {
            found.defined.insert(name);
        } else if symbol.st_bind() != STB_WEAK && !name.is_empty() {
            found.needed.insert(name);
        }
    }
    Some(found)
}
