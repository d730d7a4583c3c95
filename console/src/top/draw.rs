//! Puts the view on the screen.

use std::time::Duration;

use duly::WorkerInfo;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use super::row::{COLUMNS, Column, Row, fitting, written};
use super::view::{Focus, Notice, View};
use crate::show::{or_dash, printable};

const KEYS: &str = "q quit  s sort  p pause or resume  Tab workers";
/// The heading of the workers is one more line.
const MOST_WORKERS_OF_SCREEN: u16 = 3;
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const WARNING: Style = Style::new().fg(Color::Yellow);

/// `interval`: of the readings, as it was asked for.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, interval: Duration) {
    let height = frame.area().height;
    let workers =
        u16::try_from(view.workers.len()).unwrap_or(u16::MAX).clamp(1, (height / MOST_WORKERS_OF_SCREEN).max(1));
    let areas = [Constraint::Length(2), Constraint::Min(2), Constraint::Length(workers + 1), Constraint::Length(1)];
    let [top, queues, below, foot] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(vec![sums(view), said(view, interval)]), top);
    draw_queues(frame, view, queues);
    draw_workers(frame, view, below);
    frame.render_widget(Paragraph::new(last_line(view)), foot);
}

fn sums(view: &View) -> Line<'static> {
    let numbers = || view.rows.iter().filter_map(|row| row.numbers.as_ref().ok());
    let [ready, reserved, delayed, failed] = numbers().fold([0; 4], |[ready, reserved, delayed, failed], one| {
        [ready + one.ready, reserved + one.reserved, delayed + one.delayed, failed + one.failed]
    });
    let rates = || view.rows.iter().filter_map(|row| row.rates);
    // No `sum`: that of no rates is -0.
    let [pushed, done] = rates().fold([0.0; 2], |[pushed, done], one| [pushed + one.pushed, done + one.done]);
    let slots: usize = view.workers.iter().map(|worker| worker.concurrency).sum();
    Line::from(format!(
        "{} queues: {ready} ready, {reserved} reserved, {delayed} delayed, {failed} failed; {} pushed/s, {} done/s; {} workers, {slots} jobs at once",
        view.rows.len(),
        written(pushed),
        written(done),
        view.workers.len(),
    ))
}

fn said(view: &View, interval: Duration) -> Line<'static> {
    match (&view.outage, &view.read_at) {
        (Some(outage), read_at) => {
            let shown = read_at.as_ref().map_or_else(String::new, |at| format!(" (numbers of {at})"));
            let error = printable(&outage.error);
            Line::styled(format!("the server is away since {} UTC{shown}: {error}", outage.since), BAD)
        }
        (None, Some(at)) => Line::from(format!("read at {at} UTC, every {} s", interval.as_secs_f64())),
        (None, None) => Line::from("reading"),
    }
}

fn draw_queues(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    view.page = area.height.saturating_sub(2).into();
    let columns = fitting(area.width);
    let sorted_by = &COLUMNS[view.sorted_by];
    let heading = columns.iter().map(|column| {
        let is_sorted = column.heading == sorted_by.heading;
        let name = column.heading.trim();
        aligned(column, if is_sorted { format!("{name}*") } else { name.to_owned() })
    });
    let rows = view.rows.iter().map(|row| queue(row, &columns));
    // The name takes what the others leave.
    let widths = columns.iter().enumerate().map(|(index, column)| match index {
        0 => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let mut state = TableState::new();
    if view.focus == Focus::Queues {
        state.select(view.chosen_row());
    }
    let table = Table::new(rows, widths).header(TableRow::new(heading).style(HEADING)).row_highlight_style(CHOSEN);
    frame.render_stateful_widget(table, area, &mut state);
}

fn queue(row: &Row, columns: &[&Column]) -> TableRow<'static> {
    let has_failed = row.numbers.as_ref().is_ok_and(|numbers| numbers.failed > 0);
    let cell = |column: &&Column| {
        let cell = aligned(column, column.cell(row));
        match column.heading {
            "STATE" => cell.style(if row.numbers.is_err() { BAD } else { WARNING }),
            " FAILED" if has_failed => cell.style(Style::new().fg(Color::Red)),
            _ => cell,
        }
    };
    TableRow::new(columns.iter().map(cell))
}

fn aligned(column: &Column, text: String) -> Cell<'static> {
    let alignment = if column.is_number() { Alignment::Right } else { Alignment::Left };
    Cell::from(Text::from(text).alignment(alignment))
}

fn draw_workers(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let heading = TableRow::new(["WORKER", "PID", "VERSION", "RUNS", "QUEUES"]).style(HEADING);
    let rows = view.workers.iter().map(worker);
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Fill(3),
    ];
    let mut state = TableState::new();
    if view.focus == Focus::Workers && !view.workers.is_empty() {
        state.select(Some(view.chosen_worker));
    }
    let table = Table::new(rows, widths).header(heading).row_highlight_style(CHOSEN);
    frame.render_stateful_widget(table, area, &mut state);
}

fn worker(worker: &WorkerInfo) -> TableRow<'static> {
    let name = worker.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    TableRow::new([
        printable(&format!("{}{name}", worker.host)),
        worker.pid.to_string(),
        printable(&format!("{} {}", worker.language, worker.version)),
        format!("{} of {}", worker.running.len(), worker.concurrency),
        or_dash(Some(printable(&worker.queues.join(",")))),
    ])
}

fn last_line(view: &View) -> Line<'static> {
    if let Some(change) = &view.asked {
        let verb = if change.is_pause { "Pause" } else { "Resume" };
        return Line::styled(format!("{verb} the queue {}? y/n", printable(&change.name)), WARNING);
    }
    match &view.notice {
        Some(Notice::Said(text)) => Line::from(text.clone()),
        Some(Notice::Failed(text)) => Line::styled(text.clone(), BAD),
        None => Line::from(KEYS),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::Key;
    use super::super::view::tests::view;
    use super::*;

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, Duration::from_secs(2))).unwrap();
        let cells = &terminal.backend().buffer().content;
        let line =
            |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
        cells.chunks(width.into()).map(|cells| line(cells).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_screen_has_sums_queues_workers_and_keys() {
        let mut view = view(&[("mail", 1), ("orders", 1234)]);
        let mut info = WorkerInfo::default();
        (info.host, info.pid, info.concurrency) = ("app1".to_owned(), 4711, 8);
        view.workers.push(info);
        let lines = drawn(&mut view, 140, 10);
        let sums = "2 queues: 1235 ready, 0 reserved, 0 delayed, 0 failed; 0 pushed/s, 0 done/s; 1 workers";
        assert!(lines[0].starts_with(sums), "{lines:#?}");
        assert_eq!(lines[1], "read at 08:00:00 UTC, every 2 s");
        assert!(lines[2].starts_with("QUEUE*"), "{lines:#?}");
        assert_eq!(lines[4].split_whitespace().take(2).collect::<Vec<_>>(), ["orders", "1234"]);
        assert_eq!(lines[8].split_whitespace().collect::<Vec<_>>(), ["app1", "4711", "0", "of", "8", "-"]);
        assert_eq!(lines[9], KEYS);
    }

    #[test]
    fn the_chosen_queue_is_on_the_screen_however_many_there_are() {
        let names: Vec<_> = (0..500).map(|number| format!("q{number:03}")).collect();
        let mut view = view(&names.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>());
        view.press(Key::Last);
        assert!(drawn(&mut view, 80, 24).iter().any(|line| line.starts_with("q499")));
    }

    #[test]
    fn no_screen_is_too_small_and_no_name_acts_on_it() {
        let mut view = view(&[("a\u{1b}[2Jb\nc", 1), ("订单", 2)]);
        for (width, height) in [(1, 1), (2, 3), (10, 4), (80, 5), (300, 2)] {
            drawn(&mut view, width, height);
        }
        let mut info = WorkerInfo::default();
        (info.host, info.queues) = ("host\u{1b}[2J".to_owned(), vec!["q\u{9b}2J".to_owned()]);
        view.workers.push(info);
        view.press(Key::Pause);
        view.is_away("refused\u{1b}[2J".to_owned(), "08:00:05".to_owned());
        let all = drawn(&mut view, 100, 10).join("\n");
        assert!(
            !all.contains(['\u{1b}', '\u{9b}']) && all.contains("host\\u{1b}[2J") && all.contains("refused\\u{1b}[2J"),
            "{all}"
        );
        assert!(all.contains("Pause the queue a\\u{1b}[2Jb\\nc? y/n"), "{all}");
        assert!(all.contains("since 08:00:05 UTC (numbers of 08:00:00)"), "{all}");
    }
}
