//! What doctor prints for people: at most 80 columns, colour only on a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal;

use shmguard_core::size::Human;

use super::facts::Wrong;
use super::findings::Finding;
use super::Patient;

/// Columns of text; lines to paste may be longer.
const WIDTH: usize = 80;
/// Columns of the names in front of the facts.
const NAMES: usize = 14;

/// Colours, where they are wanted.
pub struct Style {
    on: bool,
}

impl Style {
    /// On a terminal, unless NO_COLOR is set (no-color.org) or the terminal is dumb.
    pub fn of_stdout() -> Style {
        let no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Style { on: std::io::stdout().is_terminal() && !no && !dumb }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The numbers, a line or two each.
pub fn facts(patient: &Patient) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        let lines = wrap(value, WIDTH - NAMES - 2);
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let _ = writeln!(text, "{name:NAMES$}  {line}");
        }
    };
    for (index, recognised) in patient.environment.iter().enumerate() {
        let name = if index == 0 { "environment" } else { "also" };
        fact(name, &format!("{} ({})", recognised.kind.words(), recognised.evidence.join("; ")));
    }
    fact(&patient.shm.path, &shm(patient));
    fact("memory", &memory(patient));
    let limits = &patient.limits;
    let number = |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| value.to_string());
    fact(
        "descriptors",
        &format!("{} a process (hard limit {})", number(limits.descriptors), number(limits.descriptors_hard)),
    );
    if let Some(most) = limits.max_map_count {
        fact("mappings", &format!("{most} a process (vm.max_map_count)"));
    }
    if let Some(most) = limits.sysv_segments_max {
        fact("System V", &format!("{} of {most} segments, {}", limits.sysv_segments, Human(limits.sysv_bytes)));
    }
    for target in &patient.targets {
        fact("target", &self::target(target));
    }
    fact("library", &library(patient));
    text
}

fn shm(patient: &Patient) -> String {
    let shm = &patient.shm;
    if let Some(wrong) = &shm.wrong {
        return match wrong {
            Wrong::Missing => "is not there".into(),
            Wrong::NotADirectory => "is no directory".into(),
            Wrong::NotTmpfs(kind) => format!("is no tmpfs but on {kind}"),
            Wrong::ReadOnly => "is read-only".into(),
            Wrong::NotWritable => "is not writable for this user".into(),
        };
    }
    let capacity = shm.capacity_bytes.map_or("unlimited".into(), |capacity| Human(capacity).to_string());
    let mut text = format!("{capacity}, {} used", Human(shm.used_bytes));
    if let (Some(free), Some(all)) = (shm.inodes_free, shm.inodes) {
        let _ = write!(text, ", {free} of {all} inodes free");
    }
    if !shm.options.is_empty() {
        let _ = write!(text, "; {}", shm.options);
    }
    text
}

fn memory(patient: &Patient) -> String {
    let memory = &patient.memory;
    let mut text = match (memory.total_bytes, memory.available_bytes) {
        (Some(total), Some(available)) => format!("{}, {} available", Human(total), Human(available)),
        (Some(total), None) => Human(total).to_string(),
        _ => "not known".into(),
    };
    if let (Some(limit), Some(left)) = (memory.limit_bytes, memory.limit_left_bytes) {
        let _ = write!(text, "; cgroup limit {}, {} left", Human(limit), Human(left));
    }
    text
}

fn target(target: &super::targets::Target) -> String {
    let kind = match target.kind {
        Some("ram") => "memory",
        Some("disk") => "disk",
        Some("layer") => "the container's own layer on disk",
        Some(_) => "a file system that is neither memory nor a known disk",
        None => "",
    };
    if let Some(reason) = &target.unusable {
        return format!("{}: cannot be used: {reason}", target.path);
    }
    let mut text = format!("{}: {kind}, room for {}", target.path, Human(target.room_bytes));
    if let Some(speed) = target.speed {
        let _ = write!(text, "; {}: {}/s through a mapping", speed.class, Human(speed.mapped_bytes_per_s));
        if let Some(back) = speed.written_back_bytes_per_s {
            let _ = write!(text, ", {}/s to the disk", Human(back));
        }
    }
    text
}

fn library(patient: &Patient) -> String {
    let library = &patient.library;
    let preload = if library.preloaded { "preloaded here" } else { "not in LD_PRELOAD here" };
    match (&library.path, library.loads, &library.child) {
        (Some(path), Some(true), Some(child)) => {
            format!("{} loads into {}; {preload}", path.display(), child.display())
        }
        (Some(path), Some(false), _) => format!("{} does not load; {preload}", path.display()),
        (None, Some(_), _) => "not found".into(),
        _ => format!("not tried: another root is looked at; {preload}"),
    }
}

/// The findings with their fixes, and a last line.
pub fn findings(findings: &[Finding], quiet: bool, style: &Style) -> String {
    let mut text = String::new();
    for finding in findings.iter().filter(|finding| finding.needs_fix || !quiet) {
        let (mark, code) = if finding.needs_fix { ("fix", "1;31") } else { ("note", "1;33") };
        let head = format!("{mark}: {}: ", finding.cause.words());
        let lines = wrap(&format!("{head}{}", finding.says), WIDTH - 2);
        for (index, line) in lines.iter().enumerate() {
            let painted = match line.strip_prefix(mark).filter(|_| index == 0) {
                Some(rest) => format!("{}{rest}", style.paint(code, mark)),
                None => format!("  {line}"),
            };
            let start = if index == 0 && !(quiet && text.is_empty()) { "\n" } else { "" };
            let _ = writeln!(text, "{start}{painted}");
        }
        for line in &finding.fix {
            let _ = writeln!(text, "    {}", style.paint("36", line));
        }
    }
    if !quiet {
        let count = findings.iter().filter(|finding| finding.needs_fix).count();
        let last = match count {
            0 => style.paint("1;32", "nothing needs a fix"),
            1 => style.paint("1;31", "1 thing needs a fix"),
            count => style.paint("1;31", &format!("{count} things need a fix")),
        };
        let _ = writeln!(text, "\n{last}");
    }
    text
}

/// Lines of at most `width` columns, broken at blanks; a longer word stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + length <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("abcdefgh i", 4), ["abcdefgh", "i"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
