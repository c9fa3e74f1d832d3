//! Programs of musl: the packaged library loads into them; the one that cargo builds would end them, and is kept out.

use std::process::Command;

use super::harness::{house, library, packaged_library, House, MIB};
use super::{command, report, stderr, stdout};

/// A program that makes a segment of as many bytes as its argument says, and says whether the library is in it.
const SOURCE: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t bytes = strtoul(argv[1], NULL, 10);
    int fd = shm_open("/musl", O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, bytes) != 0) return 2;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 3;
    memset(at, 7, bytes);
    shm_unlink("/musl");
    printf("LD_PRELOAD=%s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
    return 0;
}
"#;

/// The program, linked to musl.
fn program(house: &House) -> String {
    let (source, program) = (house.path("musl.c"), house.path("musl"));
    std::fs::write(&source, SOURCE).expect("written");
    let built = Command::new("musl-gcc").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("musl-gcc: apt-get install musl-tools").success(), "musl-gcc");
    program.to_str().expect("a plain path").to_owned()
}

#[test]
fn a_library_that_musl_cannot_load_is_kept_out_and_that_is_said() {
    house("size=16m", |house| {
        let program = program(house);
        let (output, report) = report(house, &["--", &program, &MIB.to_string()]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "LD_PRELOAD=\n"), "{}", stderr(&output));
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains("cannot be loaded into")).expect("it is said");
        assert!(line.contains("musl") && line.contains("ld-linux") && line.ends_with("It runs without"), "{line}");
        assert_eq!(report["without_library"][0]["program"], program.as_str(), "{report}");
        // Nor is it left in where the environment has it; what else is there stays.
        let other = house.path("other.so");
        let built = Command::new("cc").args(["-shared", "-nostdlib", "-xc", "/dev/null", "-o"]).arg(&other).status();
        assert!(built.expect("cc: apt-get install gcc").success(), "cc");
        let other = other.display();
        let mut run = command(house, &["--", &program, &MIB.to_string()]);
        let run = run.env("LD_PRELOAD", format!("{}:{other}", library().display()));
        let output = run.output().expect("the command runs");
        assert_eq!(stdout(&output), format!("LD_PRELOAD={other}\n"), "{}", stderr(&output));
    });
}

#[test]
fn the_packaged_library_is_put_into_programs_of_musl() {
    house("size=8m", |house| {
        let program = program(house);
        let packaged = packaged_library();
        let mut run = command(house, &["--", &program, &(20 * MIB).to_string()]);
        let output = run.env("SHMGUARD_LIB", &packaged).output().expect("the command runs");
        let text = stderr(&output);
        assert_eq!(stdout(&output), format!("LD_PRELOAD={}\n", packaged.display()), "{text}");
        assert!(output.status.success() && text.contains("20.0 MiB redirected"), "{text}");
        assert!(!text.contains("cannot be loaded") && !text.contains("without the library"), "{text}");
    });
}

/// The claim behind both: with the one it would have been ended, with the other it lives.
#[test]
fn musl_ends_a_program_whose_preload_it_cannot_load() {
    house("size=16m", |house| {
        let program = program(house);
        let code = |library: &std::path::Path| {
            let mut run = Command::new(&program);
            let run = run.arg("4096").env("LD_PRELOAD", library).env("SHMGUARD_STATE", house.path("state"));
            run.output().expect("it starts").status.code()
        };
        assert_eq!((code(library()), code(&packaged_library())), (Some(127), Some(0)));
    });
}
