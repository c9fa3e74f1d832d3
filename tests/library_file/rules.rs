//! What is read of a shared library, and the rules that the packaged one keeps.

use std::collections::{BTreeMap, BTreeSet};

use object::elf::{
    FileHeader64, DF_1_NOW, DF_BIND_NOW, DF_STATIC_TLS, DF_TEXTREL, DT_FLAGS, DT_FLAGS_1, DT_INIT, DT_NEEDED, DT_RPATH,
    DT_RUNPATH, DT_TEXTREL, PF_W, PF_X, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD, SHT_DYNSYM, STB_WEAK,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::Endianness;

/// What the rules are about.
#[derive(Debug, Default)]
pub struct Facts {
    /// DT_NEEDED.
    pub libraries: Vec<String>,
    /// Symbols defined for others.
    pub exported: BTreeSet<String>,
    /// Undefined symbols without which it does not load; weak ones are not among them.
    pub needed_symbols: BTreeSet<String>,
    /// The version of each symbol that has one.
    pub versions: BTreeMap<String, String>,
    /// PT_GNU_STACK with execute permission, or none at all (which means the same).
    pub executable_stack: bool,
    /// A segment that can be written and executed.
    pub writable_code: bool,
    /// DT_TEXTREL or its flag.
    pub text_relocations: bool,
    /// PT_GNU_RELRO.
    pub relro: bool,
    /// DF_BIND_NOW or DF_1_NOW: no lazy look-up later, in a signal handler or a vfork child.
    pub bound_at_once: bool,
    /// DF_STATIC_TLS: it takes of the small surplus of static TLS when it is loaded by dlopen.
    pub static_tls: bool,
    /// DT_RPATH or DT_RUNPATH: looks for libraries at a place of its own.
    pub search_path: bool,
    /// DT_INIT: an initialiser besides those of the array.
    pub init: bool,
}

impl Facts {
    /// # Errors
    /// Not a shared library of 64 bits.
    pub fn of(bytes: &[u8]) -> Result<Facts, String> {
        let text = |error: object::Error| error.to_string();
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(text)?;
        let endian = header.endian().map_err(text)?;
        let mut facts = Facts { executable_stack: true, ..Facts::default() };
        for segment in header.program_headers(endian, bytes).map_err(text)? {
            let flags = segment.p_flags(endian);
            match segment.p_type(endian) {
                PT_GNU_STACK => facts.executable_stack = flags & PF_X != 0,
                PT_GNU_RELRO => facts.relro = true,
                PT_LOAD => facts.writable_code |= flags & PF_W != 0 && flags & PF_X != 0,
                _ => {}
            }
        }
        let sections = header.sections(endian, bytes).map_err(text)?;
        let symbols = sections.symbols(endian, bytes, SHT_DYNSYM).map_err(text)?;
        let strings = symbols.strings();
        let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

        for section in sections.iter() {
            let Some((entries, _)) = section.dynamic(endian, bytes).map_err(text)? else { continue };
            for entry in entries {
                let value = entry.d_val(endian);
                match u32::try_from(entry.d_tag(endian)).unwrap_or(0) {
                    DT_NEEDED => {
                        let name = strings.get(value as u32).map_err(|()| "a name outside the strings")?;
                        facts.libraries.push(string(name));
                    }
                    DT_FLAGS => {
                        facts.bound_at_once |= value & u64::from(DF_BIND_NOW) != 0;
                        facts.static_tls |= value & u64::from(DF_STATIC_TLS) != 0;
                        facts.text_relocations |= value & u64::from(DF_TEXTREL) != 0;
                    }
                    DT_FLAGS_1 => facts.bound_at_once |= value & u64::from(DF_1_NOW) != 0,
                    DT_TEXTREL => facts.text_relocations = true,
                    DT_RPATH | DT_RUNPATH => facts.search_path = true,
                    DT_INIT => facts.init = true,
                    _ => {}
                }
            }
        }

        let versions = sections.versions(endian, bytes).map_err(text)?;
        for (index, symbol) in symbols.enumerate() {
            let name = string(symbol.name(endian, strings).map_err(text)?);
            if name.is_empty() || symbol.is_local() {
                continue;
            }
            if !symbol.is_undefined(endian) {
                facts.exported.insert(name);
                continue;
            }
            if let Some(versions) = &versions {
                let number = versions.version_index(endian, index);
                if let Some(version) = versions.version(number).map_err(text)? {
                    facts.versions.insert(name.clone(), string(version.name()));
                }
            }
            if symbol.st_bind() != STB_WEAK {
                facts.needed_symbols.insert(name);
            }
        }
        Ok(facts)
    }
}

/// The libraries that may be needed. Until glibc 2.33 libpthread and libdl are the parts of libc that hold pthread_key_create and
/// dlsym; since 2.34 they are empty, and musl takes all three names for itself. Not the loader: musl has none of that name.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libdl.so.2", "libpthread.so.0"];

/// The newest glibc that may be needed.
const NEWEST: [u32; 2] = [2, 17];

/// The rules that are broken, in words.
pub fn broken(facts: &Facts, hooks: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    for library in facts.libraries.iter().filter(|library| !LIBRARIES.contains(&library.as_str())) {
        broken.push(format!("needs {library}, which is not the C library"));
    }
    for (symbol, version) in &facts.versions {
        let numbers: Option<Vec<u32>> =
            version.strip_prefix("GLIBC_").and_then(|rest| rest.split('.').map(|part| part.parse().ok()).collect());
        if !numbers.is_some_and(|numbers| numbers.as_slice() <= &NEWEST[..] || numbers.starts_with(&NEWEST)) {
            broken.push(format!("needs {symbol} of {version}, newer than glibc 2.17 or not glibc's"));
        }
    }
    broken.extend(facts.exported.difference(hooks).map(|name| format!("exports {name}, which is no hook")));
    broken.extend(hooks.difference(&facts.exported).map(|name| format!("does not export {name}, which is a hook")));
    for (wrong, words) in [
        (facts.executable_stack, "its stack is executable"),
        (facts.writable_code, "has a segment that is written and executed"),
        (facts.text_relocations, "has relocations in its code"),
        (!facts.relro, "has no read-only relocations"),
        (!facts.bound_at_once, "is bound lazily"),
        (facts.static_tls, "uses static TLS (initial-exec), of which dlopen has little"),
        (facts.search_path, "looks for libraries at a place of its own"),
        (facts.init, "has an initialiser outside the array"),
    ] {
        if wrong {
            broken.push(words.to_owned());
        }
    }
    broken
}
