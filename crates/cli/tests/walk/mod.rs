//! A reader of a tutorial page: types its commands into terminals, and compares their output.
//!
//! A block `toml NAME` is a file of that name. A block `console` has:
//!
//! | line | meaning |
//! |---|---|
//! | `$ COMMAND` | a command, which ends before the next one begins |
//! | `studio$ COMMAND` | a command that runs on in the terminal `studio` |
//! | `studio> TEXT` | a line for the program in that terminal |
//! | `studio:` | the next lines are of that terminal |
//! | `^C` | the key in the terminal of the lines before |
//! | any other | output; other lines may stand between |
//!
//! Simulated output has the page's order. Programs in real time print from several threads,
//! so that the order of their lines may differ; each line of the page needs one of its own.
//!
//! In output, `…` stands for anything. A word with a `…` is remembered: where a command has the
//! same word, the reader writes the one that was printed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::free_port;

const PATIENCE: Duration = Duration::from_secs(60);

/// Meaning of the numbers in output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Simulated: the same on every machine.
    Exact,
    /// Measured in real time: any other number will do.
    Measured,
}

/// Block of code of a page.
#[derive(Clone, Debug)]
pub struct Block {
    pub info: String,
    pub text: String,
}

/// Returns the code blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (index, part) in page.split("```").enumerate() {
        if index % 2 == 1 {
            let (info, text) = part.split_once('\n').expect("a fence ends its line");
            let (info, text) = (info.to_owned(), text.to_owned());
            blocks.push(Block { info, text });
        }
    }
    blocks
}

/// Output of all commands of a page, by the terminal's name.
pub type Outputs = BTreeMap<String, String>;

/// Follows a page with the programs of a folder. `ports` are those of the page; free ones take
/// their place.
pub fn follow(page: &str, programs: &Path, ports: &[&str], numbers: Numbers) -> Outputs {
    let mut page = page.to_owned();
    for port in ports {
        // Not one that looks like another port of the page.
        let free = std::iter::repeat_with(|| free_port().to_string())
            .find(|free| !ports.iter().any(|port| free.contains(port)));
        page = page.replace(port, &free.unwrap());
    }
    let mut reader = Reader {
        folder: tempfile::tempdir().unwrap(),
        programs: programs.to_owned(),
        numbers,
        remembered: Vec::new(),
        terminals: BTreeMap::new(),
        outputs: Outputs::new(),
    };
    for block in blocks(&page) {
        let file = block.info.strip_prefix("toml ");
        if let Some(name) = file {
            std::fs::write(reader.folder.path().join(name), &block.text).unwrap();
        } else if block.info == "console" {
            reader.follow(&block.text);
        }
    }
    let names: Vec<String> = reader.terminals.keys().cloned().collect();
    names.iter().for_each(|name| reader.finish(name));
    reader.outputs
}

struct Reader {
    folder: TempDir,
    programs: PathBuf,
    numbers: Numbers,
    /// Words of the page, and the words that were printed.
    remembered: Vec<(String, String)>,
    terminals: BTreeMap<String, Terminal>,
    outputs: Outputs,
}

/// A running command.
struct Terminal {
    command: String,
    child: Child,
    lines: mpsc::Receiver<String>,
    /// Lines that have been read, and that no line of the page is like.
    passed_over: Vec<String>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    /// Follows a block.
    fn follow(&mut self, text: &str) {
        let mut terminal = String::new();
        let text = text.replace("\\\n", " ");
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some((name, command)) = after_name(line, "$ ") {
                // A command without a name has ended when the next one begins.
                self.finish("");
                self.finish(name);
                self.start(name, command);
                terminal = name.to_owned();
            } else if let Some((name, input)) = after_name(line, "> ") {
                self.write(name, input);
                terminal = name.to_owned();
            } else if let Some((name, "")) = after_name(line, ":") {
                terminal = name.to_owned();
            } else if line == "^C" {
                self.interrupt(&terminal);
            } else {
                self.wait_for(&terminal, line);
            }
        }
        self.finish("");
    }

    fn start(&mut self, name: &str, command: &str) {
        let mut command = command.to_owned();
        // A link has a key in it: longer words come first.
        self.remembered
            .sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        for (word, printed) in &self.remembered {
            command = command.replace(word, printed);
        }
        // The program takes the shell's place, and gets its signals.
        let exec = if command.starts_with("anabranch ") {
            "exec "
        } else {
            ""
        };
        let before = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&before));
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{exec}{command}")])
            .current_dir(self.folder.path())
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.folder.path())
            .env("XDG_STATE_HOME", self.folder.path().join(".local/state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let terminal = Terminal {
            command,
            child,
            lines,
            passed_over: Vec::new(),
        };
        self.terminals.insert(name.to_owned(), terminal);
    }

    fn terminal(&mut self, name: &str) -> &mut Terminal {
        let terminal = self.terminals.get_mut(name);
        terminal.unwrap_or_else(|| panic!("nothing runs in the terminal {name:?}"))
    }

    fn write(&mut self, name: &str, input: &str) {
        let stdin = self.terminal(name).child.stdin.as_mut().unwrap();
        writeln!(stdin, "{input}").unwrap();
    }

    /// Presses Ctrl-C.
    fn interrupt(&mut self, name: &str) {
        let kill = format!("kill -INT {}", self.terminal(name).child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success(), "{name} has ended");
    }

    /// Returns the next line of a terminal, without time and level; `None` at the end.
    fn next_line(&mut self, name: &str) -> Option<String> {
        let outputs = self.outputs.get(name).cloned().unwrap_or_default();
        let terminal = self.terminal(name);
        let line = match terminal.lines.recv_timeout(PATIENCE) {
            Ok(line) => without_time(&line).to_owned(),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("{} neither speaks nor ends:\n{outputs}", terminal.command)
            }
        };
        let output = self.outputs.entry(name.to_owned()).or_default();
        output.push_str(&line);
        output.push('\n');
        Some(line)
    }

    /// Takes a line that is as the page shows it, and reads more if needed.
    fn wait_for(&mut self, name: &str, shown: &str) {
        let numbers = self.numbers;
        let shown_words: Vec<&str> = shown.split_whitespace().collect();
        if numbers == Numbers::Measured {
            let earlier = &mut self.terminal(name).passed_over;
            let found = earlier
                .iter()
                .position(|line| likeness(&shown_words, line, numbers).is_some());
            if let Some(index) = found {
                let words = likeness(&shown_words, &earlier.remove(index), numbers);
                self.remembered.extend(words.unwrap_or_default());
                return;
            }
        }
        loop {
            let Some(line) = self.next_line(name) else {
                let output = self.outputs.get(name).cloned().unwrap_or_default();
                let command = &self.terminal(name).command;
                panic!("{command}: the page shows {shown:?}, it printed:\n{output}");
            };
            if let Some(words) = likeness(&shown_words, &line, numbers) {
                self.remembered.extend(words);
                return;
            }
            self.terminal(name).passed_over.push(line);
        }
    }

    /// Waits for the successful end of a terminal's command, if it has one.
    fn finish(&mut self, name: &str) {
        if !self.terminals.contains_key(name) {
            return;
        }
        drop(self.terminal(name).child.stdin.take());
        while self.next_line(name).is_some() {}
        let mut terminal = self.terminals.remove(name).unwrap();
        let status = terminal.child.wait().unwrap();
        let output = self.outputs.get(name).cloned().unwrap_or_default();
        // On a busy machine less than half of the frames may arrive in time.
        let is_busy = self.numbers == Numbers::Measured && status.code() == Some(5);
        let is_good = status.success() || is_busy;
        assert!(is_good, "{}: {status}\n{output}", terminal.command);
    }
}

/// Removes the time and level that a program prints only if no terminal reads it.
fn without_time(line: &str) -> &str {
    let levels = ["Z INFO  ", "Z WARN  ", "Z ERROR "];
    let found = levels.iter().find_map(|level| line.split_once(level));
    match found {
        Some((time, rest)) if time.starts_with("20") && !time.contains(' ') => rest,
        _ => line,
    }
}

/// Splits a line at a sign that follows the name of a terminal, which may be empty.
fn after_name<'a>(line: &'a str, sign: &str) -> Option<(&'a str, &'a str)> {
    let (name, rest) = line.split_once(sign)?;
    let is_name = name.chars().all(|c| c.is_ascii_lowercase());
    is_name.then_some((name, rest))
}

/// Returns the shown words with a `…` and the printed ones, if a line is as shown.
fn likeness(shown: &[&str], line: &str, numbers: Numbers) -> Option<Vec<(String, String)>> {
    let line: Vec<&str> = line.split_whitespace().collect();
    let mut words = Vec::new();
    is_alike(shown, &line, numbers, &mut words).then_some(words)
}

/// Returns whether a line's words are as shown. Adds the shown words with a `…` and the printed
/// ones to `words`.
fn is_alike(
    shown: &[&str],
    line: &[&str],
    numbers: Numbers,
    words: &mut Vec<(String, String)>,
) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return line.is_empty();
    };
    if *first == "…" {
        return (0..=line.len()).any(|at| is_alike(rest, &line[at..], numbers, words));
    }
    let Some((printed, after)) = line.split_first() else {
        return false;
    };
    let mark = words.len();
    let is_same = if first.contains('…') {
        has_parts(printed, &first.split('…').collect::<Vec<_>>())
    } else {
        first == printed || (numbers == Numbers::Measured && are_numbers(first, printed))
    };
    if is_same && first.contains('…') {
        words.push(((*first).to_owned(), (*printed).to_owned()));
    }
    let is_alike = is_same && is_alike(rest, after, numbers, words);
    if !is_alike {
        words.truncate(mark);
    }
    is_alike
}

/// Returns whether a word consists of these parts with anything between them.
fn has_parts(word: &str, parts: &[&str]) -> bool {
    let [first, middle @ .., last] = parts else {
        return false;
    };
    let Some(mut rest) = word.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

fn are_numbers(shown: &str, printed: &str) -> bool {
    is_number(shown) && is_number(printed) && signs(shown).eq(signs(printed))
}

fn is_number(word: &str) -> bool {
    let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
    digits.parse::<f64>().is_ok()
}

/// Returns a word without its digits and points.
fn signs(word: &str) -> impl Iterator<Item = char> {
    word.chars().filter(|c| !c.is_ascii_digit() && *c != '.')
}

#[test]
fn a_line_is_alike_by_words_numbers_and_gaps() {
    let shown = "frames: 125 sent, … (key=ab_…&code=…)";
    let line = "frames: 99 sent, 0 late, (key=ab_Xy&code=z)";
    for (shown, line, numbers, expected) in [
        (shown, line, Numbers::Measured, true),
        (shown, line, Numbers::Exact, false),
        (
            shown,
            &line.replace("sent", "lost"),
            Numbers::Measured,
            false,
        ),
        (
            shown,
            &line.replace("&code", "&cod"),
            Numbers::Measured,
            false,
        ),
        ("12.5 %", "12.5", Numbers::Measured, false),
        ("12.5 %", "9 %", Numbers::Measured, true),
        ("127.0.0.1:7000", "127.0.0.1:7001", Numbers::Measured, false),
    ] {
        let shown_words: Vec<&str> = shown.split_whitespace().collect();
        let is_alike = likeness(&shown_words, line, numbers).is_some();
        assert_eq!(is_alike, expected, "{shown} {line}");
    }
    assert_eq!(
        without_time("2026-11-26T15:58:03.726Z INFO  made it"),
        "made it"
    );
}
