//! Events for the log. The buffers are large, so nothing here is inlined into the path of a call.

use super::size::Sizing;
use super::Engine;
use crate::event::Event;
use crate::guard::Guard;
use crate::policy::Situation;
use crate::segment::{Place, Segment};
use crate::text::Text;

impl Engine {
    /// Is every event logged (SHMGUARD_LOG)?
    pub(super) fn logs_all(&self) -> bool {
        self.config.log.is_some()
    }

    /// Are beginnings, ends, warnings and failures logged? Also under `shmguard run`, which explains them afterwards.
    pub(super) fn logs_ends(&self) -> bool {
        self.config.log.is_some() || self.config.run.is_some()
    }

    fn event(&self, kind: &str) -> Event {
        Event::new(kind, &self.me(), &self.command())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_warning(&self, what: &str, shown: bool, text: &[u8]) {
        let mut event = self.event("warn");
        self.outlet.log(event.word("what", what).flag("shown", shown).bytes("text", text).finish());
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_summary(&self, text: &[u8]) {
        self.outlet.log(self.event("summary").bytes("text", text).finish());
    }

    /// The first event of a process. True when it could be written.
    #[cold]
    #[inline(never)]
    pub(super) fn log_start(&self, guard: &Guard, index: usize) -> bool {
        let capacity = guard.space.capacity;
        let mut event = self.event("start");
        event
            .word("version", env!("CARGO_PKG_VERSION"))
            .bytes("exe", &executable())
            .word("mode", self.config.mode.word())
            .bytes("guard", self.guard_path(index).to_bytes())
            .maybe("capacity", capacity)
            .maybe("budget", capacity.map(|capacity| self.config.budget_bytes(capacity)))
            .number("used", guard.space.used);
        for (index, spec) in self.config.targets.iter().enumerate().take(8) {
            let mut name = Text::<16>::new();
            name.add(format_args!("target{index}"));
            event.bytes(name.as_str(), spec.path.to_bytes());
        }
        self.outlet.log(event.finish())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_created(&self, segment: &Segment) {
        if !self.logs_all() {
            return;
        }
        let mut event = self.event("create");
        self.name_in(&mut event, segment);
        self.outlet.log(event.word("call", segment.origin.word()).finish());
    }

    fn name_in(&self, event: &mut Event, segment: &Segment) {
        event.bytes("seg", &segment.name).number("dev", segment.identity.dev).number("ino", segment.identity.ino);
        match segment.place {
            Place::Guard => event.word("where", "guard"),
            Place::Target(index) => match self.config.targets.get(index as usize) {
                Some(spec) => event.word("where", "target").bytes("target", spec.path.to_bytes()),
                None => event.word("where", "target"),
            },
        };
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_sized(
        &self,
        segment: &Segment,
        sizing: &Sizing<'_>,
        situation: &Situation,
        decision: &str,
        cause: &str,
        why: &str,
    ) {
        let wanted = if matches!(decision, "refuse" | "overflow") { self.logs_ends() } else { self.logs_all() };
        if !wanted {
            return;
        }
        let mut event = self.event("size");
        self.name_in(&mut event, segment);
        event
            .word("call", sizing.call)
            .number("bytes", sizing.bytes)
            .number("before", segment.promised)
            .word("decision", decision)
            .number("used", situation.used)
            .number("free", situation.free)
            .number("promised", situation.promised)
            .maybe("capacity", situation.capacity)
            .number("budget", situation.budget)
            .maybe("memory", situation.memory)
            .number("redirected", self.redirected_now())
            .number("demand", self.demand_peak());
        if !cause.is_empty() {
            event.word("cause", cause);
        }
        if !why.is_empty() {
            event.word("why", why);
        }
        self.outlet.log(event.finish());
    }

    /// This process has removed a name. It is counted; one that takes no part has no record to count it in, and tells
    /// `shmguard run`, which asks who removed what.
    #[cold]
    #[inline(never)]
    pub fn log_unlinked(&self, guard: usize, name: &[u8]) {
        self.tally.unlinked.add(1);
        let told = if self.is_touched() { self.logs_all() } else { self.config.run.is_some() };
        if !told || !self.is_here() {
            return;
        }
        let mut event = self.event("unlink");
        self.outlet.log(event.bytes("seg", name).bytes("guard", self.guard_path(guard).to_bytes()).finish());
    }

    /// A child of this process ended by a signal that may have to do with memory.
    #[cold]
    #[inline(never)]
    pub fn log_child(&self, pid: i32, signal: i32) {
        if !self.logs_ends() || !self.is_here() {
            return;
        }
        let mut event = self.event("child");
        self.outlet.log(event.number("child", pid as u64).number("signal", signal as u64).finish());
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_end(&self) {
        if !self.logs_ends() {
            return;
        }
        let mut event = self.event("exit");
        if let Some(books) = super::patiently(&self.books) {
            let record = &books.record;
            event
                .number("created", record.created)
                .number("redirected", record.redirected)
                .number("refused", record.refused)
                .number("unsaved", record.unsaved)
                .number("tmpfs_peak", record.tmpfs_peak)
                .number("redirected_peak", record.redirected_peak)
                .number("demand_peak", record.demand_peak)
                .number("bytes", record.bytes_created)
                .number("largest", record.largest)
                .bytes("seg", &books.largest_name);
        }
        self.outlet.log(event.finish());
    }
}

/// The path of the running program; empty when /proc cannot be read.
fn executable() -> arrayvec::ArrayVec<u8, 256> {
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 256];
    match rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", &mut buffer) {
        Ok((path, _)) => path.iter().copied().collect(),
        Err(_) => arrayvec::ArrayVec::new(),
    }
}
