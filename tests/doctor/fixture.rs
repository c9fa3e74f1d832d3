//! A tree of tests/fixtures/doctor, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

/// An unpacked tree; it goes with the value.
pub struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    /// Unpacks `tests/fixtures/doctor/NAME.txt`.
    pub fn of(name: &str) -> Tree {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/doctor/{name}.txt"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut parts = text.split("--- ");
        let head = parts.next().unwrap_or("");
        assert!(head.contains("Source: "), "{name}.txt does not say where its lines come from");
        let tree = Tree { directory: tempfile::tempdir().expect("a directory") };
        for part in parts {
            let (path, content) = part.split_once('\n').unwrap_or((part, ""));
            if path.ends_with('/') {
                fs::create_dir_all(tree.path(path)).expect("a directory of the tree");
            } else {
                tree.write(path, content);
            }
        }
        tree
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Writes a file of the tree.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory of the tree");
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Replaces a piece of a file of the tree, which must be there.
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.path(path)).expect(path);
        assert!(text.contains(old), "{path} has no {old}");
        self.write(path, text.replace(old, new));
    }
}
