//! `duly schedules`.

use clap::Args;
use duly::{Error, ErrorKind, Millis, ScheduleView};
use serde_json::{Value, json};

use crate::confirm::Yes;
use crate::show::{Shown, moment, or_dash, printable, span};
use crate::target::One;
use crate::{DONE, FAILED, Output};

/// How many are asked for with one call.
const A_PAGE: usize = 1000;
/// How many of the next slots of one.
const NEXT_SLOTS: usize = 5;

/// Show the schedules of a queue, or act on one
#[derive(Debug, Args)]
pub(crate) struct Schedules {
    #[command(flatten)]
    one: One,
    /// Show this one, with its next slots and its last fires
    name: Option<String>,
    #[command(flatten)]
    act: Act,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    shown: Shown,
}

#[allow(clippy::struct_excessive_bools)] // at most one is given
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false, requires = "name")]
struct Act {
    /// Pause the schedule until it is resumed
    #[arg(long)]
    pause: bool,
    /// Resume it, from the next slot on
    #[arg(long)]
    resume: bool,
    /// Push a job of it now, which moves none of its slots
    #[arg(long)]
    run_now: bool,
    /// Remove it; jobs that it has pushed stay
    #[arg(long)]
    remove: bool,
}

impl Act {
    /// As the log of actions has it; nothing for a look.
    fn verb(self) -> Option<&'static str> {
        let verbs = [
            (self.pause, "schedule-pause"),
            (self.resume, "schedule-resume"),
            (self.run_now, "schedule-run"),
            (self.remove, "schedule-remove"),
        ];
        verbs.into_iter().find(|(is_given, _)| *is_given).map(|(_, verb)| verb)
    }
}

impl Schedules {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let schedules = self.one.open(&output).await?.schedules();
        let Some(name) = &self.name else {
            let mut all = Vec::new();
            loop {
                let page = schedules.list(all.len(), A_PAGE).await?;
                let is_last = page.len() < A_PAGE;
                all.extend(page);
                if is_last {
                    break;
                }
            }
            if self.shown.json {
                output.json(&all.iter().map(value_of).collect::<Vec<_>>())?;
            } else if all.is_empty() {
                output.line(&format!("{} has no schedules", self.one.queue));
            } else {
                let rows = all.iter().map(row_of).collect();
                output.table(&["NAME", "WHEN", "NEXT (UTC)", "LAST (UTC)", " FIRED", "OWNER", ""], rows);
            }
            return Ok(DONE);
        };
        let shown = printable(name);
        if let Some(verb) = self.act.verb() {
            // One that is refused or not there is no less an action; a no is none.
            let question = format!("Remove the schedule {shown}?");
            if self.act.remove && !self.yes.agrees(&question, &mut output).await? {
                return Ok(FAILED);
            }
            output.acting.begin(self.one.action(verb, &[("name", name)]));
        }
        let (is_done, (done, words)) = if self.act.run_now {
            let id = schedules.run_now(name).await?;
            if self.shown.json {
                output.json(&json!({"name": name, "job": id}))?;
            } else {
                output.line(&id);
            }
            return Ok(DONE);
        } else if self.act.pause {
            (schedules.pause(name).await?, ("paused", "is paused"))
        } else if self.act.resume {
            (schedules.resume(name).await?, ("resumed", "fires again"))
        } else if self.act.remove {
            (schedules.remove(name).await?, ("removed", "is removed"))
        } else {
            let Some(view) = schedules.get(name).await? else { return Err(no_such(name)) };
            self.show(&view, &mut output)?;
            return Ok(DONE);
        };
        if !is_done {
            return Err(no_such(name));
        }
        if self.shown.json {
            output.json(&json!({"name": name, "done": done}))?;
        } else {
            output.line(&format!("{shown} {words}"));
        }
        Ok(DONE)
    }

    fn show(&self, view: &ScheduleView, output: &mut Output<'_>) -> Result<(), Error> {
        let next = view.next_slots(NEXT_SLOTS);
        if self.shown.json {
            let mut value = value_of(view);
            value["next_slots"] = next.iter().map(|slot| slot.as_seconds()).collect();
            let fire = |fire: &duly::Fire| {
                json!({
                    "slot": fire.slot.as_seconds(),
                    "at": fire.at.as_seconds(),
                    "outcome": fire.outcome.as_str(),
                    "job": fire.job_id,
                })
            };
            value["fires"] = view.fires.iter().map(fire).collect();
            return output.json(&value);
        }
        output.table(&["NAME", "WHEN", "NEXT (UTC)", "LAST (UTC)", " FIRED", "OWNER", ""], vec![row_of(view)]);
        for slot in next {
            output.line(&format!("next    {}", moment(slot)));
        }
        for fire in view.fires.iter().rev() {
            let (slot, id) = (moment(fire.slot), printable(&fire.job_id));
            output.line(&format!("fired   {slot}  {}  {id}", fire.outcome.as_str()));
        }
        Ok(())
    }
}

fn no_such(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no schedule '{}'", printable(name)))
}

fn when(view: &ScheduleView) -> String {
    let schedule = match &view.schedule {
        Ok(schedule) => schedule,
        Err(error) => return error.to_string(),
    };
    match (schedule.pattern(), schedule.tz_name(), schedule.interval()) {
        (Some(pattern), Some(zone), _) => format!("{pattern} ({zone})"),
        (_, _, Some((every, _))) => {
            format!("every {}", Millis::from_duration(every).map_or_else(|_| "?".to_owned(), span))
        }
        _ => "-".to_owned(),
    }
}

fn row_of(view: &ScheduleView) -> Vec<String> {
    vec![
        view.name.clone(),
        when(view),
        or_dash(view.next.map(moment)),
        or_dash(view.last.map(moment)),
        view.fired.to_string(),
        or_dash(view.owner.clone()),
        if view.is_paused { "paused" } else { "" }.to_owned(),
    ]
}

fn value_of(view: &ScheduleView) -> Value {
    json!({
        "name": view.name,
        "when": when(view),
        "owner": view.owner,
        "paused": view.is_paused,
        "next": view.next.map(Millis::as_seconds),
        "last": view.last.map(Millis::as_seconds),
        "fired": view.fired,
    })
}
