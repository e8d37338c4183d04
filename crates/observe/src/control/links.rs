//! Links by which senders and phones join a receiver, for the answer to `GET /control/links`.

use core::fmt;

use serde::{Deserialize, Serialize};

/// All links of a receiver that are good now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The links.
    pub links: Vec<JoinLink>,
}

/// A link. It contains a secret, which `Debug` leaves out.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinLink {
    /// Stream of a phone; `None` for a sender of our own protocol, which gets a name later.
    pub stream: Option<String>,
    /// Program that takes the link: `Anabranch`, or the apps of phones.
    pub app: String,
    /// The link.
    pub link: String,
    /// Fields for an app into which they are typed; `None` if there are none.
    pub fields: Option<String>,
    /// Rows of the link's QR code, without a margin. `1` is a dark module, `0` a light one. There
    /// are none if the link is too long for a code.
    pub qr_code: Vec<String>,
}

impl fmt::Debug for JoinLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoinLink { stream, app, .. } = self;
        f.debug_struct("JoinLink")
            .field("stream", stream)
            .field("app", app)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugging_shows_no_secret() {
        let secret = "correcthorse";
        let link = JoinLink {
            stream: Some("van".to_owned()),
            app: "Moblin".to_owned(),
            link: format!("moblin://?{secret}"),
            fields: Some(secret.to_owned()),
            qr_code: vec![secret.to_owned()],
        };
        let shown = format!("{:?}", Links { links: vec![link] });
        assert!(shown.contains("van") && !shown.contains(secret), "{shown}");
    }
}
