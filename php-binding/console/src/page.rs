//! `Duly\WebEngine`: the page of `duly web`, as `Duly\Web` asks for it.

use std::sync::{Mutex, PoisonError};

use duly::ClientBuilder;
use duly::blocking::{Client, process};
use duly_console::{Rights, Visit, WebPage};
use duly_php_shared::call;
use duly_php_shared::convert::{Text, text, utf8, values};
use duly_php_shared::error::Fault;
use duly_php_shared::kept::{Key, key_of};
use duly_php_shared::waiting::Signals;
use ext_php_rs::binary::Binary;
use ext_php_rs::convert::FromZval;
use ext_php_rs::flags::{ClassFlags, DataType};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};

/// The page of `duly web` for a web application, which calls it for each request. Internal.
#[php_class]
#[php(name = "Duly\\WebEngine")]
#[php(flags = ClassFlags::Final)]
pub struct WebEngine(WebPage);

/// A `Duly\Client`, which is of the other extension.
pub struct OtherClient<'a>(&'a ZendObject);

impl<'a> FromZval<'a> for OtherClient<'a> {
    const TYPE: DataType = DataType::object("Duly\\Client");

    fn from_zval(value: &'a Zval) -> Option<Self> {
        value.dereference().object().map(Self)
    }
}

/// They outlive the request that made them, so that php-fpm reuses their connections.
static CLIENTS: Mutex<Vec<(Key, Client)>> = Mutex::new(Vec::new());
/// So many are kept; of more the one that was asked for first goes.
const MOST_KEPT: usize = 4;

impl OtherClient<'_> {
    /// A client of this extension with its settings.
    fn client(&self) -> Result<Client, Fault> {
        let settings = call::method(self.0, "settings", Vec::new())?;
        let settings = settings.and_then(|settings| settings.string());
        let settings =
            settings.ok_or_else(|| Fault::invalid("the extensions duly and duly_console must be of one version"))?;
        let key = key_of(&settings);
        // What is done under the lock cannot panic half-way through a change.
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients.iter().position(|(other, _)| *other == key);
        let entry = match known {
            Some(at) => clients.remove(at),
            None => (key, Client::new(ClientBuilder::of_handed_over(&settings)?.language("php"))?),
        };
        let client = entry.1.clone();
        clients.push(entry);
        let gone = (clients.len() > MOST_KEPT).then(|| clients.remove(0));
        drop(clients);
        if gone.is_some() {
            drop(gone);
            process::end_what_is_gone();
        }
        Ok(client)
    }
}

/// Names and values, one behind the other.
fn pairs(headers: &ZendHashTable) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let mut all = values(headers);
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (all.next(), all.next()) {
        let value = Text::from_zval(value).ok_or_else(|| Fault::invalid("the value of a header must be a string"))?;
        pairs.push((text("the name of a header", name)?, value.bytes()));
    }
    Ok(pairs)
}

#[php_impl]
impl WebEngine {
    /// The queues of this client; `hideData`: without data, headers and results for those who may only look.
    pub fn __construct(client: OtherClient, hideData: bool) -> PhpResult<Self> {
        Ok(Self(WebPage::new(client.client()?, hideData)))
    }

    /// How many bytes of a body are read.
    pub fn most_body_bytes() -> i64 {
        i64::try_from(WebPage::MOST_BODY_BYTES).unwrap_or(i64::MAX)
    }

    /// Answers one request: a list of the status, the body, and names and values of headers. `headers`: such names and values. `actions`: what
    /// the user may do.
    pub fn handle(
        &self,
        method: Text,
        uri: Text,
        mount: Text,
        headers: &ZendHashTable,
        body: Text,
        actions: &ZendHashTable,
        user: Option<Text>,
        peer: Text,
        secure: bool,
    ) -> PhpResult<Vec<Binary<u8>>> {
        let visit = || -> Result<Visit, Fault> {
            let actions: Vec<_> = values(actions).map(|action| text("action", action)).collect::<Result<_, _>>()?;
            Ok(Visit {
                method: method.utf8("method")?,
                // What is no text is no page.
                uri: String::from_utf8_lossy(&uri.bytes()).into_owned(),
                mount: mount.utf8("mount")?,
                headers: pairs(headers)?,
                body: body.bytes(),
                peer: peer.utf8("peer")?,
                is_over_tls: secure,
                user: utf8("user", user)?,
                rights: Rights::of(actions),
            })
        };
        let answer = self.0.handle(visit()?, &mut Signals)?;
        let headers = answer.headers.into_iter().flat_map(|(name, value)| [name.into_bytes(), value.into_bytes()]);
        let all = [answer.status.to_string().into_bytes(), answer.body].into_iter().chain(headers);
        Ok(all.map(Binary::from).collect())
    }

    /// What was done since the last call of this: a line for each action.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines()
    }
}
