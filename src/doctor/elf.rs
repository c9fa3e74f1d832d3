//! What a program file is, as far as preloading is concerned: the head of an ELF file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The head of a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// 32 or 64.
    pub bits: u8,
    /// `e_machine` (62 = x86-64, 183 = aarch64).
    pub machine: u16,
    /// The loader that it asks for; `None`: a static program, or a library.
    pub loader: Option<String>,
}

impl Elf {
    /// Reads the head; `None`: not there, not readable, or no little-endian ELF file.
    pub fn read(path: &Path) -> Option<Elf> {
        let mut head = Vec::new();
        File::open(path).ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
        Elf::parse(&head)
    }

    fn parse(head: &[u8]) -> Option<Elf> {
        let rest = head.strip_prefix(b"\x7fELF")?;
        let bits = match rest.first()? {
            1 => 32,
            2 => 64,
            _ => return None,
        };
        if *rest.get(1)? != 1 {
            return None;
        }
        let number = |at: usize, width: usize| -> Option<usize> {
            let bytes = head.get(at..at.checked_add(width)?)?;
            Some(bytes.iter().rev().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte)))
        };
        let machine = number(18, 2)? as u16;
        // e_phoff, e_phentsize, e_phnum and the fields of a program header: elf(5).
        let (table, size, count) = match bits {
            64 => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
            _ => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
        };
        const PT_INTERP: usize = 3;
        let mut loader = None;
        for index in 0..count {
            let entry = table.checked_add(index.checked_mul(size)?)?;
            if number(entry, 4) == Some(PT_INTERP) {
                let (offset, length) = match bits {
                    64 => (number(entry + 8, 8)?, number(entry + 32, 8)?),
                    _ => (number(entry + 4, 4)?, number(entry + 16, 4)?),
                };
                let text = head.get(offset..offset.checked_add(length)?)?;
                let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
                loader = Some(String::from_utf8_lossy(text).into_owned());
            }
        }
        Some(Elf { bits, machine, loader })
    }

    /// The name of the architecture.
    pub fn architecture(&self) -> String {
        match self.machine {
            3 => "x86 (32-bit)".into(),
            40 => "arm (32-bit)".into(),
            62 if self.bits == 32 => "x32".into(),
            62 => "x86-64".into(),
            183 => "aarch64".into(),
            243 => "riscv64".into(),
            other => format!("machine {other}, {} bits", self.bits),
        }
    }

    /// Its loader is musl's.
    pub fn is_musl(&self) -> bool {
        self.loader.as_ref().is_some_and(|loader| loader.contains("ld-musl"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_a_loader_and_noise_is_none() {
        let own = Elf::read(Path::new("/proc/self/exe")).expect("this test is an ELF file");
        assert_eq!(own.bits, 64);
        assert!(own.loader.as_ref().is_some_and(|loader| loader.starts_with('/')), "{own:?}");
        assert!(!own.is_musl());
        assert_eq!(Elf::parse(b""), None);
        assert_eq!(Elf::parse(b"#!/bin/sh\n"), None);
        for length in 0..64 {
            let mut head = vec![0xffu8; length];
            head.splice(0..head.len().min(7), *b"\x7fELF\x02\x01\x01");
            let _ = Elf::parse(&head);
        }
    }
}
