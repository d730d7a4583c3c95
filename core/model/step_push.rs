//! `push` and `push_unique`.

use crate::script::{Due, IfDuplicate, MemoryRenewal};

use super::command::{Answer, CallId, Passed, Refused, UniqueItem, gives_ids};
use super::state::{JobState, LARGE, Record, State};

impl State {
    pub(super) fn push(
        &mut self,
        passed: Passed,
        call: &CallId,
        level: u8,
        due: Due,
        items: &[(String, Record)],
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit_shape(passed)?;
        // Its memory is gone, and it was executed before.
        let are_in = items.iter().filter(|(id, _)| self.records.contains_key(id)).count();
        if are_in == items.len() {
            return Ok(self.remember(call, "created".to_owned()));
        }
        let is_again = call.renewal != MemoryRenewal::No;
        let items: Vec<_> =
            items.iter().filter(|(id, _)| !is_again || !self.records.contains_key(id)).cloned().collect();
        let limits = self.limits();
        let at = self.due_at(due);
        for (id, record) in &items {
            self.records.insert(id.clone(), record.clone());
            match at {
                Some(at) => {
                    self.delayed.insert((id.clone(), level), at);
                }
                None => self.put_at_tail(level, id),
            }
        }
        self.note_use(passed.levels, limits);
        match at {
            Some(at) => self.wake_for(at),
            None => self.wake_one(),
        }
        self.count("pushed", items.len());
        Ok(self.remember(call, "created".to_owned()))
    }

    pub(super) fn push_unique(
        &mut self,
        passed: Passed,
        call: &CallId,
        if_duplicate: IfDuplicate,
        items: &[UniqueItem],
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit_shape(passed)?;
        let limits = self.limits();
        let mut lines = Vec::new();
        let mut awaited = Vec::new();
        let mut is_some_ready = false;
        let mut dues = Vec::new();
        let mut stored = 0;
        let (mut is_some_large, mut is_freed) = (false, false);
        for (id, record, due, note) in items {
            let mut line = "created".to_owned();
            if let Some(holder) = self.holder_of(id, record.key.as_deref()) {
                match if_duplicate {
                    IfDuplicate::Refuse => line = format!("duplicate {holder}"),
                    IfDuplicate::Keep => line = format!("kept {holder}"),
                    IfDuplicate::Replace => {
                        // The id may be held by one job and the key by another: both go, the last is named.
                        let mut entered = self.due_at(*due).is_none().then_some(record.level);
                        while let Some(holder) = self.holder_of(id, record.key.as_deref()) {
                            if holder != *id && self.records[&holder].keeps_result() {
                                awaited.push(format!("awaited {holder}"));
                            }
                            is_freed |= self.remove(&holder, entered.take()) == Some(JobState::Reserved);
                            line = format!("replaced {holder}");
                        }
                    }
                }
            }
            if self.holder_of(id, record.key.as_deref()).is_none() {
                self.records.insert(id.clone(), record.clone());
                // It is another job than the one that left this.
                if gives_ids(items) {
                    self.results.remove(id);
                }
                is_some_large |= record.bytes().len() > LARGE;
                if let Some(note) = note {
                    self.returned.insert(id.clone(), note.clone());
                }
                if let Some(key) = &record.key {
                    self.keys.insert(key.clone(), id.clone());
                }
                if let Some(at) = self.due_at(*due) {
                    self.delayed.insert((id.clone(), record.level), at);
                    dues.push(at);
                } else {
                    self.put_at_tail(record.level, id);
                    is_some_ready = true;
                }
                stored += 1;
            }
            lines.push(line);
        }
        lines.extend(awaited);
        let reply = lines.join("\n");
        if stored == 0 {
            return Ok(self.remember(call, reply));
        }
        self.note_use(passed.levels, limits);
        self.meta.large |= is_some_large;
        if is_some_ready {
            self.wake_one();
        }
        if let Some(&earliest) = dues.iter().min() {
            self.wake_for(earliest);
        }
        self.count("pushed", stored);
        if is_freed {
            self.note_freed();
        }
        Ok(self.remember(call, reply))
    }

    /// Who has this id, or else this key.
    fn holder_of(&self, id: &str, key: Option<&str>) -> Option<String> {
        if self.records.contains_key(id) {
            return Some(id.to_owned());
        }
        self.keys.get(key?).filter(|holder| self.records.contains_key(*holder)).cloned()
    }
}
