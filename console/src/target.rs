//! Which server, and which queue there.

use clap::Args;
use duly::{Client, ClientBuilder, Error, MAX_QUEUES, Queue, QueueInfo};

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
}

/// Which queue.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    target: Target,
    /// The queue
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: String,
    /// Number of its partitions [default: what the list of queues says]
    #[arg(long)]
    partitions: Option<u16>,
}

impl One {
    pub(crate) async fn open(&self) -> Result<Queue, Error> {
        let client = self.target.client()?;
        let partitions = match self.partitions {
            Some(partitions) => Some(partitions),
            None => partitions_of(&client, &self.queue).await?,
        };
        open(&client, &self.queue, partitions)
    }
}

/// `partitions`: nothing for a queue that has none.
pub(crate) fn open(client: &Client, name: &str, partitions: Option<u16>) -> Result<Queue, Error> {
    match partitions {
        Some(count) => client.partitioned_queue(name, count),
        None => client.queue(name),
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

/// What the list says of the queue of this name: one that is there with and without partitions is the one without.
pub(crate) async fn partitions_of(client: &Client, name: &str) -> Result<Option<u16>, Error> {
    let queues = all(client).await?;
    let found = queues.iter().filter(|queue| queue.name == name).map(|queue| queue.partitions).min();
    Ok(found.filter(|partitions| *partitions > 0))
}
