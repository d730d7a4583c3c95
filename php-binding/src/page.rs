//! `Duly\WebEngine`: the page of `duly web`, as `Duly\Web` asks for it.

use duly_console::{Rights, Visit, WebPage};
use ext_php_rs::binary::Binary;
use ext_php_rs::convert::FromZval as _;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::ZendHashTable;

use crate::client::Client;
use crate::convert::{Text, text, utf8, values};
use crate::error::Fault;
use crate::waiting::Signals;

/// The page of `duly web` for a web application, which calls it for each request. Internal.
#[php_class]
#[php(name = "Duly\\WebEngine")]
#[php(flags = ClassFlags::Final)]
pub struct WebEngine(WebPage);

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
    pub fn __construct(client: &Client, hideData: bool) -> PhpResult<Self> {
        Ok(Self(WebPage::new((*client.blocking()?).clone(), hideData)))
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
