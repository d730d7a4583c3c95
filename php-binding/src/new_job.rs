//! `Duly\NewJob`: a job before it is pushed.

use std::collections::BTreeMap;

use duly::{Millis, OnDuplicate};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert;
use crate::error::Fault;
use crate::retry::RetryPolicy;
use crate::when::when;

/// A job for `Queue::pushMany`; its arguments are those of `Queue::push`.
#[php_class]
#[php(name = "Duly\\NewJob")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct NewJob {
    pub job: duly::NewJob,
}

/// The arguments that `push` and `NewJob` share.
pub struct Options<'a> {
    pub data: &'a Zval,
    pub name: Option<String>,
    pub delay: Option<&'a Zval>,
    pub at: Option<&'a Zval>,
    pub id: Option<String>,
    pub key: Option<String>,
    pub priority: Option<i64>,
    pub maxRetries: Option<i64>,
    pub retry: Option<&'a RetryPolicy>,
    pub timeout: Option<&'a Zval>,
    pub headers: Option<&'a ZendHashTable>,
    pub onDuplicate: Option<String>,
    pub rawJson: Option<&'a Zval>,
}

impl Options<'_> {
    pub fn into_job(self) -> Result<duly::NewJob, Fault> {
        let mut job = duly::NewJob::from_data(convert::data(self.data, self.rawJson)?).when(when(self.delay, self.at)?);
        if let Some(name) = self.name {
            job = job.name(name);
        }
        if let Some(id) = self.id {
            job = job.id(id);
        }
        if let Some(key) = self.key {
            job = job.key(key);
        }
        if let Some(priority) = self.priority {
            job = job.priority(
                u8::try_from(priority).map_err(|_| Fault::invalid("priority must be 0 (first) to 9 (last)"))?,
            );
        }
        if let Some(retries) = self.maxRetries {
            let range = "maxRetries must be 0 to 4,294,967,295";
            job = job.max_retries(u32::try_from(retries).map_err(|_| Fault::invalid(range))?);
        }
        if let Some(retry) = self.retry {
            job = job.retry(retry.policy.clone());
        }
        if let Some(timeout) = self.timeout.filter(|timeout| !timeout.is_null()) {
            job = job.timeout(Millis::from_seconds(convert::seconds("timeout", timeout)?)?.to_duration());
        }
        for (name, value) in headers(self.headers)? {
            job = job.header(name, value);
        }
        Ok(job.on_duplicate(on_duplicate(self.onDuplicate.as_deref())?))
    }
}

impl NewJob {
    /// An item of `pushMany`: a `Duly\\NewJob`, or an array of its arguments by name.
    pub fn from_item(item: &Zval) -> Result<duly::NewJob, Fault> {
        let item = item.dereference();
        if let Some(job) = item.extract::<&NewJob>() {
            return Ok(job.job.clone());
        }
        let each = || Fault::invalid("each job must be a Duly\\NewJob or an array of its arguments by name");
        from_array(item.array().ok_or_else(each)?)
    }
}

fn from_array(table: &ZendHashTable) -> Result<duly::NewJob, Fault> {
    let null = Zval::null();
    let mut options = Options {
        data: &null,
        name: None,
        delay: None,
        at: None,
        id: None,
        key: None,
        priority: None,
        maxRetries: None,
        retry: None,
        timeout: None,
        headers: None,
        onDuplicate: None,
        rawJson: None,
    };
    let mut has_data = false;
    let mut members = Iter::new(table);
    while let Some((name, value)) = members.next_zval() {
        let value = value.dereference();
        let name = name.string().unwrap_or_default();
        has_data |= name == "data" || name == "rawJson";
        match name.as_str() {
            "data" => options.data = value,
            // As an argument that is left out.
            _ if value.is_null() => {}
            "name" => options.name = Some(text(&name, value)?),
            "delay" => options.delay = Some(value),
            "at" => options.at = Some(value),
            "id" => options.id = Some(text(&name, value)?),
            "key" => options.key = Some(text(&name, value)?),
            "priority" => options.priority = Some(whole(&name, value)?),
            "maxRetries" => options.maxRetries = Some(whole(&name, value)?),
            "retry" => {
                let policy = value.extract::<&RetryPolicy>();
                options.retry = Some(policy.ok_or_else(|| Fault::invalid("retry must be a Duly\\RetryPolicy"))?);
            }
            "timeout" => options.timeout = Some(value),
            "headers" => {
                let table = value.array();
                options.headers = Some(table.ok_or_else(|| Fault::invalid("headers must be an array"))?);
            }
            "onDuplicate" => options.onDuplicate = Some(text(&name, value)?),
            "rawJson" => options.rawJson = Some(value),
            _ => return Err(Fault::invalid(format!("a job has no argument '{name}'"))),
        }
    }
    if !has_data {
        return Err(Fault::invalid("each job needs data or rawJson"));
    }
    options.into_job()
}

fn text(name: &str, value: &Zval) -> Result<String, Fault> {
    let text = if value.is_string() { value.string() } else { None };
    text.ok_or_else(|| Fault::invalid(format!("{name} must be a string, in UTF-8")))
}

fn whole(name: &str, value: &Zval) -> Result<i64, Fault> {
    let number = if value.is_long() { value.long() } else { None };
    number.ok_or_else(|| Fault::invalid(format!("{name} must be an int")))
}

fn headers(table: Option<&ZendHashTable>) -> Result<BTreeMap<String, String>, Fault> {
    let strings = || Fault::invalid("headers must be an array of string => string, in UTF-8");
    let mut headers = BTreeMap::new();
    let Some(table) = table else { return Ok(headers) };
    // Not the table's own iterator: it panics at a key that is not UTF-8.
    let mut members = Iter::new(table);
    while let Some((name, value)) = members.next_zval() {
        let name = match name.long() {
            Some(number) if name.is_long() => number.to_string(),
            _ => name.string().ok_or_else(strings)?,
        };
        let value = value.dereference();
        let value = if value.is_string() { value.string() } else { None };
        headers.insert(name, value.ok_or_else(strings)?);
    }
    Ok(headers)
}

fn on_duplicate(word: Option<&str>) -> Result<OnDuplicate, Fault> {
    match word {
        None | Some("refuse") => Ok(OnDuplicate::Refuse),
        Some("keep") => Ok(OnDuplicate::Keep),
        Some("replace") => Ok(OnDuplicate::Replace),
        Some(_) => Err(Fault::invalid("onDuplicate must be 'refuse', 'keep' or 'replace'")),
    }
}

#[php_impl]
impl NewJob {
    /// The same arguments as `Queue::push`.
    #[php(optional = name)]
    pub fn __construct(
        data: &Zval,
        name: Option<String>,
        delay: Option<&Zval>,
        at: Option<&Zval>,
        id: Option<String>,
        key: Option<String>,
        priority: Option<i64>,
        maxRetries: Option<i64>,
        retry: Option<&RetryPolicy>,
        timeout: Option<&Zval>,
        headers: Option<&ZendHashTable>,
        onDuplicate: Option<String>,
        rawJson: Option<&Zval>,
    ) -> PhpResult<Self> {
        let options = Options {
            data,
            name,
            delay,
            at,
            id,
            key,
            priority,
            maxRetries,
            retry,
            timeout,
            headers,
            onDuplicate,
            rawJson,
        };
        Ok(Self { job: options.into_job()? })
    }
}
