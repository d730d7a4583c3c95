//! Which path and method is which verb, and who may call it.

use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::reply::Refusal;
use super::tokens::Role;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Queues,
    Counts,
    Delete,
    Pause,
    Resume,
    List,
    Push,
    Find,
    Cancel,
    Reschedule,
    FindKey,
    CancelKey,
    RescheduleKey,
    Result,
    Reserve,
    Ack,
    Fail,
    Release,
    Extend,
    Requeue,
}

/// All that is answered beside the description itself. Below the root; `openapi.json` lists the same.
pub(super) const ROUTES: [(&str, &str, Role, Verb); 20] = [
    ("GET", "queues", Role::View, Verb::Queues),
    ("GET", "queues/{queue}", Role::View, Verb::Counts),
    ("DELETE", "queues/{queue}", Role::Admin, Verb::Delete),
    ("POST", "queues/{queue}/pause", Role::Operate, Verb::Pause),
    ("POST", "queues/{queue}/resume", Role::Operate, Verb::Resume),
    ("POST", "queues/{queue}/requeue", Role::Operate, Verb::Requeue),
    ("POST", "queues/{queue}/reserve", Role::Work, Verb::Reserve),
    ("GET", "queues/{queue}/jobs", Role::View, Verb::List),
    ("POST", "queues/{queue}/jobs", Role::Work, Verb::Push),
    ("GET", "queues/{queue}/jobs/{id}", Role::View, Verb::Find),
    ("DELETE", "queues/{queue}/jobs/{id}", Role::Work, Verb::Cancel),
    ("PATCH", "queues/{queue}/jobs/{id}", Role::Work, Verb::Reschedule),
    ("GET", "queues/{queue}/jobs/{id}/result", Role::View, Verb::Result),
    ("POST", "queues/{queue}/jobs/{id}/ack", Role::Work, Verb::Ack),
    ("POST", "queues/{queue}/jobs/{id}/fail", Role::Work, Verb::Fail),
    ("POST", "queues/{queue}/jobs/{id}/release", Role::Work, Verb::Release),
    ("POST", "queues/{queue}/jobs/{id}/extend", Role::Work, Verb::Extend),
    ("GET", "queues/{queue}/keys/{key}", Role::View, Verb::FindKey),
    ("DELETE", "queues/{queue}/keys/{key}", Role::Work, Verb::CancelKey),
    ("PATCH", "queues/{queue}/keys/{key}", Role::Work, Verb::RescheduleKey),
];

impl Verb {
    pub(super) fn has_body(self) -> bool {
        use Verb::{Ack, Extend, Fail, Push, Release, Requeue, Reschedule, RescheduleKey, Reserve};
        matches!(self, Push | Reserve | Ack | Fail | Release | Extend | Requeue | Reschedule | RescheduleKey)
    }

    /// Has each call of it a line in the log? What workers and producers do by the thousand has none.
    pub(super) fn is_noted(self) -> bool {
        matches!(self, Self::Delete | Self::Pause | Self::Resume | Self::Requeue)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Pause => "pause",
            Self::Resume => "resume",
            _ => "requeue",
        }
    }
}

/// A verb with what stands in the path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) verb: Verb,
    pub(super) role: Role,
    pub(super) queue: String,
    pub(super) job: String,
}

/// The verb of a path below the root; or the methods that the path has.
///
/// Errors: there is no such path, or it is no UTF-8.
pub(super) fn find(method: &Method, path: &str) -> Result<Result<Found, Vec<&'static str>>, Refusal> {
    let segments: Vec<_> = path.split('/').collect();
    let mut methods = Vec::new();
    for (known, template, role, verb) in ROUTES {
        let Some([queue, job]) = match_with(template, &segments) else { continue };
        if method.as_str() == known {
            return Ok(Ok(Found { verb, role, queue: decoded(queue)?, job: decoded(job)? }));
        }
        methods.push(known);
    }
    if methods.is_empty() { Err(Refusal::no_such_path()) } else { Ok(Err(methods)) }
}

/// What stands for the queue, and for the id or key; empty where the template has none.
fn match_with<'a>(template: &str, segments: &[&'a str]) -> Option<[&'a str; 2]> {
    if template.split('/').count() != segments.len() {
        return None;
    }
    let mut named = [""; 2];
    for (part, segment) in template.split('/').zip(segments) {
        match part {
            "{queue}" => named[0] = segment,
            _ if part.starts_with('{') => named[1] = segment,
            _ if part == *segment => continue,
            _ => return None,
        }
        if segment.is_empty() {
            return None;
        }
    }
    Some(named)
}

fn decoded(segment: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(segment).decode_utf8();
    Ok(decoded.map_err(|_| Refusal::invalid("the path is not UTF-8"))?.into_owned())
}

/// The query of a request. Each verb takes what it knows.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Errors: a name that comes twice.
    pub(super) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let text = uri.query().unwrap_or("");
        let fields: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        for (index, (name, _)) in fields.iter().enumerate() {
            if fields[..index].iter().any(|(other, _)| other == name) {
                return Err(Refusal::invalid(format!("the query has `{}` twice", shown(name))));
            }
        }
        Ok(Self(fields))
    }

    /// Refuses what a verb does not take.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        let Some((name, _)) = self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) else { return Ok(()) };
        let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Err(Refusal::invalid(format!("the query has `{}`, which is not known here: {known} may be given", shown(name))))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn whole<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let wrong = |_| Refusal::invalid(format!("`{name}` of the query must be a whole number in its range"));
        self.text(name).map(str::parse).transpose().map_err(wrong)
    }

    /// Of seconds.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        let wrong = || Refusal::invalid(format!("`{name}` of the query must be a number of seconds"));
        let read = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong);
        self.text(name).map(read).transpose()
    }
}

/// A name that somebody sent, as an error shows it.
pub(super) fn shown(name: &str) -> String {
    const MOST: usize = 64;
    name.chars().take(MOST).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::OPENAPI;
    use super::*;

    fn found(method: &str, path: &str) -> Option<(Verb, String, String)> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        find(&method, path).ok()?.ok().map(|found| (found.verb, found.queue, found.job))
    }

    #[test]
    fn a_path_names_a_queue_and_a_job() {
        let of = |verb, queue: &str, job: &str| Some((verb, queue.to_owned(), job.to_owned()));
        assert_eq!(found("GET", "queues"), of(Verb::Queues, "", ""));
        assert_eq!(found("GET", "queues/orders"), of(Verb::Counts, "orders", ""));
        assert_eq!(found("POST", "queues/orders%3aeu/jobs"), of(Verb::Push, "orders:eu", ""));
        assert_eq!(found("POST", "queues/jobs/jobs/a%2Fb%20%e8%ae%a2+/ack"), of(Verb::Ack, "jobs", "a/b 订+"));
        assert_eq!(found("DELETE", "queues/q/keys/close:42"), of(Verb::CancelKey, "q", "close:42"));
        for wrong in ["", "queues/", "queues//jobs", "queues/q/jobs/", "queues/q/jobs/1/", "queues/q/jobs/1/ack/2", "x"]
        {
            assert_eq!(found("GET", wrong), None, "{wrong}");
        }
        assert_eq!(find(&Method::PUT, "queues/q").unwrap().unwrap_err(), ["GET", "DELETE"]);
        assert!(find(&Method::GET, "queues/q/jobs/%ff").is_err());
    }

    #[test]
    fn a_query_is_read_strictly() {
        let query = |text: &str| Query::of(&format!("/?{text}").parse::<Uri>().unwrap());
        let given = query("limit=10&since=1.5&name=a%20b").unwrap();
        assert_eq!((given.whole::<usize>("limit").unwrap(), given.number("since").unwrap()), (Some(10), Some(1.5)));
        assert_eq!((given.text("name"), given.text("key")), (Some("a b"), None));
        assert!(given.only(&["limit", "since", "name"]).is_ok() && given.only(&["limit"]).is_err());
        assert!(query("limit=1&limit=2").is_err());
        for wrong in ["limit=", "limit=-1", "limit=1.5", "limit=x"] {
            assert!(query(wrong).unwrap().whole::<usize>("limit").is_err(), "{wrong}");
        }
        for wrong in ["since=", "since=NaN", "since=inf", "since=soon"] {
            assert!(query(wrong).unwrap().number("since").is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_description_has_each_route_with_its_role_and_no_other() {
        let description: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                let role = operation["x-duly-role"].as_str().unwrap_or("none").to_owned();
                described.insert((method.to_uppercase(), path.clone(), role));
            }
        }
        let root = |path: &str| format!("/api/v1/{path}");
        let routes = ROUTES.map(|(method, path, role, _)| (method.to_owned(), root(path), role.as_str().to_owned()));
        let itself = ("GET".to_owned(), root("openapi.json"), "none".to_owned());
        assert_eq!(described, routes.into_iter().chain([itself]).collect());
    }
}
