//! When will it be full? From samples of the fill over time, an answer only where it rises and keeps rising.
//!
//! A healthy program's fill goes up and down; a leak's goes up. What is judged is the current *rise*: everything since the
//! lowest level from which it has not come down again by an eighth of what it rose, or a sixteenth of the limit. A rise foretells the end when
//! - it has lasted for eight seconds, in four steps or more, and did not slow down towards its end;
//! - what is left is at most half of what it rose: so it was watched for twice as long as there is time left, and filling up to
//!   two thirds and stopping there, as a loader does that prefetches, is no alarm;
//! - no earlier rise, which came down again, went as high or lasted as long: that is what makes a steady oscillation, whatever
//!   its period, silent.
//!
//! A leak below an oscillation shows in the *turns*: of eight equal stretches of time each has a higher low and a higher high
//! than the one before.
//!
//! Pure: no clock, no system call. Times are milliseconds of any clock that does not go back, levels are bytes.

mod bytes;
#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;

pub use bytes::TREND_BYTES;

/// A rise is judged after so long, in milliseconds.
const SHORTEST_MS: u64 = 8_000;
/// Where there were earlier rises, three times their length, and at least three times this, in milliseconds: short ones are not measured well.
const LONGER_MS: u64 = 10_000;
/// And after so many steps upwards: one large segment has no rate.
const STEPS: u64 = 4;
/// Samples are taken so far apart, in milliseconds.
pub const PAUSE_MS: u64 = 500;
/// What is farther away than this, and than a quarter of the time watched, is not announced yet, in milliseconds.
const NEAR_MS: u64 = 60_000;
/// Stretches of time that must follow each other upwards.
const STRETCHES: usize = 8;

const MOST_POINTS: usize = 32;
const MOST_TURNS: usize = 48;

/// How full it was, when, and after how many steps upwards of this rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    t: u64,
    level: u64,
    steps: u64,
}

/// A rise that came down again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turn {
    /// Its beginning.
    t: u64,
    /// Where it began.
    low: u64,
    /// How high it went.
    high: u64,
    /// How long the rise itself took: twice the time between a quarter and three quarters of its height, so that lying still
    /// at either end does not count.
    took: u64,
}

/// What will happen if it goes on like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Until the limit is reached, in milliseconds.
    pub left_ms: u64,
    /// Bytes a second.
    pub rate: u64,
    /// For how long it has been rising, in milliseconds.
    pub watched_ms: u64,
}

/// The fill over time, as far as a forecast needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trend {
    /// The current rise, its beginning first: dense at the end, sparse at the beginning.
    points: ArrayVec<Point, MOST_POINTS>,
    /// Its highest level.
    peak: u64,
    /// How long the rise took up to there.
    took: u64,
    /// Earlier rises, dense at the end, sparse at the beginning: where there were too many two became one.
    turns: ArrayVec<Turn, MOST_TURNS>,
    /// The level at which a forecast was announced; 0 = none is.
    announced: u64,
}

impl Trend {
    /// Is it time for another sample?
    pub fn is_due(&self, t: u64) -> bool {
        self.points.last().is_none_or(|last| t < last.t || t - last.t >= PAUSE_MS)
    }

    /// When the last sample was taken; 0 = never.
    pub fn last_ms(&self) -> u64 {
        self.points.last().map_or(0, |last| last.t)
    }

    /// Has a forecast been announced that has not passed?
    pub fn is_announced(&self) -> bool {
        self.announced > 0
    }

    /// Takes a sample. `Some` when a forecast is to be announced: once, until the level has come down by a tenth of `limit`.
    pub fn news(&mut self, t: u64, level: u64, limit: u64) -> Option<Forecast> {
        self.see(t, level, limit);
        if level.saturating_add(limit / 10) < self.announced {
            self.announced = 0;
        }
        let forecast = self.forecast(limit)?;
        if self.announced > 0 {
            return None;
        }
        self.announced = level.max(1);
        Some(forecast)
    }

    /// Takes a sample: at `t` the level was `level`, of `limit`.
    pub fn see(&mut self, t: u64, level: u64, limit: u64) {
        let (Some(first), Some(last)) = (self.points.first().copied(), self.points.last().copied()) else {
            self.begin(t, level);
            return;
        };
        if t < last.t {
            // Another clock: nothing that is known can be compared.
            *self = Trend { announced: self.announced, ..Trend::default() };
            self.begin(t, level);
            return;
        }
        let tolerance = (limit / 16).max(self.peak.saturating_sub(first.level) / 8);
        if level.saturating_add(tolerance) < self.peak {
            self.turn();
            self.begin(t, level);
        } else if level <= first.level {
            self.begin(t, level);
        } else {
            let steps = last.steps.saturating_add(u64::from(level > last.level));
            self.add(Point { t, level, steps });
            if level > self.peak {
                // Measured now, while the points are dense.
                (self.peak, self.took) = (level, self.measure(first.level, level));
            }
        }
    }

    /// When it will be full, if that can be told; `limit` in bytes. `None` also where it is full already.
    pub fn forecast(&self, limit: u64) -> Option<Forecast> {
        self.of_rise(limit).or_else(|| self.of_turns(limit))
    }

    fn begin(&mut self, t: u64, level: u64) {
        self.points.clear();
        let _ = self.points.try_push(Point { t, level, steps: 0 });
        (self.peak, self.took) = (level, 0);
    }

    fn add(&mut self, point: Point) {
        if self.points.is_full() {
            let times = self.points.iter().map(|point| point.t);
            let index = most_crowded(&times.collect::<ArrayVec<u64, MOST_POINTS>>(), point.t);
            self.points.remove(index.min(MOST_POINTS - 1));
        }
        let _ = self.points.try_push(point);
    }

    /// How long the points took from a quarter to three quarters of the height between two levels, twice.
    fn measure(&self, low: u64, high: u64) -> u64 {
        let height = high.saturating_sub(low);
        let (quarter, most) = (low.saturating_add(height / 4), low.saturating_add(height - height / 4));
        let from = self.points.iter().find(|point| point.level >= quarter).map_or(0, |point| point.t);
        let to = self.points.iter().rev().find(|point| point.level <= most).map_or(0, |point| point.t);
        to.saturating_sub(from).saturating_mul(2)
    }

    /// The current rise is over.
    fn turn(&mut self) {
        let Some(first) = self.points.first().copied() else { return };
        let turn = Turn { t: first.t, low: first.level, high: self.peak, took: self.took };
        if self.turns.is_full() {
            let times = self.turns.iter().map(|turn| turn.t);
            let index = most_crowded(&times.collect::<ArrayVec<u64, MOST_TURNS>>(), turn.t).min(MOST_TURNS - 1);
            let gone = self.turns.remove(index);
            if let Some(before) = self.turns.get_mut(index.saturating_sub(1)) {
                before.low = before.low.min(gone.low);
                before.high = before.high.max(gone.high);
                before.took = before.took.max(gone.took);
            }
        }
        let _ = self.turns.try_push(turn);
    }

    /// The level at a moment of the current rise, on a straight line between the points around it.
    fn level_at(&self, t: u64) -> u64 {
        let after = self.points.iter().position(|point| point.t > t).unwrap_or(self.points.len());
        let before = self.points.get(after.saturating_sub(1)).copied().unwrap_or_default();
        let after = self.points.get(after).copied().unwrap_or(before);
        let part =
            scaled(after.level.abs_diff(before.level), t.saturating_sub(before.t), after.t.saturating_sub(before.t));
        match after.t > before.t {
            true if after.level > before.level => before.level.saturating_add(part),
            true => before.level.saturating_sub(part),
            false => before.level,
        }
    }

    /// Of every later part of the rise, the fastest that can be believed.
    fn of_rise(&self, limit: u64) -> Option<Forecast> {
        let now = self.points.last()?;
        let left = limit.checked_sub(now.level).filter(|left| *left > 0)?;
        let highest = self.turns.iter().map(|turn| turn.high).max().unwrap_or(0);
        let longest = self.turns.iter().map(|turn| turn.took).max().unwrap_or(0);
        let clearly = (limit.saturating_sub(highest) / 4).max(limit / 16);
        let higher = self.turns.is_empty() || now.level > highest.saturating_add(clearly);
        let since = |point: &Point| {
            let (watched, rise) = (now.t.saturating_sub(point.t), now.level.saturating_sub(point.level));
            let gained = |at: u64| self.level_at(point.t.saturating_add(at)).saturating_sub(point.level);
            // Neither one jump somewhere in the middle, nor a late beginning, nor an end to it.
            let [quarter, half, most] = [watched / 4, watched / 2, watched - watched / 4].map(gained);
            let steady = quarter >= rise / 8 && half >= rise / 3 && half <= rise - rise / 3 && most <= rise - rise / 8;
            let enough = watched >= SHORTEST_MS && now.steps.saturating_sub(point.steps) >= STEPS && rise >= limit / 8;
            let unheard_of = higher || watched >= longest.max(LONGER_MS).saturating_mul(3);
            (enough && steady && unheard_of).then(|| judge(watched, rise, left)).flatten()
        };
        self.points.iter().filter_map(since).min_by_key(|forecast| forecast.left_ms)
    }

    /// Lows and highs that rise together, since some turn.
    fn of_turns(&self, limit: u64) -> Option<Forecast> {
        let now = self.points.first()?;
        let last = self.turns.last()?;
        let left = limit.checked_sub(last.high.max(self.peak)).filter(|left| *left > 0)?;
        let lowest = self.turns.iter().map(|turn| turn.low).min()?;
        let rise = now.level.saturating_sub(lowest);
        if rise < limit / 8 || rise / 2 < left {
            return None;
        }
        let most = self.turns.len().saturating_sub(STRETCHES - 2);
        let since = |index: usize| {
            let turns = self.turns.get(index..)?;
            let begin = turns.first()?.t;
            let watched = now.t.saturating_sub(begin);
            let mut stretches = [(u64::MAX, 0u64); STRETCHES];
            let current = Turn { t: now.t, low: now.level, high: 0, took: 0 };
            for turn in turns.iter().chain([&current]) {
                let at = (turn.t.saturating_sub(begin)).saturating_mul(STRETCHES as u64) / watched.saturating_add(1);
                let (low, high) = stretches.get_mut(at as usize)?;
                (*low, *high) = ((*low).min(turn.low), (*high).max(turn.high));
            }
            let upwards = stretches.windows(2).all(|pair| match pair {
                [a, b] => b.0 != u64::MAX && a.0 < b.0 && a.1 < b.1,
                _ => false,
            });
            let rise = stretches.last()?.0.saturating_sub(stretches.first()?.0);
            // From the first stretch to the last is one stretch less than all.
            let between = watched / STRETCHES as u64 * (STRETCHES as u64 - 1);
            (upwards && watched >= SHORTEST_MS && rise >= limit / 8).then(|| judge(between, rise, left)).flatten()
        };
        (0..most).filter_map(since).min_by_key(|forecast| forecast.left_ms)
    }
}

/// Of times in order, all but the first and the last: the index of the one whose neighbours are closest to each other, measured
/// by how long ago it was.
fn most_crowded(times: &[u64], now: u64) -> usize {
    let crowd = |triple: &[u64]| match triple {
        [before, at, after] => after.saturating_sub(*before) as f64 / (now.saturating_sub(*at) as f64 + 1.0),
        _ => f64::MAX,
    };
    let least = times.windows(3).enumerate().min_by(|(_, a), (_, b)| crowd(a).total_cmp(&crowd(b)));
    least.map_or(1, |(index, _)| index + 1)
}

/// The forecast of a rise of `rise` bytes in `watched` milliseconds with `left` bytes to go, if it is near enough to be told.
fn judge(watched: u64, rise: u64, left: u64) -> Option<Forecast> {
    if rise == 0 || rise / 2 < left {
        return None;
    }
    let left_ms = scaled(left, watched, rise);
    let rate = scaled(rise, 1000, watched);
    (left_ms <= NEAR_MS.max(watched / 4)).then_some(Forecast { left_ms, rate, watched_ms: watched })
}

/// `value * by / of`, as far as it goes.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    let wide = (u128::from(value) * u128::from(by)).checked_div(u128::from(of)).unwrap_or(u128::MAX);
    wide.min(u128::from(u64::MAX)) as u64
}
