//! A JSON object that is read strictly: each field is known, comes once, and has the right type.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use duly::{MAX_BATCH, Millis};
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::reply::Refusal;
use super::route::shown;

/// The fields of an object that nobody has taken yet. One that is null is as if it was left out, but for data and results.
pub(super) struct Object<'a> {
    /// What errors call it, such as `jobs[3].`; empty for that of the whole body.
    at: String,
    fields: Vec<(String, &'a RawValue)>,
    known: Vec<&'static str>,
    /// It was written as an empty list, which is how PHP writes an empty array.
    is_list: bool,
}

/// No object has more.
const MOST_FIELDS: usize = 64;

/// The fields in their order, each value as it was written.
struct Members<'a> {
    fields: Vec<(String, &'a RawValue)>,
    is_list: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    if fields.len() == MOST_FIELDS {
                        return Err(serde::de::Error::custom("too many fields"));
                    }
                    fields.push(field);
                }
                Ok(Members { fields, is_list: false })
            }
        }
        deserializer.deserialize_map(Each)
    }
}

impl<'a> Members<'a> {
    fn read(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        match serde_json::from_slice(text) {
            Err(_) if serde_json::from_slice::<[IgnoredAny; 0]>(text).is_ok() => {
                Ok(Self { fields: Vec::new(), is_list: true })
            }
            members => members,
        }
    }
}

/// What a list begins with. No list has more than a batch: of one that has there is one more here, and the others are passed by, as a body
/// has room for millions.
struct Few<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while few.len() <= MAX_BATCH {
                    let Some(one) = list.next_element()? else { return Ok(few) };
                    few.push(one);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(few)
            }
        }
        deserializer.deserialize_seq(Each(PhantomData)).map(Self)
    }
}

/// What errors call an object.
fn called(at: &str) -> String {
    if at.is_empty() { "the body".to_owned() } else { format!("`{}`", at.trim_end_matches('.')) }
}

fn no_object(at: &str) -> Refusal {
    Refusal::invalid(format!("{} must be a JSON object of {MOST_FIELDS} fields or fewer", called(at)))
}

impl<'a> Object<'a> {
    /// The whole body; an empty one has no fields.
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self, Refusal> {
        if body.is_empty() {
            return Ok(Self { at: String::new(), fields: Vec::new(), known: Vec::new(), is_list: false });
        }
        Self::read(String::new(), body)
    }

    /// `at`: what errors call its fields. Whatever an error says, it never shows what was sent.
    pub(super) fn read(at: String, text: &'a [u8]) -> Result<Self, Refusal> {
        let what = called(&at);
        let Members { fields, is_list } = Members::read(text).map_err(|error| match error.classify() {
            Category::Data => no_object(&at),
            _ => Refusal::invalid(format!("{what} is not JSON (line {}, column {})", error.line(), error.column())),
        })?;
        let mut names = HashSet::new();
        if let Some((name, _)) = fields.iter().find(|(name, _)| !names.insert(name)) {
            return Err(Refusal::invalid(format!("`{at}{}` is there twice", shown(name))));
        }
        Ok(Self { at, fields, known: Vec::new(), is_list })
    }

    /// Where a list may be meant: an empty one is no object.
    pub(super) fn but_no_list(self) -> Result<Self, Refusal> {
        if self.is_list { Err(no_object(&self.at)) } else { Ok(self) }
    }

    /// The text of a field, also where it is null.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let index = self.fields.iter().position(|(known, _)| known == name)?;
        Some(self.fields.swap_remove(index).1)
    }

    fn take<T: DeserializeOwned>(&mut self, name: &'static str, must_be: &str) -> Result<Option<T>, Refusal> {
        let Some(raw) = self.raw(name).filter(|raw| raw.get() != "null") else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| self.wrong(name, must_be))
    }

    pub(super) fn wrong(&self, name: &str, must_be: &str) -> Refusal {
        Refusal::invalid(format!("`{}{name}` must be {must_be}", self.at))
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.take(name, "a string")
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.take(name, "true or false")
    }

    pub(super) fn whole<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, Refusal> {
        self.take(name, "a whole number in its range")
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>, Refusal> {
        self.take(name, "a number of seconds")
    }

    /// A span of 0 s to 100 years.
    pub(super) fn span(&mut self, name: &'static str) -> Result<Option<Duration>, Refusal> {
        let Some(seconds) = self.number(name)? else { return Ok(None) };
        let span = Millis::from_seconds(seconds);
        Ok(Some(span.map_err(|_| self.wrong(name, "0 to 3153600000 seconds (100 years)"))?.to_duration()))
    }

    /// Of a list that is longer than a batch there is one more than that.
    pub(super) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Refusal> {
        Ok(self.take(name, "a list of strings")?.map(|Few(texts)| texts))
    }

    /// The same.
    pub(super) fn numbers(&mut self, name: &'static str) -> Result<Option<Vec<f64>>, Refusal> {
        Ok(self.take(name, "a list of numbers of seconds")?.map(|Few(numbers)| numbers))
    }

    pub(super) fn headers(&mut self, name: &'static str) -> Result<Option<BTreeMap<String, String>>, Refusal> {
        const MUST_BE: &str = "an object of strings, each name once, 64 or fewer";
        let Some(raw) = self.raw(name).filter(|raw| raw.get() != "null") else { return Ok(None) };
        let wrong = || self.wrong(name, MUST_BE);
        let Members { fields, .. } = Members::read(raw.get().as_bytes()).map_err(|_| wrong())?;
        let count = fields.len();
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).map_err(|_| wrong());
        let headers = fields.into_iter().map(|(name, raw)| Ok((name, value(raw)?)));
        let headers = headers.collect::<Result<BTreeMap<_, _>, Refusal>>()?;
        if headers.len() == count { Ok(Some(headers)) } else { Err(wrong()) }
    }

    /// The same, of values as they were written.
    pub(super) fn list(&mut self, name: &'static str) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        let Some(raw) = self.raw(name).filter(|raw| raw.get() != "null") else { return Ok(None) };
        serde_json::from_str(raw.get()).map(|Few(list)| Some(list)).map_err(|_| self.wrong(name, "a list"))
    }

    /// An object in a field.
    pub(super) fn object(&mut self, name: &'static str) -> Result<Option<Self>, Refusal> {
        let Some(raw) = self.raw(name).filter(|raw| raw.get() != "null") else { return Ok(None) };
        Self::read(format!("{}{name}.", self.at), raw.get().as_bytes()).map(Some)
    }

    /// Has it this field, and does nobody know yet what for? One that is null is gone with that.
    pub(super) fn has(&mut self, name: &str) -> bool {
        self.fields.retain(|(known, raw)| known != name || raw.get() != "null");
        self.fields.iter().any(|(known, _)| known == name)
    }

    /// Refuses what nobody has taken.
    pub(super) fn end(self) -> Result<(), Refusal> {
        let Some((name, _)) = self.fields.first() else { return Ok(()) };
        let known = self.known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let known = match (known.is_empty(), self.at.is_empty()) {
            (false, _) => format!("{known} may be given"),
            (true, true) => "what this request takes is in its query".to_owned(),
            (true, false) => "nothing may be given".to_owned(),
        };
        Err(Refusal::invalid(format!("`{}{}` is not known here: {known}", self.at, shown(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error<T>(read: Result<T, Refusal>) -> String {
        read.err().unwrap().message().to_owned()
    }

    #[test]
    fn values_are_taken_as_they_were_written() {
        let body = br#" {"data" : {"price": 1.0, "id":9007199254740993} , "name":"a\u00e9", "n": null, "s": 1.5} "#;
        let mut object = Object::of_body(body).unwrap();
        assert_eq!(object.raw("data").unwrap().get(), r#"{"price": 1.0, "id":9007199254740993}"#);
        assert_eq!(object.text("name").unwrap().as_deref(), Some("aé"));
        assert_eq!((object.text("n").unwrap(), object.text("gone").unwrap()), (None, None));
        assert_eq!(object.span("s").unwrap(), Some(Duration::from_millis(1500)));
        object.end().unwrap();
        Object::of_body(b"").unwrap().end().unwrap();
    }

    #[test]
    fn of_a_list_that_is_too_long_no_more_is_kept_than_shows_that() {
        let body =
            format!(r#"{{"texts":["a"{}],"list":[1{}],"numbers":[2]}}"#, r#","b""#.repeat(5000), ",1".repeat(5000));
        let mut object = Object::of_body(body.as_bytes()).unwrap();
        assert_eq!(object.texts("texts").unwrap().unwrap().len(), MAX_BATCH + 1);
        assert_eq!(object.list("list").unwrap().unwrap().len(), MAX_BATCH + 1);
        assert_eq!(object.numbers("numbers").unwrap().unwrap(), [2.0]);
        assert_eq!(error(Object::of_body(br#"{"a":["b",1]}"#).unwrap().texts("a")), "`a` must be a list of strings");
    }

    #[test]
    fn a_field_that_is_null_is_left_out() {
        let mut object = Object::of_body(br#"{"jobs":null,"data":1}"#).unwrap();
        assert!(!object.has("jobs") && object.has("data"));
        assert_eq!(object.raw("data").unwrap().get(), "1");
        object.end().unwrap();
    }

    #[test]
    fn deep_values_are_only_kept() {
        let deep = format!(r#"{{"data":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let mut object = Object::of_body(deep.as_bytes()).unwrap();
        assert_eq!(object.raw("data").unwrap().get().len(), 200_000);
        let mut object = Object::of_body(deep.as_bytes()).unwrap();
        assert!(object.headers("data").is_err());
    }

    #[test]
    fn what_is_wrong_is_named_and_never_shown() {
        for (body, says) in [
            (&b"secret"[..], "the body is not JSON (line 1, column 1)"),
            (b"\"secret\"", "the body must be a JSON object of 64 fields or fewer"),
            (b"[1]", "the body must be a JSON object of 64 fields or fewer"),
            (b"{\"a\":1} secret", "the body is not JSON (line 1, column 9)"),
            (b"{\"a\":NaN}", "the body is not JSON (line 1, column 6)"),
            (b"{\"a\":1,\"\\u0061\":2}", "`a` is there twice"),
            (b"{\"a\":\"\xff\"}", "the body is not JSON (line 1, column 7)"),
        ] {
            assert_eq!(error(Object::of_body(body)), says);
        }
        let read = |body: &'static str| Object::of_body(body.as_bytes()).unwrap();
        assert_eq!(error(read(r#"{"name":7}"#).text("name")), "`name` must be a string");
        assert_eq!(error(read(r#"{"n":1.0}"#).whole::<u64>("n")), "`n` must be a whole number in its range");
        assert_eq!(error(read(r#"{"n":300}"#).whole::<u8>("n")), "`n` must be a whole number in its range");
        assert_eq!(error(read(r#"{"s":-1}"#).span("s")), "`s` must be 0 to 3153600000 seconds (100 years)");
        assert_eq!(error(read(r#"{"s":"1"}"#).span("s")), "`s` must be a number of seconds");
        let mut object = read(r#"{"x":{"secrets":1}}"#);
        assert_eq!(
            error(object.object("x").unwrap().unwrap().end()),
            "`x.secrets` is not known here: nothing may be given"
        );
        let mut object = read(r#"{"a":1,"b\n":2}"#);
        object.raw("a");
        object.raw("c");
        assert_eq!(error(object.end()), "`b\\n` is not known here: `a`, `c` may be given");
    }
}
