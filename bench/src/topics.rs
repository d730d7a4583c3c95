//! Topics: how many messages a second are published, and pulled and acked; and the memory of one.

use std::time::Instant;

use duly::{Data, PullOptions, SubscribeOptions, Topic};

use crate::RUNS;
use crate::cycle::count;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const MESSAGES: usize = 100_000;
const AT_ONCE: usize = 100;

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    let data = vec![Data::from_json(r#"{"order_id":42,"kind":"paid"}"#, 100)?; AT_ONCE];
    let (mut published, mut one, mut read, mut memory) =
        (Figure::default(), Figure::default(), Figure::default(), Figure::default());
    for _ in 0..RUNS {
        server.flush()?;
        let topic = server.client()?.topic("bench")?;
        topic.subscribe("reader", &SubscribeOptions::new()).await?;
        let before = server.memory()?;
        let started = Instant::now();
        for _ in 0..MESSAGES / AT_ONCE {
            topic.publish_all(&data).await?;
        }
        published.add(count(MESSAGES) / started.elapsed().as_secs_f64());
        memory.add((server.memory()? - before) / count(MESSAGES));
        let started = Instant::now();
        read_all(&topic).await?;
        read.add(count(MESSAGES) / started.elapsed().as_secs_f64());
        let started = Instant::now();
        for _ in 0..MESSAGES / 20 {
            topic.publish_all(&data[..1]).await?;
        }
        one.add(count(MESSAGES / 20) / started.elapsed().as_secs_f64());
    }
    published.print("topics.published_per_s.batches_of_100", "1/s");
    one.print("topics.published_per_s.one_at_a_time", "1/s");
    read.print("topics.pulled_and_acked_per_s.batches_of_100", "1/s");
    memory.print("topics.bytes_per_message", "B");
    server.flush()
}

async fn read_all(topic: &Topic) -> Result<(), Failure> {
    let mut left = MESSAGES;
    while left > 0 {
        let messages = topic.pull("reader", &PullOptions::new().max(AT_ONCE)).await?;
        let ids: Vec<_> = messages.iter().map(|message| message.id.as_str()).collect();
        topic.ack("reader", &ids).await?;
        left = left.checked_sub(ids.len()).filter(|_| !ids.is_empty()).ok_or("some messages did not come")?;
    }
    Ok(())
}
