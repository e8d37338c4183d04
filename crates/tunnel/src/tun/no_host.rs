//! Changes of the machine's own set-up, on systems where none are made: every request for one is
//! refused.

use anabranch_net::system::{Feature, ensure_has};

use super::TunError;

/// Refuses: nothing was changed.
///
/// # Errors
/// Always.
pub fn clean_up() -> Result<(), TunError> {
    Ok(ensure_has(Feature::Tun, "--clean-up")?)
}

pub mod default_route {
    //! A proxy's routes and name servers.

    use std::net::IpAddr;

    use anabranch_net::system::{Feature, ensure_has};
    use anabranch_terminal::stop::Stop;

    use crate::tun::client::Interface;
    use crate::tun::{TunError, TunOptions};

    /// Options for the machine's routes and name servers.
    #[derive(Clone, Debug, Default)]
    pub struct RouteOptions {
        /// Whether all traffic of the machine goes through the interface.
        pub is_default_route: bool,
        /// Name servers to use in that time. Empty: the machine's own.
        pub name_servers: Vec<IpAddr>,
    }

    /// A proxy's changes of the machine: there can be none.
    pub enum DefaultRoute {}

    /// Record of no changes.
    pub struct Prepared(());

    impl RouteOptions {
        /// Refuses changes.
        ///
        /// # Errors
        /// A change is asked for.
        pub fn prepare(&self) -> Result<Prepared, TunError> {
            if self.is_default_route {
                ensure_has(Feature::Tun, "--default-route")?;
            }
            Ok(Prepared(()))
        }

        /// Returns no changes.
        ///
        /// # Errors
        /// None here.
        pub fn through(
            &self,
            _: Prepared,
            _: Option<&Interface>,
            _: &TunOptions,
        ) -> Result<Option<DefaultRoute>, TunError> {
            Ok(None)
        }
    }

    impl DefaultRoute {
        /// Cannot be called.
        pub fn tend(&mut self, _: &Stop) {
            match *self {}
        }

        /// Cannot be called.
        ///
        /// # Errors
        /// None.
        pub fn end(self) -> Result<(), TunError> {
            match self {}
        }
    }
}

pub mod nat {
    //! A server's forwarding and address translation.

    use anabranch_net::system::{Feature, ensure_has};

    use crate::tun::{HostError, TunError, TunOptions};

    /// A server's address translation: there can be none.
    pub enum Nat {}

    impl Nat {
        /// Refuses.
        ///
        /// # Errors
        /// Always.
        pub fn set_up(_: &TunOptions) -> Result<Nat, TunError> {
            ensure_has(Feature::Tun, "--nat")?;
            let unsupported = std::io::ErrorKind::Unsupported.into();
            Err(TunError::Nat(HostError::System(unsupported)))
        }
    }
}
