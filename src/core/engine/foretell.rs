//! When will it be full? At the calls that are seen anyway: no thread, no timer.

use super::{now_ms, patiently, Engine};
use crate::config::Mode;
use crate::ledger::{Ledger, Process};
use crate::message::{self, Shown};
use crate::size::Human;
use crate::text::{Printable, Text};
use crate::trend::{Forecast, Trend, PAUSE_MS};

impl Engine {
    /// Takes a sample of the fill, and says when it will be full if that can be told and nobody has said it.
    pub(super) fn foretell(&self, index: usize, fill: u64, capacity: Option<u64>) {
        let Some(capacity) = capacity.filter(|capacity| *capacity > 0) else { return };
        let limit = self.config.limit_bytes(capacity);
        let now = now_ms();
        let news = {
            let Some(mut books) = patiently(&self.books) else { return };
            // In a run that redirects everybody has been told what happens when it is full.
            if books.record.redirected > 0 || now.saturating_sub(books.trend_ms) < PAUSE_MS {
                return;
            }
            books.trend_ms = now;
            let next = |trend: &mut Trend| trend.is_due(now).then(|| trend.news(now, fill, limit)).flatten();
            match &books.ledger {
                Some(ledger) => {
                    let news = ledger.with_trend(next).flatten();
                    news.filter(|_| !ledger.has_said("redirect"))
                }
                None => next(&mut books.trend),
            }
        };
        if let Some(forecast) = news {
            self.tell_forecast(index, fill, (capacity, limit), &forecast);
        }
    }

    /// Kind 1: it will be full.
    #[cold]
    #[inline(never)]
    fn tell_forecast(&self, index: usize, fill: u64, (capacity, limit): (u64, u64), forecast: &Forecast) {
        let mut then = Text::<160>::new();
        match (self.way_out(index), self.config.mode) {
            (Some(target), _) => {
                then.add(format_args!("what does not fit then will go to {}", message::path(&target.path)))
            }
            (None, Mode::Refuse) => then.add(format_args!("what does not fit then is refused with ENOSPC")),
            (None, Mode::Redirect) => {
                then.add(format_args!("no target can be written, so programs will die of SIGBUS then"))
            }
            (None, _) => {
                then.add(format_args!("programs will die of SIGBUS then; SHMGUARD_MODE=redirect would prevent it"))
            }
        }
        let line = message::forecast(
            &Shown { path: self.guard_path(index), fill, capacity: Some(capacity), budget: limit },
            forecast,
            self.growing().as_str(),
            then.as_str(),
        );
        // For the command, which looks at the same and need not say it again.
        let _ = self.once("forecast");
        self.say("forecast", &line);
    }

    /// Who has sized most: the process that a look should be taken at.
    fn growing(&self) -> Text<160> {
        let mut text = Text::new();
        let Some(books) = patiently(&self.books) else { return text };
        let own = &books.record;
        let others = books.ledger.as_ref().map(Ledger::processes).unwrap_or_default();
        let ended = books.ledger.as_ref().map(Ledger::ended).unwrap_or_default();
        let others = others.iter().filter(|other| (other.pid, other.start) != (own.pid, own.start));
        let most: &Process = others.chain([own]).max_by_key(|process| process.bytes_created).unwrap_or(own);
        let (command, pid) = (Printable(&most.command), most.pid);
        if ended.bytes_created > most.bytes_created {
            text.add(format_args!(
                "{} processes before {command}[{pid}] have sized {} in all and are gone",
                ended.processes,
                Human(ended.bytes_created)
            ));
        } else {
            let (created, bytes) = (most.created, Human(most.bytes_created));
            text.add(format_args!("{command}[{pid}] has sized the most: {created} segments, {bytes} in all"));
        }
        text
    }
}
