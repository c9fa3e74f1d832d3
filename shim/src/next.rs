//! The next definition of each hooked function: another preload's or libc's.
//!
//! Looked up once, in the constructor. Before that (and where there is none) a hook makes the system call itself.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A function that may stand behind one of ours.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Is it known?
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        !self.address.load(Ordering::Relaxed).is_null()
    }

    /// Its address, or null.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        self.address.load(Ordering::Relaxed)
    }
}

macro_rules! table {
    ($($constant:ident = $name:literal,)*) => {
        $(#[doc = concat!("`", $name, "`.")] pub static $constant: Next = Next::new(match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name with a NUL"),
        });)*
        /// All of them.
        static ALL: &[&Next] = &[$(&$constant),*];
    };
}

table! {
    SHM_OPEN = "shm_open",
    SHM_UNLINK = "shm_unlink",
    OPEN = "open",
    OPEN64 = "open64",
    OPENAT = "openat",
    OPENAT64 = "openat64",
    OPEN_2 = "__open_2",
    OPEN64_2 = "__open64_2",
    OPENAT_2 = "__openat_2",
    OPENAT64_2 = "__openat64_2",
    CREAT = "creat",
    CREAT64 = "creat64",
    MKSTEMP = "mkstemp",
    MKSTEMP64 = "mkstemp64",
    MKOSTEMP = "mkostemp",
    MKOSTEMP64 = "mkostemp64",
    MKSTEMPS = "mkstemps",
    MKSTEMPS64 = "mkstemps64",
    MKOSTEMPS = "mkostemps",
    MKOSTEMPS64 = "mkostemps64",
    FTRUNCATE = "ftruncate",
    FTRUNCATE64 = "ftruncate64",
    TRUNCATE = "truncate",
    TRUNCATE64 = "truncate64",
    POSIX_FALLOCATE = "posix_fallocate",
    POSIX_FALLOCATE64 = "posix_fallocate64",
    FALLOCATE = "fallocate",
    FALLOCATE64 = "fallocate64",
    MMAP = "mmap",
    MMAP64 = "mmap64",
    UNLINK = "unlink",
    UNLINKAT = "unlinkat",
    REMOVE = "remove",
    RENAME = "rename",
    RENAMEAT = "renameat",
    RENAMEAT2 = "renameat2",
    LINKAT = "linkat",
    CHOWN = "chown",
    LCHOWN = "lchown",
    FCHOWN = "fchown",
    FCHOWNAT = "fchownat",
    STATFS = "statfs",
    STATFS64 = "statfs64",
    FSTATFS = "fstatfs",
    FSTATFS64 = "fstatfs64",
    STATVFS = "statvfs",
    STATVFS64 = "statvfs64",
    FSTATVFS = "fstatvfs",
    FSTATVFS64 = "fstatvfs64",
    WRITE = "write",
    PRCTL = "prctl",
    SYSCALL = "syscall",
    WAIT = "wait",
    WAITPID = "waitpid",
    WAIT3 = "wait3",
    WAIT4 = "wait4",
    WAITID = "waitid",
    SENDMSG = "sendmsg",
    SENDMMSG = "sendmmsg",
    SYMLINK = "symlink",
    SYMLINKAT = "symlinkat",
    CHDIR = "chdir",
    FCHDIR = "fchdir",
}

/// Looks all of them up.
pub fn look_up() {
    let mut missing = false;
    for next in ALL {
        // SAFETY: dlsym with RTLD_NEXT reads the name and answers with an address or null.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, next.name.as_ptr()) };
        next.address.store(address, Ordering::Release);
        missing |= address.is_null();
    }
    MUSL.store(!OPEN_2.is_known(), Ordering::Relaxed);
    if missing {
        // musl has no fortified functions, an old glibc no renameat2. The program's first dlerror must not tell of that.
        // SAFETY: takes nothing; what it returns is not read.
        unsafe { libc::dlerror() };
    }
}

static MUSL: AtomicBool = AtomicBool::new(false);

/// Is libc musl? It alone has no fortified functions (glibc has `__open_2` since 2.7). False before the constructor.
pub fn is_musl() -> bool {
    MUSL.load(Ordering::Relaxed)
}

/// Has libc call these around every fork (pthread_atfork(3)).
///
/// glibc's pthread_atfork lies in the static part of libc and calls `__register_atfork`, which musl has not; a library that is
/// linked against either cannot be loaded by the other. So whichever is there is looked up.
pub fn at_fork(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    type Handler = extern "C" fn();
    type Glibc = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    type Musl = unsafe extern "C" fn(Handler, Handler, Handler) -> c_int;
    // SAFETY: dlsym reads a name; each address is that of the function named, whose type is written here (glibc's sysdeps,
    // nptl/register-atfork.c: the last argument is what dlclose would ask by, and we are never unloaded). The handlers stay.
    unsafe {
        let glibc = libc::dlsym(libc::RTLD_DEFAULT, c"__register_atfork".as_ptr());
        if !glibc.is_null() {
            transmute::<*mut c_void, Glibc>(glibc)(before, in_parent, in_child, std::ptr::null_mut());
            return;
        }
        let musl = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_atfork".as_ptr());
        if !musl.is_null() {
            transmute::<*mut c_void, Musl>(musl)(before, in_parent, in_child);
        }
    }
}

/// Is the next shm_open another preload's (anything but libc's or librt's)? Then it is called for what is not redirected.
pub fn is_foreign(next: &Next) -> bool {
    if !next.is_known() {
        return false;
    }
    // SAFETY: a Dl_info is plain data for which zero is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr writes into the live local and returns names that live as long as the object is loaded.
    let found = unsafe { libc::dladdr(next.address(), &mut info) };
    let name: *const c_char = info.dli_fname;
    if found == 0 || name.is_null() {
        return false;
    }
    // SAFETY: a NUL-terminated name of a loaded object.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    // musl's libc is its loader, and goes by either name.
    ![&b"libc.so"[..], b"libc-", b"librt", b"ld-musl-"].iter().any(|libc| file.starts_with(libc))
}
