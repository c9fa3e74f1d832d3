//! What the name of a segment tells about its program, and so about how it must be treated.
//!
//! Names are hints for policy, never proof: anybody may choose any name. Whatever this module
//! says, a segment is moved only when the kernel's own answers allow it.

/// What is known of a segment from its name in the guarded directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing special is known.
    Plain,
    /// Sized large and touched little, on purpose: reserving it would take memory that its program
    /// never uses. Ray's and Arrow's plasma store (`plasmaXXXXXX`), PulseAudio (`pulse-shm-ID`: 64
    /// MiB mapped MAP_NORESERVE, a few pages used), Open MPI (`vader_segment.*`, since version 5
    /// `sm_segment.*`: 4 MiB a rank of which some 140 KB are used).
    Sparse,
    /// Gets pinned for a device (cudaHostRegister, RDMA). The kernel refuses long-term pins of
    /// writable shared mappings of a disk file with EFAULT, so only RAM will do: NCCL (`nccl-*`),
    /// the CUDA runtime and driver (`cudart.shm.*`, `cuda.shm.*`), NVSHMEM (`nvshmem*`), UCX (`ucx_*`).
    Pinned,
    /// Attached by others only after its creator has sized it and told them the name, so that it
    /// may be moved even where the kernel cannot say who has it open: PyTorch (`torch_*`), CPython's
    /// SharedMemory (`psm_*`), PostgreSQL (`PostgreSQL.*`: the handle travels through the main shared
    /// memory, a worker attaches within a millisecond but never before).
    LateAttach,
    /// A named semaphore (`sem.*`): one page, opened by the C library with O_NOFOLLOW by calls that
    /// no hook sees. Never moved. (`sem.XXXXXX` is also its temporary name.)
    Semaphore,
    /// Book-keeping of a runtime, a page or so, never worth a word: LLVM's and Intel's OpenMP
    /// (`__KMP_REGISTERED_LIB_PID_UID`, 1 KiB, in every program that uses it). Never moved.
    System,
}

impl Kind {
    /// Whether a segment of this kind stays where it is whatever happens.
    pub fn stays(self) -> bool {
        matches!(self, Kind::Semaphore | Kind::System)
    }

    /// Whether what a segment of this kind was promised counts as wanted before it holds it: it will be used, all of it.
    pub fn is_used_in_full(self) -> bool {
        !self.stays() && self.may_be_reserved()
    }

    /// Whether a reservation takes only what the program is going to use anyway.
    pub fn may_be_reserved(self) -> bool {
        !matches!(self, Kind::Sparse)
    }
}

/// Prefixes, and what they tell. No prefix here is the beginning of another one.
const PREFIXES: &[(&[u8], Kind)] = &[
    (b"sem.", Kind::Semaphore),
    (b"__KMP_REGISTERED_LIB_", Kind::System),
    (b"torch_", Kind::LateAttach),
    (b"psm_", Kind::LateAttach),
    (b"PostgreSQL.", Kind::LateAttach),
    (b"nccl-", Kind::Pinned),
    (b"cudart.shm.", Kind::Pinned),
    (b"cuda.shm.", Kind::Pinned),
    (b"nvshmem", Kind::Pinned),
    (b"ucx_", Kind::Pinned),
    (b"plasma", Kind::Sparse),
    (b"pulse-shm-", Kind::Sparse),
    (b"vader_segment.", Kind::Sparse),
    (b"sm_segment.", Kind::Sparse),
];

/// What `name` tells: the last component of the path, or the argument of `shm_open`, whose leading
/// slashes do not count.
pub fn kind(name: &[u8]) -> Kind {
    let start = name.iter().position(|&byte| byte != b'/').unwrap_or(name.len());
    let name = name.get(start..).unwrap_or_default();
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Kind::Plain, |&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_programs_are_known() {
        for (name, expected) in [
            ("torch_1234_2849213_7", Kind::LateAttach),
            ("/torch_1234_2849213_7", Kind::LateAttach),
            ("psm_0a1b2c3d", Kind::LateAttach),
            ("PostgreSQL.1804289383", Kind::LateAttach),
            ("nccl-aB3dEf", Kind::Pinned),
            ("nccl-shm-send-1-2-3", Kind::Pinned),
            ("cudart.shm.2f.1.0", Kind::Pinned),
            ("cuda.shm.0.1f2.1", Kind::Pinned),
            ("nvshmem-shm-1", Kind::Pinned),
            ("ucx_shm_posix_7c1", Kind::Pinned),
            ("plasmaQ1w2E3", Kind::Sparse),
            ("pulse-shm-3735928559", Kind::Sparse),
            ("vader_segment.node1.0.9d1.0", Kind::Sparse),
            ("sm_segment.node1.0.9d1.0", Kind::Sparse),
            ("sem.mp-a1b2c3", Kind::Semaphore),
            ("__KMP_REGISTERED_LIB_4711_0", Kind::System),
            ("__KMP_", Kind::Plain),
            ("mpich_shar_tmpAbCdEf", Kind::Plain),
            ("pym-4711-x1y2z3", Kind::Plain),
            (".org.chromium.Chromium.AbCdEf", Kind::Plain),
            ("osc_sm.node1.1", Kind::Plain),
            ("mysem.x", Kind::Plain),
            ("", Kind::Plain),
            ("///", Kind::Plain),
        ] {
            assert_eq!(kind(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn the_order_of_the_prefixes_does_not_matter() {
        for (index, (one, _)) in PREFIXES.iter().enumerate() {
            for (other, _) in PREFIXES.iter().skip(index + 1) {
                assert!(!one.starts_with(other) && !other.starts_with(one));
            }
        }
    }

    #[test]
    fn what_a_kind_forbids() {
        assert!(Kind::Semaphore.stays() && Kind::System.stays());
        assert!(!Kind::Plain.stays() && !Kind::Pinned.stays());
        assert!(!Kind::Sparse.may_be_reserved() && Kind::Pinned.may_be_reserved());
        let full = [Kind::Plain, Kind::LateAttach, Kind::Pinned];
        assert!(full.iter().all(|kind| kind.is_used_in_full()));
        assert!(![Kind::Sparse, Kind::Semaphore, Kind::System].iter().any(|kind| kind.is_used_in_full()));
    }
}
