//! Keys, readings and signals, until the command ends.

use std::io::Write;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use duly::{Client, Error};
use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::draw::draw;
use super::reading::{Reading, read};
use super::screen::{Screen, failed};
use super::view::{Act, Change, Key, Notice, View};
use crate::actions;
use crate::show::printable;
use crate::signals::Ends;
use crate::target::open;
use crate::{DONE, INTERRUPTED};

/// What the server has answered.
enum News {
    Read(Result<Reading, Error>),
    /// And why that is not in the log of actions, if it is not.
    Changed(Change, Result<(), Error>, Result<(), String>),
}

/// Shows queues and workers on the terminal `out` until it is ended. Gives the exit status.
pub(super) async fn show(
    client: &Client,
    names: &[String],
    interval: Duration,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let mut ends = Ends::hear()?;
    let (tell, mut news) = unbounded_channel();
    let (ask, asked) = unbounded_channel();
    let now = Notify::new();
    let reading = read_on(client, names, interval, &now, &tell);
    let changing = change_on(client, asked, &now, &tell);
    tokio::pin!(reading, changing);
    let mut screen = Screen::enter(out)?;
    let mut events = EventStream::new();
    let mut view = View::default();
    loop {
        screen.draw(|frame| draw(frame, &mut view, interval))?;
        tokio::select! {
            () = &mut reading => {}
            () = &mut changing => {}
            Some(news) = news.recv() => learn(&mut view, news),
            event = events.next() => {
                let event = event.unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
                let Some(key) = key(&event.map_err(|error| failed(&error))?) else { continue };
                match view.press(key) {
                    Act::Nothing => {}
                    Act::Quit => return Ok(DONE),
                    Act::Interrupt => return Ok(INTERRUPTED),
                    Act::SetPaused(change) => _ = ask.send(change),
                }
            }
            end = ends.come() => return Ok(end.status()),
        }
    }
}

/// Reads again and again, earlier if it is `now`.
async fn read_on(client: &Client, names: &[String], interval: Duration, now: &Notify, tell: &UnboundedSender<News>) {
    loop {
        let reading = read(client, names).await;
        let pause = reading.as_ref().map_or(interval, |reading| reading.pause(interval));
        _ = tell.send(News::Read(reading));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = now.notified() => {}
        }
    }
}

/// Pauses and resumes queues, one after the other.
async fn change_on(client: &Client, mut asked: UnboundedReceiver<Change>, now: &Notify, tell: &UnboundedSender<News>) {
    while let Some(change) = asked.recv().await {
        let changed = set_paused(client, &change).await;
        let noted = note(client, &change, &changed).await;
        _ = tell.send(News::Changed(change, changed, noted));
        now.notify_one();
    }
}

async fn set_paused(client: &Client, change: &Change) -> Result<(), Error> {
    let queue = open(client, &change.name, change.partitions)?;
    if change.is_pause { queue.pause().await } else { queue.resume().await }
}

async fn note(client: &Client, change: &Change, changed: &Result<(), Error>) -> Result<(), String> {
    let (verb, parts) = (if change.is_pause { "pause" } else { "resume" }, change.partitions.to_string());
    let what = actions::described(verb, &[("queue", &*change.name), ("parts", &parts)]);
    let outcome = changed.as_ref().map_or_else(Error::to_string, |()| "done".to_owned());
    actions::note(client, &actions::operator(), &what, &outcome).await
}

fn learn(view: &mut View, news: News) {
    let time = jiff::Timestamp::now().strftime("%H:%M:%S").to_string();
    match news {
        News::Read(Ok(reading)) => view.show(reading, time),
        News::Read(Err(error)) => view.is_away(error.to_string(), time),
        News::Changed(change, Ok(()), noted) => {
            let what = if change.is_pause { "is paused" } else { "hands out jobs again" };
            let unnoted = noted.err().map(|why| format!("; {}", printable(&why))).unwrap_or_default();
            view.notice = Some(Notice::Said(format!("the queue {} {what}{unnoted}", printable(&change.name))));
        }
        News::Changed(_, Err(error), _) => view.notice = Some(Notice::Failed(printable(&error.to_string()))),
    }
}

/// Nothing for what is no key, such as a new size: the screen is drawn anew.
fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return Some(if *code == KeyCode::Char('c') { Key::Interrupt } else { Key::Else });
    }
    Some(match code {
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Char('s') => Key::SortNext,
        KeyCode::Char('S') => Key::SortBefore,
        KeyCode::Tab => Key::Other,
        KeyCode::Char('p') => Key::Pause,
        KeyCode::Char('y') => Key::Yes,
        _ => Key::Else,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let of = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |letter| of(KeyCode::Char(letter), KeyModifiers::NONE);
        assert_eq!(plain('q'), Some(Key::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(of(KeyCode::Char('p'), KeyModifiers::CONTROL), Some(Key::Else));
        assert_eq!([plain('j'), of(KeyCode::Down, KeyModifiers::NONE)], [Some(Key::Down); 2]);
        assert_eq!(of(KeyCode::Char('S'), KeyModifiers::SHIFT), Some(Key::SortBefore));
        assert_eq!([plain('y'), plain('n'), plain('x')], [Some(Key::Yes), Some(Key::Else), Some(Key::Else)]);
        assert_eq!(key(&Event::Resize(80, 24)), None);
    }
}
