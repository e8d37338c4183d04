//! A GStreamer plugin with two elements, `anabranchsink` and `anabranchsrc`.

use gst::glib;

mod sink;
mod source;

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    sink::register(plugin)?;
    source::register(plugin)
}

/// Returns the caps of both elements.
fn transport_stream() -> gst::Caps {
    gst::Caps::builder("video/mpegts")
        .field("systemstream", true)
        .field("packetsize", 188_i32)
        .build()
}

gst::plugin_define!(
    anabranch,
    env!("CARGO_PKG_DESCRIPTION"),
    plugin_init,
    env!("CARGO_PKG_VERSION"),
    "MIT/X11",
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_NAME"),
    "https://example.org/anabranch"
);
