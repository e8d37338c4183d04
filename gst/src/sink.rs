//! `anabranchsink`: takes MPEG-TS, sends it over several paths, and reports the bitrate that they
//! carry.

use gst::glib;
use gst::prelude::*;

mod imp;
mod settings;

glib::wrapper! {
    /// The GObject wrapper of the element.
    pub struct AnabranchSink(ObjectSubclass<imp::AnabranchSink>)
        @extends gst_base::BaseSink, gst::Element, gst::Object;
}

/// Registers the element.
pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let of = AnabranchSink::static_type();
    gst::Element::register(Some(plugin), "anabranchsink", gst::Rank::NONE, of)
}
