//! A lock that is taken once for a time, and that nobody renews.

use std::time::Duration;

use super::asked::Asked;
use super::of_lock;
use super::owner::Owner;
use crate::queue::Client;
use crate::value::error::Error;
use crate::value::name;

/// A name that is claimed until its time is over, or until it is taken back. Dropped, it stays claimed.
#[doc(hidden)] // for the page
pub struct Claim {
    owner: Owner,
    ttl: Duration,
}

impl Client {
    /// Claims a lock's name for so long; nothing if another one has it. A call that fails claims nothing.
    ///
    /// Errors: `InvalidArgument`.
    #[doc(hidden)] // for the page
    pub async fn claim(&self, name: &str, ttl: Duration) -> Result<Option<Claim>, Error> {
        let claim = async {
            name::check_lock(name)?;
            Asked::of(Owner::new(self, name)?, ttl).claim().await
        };
        let owner = claim.await.map_err(|error| of_lock(error, name))?;
        Ok(owner.map(|owner| Claim { owner, ttl }))
    }
}

impl Claim {
    /// Another one may claim it. That the server does not answer is no error: it is taken back in the background.
    pub async fn take_back(self) {
        if self.owner.give_up().await.is_err() {
            self.owner.leave(self.ttl);
        }
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("name", &self.owner.part.name()).finish_non_exhaustive()
    }
}
