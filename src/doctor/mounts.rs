//! Mounts, as /proc/self/mountinfo lists them (proc_pid_mountinfo(5)).

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What it shows of its file system.
    pub root: String,
    /// Where it is.
    pub point: String,
    /// Type of the file system.
    pub kind: String,
    /// Its source.
    pub source: String,
    /// Options of the mount and of the file system, joined by a comma, none twice.
    pub options: String,
}

impl Mount {
    /// The value of an option `name=value`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Is the option there (`ro`, `noexec`)?
    pub fn has(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

/// Every mount of the text, in its order.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let root = unescape(front.nth(3)?);
    let point = unescape(front.next()?);
    let own = front.next()?;
    let mut back = back.split(' ');
    let kind = back.next()?.to_owned();
    let source = unescape(back.next()?);
    let mut options: Vec<&str> = own.split(',').collect();
    for option in back.next().unwrap_or("").split(',') {
        // rw of the file system says nothing where the mount is ro; ro of either makes it ro.
        if !option.is_empty() && option != "rw" && !options.contains(&option) {
            options.push(option);
        }
    }
    if options.contains(&"ro") {
        options.retain(|option| *option != "rw");
    }
    Some(Mount { root, point, kind, source, options: options.join(",") })
}

/// Blanks and the like are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = after.get(3..).unwrap_or("");
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// What is mounted at `point`: the last of several, which covers the others.
pub fn at<'m>(mounts: &'m [Mount], point: &str) -> Option<&'m Mount> {
    mounts.iter().rev().find(|mount| mount.point == point)
}

/// Size in bytes of a tmpfs with the option `size=`, as the kernel writes it (`65536k`); without one it is half of the
/// memory (tmpfs(5)). `None`: `size=0`, unlimited.
pub fn tmpfs_size(mount: &Mount, memory: Option<u64>) -> Option<u64> {
    match mount.value("size") {
        Some(size) => match shmguard_core::size::parse(size.as_bytes()) {
            Some(shmguard_core::size::Amount::Bytes(bytes)) if bytes > 0 => Some(bytes),
            _ => None,
        },
        None => memory.map(|memory| memory / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_both_sides_are_joined() {
        let text =
            "407 402 0:99 / /dev/shm rw,nosuid,nodev,noexec,relatime shared:3 master:1 - tmpfs shm rw,size=65536k\n\
                    1 0 8:1 / /mnt/a\\040b ro - ext4 /dev/sda rw\nnoise\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].options, "rw,nosuid,nodev,noexec,relatime,size=65536k");
        assert_eq!(tmpfs_size(&mounts[0], None), Some(64 << 20));
        assert!(mounts[0].has("noexec") && !mounts[0].has("ro"));
        assert_eq!((mounts[1].point.as_str(), mounts[1].options.as_str()), ("/mnt/a b", "ro"));
    }

    #[test]
    fn a_tmpfs_without_a_size_is_half_of_the_memory() {
        let mounts = parse("1 0 0:1 / /dev/shm rw - tmpfs none rw\n2 0 0:2 / /dev/shm rw - tmpfs none rw,size=0k\n");
        assert_eq!(tmpfs_size(&mounts[0], Some(8 << 30)), Some(4 << 30));
        assert_eq!(tmpfs_size(at(&mounts, "/dev/shm").expect("a mount"), Some(8 << 30)), None);
    }
}
