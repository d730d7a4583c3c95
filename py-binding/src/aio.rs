//! The asyncio twins: each call gives a future that the engine's background thread completes.

mod client;
mod future;
mod job;
mod mailbox;
mod message;
mod queue;
mod reserved;
mod schedules;
mod topic;

pub(crate) use client::{_async_sibling, AsyncClient};
pub(crate) use future::{ready, start, start_reserve};
pub(crate) use job::{AsyncJob, start_lock_of};
pub(crate) use message::AsyncMessage;
pub(crate) use queue::AsyncQueue;
pub(crate) use reserved::_give_back;
pub(crate) use schedules::AsyncSchedules;
pub(crate) use topic::AsyncTopic;
