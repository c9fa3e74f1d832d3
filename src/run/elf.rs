//! Will the dynamic loader put the library into a program? Read from the program's file.

mod musl;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::elf::{FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};

/// Why LD_PRELOAD has no effect on a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No dynamic loader takes part.
    Static,
    /// The loader drops LD_PRELOAD from set-user-ID and set-group-ID programs and those with file capabilities.
    Privileged,
    /// musl, and this library needs something that musl has not.
    Musl {
        /// The program's loader, which is musl itself.
        loader: String,
        /// What it lacks.
        lacks: String,
    },
    /// Another C library; its loader's path.
    OtherLibc(String),
    /// 32 bits.
    Bits32,
    /// Another machine's program (it runs by an emulator).
    OtherMachine,
}

impl Obstacle {
    /// Would LD_PRELOAD end the program instead of being ignored?
    pub fn ends_it(&self) -> bool {
        matches!(self, Obstacle::Musl { .. } | Obstacle::OtherLibc(_))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Static => {
                f.write_str("it is statically linked, and so has no dynamic loader (Go programs are often so)")
            }
            Obstacle::Privileged => f.write_str(
                "it is set-user-ID, set-group-ID or has file capabilities: the loader ignores LD_PRELOAD then",
            ),
            Obstacle::Musl { loader, lacks } => write!(
                f,
                "its C library is musl ({loader}), which would end it because this library needs {lacks}; the library of the \
                 package (scripts/package) loads there"
            ),
            Obstacle::OtherLibc(loader) => write!(f, "it uses another C library than glibc ({loader})"),
            Obstacle::Bits32 => f.write_str("it is a 32-bit program, the library has 64 bits"),
            Obstacle::OtherMachine => f.write_str("it is a program for another kind of processor"),
        }
    }
}

/// The file that a shell would run for `program`; `None` when there is none.
pub fn find(program: &OsStr) -> Option<PathBuf> {
    let runnable =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| runnable(path))
}

/// What keeps `library` out of the program in this file; for a script, out of its interpreter. `None`: nothing that can be
/// seen in the file, or it cannot be read. `root`: below it the program finds its loader.
pub fn obstacle(path: &Path, library: Option<&Path>, root: &Path) -> Option<Obstacle> {
    let mut path = path.to_path_buf();
    // A script's interpreter may be a script; the kernel follows a few levels only.
    for _ in 0..5 {
        match interpreter_line(&path) {
            Some(interpreter) => path = interpreter,
            None => return obstacle_in_elf(&path, library, root),
        }
    }
    None
}

/// The program behind `#!`: of `env NAME` the NAME.
fn interpreter_line(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words.next()?;
    if first.ends_with(b"/env") {
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
        return find(OsStr::from_bytes(name));
    }
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

fn obstacle_in_elf(path: &Path, library: Option<&Path>, root: &Path) -> Option<Obstacle> {
    let file = fs::File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let cache = ReadCache::new(file);
    let kind = FileKind::parse(&cache).ok()?;
    let (machine, loader) = match kind {
        FileKind::Elf64 => header::<FileHeader64<Endianness>>(&cache)?,
        FileKind::Elf32 => header::<FileHeader32<Endianness>>(&cache)?,
        _ => return None,
    };
    let own = if cfg!(target_arch = "x86_64") {
        Some(object::elf::EM_X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(object::elf::EM_AARCH64)
    } else {
        None
    };
    let fits = kind == FileKind::Elf64 && own.is_none_or(|own| own == machine);
    // Loaders that drop LD_PRELOAD, or go on without what does not fit, come before those that end the program.
    if loader.is_some() && is_privileged(path, &meta) {
        return Some(Obstacle::Privileged);
    }
    match loader {
        Some(loader) if loader.contains("ld-musl") && fits => {
            // Without a library one is judged that any cargo build makes.
            let libc = root.join(loader.trim_start_matches('/'));
            let lacks = library.map_or_else(|| Some("glibc".into()), |library| musl::lacks(library, &libc))?;
            Some(Obstacle::Musl { loader, lacks })
        }
        Some(loader) if !loader.contains("ld-linux") => Some(Obstacle::OtherLibc(loader)),
        _ if kind == FileKind::Elf32 => Some(Obstacle::Bits32),
        _ if !fits => Some(Obstacle::OtherMachine),
        None => Some(Obstacle::Static),
        Some(_) => None,
    }
}

/// Machine and the path of the dynamic loader.
fn header<Elf: FileHeader<Endian = Endianness>>(cache: &ReadCache<fs::File>) -> Option<(u16, Option<String>)> {
    let header = Elf::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    let loader = header.program_headers(endian, cache).ok()?.iter().find_map(|segment| {
        if segment.p_type(endian) != PT_INTERP {
            return None;
        }
        let bytes = segment.data(endian, cache).ok()?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    });
    Some((header.e_machine(endian), loader))
}

/// Would exec give it another user's or further rights (AT_SECURE)?
fn is_privileged(path: &Path, meta: &fs::Metadata) -> bool {
    let mode = meta.permissions().mode();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if (mode & 0o4000 != 0 && meta.uid() != uid) || (mode & 0o2000 != 0 && meta.gid() != gid) {
        return true;
    }
    // Root has all capabilities already; only a file's may be ones that it lacks.
    let mut value = [0u8; 64];
    uid != 0 && rustix::fs::getxattr(path, c"security.capability", &mut value[..]).is_ok_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_program_has_no_obstacle() {
        assert_eq!(obstacle(&std::env::current_exe().expect("this test"), None, Path::new("/")), None);
        assert_eq!(obstacle(&find("sh".as_ref()).expect("a shell"), None, Path::new("/")), None);
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("script");
        fs::write(&script, "#!/usr/bin/env sh\necho\n").expect("written");
        assert_eq!(interpreter_line(&script), find("sh".as_ref()));
        assert_eq!(obstacle(&script, None, Path::new("/")), None);
        fs::write(&script, "#! /no/such/interpreter\n").expect("written");
        assert_eq!(obstacle(&script, None, Path::new("/")), None);
    }

    #[test]
    fn headers_tell_static_and_32_bit_programs_and_other_machines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("program");
        // An ELF header without program headers: <https://refspecs.linuxfoundation.org/elf/elf.pdf>, figure 1-3.
        let mut image = vec![0u8; 64];
        image[..4].copy_from_slice(b"\x7fELF");
        (image[4], image[5], image[6]) = (2, 1, 1);
        image[16] = 2;
        let own: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        image[18..20].copy_from_slice(&own.to_le_bytes());
        image[20] = 1;
        (image[52], image[54]) = (64, 56);
        fs::write(&path, &image).expect("written");
        assert_eq!(obstacle(&path, None, Path::new("/")), Some(Obstacle::Static));
        image[18..20].copy_from_slice(&243u16.to_le_bytes());
        fs::write(&path, &image).expect("written");
        assert_eq!(obstacle(&path, None, Path::new("/")), Some(Obstacle::OtherMachine));
        image[4] = 1;
        (image[40], image[42]) = (52, 32);
        fs::write(&path, &image).expect("written");
        assert_eq!(obstacle(&path, None, Path::new("/")), Some(Obstacle::Bits32));
    }
}
