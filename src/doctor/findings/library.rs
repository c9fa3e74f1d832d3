//! The library and its targets: can they help here?

use super::{finding, Cause, Finding, SMALL};
use crate::doctor::environment::Kind;
use crate::doctor::Patient;

pub(super) fn library(patient: &Patient) -> Option<Finding> {
    let library = &patient.library;
    if let Some(path) = &library.dangling {
        let says = format!("LD_PRELOAD names {}, which is not there: programs run without it", path.display());
        let lines = vec![match &library.path {
            Some(found) => format!("LD_PRELOAD={}", found.display()),
            None => "put libshmguard.so there, or take it out of LD_PRELOAD".into(),
        }];
        return Some(finding(Cause::Library, true, says, lines));
    }
    let reason = library.reason.as_ref()?;
    let lines = match &library.path {
        _ if library.loads == Some(true) => return None,
        None if library.loads.is_some() => vec!["put libshmguard.so beside this command or in /usr/lib".into()],
        _ => vec!["such programs run as without the library; give them a larger /dev/shm".into()],
    };
    Some(finding(Cause::Library, true, format!("the library does not load: {reason}"), lines))
}

pub(super) fn targets(patient: &Patient) -> Option<Finding> {
    if !patient.redirects {
        return None;
    }
    if patient.shm.options.split(',').any(|option| option == "nosymfollow") {
        let path = &patient.shm.path;
        let says = format!("{path} is mounted nosymfollow: only segments without a name can be redirected");
        return Some(finding(Cause::Targets, false, says, vec![format!("mount -o remount,symfollow {path}")]));
    }
    if patient.usable_target().is_some() {
        return None;
    }
    let reasons: Vec<String> = patient
        .targets
        .iter()
        .map(|target| format!("{}: {}", target.path, target.unusable.as_deref().unwrap_or("cannot be used")))
        .collect();
    let says = format!("nothing can be redirected: {}", reasons.join("; "));
    let lines = match patient.kind() {
        Kind::Docker => {
            vec!["docker run --tmpfs /tmp:size=2g ...   or -v /scratch:/scratch -e SHMGUARD_REDIRECT=/scratch".into()]
        }
        Kind::Kubernetes => vec!["an emptyDir volume, mounted on /tmp or named by SHMGUARD_REDIRECT".into()],
        _ => vec!["SHMGUARD_REDIRECT=DIRECTORY   (a directory on a disk or on a larger tmpfs)".into()],
    };
    // Where segments fit, a missing target is a thing to know.
    let small = patient.shm.capacity_bytes.is_some_and(|capacity| capacity < SMALL);
    Some(finding(Cause::Targets, small, says, lines))
}
