//! `Duly\Schedules`: the schedules of a queue; and those that a worker keeps.

use std::sync::Arc;

use duly::{Millis, OwnSchedules, blocking};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{Text, text, whole};
use crate::error::Fault;
use crate::record::signed;
use crate::schedule::{Schedule, ScheduleView, SyncReport};
use crate::waiting::Signals;

/// The schedules of a queue.
#[php_class]
#[php(name = "Duly\\Schedules")]
#[php(flags = ClassFlags::Final)]
pub struct Schedules {
    queue: blocking::Queue,
}

impl Schedules {
    pub fn new(queue: blocking::Queue) -> Self {
        Self { queue }
    }
}

#[php_impl]
impl Schedules {
    /// Stores a schedule in place of the one that has the name; gives `created`, `changed` or `unchanged`.
    pub fn put(&self, name: Text, schedule: &Schedule) -> PhpResult<String> {
        let (name, schedule) = (name.utf8("name")?, &schedule.schedule);
        let put =
            self.queue.wait_for(|queue| async move { queue.schedules().put(&name, schedule).await }, &mut Signals)?;
        Ok(put.as_str().to_owned())
    }

    /// Removes a schedule; gives whether there was one.
    pub fn remove(&self, name: Text) -> PhpResult<bool> {
        let name = name.utf8("name")?;
        Ok(self.queue.wait_for(|queue| async move { queue.schedules().remove(&name).await }, &mut Signals)?)
    }

    /// A schedule with its last twenty fires, or null.
    pub fn get(&self, name: Text) -> PhpResult<Option<ScheduleView>> {
        let name = name.utf8("name")?;
        let view = self.queue.wait_for(|queue| async move { queue.schedules().get(&name).await }, &mut Signals)?;
        Ok(view.map(ScheduleView::from))
    }

    /// A page of the schedules, in the order in which they fire.
    #[php(defaults(offset = 0, limit = 100))]
    pub fn list(&self, offset: i64, limit: i64) -> PhpResult<Vec<ScheduleView>> {
        let (offset, limit) = (whole("offset", offset, i64::MAX)?, whole("limit", limit, 1000)?);
        let list = |queue: Arc<duly::Queue>| async move { queue.schedules().list(offset, limit).await };
        Ok(self.queue.wait_for(list, &mut Signals)?.into_iter().map(ScheduleView::from).collect())
    }

    /// Fires no more until `resume`; gives whether there is a schedule of this name.
    pub fn pause(&self, name: Text) -> PhpResult<bool> {
        let name = name.utf8("name")?;
        Ok(self.queue.wait_for(|queue| async move { queue.schedules().pause(&name).await }, &mut Signals)?)
    }

    /// Fires again from the first slot in the future on; gives whether there is a schedule of this name.
    pub fn resume(&self, name: Text) -> PhpResult<bool> {
        let name = name.utf8("name")?;
        Ok(self.queue.wait_for(|queue| async move { queue.schedules().resume(&name).await }, &mut Signals)?)
    }

    /// Pushes a job of the schedule now; gives its id.
    pub fn run_now(&self, name: Text) -> PhpResult<String> {
        let name = name.utf8("name")?;
        Ok(self.queue.wait_for(|queue| async move { queue.schedules().run_now(&name).await }, &mut Signals)?)
    }

    /// The next slots of a schedule; none if it is paused or over.
    #[php(defaults(count = 5))]
    pub fn next(&self, name: Text, count: i64) -> PhpResult<Vec<f64>> {
        let (name, count) = (name.utf8("name")?, whole("count", count, 100)?);
        let next = |queue: Arc<duly::Queue>| async move { queue.schedules().next(&name, count).await };
        Ok(self.queue.wait_for(next, &mut Signals)?.into_iter().map(Millis::as_seconds).collect())
    }

    /// Makes the schedules of an owner those of this array of names and schedules.
    pub fn sync(&self, owner: Text, schedules: &ZendHashTable) -> PhpResult<SyncReport> {
        let (owner, list) = (owner.utf8("owner")?, list_of(schedules)?);
        let sync = |queue: Arc<duly::Queue>| async move { queue.schedules().sync(&owner, &list).await };
        Ok(self.queue.wait_for(sync, &mut Signals)?.into())
    }

    /// Fires what is due; gives how many slots pushed a job.
    pub fn fire_due(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.wait_for(|queue| async move { queue.schedules().fire_due().await }, &mut Signals)?))
    }
}

/// Of each member its queue, its owner, and its schedules.
pub fn own_schedules(given: &ZendHashTable) -> Result<Vec<OwnSchedules>, Fault> {
    let refused = || Fault::invalid("schedules is a list of queue, owner, and schedules by name");
    let mut all = Vec::new();
    let mut members = Iter::new(given);
    while let Some((_, member)) = members.next_zval() {
        let member = member.dereference().array().ok_or_else(refused)?;
        let part = |index| member.get_index(index).map(Zval::dereference).ok_or_else(refused);
        let (queue, owner) = (text("a queue's name", part(0)?)?, text("owner", part(1)?)?);
        all.push(OwnSchedules { queue, owner, list: list_of(part(2)?.array().ok_or_else(refused)?)? });
    }
    Ok(all)
}

fn list_of(given: &ZendHashTable) -> Result<Vec<(String, duly::Schedule)>, Fault> {
    let refused = || Fault::invalid("schedules is an array such as ['nightly' => new Duly\\Schedule(...)]");
    let mut list = Vec::new();
    // Not the table's own iterator: it panics at a key that is not UTF-8.
    let mut members = Iter::new(given);
    while let Some((name, schedule)) = members.next_zval() {
        let name = match name.long() {
            Some(number) if name.is_long() => number.to_string(),
            _ => name.string().ok_or_else(refused)?,
        };
        let schedule = schedule.dereference().extract::<&Schedule>().ok_or_else(refused)?;
        list.push((name, schedule.schedule.clone()));
    }
    Ok(list)
}
