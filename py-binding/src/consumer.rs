//! `duly._core.PullEngine`: what `duly.Consumer` and `duly.aio.Consumer` pull from.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use duly::blocking::{self, Delivery};
use pyo3::prelude::*;

use crate::aio::{AsyncClient, AsyncJob, AsyncQueue, start, start_reserve};
use crate::client::Client;
use crate::convert::{self, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::job::{Inner, Job, ReservedJob};
use crate::queue::Queue;
use crate::waiting::wait as waited;
use crate::worker::{Limits, WorkerEvent, WorkerReport, settings};

/// One wait for a job; another follows.
const A_WAIT: Duration = Duration::from_secs(3600);

/// The engine of a consumer: fetches jobs for who asks, renews leases and sends outcomes on a native thread.
#[pyclass(frozen, weakref, module = "duly._core")]
pub(crate) struct PullEngine {
    consumer: Arc<blocking::Consumer>,
    queues: Arc<Vec<(String, Py<PyAny>)>>,
    /// Do its jobs have the verbs of asyncio?
    is_async: bool,
}

#[pymethods]
impl PullEngine {
    #[new]
    #[pyo3(signature = (client, queues, *, concurrency, lease, grace, timeout, name, prefetch))]
    #[allow(clippy::too_many_arguments)] // they have names
    fn new(
        client: &Bound<'_, PyAny>,
        queues: &Bound<'_, PyAny>,
        concurrency: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        grace: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
        name: Option<Text<Name>>,
        prefetch: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = client.py();
        let limits = Limits { max_jobs: None, prefetch, timeout };
        let settings = settings(queues, concurrency, lease, grace, name, limits)?;
        let is_async = client.is_instance_of::<AsyncClient>();
        let client = if is_async {
            client.cast::<AsyncClient>()?.get().client.clone()
        } else {
            client.cast::<Client>()?.get().client().clone()
        };
        let consumer = py.detach(|| blocking::Consumer::start(&client, settings)).or_raise()?;
        let with_queue = |queue: &blocking::Queue| -> PyResult<_> {
            let object = if is_async {
                Py::new(py, AsyncQueue::new(queue.clone()))?.into_any()
            } else {
                Py::new(py, Queue::new(queue.clone()))?.into_any()
            };
            Ok((queue.name().to_owned(), object))
        };
        let queues = consumer.queues().iter().map(with_queue).collect::<PyResult<_>>()?;
        Ok(Self { consumer: Arc::new(consumer), queues: Arc::new(queues), is_async })
    }

    /// Return a job that is here, without a wait; None if there is none.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let delivery = self.consumer.take().or_raise()?;
        delivery.map(|delivery| self.job(py, delivery)).transpose()
    }

    /// Return the next job; None if there is none within the wait (None: for ever), or if there will be none.
    #[pyo3(signature = (wait=None))]
    fn next(&self, py: Python<'_>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        let wait = wait.map(|wait| convert::duration("wait", wait)).transpose()?;
        let delivery = waited(py, |signals| {
            loop {
                let delivery = self.consumer.next(wait.unwrap_or(A_WAIT), signals)?;
                if delivery.is_some() || wait.is_some() || self.consumer.is_stopping() {
                    return Ok::<_, Failure>(delivery);
                }
            }
        })?;
        delivery.map(|delivery| self.job(py, delivery)).transpose()
    }

    /// Do the same for asyncio.
    #[pyo3(signature = (wait=None))]
    fn next_async<'py>(&self, py: Python<'py>, wait: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let wait = wait.map(|wait| convert::duration("wait", wait)).transpose()?;
        let consumer = Arc::clone(&self.consumer);
        let next = async move {
            loop {
                let delivery = consumer.next_async(wait.unwrap_or(A_WAIT)).await?;
                if delivery.is_some() || wait.is_some() || consumer.is_stopping() {
                    return Ok(delivery);
                }
            }
        };
        let queues = Arc::clone(&self.queues);
        start_reserve(py, next, move |py, delivery| {
            Ok(delivery.map(|delivery| async_job(py, delivery, &queues)).transpose()?.unwrap_or_else(|| py.None()))
        })
    }

    /// Return the number by which events name this job, which came from here.
    #[staticmethod]
    fn number(job: &Bound<'_, ReservedJob>) -> u64 {
        job.get().delivery().map_or(0, Delivery::number)
    }

    /// Return the next event; None if there is none within the wait, or if it has ended.
    fn event(&self, py: Python<'_>, wait: f64) -> PyResult<Option<WorkerEvent>> {
        let wait = Duration::from_secs_f64(wait);
        let event = waited(py, |signals| self.consumer.event(wait, signals))?;
        Ok(event.map(|event| WorkerEvent::new(&event)))
    }

    /// Give nothing more, and give back what was fetched ahead.
    fn stop(&self) {
        self.consumer.stop();
    }

    /// True once it was stopped, or has ended by itself.
    #[getter]
    fn is_stopping(&self) -> bool {
        self.consumer.is_stopping()
    }

    /// True once it has ended.
    #[getter]
    fn is_over(&self) -> bool {
        self.consumer.is_over()
    }

    /// Stop it, wait for what is out within this time (default: the grace), and end it.
    #[pyo3(signature = (within=None))]
    fn close(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<WorkerReport> {
        let within = within.map(|within| convert::duration("within", within)).transpose()?;
        waited(py, |signals| self.consumer.close(within, signals)).map(WorkerReport::from)
    }

    /// Do the same for asyncio.
    #[pyo3(signature = (within=None))]
    fn close_async<'py>(&self, py: Python<'py>, within: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let within = within.map(|within| convert::duration("within", within)).transpose()?;
        let consumer = Arc::clone(&self.consumer);
        // Now: a task that is cancelled before the first poll stops it as well.
        consumer.stop_within(within);
        let close = async move { consumer.close_async(within).await };
        start(py, close, |py, report| Ok(Py::new(py, WorkerReport::from(report))?.into_any()))
    }

    /// Return a file descriptor that is readable while there is something to take.
    fn events(&self) -> PyResult<RawFd> {
        self.consumer.sign().or_raise()
    }

    /// Return what it has done so far.
    fn report(&self) -> WorkerReport {
        self.consumer.report().into()
    }
}

impl PullEngine {
    fn job(&self, py: Python<'_>, delivery: Delivery) -> PyResult<Py<PyAny>> {
        if self.is_async {
            return async_job(py, delivery, &self.queues);
        }
        let queue = queue_of(py, &delivery, &self.queues);
        Job::of(py, Inner::Out(delivery), queue).map(Py::into_any)
    }
}

fn async_job(py: Python<'_>, delivery: Delivery, queues: &[(String, Py<PyAny>)]) -> PyResult<Py<PyAny>> {
    let queue = queue_of(py, &delivery, queues);
    AsyncJob::of(py, ReservedJob::new(Inner::Out(delivery), queue)).map(Py::into_any)
}

fn queue_of(py: Python<'_>, delivery: &Delivery, queues: &[(String, Py<PyAny>)]) -> Py<PyAny> {
    let name = delivery.job().queue().name();
    // A job comes from one of the queues that the engine was started with.
    let index = queues.iter().position(|(queue, _)| queue == name).unwrap_or_default();
    queues[index].1.clone_ref(py)
}
