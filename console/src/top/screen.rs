//! Takes the terminal, and gives it back however the command ends.

use std::io::{self, Write};
use std::panic::{set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use duly::{Error, ErrorKind};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// The terminal while the command has it. Whoever drops this gives it back.
pub(super) struct Screen<'a> {
    terminal: Terminal<CrosstermBackend<&'a mut dyn Write>>,
    _taken: Taken,
}

impl<'a> Screen<'a> {
    /// `out`: the terminal.
    pub(super) fn enter(mut out: &'a mut dyn Write) -> Result<Self, Error> {
        let taken = Taken::until(give_back);
        enable_raw_mode().map_err(|error| failed(&error))?;
        execute!(&mut out, EnterAlternateScreen, Hide).map_err(|error| failed(&error))?;
        let terminal = Terminal::new(CrosstermBackend::new(out)).map_err(|error| failed(&error))?;
        Ok(Self { terminal, _taken: taken })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Error> {
        self.terminal.draw(draw).map(drop).map_err(|error| failed(&error))
    }
}

pub(super) fn failed(error: &io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the terminal cannot be used: {error}"))
}

/// As it was. A terminal that is gone needs nothing.
fn give_back() {
    _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    _ = disable_raw_mode();
}

type Undo = Arc<dyn Fn() + Send + Sync>;

/// Something that is undone once: when this is dropped, or before a panic speaks, as its words would go with the screen.
struct Taken {
    undo: Undo,
    before: Arc<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>,
}

impl Taken {
    fn until(undo: impl Fn() + Send + Sync + 'static) -> Self {
        let is_done = AtomicBool::new(false);
        let undo: Undo = Arc::new(move || {
            if !is_done.swap(true, Ordering::Relaxed) {
                undo();
            }
        });
        let before: Arc<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> = Arc::from(take_hook());
        let (first, then) = (Arc::clone(&undo), Arc::clone(&before));
        set_hook(Box::new(move |panic| {
            first();
            then(panic);
        }));
        Self { undo, before }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        (self.undo)();
        // A thread that panics may not set the hook. The one that stays does nothing more than the one before.
        if !std::thread::panicking() {
            let before = Arc::clone(&self.before);
            set_hook(Box::new(move |panic| before(panic)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_terminal_is_given_back_once_and_before_a_panic_speaks() {
        let happened = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let happened = Arc::clone(&happened);
            move || happened.lock().unwrap().push(what)
        };
        let here = std::thread::current().id();
        let (original, says) = (take_hook(), note("said"));
        set_hook(Box::new(move |panic| if std::thread::current().id() == here { says() } else { original(panic) }));
        drop(Taken::until(note("given back")));
        let (undo, is_caught) = (note("given back after a panic"), note("caught"));
        let caught = catch_unwind(move || {
            let _taken = Taken::until(undo);
            panic!("it breaks");
        });
        assert!(caught.is_err());
        is_caught();
        assert_eq!(*happened.lock().unwrap(), ["given back", "given back after a panic", "said", "caught"]);
    }
}
