//! shm_open and shm_unlink: openat and unlinkat with glibc's rules (shm_open(3), posix/shm-directory.c of glibc 2.36), so that
//! no librt has to be loaded and a link of ours can be followed. Another preload's shm_open is called where there is one.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

use libc::mode_t;
use redhook::{hook, real};
use rustix::fs::OFlags;

use shmguard_core::engine::{Before, Creation, Engine};
use shmguard_core::quiet::Undisturbed;
use shmguard_core::segment::Origin;
use shmguard_core::syscall6;

use super::open::{close, failed, followed, Patience};
use super::path;
use crate::{errno, life, next};

/// Whether the next definition is another preload's: asked at the first call, for dladdr would be half of what the library costs
/// a process that never calls.
struct Foreign(AtomicU8);

static FOREIGN_OPEN: Foreign = Foreign(AtomicU8::new(0));
static FOREIGN_UNLINK: Foreign = Foreign(AtomicU8::new(0));

impl Foreign {
    fn is(&self, next: &next::Next) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let answer = next::is_foreign(next);
                self.0.store(1 + u8::from(answer), Ordering::Relaxed);
                answer
            }
            known => known == 2,
        }
    }
}

/// Resolves redhook's functions.
pub fn resolve() {
    if next::SHM_OPEN.is_known() {
        let _ = real!(shm_open);
    }
    if next::SHM_UNLINK.is_known() {
        let _ = real!(shm_unlink);
    }
}

/// Longest name with the directory in front and a NUL behind; a longer one is the kernel's to refuse.
const LONGEST: usize = 9 + 255 + 1;

/// What libc's own shm_open adds to the flags. musl's (src/mman/shm_open.c) adds O_NONBLOCK, which F_GETFL shows.
fn added_flags() -> c_int {
    let musl = if next::is_musl() { libc::O_NONBLOCK } else { 0 };
    libc::O_NOFOLLOW | libc::O_CLOEXEC | musl
}

/// The path that libc makes of a name; an errno where it refuses.
struct Path {
    bytes: [u8; LONGEST + 8],
    length: usize,
}

impl Path {
    /// # Safety
    /// The program's own string.
    unsafe fn of(name: *const c_char) -> Result<Path, c_int> {
        // SAFETY: the caller's.
        let name = unsafe { path(name) }.ok_or(libc::EFAULT)?;
        let start = name.iter().position(|byte| *byte != b'/').unwrap_or(name.len());
        let name = name.get(start..).unwrap_or(&[]);
        if name.is_empty() || name.contains(&b'/') || (next::is_musl() && matches!(name, b"." | b"..")) {
            return Err(libc::EINVAL);
        }
        // glibc's buffer holds four bytes more than a name may have (for "sem."); what does not fit it calls invalid.
        if name.len() > 255 + 4 && !next::is_musl() {
            return Err(libc::EINVAL);
        }
        if name.len() > 255 {
            return Err(libc::ENAMETOOLONG);
        }
        let mut path = Path { bytes: [0; LONGEST + 8], length: 9 + name.len() };
        for (place, byte) in path.bytes.iter_mut().zip(b"/dev/shm/".iter().chain(name)) {
            *place = *byte;
        }
        Ok(path)
    }

    fn name(&self) -> &[u8] {
        self.bytes.get(9..self.length).unwrap_or(&[])
    }

    fn open(&self, flags: c_int, mode: mode_t) -> c_int {
        let flags = flags | added_flags();
        // SAFETY: a NUL-terminated path in a live buffer.
        let answer = unsafe {
            syscall6(
                libc::SYS_openat,
                libc::AT_FDCWD as isize as usize,
                self.bytes.as_ptr() as usize,
                flags as usize,
                mode as usize,
                0,
                0,
            )
        };
        let fd = errno::from_raw(answer) as c_int;
        if fd < 0 && errno::get() == libc::EISDIR && !next::is_musl() {
            errno::set(libc::EINVAL);
        }
        fd
    }
}

/// One call of shm_open.
struct Call<'a> {
    name: *const c_char,
    /// Made of `name`.
    path: &'a Path,
    flags: c_int,
    mode: mode_t,
}

impl Call<'_> {
    /// What is not redirected: another preload's shm_open, or the kernel; with these flags.
    ///
    /// # Safety
    /// The program's own name.
    unsafe fn plain(&self, flags: c_int) -> c_int {
        if FOREIGN_OPEN.is(&next::SHM_OPEN) {
            // SAFETY: the program's own call but for O_EXCL.
            return unsafe { real!(shm_open)(self.name, flags, self.mode) };
        }
        self.path.open(flags, self.mode)
    }

    /// # Safety
    /// As for [`Call::plain`].
    unsafe fn attach(&self, engine: &'static Engine, guard: usize) -> c_int {
        let before = errno::get();
        let mut patience = Patience::new();
        loop {
            // SAFETY: the caller's.
            let fd = unsafe { self.plain(self.flags) };
            if fd < 0 {
                let flags = self.flags | added_flags() & !libc::O_NOFOLLOW;
                match followed(engine, guard, self.path.name(), flags, before, &mut patience) {
                    None => continue,
                    Some(fd) => return fd,
                }
            }
            if !life::shielded(false, || engine.opened(guard, fd)) || !patience.again() {
                return fd;
            }
            close(fd);
        }
    }

    /// # Safety
    /// As for [`Call::plain`].
    unsafe fn create(&self, engine: &'static Engine, guard: usize) -> c_int {
        let exclusive = self.flags & libc::O_EXCL != 0;
        let creation = Creation {
            guard,
            name: self.path.name(),
            origin: if exclusive { Origin::ShmOpen } else { Origin::Rendezvous },
            flags: OFlags::from_bits_retain((self.flags | added_flags() & !libc::O_NOFOLLOW) as u32),
            mode: self.mode,
        };
        let before = errno::get();
        match life::shielded(Before::Pass, || engine.before_creating(&creation)) {
            // SAFETY: the caller's.
            Before::Pass => unsafe { self.attach(engine, guard) },
            Before::Made(fd) => fd,
            Before::Proceed(plan) => {
                // SAFETY: the caller's; O_EXCL tells who created the segment.
                let fd = unsafe { self.plain(self.flags | libc::O_EXCL) };
                if fd >= 0 {
                    life::shielded((), || engine.created(&plan, self.path.name(), fd));
                    return fd;
                }
                if !exclusive && errno::get() == libc::EEXIST {
                    errno::set(before);
                    // SAFETY: the caller's.
                    return unsafe { self.attach(engine, guard) };
                }
                failed(engine, &plan, self.path.name());
                fd
            }
        }
    }
}

hook! {
    unsafe fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int => shmguard_shm_open {
        // SAFETY: the program's own string.
        let path = match unsafe { Path::of(name) } {
            Ok(path) => path,
            Err(error) => {
                errno::set(error);
                return -1;
            }
        };
        let call = Call { name, path: &path, flags, mode };
        match life::engine().and_then(|engine| Some((engine, engine.posix_guard()?))) {
            // SAFETY: the program's own call, here and below.
            None => unsafe { call.plain(flags) },
            // SAFETY: as above.
            Some((engine, guard)) if flags & libc::O_CREAT != 0 => unsafe { call.create(engine, guard) },
            // SAFETY: as above.
            Some((engine, guard)) => unsafe { call.attach(engine, guard) },
        }
    }
}

hook! {
    unsafe fn shm_unlink(name: *const c_char) -> c_int => shmguard_shm_unlink {
        // SAFETY: the program's own string.
        let path = match unsafe { Path::of(name) } {
            Ok(path) => path,
            // glibc's shm_unlink says ENOENT where shm_open says EINVAL.
            Err(error) => {
                errno::set(if error == libc::EINVAL && !next::is_musl() { libc::ENOENT } else { error });
                return -1;
            }
        };
        let guarded = life::engine().and_then(|engine| Some((engine, engine.posix_guard()?)));
        let link = guarded.and_then(|(engine, guard)| life::shielded(None, || Some(engine.unlinking(guard, path.name()))));
        // Where a target goes with the name, no handler jumps out between the two.
        let _undisturbed = link.as_ref().filter(|link| link.is_ours()).map(|_| Undisturbed::new());
        let result = if FOREIGN_UNLINK.is(&next::SHM_UNLINK) {
            // SAFETY: the program's own call.
            unsafe { real!(shm_unlink)(name) }
        } else {
            // SAFETY: a NUL-terminated path in a live buffer.
            let answer = unsafe {
                // As libc does it: a sandbox may allow just this call.
                #[cfg(target_arch = "x86_64")]
                let answer = syscall6(libc::SYS_unlink, path.bytes.as_ptr() as usize, 0, 0, 0, 0, 0);
                #[cfg(not(target_arch = "x86_64"))]
                let answer =
                    syscall6(libc::SYS_unlinkat, libc::AT_FDCWD as isize as usize, path.bytes.as_ptr() as usize, 0, 0, 0, 0);
                answer
            };
            let result = errno::from_raw(answer) as c_int;
            if result < 0 && errno::get() == libc::EPERM && !next::is_musl() {
                errno::set(libc::EACCES);
            }
            result
        };
        if let (0, Some((engine, guard)), Some(link)) = (result, guarded, link) {
            life::shielded((), || {
                engine.unlinked(&link);
                engine.log_unlinked(guard, path.name());
            });
        }
        result
    }
}
