//! `duly._core.LeaseKeeper`: renews leases from a native thread, also while a handler keeps the GIL.

use duly::blocking;
use pyo3::prelude::*;

use crate::client::Client;
use crate::convert;
use crate::error::OrRaise as _;
use crate::job::ReservedJob;

#[pyclass(frozen, module = "duly._core")]
pub(crate) struct LeaseKeeper {
    keeper: blocking::LeaseKeeper,
}

#[pymethods]
impl LeaseKeeper {
    #[new]
    fn new(client: &Bound<'_, Client>, lease: &Bound<'_, PyAny>) -> PyResult<Self> {
        let lease = convert::duration("lease", lease)?;
        blocking::LeaseKeeper::new(client.get().builder(), lease).map(|keeper| Self { keeper }).or_raise()
    }

    /// Renews this job's lease from now on.
    fn hold(&self, py: Python<'_>, job: &Bound<'_, ReservedJob>) -> PyResult<()> {
        let job = job.get().job();
        py.detach(|| self.keeper.hold(job)).or_raise()
    }

    /// Renews this job's lease no more.
    fn let_go(&self, py: Python<'_>, job: &Bound<'_, ReservedJob>) {
        let job = job.get().job();
        py.detach(|| self.keeper.let_go(job));
    }

    /// The ids of jobs whose lease turned out to be lost since the last call.
    fn lost(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.keeper.lost())
    }
}
