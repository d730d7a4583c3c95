//! `Duly\NewJob`: a job before it is pushed.

use std::collections::BTreeMap;

use duly::When;
use ext_php_rs::convert::FromZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::call::Guarded;
use crate::convert::{self, Text, given, millis, utf8, when, whole};
use crate::error::Fault;
use crate::retry::RetryPolicy;
use crate::telemetry;
use crate::words::on_duplicate;

/// A job for `Queue::pushMany`; its arguments are those of `Queue::push`.
#[php_class]
#[php(name = "Duly\\NewJob")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct NewJob {
    pub job: duly::NewJob,
}

/// The arguments that `push` and `NewJob` share.
#[derive(Default)]
pub struct Options<'a> {
    pub data: Option<&'a Zval>,
    pub name: Option<Text>,
    pub delay: Option<&'a Zval>,
    pub at: Option<&'a Zval>,
    pub id: Option<Text>,
    pub key: Option<Text>,
    pub priority: Option<i64>,
    pub maxRetries: Option<i64>,
    pub retry: Option<&'a RetryPolicy>,
    pub timeout: Option<&'a Zval>,
    pub headers: Option<&'a ZendHashTable>,
    pub resultTtl: Option<&'a Zval>,
    pub onDuplicate: Option<&'a Zval>,
    pub raw: Option<&'a Zval>,
    pub durability: Option<Text>,
    pub expires: Option<&'a Zval>,
}

impl Options<'_> {
    pub fn into_job(self) -> Result<duly::NewJob, Fault> {
        let due = when(self.delay, self.at)?.unwrap_or(When::Now);
        let mut job = duly::NewJob::from_data(convert::data(self.data, self.raw)?).when(due);
        if let Some(name) = utf8("name", self.name)? {
            job = job.name(name);
        }
        if let Some(id) = utf8("id", self.id)? {
            job = job.id(id);
        }
        if let Some(key) = utf8("key", self.key)? {
            job = job.key(key);
        }
        if let Some(priority) = self.priority {
            // What is beyond every level the engine refuses in its own words.
            job = job.priority(u8::try_from(priority).unwrap_or(u8::MAX));
        }
        if let Some(retries) = self.maxRetries {
            job = job.max_retries(whole("maxRetries", retries, u32::MAX.into())?);
        }
        if let Some(retry) = self.retry {
            job = job.retry(retry.policy.clone());
        }
        if let Some(timeout) = given(self.timeout) {
            job = job.timeout(millis("timeout", timeout)?.to_duration());
        }
        if let Some(ttl) = given(self.resultTtl) {
            job = job.result_ttl(millis("resultTtl", ttl)?.to_duration());
        }
        if let Some(expires) = given(self.expires) {
            job = job.expires(convert::span_or_moment("expires", expires)?);
        }
        if let Some(word) = utf8("durability", self.durability)? {
            job = job.durability(word.parse()?);
        }
        let mut headers = headers(self.headers)?;
        telemetry::add_to(&mut headers)?;
        for (name, value) in headers {
            job = job.header(name, value);
        }
        Ok(job.on_duplicate(on_duplicate(given(self.onDuplicate))?))
    }
}

impl NewJob {
    /// An item of `pushMany`, held by the caller: a `Duly\\NewJob`, or an array of its arguments by name.
    pub fn from_item(item: &Zval) -> Result<duly::NewJob, Fault> {
        if let Some(job) = item.extract::<&NewJob>() {
            return Ok(job.job.clone());
        }
        let each = || Fault::invalid("each job must be a Duly\\NewJob or an array of its arguments by name");
        let table = item.array().ok_or_else(each)?;
        let Some(copy) = without_references(table)? else { return from_array(table) };
        let job = from_array(copy.array().ok_or_else(each)?)?;
        copy.release()?;
        Ok(job)
    }
}

/// A copy of an array that has references in it: PHP code that runs while it is read (`format`, `jsonSerialize`) may set these
/// anew. Nothing for an array without, which nobody can change while it is held.
fn without_references(table: &ZendHashTable) -> Result<Option<Guarded>, Fault> {
    let mut members = Iter::new(table);
    let mut has_some = false;
    while let Some((_, value)) = members.next_zval() {
        has_some |= value.is_reference();
    }
    if !has_some {
        return Ok(None);
    }
    let mut copy = ZendHashTable::new();
    let mut members = Iter::new(table);
    while let Some((name, value)) = members.next_zval() {
        let name = name.string().unwrap_or_default();
        let copied = copy.insert(name.as_str(), value.dereference().shallow_clone());
        copied.map_err(|_| Fault::invalid(format!("a job has no argument '{name}'")))?;
    }
    let mut held = Zval::new();
    held.set_hashtable(copy);
    Ok(Some(held.into()))
}

fn from_array(table: &ZendHashTable) -> Result<duly::NewJob, Fault> {
    let mut options = Options::default();
    let mut has_data = false;
    let mut members = Iter::new(table);
    while let Some((name, value)) = members.next_zval() {
        let value = value.dereference();
        let name = name.string().unwrap_or_default();
        has_data |= name == "data" || name == "raw";
        match name.as_str() {
            "data" => options.data = Some(value),
            // As an argument that is left out.
            _ if value.is_null() => {}
            "name" => options.name = Some(string(&name, value)?),
            "delay" => options.delay = Some(value),
            "at" => options.at = Some(value),
            "id" => options.id = Some(string(&name, value)?),
            "key" => options.key = Some(string(&name, value)?),
            "priority" => options.priority = Some(int(&name, value)?),
            "maxRetries" => options.maxRetries = Some(int(&name, value)?),
            "retry" => {
                let policy = value.extract::<&RetryPolicy>();
                options.retry = Some(policy.ok_or_else(|| Fault::invalid("retry must be a Duly\\RetryPolicy"))?);
            }
            "timeout" => options.timeout = Some(value),
            "headers" => {
                let table = value.array();
                options.headers = Some(table.ok_or_else(|| Fault::invalid("headers must be an array"))?);
            }
            "resultTtl" => options.resultTtl = Some(value),
            "onDuplicate" => options.onDuplicate = Some(value),
            "raw" => options.raw = Some(value),
            "durability" => options.durability = Some(string(&name, value)?),
            "expires" => options.expires = Some(value),
            _ => return Err(Fault::invalid(format!("a job has no argument '{name}'"))),
        }
    }
    if !has_data {
        return Err(Fault::invalid("each job needs data or raw"));
    }
    options.into_job()
}

fn string(name: &str, value: &Zval) -> Result<Text, Fault> {
    Text::from_zval(value)
        .ok_or_else(|| Fault::invalid(format!("{name} must be a string, not {}", convert::type_name(value))))
}

fn int(name: &str, value: &Zval) -> Result<i64, Fault> {
    let number = if value.is_long() { value.long() } else { None };
    number.ok_or_else(|| Fault::invalid(format!("{name} must be an int, not {}", convert::type_name(value))))
}

pub fn headers(table: Option<&ZendHashTable>) -> Result<BTreeMap<String, String>, Fault> {
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

#[php_impl]
impl NewJob {
    /// The same arguments as `Queue::push`.
    #[php(optional = data)]
    pub fn __construct(
        data: Option<&Zval>,
        name: Option<Text>,
        delay: Option<&Zval>,
        at: Option<&Zval>,
        id: Option<Text>,
        key: Option<Text>,
        priority: Option<i64>,
        maxRetries: Option<i64>,
        retry: Option<&RetryPolicy>,
        timeout: Option<&Zval>,
        headers: Option<&ZendHashTable>,
        resultTtl: Option<&Zval>,
        onDuplicate: Option<&Zval>,
        raw: Option<&Zval>,
        durability: Option<Text>,
        expires: Option<&Zval>,
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
            resultTtl,
            onDuplicate,
            raw,
            durability,
            expires,
        };
        Ok(Self { job: options.into_job()? })
    }
}
