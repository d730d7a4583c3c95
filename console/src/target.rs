//! Which server, and which queue there.

use clap::Args;
use duly::{Client, ClientBuilder, Error, ErrorKind, MAX_QUEUES, Queue, QueueInfo};

use crate::actions::Action;
use crate::show::{argument, can_be_copied, option};
use crate::{Output, invalid};

/// Which server of duly.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// URL of duly's server
    #[arg(long, env = "DULY_URL", hide_env_values = true, default_value = "redis://127.0.0.1:6379")]
    url: String,
    /// The beginning of all keys of duly
    #[arg(long, default_value = duly::DEFAULT_PREFIX)]
    prefix: String,
}

impl Target {
    pub(crate) fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().prefix(&self.prefix);
        // An empty variable is none, as in every language.
        if self.url.is_empty() { builder } else { builder.url(&self.url) }
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        self.builder().build()
    }

    /// For all queues: of a server that is away, one call waits, and the others fail at once until the next probe.
    pub(crate) fn client_for_all_queues(&self) -> Result<Client, Error> {
        self.builder().fail_fast(true).build()
    }

    /// What a command does there, for the log of actions.
    pub(crate) fn action(&self, verb: &str, fields: &[(&str, &str)]) -> Action {
        Action::new(self, verb, fields)
    }
}

/// Which queue.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    target: Target,
    /// The queue
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: String,
    /// Number of its partitions, 0 if it has none [default: what the list of queues says]
    #[arg(long)]
    partitions: Option<u16>,
}

impl One {
    pub(crate) async fn open(&self, output: &Output<'_>) -> Result<Queue, Error> {
        Ok(self.open_with_is_new(output).await?.0)
    }

    /// For settings, which are kept also if there is no such queue: that is said, because the name may be mistyped.
    pub(crate) async fn open_for_settings(&self, output: &mut Output<'_>) -> Result<Queue, Error> {
        let (queue, is_new) = self.open_with_is_new(output).await?;
        if is_new {
            let name = &self.queue;
            output.complain(&format!("no queue {name} was used so far: `duly queues` shows those that were"));
        }
        Ok(queue)
    }

    async fn open_with_is_new(&self, output: &Output<'_>) -> Result<(Queue, bool), Error> {
        let client = self.client(output)?;
        let listed = all(&client).await;
        let partitions = chosen(&client, &self.queue, self.partitions, listed.as_deref()).await?;
        let is_new = listed.is_ok_and(|listed| listed.iter().all(|queue| queue.name != self.queue));
        Ok((open(&client, &self.queue, partitions)?, is_new))
    }

    /// What a command does to it, for the log of actions.
    pub(crate) fn action(&self, verb: &str, fields: &[(&str, &str)]) -> Action {
        let parts = self.partitions.map(|parts| parts.to_string()).unwrap_or_default();
        self.target.action(verb, &[&[("queue", &*self.queue), ("parts", &*parts)], fields].concat())
    }

    /// A client whose calls end when a signal ends the command.
    fn client(&self, output: &Output<'_>) -> Result<Client, Error> {
        self.target.builder().stopped_by(&output.stop).build()
    }

    /// With whether it is on the list of queues. Of two of one name the other one may be gone.
    pub(crate) async fn open_listed(&self, output: &Output<'_>) -> Result<(Queue, bool), Error> {
        let client = self.client(output)?;
        let listed = all(&client).await?;
        let partitions = self.partitions.map_or_else(|| partitions_of(&self.queue, &listed), Ok)?;
        let is_it = |queue: &QueueInfo| queue.name == self.queue && (queue.partitions == 0) == (partitions == 0);
        if let Some(other) = listed.iter().find(|queue| is_it(queue) && queue.partitions != partitions) {
            return Err(not_so_many(other, partitions));
        }
        Ok((open(&client, &self.queue, partitions)?, listed.iter().any(is_it)))
    }
}

/// Which job.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Which {
    /// The job's id
    id: Option<String>,
    /// The business key of the job, instead of its id
    #[arg(long)]
    key: Option<String>,
}

/// What names a job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By<'a> {
    Id(&'a str),
    Key(&'a str),
}

impl By<'_> {
    /// Why a queue has no such job. The key of one that has failed is free.
    pub(crate) fn absence(&self, queue: &str) -> String {
        match self {
            Self::Id(_) => format!("no job of {queue} has this id: it is done, was cancelled, or never was there"),
            Self::Key(key) => {
                let prefix = if can_be_copied(key) { option(" --key-prefix", key) } else { String::new() };
                format!(
                    "no live job of {queue} has this key: it is done, has failed, was cancelled, or never was there; \
                     `duly find --state failed{prefix} {}` shows those that have failed",
                    argument(queue)
                )
            }
        }
    }
}

impl Which {
    /// As the log of actions has it.
    pub(crate) fn fields(&self) -> [(&str, &str); 2] {
        [("id", self.id.as_deref().unwrap_or("")), ("key", self.key.as_deref().unwrap_or(""))]
    }

    pub(crate) fn is_given(&self) -> bool {
        self.id.is_some() || self.key.is_some()
    }

    /// Errors: `InvalidArgument` if neither is given.
    pub(crate) fn by(&self) -> Result<By<'_>, Error> {
        let by_key = || self.key.as_deref().map(By::Key);
        self.id
            .as_deref()
            .map(By::Id)
            .or_else(by_key)
            .ok_or_else(|| invalid("say which job: its id, or --key; or which ones: --name or another filter"))
    }
}

/// `partitions`: 0 for a queue that has none.
pub(crate) fn open(client: &Client, name: &str, partitions: u16) -> Result<Queue, Error> {
    match partitions {
        0 => client.queue(name),
        count => client.partitioned_queue(name, count),
    }
}

/// All queues that were used, by name.
pub(crate) async fn all(client: &Client) -> Result<Vec<QueueInfo>, Error> {
    let (mut queues, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.queues(MAX_QUEUES, cursor.as_deref()).await?;
        queues.extend(page.queues);
        match page.cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(queues),
        }
    }
}

/// The number of partitions that was given for this queue, or that the list says.
///
/// Errors: as of [`given_for`] and [`partitions_of`], and that of the list; who may not read the list must know the number.
pub(crate) async fn chosen(
    client: &Client,
    name: &str,
    given: Option<u16>,
    listed: Result<&[QueueInfo], &Error>,
) -> Result<u16, Error> {
    match (given, listed) {
        (None, Ok(listed)) => partitions_of(name, listed),
        (Some(given), Ok(listed)) => given_for(client, name, given, listed).await,
        (Some(given), Err(error)) if error.kind() == ErrorKind::PermissionDenied => Ok(given),
        (None, Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "the list of queues, which says how many partitions a queue has, cannot be read: give `--partitions`, 0 if it \
                 has none. {error}"
            ),
        )),
        (_, Err(error)) => Err(error.clone()),
    }
}

/// The number that was given, if the list has the queue with it, or not at all. One beside it of the same name, which is not listed but has
/// keys, may be meant too.
///
/// Errors: `InvalidArgument` if the list says another one.
async fn given_for(client: &Client, name: &str, given: u16, listed: &[QueueInfo]) -> Result<u16, Error> {
    let mut same = listed.iter().filter(|queue| queue.name == name);
    let Some(first) = same.clone().next() else { return Ok(given) };
    if same.clone().any(|queue| queue.partitions == given) {
        return Ok(given);
    }
    let of_kind = same.find(|queue| (queue.partitions == 0) == (given == 0));
    let is_there = of_kind.is_none() && open(client, name, given)?.memory().await.is_ok_and(|bytes| bytes > 0);
    if is_there { Ok(given) } else { Err(not_so_many(of_kind.unwrap_or(first), given)) }
}

/// Jobs in the parts of another number would be in no part of this one.
fn not_so_many(listed: &QueueInfo, given: u16) -> Error {
    let (name, right) = (&listed.name, listed.partitions);
    let has = match right {
        0 => "no partitions".to_owned(),
        1 => "1 partition".to_owned(),
        _ => format!("{right} partitions"),
    };
    let changed = match given {
        0 | 1 => String::new(),
        _ if given > right => {
            format!("; if it has {given} by now, push a job to it once as such a queue, and it is listed so")
        }
        _ => format!("; if it has {given} by now, take it off the list when it is empty: `duly delete {name}`"),
    };
    invalid(format!("the queue {name} has {has}, not {given}: say `--partitions {right}`, or leave it out{changed}"))
}

/// What the list says of the queue of this name; 0 for one that has no partitions, or is not on the list.
///
/// Errors: `InvalidArgument` if two queues have the name, one with partitions and one without.
fn partitions_of(name: &str, listed: &[QueueInfo]) -> Result<u16, Error> {
    let same: Vec<u16> = listed.iter().filter(|queue| queue.name == name).map(|queue| queue.partitions).collect();
    let most = same.iter().copied().max().unwrap_or(0);
    if same.len() > 1 {
        return Err(invalid(format!(
            "two queues have the name {name}: say `--partitions {most}` for the one with partitions, `--partitions 0` for the other one"
        )));
    }
    Ok(most)
}
