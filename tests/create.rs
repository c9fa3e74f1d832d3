//! Every way to create a segment and every way to size it, in both widths of off_t: what does not fit into `/dev/shm` is
//! written, attached and removed as in a `/dev/shm` that is large enough.

mod harness;

use harness::{house, program_file, Program, MIB};

/// One life of a segment of 32 MiB, first without the library in a large `/dev/shm`, then with it in one of 16 MiB.
/// All bytes are touched: a segment that stayed would end in SIGBUS or ENOSPC.
fn same_as_in_a_large_shm(create: &str, sizing: &str) {
    const BYTES: u64 = 32 * MIB;
    for flags in [&[][..], &["-D_FILE_OFFSET_BITS=64"]] {
        let segment = || Program::from("segment").flags(flags);
        let mut expected = String::new();
        house("size=1g", |house| {
            let run = house.program(segment()).arg(create).arg(sizing).number(BYTES).without_library();
            expected = run.output().well().silent().stdout;
            house.nothing_left();
        });
        house("size=16m", |house| {
            let run = house.program(segment()).arg(create).arg(sizing).number(BYTES);
            assert_eq!(run.output().well().stdout, expected);
            house.nothing_left();
        });
    }
}

/// Tests `CREATE::SIZING` for each pair.
macro_rules! lives {
    ($($create:ident: $($sizing:ident)*;)*) => {$(
        mod $create {
            $(#[test]
            fn $sizing() {
                super::same_as_in_a_large_shm(stringify!($create), stringify!($sizing));
            })*
        }
    )*};
}

lives! {
    shm_open: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite
        ftruncate_posix_fallocate_write;
    open: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    open_no_excl: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    open_relative: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    openat_absolute: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    openat_directory: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    creat: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    mkstemp: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    mkostemp: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    mkstemps: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    mkostemps: ftruncate truncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
    tmpfile: ftruncate posix_fallocate fallocate fallocate_keep_size lseek_write pwrite;
}

#[test]
fn twice_the_docker_default_lives() {
    for sizing in ["ftruncate", "posix_fallocate", "lseek_write"] {
        house("size=64m", |house| {
            house.program("segment").arg("shm_open").arg(sizing).number(128 * MIB).output().well();
            house.nothing_left();
        });
    }
}

#[test]
fn without_the_library_twice_the_docker_default_dies() {
    // What the other tests of this file rest on: here a segment that stays cannot be written.
    house("size=64m", |house| {
        let run = |sizing| house.program("segment").arg("shm_open").arg(sizing).number(128 * MIB).without_library();
        run("ftruncate").output().killed_by(rustix::process::Signal::BUS);
        std::fs::remove_file("/dev/shm/seg").expect("what the dead program left");
        assert_eq!(run("posix_fallocate").output().code, Some(1));
    });
}

/// A fortified build attaches by `__open_2` and `__openat_2`: the symbols are looked at, so that the test means something.
fn fortified(flags: &[&str], symbols: [&str; 2]) {
    let program = || Program::from("segment").flags(&["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]).flags(flags);
    let file = program_file(program());
    let table = harness::tool("nm", &["-D", file.to_str().expect("plain")], "apt-get install binutils");
    for symbol in symbols {
        assert!(table.contains(&format!(" U {symbol}@")), "{symbol} is not used:\n{table}");
    }
    house("size=16m", |house| {
        for create in ["shm_open", "open", "mkstemp"] {
            house.program(program()).arg(create).arg("ftruncate").number(32 * MIB).output().well();
        }
        house.nothing_left();
    });
}

#[test]
fn fortified_forms_of_open_are_followed() {
    fortified(&[], ["__open_2", "__openat_2"]);
}

#[test]
fn fortified_forms_of_open64_are_followed() {
    fortified(&["-D_FILE_OFFSET_BITS=64"], ["__open64_2", "__openat64_2"]);
}

#[test]
fn both_widths_use_symbols_of_their_own() {
    // Else the two halves of every test above would be the same.
    let symbols = |flags: &[&str]| {
        let file = program_file(Program::from("segment").flags(flags));
        harness::tool("nm", &["-D", file.to_str().expect("plain")], "apt-get install binutils")
    };
    let (narrow, wide) = (symbols(&[]), symbols(&["-D_FILE_OFFSET_BITS=64"]));
    for name in ["ftruncate", "truncate", "posix_fallocate", "fallocate", "open", "openat", "mkstemp", "mmap", "creat"]
    {
        assert!(narrow.contains(&format!(" U {name}@")), "{name}:\n{narrow}");
        assert!(wide.contains(&format!(" U {name}64@")), "{name}64:\n{wide}");
    }
}
