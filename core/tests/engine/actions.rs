//! The log of what operators do.

use duly::{Action, Client, ErrorKind, MAX_ACTIONS};

use super::support::Server;
use super::support::proxy::{Fault, Proxy};

async fn whats(client: &Client) -> Vec<String> {
    client.actions(MAX_ACTIONS, 0).await.unwrap().into_iter().map(|action| action.what).collect()
}

#[tokio::test]
async fn the_newest_action_is_the_first() {
    let server = Server::start();
    let client = server.client();
    assert_eq!(client.actions(10, 0).await.unwrap(), []);
    let before: u64 = server.redis_cli(&["TIME"]).lines().next().unwrap().parse().unwrap();
    for number in 0..5 {
        client.note_action("ann@host", &format!("pause queue=q{number}"), "done").await.unwrap();
    }
    assert_eq!(whats(&client).await, [4, 3, 2, 1, 0].map(|number| format!("pause queue=q{number}")));
    let page = client.actions(2, 1).await.unwrap();
    let Action { at, who, what, outcome, .. } = page[0].clone();
    assert!(at.get() >= before * 1000, "by the server's clock");
    assert_eq!((who.as_str(), what.as_str(), outcome.as_str()), ("ann@host", "pause queue=q3", "done"));
    assert_eq!((page.len(), page[1].what.as_str()), (2, "pause queue=q2"));
    assert_eq!(client.actions(10, 5).await.unwrap(), []);
    let other = server.builder().prefix("other:").build().unwrap();
    assert_eq!(whats(&other).await, [""; 0], "each prefix has a log of its own");
    for limit in [0, MAX_ACTIONS + 1] {
        assert_eq!(client.actions(limit, 0).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn the_log_keeps_the_newest_thousand() {
    let server = Server::start();
    let client = server.client();
    let older: Vec<_> = (0..MAX_ACTIONS).map(|number| format!("5\nann\nolder {number}\ndone")).collect();
    let push = ["RPUSH", "duly:{actions}:actions"].into_iter().chain(older.iter().map(String::as_str));
    server.redis_cli(&push.collect::<Vec<_>>());
    client.note_action("ann", &"x".repeat(1000), "done").await.unwrap();
    let kept = whats(&client).await;
    assert_eq!(kept.len(), MAX_ACTIONS);
    assert_eq!((kept[0].len(), kept[999].as_str()), (256, "older 1"));
}

/// Its reply is lost, so that it is sent again; or a copy of it comes when another one was noted.
#[tokio::test]
async fn an_action_is_noted_once() {
    let server = Server::start();
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::HoldRequest] {
        let proxy = Proxy::before(server.port()).await;
        let client = proxy.builder().prefix(&format!("{fault:?}:")).build().unwrap();
        client.note_action("ann", "first", "done").await.unwrap();
        proxy.next_after(0, fault);
        client.note_action("ann", "second", "done").await.unwrap();
        proxy.happened().await;
        client.note_action("ann", "third", "done").await.unwrap();
        if fault == Fault::HoldRequest {
            proxy.deliver().await;
        }
        assert_eq!(whats(&client).await, ["third", "second", "first"], "{fault:?}");
    }
}

#[tokio::test]
async fn the_permissions_of_the_docs_are_enough_for_the_log() {
    let server = Server::start();
    let docs = include_str!("../../../docs/keys-and-scripts.md");
    let line = docs.lines().find_map(|line| line.strip_prefix("> ACL SETUSER shop ")).unwrap();
    let rules = line.split(' ').map(|rule| if rule == ">password" { ">s3cr3t" } else { rule });
    server.redis_cli(&["ACL", "SETUSER", "shop"].into_iter().chain(rules).collect::<Vec<_>>());
    let client = server.builder().username("shop").password("s3cr3t").build().unwrap();
    client.note_action("ann", "pause queue=q", "done").await.unwrap();
    assert_eq!(whats(&client).await, ["pause queue=q"]);
    // A client without the right to write there gets the error, and its jobs go on.
    server.redis_cli(&["ACL", "SETUSER", "shop", "resetkeys", "~duly:{orders}:*", "~duly:permissions:*"]);
    let client = server.builder().username("shop").password("s3cr3t").build().unwrap();
    assert_eq!(client.note_action("ann", "b", "done").await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    client.queue("orders").unwrap().pause().await.unwrap();
}

#[tokio::test]
async fn what_somebody_else_keeps_under_its_key_is_an_error_and_stays() {
    let server = Server::start();
    server.redis_cli(&["SET", "duly:{actions}:actions", "somebody's"]);
    let client = server.client();
    for error in [client.note_action("ann", "a", "done").await.unwrap_err(), client.actions(10, 0).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    assert_eq!(server.redis_cli(&["GET", "duly:{actions}:actions"]).trim(), "somebody's");
}
