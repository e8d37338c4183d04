//! The terminal, and what its user wants.

use std::io;
use std::time::Duration as StdDuration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::view::{self, View};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
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

/// The terminal's columns, if there is one.
pub(super) fn width() -> Option<u16> {
    let (width, _) = terminal::size().ok()?;
    (width > 0).then_some(width)
}

/// A terminal in raw mode, given back as it was when this is dropped, and on a panic.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        Ok(Screen { terminal })
    }

    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        self.terminal.draw(|frame| view::draw(frame, view))?;
        Ok(())
    }

    /// Waits for a wish; `None`: there was none.
    pub(super) fn wait(&mut self, patience: StdDuration) -> io::Result<Option<Wish>> {
        // A key without meaning makes the next question come earlier, and no more.
        match event::poll(patience)? {
            true => Ok(Wish::of(&event::read()?)),
            false => Ok(None),
        }
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
