use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 60 * MIB;

/// Feeds (milliseconds, level) as the library would, and returns when a forecast was announced, with the forecast.
fn announced(samples: impl IntoIterator<Item = (u64, u64)>, limit: u64) -> Vec<(u64, Forecast)> {
    let mut trend = Trend::default();
    let mut all = Vec::new();
    for (t, level) in samples {
        if trend.is_due(t) {
            all.extend(trend.news(t, level, limit).map(|forecast| (t, forecast)));
        }
    }
    all
}

/// A leak of `count` equal segments that fills `limit` from `base` on in `lasts` milliseconds; a sample after each.
fn leak(base: u64, limit: u64, count: u64, lasts: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..=count).map(move |n| (n * lasts / count, base + (limit - base) * n / count))
}

#[test]
fn a_leak_of_a_minute_is_announced_once_twenty_seconds_before_the_end() {
    let all = announced(leak(0, LIMIT, 60, 60_000), LIMIT);
    assert_eq!(all.len(), 1, "{all:?}");
    let (t, forecast) = all[0];
    assert_eq!((t, forecast.left_ms, forecast.rate), (40_000, 20_000, MIB));
}

#[test]
fn a_leak_in_few_large_steps_is_announced_in_time() {
    let all = announced(leak(0, LIMIT, 6, 60_000), LIMIT);
    assert!(all.first().is_some_and(|(t, _)| *t <= 50_000), "{all:?}");
}

#[test]
fn a_leak_that_begins_late_is_measured_from_its_beginning() {
    let idle = (0..3600).map(|second| (second * 1000, 10 * MIB));
    let leak = leak(10 * MIB, LIMIT, 100, 60_000).map(|(t, level)| (3_600_000 + t, level));
    let all = announced(idle.chain(leak), LIMIT);
    assert_eq!(all.len(), 1, "{all:?}");
    let left = 3_660_000 - all[0].0;
    assert!(left >= 10_000 && all[0].1.left_ms.abs_diff(left) < 4_000, "{all:?}");
}

#[test]
fn what_fills_up_and_stops_is_no_alarm() {
    // Prefetch: up to nearly two thirds within ten seconds, then busy there for an hour.
    let up = (0..100u64).map(|n| (n * 100, 39 * MIB * n / 100));
    let busy = (100..36_000u64).map(|n| (n * 100, 39 * MIB - (n % 7) * MIB));
    assert_eq!(announced(up.chain(busy), LIMIT), []);
    // One program that takes nearly everything in a moment and keeps it.
    let step = (0..8u64).map(|n| (n * 500, 7 * MIB * n));
    let still = (8..7200u64).map(|n| (n * 500, 49 * MIB + n % 2 * 4096));
    assert_eq!(announced(step.chain(still), LIMIT), []);
}

#[test]
fn what_has_come_down_may_be_announced_again() {
    let first = leak(0, LIMIT, 60, 60_000);
    let again = leak(0, LIMIT, 600, 600_000).map(|(t, level)| (61_000 + t, level));
    assert_eq!(announced(first.chain(again), LIMIT).len(), 2);
}

#[test]
fn a_leak_after_hours_of_healthy_work_is_announced() {
    // Periods of 20 seconds between 5 and 40 MiB, then the consumer keeps everything.
    let healthy = (0..7200u64).map(|second| (second * 1000, 5 * MIB + 35 * MIB * (second % 20) / 20));
    let leak = leak(0, LIMIT, 60, 60_000).map(|(t, level)| (7_200_000 + t, level));
    let all = announced(healthy.chain(leak), LIMIT);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].0 <= 7_250_000, "{all:?}");
}

#[test]
fn a_trend_survives_its_bytes() {
    let mut trend = Trend::default();
    for n in 0..1000u64 {
        let _ = trend.news(n * 500, 5 * MIB + n % 50 * MIB, LIMIT);
        assert_eq!(Trend::from_bytes(&trend.to_bytes()), trend);
    }
    assert_eq!(trend.turns.len(), trend.turns.len().clamp(18, MOST_TURNS));
}

#[test]
fn another_clock_begins_anew() {
    let mut trend = Trend::default();
    trend.see(1_000_000, 5, LIMIT);
    trend.see(10, 7, LIMIT);
    assert_eq!(trend.points.len(), 1);
}

/// A number from 0 to `below` that looks random: a fixed permutation of its argument.
fn noise(n: u64, seed: u64, below: u64) -> u64 {
    let mut x = n.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % below.max(1)
}

proptest! {
    // The same 200 cases in every run: a forecast is a judgement, and one case in a million may be judged otherwise without being a
    // fault. 6000 random cases of each passed when the numbers above were last changed.
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(20_261_130), ..ProptestConfig::default() })]

    /// The promise: a leak over a minute or more, in six segments or more, is announced ten seconds before the end.
    #[test]
    fn every_steady_leak_is_announced_in_time(
        lasts in 60_000u64..100_000_000,
        count in 6u64..2000,
        base in 0u64..LIMIT / 2,
    ) {
        let all = announced(leak(base, LIMIT, count, lasts), LIMIT);
        prop_assert!(all.first().is_some_and(|(t, _)| t + 10_000 <= lasts), "{all:?}");
        prop_assert_eq!(all.len(), 1);
        prop_assert!(all[0].0 * 10 >= lasts * 4, "not in the first part: {:?}", all);
    }

    /// Also where a loader's batches come and go above it.
    #[test]
    fn a_leak_below_an_oscillation_is_announced_in_time(
        cycles in 16u64..200,
        period in 8_000u64..20_000,
        amplitude in LIMIT / 20..LIMIT / 2,
        seed in any::<u64>(),
    ) {
        let lasts = cycles * period;
        let samples = (0..lasts / 500).map(|n| {
            let t = n * 500;
            let wave = amplitude * (t % period) / period + noise(n, seed, amplitude / 50);
            (t, wave + (LIMIT - amplitude) * t / lasts)
        });
        let all = announced(samples, LIMIT);
        prop_assert!(all.first().is_some_and(|(t, _)| t + 10_000 <= lasts), "{all:?}");
    }

    /// No alarm in a steady oscillation, whatever its period, height and noise, once it has been seen to come down.
    #[test]
    fn a_steady_oscillation_is_silent(
        period in 200u64..600_000,
        low in 0u64..LIMIT / 2,
        height in LIMIT / 10..LIMIT / 2,
        up in 1u64..100,
        step in 50u64..2_000,
        seed in any::<u64>(),
    ) {
        let samples = (0..4_000u64).map(|n| {
            let t = n * step;
            let phase = (t % period) * 100 / period;
            let wave = if phase < up { height * phase / up } else { height * (100 - phase) / (100 - up) };
            (t, (low + wave + noise(n, seed, height / 10)).min(LIMIT - 1))
        });
        let all = announced(samples, LIMIT);
        prop_assert!(all.iter().all(|(t, _)| *t <= period), "{all:?}");
    }

    /// Levels that wander at random between two bounds.
    #[test]
    fn noise_is_silent_where_it_has_been_before(high in LIMIT / 4..LIMIT, seed in any::<u64>()) {
        let samples = (0..4_000u64).map(|n| (n * 500, noise(n, seed, high)));
        prop_assert_eq!(announced(samples, LIMIT), []);
    }

    #[test]
    fn nothing_panics(
        samples in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..200),
        bytes in proptest::collection::vec(any::<u8>(), 0..TREND_BYTES + 9),
    ) {
        let mut file = b"shmgtr01".to_vec();
        file.extend(&bytes);
        file.resize(TREND_BYTES, 0xff);
        for mut trend in [Trend::default(), Trend::from_bytes(&bytes), Trend::from_bytes(&file)] {
            for (t, level, limit) in &samples {
                let _ = trend.news(*t, *level, *limit);
            }
        }
    }
}
