//! A GStreamer plugin with one element, `anabranchsink`.

use gst::glib;

mod sink;

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    sink::register(plugin)
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
