//! The gRPC door: the services of `leasehold.v1`, health and reflection, on the same port as HTTP. The path of a call is
//! the list of modules. Asks the same engine by the same forms as HTTP, and refuses by the same table; never decides who
//! gets a lock.

pub mod frame;
pub mod refused;
pub mod requests;
pub mod shapes;

pub mod files;
pub mod health;
pub mod keep_alive;
pub mod reflection;
pub mod watch;

pub mod asked;
pub mod endings;
pub mod mark;
pub mod operations;
pub mod outcomes;
pub mod told;

pub mod dispatch;
