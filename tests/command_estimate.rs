//! `shmguard estimate`: the figures, the reverse, and the words. `integration/estimate` compares them with real loaders.

use std::process::{Command, Output};

use serde_json::Value;

fn estimate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("estimate").args(words).env_clear().env("PATH", "/usr/bin:/bin");
    command.output().expect("the command runs")
}

fn json(words: &[&str]) -> (Option<i32>, Value) {
    let output = estimate(&[&["--json"], words].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), value)
}

const PICTURES: &[&str] = &["--workers", "8", "--prefetch", "2", "--batch", "32", "--sample", "3x224x224:f32"];

#[test]
fn the_example_of_the_help() {
    let (code, value) = json(&[PICTURES, &["--shm-size", "64m"]].concat());
    assert_eq!(code, Some(0));
    // 32 pictures of 602112 bytes are 19267584, whole pages; 8 x 2 ahead and one in hand.
    assert_eq!(value["batch_bytes"], 19_267_584);
    assert_eq!(value["batches_alive"], 17);
    let demand = value["demand_bytes"].as_u64().expect("bytes");
    let content = 17 * 19_267_584;
    assert!(demand >= content && demand < content + (1 << 20), "{demand}");
    assert_eq!(value["fits"], false);
    // What is suggested holds one batch more, within the default budget.
    let suggested = value["suggested_bytes"].as_u64().expect("bytes");
    assert!(suggested - suggested / 16 >= demand + 19_267_584, "{suggested}");
    let (_, with_it) =
        json(&[PICTURES, &["--shm-size", value["suggested_shm_size"].as_str().expect("a size")]].concat());
    assert_eq!(with_it["fits"], true);
}

#[test]
fn several_tensors_headers_ranks_and_batches_in_hand_count() {
    let base = |more: &[&str]| json(&[PICTURES, &["--shm-size", "64m"], more].concat()).1;
    let demand = |more: &[&str]| base(more)["demand_bytes"].as_u64().expect("bytes");
    let one = demand(&[]);
    assert_eq!(demand(&["--sample", ":i64"]), one + 17 * 4096, "a page for the labels of each batch");
    assert_eq!(demand(&["--strategy", "file_system"]), one + 17 * 4096, "a page for the 64 bytes in front");
    assert_eq!(demand(&["--keep", "4"]), one + 3 * 19_267_584);
    assert_eq!(demand(&["--ranks", "2"]), one * 2);
    let (_, none) = json(&["--workers", "0", "--batch", "4", "--sample", "3:f32", "--shm-size", "64m"]);
    assert_eq!(none["demand_bytes"], 0);
}

#[test]
fn what_fits_fits_and_one_more_does_not() {
    let fits = |workers: u64, prefetch: u64, batch: u64| {
        let [workers, prefetch, batch] = [workers, prefetch, batch].map(|number| number.to_string());
        let words = ["--workers", &workers, "--prefetch", &prefetch, "--batch", &batch];
        json(&[&words[..], &["--sample", "3x224x224:f32", "--shm-size", "64m"]].concat()).1["fits"] == true
    };
    let (code, value) = json(&["--fit", "--shm-size", "64m", "--sample", "3x224x224:f32", "--workers", "3"]);
    assert_eq!(code, Some(0));
    let row = &value["settings"][0];
    let batch = row["batch"].as_u64().expect("a batch");
    assert!(fits(3, 2, batch) && !fits(3, 2, batch + 1), "{batch}");

    let (_, value) = json(&["--fit", "--shm-size", "64m", "--sample", "3x224x224:f32", "--batch", "4"]);
    let rows = value["settings"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let [workers, prefetch] = ["workers", "prefetch"].map(|name| row[name].as_u64().expect("a number"));
        assert!(fits(workers, prefetch, 4) && !fits(workers + 1, prefetch, 4), "{row}");
    }
}

#[test]
fn where_nothing_fits_the_exit_status_says_so() {
    let (code, value) = json(&["--fit", "--shm-size", "4m", "--sample", "3x2000x2000:f64"]);
    assert_eq!(code, Some(1));
    assert!(value["settings"].as_array().expect("rows").iter().all(|row| row["fits"] == false));
}

#[test]
fn the_text_names_the_flag_for_each_tool() {
    let output = estimate(&[PICTURES, &["--shm-size", "64m"]].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for words in ["docker run --shm-size=", "shm_size: ", "sizeLimit: ", "does not fit", "shmguard run -- CMD"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\x1b'), "{text}");
}

#[test]
fn wrong_usage_is_2_and_says_what_was_expected() {
    for words in [
        &["--workers", "2"][..],
        &["--workers", "2", "--batch", "0", "--sample", "3:f32"],
        &["--workers", "2", "--batch", "2", "--sample", "3:f33"],
        &["--workers", "-1", "--batch", "2", "--sample", "3:f32"],
        &["--fit"],
        &["--fit", "--sample", "3:f32", "--shm-size", "80%"],
    ] {
        let output = estimate(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{words:?}");
    }
    let beyond = ["--workers", "99999999999", "--batch", "99999999999", "--sample", "3x224x224:f32"];
    let output = estimate(&beyond);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("16 EiB"));
}
