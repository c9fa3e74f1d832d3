//! Owners: the link of a redirected segment changes hands with its file.

use std::os::fd::RawFd;

use rustix::fs;

use super::Engine;
use crate::link::{self, Link};
use crate::quiet::undisturbed;
use crate::segment::{Identity, Name, Place};

/// A name in a guard whose file is about to be given to somebody else: a link of ours, and its target has the same owner.
pub struct Giving {
    guard: usize,
    name: Name,
    link: Link,
}

impl Engine {
    /// The file of `fd` has been given to somebody else: where it is a redirected segment that this process created, its link
    /// goes along.
    pub fn given(&self, fd: RawFd) {
        if self.is_idle() {
            return;
        }
        let Some(stat) = crate::borrow(fd).and_then(|fd| fs::fstat(fd).ok()) else { return };
        let identity = Identity::of(&stat);
        if self.table.may_hold(identity) {
            undisturbed(|| self.pass_link_on(identity));
        }
    }

    fn pass_link_on(&self, identity: Identity) {
        let found = self.table.find(identity).and_then(|mut held| {
            let segment = held.get()?;
            let redirected = matches!(segment.place, Place::Target(_)) && !segment.name.is_empty();
            redirected.then(|| (segment.guard as usize, segment.name.clone(), segment.target_name.clone()))
        });
        let Some((guard, name, target)) = found else { return };
        let Some(guard) = self.open_guard(guard) else { return };
        let Some(link) = link::read(guard.fd(), &name, &self.config.targets) else { return };
        if link.name == target {
            link.even_out(guard.fd(), &name, &self.config.targets);
        }
    }

    /// A name in a guard is about to be given to somebody else.
    pub fn giving(&self, guard: usize, name: &[u8]) -> Option<Giving> {
        let link = self.open_guard(guard).and_then(|guard| link::read(guard.fd(), name, &self.config.targets))?;
        link.has_its_file(&self.config.targets).then(|| Giving {
            guard,
            name: name.iter().copied().take(255).collect(),
            link,
        })
    }

    /// It has been, by a call that changed either the link or what it leads to: now the other one.
    pub fn given_by_name(&self, giving: &Giving) {
        let Some(guard) = self.open_guard(giving.guard) else { return };
        let Some(now) = link::read(guard.fd(), &giving.name, &self.config.targets) else { return };
        if now.name != giving.link.name {
            return;
        }
        if now.has_owner_of(&giving.link) {
            now.even_out(guard.fd(), &giving.name, &self.config.targets);
        } else {
            now.give_file(&self.config.targets);
        }
    }
}
