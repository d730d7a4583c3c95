//! A queue that is asked for anew at each call is the same one to its client.

use crate::support::Server;
use duly::{Client, NewJob};

fn script_calls(server: &Server) -> u64 {
    let stats = server.redis_cli(&["INFO", "commandstats"]);
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse().ok();
    stats.lines().filter(|line| line.starts_with("cmdstat_evalsha:")).find_map(calls).unwrap_or(0)
}

/// The scripts are known to the server, and the client to its levels.
async fn client_of(server: &Server) -> Client {
    let client = server.client();
    client.queue("q").unwrap().push(NewJob::new(&0).unwrap().priority(1)).await.unwrap();
    client.queue("q").unwrap().push(NewJob::new(&0).unwrap().priority(8)).await.unwrap();
    client
}

#[tokio::test]
async fn the_levels_in_use_are_not_learnt_anew() {
    let server = Server::start();
    let client = client_of(&server).await;
    let before = script_calls(&server);
    for number in 0..20 {
        client.queue("q").unwrap().push(NewJob::new(&number).unwrap()).await.unwrap();
    }
    assert_eq!(script_calls(&server) - before, 20);
}

#[tokio::test]
async fn calls_of_many_tasks_travel_together() {
    let server = Server::start();
    let client = client_of(&server).await;
    let before = script_calls(&server);
    let mut pushes = tokio::task::JoinSet::new();
    for number in 0..500 {
        let client = client.clone();
        pushes.spawn(async move { client.queue("q").unwrap().push(NewJob::new(&number).unwrap()).await.unwrap() });
    }
    assert_eq!(pushes.join_all().await.len(), 500);
    let calls = script_calls(&server) - before;
    assert!(calls <= 50, "{calls} calls");
    assert_eq!(client.queue("q").unwrap().counts().await.unwrap().ready, 502);
}
