//! `anabranchsrc`: receives MPEG-TS that came over several paths.

use gst::glib;
use gst::prelude::*;

mod imp;
mod settings;
mod statistics;

glib::wrapper! {
    /// The GObject wrapper of the element.
    pub struct AnabranchSrc(ObjectSubclass<imp::AnabranchSrc>)
        @extends gst_base::PushSrc, gst_base::BaseSrc, gst::Element, gst::Object;
}

/// Registers the element.
pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let of = AnabranchSrc::static_type();
    gst::Element::register(Some(plugin), "anabranchsrc", gst::Rank::NONE, of)
}
