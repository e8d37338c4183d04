//! The terminal, and its user's keys.

use std::io;
use std::time::Duration as StdDuration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, Frame};

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Quit,
    Redraw,
    NextStream,
    PreviousStream,
    NextColumn,
    PreviousColumn,
}

impl KeyAction {
    fn of(event: &Event) -> Option<KeyAction> {
        match event {
            Event::Resize(..) => Some(KeyAction::Redraw),
            Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    Some(KeyAction::Quit)
                }
                KeyCode::Char('q') | KeyCode::Esc => Some(KeyAction::Quit),
                KeyCode::Down => Some(KeyAction::NextStream),
                KeyCode::Up => Some(KeyAction::PreviousStream),
                KeyCode::Right => Some(KeyAction::NextColumn),
                KeyCode::Left => Some(KeyAction::PreviousColumn),
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

    /// Returns the user's actions since the last call; waits for one if there are none.
    pub(crate) fn actions(&self, patience: StdDuration) -> io::Result<Vec<KeyAction>> {
        let mut actions = Vec::new();
        let mut patience = patience;
        while event::poll(patience)? {
            actions.extend(KeyAction::of(&event::read()?));
            patience = StdDuration::ZERO;
        }
        Ok(actions)
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

    fn action(code: KeyCode, modifiers: KeyModifiers) -> Option<KeyAction> {
        KeyAction::of(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_have_their_meaning() {
        let plain = KeyModifiers::NONE;
        assert_eq!(action(KeyCode::Char('q'), plain), Some(KeyAction::Quit));
        let control = KeyModifiers::CONTROL;
        assert_eq!(action(KeyCode::Char('c'), control), Some(KeyAction::Quit));
        assert_eq!(action(KeyCode::Char('c'), plain), None);
        assert_eq!(action(KeyCode::Right, plain), Some(KeyAction::NextColumn));
    }
}
