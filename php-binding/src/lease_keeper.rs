//! `Duly\LeaseKeeper`: a native thread that renews leases while a handler runs, whatever PHP is doing meanwhile.

use duly::blocking;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::client::Client;
use crate::error::Fault;
use crate::job::Job;
use crate::when::span;

/// Renews the leases of the jobs that it holds, until they are let go or their timeout is over.
#[php_class]
#[php(name = "Duly\\LeaseKeeper")]
#[php(flags = ClassFlags::Final)]
pub struct LeaseKeeper {
    keeper: blocking::LeaseKeeper,
}

#[php_impl]
impl LeaseKeeper {
    /// Sets leases to `lease` seconds with each renewal, every third of that. No thread runs before the first `hold`.
    #[php(optional = lease)]
    pub fn __construct(client: &Client, lease: Option<&Zval>) -> PhpResult<Self> {
        let lease = span("lease", lease, duly::DEFAULT_LEASE)?;
        Ok(Self { keeper: blocking::LeaseKeeper::new(client.builder.clone(), lease).map_err(Fault::from)? })
    }

    /// Renews this job's lease from now on.
    pub fn hold(&self, job: &Job) -> PhpResult<()> {
        Ok(self.keeper.hold(job.job.reserved()).map_err(Fault::from)?)
    }

    /// Renews this job's lease no more.
    pub fn let_go(&self, job: &Job) {
        self.keeper.let_go(job.job.reserved());
    }

    /// The ids of jobs whose lease turned out to be lost since the last call.
    pub fn lost(&self) -> Vec<String> {
        self.keeper.lost()
    }
}
