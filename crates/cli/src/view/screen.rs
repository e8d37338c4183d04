//! The terminal, and its user's keys.

use std::io;
use std::time::Duration as StdDuration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, Frame};

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Quit,
    Redraw,
    NextStream,
    PreviousStream,
    NextColumn,
    PreviousColumn,
}

impl Wish {
    fn of(event: &Event) -> Option<Wish> {
        match event {
            Event::Resize(..) => Some(Wish::Redraw),
            Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    Some(Wish::Quit)
                }
                KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
                KeyCode::Down => Some(Wish::NextStream),
                KeyCode::Up => Some(Wish::PreviousStream),
                KeyCode::Right => Some(Wish::NextColumn),
                KeyCode::Left => Some(Wish::PreviousColumn),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the terminal's columns, if there is a terminal.
pub(crate) fn width() -> Option<u16> {
    let (width, _) = terminal::size().ok()?;
    (width > 0).then_some(width)
}

/// A terminal in raw mode, which is restored when this is dropped, and on a panic.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal does not support it; it is restored.
    pub(crate) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init().inspect_err(|_| {
            let _ = ratatui::try_restore();
        })?;
        Ok(Screen { terminal })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }

    /// Returns the user's wishes since the last call; waits for one if there are none.
    pub(crate) fn wishes(&self, patience: StdDuration) -> io::Result<Vec<Wish>> {
        let mut wishes = Vec::new();
        let mut patience = patience;
        while event::poll(patience)? {
            wishes.extend(Wish::of(&event::read()?));
            patience = StdDuration::ZERO;
        }
        Ok(wishes)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        let wish = |code, modifiers| Wish::of(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = KeyModifiers::NONE;
        assert_eq!(wish(KeyCode::Char('q'), plain), Some(Wish::Quit));
        let control = KeyModifiers::CONTROL;
        assert_eq!(wish(KeyCode::Char('c'), control), Some(Wish::Quit));
        assert_eq!(wish(KeyCode::Char('c'), plain), None);
        assert_eq!(wish(KeyCode::Right, plain), Some(Wish::NextColumn));
    }
}
