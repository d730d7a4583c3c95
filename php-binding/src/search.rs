//! The filter of `Queue::search`, and the `Duly\\SearchPage` that it gives.

use duly::Filter;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::convert::{Text, given, moment, span_or_interval, utf8, whole};
use crate::error::Fault;
use crate::inspect::JobView;
use crate::record::{record, signed};

/// The arguments of `search` that say which jobs.
#[derive(Default)]
pub struct Which<'a> {
    pub name: Option<Text>,
    pub keyPrefix: Option<Text>,
    pub error: Option<Text>,
    pub priority: Option<i64>,
    pub olderThan: Option<&'a Zval>,
    pub since: Option<&'a Zval>,
    pub until: Option<&'a Zval>,
}

impl Which<'_> {
    pub fn into_filter(self) -> Result<Filter, Fault> {
        let mut filter = Filter::new();
        filter = utf8("name", self.name)?.into_iter().fold(filter, Filter::name);
        filter = utf8("keyPrefix", self.keyPrefix)?.into_iter().fold(filter, Filter::key_prefix);
        filter = utf8("error", self.error)?.into_iter().fold(filter, Filter::error);
        if let Some(priority) = self.priority {
            filter = filter.priority(whole("priority", priority, duly::MAX_PRIORITY.into())?);
        }
        if let Some(age) = given(self.olderThan) {
            filter = filter.older_than(span_or_interval("olderThan", age)?);
        }
        if let Some(since) = given(self.since) {
            filter = filter.since(moment("since", since)?);
        }
        if let Some(until) = given(self.until) {
            filter = filter.until(moment("until", until)?);
        }
        Ok(filter)
    }
}

record! {
    /// A page of the jobs that a search found.
    SearchPage = "Duly\\SearchPage" {
        /// The jobs.
        jobs: Vec<JobView>,
        /// How many jobs were read for this page.
        looked_at: i64,
        /// Where the next page begins; null after the last one.
        cursor: Option<String>,
    }
}

impl From<duly::SearchPage> for SearchPage {
    fn from(page: duly::SearchPage) -> Self {
        let jobs = page.jobs.into_iter().map(JobView::new).collect();
        Self { jobs, looked_at: signed(page.looked_at), cursor: page.cursor }
    }
}
