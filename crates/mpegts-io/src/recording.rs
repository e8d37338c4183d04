//! The file, or sequence of files, into which sessions are recorded.

use core::str::FromStr;
use std::io;
use std::path::{Path, PathBuf};

use anabranch_net::Clock;
use anabranch_terminal::files::check_writable;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use jiff::Timestamp;

use super::blocking_file::BlockingFile;
use super::output_error::OutputError;
use super::pipes;
use super::playout::Piece;
use super::recording_film::{Film, Step};
use super::recording_gaps::{GapCause, Gaps};

/// Extensions of containers that players recognize by name and that are not written here.
const OTHER_CONTAINERS: [&str; 15] = [
    "3gp", "asf", "avi", "f4v", "flv", "m4a", "m4v", "mka", "mkv", "mov", "mp4", "mxf", "ogg",
    "webm", "wmv",
];
/// Placeholder for the start time in a file's name.
const TIME: &str = "{time}";
/// Minimum size of a file before the next one begins.
const MIN_ROTATION_BYTES: u64 = 1_000_000;

/// Start of the next file: at the first key frame after this time, or after these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// After this time.
    After(Duration),
    /// At this size.
    At {
        /// The size, at least one megabyte.
        bytes: u64,
    },
}

impl FromStr for Rotation {
    type Err = String;

    /// Parses `10 min` or `500 MB`.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|at: char| at.is_ascii_alphabetic() || at == ' ');
        let unit = text[digits.len()..].trim();
        let scale = match unit {
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            _ => {
                return match text.parse() {
                    Ok(span) if span >= Duration::from_secs(1) => Ok(Rotation::After(span)),
                    Ok(_) => Err("a file holds a second at least".to_owned()),
                    Err(_) => {
                        Err("expected a time, as \"10 min\", or a size, as \"500 MB\"".into())
                    }
                };
            }
        };
        let count: u64 = digits
            .trim()
            .parse()
            .map_err(|_| format!("expected a whole number of {unit}"))?;
        let bytes = count.saturating_mul(scale);
        if bytes >= MIN_ROTATION_BYTES {
            Ok(Rotation::At { bytes })
        } else {
            Err("a file holds a megabyte at least".to_owned())
        }
    }
}

/// A file that replaces an older one only when its first bytes arrive. If no session begins, no
/// recording is lost.
#[derive(Debug)]
pub struct Recording {
    /// Path, which may contain `{time}`.
    path: PathBuf,
    rotation: Option<Rotation>,
    file: Option<BlockingFile>,
    /// MP4 instead of MPEG-TS.
    film: Option<Film>,
    /// Path of the file that was opened last, if it was written or writing to it failed.
    opened: Option<PathBuf>,
    began_at: Instant,
    byte_count: u64,
    gaps: Option<Gaps>,
    /// Number of bytes in the file, and the time of the last ones.
    length: u64,
    written_at: Option<Instant>,
    /// Why nothing is written now.
    interruption: Option<GapCause>,
}

impl Recording {
    /// Creates the recording without writing, but reports errors that would prevent it.
    pub(super) fn new(
        path: &Path,
        rotation: Option<Rotation>,
        clock: &Clock,
        stop: &Stop,
    ) -> Result<Self, OutputError> {
        check_name(path, rotation)?;
        let is_one_of_many = path.to_string_lossy().contains(TIME);
        let first = path_at(path, Timestamp::now());
        if is_one_of_many && let Some(folder) = first.parent() {
            std::fs::create_dir_all(folder).map_err(|source| OutputError::MakeFolder {
                folder: folder.to_owned(),
                source,
            })?;
        }
        // Pipes and devices have no content to lose, and opening a pipe would block.
        if !first.exists() || first.is_file() || first.is_dir() {
            check_writable(&first)?;
        }
        let mut recording = Recording {
            path: path.to_owned(),
            rotation,
            file: None,
            film: is_film(path).then(Film::default),
            opened: None,
            began_at: clock.now(),
            byte_count: 0,
            gaps: None,
            length: 0,
            written_at: None,
            interruption: None,
        };
        if recording.is_pipe() {
            // Nothing is lost in a pipe, and its reader is present before the video.
            let file = BlockingFile::create(path, clock, stop);
            recording.file = Some(file.map_err(|source| OutputError::Write {
                name: format!("output {}", path.display()),
                source,
            })?);
            recording.opened = Some(path.to_owned());
        }
        Ok(recording)
    }

    /// Returns whether it is a pipe, which somebody reads meanwhile.
    pub(super) fn is_pipe(&self) -> bool {
        let metadata = self.path.metadata();
        metadata.is_ok_and(|metadata| pipes::is_fifo(&metadata))
    }

    /// Begins a session: if the name contains the time, a new file begins.
    pub(super) fn begin_session(&mut self) {
        if self.is_one_of_many() {
            self.end_file();
        }
        self.interruption = Some(GapCause::NoSender);
    }

    /// Writes a piece. After an error the file is closed. The next piece opens it again, or opens
    /// the next file if its name contains the time.
    ///
    /// # Errors
    /// The operating system's error. A file keeps nothing of the piece.
    pub(super) fn write(&mut self, piece: &Piece, clock: &Clock, stop: &Stop) -> io::Result<()> {
        if piece.bytes.is_empty() {
            return Ok(());
        }
        if self.file.is_some() && piece.begins_key_frame && self.is_full(clock.now()) {
            self.end_file();
        }
        let Some(film) = &mut self.film else {
            return self.write_bytes(piece, &piece.bytes, clock, stop);
        };
        for step in film.push(clock.now(), &piece.bytes)? {
            let bytes = match step {
                Step::Append(bytes) => bytes,
                Step::Begin(bytes) => {
                    self.file = None;
                    bytes
                }
            };
            self.write_bytes(piece, &bytes, clock, stop)?;
        }
        Ok(())
    }

    /// Writes bytes that a piece has brought.
    fn write_bytes(
        &mut self,
        piece: &Piece,
        bytes: &[u8],
        clock: &Clock,
        stop: &Stop,
    ) -> io::Result<()> {
        let written = self
            .file(clock, stop)
            .and_then(|file| file.write(bytes, clock, stop));
        match written {
            Ok(()) => self.on_written(piece, bytes.len() as u64, clock.now()),
            Err(_) => self.close_failed(),
        }
        written
    }

    /// Lets the next bytes begin another file.
    fn end_file(&mut self) {
        self.file = None;
        if let Some(film) = &mut self.film {
            film.restart();
        }
    }

    fn on_written(&mut self, piece: &Piece, bytes: u64, now: Instant) {
        self.note_gap(piece, now);
        self.length += bytes;
        if self.byte_count == 0
            && self.is_one_of_many()
            && let Some(path) = &self.opened
        {
            log::info!("recording into {}", path.display());
        }
        self.byte_count += bytes;
    }

    /// Notes that something is missing between the bytes before and those of a piece.
    fn note_gap(&mut self, piece: &Piece, now: Instant) {
        let interruption = self.interruption.take();
        let from = self.written_at.replace(now);
        let Some(gaps) = &mut self.gaps else { return };
        if let Some(from) = from {
            let missing = u64::from(piece.missing_pictures);
            match interruption {
                Some(cause) => gaps.add(self.length, from, now, missing, cause),
                None if missing > 0 => {
                    gaps.add(self.length, from, now, missing, GapCause::Lost);
                }
                None => {}
            }
        }
        gaps.tick(now);
    }

    /// Returns the file, and opens it if necessary.
    fn file(&mut self, clock: &Clock, stop: &Stop) -> io::Result<&mut BlockingFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open(clock, stop)?,
        };
        Ok(self.file.insert(file))
    }

    fn open(&mut self, clock: &Clock, stop: &Stop) -> io::Result<BlockingFile> {
        let path = match &self.opened {
            // A film cannot go on in a file, since its beginning describes its pictures.
            Some(_) if self.film.is_some() => unused(&path_at(&self.path, Timestamp::now())),
            _ => path_at(&self.path, Timestamp::now()),
        };
        if self.is_one_of_many() {
            make_folder(&self.path, &path)?;
        }
        let is_same = self.opened.as_ref() == Some(&path);
        let file = if is_same {
            BlockingFile::reopen(&path)?
        } else {
            BlockingFile::create(&path, clock, stop)?
        };
        if !is_same {
            let now = clock.now();
            self.gaps = path.is_file().then(|| Gaps::begin(&path, now));
            (self.length, self.written_at) = (0, None);
        }
        self.opened = Some(path);
        (self.began_at, self.byte_count) = (clock.now(), 0);
        Ok(file)
    }

    /// Closes a file after a failed write, so that its space is freed if somebody deletes it.
    fn close_failed(&mut self) {
        let is_open = self.file.is_some();
        self.end_file();
        self.interruption = Some(GapCause::NotWritten);
        if is_open && self.byte_count == 0 && self.is_one_of_many() {
            // Each attempt has another name; none leaves an empty file.
            let _ = self.opened.take().map(std::fs::remove_file);
        }
    }

    fn is_one_of_many(&self) -> bool {
        self.path.to_string_lossy().contains(TIME)
    }

    fn is_full(&self, now: Instant) -> bool {
        match self.rotation {
            Some(Rotation::After(span)) => now >= self.began_at + span,
            Some(Rotation::At { bytes }) => self.byte_count >= bytes,
            None => false,
        }
    }
}

/// Creates the folders of `path` whose names contain the time. The folder above them existed at the
/// start. It is not created again, because it may be the mount point of an unmounted disk.
fn make_folder(pattern: &Path, path: &Path) -> io::Result<()> {
    let folders = pattern.ancestors().skip(1);
    let timed_count = folders
        .take_while(|folder| folder.to_string_lossy().contains(TIME))
        .count();
    let base = path.ancestors().nth(timed_count + 1);
    match path.parent() {
        Some(folder) if timed_count > 0 && base.is_some_and(exists) => {
            std::fs::create_dir_all(folder)
        }
        _ => Ok(()),
    }
}

/// Returns whether a folder exists; a relative path begins in the current folder.
fn exists(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || folder.is_dir()
}

/// Returns the path of a file that begins at `time`, in UTC, so that names are in order in every
/// zone. If several begin in the same second, the later ones are numbered.
fn path_at(path: &Path, time: Timestamp) -> PathBuf {
    let text = path.to_string_lossy();
    let time = time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let first = PathBuf::from(text.replace(TIME, &time));
    if !text.contains(TIME) || !first.exists() {
        return first;
    }
    let mut later =
        (2..).map(|number| PathBuf::from(text.replace(TIME, &format!("{time}-{number}"))));
    later.find(|path| !path.exists()).unwrap_or(first)
}

/// Returns the path, or the first one with a number behind its name that does not exist.
fn unused(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    core::iter::once(path.to_owned())
        .chain((2..).map(|number| path.with_file_name(format!("{stem}-{number}.{extension}"))))
        .find(|path| !path.exists())
        .unwrap_or_else(|| path.to_owned())
}

/// Returns whether the name asks for MP4.
fn is_film(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("mp4")
}

/// Checks a file's name, in which words in braces may be replaced later, and the folder above them.
///
/// # Errors
/// The extension is another container's, `rotation` needs `{time}`, or the folder is missing or
/// cannot be written.
pub(super) fn check_file(path: &Path, rotation: Option<Rotation>) -> Result<(), OutputError> {
    check_name(path, rotation)?;
    // Folders of files with the time in their names are made.
    let is_made = path.to_string_lossy().contains(TIME);
    let mut folders = path.ancestors().skip(1);
    let folder = folders.find(|folder| !has_place(folder) && (!is_made || exists(folder)));
    let folder = match folder {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(OutputError::NoFolder {
            path: path.to_owned(),
            folder: folder.to_owned(),
        });
    }
    let is_old = !has_place(path) && path.exists();
    if !is_old {
        pipes::check_folder_writable(folder).map_err(|source| OutputError::Folder {
            path: path.to_owned(),
            folder: folder.to_owned(),
            source,
        })?;
    } else if path.is_file() || path.is_dir() {
        check_writable(path)?;
    }
    Ok(())
}

/// Returns whether words in braces may be replaced in the path.
fn has_place(path: &Path) -> bool {
    path.to_string_lossy().contains('{')
}

/// Checks the extension, and that rotated files have different names.
fn check_name(path: &Path, rotation: Option<Rotation>) -> Result<(), OutputError> {
    if !is_film(path) {
        check_container(path)?;
    }
    if rotation.is_some() && !path.to_string_lossy().contains(TIME) {
        return Err(OutputError::SameName {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Rejects extensions of other containers than MPEG-TS.
///
/// # Errors
/// The extension is that of another container.
pub fn check_container(path: &Path) -> Result<(), OutputError> {
    let extension = path
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    if OTHER_CONTAINERS.contains(&extension.as_str()) {
        return Err(OutputError::Container {
            path: path.to_owned(),
            extension,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{encoded, ffmpeg, has_ffmpeg, transport_stream};

    fn at_work() -> (Clock, Stop) {
        (Clock::start(), Stop::new().unwrap())
    }

    fn piece(bytes: &[u8], begins_key_frame: bool) -> Piece {
        Piece {
            bytes: bytes.to_vec(),
            begins_key_frame,
            ..Piece::default()
        }
    }

    #[test]
    fn a_files_name_and_folder_are_examined_without_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Some(Rotation::At { bytes: 1_000_000 });
        for (name, rotation, part) in [
            ("{name}.mkv", None, "the format is MPEG-TS"),
            ("none/{name}.ts", None, "mkdir -p"),
            ("none/film.ts", None, "mkdir -p"),
            ("{name}.ts", rotation, "needs {time}"),
            ("", None, "cannot write"),
        ] {
            let error = check_file(&folder.path().join(name), rotation).unwrap_err();
            assert!(error.to_string().contains(part), "{name}: {error}");
        }
        let made = "none/{name}-{time}.ts";
        for name in ["film.ts", "{name}/{time}/film.ts", "{name}-{time}.ts", made] {
            check_file(&folder.path().join(name), None).unwrap();
        }
        check_file(&folder.path().join("{name}-{time}.ts"), rotation).unwrap();
        check_file(Path::new("film.ts"), None).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_older_recording_stays_until_the_first_bytes_come() {
        let (clock, stop) = at_work();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.ts");
        std::fs::write(&path, "yesterday").unwrap();
        let mut recording = Recording::new(&path, None, &clock, &stop).unwrap();
        for (bytes, content) in [("", "yesterday"), ("to", "to"), ("day", "today")] {
            let piece = piece(bytes.as_bytes(), true);
            recording.write(&piece, &clock, &stop).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        let fresh = folder.path().join("new.ts");
        drop(Recording::new(&fresh, None, &clock, &stop).unwrap());
        assert!(!fresh.exists());
    }

    #[test]
    fn a_full_file_is_followed_by_another_at_a_key_frame() {
        let (clock, stop) = at_work();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roof/film-{time}.ts");
        let rotation = Some(Rotation::At { bytes: 3 });
        let mut recording = Recording::new(&path, rotation, &clock, &stop).unwrap();
        for (bytes, is_key) in [(b"ab", true), (b"cd", false), (b"ef", false), (b"gh", true)] {
            let piece = piece(bytes, is_key);
            recording.write(&piece, &clock, &stop).unwrap();
        }
        let mut files: Vec<_> = std::fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["abcdef", "gh"]);
        recording.begin_session();
        assert!(recording.file.is_none(), "another session, another file");
    }

    #[test]
    fn rotation_needs_names_that_differ() {
        let (clock, stop) = at_work();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.ts");
        let rotation = "10 min".parse().ok();
        assert_eq!(rotation, Some(Rotation::After(Duration::from_secs(600))));
        let error = Recording::new(&path, rotation, &clock, &stop).unwrap_err();
        assert!(error.to_string().contains("{time}"), "{error}");
        assert_eq!("500 MB".parse(), Ok(Rotation::At { bytes: 500_000_000 }));
        for wrong in ["5", "0 s", "1 kB", "many MB", "-1 MB", "MB"] {
            assert!(wrong.parse::<Rotation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_film_goes_on_in_another_file_and_players_decode_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        let (clock, stop) = at_work();
        let mut film = Recording::new(&path, None, &clock, &stop).unwrap();
        for (number, picture) in encoded(50).into_iter().enumerate() {
            let stream = transport_stream(&[(number, picture)], Duration::ZERO);
            film.write(&piece(&stream, number % 25 == 0), &clock, &stop)
                .unwrap();
            if number == 24 {
                film.end_file();
            }
        }
        drop(film);
        let second = folder.path().join("film-2.mp4");
        for path in [&path, &second] {
            assert_eq!(&std::fs::read(path).unwrap()[4..8], b"ftyp");
            if has_ffmpeg("mpeg2video") {
                let shown = path.display().to_string();
                let said = ffmpeg("info", &["-i", &shown, "-f", "null", "-"]);
                assert!(said.contains("frame=   25"), "{said}");
            }
        }
    }

    #[test]
    fn other_containers_are_refused_with_the_way_to_them() {
        for name in ["out.mp4", "/tmp/Out.MKV", "a.b.mov"] {
            let error = check_container(Path::new(name)).unwrap_err().to_string();
            assert!(
                error.contains(".ts") && error.contains("ffmpeg -i"),
                "{error}"
            );
        }
        for name in ["out.ts", "out.m2ts", "out", "mp4"] {
            check_container(Path::new(name)).unwrap();
        }
    }
}
