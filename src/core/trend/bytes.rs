//! A trend as it stands in the ledger: fixed width, versioned; anything else is taken as nothing known.

use super::{Point, Trend, Turn, MOST_POINTS, MOST_TURNS};

const MAGIC: &[u8; 8] = b"shmgtr01";
/// Numbers of points and turns, peak, how long it took, announced; points of three numbers, turns of four.
const NUMBERS: usize = 5 + MOST_POINTS * 3 + MOST_TURNS * 4;

/// Bytes of a trend.
pub const TREND_BYTES: usize = 8 + NUMBERS * 8;

impl Trend {
    /// As it stands in the file.
    pub fn to_bytes(&self) -> [u8; TREND_BYTES] {
        let mut bytes = [0u8; TREND_BYTES];
        let head = [self.points.len() as u64, self.turns.len() as u64, self.peak, self.took, self.announced];
        let points = self.points.iter().flat_map(|point| [point.t, point.level, point.steps]);
        let turns = self.turns.iter().flat_map(|turn| [turn.t, turn.low, turn.high, turn.took]);
        let numbers = head.into_iter().chain(points).chain(turns).flat_map(u64::to_le_bytes);
        for (place, byte) in bytes.iter_mut().zip(MAGIC.iter().copied().chain(numbers)) {
            *place = byte;
        }
        bytes
    }

    /// Reads it; nothing known where it is not one of this version.
    pub fn from_bytes(bytes: &[u8]) -> Trend {
        let Some(rest) = bytes.get(..TREND_BYTES).and_then(|bytes| bytes.strip_prefix(MAGIC)) else {
            return Trend::default();
        };
        let mut numbers = rest.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or(0);
        let (points, turns) = (next().min(MOST_POINTS as u64), next().min(MOST_TURNS as u64));
        let (peak, took, announced) = (next(), next(), next());
        Trend {
            points: (0..points).map(|_| Point { t: next(), level: next(), steps: next() }).collect(),
            turns: (0..turns).map(|_| Turn { t: next(), low: next(), high: next(), took: next() }).collect(),
            peak,
            took,
            announced,
        }
    }
}
