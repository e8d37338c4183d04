//! Changes of the machine's own set-up: routes and name servers at a proxy, address translation at
//! a server. All are undone at the end, or by the next start after a crash.
//!
//! | file | idea |
//! |---|---|
//! | `act.rs` | one act: a command, or a file's new content |
//! | `file_content.rs` | the content of a file, or its absence |
//! | `step.rs` | an act, and the change that it leaves |
//! | `change.rs` | a change as data, with the act that undoes it |
//! | `record.rs` | changes, kept in a file for the case of a crash |
//! | `routes.rs` | plan: routes and rules of a proxy |
//! | `names.rs` | plan: name servers of a proxy |
//! | `nat.rs` | plan: forwarding and address translation of a server |
//! | `default_route.rs` | the proxy's changes, made when the server has granted its address |

mod act;
mod change;
pub mod default_route;
mod file_content;
mod names;
pub mod nat;
mod record;
mod routes;
mod step;

pub use record::clean_up;
