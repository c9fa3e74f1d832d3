//! What a neighbour plants in /dev/shm under a name that somebody else will use, and what it would be without the library.

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{mknodat, FileType, Mode, CWD};

use shmguard_core::segment::Identity;
use shmguard_core::target::{Creator, Label};

use crate::harness::{left_in, open_to_all, House};
use crate::neighbours::setting::Setting;
use crate::{link_own, own, write_own, CALLER, NEIGHBOUR, THIRD};

/// A file name of the library's form, as anybody can make one up.
pub fn label(uid: u32, number: u32) -> String {
    let creator = Creator { boot: 1, pid: uid as i32, start: 5, namespace: 6 };
    let label = Label { guard: Identity { dev: 2, ino: 3 }, instance: 4, creator, random: number.into() };
    String::from_utf8(label.name().to_vec()).expect("plain text")
}

/// One thing under the name "planted".
pub struct Planted {
    /// In words.
    pub what: &'static str,
    /// Links of the library's form fail with another errno than strange links: then only that they fail is compared.
    errno_may_differ: bool,
    /// Plants it. The flag: for a run under the library, where a link to a target stands for a regular file.
    plant: fn(&House, bool),
}

const NAME: &str = "/dev/shm/planted";

fn name() -> &'static Path {
    Path::new(NAME)
}

/// Plants a link of the library's form whose target is made by `make`.
fn formed(house: &House, make: impl FnOnce(&Path)) {
    let target = house.target().join(label(NEIGHBOUR, 1));
    make(&target);
    link_own(&target, name(), NEIGHBOUR);
}

fn thirds(house: &House) -> PathBuf {
    house.path("thirds")
}

fn callers(house: &House) -> PathBuf {
    house.path("callers")
}

/// A link with this text.
fn text(text: &str) {
    symlink(text, NAME).expect("a link");
    own(name(), NEIGHBOUR, 0);
}

/// Everything that is planted.
pub const MATRIX: &[Planted] = &[
    Planted {
        what: "a segment of the neighbour's that was redirected",
        errno_may_differ: false,
        plant: |house, with_library| {
            if with_library {
                formed(house, |target| write_own(target, "the neighbour's", NEIGHBOUR, 0o666));
            } else {
                write_own(name(), "the neighbour's", NEIGHBOUR, 0o666);
            }
        },
    },
    Planted {
        what: "a segment of the neighbour's that others may read",
        errno_may_differ: false,
        plant: |house, with_library| {
            if with_library {
                formed(house, |target| write_own(target, "the neighbour's", NEIGHBOUR, 0o644));
            } else {
                write_own(name(), "the neighbour's", NEIGHBOUR, 0o644);
            }
        },
    },
    Planted {
        what: "a link to a third user's file",
        errno_may_differ: false,
        plant: |house, _| link_own(&thirds(house), name(), NEIGHBOUR),
    },
    Planted {
        what: "a link to the caller's own file",
        errno_may_differ: false,
        plant: |house, _| link_own(&callers(house), name(), NEIGHBOUR),
    },
    Planted { what: "a dangling link", errno_may_differ: false, plant: |_, _| text("/nowhere/at/all") },
    Planted {
        what: "a link to a file in the target that is not of the library's form",
        errno_may_differ: false,
        plant: |house, _| {
            write_own(&house.target().join("plain"), "the neighbour's", NEIGHBOUR, 0o666);
            link_own(&house.target().join("plain"), name(), NEIGHBOUR);
        },
    },
    Planted {
        what: "a link of the library's form to a third user's file",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| write_own(target, "a third user's", THIRD, 0o666)),
    },
    Planted {
        what: "a link of the library's form to the caller's file",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| write_own(target, "the caller's", CALLER, 0o600)),
    },
    Planted {
        what: "a link of the library's form to root's file",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| write_own(target, "root's", 0, 0o600)),
    },
    Planted {
        what: "a link of the library's form to a second name of the neighbour's file",
        errno_may_differ: true,
        plant: |house, _| {
            formed(house, |target| {
                write_own(target, "the neighbour's", NEIGHBOUR, 0o666);
                fs::hard_link(target, house.target().join("second")).expect("a second name");
            })
        },
    },
    Planted {
        what: "a link of the library's form to a second name of a third user's file",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| fs::hard_link(thirds(house), target).expect("a second name")),
    },
    Planted {
        what: "a link of the library's form to a link",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| link_own(&callers(house), target, NEIGHBOUR)),
    },
    Planted {
        what: "a link of the library's form to a fifo",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| node(target, FileType::Fifo, 0)),
    },
    Planted {
        what: "a link of the library's form to a device",
        errno_may_differ: true,
        // 1:3 is /dev/null: an open of it changes nothing.
        plant: |house, _| formed(house, |target| node(target, FileType::CharacterDevice, rustix::fs::makedev(1, 3))),
    },
    Planted {
        what: "a link of the library's form to a socket",
        errno_may_differ: true,
        plant: |house, _| formed(house, |target| node(target, FileType::Socket, 0)),
    },
    Planted {
        what: "a link of the library's form to a directory",
        errno_may_differ: true,
        plant: |house, _| {
            formed(house, |target| {
                fs::create_dir(target).expect("a directory");
                own(target, NEIGHBOUR, 0o777);
            })
        },
    },
    Planted {
        what: "a link of the library's form to nothing",
        errno_may_differ: true,
        plant: |house, _| formed(house, |_| {}),
    },
    Planted {
        what: "a link through the target's parent",
        errno_may_differ: false,
        plant: |house, _| text(&format!("{0}/../target/{1}", house.target().display(), label(THIRD, 2))),
    },
    Planted {
        what: "a link with two slashes",
        errno_may_differ: false,
        plant: |house, _| text(&format!("{0}//{1}", house.target().display(), label(THIRD, 2))),
    },
    Planted {
        what: "a link below a directory in the target",
        errno_may_differ: false,
        plant: |house, _| text(&format!("{0}/sub/{1}", house.target().display(), label(THIRD, 2))),
    },
    Planted {
        what: "a relative link",
        errno_may_differ: false,
        plant: |house, _| text(&format!("../..{0}/{1}", house.target().display(), label(THIRD, 2))),
    },
    Planted {
        what: "a link of the longest text",
        errno_may_differ: false,
        plant: |_, _| text(&format!("/{}", "x".repeat(4094))),
    },
    Planted { what: "a link to itself", errno_may_differ: false, plant: |_, _| text(NAME) },
    Planted { what: "a fifo", errno_may_differ: false, plant: |_, _| node(name(), FileType::Fifo, 0) },
    Planted {
        what: "a directory",
        errno_may_differ: false,
        plant: |_, _| {
            fs::create_dir(NAME).expect("a directory");
            own(name(), NEIGHBOUR, 0o777);
        },
    },
    Planted {
        what: "a second name of a third user's segment",
        errno_may_differ: false,
        plant: |_, _| fs::hard_link("/dev/shm/thirds", NAME).expect("a second name"),
    },
];

fn node(at: &Path, kind: FileType, device: u64) {
    mknodat(CWD, at, kind, Mode::from_raw_mode(0o666), device).expect("a node");
    own(at, NEIGHBOUR, 0o666);
}

impl Planted {
    /// Makes the files of the bystanders and what is planted.
    pub fn plant(&self, house: &House, with_library: bool) {
        write_own(&thirds(house), "a third user's", THIRD, 0o644);
        write_own(&callers(house), "the caller's", CALLER, 0o600);
        write_own(Path::new("/dev/shm/thirds"), "a third user's segment", THIRD, 0o644);
        // Where the texts that look like a target's path lead in the end.
        write_own(&house.target().join(label(THIRD, 2)), "a third user's target", THIRD, 0o644);
        let below = house.target().join("sub");
        fs::create_dir(&below).expect("a directory");
        open_to_all(&below, 0o1777);
        write_own(&below.join(label(THIRD, 2)), "a third user's target", THIRD, 0o644);
        (self.plant)(house, with_library);
    }

    /// The files that belong to others: path, owner, content. What stands for the planted segment itself is left out.
    pub fn bystanders(&self, house: &House) -> Vec<(String, u32, String)> {
        let mut all = Vec::new();
        let mut places = vec![thirds(house), callers(house), PathBuf::from("/dev/shm/thirds")];
        for directory in [house.target(), house.target().join("sub")] {
            places.extend(left_in(&directory).into_iter().map(|name| directory.join(name)));
        }
        for path in places {
            let meta = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let redirected = path == house.target().join(label(NEIGHBOUR, 1)) && meta.is_file() && meta.nlink() == 1;
            if redirected && meta.uid() == NEIGHBOUR {
                continue;
            }
            let content = if meta.is_file() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
            all.push((path.display().to_string(), meta.uid(), content));
        }
        all
    }

    /// Takes everything away again.
    pub fn remove(&self, house: &House) {
        for name in left_in(Path::new("/dev/shm")) {
            remove(&Path::new("/dev/shm").join(name));
        }
        for name in left_in(&house.target()) {
            remove(&house.target().join(name));
        }
        remove(&thirds(house));
        remove(&callers(house));
    }

    /// What is compared of what the program said.
    pub fn comparable(&self, said: &str, setting: &Setting) -> String {
        if !self.errno_may_differ {
            // truncate(2) has no hook that follows: the kernel refuses another user's link (docs/security.md).
            let refused = *setting == Setting::Protected && self.what.starts_with("a segment of the neighbour's that");
            return if refused { said.replace("truncate: EACCES\n", "truncate: done\n") } else { said.to_owned() };
        }
        let outcome = |line: &str| match line.split_once(": E") {
            Some((way, _)) => format!("{way}: fails\n"),
            None => format!("{line}\n"),
        };
        said.lines().map(outcome).collect()
    }
}

fn remove(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let done = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    done.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
