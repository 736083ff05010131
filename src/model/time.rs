//! Key times. They stay whole units of the source's clock until a writer turns them into f32 seconds, once.

/// A key this near (in source seconds) to an edge of the playback window is the edge (docs/architecture.md, section 3).
pub const EDGE_S: f64 = 1e-4;

/// What one unit of a [`Timeline`] lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// Ticks of 1/60 s.
    Ticks60,
    /// Frames of 1/30 s.
    Frames30,
    /// `intervals` equal steps over `duration_s` (key i stands at i x duration / (frames - 1)).
    Span {
        /// Duration of all intervals together, seconds.
        duration_s: f32,
        /// Number of intervals: frames - 1. 0: a single frame.
        intervals: u32,
    },
    /// Frames of `1 / hz` s: what baking makes. `hz` is finite and positive.
    Rate {
        /// Frames in a second.
        hz: f64,
    },
    /// Seconds: what a pass makes that joins keys of several clocks. No rate.
    Seconds,
}

impl Clock {
    /// The instant of `position` (in units of this clock), seconds of the source.
    #[inline]
    pub fn seconds(self, position: f64) -> f64 {
        match self {
            Clock::Ticks60 => position / 60.0,
            Clock::Frames30 => position / 30.0,
            Clock::Span { intervals: 0, .. } => 0.0,
            Clock::Span { duration_s, intervals } => position * f64::from(duration_s) / f64::from(intervals),
            Clock::Rate { hz } => position / hz,
            Clock::Seconds => position,
        }
    }

    /// The position (in units of this clock, fractional between keys) of `seconds` of the source.
    #[inline]
    pub fn position(self, seconds: f64) -> f64 {
        match self {
            Clock::Ticks60 => seconds * 60.0,
            Clock::Frames30 => seconds * 30.0,
            Clock::Span { intervals: 0, .. } => 0.0,
            Clock::Span { duration_s: 0.0, .. } => 0.0,
            Clock::Span { duration_s, intervals } => seconds * f64::from(intervals) / f64::from(duration_s),
            Clock::Rate { hz } => seconds * hz,
            Clock::Seconds => seconds,
        }
    }

    /// Units in a second of the source, where that means something.
    pub fn rate_hz(self) -> Option<f64> {
        match self {
            Clock::Ticks60 => Some(60.0),
            Clock::Frames30 => Some(30.0),
            Clock::Span { duration_s, intervals } if duration_s > 0.0 && intervals > 0 => {
                Some(f64::from(intervals) / f64::from(duration_s))
            }
            Clock::Rate { hz } => Some(hz),
            Clock::Span { .. } | Clock::Seconds => None,
        }
    }
}

/// The part of the source that is played, and how fast: clip time = (source time - start) / rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// First instant, seconds of the source.
    pub start_s: f64,
    /// Last instant, seconds of the source. Infinite where nothing is cut at the end.
    pub end_s: f64,
    /// Seconds of the source in a second of the clip; positive.
    pub rate: f64,
}

impl Window {
    /// The whole source at its own speed: source seconds are clip seconds, no edge.
    pub const WHOLE: Window = Window { start_s: 0.0, end_s: f64::INFINITY, rate: 1.0 };

    /// Length in seconds of the clip. Infinite for [`Window::WHOLE`].
    pub fn length_s(&self) -> f64 {
        (self.end_s - self.start_s) / self.rate
    }

    /// Clip seconds of a source instant. One within [`EDGE_S`] of an edge is the edge, exactly.
    #[inline]
    pub fn clip_seconds(&self, source_s: f64) -> f64 {
        if (source_s - self.start_s).abs() < EDGE_S {
            0.0
        } else if (source_s - self.end_s).abs() < EDGE_S {
            self.length_s()
        } else {
            (source_s - self.start_s) / self.rate
        }
    }

    /// The source instant of `clip_s` seconds of the clip.
    #[inline]
    pub fn source_seconds(&self, clip_s: f64) -> f64 {
        clip_s * self.rate + self.start_s
    }
}

/// Where the keys stand, in units of the clock, strictly rising.
#[derive(Debug, Clone, PartialEq)]
pub enum Positions {
    /// `count` neighbours from `first` on.
    Run {
        /// First position.
        first: u32,
        /// Number of keys.
        count: u32,
    },
    /// Any whole positions.
    Whole(Vec<u32>),
    /// Positions of which some are not whole: keys that a pass has put between source keys.
    Fractional(Vec<f64>),
}

impl Positions {
    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Positions::Run { count, .. } => *count as usize,
            Positions::Whole(p) => p.len(),
            Positions::Fractional(p) => p.len(),
        }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position of key `i`, in units of the clock.
    #[inline]
    pub fn get(&self, i: usize) -> f64 {
        match self {
            Positions::Run { first, .. } => f64::from(*first) + i as f64,
            Positions::Whole(p) => f64::from(p[i]),
            Positions::Fractional(p) => p[i],
        }
    }
}

/// The instants of a track's keys. Tracks of a clip share timelines by index.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What a unit lasts.
    pub clock: Clock,
    /// Where the keys stand.
    pub positions: Positions,
    /// The part that the clip plays, and its rate.
    pub window: Window,
}

impl Timeline {
    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Instant of key `i`, seconds of the clip.
    #[inline]
    pub fn seconds(&self, i: usize) -> f64 {
        self.window.clip_seconds(self.clock.seconds(self.positions.get(i)))
    }

    /// All instants, seconds of the clip.
    pub fn iter_seconds(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        (0..self.len()).map(|i| self.seconds(i))
    }

    /// The last key's instant, seconds of the clip; 0 where there is none.
    pub fn last_s(&self) -> f64 {
        match self.len() {
            0 => 0.0,
            n => self.seconds(n - 1),
        }
    }

    /// The position (in units of the clock) of an instant of the clip.
    pub fn position_at(&self, clip_s: f64) -> f64 {
        self.clock.position(self.window.source_seconds(clip_s))
    }

    /// The keys around `clip_s` and how far between them it lies: (i, j, fraction of the way from i to j).
    /// Before the first and after the last key the curve holds: i == j.
    ///
    /// # Panics
    /// Where there is no key.
    pub fn locate(&self, clip_s: f64) -> (usize, usize, f64) {
        let n = self.len();
        assert!(n > 0, "a timeline without keys cannot be sampled");
        // First key later than clip_s.
        let mut low = 0;
        let mut high = n;
        while low < high {
            let mid = (low + high) / 2;
            if self.seconds(mid) <= clip_s {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        if low == 0 {
            return (0, 0, 0.0);
        }
        if low == n {
            return (n - 1, n - 1, 0.0);
        }
        let (a, b) = (self.seconds(low - 1), self.seconds(low));
        (low - 1, low, if b > a { (clip_s - a) / (b - a) } else { 0.0 })
    }
}
