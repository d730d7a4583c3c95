//! Behaviour of connections against real servers. Every test starts its own and owns its ports.

mod arrangement;
mod fixture;
mod outage;
mod refusal;
mod secure;
mod url_table;
mod wait;
