//! Starting CMD: its environment, its private /dev/shm, its process group and the terminal.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{bail, Context};
use rustix::io::Errno;
use rustix::mount::{mount, mount_change, MountFlags, MountPropagationFlags};
use rustix::process::{getegid, geteuid, getpgrp, Pid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use rustix::thread::{unshare_unsafe, UnshareFlags};

use super::signals::Signals;

/// What to do where no mount namespace is to be had, as in most containers.
const NOT_ALLOWED: &str =
    "--shm-size needs a mount namespace, which cannot be made here (that takes CAP_SYS_ADMIN or user \
    namespaces). Start the container with docker run --shm-size instead, or leave the option out";

/// Gives this process and what it starts a /dev/shm of their own, `size` bytes large.
///
/// # Errors
/// Neither privilege nor user namespaces here, or no /dev/shm to mount on; says what to do instead.
pub fn private_shm(size: u64) -> anyhow::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // SAFETY: this process has one thread and relies on nothing that a namespace of its own changes.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    match unshare(UnshareFlags::NEWNS) {
        Ok(()) => {}
        Err(Errno::PERM) => {
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).context(NOT_ALLOWED)?;
            // The same user as outside; groups cannot be changed, which the kernel demands before the map.
            let write = |name: &str, text: String| {
                fs::write(format!("/proc/self/{name}"), text).with_context(|| format!("writing /proc/self/{name}"))
            };
            write("setgroups", "deny".to_owned()).or_else(|error| {
                // Before Linux 3.19 there is no such file.
                if Path::new("/proc/self/setgroups").exists() {
                    Err(error)
                } else {
                    Ok(())
                }
            })?;
            write("uid_map", format!("{uid} {uid} 1"))?;
            write("gid_map", format!("{gid} {gid} 1"))?;
        }
        Err(error) => return Err(error).context(NOT_ALLOWED),
    }
    // What is mounted here stays here; what is mounted outside still arrives.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
        .context("--shm-size: setting the propagation of mounts")?;
    let shm = Path::new("/dev/shm");
    match fs::metadata(shm) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => bail!("--shm-size: /dev/shm is not a directory here"),
        Err(_) => fs::create_dir(shm).context("--shm-size: there is no /dev/shm to mount on, and it cannot be made")?,
    }
    let options = std::ffi::CString::new(format!("size={size},mode=1777")).context("mount options")?;
    mount("shm", shm, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
        .with_context(|| format!("--shm-size: mounting a tmpfs of {size} bytes on /dev/shm"))
}

/// LD_PRELOAD with `library` in front of what is there.
///
/// # Errors
/// ld.so takes blanks and colons for separators and has no way to quote them.
pub fn preload(library: &Path, present: Option<&OsStr>) -> anyhow::Result<OsString> {
    let path = library.as_os_str().as_bytes();
    if path.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        bail!("{}: a path with a blank or a colon cannot be preloaded (ld.so(8)); move the library", library.display());
    }
    let mut value = path.to_vec();
    if let Some(present) = present.filter(|present| !present.is_empty()) {
        let listed = present.as_bytes().split(|byte| matches!(byte, b' ' | b':')).any(|one| one == path);
        if listed {
            return Ok(present.to_owned());
        }
        value.push(b':');
        value.extend_from_slice(present.as_bytes());
    }
    Ok(OsString::from_vec(value))
}

/// LD_PRELOAD as it is, without `library`: for a program that it would end. `None`: nothing is left of it.
pub fn without(library: &Path, present: Option<&OsStr>) -> Option<OsString> {
    let entries = present?.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    let others: Vec<&[u8]> =
        entries.filter(|entry| !entry.is_empty() && *entry != library.as_os_str().as_bytes()).collect();
    (!others.is_empty()).then(|| OsString::from_vec(others.join(&b':')))
}

/// The terminal, when this command holds its foreground.
pub struct Terminal {
    fd: OwnedFd,
    own: Pid,
}

impl Terminal {
    /// `None`: no controlling terminal. `holds` tells whether our process group has its foreground.
    pub fn open() -> Option<Terminal> {
        let tty = fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal { fd: tty.into(), own: getpgrp() })
    }

    /// Has our process group its foreground?
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(self.fd.as_fd()) == Ok(self.own)
    }

    /// Gives the foreground to a process group. SIGTTOU is blocked, as everything is.
    pub fn give(&self, group: i32) {
        if let Some(group) = Pid::from_raw(group) {
            let _ = tcsetpgrp(self.fd.as_fd(), group);
        }
    }

    /// Takes the foreground back from the group that we gave it to, and only from that.
    pub fn take_back(&self, group: i32) {
        if tcgetpgrp(self.fd.as_fd()).map(|holder| holder.as_raw_nonzero().get()) == Ok(group) {
            let _ = tcsetpgrp(self.fd.as_fd(), self.own);
        }
    }
}

/// Starts CMD in a process group of its own, in the terminal's foreground if that is ours, with the signal mask that this
/// command was started with.
///
/// # Errors
/// exec's: ENOENT where there is no such program, else why it cannot be run.
pub fn start(
    words: &[OsString],
    environment: &[(OsString, Option<OsString>)],
    signals: &Signals,
    terminal: Option<&Terminal>,
) -> io::Result<Child> {
    let attempt = |program: &OsStr, arguments: &[OsString]| {
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mask = signals.original();
        let tty = terminal.filter(|terminal| terminal.is_ours()).map(|terminal| terminal.fd.try_clone()).transpose()?;
        // SAFETY: between fork and exec only tcsetpgrp, getpid and the mask's system call are made.
        unsafe {
            command.pre_exec(move || {
                if let Some(tty) = &tty {
                    // The parent blocks everything, and so does this process until the mask is set below: no SIGTTOU.
                    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
                    libc::sigfillset(all.as_mut_ptr());
                    libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
                    let _ = tcsetpgrp(tty, rustix::process::getpid());
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
        command.spawn()
    };
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    match attempt(program, arguments) {
        // A script without an interpreter line: shells run it themselves.
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let path = super::elf::find(program).map_or_else(|| program.clone(), |path| path.into_os_string());
            attempt(OsStr::new("/bin/sh"), &[&[path], arguments].concat())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_and_only_once() {
        let library = Path::new("/usr/lib/libshmguard.so");
        assert_eq!(preload(library, None).expect("right"), "/usr/lib/libshmguard.so");
        assert_eq!(preload(library, Some("".as_ref())).expect("right"), "/usr/lib/libshmguard.so");
        assert_eq!(preload(library, Some("a.so b.so".as_ref())).expect("right"), "/usr/lib/libshmguard.so:a.so b.so");
        let present = OsStr::new("a.so:/usr/lib/libshmguard.so");
        assert_eq!(preload(library, Some(present)).expect("right"), present);
        assert!(preload(Path::new("/my lib/libshmguard.so"), None).is_err());
    }
}
