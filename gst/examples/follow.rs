//! A camera whose encoder follows the links: `x264enc`'s bitrate is bound to the target of
//! `anabranchsink`. The picture is snow, which uses every bit. Prints a JSON line for each change.
//!
//! ```text
//! follow SECONDS TO KEY_FILE PEER [VIA,VIA]
//! ```

use gst::prelude::*;

/// Share of the target, in percent, for the overhead of MPEG-TS and for rate control, which follows
/// after some frames.
const SPARE_PERCENT: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, to, key, peer, via @ ..] = &*arguments else {
        return Err("follow SECONDS TO KEY_FILE PEER [VIA,VIA]".into());
    };
    gst::init()?;
    gstanabranch::plugin_register_static()?;
    let buffers = seconds.parse::<u64>()? * 25;
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc is-live=true pattern=snow num-buffers={buffers} ! \
         video/x-raw,width=320,height=180,framerate=25/1 ! \
         x264enc name=encoder tune=zerolatency speed-preset=ultrafast \
         key-int-max=50 vbv-buf-capacity=80 intra-refresh=true ! video/x-h264,profile=baseline ! \
         mpegtsmux alignment=7 ! anabranchsink name=sink latency=500"
    ))?;
    let pipeline = pipeline
        .downcast::<gst::Pipeline>()
        .map_err(|_| "no pipeline")?;
    let by_name = |name| pipeline.by_name(name).ok_or("it is in the pipeline");
    let (sink, encoder) = (by_name("sink")?, by_name("encoder")?);
    sink.set_property("to", to);
    sink.set_property("key", key);
    sink.set_property("peer", peer);
    if let [via] = via {
        sink.set_property("via", via);
    }
    sink.bind_property("target-bitrate", &encoder, "bitrate")
        .transform_to(|_, target: u32| {
            Some((target / 1_000 * (100 - SPARE_PERCENT) / 100).max(100))
        })
        .sync_create()
        .build();
    let followed_encoder = encoder.clone();
    sink.connect("target", false, move |values| {
        let target: u32 = values[1].get().unwrap_or_default();
        let kbit: u32 = followed_encoder.property("bitrate");
        println!(
            "{{\"target_bps\":{target},\"encoder_bps\":{}}}",
            kbit * 1_000
        );
        None
    });
    sink.connect("connected", false, |values| {
        eprintln!(
            "connected to {}",
            values[1].get::<String>().unwrap_or_default()
        );
        None
    });
    pipeline.set_state(gst::State::Playing)?;
    let bus = pipeline.bus().ok_or("it has a bus")?;
    let mut result = Ok(());
    for message in bus.iter_timed(gst::ClockTime::NONE) {
        match message.view() {
            gst::MessageView::Eos(_) => break,
            gst::MessageView::Error(error) => {
                result = Err(format!("{}: {:?}", error.error(), error.debug()).into());
                break;
            }
            _ => {}
        }
    }
    pipeline.set_state(gst::State::Null)?;
    result
}
