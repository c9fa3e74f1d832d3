//! `--shm-size`: a /dev/shm of CMD's own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{house, left_in, library, program_file, MIB};
use crate::{path, run, stderr, stdout};

#[test]
fn a_private_shm_is_its_own() {
    house("size=8m", |house| {
        fs::write("/dev/shm/outside", "x").expect("written");
        let script = "df --block-size=1 --output=size /dev/shm | tail -n 1; ls /dev/shm; stat -c %a /dev/shm; echo x > /dev/shm/inside";
        let output = run(house, &["--shm-size", "24m", "--", "sh", "-c", script]);
        assert_eq!(
            stdout(&output).split_ascii_whitespace().collect::<Vec<_>>(),
            [(24 * MIB).to_string().as_str(), "1777"]
        );
        assert_eq!(left_in(Path::new("/dev/shm")), ["outside"]);
        // The kernel's own behaviour in it: what does not fit ends in a SIGBUS.
        let output = run(
            house,
            &["--shm-size", "4m", "--mode", "off", "--quiet", "--", &path("fate"), "ftruncate", &(6 * MIB).to_string()],
        );
        assert_eq!(output.status.code(), Some(128 + 7), "{}", stderr(&output));
    });
}

#[test]
fn a_user_of_little_rights_gets_a_private_shm_too() {
    house("size=8m", |house| {
        let copy = |file: &Path| -> PathBuf {
            let copy = house.path(file.file_name().and_then(|name| name.to_str()).expect("a plain name"));
            fs::copy(file, &copy).expect("a copy");
            copy
        };
        let own = copy(Path::new(env!("CARGO_BIN_EXE_shmguard")));
        let library = copy(library());
        let fate = copy(&program_file("fate"));
        let script = format!(
            "id -u; df --block-size=1 --output=size /dev/shm | tail -n 1; {} ftruncate {}",
            fate.display(),
            30 * MIB
        );
        let mut command = Command::new(own);
        command.args(["run", "--shm-size", "16m", "--", "sh", "-c", &script]).uid(1000).gid(1000).current_dir("/");
        command
            .env("SHMGUARD_LIB", &library)
            .env("SHMGUARD_REDIRECT", house.target())
            .env("SHMGUARD_STATE", house.path("state"));
        let output = command.output().expect("the command runs");
        assert_eq!(output.status.code(), Some(0), "user namespaces are needed: {}", stderr(&output));
        let words: Vec<String> = stdout(&output).split_ascii_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..2], ["1000".to_owned(), (16 * MIB).to_string()], "{words:?}");
        assert!(
            stdout(&output).ends_with("written\n") && stderr(&output).contains("1 redirected"),
            "{}",
            stderr(&output)
        );
    });
}

#[test]
fn where_no_private_shm_can_be_had_that_is_said() {
    house("size=8m", |_house| {
        let own = env!("CARGO_BIN_EXE_shmguard");
        let script =
            format!("echo 0 > /proc/sys/user/max_mnt_namespaces; exec {own} run --shm-size 16m -- echo started");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", &script]).env("SHMGUARD_LIB", library());
        let output = command.output().expect("unshare: apt-get install util-linux");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""), "{}", stderr(&output));
        assert!(stderr(&output).contains("docker run --shm-size instead"), "{}", stderr(&output));
    });
}
