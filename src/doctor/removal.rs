//! RemoveIPC of systemd-logind: it deletes all segments of a user whose last session has ended, also those in use.

use serde::Serialize;

use super::root::Root;

/// What logind does with segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoveIpc {
    /// The setting in force; upstream's default is yes (logind.conf(5)).
    pub on: bool,
    /// The file that sets it; `None`: nobody, the default holds.
    pub set_by: Option<String>,
    /// logind runs here.
    pub logind: bool,
    /// It concerns this user: neither root nor a system user, and not lingering.
    pub concerns_us: bool,
}

/// Users below this number are system users, whose segments logind leaves alone (SYS_UID_MAX).
const FIRST_USER: u64 = 1000;

impl RemoveIpc {
    /// Reads logind's configuration, in its order: the file, then the drop-ins by name, where a name in /etc wins over one
    /// in /run and that over one in /usr/lib (systemd.conf's rules).
    pub fn look(root: &Root) -> RemoveIpc {
        let mut files = vec!["/etc/systemd/logind.conf".to_owned()];
        let mut dropins: Vec<(std::path::PathBuf, String)> = Vec::new();
        for place in ["/etc", "/run", "/usr/local/lib", "/usr/lib"] {
            let directory = format!("{place}/systemd/logind.conf.d");
            for name in root.names(&directory) {
                let conf = name.extension().is_some_and(|extension| extension == "conf");
                if conf && !dropins.iter().any(|(known, _)| *known == name) {
                    dropins.push((name.clone(), format!("{directory}/{}", name.display())));
                }
            }
        }
        dropins.sort();
        files.extend(dropins.into_iter().map(|(_, path)| path));
        let mut found = RemoveIpc { on: true, set_by: None, logind: false, concerns_us: false };
        for file in files {
            let text = root.text(&file).unwrap_or_default();
            if let Some(value) = text.lines().filter_map(setting).next_back() {
                found.on = value;
                found.set_by = Some(file);
            }
        }
        found.logind = root.has("/run/systemd/seats") || root.has("/run/systemd/sessions");
        found.concerns_us = concerns(root);
        found
    }

    /// What makes it so, where it is on.
    pub fn source(&self) -> String {
        match &self.set_by {
            Some(file) => format!("RemoveIPC=yes in {file}"),
            None => "systemd-logind's default RemoveIPC=yes".into(),
        }
    }
}

/// The value of a line `RemoveIPC=...`.
fn setting(line: &str) -> Option<bool> {
    let (name, value) = line.trim().split_once('=')?;
    (name.trim() == "RemoveIPC")
        .then(|| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "y" | "yes" | "t" | "true" | "on"))
}

fn concerns(root: &Root) -> bool {
    let status = root.text("proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse::<u64>().ok());
    let Some(uid) = uid.filter(|uid| *uid >= FIRST_USER) else { return false };
    let users = root.text("etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    !name.is_some_and(|name| root.has(format!("/var/lib/systemd/linger/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        assert_eq!(setting("RemoveIPC=yes"), Some(true));
        assert_eq!(setting(" RemoveIPC = no "), Some(false));
        assert_eq!(setting("#RemoveIPC=yes"), None);
        assert_eq!(setting("[Login]"), None);
    }
}
