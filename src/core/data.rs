//! The data in a file that may be mostly hole, as the kernel tells it (SEEK_DATA and SEEK_HOLE).

use std::os::fd::BorrowedFd;

use rustix::fs::{self, SeekFrom};
use rustix::io::{self, Errno};

/// Does the file hold at most `most` bytes of data? Its offset is as before.
pub fn holds_at_most(file: BorrowedFd<'_>, size: u64, most: u64) -> bool {
    let Ok(offset) = fs::seek(file, SeekFrom::Current(0)) else { return false };
    let (mut at, mut sum, mut known) = (0, 0u64, true);
    while at < size && sum <= most {
        match fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => {
                let end = fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
                sum = sum.saturating_add(end.saturating_sub(start));
                at = end.max(start + 1);
            }
            Err(Errno::NXIO) => break,
            Err(_) => {
                known = false;
                break;
            }
        }
    }
    let _ = fs::seek(file, SeekFrom::Start(offset));
    known && sum <= most
}

/// Copies the data of the first `size` bytes, leaving holes as holes. The offset of `from` is as before.
///
/// # Errors
/// The kernel's; EIO for a write that was cut short. A part may have been copied.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    let offset_before = fs::seek(from, SeekFrom::Current(0))?;
    let mut result = Ok(());
    let mut buffer = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < size {
        // Data and holes are told by the kernel; where it cannot, everything is data.
        let start = match fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let end = fs::seek(from, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        at = start;
        while at < end {
            let want = ((end - at) as usize).min(buffer.len());
            let Some(part) = buffer.get_mut(..want) else { break };
            match io::pread(from, &mut *part, at) {
                Ok(0) => break,
                Ok(got) => match part.get(..got).map(|part| io::pwrite(to, part, at)) {
                    Some(Ok(written)) if written == got => at += got as u64,
                    _ => result = Err(Errno::IO),
                },
                Err(Errno::INTR) => continue,
                Err(error) => result = Err(error),
            }
            if result.is_err() {
                break;
            }
        }
        if result.is_err() || at < end {
            break;
        }
    }
    let _ = fs::seek(from, SeekFrom::Start(offset_before));
    result
}
