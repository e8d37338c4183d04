//! One user's share of an LTE cell, as RFC 8869 §2 describes the cell: a trace of the milliseconds
//! in which a proportional-fair scheduler serves that user.
//!
//! | part | model | source |
//! |---|---|---|
//! | sites | 7, of 3 sectors; distance of sites 3 cell radii | RFC 8869; TR 36.814 A.2.1.1 |
//! | path loss | 128.1 + 37.6 log10(km) dB and 20 dB of a wall; shadows of 8 dB | TR 36.814 |
//! | sector's antenna | 14 dBi, -min(12 (angle / 70°)², 20) dB | TR 36.814 |
//! | power, noise figure | base 46 dBm, 5 dB; user 24 dBm, 9 dB | TR 36.942 |
//! | fading | Rayleigh, two antennas, carrier of 2 GHz, by the user's speed | Clarke's model |
//! | rate | 9 MHz · min(a log2(1 + SINR), b); 0.6 and 4.4 down, 0.4 and 2 up | TR 36.942 A.2 |
//! | users | Poisson arrivals in all 21 cells, 30 s each | RFC 8869 |
//! | scheduler | each 1 ms by rate / mean rate; unused blocks to the next | proportional fair |
//!
//! The other users have a video and an audio flow at their highest rates, and one has a download
//! (RFC 8869: 4 or 2 Mbit/s per cell in case 1, 2 or 1 in case 3). They send as much as the cell
//! serves. The user of the trace has the median SINR of 99 drawn places, and always has data. All
//! other cells transmit all the time. Positions stay, so that speed is fading alone: there is no
//! hand-over. Retransmissions of the radio and the control channel are left out.

use std::f64::consts::{PI, TAU};

use anabranch_units::{Rng, Seed};

/// Length of a trace and of the time before it in which the cell fills, ms.
const TRACE_MILLIS: u64 = 30_000;
const WARM_UP_MILLIS: u64 = 60_000;
/// Length of a user's call, ms (RFC 8869).
const CALL_MILLIS: u64 = 30_000;
/// Cells among which the arrivals of RFC 8869's user intensity are spread.
const CELL_COUNT: f64 = 21.0;
/// Bits of an opportunity: 1504 bytes.
const OPPORTUNITY_BITS: f64 = 12_032.0;
/// Resource blocks of a carrier of 10 MHz, Hz.
const BANDWIDTH_HZ: f64 = 9e6;
/// Time constant of the scheduler's mean rates, ms: chosen.
const FAIRNESS_MILLIS: f64 = 100.0;
/// Highest rate of a user: 1.5 Mbit/s of video with headers, and audio, bit/ms.
const CALL_BITS: f64 = 1_590.0;
/// Time in which a user's unserved media pile up, ms: then the encoder has followed.
const BACKLOG_MILLIS: f64 = 300.0;
/// Interference over noise at a base station, dB: chosen.
const UPLINK_INTERFERENCE_DB: f64 = 3.0;
/// Highest SINR at which the base station lets a user arrive (power control), dB: chosen.
const UPLINK_MOST_SINR_DB: f64 = 15.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Down,
    Up,
}

/// A trace of [`TRACES`].
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Name of the file, without its ending.
    pub name: &'static str,
    pub direction: Direction,
    /// 3GPP's case 1 or, with bad coverage, 3.
    pub radius_metres: f64,
    pub speed_kmh: f64,
    /// RFC 8869's user intensity: arrivals per second in all cells.
    pub intensity: f64,
    /// The download beside the calls, bit/ms.
    pub download_bits: f64,
}

const fn cell(name: &'static str, is_near: bool, speed_kmh: f64, intensity: f64) -> Cell {
    let radius_metres = if is_near { 500.0 / 3.0 } else { 1_732.0 / 3.0 };
    let download_bits = if is_near { 4_000.0 } else { 2_000.0 };
    Cell {
        name,
        direction: Direction::Down,
        radius_metres,
        speed_kmh,
        intensity,
        download_bits,
    }
}

const fn uplink(name: &'static str, is_near: bool, speed_kmh: f64, intensity: f64) -> Cell {
    let cell = cell(name, is_near, speed_kmh, intensity);
    Cell {
        direction: Direction::Up,
        download_bits: cell.download_bits / 2.0,
        ..cell
    }
}

/// The shipped traces, by RFC 8869's case, direction and user intensity.
pub const TRACES: [Cell; 12] = [
    cell("lte-2.1-down-3.5", true, 3.0, 3.5),
    cell("lte-2.1-down-7.0", true, 3.0, 7.0),
    cell("lte-2.1-down-7.0-fast", true, 30.0, 7.0),
    cell("lte-2.1-down-10.5", true, 3.0, 10.5),
    uplink("lte-2.1-up-4.2", true, 3.0, 4.2),
    uplink("lte-2.1-up-5.6", true, 3.0, 5.6),
    uplink("lte-2.1-up-5.6-fast", true, 30.0, 5.6),
    uplink("lte-2.1-up-7.0", true, 3.0, 7.0),
    cell("lte-2.2-down-3.5", false, 3.0, 3.5),
    cell("lte-2.2-down-7.0", false, 3.0, 7.0),
    uplink("lte-2.2-up-0.7", false, 3.0, 0.7),
    uplink("lte-2.2-up-2.1", false, 3.0, 2.1),
];

/// Returns a normally distributed number (Box & Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.next_f64()));
    radius * libm::cos(TAU * rng.next_f64())
}

fn decibels(db: f64) -> f64 {
    libm::pow(10.0, db / 10.0)
}

/// Rayleigh fading of one antenna: eight waves from all around (Clarke).
#[derive(Clone, Debug)]
struct Antenna {
    /// Angular frequency per ms and phases of the two parts of each wave.
    waves: [(f64, f64, f64); 8],
}

impl Antenna {
    fn new(rng: &mut Rng, speed_kmh: f64) -> Antenna {
        // Metres per second times the carrier's 2 GHz, by the speed of light.
        let doppler_hz = speed_kmh / 3.6 * 2e9 / 299_792_458.0;
        let waves = std::array::from_fn(|index| {
            let angle = (TAU * (index as f64 + rng.next_f64())) / 8.0;
            let frequency = TAU * doppler_hz * libm::cos(angle) / 1e3;
            (frequency, TAU * rng.next_f64(), TAU * rng.next_f64())
        });
        Antenna { waves }
    }

    /// Returns the gain of power, 1 on average.
    fn gain(&self, millis: u64) -> f64 {
        let mut parts = (0.0, 0.0);
        for (frequency, real, imaginary) in &self.waves {
            let phase = frequency * millis as f64;
            parts.0 += libm::cos(phase + real);
            parts.1 += libm::cos(phase + imaginary);
        }
        (parts.0 * parts.0 + parts.1 * parts.1) / 8.0
    }
}

#[derive(Clone, Debug)]
struct User {
    /// Without fading.
    sinr: f64,
    antennas: [Antenna; 2],
    leaves_at: u64,
    /// Bits that it has to send, and their growth in each ms.
    backlog: f64,
    demand: f64,
    /// Mean of the bits served each ms.
    mean: f64,
}

impl Cell {
    /// Returns the times of the opportunities, ms.
    pub fn trace(&self) -> Vec<u64> {
        // Seeds are the same for all intensities: a busier cell has more users, not other ones.
        let seed = Seed(8869);
        let mut arrivals = seed.derive("arrivals").rng();
        let always = WARM_UP_MILLIS + TRACE_MILLIS;
        let ours = self.median_place(&mut seed.derive("places").rng());
        let mut rng = seed.derive("first users").rng();
        let mut users = vec![self.user(&mut rng, ours, f64::INFINITY, always)];
        let place = self.placed(&mut rng);
        users.push(self.user(&mut rng, place, self.download_bits, always));
        let mut times = Vec::new();
        let mut earned = 0.0;
        for millis in 0..always {
            users.retain(|user| user.leaves_at > millis);
            if arrivals.chance(self.intensity / CELL_COUNT / 1e3) {
                let mut rng = seed.derive(&format!("user of {millis}")).rng();
                let place = self.placed(&mut rng);
                users.push(self.user(&mut rng, place, CALL_BITS, millis + CALL_MILLIS));
            }
            let served = self.serve(&mut users, millis);
            if millis < WARM_UP_MILLIS {
                continue;
            }
            earned += served;
            while earned >= OPPORTUNITY_BITS {
                earned -= OPPORTUNITY_BITS;
                times.push(millis - WARM_UP_MILLIS + 1);
            }
        }
        times
    }

    /// Returns the median SINR of 99 places.
    fn median_place(&self, rng: &mut Rng) -> f64 {
        let mut places: Vec<f64> = (0..99).map(|_| self.placed(rng)).collect();
        places.sort_by(f64::total_cmp);
        places[49]
    }

    fn user(&self, rng: &mut Rng, sinr: f64, demand: f64, leaves_at: u64) -> User {
        User {
            sinr,
            antennas: std::array::from_fn(|_| Antenna::new(rng, self.speed_kmh)),
            leaves_at,
            backlog: 0.0,
            demand,
            mean: 1.0,
        }
    }

    /// Gives a millisecond to users, most of all by rate over mean rate; returns the bits of the
    /// first one.
    fn serve(&self, users: &mut [User], millis: u64) -> f64 {
        let mut turns = Vec::with_capacity(users.len());
        for (index, user) in users.iter_mut().enumerate() {
            user.backlog = (user.backlog + user.demand).min(user.demand * BACKLOG_MILLIS);
            let gain = user.antennas.iter().map(|antenna| antenna.gain(millis));
            let bits = self.bits_per_milli(user.sinr * gain.sum::<f64>() / 2.0);
            turns.push((bits / user.mean, bits, index));
        }
        turns.sort_by(|one, other| other.0.total_cmp(&one.0));
        // The rest of the carrier's blocks go to the next one.
        let (mut free, mut ours) = (1.0, 0.0);
        for (_, bits, index) in turns {
            let user = &mut users[index];
            let served = (bits * free).min(user.backlog);
            free -= if bits > 0.0 { served / bits } else { 0.0 };
            user.backlog -= served;
            user.mean += (served - user.mean) / FAIRNESS_MILLIS;
            if index == 0 {
                ours = served;
            }
        }
        ours
    }

    /// Truncated form of Shannon's bound (TR 36.942 A.2).
    fn bits_per_milli(&self, sinr: f64) -> f64 {
        let (factor, most) = match self.direction {
            Direction::Down => (0.6, 4.4),
            Direction::Up => (0.4, 2.0),
        };
        BANDWIDTH_HZ * (factor * libm::log2(1.0 + sinr)).min(most) / 1e3
    }

    /// Draws a place at which sector 0 of the middle site is the strongest, and returns its SINR.
    fn placed(&self, rng: &mut Rng) -> f64 {
        loop {
            let reach = 2.0 * self.radius_metres;
            let (x, y) = (rng.next_f64() * 2.0 - 1.0, rng.next_f64() * 2.0 - 1.0);
            let gains = self.gains((x * reach, y * reach), rng);
            let strongest = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if gains[0] == strongest {
                return self.sinr(&gains);
            }
        }
    }

    /// Returns the gains to the 21 sectors in dB, antennas included.
    fn gains(&self, (x, y): (f64, f64), rng: &mut Rng) -> [f64; 21] {
        let distance = 3.0 * self.radius_metres;
        let common = normal(rng);
        let mut gains = [0.0; 21];
        for site in 0..7 {
            let angle = PI / 3.0 * site as f64;
            let ring = if site == 0 { 0.0 } else { distance };
            let (dx, dy) = (x - ring * libm::cos(angle), y - ring * libm::sin(angle));
            let kilometres = libm::hypot(dx, dy).max(35.0) / 1e3;
            // Shadows of different sites correlate by a half.
            let shadow = 8.0 * (common + normal(rng)) / libm::sqrt(2.0);
            let loss = 128.1 + 37.6 * libm::log10(kilometres) + 20.0 + shadow;
            for sector in 0..3 {
                let towards = libm::atan2(dy, dx) - TAU / 3.0 * sector as f64;
                let off_degrees = libm::remainder(towards, TAU).to_degrees();
                let pattern = (12.0 * off_degrees * off_degrees / (70.0 * 70.0)).min(20.0);
                gains[3 * site + sector] = 14.0 - pattern - loss;
            }
        }
        gains
    }

    fn sinr(&self, gains: &[f64; 21]) -> f64 {
        fn noise_dbm(figure: f64) -> f64 {
            -174.0 + 10.0 * libm::log10(BANDWIDTH_HZ) + figure
        }

        // Thermal noise of -174 dBm/Hz.
        match self.direction {
            Direction::Down => {
                let received = gains.map(|gain| decibels(46.0 + gain));
                let others: f64 = received[1..].iter().sum();
                received[0] / (others + decibels(noise_dbm(9.0)))
            }
            Direction::Up => {
                let disturbance_dbm = noise_dbm(5.0) + UPLINK_INTERFERENCE_DB;
                decibels((24.0 + gains[0] - disturbance_dbm).min(UPLINK_MOST_SINR_DB))
            }
        }
    }
}
