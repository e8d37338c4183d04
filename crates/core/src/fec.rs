//! Forward error correction of a session: the contract of its policies, and the budget and the
//! paths of repairs. The code is a crate of its own, `anabranch-fec`.
//!
//! Every fragment of a session that uses FEC has a *symbol number*, consecutive in the order of
//! first sending. A repair covers a window of symbols: those of a frame, or the last ones.

mod budget;
mod media_shares;
mod policy;
mod repair_placement;

pub(crate) use budget::Budget;
pub(crate) use media_shares::MediaShares;
pub use policy::{FecPolicy, FecPolicyFactory, FrameToProtect, Protection, SlidingWindow};
pub(crate) use repair_placement::RepairPlacement;
