//! sendmsg and sendmmsg: a descriptor that is passed to another process before its segment is sized makes the segment shared,
//! and no lease can see that (the open file is the same one). Cancellation points; see `open`.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{size_of, transmute};

use libc::{cmsghdr, mmsghdr, msghdr, size_t, ssize_t};
use shmguard_core::syscall6;

use crate::{errno, life, next};

/// Notes the descriptors in a message. No system call.
///
/// # Safety
/// `message` is null or the program's own message.
#[inline]
unsafe fn look(message: *const msghdr) {
    let Some(engine) = life::engine().filter(|engine| !engine.is_idle()) else { return };
    // SAFETY: the caller's.
    let Some(header) = (unsafe { message.as_ref() }) else { return };
    if header.msg_control.is_null() {
        return;
    }
    let buffer = header.msg_control.cast::<u8>();
    let length = low(header.msg_controllen);
    let mut at = 0;
    while at + size_of::<cmsghdr>() <= length {
        // SAFETY: the header lies inside the control buffer that the program described.
        let control = unsafe { buffer.add(at).cast::<cmsghdr>().read_unaligned() };
        let size = low(control.cmsg_len);
        if size < size_of::<cmsghdr>() {
            return;
        }
        if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
            let bytes = size.min(length - at) - size_of::<cmsghdr>();
            for index in 0..(bytes / size_of::<c_int>()).min(253) {
                // SAFETY: the number lies inside the message, and that inside the buffer.
                let fd = unsafe { buffer.add(at + size_of::<cmsghdr>()).cast::<c_int>().add(index).read_unaligned() };
                life::lightly((), || engine.passing(fd));
            }
        }
        // Messages begin at multiples of a word (CMSG_ALIGN of cmsg(3)).
        at += size.next_multiple_of(size_of::<usize>());
    }
}

/// The length in a header: in musl 32 bits, with padding behind them that may hold anything; in glibc 64, of which the kernel
/// accepts no more than 31.
fn low(length: size_t) -> usize {
    length as u32 as usize
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    // SAFETY: the address is that of the function; the arguments are the program's.
    unsafe {
        look(message);
        match next::SENDMSG.is_known() {
            true => transmute::<*mut c_void, Real>(next::SENDMSG.address())(socket, message, flags),
            false => errno::from_raw(syscall6(
                libc::SYS_sendmsg,
                socket as isize as usize,
                message as usize,
                flags as usize,
                0,
                0,
                0,
            )),
        }
    }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    // SAFETY: the address is that of the function; the arguments are the program's, `count` messages long.
    unsafe {
        if !messages.is_null() && life::engine().is_some_and(|engine| !engine.is_idle()) {
            for index in 0..count.min(1024) as usize {
                look(&raw const (*messages.add(index)).msg_hdr);
            }
        }
        match next::SENDMMSG.is_known() {
            true => transmute::<*mut c_void, Real>(next::SENDMMSG.address())(socket, messages, count, flags),
            false => errno::from_raw(syscall6(
                libc::SYS_sendmmsg,
                socket as isize as usize,
                messages as usize,
                count as usize,
                flags as usize,
                0,
                0,
            )) as c_int,
        }
    }
}
