//! Topics without async.

use std::sync::Arc;

use super::{Client, Interrupt};
use crate::process::runtime::block_on;
use crate::topic::{self, Message, PullOptions, TopicPage};
use crate::value::error::Error;
use crate::value::name;

/// A blocking topic; see [`crate::Topic`] for what each call does and which errors it gives.
#[derive(Clone)]
pub struct Topic {
    client: Client,
    name: String,
}

impl Client {
    /// The topic of this name. Errors: `InvalidArgument`.
    pub fn topic(&self, name: &str) -> Result<Topic, Error> {
        name::check_topic(name).map_err(|error| error.during("topic").of_topic(name))?;
        Ok(Topic { client: self.clone(), name: name.to_owned() })
    }

    /// See [`crate::Client::topics`].
    pub fn topics<I: Interrupt>(
        &self,
        limit: usize,
        cursor: Option<&str>,
        interrupt: &mut I,
    ) -> Result<TopicPage, I::Error> {
        let client = self.inner()?;
        block_on(client.topics(limit, cursor), || interrupt.check())
    }

    /// See [`crate::Client::topics_of`].
    pub fn topics_of<I: Interrupt>(&self, member: &str, interrupt: &mut I) -> Result<Vec<String>, I::Error> {
        let client = self.inner()?;
        block_on(client.topics_of(member), || interrupt.check())
    }

    /// See [`crate::Client::pull`].
    pub fn pull<I: Interrupt>(
        &self,
        member: &str,
        options: &PullOptions,
        interrupt: &mut I,
    ) -> Result<Vec<Message>, I::Error> {
        let client = self.inner()?;
        block_on(client.pull(member, options), || interrupt.check())
    }
}

impl Topic {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topic that this process works with.
    #[doc(hidden)] // for the skins
    pub fn inner(&self) -> Result<Arc<topic::Topic>, Error> {
        self.client.inner()?.topic(&self.name).map(Arc::new)
    }

    /// Any call on it, waited for.
    pub fn wait_for<T, I: Interrupt, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl FnOnce(Arc<topic::Topic>) -> F,
        interrupt: &mut I,
    ) -> Result<T, I::Error> {
        let call = call(self.inner()?);
        block_on(call, || interrupt.check())
    }
}
