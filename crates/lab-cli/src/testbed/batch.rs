//! Films in batches, each with a control from disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_emu::MAX_RELEASE_ERROR;
use anabranch_net::Clock;
use anabranch_terminal::print;
use anabranch_units::{Instant, Seed};
use anyhow::ensure;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::film::{Played, Setting, limit_of, play, wait_for_the_next_second};
use super::films::{Film, World};
use super::networks::Network;
use super::player::{Playback, Player};
use super::programs::make_film;
use super::rows::Row;
use super::simulated;
use crate::kernel::programs as controllers;

/// Pictures a second.
const PICTURES: u64 = 24;
/// Part of a control's pictures that may be lost.
const MAX_CONTROL_LOSS: f64 = 0.03;
/// Port of the control's counters on this machine.
const CONTROL_PORT: u16 = 27_190;

/// All films of a testbed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches<'a> {
    pub(super) networks: &'a [Network],
    pub(super) rows: &'a [Row],
    pub(super) film_count: u64,
    /// Films at the same time.
    pub(super) beside: usize,
    pub(super) seconds: u64,
    pub(super) folder: &'a Path,
}

/// A film to be played.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    network: &'a Network,
    row: &'a Row,
    number: u64,
}

impl Batches<'_> {
    /// Plays all films over links, and in the simulator.
    ///
    /// # Errors
    /// A network or a program cannot be started, or the run was interrupted.
    pub(super) fn run(&self) -> anyhow::Result<Vec<Film>> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let mut films = self.simulate()?;
        fs::create_dir_all(self.folder)?;
        readable(self.folder)?;
        let film = self.folder.join(format!("film-{}.mp4", self.seconds));
        print::note(format_args!("makes a film of {} s", self.seconds));
        make_film(&film, self.seconds)?;
        readable(&film)?;
        let _registered = Registered::new(self.rows)?;
        let jobs = self.jobs();
        let batch_count = jobs.len().div_ceil(self.beside);
        for (index, batch) in jobs.chunks(self.beside).enumerate() {
            let names: Vec<String> = batch.iter().map(Job::name).collect();
            let (number, seconds) = (index + 1, self.seconds);
            print::note(format_args!(
                "{number} of {batch_count}: {}, {seconds} s and the stalls",
                names.join(", ")
            ));
            films.extend(self.play(batch, &film, &stop)?);
        }
        Ok(films)
    }

    fn simulate(&self) -> anyhow::Result<Vec<Film>> {
        let mut films = Vec::new();
        for network in self.networks {
            for row in self.rows {
                let simulated = simulated::films(network, row, self.seconds, self.film_count)?;
                films.extend(simulated);
            }
        }
        Ok(films)
    }

    /// Returns the films in rounds, so that rows meet the same times of a machine's day.
    fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for number in 1..=self.film_count {
            for network in self.networks {
                for row in self.rows {
                    jobs.push(Job {
                        network,
                        row,
                        number,
                    });
                }
            }
        }
        jobs
    }

    /// Plays films at the same time, and the control beside them.
    fn play(&self, jobs: &[Job<'_>], film: &Path, stop: &AtomicBool) -> anyhow::Result<Vec<Film>> {
        let (control, played) = std::thread::scope(|scope| {
            let control = scope.spawn(|| self.control(film, stop));
            let mut threads = Vec::new();
            for job in jobs {
                let folder = self.folder_of(job);
                threads.push(scope.spawn(move || {
                    play(
                        Setting {
                            network: job.network,
                            row: job.row,
                            film,
                            seconds: self.seconds,
                            folder: &folder,
                            seed: Seed(job.number),
                        },
                        stop,
                    )
                }));
            }
            let played: anyhow::Result<Vec<Played>> = threads
                .into_iter()
                .map(|thread| joined(thread.join()))
                .collect();
            (joined(control.join()), played)
        });
        let (control, played) = (control?, played?);
        let pairs = jobs.iter().zip(played);
        Ok(pairs
            .map(|(job, played)| self.film(job, &played, &control))
            .collect())
    }

    fn folder_of(&self, job: &Job<'_>) -> PathBuf {
        let name = job.name().replace(['/', ' ', ':'], "-");
        self.folder.join(name)
    }

    /// Plays the film from disk.
    fn control(&self, film: &Path, stop: &AtomicBool) -> anyhow::Result<Playback> {
        let folder = self.folder.join("control");
        let clock = Clock::start();
        let limit = limit_of(self.seconds);
        let film = film.display().to_string();
        let mut player = Player::start(None, &[], &film, &folder, CONTROL_PORT, limit)?;
        while clock.now() < Instant::from_secs(limit) && !player.read_counters(None)? {
            ensure!(!stop.load(Ordering::Relaxed), "the testbed was interrupted");
            wait_for_the_next_second(&clock);
        }
        player.finish()
    }

    fn film(&self, job: &Job<'_>, played: &Played, control: &Playback) -> Film {
        let pictures = self.seconds * PICTURES;
        Film {
            world: match job.row {
                Row::Kernel(_) => World::Kernel,
                Row::Proxy(_) => World::Proxy,
            },
            network: job.network.name.to_owned(),
            row: job.row.to_string(),
            number: job.number,
            underflows: played
                .playback
                .underflows
                .saturating_sub(control.underflows),
            stalled_seconds: played.playback.stalled_seconds as f64,
            discards: played.playback.lost.saturating_sub(control.lost),
            path_megabits: played
                .path_bytes
                .iter()
                .map(|bytes| *bytes as f64 * 8e-6 / self.seconds as f64)
                .collect(),
            resent: played.resent,
            dropped: played.dropped.iter().sum(),
            lasted_seconds: played.lasted,
            void: void(played, control, pictures),
        }
    }
}

impl Job<'_> {
    fn name(&self) -> String {
        let Job {
            network,
            row,
            number,
        } = self;
        format!("{} {row} {number}", network.name)
    }
}

/// Returns the reason for which a film shows nothing.
fn void(played: &Played, control: &Playback, pictures: u64) -> Option<String> {
    if control.lost as f64 > MAX_CONTROL_LOSS * pictures as f64 {
        let lost = control.lost;
        return Some(format!("the control lost {lost} of {pictures} pictures"));
    }
    if control.displayed == 0 {
        return Some("the control showed nothing".to_owned());
    }
    if played.playback.displayed == 0 {
        return Some("the film did not begin".to_owned());
    }
    (played.lateness > MAX_RELEASE_ERROR).then(|| {
        let millis = played.lateness.as_millis_f64();
        format!("packets left {millis:.2} ms late")
    })
}

fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets the user without rights read a file or enter a folder.
fn readable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() | 0o555);
    fs::set_permissions(path, permissions)?;
    Ok(())
}

/// Controllers that may be chosen in namespaces, until the value is dropped.
struct Registered {
    allowed_before: Vec<String>,
    own: Vec<String>,
}

impl Registered {
    fn new(rows: &[Row]) -> anyhow::Result<Registered> {
        let allowed_before = controllers::allowed()?;
        let mut own = Vec::new();
        if rows.iter().any(Row::is_bpf) && controllers::registered()?.is_empty() {
            controllers::register()?;
            own = controllers::registered()?;
        }
        let registered = Registered {
            allowed_before,
            own,
        };
        let of_kernel = rows.iter().filter(|row| matches!(row, Row::Kernel(_)));
        let names: Vec<String> = of_kernel.map(Row::to_string).collect();
        controllers::allow(&names)?;
        Ok(registered)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = controllers::set_allowed(&self.allowed_before);
        for name in &self.own {
            let _ = controllers::unregister(name);
        }
    }
}
